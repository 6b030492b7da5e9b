"""Kernels compiled before they are needed, many at a time.

All of the engine's Triton kernels are launched through `launch`. In a `precompiling` block it
launches nothing: it notes what would be compiled for such arguments, and threads compile it. What
comes out of kernels that did not run has no meaning, so that a `precompiling` block may run
whatever code it likes, as long as nothing is read from such tensors.
"""

from __future__ import annotations

import concurrent.futures
import os
import sys
import threading
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import cache, partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

MOST_THREADS = 16

PATIENCE = 1.0
"""Seconds of compiling before it is said."""

ALIGNMENT = 16
"""Kernels are compiled for pointers that are multiples of so many bytes, and for others."""

_seen: ContextVar[set[Hashable] | None] = ContextVar("seen", default=None)
"""What this thread's block has noted: the layers of a model ask for the same again and again."""


def launch(kernel: Any, grid: tuple[int, ...], /, *args: Any, **options: Any) -> None:
    """`kernel[grid](*args, **options)`, on this thread's current stream."""
    seen = _seen.get()
    if seen is None:
        kernel[grid](*args, **options)
        return
    key = id(kernel), *map(_kind, args), *options.items()
    if key not in seen:
        seen.add(key)
        kernel.warmup(*args, grid=grid, **options)


def is_precompiling() -> bool:
    """Whether this thread is in a `precompiling` block, where whoever chooses between kernels
    launches all of them."""
    return _seen.get() is not None


@contextmanager
def precompiling(wait: bool = True) -> Iterator[None]:
    """This thread's launches are compiled instead; other threads go on as ever.

    At the end all kernels are ready, but for those that cannot be compiled: they raise when they
    are launched in earnest. Without `wait` they are compiled meanwhile, for a later block that asks
    for the same, or until `cancel_unclaimed`. An error or an interrupt leaves out what has not
    begun. Such blocks cannot be nested.
    """
    kernels = _Kernels()
    with ExitStack() as stack:
        stack.callback(_seen.reset, _seen.set(set()))
        compiling = _compiling()
        if compiling is not None:
            _load_launchers_alone()
            stack.callback(compiling.reset, compiling.set(kernels))
        yield
    kernels.compile(wait)


def cancel_unclaimed() -> None:
    """Leave out what was begun without waiting, and nobody asked for."""
    for place in list(_under_way):
        kernel = _under_way.pop(place, None)
        if kernel is not None:
            kernel.cancel()


_under_way: dict[Hashable, Future[Any]] = {}
"""Kernels that nobody waits for yet, by device and key."""


class _Kernels:
    """What is to be compiled, in the place of triton's AsyncCompileMode. That begins at once, and
    the compilers' Python holds up the block's; it leaves launchers and loading to the first launch,
    and breaks when it is interrupted."""

    def __init__(self) -> None:
        self._asked: dict[Hashable, tuple[Callable[[], Any], Callable[[Any], None]]] = {}

    def submit(
        self, key: Hashable, compile_: Callable[[], Any], keep: Callable[[Any], None]
    ) -> None:
        """For triton. keep: takes what `compile_` gives, on the thread that asked."""
        self._asked.setdefault(key, (compile_, keep))

    def compile(self, wait: bool) -> None:
        device = torch.cuda.current_device() if torch.cuda.is_initialized() else None
        begin = None if device is None else partial(torch.cuda.set_device, device)
        pool = ThreadPoolExecutor(min(MOST_THREADS, _cores()), "sgnb-compile", begin)
        kernels: dict[Hashable, Future[Any]] = {}
        try:
            for key, (compile_, _) in self._asked.items():
                begun: Future[Any] | None = _under_way.pop((device, key), None)
                kernels[key] = begun or pool.submit(_make_ready, compile_)
            if wait:
                self._keep(kernels)
            else:
                _under_way.update({(device, key): kernel for key, kernel in kernels.items()})
        except BaseException:
            for kernel in kernels.values():
                kernel.cancel()
            raise
        finally:
            pool.shutdown(wait=False)

    def _keep(self, kernels: dict[Hashable, Future[Any]]) -> None:
        _, slow = concurrent.futures.wait(kernels.values(), PATIENCE)
        if slow:
            print(
                f"compiling {len(slow)} kernels, which the next load will find",
                file=sys.stderr,
                flush=True,
            )
        for key, kernel in kernels.items():
            with suppress(Exception):
                self._asked[key][1](kernel.result())


def _make_ready(compile_: Callable[[], Any]) -> Any:
    kernel = compile_()
    _ = kernel.run  # the property builds the launcher and loads the kernel
    return kernel


@cache
def _load_launchers_alone() -> None:
    """From now on, let no thread take another kernel's launcher. Triton builds an extension module
    for each signature, all of one name, and when Python loads such a module again, it puts its
    functions into the one that `sys.modules` has under the name: whatever another thread loads
    before these are read takes their place. So modules are loaded one after the other, and each
    loading gives a module of its own. Triton 3.9 builds none."""
    from triton.runtime import build

    load = getattr(build, "_load_module_from_path", None)
    if load is None:
        return
    lock = threading.Lock()

    def load_alone(name: str, path: str) -> ModuleType:
        module = ModuleType(name)
        with lock:
            vars(module).update(vars(load(name, path)))
        return module

    build._load_module_from_path = load_alone


def _compiling() -> ContextVar[Any] | None:
    """Where triton looks for who compiles; None before version 3.5, which compiles one after the
    other."""
    try:
        from triton.runtime._async_compile import active_mode
    except ImportError:
        return None
    return active_mode


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _kind(argument: Any) -> Hashable:
    """What a kernel is compiled for, of one argument."""
    if isinstance(argument, Tensor):
        return argument.dtype, argument.data_ptr() % ALIGNMENT == 0
    return type(argument), argument


def load_triton() -> None:
    """Begin, on a thread, what the first kernel of a process waits for: triton reads all of itself,
    to give what it compiles a name."""
    threading.Thread(target=_name_triton, name="sgnb-compile", daemon=True).start()


def _name_triton() -> None:
    with suppress(
        ImportError, OSError
    ):  # without triton, or in a version of it that goes about it in another way
        from triton.runtime.cache import triton_key

        triton_key()
