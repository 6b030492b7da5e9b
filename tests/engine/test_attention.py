"""Attention in plain torch against a float64 reference that knows neither trees nor pools."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sgnb.engine.attention import (
    AttentionBackend,
    LayerOptions,
    torch_backend,
    torch_softmax,
)
from sgnb.engine.attention.cascade import find_cascade
from sgnb.engine.attention.torch_backend import TorchAttention
from sgnb.engine.attention.torch_softmax import Mask, attend, attend_slowly
from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.cache.radix import RadixTree
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.request import Request
from sgnb.engine.request.step_builder import attention_input
from sgnb.engine.step_input import NO_KEY, SHORT, AttentionInput
from sgnb.sampling import SamplingParams

SLOTS = 256


def reference(
    q: Tensor, k: Tensor, v: Tensor, options: LayerOptions, whole: bool = False
) -> Tensor:
    """The last rows of a sequence: q [heads, rows, dim] against all its keys [tokens, kv heads,
    dim] and values. whole: a row also sees later rows."""
    groups, rows, tokens = len(q) // k.shape[1], q.shape[1], len(k)
    k, v = (x.double().repeat_interleave(groups, 1) for x in (k, v))
    scores = torch.einsum("hrd,thd->hrt", q.double(), k) * options.scaling
    if options.softcap is not None:
        scores = options.softcap * torch.tanh(scores / options.softcap)
    back = torch.arange(tokens - rows, tokens)[:, None] - torch.arange(tokens)
    hidden = (back < 0) & (not whole)
    if options.window is not None:
        hidden = hidden | (back >= options.window)
    scores = scores.masked_fill(hidden, -torch.inf)
    if options.sinks is not None:
        scores = torch.cat([scores, options.sinks.double()[:, None, None].expand(-1, rows, 1)], 2)
        v = torch.cat([v, torch.zeros_like(v[:1])])
    return torch.einsum("hrt,thd->rhd", scores.softmax(-1), v)


class Rows(NamedTuple):
    """Tokens start .. end of a request: the rows from `first` on."""

    request: Request
    start: int
    end: int
    first: int

    @property
    def rows(self) -> slice:
        return slice(self.first, self.first + self.end - self.start)


def each(batch: Batch) -> list[Rows]:
    """One entry a request."""
    columns = batch.starts.tolist(), batch.ends.tolist(), batch.first_rows.tolist()
    return [Rows(*row) for row in zip(batch.requests, *columns, strict=True)]


def batch_of_spans(spans: Iterable[tuple[Request, int, int]]) -> Batch:
    """(request, start, length); short ones come first, as a batch must have them."""
    spans = sorted(spans, key=lambda span: span[2] > SHORT)
    requests, starts, lengths = zip(*spans, strict=True)
    return Batch(list(requests), starts, lengths)


def random_batch(rng: random.Random, decodes: float = 0) -> Batch:
    """Requests below a random tree: some decode one token, some extend by several. With so much
    probability more, one decodes."""
    tree, pool = RadixTree(), SlotAllocator(SLOTS)
    order = np.random.default_rng(rng.randrange(1 << 30))
    pool._stack = order.permutation(SLOTS).astype(np.int32) if rng.random() < 0.7 else pool._stack
    trunk = [1] * rng.choice([0, 3, 30])
    spans = []
    for i in range(rng.randint(1, 5)):
        prompt = (trunk + rng.choice([[], [2] * 10, [2] * 10 + [3] * 4])) + [10 + i] * rng.randint(
            1, 8
        )
        request = Request(i, prompt, SamplingParams(), 1)
        tokens = request.tokens
        node = tree.match(tokens[:-1])
        tree.lock(node)
        request.slots[: node.end] = node.path_slots()
        request.slots[node.end : request.num_tokens] = pool.allocate(request.num_tokens - node.end)
        start = rng.randint(
            node.end, request.num_tokens - 1
        )  # what lies between was computed and is the request's own
        if rng.random() < 0.5:
            old, node = node, tree.insert(tokens[:start], request.slots[:start], start=node).node
            tree.lock(node)
            tree.unlock(old)
        request.node, request.num_computed, request.num_slots = node, start, request.num_tokens
        if rng.random() < decodes:
            start = request.num_tokens - 1
        spans.append((request, start, request.num_tokens - start))
    return batch_of_spans(spans)


OPTIONS = {
    "plain": LayerOptions(0.3),
    "window": LayerOptions(0.3, window=5),
    "softcap": LayerOptions(0.3, softcap=2.0),
    "sinks": LayerOptions(0.3, sinks=torch.linspace(-2, 2, 4)),
    "all": LayerOptions(0.5, 7, 3.0, torch.linspace(-1, 3, 4)),
}


@pytest.mark.parametrize("kind", sorted(OPTIONS))
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("value_dim", [8, 5])
@pytest.mark.parametrize("fork", [True, False])
def test_random_batches(
    kind: str, kv_heads: int, value_dim: int, fork: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_backend, "SHARED_READS_SAVED", 4)
    monkeypatch.setattr(torch_backend, "SHARED_TOKENS", 1)
    rng = random.Random(f"{kind} {kv_heads} {value_dim}")
    torch.manual_seed(0)
    options, shared = OPTIONS[kind], 0
    for i in range(6):
        long, band = [(256, 128), (2, 2), (4, 3)][i % 3]
        monkeypatch.setattr(torch_backend, "LONG_CHUNK", long)
        monkeypatch.setattr(torch_backend, "BAND_ROWS", band)
        batch = random_batch(rng)
        step = attention_input(batch)
        cascade = find_cascade(step, [1] * len(batch), torch_backend._worth_sharing)
        shared += len(cascade.groups)
        kv = KVCache(
            {0: LayerShape(kv_heads, 8, value_dim)}, SLOTS, torch.float32, torch.device("cpu")
        )
        kv.keys[0].normal_()
        kv.values[0].normal_()
        total = batch.num_tokens
        q, k, v = (
            torch.randn(4, total, 8),
            torch.randn(kv_heads, total, 8),
            torch.randn(kv_heads, total, value_dim),
        )
        attention = TorchAttention(kv, fork_attention=fork)
        attention.plan(step)
        attention.store(0, k.transpose(0, 1), v.transpose(0, 1))
        out = attention.attend(0, q.transpose(0, 1), options)
        assert out.shape == (total, 4, value_dim)
        for span in each(batch):
            slots, rows = torch.from_numpy(span.request.slots).long(), span.rows
            assert torch.equal(kv.keys[0][slots[span.start : span.end]], k[:, rows].transpose(0, 1))
            assert torch.equal(
                kv.values[0][slots[span.start : span.end]], v[:, rows].transpose(0, 1)
            )
            seen = slots[: span.end]
            expected = reference(q[:, rows], kv.keys[0][seen], kv.values[0][seen], options)
            torch.testing.assert_close(out[rows].double(), expected, atol=2e-5, rtol=1e-4)
    assert shared, "no batch had a prefix to share"


def blocks_step(rng: random.Random, slots: int) -> AttentionInput:
    """Requests without a tree: decodes, and chunks cut into causal sequences and whole ones."""
    order = np.random.default_rng(rng.randrange(1 << 30)).permutation(slots).astype(np.int32)
    rows, used = list[tuple[int, int, bool, np.ndarray]](), 0
    for _ in range(rng.randint(1, 4)):
        start, lengths = rng.randint(0, 9), [rng.randint(1, 21) for _ in range(rng.randint(1, 4))]
        own = order[used : used + start + sum(lengths)]
        used += len(own)
        for length in lengths:
            rows.append((start, length, rng.random() < 0.5, own))
            start += length
    for _ in range(rng.randint(0, 2)):
        own = order[used : used + 7]
        used += 7
        rows.insert(0, (6, 1, False, own))
    starts, counts, whole, own_slots = zip(*rows, strict=True)
    return AttentionInput(
        starts=np.array(starts),
        lengths=np.array(counts),
        new_slots=np.concatenate([own[a : a + n] for a, n, _, own in rows]),
        kv_slots=own_slots,
        keys=[NO_KEY] * len(rows),
        whole=whole,
    )


def blocks_error(
    attention: AttentionBackend, step: AttentionInput, heads: int, options: LayerOptions
) -> float:
    """The largest difference to the reference, with random queries, keys and values."""
    kv = attention.kv
    keys, values = kv.rows(0)
    _, kv_heads, key_dim = kv.keys[0].shape
    q, k, v = (
        torch.randn(step.num_tokens, *shape)
        for shape in ((heads, key_dim), (kv_heads, key_dim), (kv_heads, kv.values[0].shape[2]))
    )
    attention.plan(step)
    attention.store(0, k, v)
    out, worst = attention.attend(0, q, options), 0.0
    columns = step.first_rows, step.lengths, step.ends, step.kv_slots, step.whole
    for first, length, end, slots, whole in zip(*columns, strict=True):
        rows, seen = slice(first, first + length), torch.from_numpy(slots[:end]).long()
        expected = reference(
            q[rows].transpose(0, 1), keys.read(seen), values.read(seen), options, whole
        )
        worst = max(worst, (out[rows].double() - expected).abs().max().item())
    return worst


@pytest.mark.parametrize("kind", sorted(OPTIONS))
def test_blocks_whose_rows_see_each_other(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(kind)
    torch.manual_seed(0)
    for i in range(30):
        long, band = [(256, 128), (2, 2), (4, 3)][i % 3]
        monkeypatch.setattr(torch_backend, "LONG_CHUNK", long)
        monkeypatch.setattr(torch_backend, "BAND_ROWS", band)
        kv = KVCache({0: LayerShape(2, 8, 5)}, 400, torch.float32, torch.device("cpu"))
        step = blocks_step(rng, 400)
        assert blocks_error(TorchAttention(kv), step, 4, OPTIONS[kind]) < 2e-5


def test_short_sequences_before_the_first_block() -> None:
    def step(*rows: tuple[int, bool]) -> AttentionInput:
        lengths, whole = zip(*rows, strict=True)
        none = np.empty(0, np.int32)
        return AttentionInput(np.zeros(len(rows)), np.array(lengths), none, [], [], whole)

    assert step((1, False), (3, False), (2, True), (1, False)).num_short == 2
    assert step((1, False), (SHORT + 1, False), (2, True)).num_short == 1
    assert step((1, False), (3, False)).num_short == 2
    assert step((5, True)).num_short == 0
    assert step((2, False), (3, True), (2, False)).last_visible.tolist() == [0, 1, 2, 2, 2, 0, 1]


@pytest.mark.parametrize("window", [None, 100])
def test_masks_do_not_grow_with_the_prompt(
    window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk of 600 tokens after 3,000 others, beside a short request."""
    masks: list[Mask] = []

    def recorded(*args: object) -> tuple[Tensor, Tensor]:
        masks.append(args[3])  # type: ignore[arg-type]
        return attend(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(torch_backend, "attend", recorded)
    long, short = (Request(i, [1] * n, SamplingParams(), 1) for i, n in enumerate((3600, 8)))
    long.slots[:3600], short.slots[:8] = np.arange(3600), np.arange(3600, 3608)
    kv = KVCache({0: LayerShape(1, 8, 8)}, 3608, torch.float32, torch.device("cpu"))
    kv.keys[0].normal_()
    kv.values[0].normal_()
    attention = TorchAttention(kv)
    attention.plan(attention_input(batch_of_spans([(long, 3000, 600), (short, 0, 8)])))
    q, options = torch.randn(608, 2, 8), LayerOptions(0.3, window)
    out = attention.attend(0, q, options)
    for rows, seen in ((slice(0, 8), slice(3600, 3608)), (slice(8, 608), slice(0, 3600))):
        expected = reference(q[rows].transpose(0, 1), kv.keys[0][seen], kv.values[0][seen], options)
        torch.testing.assert_close(out[rows].double(), expected, atol=2e-5, rtol=1e-4)
    assert sum(m.add.numel() for m in masks if m.add is not None) <= 600 * (3 * (window or 1))


def test_groups_cover_what_requests_have_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = RadixTree()
    spans = []
    for i, prompt in enumerate(
        ([1] * 200 + [2] * 100 + [5], [1] * 200 + [2] * 100 + [6], [1] * 200 + [3, 7], [4] * 300)
    ):
        request = Request(i, prompt, SamplingParams(), 1)
        tree.insert(request.tokens[:-1], np.arange(len(prompt) - 1, dtype=np.int32))
        spans.append((request, len(prompt) - 1, 1))
    batch = batch_of_spans(spans)
    for request in batch.requests:
        request.node = tree.match(request.tokens[:-1])

    def found() -> list[tuple[int, list[int]]]:
        first_places, _, groups = find_cascade(
            attention_input(batch), [1] * len(batch), torch_backend._worth_sharing
        )
        order = np.argsort(first_places).tolist()
        return [
            (end - begin, sorted(order[low:high])) for begin, end, low, high, _ in groups.tolist()
        ]

    assert found() == [(200, [0, 1, 2])]
    monkeypatch.setattr(torch_backend, "SHARED_READS_SAVED", 50)
    assert found() == [(200, [0, 1, 2]), (100, [0, 1])]


@given(sizes=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 300)), min_size=1, max_size=30))
def test_joined_groups_hold_each_request_once(
    sizes: list[tuple[int, int]],
) -> None:
    alike: dict[tuple[int, int], list[int]] = {}
    for i, (rows, tokens) in enumerate(sizes):
        alike.setdefault((rows.bit_length(), tokens.bit_length()), []).append(i)
    lengths = [tokens for _, tokens in sizes]
    groups = torch_backend._joined_groups(alike, lengths)
    assert sorted(i for group in groups for i in group) == list(range(len(sizes)))
    for group in groups:
        assert group == sorted(group)
        assert len({sizes[i][0].bit_length() for i in group}) == 1


def test_groups_are_joined_if_the_padding_is_small() -> None:
    alike = {(1, 5): [*range(100)], (1, 6): [*range(100, 105)], (2, 6): [105]}
    lengths = [30] * 100 + [40] * 6
    assert torch_backend._joined_groups(alike, lengths) == [[*range(105)], [105]]
    lengths = [20] * 100 + [40] * 6
    assert torch_backend._joined_groups(alike, lengths) == list(alike.values())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("heads", [1, 3])
def test_fast_and_slow_agree(
    causal: bool, rows: int, heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_softmax, "SCORE_ELEMENTS", 40)
    torch.manual_seed(rows * heads)
    length = rows if causal else 11
    q, k, v = (
        torch.randn(2, heads, rows, 8),
        torch.randn(2, heads, length, 8),
        torch.randn(2, heads, length, 8),
    )
    if causal:
        mask = Mask(causal=True)
    else:
        hidden = torch.rand(2, 1, rows, length) < 0.5
        hidden[0, 0, 0] = True
        mask = Mask(torch.zeros(hidden.shape).masked_fill(hidden, -torch.inf), hidden.all(-1))
    fast, slow = (f(q, k, v, mask, LayerOptions(0.4)) for f in (attend, attend_slowly))
    torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("function", [attend, attend_slowly])
def test_a_row_that_sees_nothing(function: object) -> None:
    q = torch.randn(1, 2, 3, 8)
    hidden = torch.zeros(1, 1, 3, 4, dtype=torch.bool)
    hidden[:, :, 1] = True
    mask = Mask(torch.zeros(hidden.shape).masked_fill(hidden, -torch.inf), hidden.all(-1))
    out, lse = function(
        q, torch.randn(1, 2, 4, 8), torch.randn(1, 2, 4, 8), mask, LayerOptions(1.0)
    )  # type: ignore[operator]
    assert (out[:, :, 1] == 0).all() and (lse[:, :, 1] == -torch.inf).all()
    assert torch.isfinite(out).all() and torch.isfinite(lse[:, :, [0, 2]]).all()
