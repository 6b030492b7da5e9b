"""Triton kernels compiled before they are needed, many at a time.

All of the engine's kernels are launched through `launch`. A `precompiling` block notes kernels
instead, by the arguments that they would be compiled for, and then compiles them on a pool of
threads. Nothing runs: what such kernels write has no meaning, so the block may run any code that
reads nothing from it.
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
PATIENCE = 1.0  # seconds of compiling before it is said
ALIGNMENT = 16  # bytes: kernels are compiled for aligned pointers, and for others

_noted: ContextVar[set[Hashable] | None] = ContextVar("noted", default=None)
"""Of this thread's block: the layers of a model ask for the same again and again."""


def launch(kernel: Any, grid: tuple[int, ...], /, *args: Any, **options: Any) -> None:
    """`kernel[grid](*args, **options)`, on this thread's current stream."""
    noted = _noted.get()
    if noted is None:
        kernel[grid](*args, **options)
        return
    key = id(kernel), *map(_specialization, args), *options.items()
    if key not in noted:
        noted.add(key)
        kernel.warmup(*args, grid=grid, **options)


def is_precompiling() -> bool:
    """Whether this thread is in a `precompiling` block, where whoever chooses between kernels
    launches all of them."""
    return _noted.get() is not None


@contextmanager
def precompiling(wait: bool = True) -> Iterator[None]:
    """Note this thread's launches, and compile them at the end; other threads go on as ever.

    Then all kernels are ready, but for those that cannot be compiled: they raise when they are
    launched in earnest. Without `wait` they are compiled in the background, for a later block that
    notes the same, or until `cancel_unclaimed`. An error or an interrupt leaves out what has not
    begun. Such blocks cannot be nested.
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
    """Leave out what was begun without waiting, and no later block noted."""
    for key in list(_under_way):
        kernel = _under_way.pop(key, None)
        if kernel is not None:
            kernel.cancel()


_under_way: dict[Hashable, Future[Any]] = {}
"""Kernels that nobody waits for yet, by device and key."""


class _Kernels:
    """What is noted, in the place of triton's AsyncCompileMode. That begins at once, so that
    compilers and block contend for the GIL; it leaves launchers and loading to the first launch,
    and breaks when it is interrupted."""

    def __init__(self) -> None:
        self._noted: dict[Hashable, tuple[Callable[[], Any], Callable[[Any], None]]] = {}

    def submit(
        self, key: Hashable, compile_: Callable[[], Any], keep: Callable[[Any], None]
    ) -> None:
        """For triton. keep: takes what `compile_` gives, on the thread that asked."""
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
    """From now on, let no thread take another kernel's launcher.

    Triton builds an extension module for each signature, all of one name. When Python loads such a
    module again, it puts its functions into the one that `sys.modules` has under the name: what
    another thread loads before these are read takes their place. So modules are loaded one after
    the other, and each loading gives a module of its own. Triton 3.9 builds none.
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
    """Where triton looks for who compiles; None before version 3.5, which compiles one after the
    other."""
    try:
        from triton.runtime._async_compile import active_mode
    except ImportError:
        return None
    return active_mode


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _specialization(argument: Any) -> Hashable:
    """What a kernel is compiled for, of one argument."""
    if isinstance(argument, Tensor):
        return argument.dtype, argument.data_ptr() % ALIGNMENT == 0
    return type(argument), argument


def load_triton() -> None:
    """Begin, on a thread, what the first kernel of a process waits for: triton hashes its own
    sources for the key of its cache."""
    threading.Thread(target=_name_triton, name="sgnb-compile", daemon=True).start()


def _name_triton() -> None:
    with suppress(ImportError, OSError):  # without triton, or in a version that does it otherwise
        from triton.runtime.cache import triton_key

        triton_key()
