"""Events of an engine with tiers: views and `why_no_hit` from the log of real requests."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from sgnb import models
from sgnb.engine import Engine
from sgnb.errors import SgnbWarning
from sgnb.events import PrefixLoaded, PrefixNotLoaded, TiersStarted, encode, replay
from sgnb.sampling import SamplingParams
from sgnb.viz.state.cache_miss import Reason, lookups
from sgnb.viz.state.log_state import LogState
from sgnb.viz.state.residency import with_copies
from sgnb.viz.static.plain_text import tree_text

from .test_disk_cache import DOCUMENT, QUESTION, answer, engine, filled, stored, wait_for_copies
from .test_engine import wait_until

__all__ = ["filled", "stored"]

Stored = tuple[Path, list[int], int]


def tree(tiny: Engine) -> Any:
    return LogState(tiny.log.read().records).tree


def reasons(tiny: Engine) -> list[Reason]:
    """Reasons of the last request."""
    return list(lookups(tiny.log.read().records)[-1].reasons)


def test_a_loaded_prefix_is_also_on_disk(stored: Stored) -> None:
    folder, _, blocks = stored
    with engine(folder) as tiny:
        answer(tiny)
        state = tree(tiny)
        assert isinstance(state.tiers, TiersStarted) and state.tiers.disk_bytes > 0
        assert state.tiers.host_bytes == 0 and state.tiers.min_tokens == 256
        copied = sum(node.copied.get("disk", 0) for node in with_copies(state).nodes.values())
        assert copied == 64 * blocks == state.copies.counts()["disk"]
        assert f"copies: {64 * blocks:,} tokens on disk" in tree_text(state)
        tiny.flush_cache()
        [outline] = [node for node in with_copies(tree(tiny)).nodes.values() if node.is_outline]
        assert len(outline.tokens) == 64 * blocks and "evicted, on disk" in tree_text(tree(tiny))
        lines = [encode(record) for record in tiny.log.read().records]
        assert tree_text(LogState(replay(lines)).tree) == tree_text(tree(tiny))


def test_an_eviction_leaves_an_outline_until_the_flush() -> None:
    with Engine("tiny", max_total_tokens=1536, host_cache=0.02) as tiny:
        for number in range(3):
            tiny.generate(f"{number} " + DOCUMENT, max_tokens=2, temperature=0)
        wait_for_copies(tiny, 4)
        tiny.generate("hello", max_tokens=1)
        text = tree_text(tree(tiny))
        assert "evicted, in host memory" in text and "tokens in host memory" in text
        assert tiny.generate("0 " + DOCUMENT, max_tokens=2) and tiny.stats()["loads"] == 1
        assert "also" in tree_text(tree(tiny))
        tiny.flush_cache()
        assert "in host memory" not in tree_text(tree(tiny))


def not_loaded(tiny: Engine) -> list[PrefixNotLoaded]:
    events = [record.event for record in tiny.log.read().records]
    return [event for event in events if isinstance(event, PrefixNotLoaded)]


def first_reason(tiny: Engine, kind: str) -> str:
    [text] = [reason.text for reason in reasons(tiny) if reason.kind == kind]
    return text


def test_a_damaged_file_is_the_reason(stored: Stored) -> None:
    folder, exact, _ = stored
    for file in folder.rglob("*.safetensors"):
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    with engine(folder) as tiny:
        with pytest.warns(SgnbWarning, match="damaged"):
            assert answer(tiny) == exact
        assert "had a damaged copy on disk" in first_reason(tiny, "damaged")


def test_computing_was_faster_with_both_estimates(stored: Stored) -> None:
    folder, exact, blocks = stored
    with engine(folder) as tiny:
        tiers: Any = tiny._loop.tiers.tiers
        tiers.costs.load_seconds = lambda store, size: 60.0
        assert answer(tiny) == exact
        [event] = not_loaded(tiny)
        assert event.tokens == 64 * blocks and event.seconds > event.compute_seconds > 0
        text = first_reason(tiny, "compute")
        assert "computing was faster: about" in text and text.endswith("host_cache loads faster")


def load_as_slow_as_computing(tiny: Engine) -> Any:
    """Let the estimates of a load and of computing be equal. Returns the tiers."""
    tiers: Any = tiny._loop.tiers.tiers
    for count in (100, 200, 300) * 3:
        tiers.costs.observe_step(count, count**2 / 2, 0.001 * count)
    tiers.costs.load_seconds = lambda store, size: 0.001 * size / tiers._transfer.unit_bytes
    return tiers


def test_the_head_is_computed_while_the_tail_is_loaded(stored: Stored) -> None:
    folder, exact, blocks = stored
    with engine(folder) as tiny:
        load_as_slow_as_computing(tiny)
        output: Any = tiny.generate(DOCUMENT + QUESTION, max_tokens=12, temperature=0)
        assert list(output.token_ids) == exact
        events = [record.event for record in tiny.log.read().records]
        [load] = [event for event in events if isinstance(event, PrefixLoaded)]
        [head] = not_loaded(tiny)
        assert head.reason == "head" and 64 <= head.tokens < 64 * (blocks - 2)
        assert load.begin >= 64 and load.begin + load.tokens == 64 * blocks
        assert tiny.stats()["loaded_tokens"] == load.tokens == output.cached_tokens
        assert tiny.stats()["in_flight"] == 0

        found = [(reason.kind, reason.tokens) for reason in reasons(tiny)]
        assert found[:2] == [("compute", load.begin), ("loaded", load.tokens)]
        assert sum(count for _, count in found) == output.prompt_tokens
        assert f"{load.begin} tokens are on disk, but were computed" in first_reason(
            tiny, "compute"
        )
        again: Any = tiny.generate(DOCUMENT + QUESTION, max_tokens=12, temperature=0)
        assert list(again.token_ids) == exact and again.cached_tokens > 64 * blocks


@pytest.mark.parametrize("fault", ["damaged", "aborted", "flushed"])
def test_a_tail_that_is_not_loaded_is_computed(stored: Stored, fault: str) -> None:
    folder, exact, _ = stored
    with engine(folder) as tiny:
        tiers, opened = load_as_slow_as_computing(tiny), threading.Event()
        [disk] = tiers.prefixes.stores.blocks
        read = disk._read

        def wait(*args: Any) -> bool:
            opened.wait(30)
            return fault != "damaged" and read(*args)

        disk._read = wait
        if fault == "damaged":
            opened.set()
            assert answer(tiny) == exact
            assert [event.reason for event in not_loaded(tiny)] == ["head", "compute"]
        else:
            tiny._loop.call(lambda: None)
            [id] = tiny.submit([DOCUMENT], [SamplingParams(max_new_tokens=900)], [lambda _: None])
            wait_until(lambda: [event.reason for event in not_loaded(tiny)] == ["head"])
            if fault == "aborted":
                tiny.abort([id])
            else:
                tiny.flush_cache()
            assert tiny._loop.call(lambda: not tiers._tails)
            opened.set()
            tiny.abort([id])
            wait_until(lambda: not tiny.stats()["running"])
        disk._read = read
        tiny.flush_cache()
        assert tiny.stats()["free"] == 4096
        assert answer(tiny) == exact


def test_a_load_takes_at_most_half_of_the_pool(stored: Stored) -> None:
    folder, exact, blocks = stored
    with engine(folder, max_total_tokens=1280) as tiny:
        assert answer(tiny) == exact
        [event] = not_loaded(tiny)
        loaded = tiny.stats()["loaded_tokens"]
        assert 0 < loaded <= 640 and loaded + event.tokens == 64 * blocks
        text = first_reason(tiny, "cancelled")
        assert text.startswith(f"{event.tokens} tokens are on disk, but a load takes at most half")


def test_files_of_other_weights_are_found_by_the_prompt(stored: Stored) -> None:
    folder, _, blocks = stored
    [name] = [path.name for path in (folder / "v1").iterdir()]
    other = AutoModelForCausalLM.from_pretrained(models.path("tiny"), dtype=torch.float32)
    with torch.no_grad():
        other.lm_head.weight.mul_(1.01)
    tokenizer = AutoTokenizer.from_pretrained(models.path("tiny"))
    with engine(folder, other, tokenizer=tokenizer) as tiny:
        answer(tiny)
        [event] = not_loaded(tiny)
        assert (event.reason, event.fingerprint) == ("other weights", name)
        assert event.tokens == 64 * blocks
        assert f"%sglang cache forget {name}" in first_reason(tiny, "other weights")


def test_a_cancelled_load_is_the_reason(stored: Stored) -> None:
    folder, exact, _ = stored
    with engine(folder) as tiny:
        tiers: Any = tiny._loop.tiers.tiers
        started = tiers._start_load

        def start(*args: Any) -> Any:
            load = started(*args)
            tiers.cancel()
            return load

        tiers._start_load = start
        assert answer(tiny) == exact
        assert "running requests needed the memory" in first_reason(tiny, "cancelled")
