"""Handover of cached prefixes between engines: equal to a local hit, and no slot is lost."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.engine.cache.handover import CachedPrefix, adopt_prefix, export_prefix
from sgnb.engine.cache.manager import CacheManager
from sgnb.engine.cache.radix import common_length
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.engine import Engine
from sgnb.engine.model import fingerprint
from sgnb.errors import EngineError, OptionError, SgnbWarning
from sgnb.sampling import SamplingParams

CPU = torch.device("cpu")
LAYOUT = ("model", "float32", "auto")
SCORED = SamplingParams(max_new_tokens=8, temperature=0, ignore_eos=True, return_logprob=True)


def check_slots(engine: Engine) -> None:
    stats = engine.stats()
    assert stats["free"] + stats["cached"] + stats["in_flight"] == engine.pool_tokens
    assert stats["in_flight"] == 0


@pytest.mark.parametrize("kv_dtype", ["auto", "fp8"])
def test_an_adopted_prefix_equals_a_local_hit(
    make_engine: Callable[..., Engine], kv_dtype: str
) -> None:
    first, second = (make_engine(kv_dtype=kv_dtype, max_total_tokens=600) for _ in range(2))
    rng = random.Random(0)
    prompt = [rng.randrange(4, first.vocab_size) for _ in range(230)]
    first.generate(prompt, max_new_tokens=1)
    local = first.generate(prompt, SCORED)

    prefix = first.export_prefix(prompt)
    assert len(prefix.tokens) == first.cached_length([*prompt, 0])
    assert second.adopt_prefix(prefix) == len(prefix.tokens)
    assert second.adopt_prefix(prefix) == 0  # present
    adopted = second.generate(prompt, SCORED)
    assert adopted.cached_tokens == local.cached_tokens
    assert adopted.token_ids == local.token_ids
    assert adopted.logprobs == local.logprobs
    with pytest.raises(OptionError, match="None is no prefix"):
        second.adopt_prefix(None)  # type: ignore[arg-type]
    for engine in (first, second):
        check_slots(engine)


def test_only_missing_tokens_are_adopted(make_engine: Callable[..., Engine]) -> None:
    first, second = make_engine(), make_engine()
    prompt = [random.Random(1).randrange(4, 90) for _ in range(100)]
    first.generate(prompt, max_new_tokens=1)
    second.generate(prompt[:50], max_new_tokens=1)
    cached = second.cached_length([*prompt, 0])
    prefix = first.export_prefix(prompt)
    assert second.adopt_prefix(prefix, "other") == len(prefix.tokens)
    assert second.adopt_prefix(prefix) == len(prefix.tokens) - cached
    check_slots(second)


def test_without_room_nothing_changes(make_engine: Callable[..., Engine]) -> None:
    first, second = make_engine(max_total_tokens=600), make_engine(max_total_tokens=128)
    prompt = list(range(4, 60)) * 4
    first.generate(prompt, max_new_tokens=1)
    second.generate([3, *prompt[:40]], max_new_tokens=1)
    cached = second.stats()["cached"]
    assert cached >= 40
    assert second.adopt_prefix(first.export_prefix(prompt)) == 0
    assert second.stats()["cached"] == cached
    check_slots(second)


def test_other_layouts_are_refused(make_engine: Callable[..., Engine]) -> None:
    first, second = make_engine(), make_engine(kv_dtype="fp8")
    first.generate([5] * 80, max_new_tokens=1)
    with pytest.raises(OptionError, match="does not fit"):
        second.adopt_prefix(first.export_prefix([5] * 80))
    check_slots(second)


def test_other_weights_are_refused(make_engine: Callable[..., Engine]) -> None:
    first, second = make_engine(), make_engine()
    first.generate([5] * 80, max_new_tokens=1)
    prefix = first.export_prefix([5] * 80)
    model = second.model
    assert model is not None
    weight = model.get_output_embeddings().weight
    with torch.no_grad():
        before = weight[3, 5].item()
        weight[3, 5] += 0.5
    with pytest.warns(SgnbWarning, match="changed"), pytest.raises(OptionError, match="not fit"):
        second.adopt_prefix(prefix)
    with torch.no_grad():
        weight[3, 5] = before
    with pytest.warns(SgnbWarning, match="changed"):
        assert second.adopt_prefix(prefix) == 80
    check_slots(second)


@pytest.mark.filterwarnings("ignore::sgnb.errors.SgnbWarning")
@pytest.mark.parametrize("is_adopted", [False, True])
def test_weights_that_change_during_a_handover(
    make_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, is_adopted: bool
) -> None:
    """Between the comparison on the caller's thread and the call on the engine's thread."""
    first, second = make_engine(), make_engine()
    first.generate([5] * 80, max_new_tokens=1)
    prefix = first.export_prefix([5] * 80)
    model, get = second.model, second._fingerprint.get
    assert model is not None

    def change() -> str:
        fingerprint = get()
        if threading.current_thread() is threading.main_thread():
            with torch.no_grad():
                model.get_output_embeddings().weight[3, 5] += 0.5
            if is_adopted:  # by a request of another thread
                with pytest.warns(SgnbWarning, match="changed"):
                    second.check_weights()
        return fingerprint

    monkeypatch.setattr(second._fingerprint, "get", change)
    error = OptionError if is_adopted else EngineError
    with pytest.raises(error, match="does not fit" if is_adopted else "changed during the call"):
        second.adopt_prefix(prefix)
    assert second.cached_length([5] * 80) == 0
    monkeypatch.undo()
    second.check_weights()
    assert second.export_prefix([5] * 80).layout != prefix.layout
    check_slots(second)


@pytest.mark.parametrize("host_cache", [None, 0.01])
def test_an_engine_reads_its_weights_once(
    make_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, host_cache: float | None
) -> None:
    """For copies in host memory and all handovers together, and again after a change."""
    reads: list[str] = []
    original = fingerprint.fingerprint

    def read(*args: Any) -> str:
        reads.append(original(*args))
        return reads[-1]

    monkeypatch.setattr(fingerprint, "fingerprint", read)
    engine = make_engine(host_cache=host_cache)
    assert len(reads) == (host_cache is not None)
    engine.generate([5] * 80, max_new_tokens=1)
    layouts = [engine.export_prefix([5] * 80).layout for _ in range(2)]
    assert len(reads) == 1
    model = engine.model
    assert model is not None
    with torch.no_grad():
        model.get_output_embeddings().weight[3, 5] += 0.5
    with pytest.warns(SgnbWarning, match="changed"):
        layouts.append(engine.export_prefix([5] * 80).layout)
    assert len(set(reads)) == len(reads) == 2
    assert [layout[0] for layout in layouts] == [each[:16] for each in (reads[0], *reads)]


def test_damaged_tokens_are_refused(make_engine: Callable[..., Engine]) -> None:
    engine = make_engine()
    engine.generate([5] * 80, max_new_tokens=1)
    prefix = engine.export_prefix([5] * 80)
    tokens = prefix.tokens.copy()
    tokens[7] = engine.vocab_size
    with pytest.raises(OptionError, match=f"token ids from 5 to {engine.vocab_size}"):
        engine.adopt_prefix(replace(prefix, tokens=tokens))


def test_models_on_several_gpus_are_refused(make_engine: Callable[..., Engine]) -> None:
    """The copy of the first rank would lack the keys and values of the other ranks."""
    engine = make_engine()
    prefix = engine.export_prefix([5] * 80)
    engine.options = replace(engine.options, tensor_parallel=2)
    with pytest.raises(OptionError, match="several GPUs"):
        engine.export_prefix([5] * 80)
    with pytest.raises(OptionError, match="several GPUs"):
        engine.adopt_prefix(prefix)


def test_models_with_recurrent_layers_are_refused() -> None:
    slots, states = SlotAllocator(10, Rows(10)), SlotAllocator(4, Rows(4))
    cache = CacheManager(slots, states)
    tokens = np.arange(3, dtype=np.int32)
    with pytest.raises(OptionError, match="recurrent"):
        export_prefix(cache, tokens, "", CPU, LAYOUT)


def test_a_failed_handover_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows(10)
    cache = CacheManager(SlotAllocator(10, rows))
    prefix = CachedPrefix(np.arange(3, dtype=np.int32), content_of([0, 1, 2]), LAYOUT)
    content = prefix.content
    for damaged in (content_of([0, 1]), content.float(), content.flatten()):
        with pytest.raises(OptionError, match=r"3 tokens has content of \(.*\) in torch\."):
            adopt_prefix(cache, replace(prefix, content=damaged), "", CPU, LAYOUT)

    def fail(ids: Any, source: Any) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as context:
        context.setattr(rows, "restore", fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            adopt_prefix(cache, prefix, "", CPU, LAYOUT)
    assert cache.slots.available == 10 and cache.tree.evictable == 0
    assert adopt_prefix(cache, prefix, "", CPU, LAYOUT) == 3
    assert cache.tree.evictable == 3


class Rows:
    """Content of slots: a row of two bytes each."""

    unit_bytes = 2

    def __init__(self, slots: int) -> None:
        self.rows = torch.zeros((slots, 2), dtype=torch.uint8)

    def copy(self, ids: Any, destination: Any) -> None:
        destination[:] = self.rows[torch.from_numpy(ids).long()]

    def take(self, ids: Any) -> Any:
        raise NotImplementedError

    def restore(self, ids: Any, source: Any) -> None:
        self.rows[torch.from_numpy(ids).long()] = source


def content_of(tokens: list[int]) -> torch.Tensor:
    """Content of a token that depends on all tokens before."""
    hashes = [hash(tuple(tokens[: i + 1])) & 0xFFFF for i in range(len(tokens))]
    return torch.tensor([[h & 255, h >> 8] for h in hashes], dtype=torch.uint8).reshape(-1, 2)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_random_handovers_keep_content_and_slots(data: st.DataObject) -> None:
    size = data.draw(st.integers(4, 40))
    rows = Rows(size)
    cache = CacheManager(SlotAllocator(size, rows))
    locked = []
    for _ in range(data.draw(st.integers(1, 12))):
        tokens = data.draw(st.lists(st.integers(0, 1), min_size=1, max_size=16))
        space = data.draw(st.sampled_from(["", "a"]))
        ids = np.array(tokens, np.int32)
        before = cache.tree.peek(ids, space).length
        count = adopt_prefix(
            cache, CachedPrefix(ids, content_of(tokens), LAYOUT), space, CPU, LAYOUT
        )
        after = cache.tree.peek(ids, space)
        assert count in (0, len(tokens) - before)
        if count:
            assert after.length == len(tokens)
        if after.length and data.draw(st.booleans()):
            cache.tree.lock(after.node)
            locked.append(after.node)
        elif locked and data.draw(st.booleans()):
            cache.tree.unlock(locked.pop())

        found = export_prefix(cache, ids, space, CPU, LAYOUT)
        assert common_length(found.tokens, ids) == len(found.tokens) == after.length
        assert torch.equal(found.content, content_of(tokens[: after.length]))
        assert cache.slots.available + cache.tree.size == size
        held = np.concatenate([np.empty(0, np.int32), *(n.slots for n in cache.tree.nodes())])
        assert len(set(held.tolist())) == len(held)
