"""Imports that an interrupt cannot leave incomplete. After an incomplete import, a library of many
modules, for example transformers, can be unusable for the rest of the process. Imports `latch`
only.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from .latch import Latch


def import_whole(name: str) -> ModuleType:
    """Import a module and return the module. The main thread imports on another thread: an
    interrupt ends the wait, and the import continues.

    Args:
        name: Absolute name of the module.

    Raises:
        KeyboardInterrupt: During the wait on the main thread.
        BaseException: Any error of the import.
    """
    on_main = threading.current_thread() is threading.main_thread()
    if not on_main or _is_complete(name):
        return import_module(name)
    done, errors = Latch(), list[BaseException]()

    def work() -> None:
        try:
            with _no_collection():
                import_module(name)
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=work, name="sgnb-import", daemon=True).start()
    done.wait()
    if errors:
        raise errors[0]
    return sys.modules[name]


def _is_complete(name: str) -> bool:
    """Return whether the module is imported, and no thread is importing the module."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disable garbage collection: an import of transformers creates many objects and frees few."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
