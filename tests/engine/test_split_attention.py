"""From Triton's kernels to FlashInfer's: in the background, between two steps, and back where
FlashInfer fails.

Torch stands in for Triton, `fake_flashinfer` for FlashInfer; `split_check` has Triton's own
kernels.
"""

from __future__ import annotations

import gc
import random
import threading
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from sgnb.engine import step_input
from sgnb.engine.attention import LayerOptions, flashinfer_kernels
from sgnb.engine.attention.background_compile import BackgroundCompile, Job
from sgnb.engine.attention.split import SplitAttention
from sgnb.engine.attention.torch_backend import TorchAttention
from sgnb.engine.cache.kv_cache import KVCache
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.step_builder import attention_input

from . import fake_flashinfer
from .interpreter import interpreted, needs_triton
from .test_attention import OPTIONS, random_batch
from .test_flashinfer import expected, new_batch, random_kv

SHORT = 4


class Tree(TorchAttention):
    """Torch's kernels with Triton's name. `rows`: of the last `attend`."""

    name = "triton"

    def __init__(self, kv: KVCache) -> None:
        super().__init__(kv, fork_attention=False)
        self.rows = 0

    @property
    def graph_key(self) -> tuple[str, int]:
        return "triton", 0

    def store(self, layer: int, k: Tensor, v: Tensor) -> None:
        rows = len(self.new_slots)  # torch knows no rows that belong to no request
        self.kv.keys[layer].index_copy_(0, self.new_slots, k[:rows])
        self.kv.values[layer].index_copy_(0, self.new_slots, v[:rows])

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor:
        self.rows = len(q)
        return super().attend(layer, q, options)


class Setting:
    """A switching backend over two layers of different kinds, and steps of it checked against the
    reference."""

    layers = OPTIONS["plain"], OPTIONS["window"]

    def __init__(self, refused: str | None = None) -> None:
        torch.manual_seed(0)
        self.kv = random_kv(layers=2)
        self.tree = Tree(self.kv)
        self.told: list[tuple[str, str, float]] = []
        self.attention = SplitAttention(
            self.tree, refused, on_switch=lambda *what: self.told.append(what)
        )

    def step(self, batch: Batch | None = None, padded: int | None = None) -> bool:
        """Whether FlashInfer served any of it."""
        batch = batch or new_batch((5, 1), (30, 1), (40, 20), (9, 9))
        rows, self.tree.rows = batch.num_tokens, 0
        step = attention_input(batch)
        self.attention.plan(step, padded)
        k, v = torch.randn(2, padded or rows, 2, 8)
        q = torch.randn(padded or rows, 4, 8)
        new = torch.from_numpy(step.new_slots).long()
        assert torch.equal(self.attention.new_slots, new)
        for layer, options in enumerate(self.layers):
            self.attention.store(layer, k, v)
            assert torch.equal(self.kv.keys[layer][new], k[:rows])
            out = self.attention.attend(layer, q, options)[:rows]
            torch.testing.assert_close(
                out.double(),
                expected(self.kv, layer, q[:rows], batch, options),
                atol=2e-5,
                rtol=1e-4,
            )
        return self.tree.rows < rows

    def warm(self) -> None:
        """The step that starts compiling, and its end."""
        self.step()
        self.step()
        assert self.attention._background is not None
        self.attention._background.wait(60)


@pytest.fixture(autouse=True)
def flashinfer(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    monkeypatch.setattr(step_input, "SHORT", SHORT)
    return fake_flashinfer.install(monkeypatch)


def test_the_switch(flashinfer: SimpleNamespace) -> None:
    setting = Setting()
    assert setting.attention.name == "triton" and setting.attention.compiling
    setting.warm()
    # One module for each kind of layer.
    assert sorted(args[8] for args in flashinfer.built) == [False, True]
    assert not setting.told
    assert setting.step()
    assert setting.attention.name == "flashinfer" and not setting.attention.compiling
    [(before, after, seconds)] = setting.told
    assert (before, after) == ("triton", "flashinfer") and seconds > 0
    assert setting.attention.graph_key == ("triton", 0)


def test_who_serves_what() -> None:
    setting = Setting()
    setting.warm()
    assert setting.step(new_batch((30, 30), (20, 5))) and setting.tree.rows == 0
    assert (
        setting.step(new_batch((7, 1), (9, SHORT), (30, SHORT + 1)))
        and setting.tree.rows == 1 + SHORT
    )
    assert not setting.step(new_batch((7, 1), (9, SHORT)))
    assert not setting.step(new_batch((3, 1), (4, 1), (5, 1)), padded=4)
    assert not setting.step(new_batch((30, SHORT + 3)), padded=8), (
        "a graph launches no kernel of it"
    )


def test_random_steps_after_the_switch() -> None:
    setting, rng = Setting(), random.Random(0)
    setting.warm()
    served = {setting.step(random_batch(rng, 0.5)) for _ in range(20)}
    assert served == {False, True} and setting.attention.name == "flashinfer"


@needs_triton
@pytest.mark.slow
def test_beside_tritons_kernels_in_the_interpreter() -> None:
    assert interpreted("split_check") == ["all", "agree"]


def test_refused(flashinfer: SimpleNamespace) -> None:
    setting = Setting("FlashInfer is not installed")
    for _ in range(3):
        assert not setting.step()
    assert setting.attention.without_flashinfer == "FlashInfer is not installed"
    assert setting.attention._background is None and not flashinfer.log


def test_a_compilation_that_fails(flashinfer: SimpleNamespace) -> None:
    flashinfer.fails = RuntimeError(
        "Ninja build failed.\n" + "noise\n" * 50 + "error: no space left on device"
    )
    setting = Setting()
    setting.warm()
    assert not setting.step() and not setting.step()
    reason = setting.attention.without_flashinfer
    assert reason is not None
    assert reason.startswith("fa2 8: RuntimeError") and reason.endswith("no space left on device")
    assert reason.count("noise") < 10 and not setting.told


def test_kernels_that_compute_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    run = fake_flashinfer.BatchPrefillWithPagedKVCacheWrapper.run
    monkeypatch.setattr(
        fake_flashinfer.BatchPrefillWithPagedKVCacheWrapper,
        "run",
        lambda self, q, pages, out: run(self, q, pages, out).neg_(),
    )
    setting = Setting()
    setting.warm()
    assert not setting.step() and not setting.told
    assert "off by" in str(setting.attention.without_flashinfer)


@pytest.mark.parametrize("method", ["plan", "attend"])
def test_a_failure_later_goes_back_within_the_step(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = Setting()
    setting.warm()
    assert setting.step()
    assert setting.attention._flashinfer is not None

    def fail(*args: object) -> None:
        raise RuntimeError("workspace too small")

    monkeypatch.setattr(setting.attention._flashinfer, method, fail)
    assert not setting.step()
    assert setting.told[1] == ("flashinfer", "triton", 0.0)
    assert setting.attention.without_flashinfer == "RuntimeError: workspace too small"
    assert setting.attention.name == "triton" and not setting.attention.compiling
    assert not setting.step()


def test_want_of_memory_is_the_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting()
    setting.warm()
    setting.step()
    assert setting.attention._flashinfer is not None

    def fail(*args: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(setting.attention._flashinfer, "attend", fail)
    with pytest.raises(torch.OutOfMemoryError):
        setting.step()
    monkeypatch.undo()
    assert setting.attention.without_flashinfer is None


def test_compiling_keeps_nothing_alive(
    flashinfer: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that is closed while kernels compile leaves its memory, and no further compilation
    is begun."""
    started, go_on = threading.Event(), threading.Event()

    def slow(kernel: object) -> None:
        started.set()
        go_on.wait(60)
        flashinfer.built.append(kernel)

    monkeypatch.setattr(flashinfer_kernels, "build_attention", slow)
    setting = Setting()
    setting.step()
    setting.step()
    warming, pool = setting.attention._background, weakref.ref(setting.kv)
    assert warming is not None and started.wait(60)
    del setting
    gc.collect()
    assert pool() is None
    go_on.set()
    assert not warming.wait(60)
    assert len(flashinfer.built) == 1 and warming.failure == "stopped"


def test_warming() -> None:
    done: list[str] = []
    warming = BackgroundCompile(
        [Job("a", lambda: done.append("a")), Job("b", lambda: done.append("b"))]
    ).start()
    assert (
        warming.wait(60) and done == ["a", "b"] and warming.failure is None and warming.seconds > 0
    )

    def fail() -> None:
        raise ValueError("not today")

    warming = BackgroundCompile([Job("c", fail), Job("d", lambda: done.append("d"))]).start()
    assert (
        not warming.wait(60)
        and done == ["a", "b"]
        and warming.failure == "c: ValueError: not today"
    )
