"""Parallel ahead-of-time compilation of Triton kernels.

All kernels of the engine go through `launch`. A `precompiling` block records kernels by signature
instead of launching, then compiles on a thread pool. No kernel runs inside a block: code in the
block must not read kernel outputs.
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

MAX_THREADS = 16
PATIENCE = 1.0  # seconds of compilation before a message
ALIGNMENT = 16  # bytes; Triton specializes kernels for aligned pointers

_noted: ContextVar[set[Hashable] | None] = ContextVar("noted", default=None)
"""Signatures recorded in this thread's block: layers repeat the same signatures."""


def launch(kernel: Any, grid: tuple[int, ...], /, *args: Any, **options: Any) -> None:
    """Run `kernel[grid](*args, **options)` on this thread's current stream."""
    noted = _noted.get()
    if noted is None:
        kernel[grid](*args, **options)
        return
    key = id(kernel), *map(_specialization, args), *options.items()
    if key not in noted:
        noted.add(key)
        kernel.warmup(*args, grid=grid, **options)


def is_precompiling() -> bool:
    """True inside a `precompiling` block of this thread; callers with a choice of kernels then
    launch all."""
    return _noted.get() is not None


@contextmanager
def precompiling(wait: bool = True) -> Iterator[None]:
    """Record this thread's launches and compile the kernels at the end; other threads are
    unaffected.

    Kernels that fail to compile raise at the real launch. Without `wait`, kernels compile in the
    background for a later block with the same launches, or until `cancel_unclaimed`. An error or an
    interrupt skips pending kernels. Blocks cannot be nested.
    """
    kernels = _Kernels()
    with ExitStack() as stack:
        stack.callback(_noted.reset, _noted.set(set()))
        compiling = _compiling()
        if compiling is not None:
            _load_launchers_alone()
            stack.callback(compiling.reset, compiling.set(kernels))
        yield
    kernels.compile(wait)


def cancel_unclaimed() -> None:
    """Cancel background compilations not recorded by a later block."""
    for key in list(_under_way):
        kernel = _under_way.pop(key, None)
        if kernel is not None:
            kernel.cancel()


_under_way: dict[Hashable, Future[Any]] = {}
"""Unclaimed background compilations by device and key."""


class _Kernels:
    """Replacement for triton's AsyncCompileMode, which starts at once (compilers and block contend
    for the GIL), defers launchers and loading to the first launch, and breaks on interrupts."""

    def __init__(self) -> None:
        self._noted: dict[Hashable, tuple[Callable[[], Any], Callable[[Any], None]]] = {}

    def submit(
        self, key: Hashable, compile_: Callable[[], Any], keep: Callable[[Any], None]
    ) -> None:
        """Submit a compilation (called by triton). keep: receives the result of `compile_` on the
        requesting thread."""
        self._noted.setdefault(key, (compile_, keep))

    def compile(self, wait: bool) -> None:
        device = torch.cuda.current_device() if torch.cuda.is_initialized() else None
        begin = None if device is None else partial(torch.cuda.set_device, device)
        pool = ThreadPoolExecutor(min(MAX_THREADS, _cores()), "sgnb-compile", begin)
        kernels: dict[Hashable, Future[Any]] = {}

        try:
            for key, (compile_, _) in self._noted.items():
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
            said = f"compiling {len(slow)} kernels, which the next load will find"
            print(said, file=sys.stderr, flush=True)
        for key, kernel in kernels.items():
            with suppress(Exception):
                self._noted[key][1](kernel.result())


def _make_ready(compile_: Callable[[], Any]) -> Any:
    kernel = compile_()
    _ = kernel.run  # the property builds the launcher and loads the kernel
    return kernel


@cache
def _load_launchers_alone() -> None:
    """Serialize the loading of kernel launchers.

    Triton builds an extension module per signature under a single name. A second load of the name
    copies functions into the module in `sys.modules`; a concurrent load may overwrite the functions
    before use. Serialized loads yield separate modules. Triton 3.9 builds no extension modules.
    """
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
    """Return triton's variable of the active compile mode; None before version 3.5, with sequential
    compilation."""
    try:
        from triton.runtime._async_compile import active_mode
    except ImportError:
        return None
    return active_mode


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _specialization(argument: Any) -> Hashable:
    """Return the specialization key of a kernel argument."""
    if isinstance(argument, Tensor):
        return argument.dtype, argument.data_ptr() % ALIGNMENT == 0
    return type(argument), argument


def load_triton() -> None:
    """Hash triton's sources on a thread in advance; the first kernel of a process needs the hash as
    a cache key."""
    threading.Thread(target=_name_triton, name="sgnb-compile", daemon=True).start()


def _name_triton() -> None:
    with suppress(ImportError, OSError):  # triton is missing or has a different API
        from triton.runtime.cache import triton_key

        triton_key()
