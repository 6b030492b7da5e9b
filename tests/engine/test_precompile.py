"""Kernels are compiled before they are needed: what a `precompiling` block notes and compiles, and
that nothing is left out."""

from __future__ import annotations

import concurrent.futures
import sysconfig
import threading
from pathlib import Path
from shutil import which
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sgnb.engine.device.precompile import _specialization, cancel_unclaimed, launch, precompiling

from .interpreter import needs_triton, run_check

CAN_BUILD = (
    any(map(which, ("cc", "gcc", "clang")))
    and Path(sysconfig.get_path("include"), "Python.h").exists()
)


class Kernel:
    """As triton's: launched by `kernel[grid](...)`, compiled by `warmup`, once `gate` is set."""

    def __init__(
        self, error: BaseException | None = None, gate: threading.Event | None = None
    ) -> None:
        self.launched: list[Any] = []
        self.compiled: list[Any] = []
        self.kept: list[Any] = []
        self.compilers: set[str] = set()
        self.loaded = 0
        self._error, self._gate = error, gate

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda *args, **constants: self.launched.append((grid, args, constants))

    def warmup(self, *args: Any, grid: tuple[int, ...], **constants: Any) -> None:
        from triton.runtime._async_compile import active_mode

        mode = active_mode.get()
        assert mode is not None
        key = id(self), args, *constants.items()
        mode.submit(
            key,
            lambda: self._compile((grid, args, constants)),
            lambda result: self.kept.append(args),
        )

    def _compile(self, what: Any) -> Kernel:
        if self._gate is not None:
            assert self._gate.wait(60)
        if self._error is not None:
            raise self._error
        self.compilers.add(threading.current_thread().name)
        self.compiled.append(what)
        return self

    @property
    def run(self) -> None:
        self.loaded += 1


def test_a_launch() -> None:
    kernel = Kernel()
    launch(kernel, (3,), 1, 2, SIZE=4)
    assert kernel.launched == [((3,), (1, 2), {"SIZE": 4})] and not kernel.compiled


@needs_triton
def test_a_block_compiles_on_other_threads_and_launches_nothing() -> None:
    kernel = Kernel()
    with precompiling():
        for size in (4, 5, 4):
            launch(kernel, (3,), 1, 2, SIZE=size)
    assert sorted(c["SIZE"] for _, _, c in kernel.compiled) == [4, 5] and not kernel.launched
    assert kernel.loaded == 2
    assert threading.current_thread().name not in kernel.compilers
    launch(kernel, (3,), 1)
    assert kernel.launched == [((3,), (1,), {})]


@needs_triton
def test_another_thread_launches_meanwhile() -> None:
    kernel = Kernel()
    with precompiling():
        thread = threading.Thread(target=launch, args=(kernel, (1,)))
        thread.start()
        thread.join()
    assert kernel.launched == [((1,), (), {})] and not kernel.compiled


@needs_triton
@pytest.mark.parametrize(
    "patience, said", [(10.0, ""), (0.0, "compiling 1 kernels, which the next load will find\n")]
)
def test_long_compiling_is_said(
    patience: float, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gate, wait = threading.Event(), concurrent.futures.wait
    if patience:
        gate.set()

    def wait_and_open(*args: Any) -> Any:
        done = wait(*args)
        gate.set()
        return done

    monkeypatch.setattr("sgnb.engine.device.precompile.PATIENCE", patience)
    monkeypatch.setattr(concurrent.futures, "wait", wait_and_open)
    kernel = Kernel(gate=gate)
    with precompiling():
        launch(kernel, (1,), 1)
    assert capsys.readouterr().err == said and len(kernel.compiled) == kernel.loaded == 1


@needs_triton
def test_what_cannot_be_compiled_is_left_to_the_launch() -> None:
    broken, kernel = Kernel(RuntimeError("no such instruction")), Kernel()
    with precompiling():
        launch(broken, (1,), 1)
        launch(kernel, (1,), 2)
    assert len(kernel.compiled) == 1


@pytest.mark.slow
@needs_triton
@pytest.mark.skipif(not CAN_BUILD, reason="needs a C compiler and Python's headers, as triton does")
def test_no_kernel_gets_the_launcher_of_another() -> None:
    """Kernels of the same signature share a launcher, which is then loaded several times."""
    assert run_check("launcher_check") == ["1600", "right"]


@needs_triton
def test_what_was_begun_without_waiting_is_not_compiled_again() -> None:
    kernel, other = Kernel(), Kernel()
    with precompiling(wait=False):
        launch(kernel, (1,), 1)
        launch(kernel, (1,), 2)
    with precompiling():
        launch(other, (1,), 7)
    assert len(other.compiled) == 1
    with precompiling():
        launch(kernel, (1,), 1)
    assert kernel.kept == [(1,)] and kernel.compiled.count(((1,), (1,), {})) == 1
    with precompiling():
        for number in (1, 2):
            launch(kernel, (1,), number)
    assert kernel.kept == [(1,), (1,), (2,)]
    assert kernel.compiled.count(((1,), (1,), {})) == 2, "what was handed over is not kept here"
    assert kernel.compiled.count(((1,), (2,), {})) == 1


@needs_triton
def test_what_nobody_asks_for_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgnb.engine.device.precompile._cores", lambda: 1)
    gate = threading.Event()
    kernel = Kernel(gate=gate)
    with precompiling(wait=False):
        for number in range(40):
            launch(kernel, (1,), number)
    cancel_unclaimed()
    gate.set()
    with precompiling():
        launch(kernel, (1,), 39)
    assert kernel.kept == [(39,)]
    assert len(kernel.compiled) <= 2, "one was under way, and one is asked for"


@needs_triton
def test_an_interrupt_leaves_out_what_was_begun_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgnb.engine.device.precompile._cores", lambda: 1)
    monkeypatch.setattr("sgnb.engine.device.precompile.PATIENCE", 0)
    gate = threading.Event()
    first, kernel = Kernel(KeyboardInterrupt()), Kernel(gate=gate)

    def ask() -> None:
        launch(first, (1,), 0)
        for number in range(40):
            launch(kernel, (1,), number)

    with precompiling(wait=False):
        ask()
    with pytest.raises(KeyboardInterrupt), precompiling():
        ask()
    gate.set()
    with precompiling():
        launch(kernel, (1,), 40)
    assert kernel.kept == [(40,)]
    assert len(kernel.compiled) <= 2, "one was under way, and one is asked for"


@needs_triton
def test_what_failed_without_waiting_is_left_to_the_launch() -> None:
    broken = Kernel(RuntimeError("no such instruction"))
    for wait in (False, True):
        with precompiling(wait=wait):
            launch(broken, (1,), 1)
    assert not broken.kept


@needs_triton
def test_an_error_ends_the_block() -> None:
    kernel = Kernel()
    with pytest.raises(ZeroDivisionError), precompiling():
        launch(kernel, (1,), 1)
        raise ZeroDivisionError
    launch(kernel, (1,), 1)
    assert len(kernel.launched) == 1 and not kernel.compiled


@needs_triton
def test_after_an_interrupt_the_next_block_works() -> None:
    kernel = Kernel()
    with pytest.raises(KeyboardInterrupt), precompiling():
        launch(Kernel(KeyboardInterrupt()), (1,), 1)
    with precompiling():
        launch(kernel, (1,), 1)
    assert len(kernel.compiled) == 1 and not kernel.launched


def test_an_old_triton_compiles_on_this_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgnb.engine.device.precompile._compiling", lambda: None)
    compiled: list[Any] = []
    kernel = SimpleNamespace(
        warmup=lambda *args, grid, **options: compiled.append((args, grid, options))
    )
    with precompiling():
        for _ in range(2):
            launch(kernel, (3,), 1, SIZE=4)
        assert compiled == [((1,), (3,), {"SIZE": 4})]


def test_what_triton_compiles_apart_is_noted_apart() -> None:
    sorts = (torch.zeros(4), torch.zeros(4)[1:], torch.zeros(4, dtype=torch.int32), 1, 1.0, True)
    assert len({_specialization(argument) for argument in sorts}) == len(sorts)
    assert _specialization(torch.zeros(4)) == _specialization(torch.ones(8))


@needs_triton
@pytest.mark.slow
def test_no_step_needs_a_kernel_that_was_not_precompiled() -> None:
    assert run_check("precompile_check") == ["all", "precompiled"]
