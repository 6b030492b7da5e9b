"""Engines whose cache survives on the disk and in host memory."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from sgnb import models
from sgnb.engine import Engine
from sgnb.engine.cache.sequence import SHARED, CacheScope
from sgnb.errors import OptionError, SgnbWarning
from sgnb.events import PrefixLoaded, TiersStarted
from sgnb.sampling import SamplingParams

DOCUMENT = "The harbour master wrote down each ship, its cargo and the hour. " * 40
QUESTION = "Which ship came first?"


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(models.path("tiny"), dtype=torch.float32)


def engine(folder: Path, source: Any = "tiny", **options: Any) -> Engine:
    options = {"max_total_tokens": 4096, "disk_cache": str(folder)} | options
    tiny = Engine(source, **options)
    tiny.generate([1, 2, 3], max_tokens=2)
    return tiny


def wait_for_copies(tiny: Engine, blocks: int) -> None:
    for _ in range(1000):
        if tiny.stats()["stored_blocks"] >= blocks:
            return
        time.sleep(0.02)
    raise AssertionError(f"{tiny.stats()['stored_blocks']} blocks were stored")


def answer(tiny: Engine, question: str = QUESTION) -> list[int]:
    output: Any = tiny.generate(DOCUMENT + question, max_tokens=12, temperature=0)
    return list(output.token_ids)


def submit(tiny: Engine, prompt: str, scope: CacheScope = SHARED) -> Any:
    """Queue a request. Returns a queue with the output."""
    outputs: Any = queue.SimpleQueue()
    tiny.submit([prompt], [SamplingParams(max_new_tokens=12)], [outputs.put], cache_scopes=[scope])
    return outputs


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int], int]:
    """A folder with the blocks of DOCUMENT, an exact answer, and the number of blocks."""
    folder = tmp_path_factory.mktemp("filled") / "kv"
    with engine(folder) as tiny:
        tiny.pin(DOCUMENT)
        exact = answer(tiny)
        tiny.pin(DOCUMENT)
        blocks = tiny.cached_length(DOCUMENT) // 64
        wait_for_copies(tiny, blocks)
    return folder, exact, blocks


@pytest.fixture
def stored(filled: tuple[Path, list[int], int], tmp_path: Path) -> tuple[Path, list[int], int]:
    """A copy of the folder for each test."""
    folder, exact, blocks = filled
    return shutil.copytree(folder, tmp_path / "kv"), exact, blocks


def test_a_new_engine_loads_the_prefix_and_answers_the_same(
    stored: tuple[Path, list[int], int],
) -> None:
    folder, exact, blocks = stored
    with engine(folder) as tiny:
        assert answer(tiny) == exact
        stats = tiny.stats()
        assert stats["loaded_tokens"] == 64 * blocks and stats["loads"] == 1
        assert stats["free"] + stats["cached"] + stats["in_flight"] == 4096
        assert answer(tiny, "Another question?") and tiny.stats()["loads"] == 1
        events = [record.event for record in tiny.log.read().records]
        [event] = [event for event in events if isinstance(event, PrefixLoaded)]
        assert event.store == "disk" and event.tokens == 64 * blocks and event.compute_seconds > 0


@pytest.mark.slow
def test_prefetch_loads_before_a_request(stored: tuple[Path, list[int], int]) -> None:
    folder, exact, blocks = stored
    with engine(folder) as tiny:
        assert tiny.prefetch(DOCUMENT) == 64 * blocks
        while tiny.cached_length(DOCUMENT) < 64 * blocks:
            time.sleep(0.01)
        assert tiny.prefetch(DOCUMENT) == 0 == tiny.stats()["in_flight"]
        assert answer(tiny) == exact


@pytest.mark.slow
def test_private_namespaces_neither_find_nor_leave_blocks(
    stored: tuple[Path, list[int], int],
) -> None:
    folder, _, _ = stored
    files = sorted(folder.rglob("*.safetensors"))
    with engine(folder) as tiny:
        for namespace in ("bench", None):
            outputs = submit(tiny, DOCUMENT + "Other?", CacheScope(namespace))
            assert outputs.get(timeout=60).finish_reason in ("length", "stop")
        assert tiny.stats()["loaded_tokens"] == 0
        time.sleep(1.0)
    assert sorted(folder.rglob("*.safetensors")) == files


def test_changed_weights_find_nothing(stored: tuple[Path, list[int], int], model: Any) -> None:
    folder, _, _ = stored
    with engine(folder, model, tokenizer=None) as tiny:
        prompt = list(range(5, 400))
        sampling: Any = {"max_tokens": 8, "temperature": 0}
        tiny.pin(prompt)
        first: Any = tiny.generate(prompt, sampling)
        tiny.pin(prompt)
        wait_for_copies(tiny, 6)
        with torch.no_grad():
            model.model.layers[0].self_attn.v_proj.weight.mul_(1.5)
        with pytest.warns(SgnbWarning, match="the weights of"):
            second: Any = tiny.generate(prompt, sampling)
        assert tiny.stats()["loaded_tokens"] == 0 and first.token_ids != second.token_ids
    with engine(folder, model, tokenizer=None) as tiny:
        third: Any = tiny.generate(prompt, sampling)
        assert third.token_ids == second.token_ids
        model.model.layers[0].self_attn.v_proj.weight.data.div_(1.5)


def test_host_memory_keeps_what_the_pool_evicts() -> None:
    with Engine("tiny", max_total_tokens=1024, host_cache=0.25) as tiny:
        exact = answer(tiny)
        other: Any = tiny.generate("Another long story about the sea. " * 90, max_tokens=2)
        assert other.token_ids
        wait_for_copies(tiny, 4)
        assert answer(tiny) == exact and tiny.stats()["loaded_tokens"] >= 256
        tiny.flush_cache()
        loaded = tiny.stats()["loaded_tokens"]
        assert answer(tiny) == exact and tiny.stats()["loaded_tokens"] == loaded


def test_host_memory_beyond_the_machine() -> None:
    with Engine("tiny", max_total_tokens=1024, host_cache=2.0**53) as tiny:
        events = [record.event for record in tiny.log.read().records]
        [started] = [event for event in events if isinstance(event, TiersStarted)]
        assert 0 < started.host_bytes < 2**53


def test_close_and_abort_during_a_load(
    stored: tuple[Path, list[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, exact, _ = stored
    from sgnb.engine.cache.tiers.disk import DiskBlocks

    read = DiskBlocks._read

    def slow(self: DiskBlocks, *args: Any) -> bool:
        time.sleep(0.05)
        return read(self, *args)

    monkeypatch.setattr(DiskBlocks, "_read", slow)
    with engine(folder) as tiny:
        outputs = submit(tiny, DOCUMENT + QUESTION)
        while "stored blocks" not in str((waiting := tiny.why_waiting("")[0]).wait):
            time.sleep(0.005)
        tiny.abort(waiting.request)
        assert outputs.get(timeout=60).finish_reason == "abort"
        assert answer(tiny) == exact
    tiny = engine(folder)
    outputs = submit(tiny, DOCUMENT + QUESTION)
    tiny.close()
    assert outputs.get(timeout=60).finish_reason == "abort"


def test_models_that_cannot_be_copied_say_so(tmp_path: Path) -> None:
    with pytest.warns(SgnbWarning, match="without host_cache and disk_cache: prefix_cache=False"):
        Engine("tiny", disk_cache=str(tmp_path), prefix_cache=False).close()
    with pytest.raises(OptionError, match="disk_cache"):
        Engine("tiny", disk_cache=-1)
    with pytest.raises(OptionError, match="host_cache"):
        Engine("tiny", host_cache=0)


@pytest.mark.slow
def test_a_model_with_hooks_runs_without_copies(tmp_path: Path, model: PreTrainedModel) -> None:
    hook = model.model.layers[0].register_forward_hook(lambda *args: None)
    try:
        with pytest.warns(SgnbWarning, match="modules have forward hooks"):
            Engine(model, disk_cache=str(tmp_path)).close()
    finally:
        hook.remove()
    with pytest.warns(SgnbWarning, match="a prefix of 256 tokens needs"):
        Engine("tiny", disk_cache=1e-6).close()


def test_later_hooks_end_copies(tmp_path: Path, model: PreTrainedModel) -> None:
    module: Any = model.model.layers[0]
    with Engine(model, disk_cache=str(tmp_path)) as loaded:
        tiers = loaded._loop.tiers.tiers
        assert tiers is not None and tiers._is_current(False)
        for hooks in (module._forward_hooks, OrderedDict[int, Any]()):  # some users replace all
            module._forward_hooks = hooks
            hook = module.register_forward_hook(lambda *args: None)
            assert not tiers._is_current(False)
            hook.remove()
            assert tiers._is_current(False)


def test_the_variable_sets_a_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sgnb.engine.cache.tiers.setup import disk_location

    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))
    assert disk_location(None) is None and disk_location(False) is None
    folder, size = disk_location(True) or (None, 0)
    assert folder == tmp_path / "kv" and 0 < size <= 32 * 2**30
    monkeypatch.setenv("SGNB_DISK_CACHE", "2.5")
    assert (
        disk_location(None) == (tmp_path / "kv", int(2.5 * 2**30)) and disk_location(False) is None
    )
    monkeypatch.setenv("SGNB_DISK_CACHE", "/some/where")
    assert (disk_location(None) or [None])[0] == Path("/some/where")
    monkeypatch.setenv("SGNB_DISK_CACHE", "plenty")
    with pytest.raises(OptionError, match="SGNB_DISK_CACHE='plenty'"):
        disk_location(None)


CHILD = """
import sys, time
from tests.engine.test_disk_cache import answer, engine, Path
tiny = engine(Path(sys.argv[1]))
print(answer(tiny), flush=True)
tiny.pin({document!r})
print(answer(tiny), flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_a_killed_process_loses_nothing_after_an_idle_moment(tmp_path: Path) -> None:
    code = CHILD.format(document=DOCUMENT)
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert child.stdout is not None
    exact, _ = child.stdout.readline(), child.stdout.readline()
    time.sleep(5)
    child.send_signal(signal.SIGKILL)
    child.wait()
    with engine(tmp_path) as tiny:
        assert f"{answer(tiny)}\n".encode() == exact
        assert tiny.stats()["loaded_tokens"] == tiny.cached_length(DOCUMENT) // 64 * 64
