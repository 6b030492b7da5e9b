"""Kernels compiled before they are needed, many at a time.

All of the engine's Triton kernels are launched through `launch`. In a `rehearsal` it launches nothing: it notes what
would be compiled for such arguments, and threads compile it. What comes out of kernels that did not run has no meaning,
so that a rehearsal may run whatever code it likes, as long as nothing is read from such tensors.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

THREADS = min(16, os.cpu_count() or 1)

ALIGNMENT = 16
"""Kernels are compiled for pointers that are multiples of so many bytes, and for others."""

_seen: ContextVar[set[Hashable] | None] = ContextVar("seen", default=None)
"""What this thread's rehearsal has noted: the layers of a model ask for the same again and again."""


def launch(kernel: Any, grid: tuple[int, ...], /, *args: Any, **constants: Any) -> None:
    """`kernel[grid](*args, **constants)`, on this thread's current stream."""
    seen = _seen.get()
    if seen is None:
        kernel[grid](*args, **constants)
        return
    key = id(kernel), *map(_kind, args), *constants.items()
    if key not in seen:
        seen.add(key)
        kernel.warmup(*args, grid=grid, **constants)


def rehearsing() -> bool:
    """Whether this thread is in a rehearsal, where whoever chooses between kernels launches all of them."""
    return _seen.get() is not None


@contextmanager
def rehearsal() -> Iterator[None]:
    """This thread's launches are compiled instead, and are ready at the end; other threads go on as ever.

    What cannot be compiled raises when it is launched in earnest. Rehearsals cannot be nested.
    """
    import triton

    pool = _Compilers(THREADS, "sgnb-compile", *_on_this_device())
    with pool, triton.AsyncCompileMode(pool, ignore_errors=True):
        token = _seen.set(set())
        try:
            yield
        finally:
            _seen.reset(token)


def prepare() -> None:
    """Begin, on a thread, what the first rehearsal of a process waits for: triton reads all of itself, to give what it
    compiles a name."""
    threading.Thread(target=_name_triton, name="sgnb-compile", daemon=True).start()


def _name_triton() -> None:
    with suppress(ImportError, OSError):  # without triton, or in a version of it that goes about it in another way
        from triton.runtime.cache import triton_key

        triton_key()


class _Compilers(ThreadPoolExecutor):
    """Compiles a kernel, builds its launcher and loads it: triton would leave these two to the first launch."""

    def submit(self, compile_: Callable[[], Any]) -> Future[Any]:  # type: ignore[override]
        def work() -> Any:
            kernel = compile_()
            _ = kernel.run  # the property does these two
            return kernel

        return super().submit(work)


def _on_this_device() -> tuple[Any, ...]:
    """How a thread of the pool begins."""
    return (torch.cuda.set_device, (torch.cuda.current_device(),)) if torch.cuda.is_initialized() else ()


def _kind(argument: Any) -> Hashable:
    """What a kernel is compiled for, of one argument."""
    if isinstance(argument, Tensor):
        return argument.dtype, argument.data_ptr() % ALIGNMENT == 0
    return argument
