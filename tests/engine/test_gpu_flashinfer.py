"""FlashInfer's kernels on a GPU, beside Triton's: against a float64 reference and against torch.

Each kind of layer compiles a kernel the first time, for about a minute.
"""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sgnb.engine import step_input
from sgnb.engine.attention import AttentionBackend, LayerOptions
from sgnb.engine.attention.flashinfer_kernels import refusal
from sgnb.engine.attention.split import SplitAttention, with_flashinfer
from sgnb.engine.attention.torch_backend import TorchAttention
from sgnb.engine.attention.triton_backend import TritonAttention
from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.step_builder import attention_input

from .test_attention import SLOTS, batch_of_spans, each, random_batch, reference

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

HEADS, KV_HEADS, DIM, DTYPE = 32, 8, 128, torch.bfloat16
SINKS = torch.linspace(-2, 2, HEADS)
OPTIONS = {
    "plain": LayerOptions(DIM**-0.5),
    "sinks": LayerOptions(0.11, sinks=SINKS),
    "window": LayerOptions(DIM**-0.5, window=5),
    "all": LayerOptions(0.11, 7, 3.0, SINKS),
}


@pytest.fixture(autouse=True)
def usable() -> None:
    reason = refusal([LayerShape(KV_HEADS, DIM, DIM)], DTYPE, torch.device("cuda", 0))
    if reason is not None:
        pytest.skip(reason)


def random_kv(slots: int = SLOTS) -> KVCache:
    kv = KVCache({0: LayerShape(KV_HEADS, DIM, DIM)}, slots, DTYPE, torch.device("cuda", 0))
    kv.keys[0].normal_()
    kv.values[0].normal_()
    return kv


def on_gpu(options: LayerOptions) -> LayerOptions:
    return options if options.sinks is None else options._replace(sinks=options.sinks.cuda())


def check(out: Tensor, kv: KVCache, q: Tensor, batch: Batch, options: LayerOptions) -> None:
    options = on_gpu(options)
    for span in each(batch):
        seen = torch.from_numpy(span.request.slots[: span.end]).long().cuda()
        rows = span.rows
        with torch.device("cuda"):
            expected = reference(
                q[rows].transpose(0, 1), kv.keys[0][seen], kv.values[0][seen], options
            )
        torch.testing.assert_close(out[rows].double(), expected, atol=0.02, rtol=0.02)


def step(attention: AttentionBackend, kv: KVCache, batch: Batch, options: LayerOptions) -> Tensor:
    """The output of a step with random queries and new keys and values, once it was compared with
    the reference."""
    merged = torch.randn(batch.num_tokens, HEADS + 2 * KV_HEADS, DIM, device="cuda", dtype=DTYPE)
    q, k, v = merged.split([HEADS, KV_HEADS, KV_HEADS], dim=1)
    attention.plan(attention_input(batch))
    attention.store(0, k, v)
    new = torch.from_numpy(attention_input(batch).new_slots).long().cuda()
    assert torch.equal(attention.new_slots, new)
    assert torch.equal(kv.keys[0][new], k) and torch.equal(kv.values[0][new], v)
    out = attention.attend(0, q, on_gpu(options))
    check(out, kv, q, batch, options)
    plain = TorchAttention(kv, fork_attention=False)
    plain.plan(attention_input(batch))
    torch.testing.assert_close(
        out.float(), plain.attend(0, q, on_gpu(options)).float(), atol=0.03, rtol=0.03
    )
    return out


def switched(kv: KVCache, options: LayerOptions) -> SplitAttention:
    """With FlashInfer compiled."""
    attention = with_flashinfer(TritonAttention(kv, {0: HEADS}), kv)
    while attention.compiling:
        step(attention, kv, random_batch(random.Random(1), 0.5), options)
        if attention._background is not None:
            attention._background.wait()
    assert attention.without_flashinfer is None
    return attention


@pytest.mark.parametrize("kind", sorted(OPTIONS))
def test_random_trees(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_input, "SHORT", 4)  # the chunks of a random tree are short
    rng, kv = random.Random(kind), random_kv()
    torch.manual_seed(0)
    attention = switched(kv, OPTIONS[kind])
    for _ in range(12):
        step(attention, kv, random_batch(rng, 0.5), OPTIONS[kind])
    assert attention.name == "flashinfer", "it did not fail"


def test_long_chunks_among_short_ones() -> None:
    rng, kv, options = np.random.default_rng(0), random_kv(20_000), OPTIONS["plain"]
    torch.manual_seed(0)
    attention = switched(kv, options)
    for sizes in (
        [(700, 1), (900, 1), (300, 16), (300, 17), (2000, 1500), (129, 129)],
        [(4000, 3)] * 3,
        [(1000, 1000), (64, 64), (2000, 100)],
    ):
        free, spans = rng.permutation(kv.slots).astype(np.int32), []
        for total, new in sizes:
            request: Any = SimpleNamespace(id=len(spans), slots=free[:total], node=None, items=())
            spans.append((request, total - new, new))
            free = free[total:]
        step(attention, kv, batch_of_spans(spans), options)
    assert attention.name == "flashinfer", "it did not fail"


def test_planning_does_not_wait_for_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_input, "SHORT", 4)
    kv, options = random_kv(), OPTIONS["plain"]
    attention = switched(kv, options)
    batch = random_batch(random.Random(3), 0.5)
    q = torch.randn(batch.num_tokens, HEADS, DIM, device="cuda", dtype=DTYPE)
    for _ in range(3):
        attention.plan(attention_input(batch))
        attention.attend(0, q, options)
    torch.cuda.synchronize()
    torch.cuda._sleep(2_000_000_000)  # about a second
    busy = torch.cuda.Event()
    busy.record()
    attention.plan(attention_input(batch))
    attention.attend(0, q, options)
    assert not busy.query(), "planned and launched while the GPU was busy"
    torch.cuda.synchronize()


def test_the_switch() -> None:
    kv, told = random_kv(), list[tuple[str, str]]()
    attention = with_flashinfer(
        TritonAttention(kv, {0: HEADS}),
        kv,
        on_switch=lambda before, after, _: told.append((before, after)),
    )
    rng = random.Random(1)
    for _ in range(600):
        step(attention, kv, random_batch(rng, 0.5), OPTIONS["plain"])
        if told:
            break
        if attention._background is not None:
            attention._background.wait(1)
    assert attention.name == "flashinfer" and attention.without_flashinfer is None
    assert told == [("triton", "flashinfer")]
