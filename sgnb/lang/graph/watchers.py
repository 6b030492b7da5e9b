"""Checks of a traced program's calls: functions that would read a placeholder, and calls whose
results or effects a trace cannot keep. Rewritten code (`watched_code.py`) calls this module."""

from __future__ import annotations

import builtins
import contextlib
import datetime
import os
import pathlib
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from ..core.program import inside
from ..location import is_library, program_line, warn_once
from .placeholders import Placeholders, PlaceholderText, with_placeholders
from .watched_code import is_program_code, watched

_CONTAINERS = list, dict, set, tuple, frozenset, deque
_PROTOCOL_FUNCTIONS: set[Any] = {
    str, repr, format, len, isinstance, issubclass, list, tuple, dict, set, frozenset, sorted, min,
    max, any, all, sum, zip, enumerate, map, filter, reversed, iter, next, range, bool, int, float,
    complex, abs, round, callable, hasattr, id, slice, object,
}  # fmt: skip
"""Functions that use a text only by methods that a placeholder refuses."""

_TEXT_METHODS = {"join", "format", "format_map", "replace"}
"""Methods of a string that insert the arguments into the result."""

_CHANGES = {
    "append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "add", "discard",
    "update", "setdefault", "popitem", "appendleft", "extendleft", "popleft", "write", "writelines",
    "put", "put_nowait",
}  # fmt: skip
_UNSTABLE_MODULES = {
    "random": "random numbers", "secrets": "random numbers", "uuid": "random numbers",
    "numpy.random": "random numbers", "time": "a clock", "subprocess": "another process",
    "socket": "a network", "urllib.request": "a network", "requests.api": "a network",
    "httpx": "a network", "io": "a file", "_io": "a file", "shutil": "a file", "tempfile": "a file",
}  # fmt: skip
_CLOCK_METHODS = {"now", "today", "utcnow"}
_FILE_METHODS = {
    "read_text", "read_bytes", "write_text", "write_bytes", "open", "exists", "is_file", "is_dir",
    "iterdir", "glob", "rglob", "stat", "unlink", "mkdir",
}  # fmt: skip
_FILE_FUNCTIONS = {os.listdir, os.stat, os.remove, os.replace, os.mkdir, os.makedirs, builtins.open}


def _placeholders() -> Placeholders | None:
    """Return the placeholders of the trace that runs here, or None outside of a trace."""
    return getattr(inside.get(), "placeholders", None)


def _text(value: Any) -> Any:
    """Return a formatted text with placeholders as a `PlaceholderText`."""
    if type(value) is str and not value.isascii():
        placeholders = _placeholders()
        if placeholders is not None:
            return with_placeholders(value, placeholders)
    return value


def _contains(item: Any, container: Any) -> bool:
    """Return `item in container`. Refuses a placeholder in a string."""
    if isinstance(item, PlaceholderText) and isinstance(container, str):
        item.refuse("`in`")
    return item in container


def _store(name: str, value: Any) -> Any:
    """Check an assignment to a part of the outside variable `name`, and return `value`."""
    if _placeholders() is not None:
        _check_effect(f"an assignment to {name}", [value])
    return value


def _call(outside: str | None, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call `function`. `outside`: the variable outside of the program that has the method."""
    kind = type(function)
    if kind is FunctionType or kind is MethodType:
        inner = function.__func__ if kind is MethodType else function
        if type(inner) is FunctionType:
            if str(inner.__globals__.get("__name__", "")).startswith("sgnb."):
                return function(*args, **kwargs)
            if is_program_code(inner):
                owner = (function.__self__,) if kind is MethodType else ()
                return watched(inner, WATCHERS)(*owner, *args, **kwargs)
    placeholders = _placeholders()
    if placeholders is None:
        return function(*args, **kwargs)
    if placeholders.warns and (source := _unstable(function)):
        warning = f"{_name(function)}() reads {source}: each run has another value than the trace"
        warn_once(warning, program_line())

    name = getattr(function, "__name__", "")
    if function is print:
        _check_effect("print()", [*args])
    elif outside is not None and name in _CHANGES and _is_changeable(function):
        _check_effect(f"{outside}.{name}()", [*args, *kwargs.values()])
    elif not _is_transparent(function):
        generated = next(_generated((args, kwargs)), None)
        if generated is not None:
            if function is type and len(args) == 1:
                return str
            generated.refuse(f"{_name(function)}()")
    return _text(function(*args, **kwargs))


WATCHERS: dict[str, Callable[..., Any]] = {
    "_sgnb_text": _text, "_sgnb_call": _call, "_sgnb_contains": _contains, "_sgnb_store": _store,
}  # fmt: skip


@contextlib.contextmanager
def kept_random_state() -> Iterator[None]:
    """Restore the global random generators of `random` and numpy after the block."""
    state, numpy = random.getstate(), sys.modules.get("numpy")
    numpy_state = None if numpy is None else numpy.random.get_state()
    try:
        yield
    finally:
        random.setstate(state)
        if numpy is not None:
            numpy.random.set_state(numpy_state)


def _check_effect(effect: str, values: list[Any]) -> None:
    """Refuse an effect outside of the program that keeps a placeholder, and warn about others."""
    placeholders = _placeholders()
    if placeholders is None:
        return
    for text in _placeholder_texts(values):
        text.refuse(effect)
    if placeholders.warns:
        warning = f"{effect} has an effect outside of the program: a trace has the effect once more"
        warn_once(warning, program_line())


def _is_changeable(function: Any) -> bool:
    """Return whether a method belongs to an object outside of sgnb and is not a module's."""
    owner = getattr(function, "__self__", None)
    is_own = type(owner).__module__.startswith("sgnb.")
    return not (owner is None or isinstance(owner, ModuleType) or is_own)


def _is_transparent(function: Any) -> bool:
    """Return whether a function cannot decide on a placeholder without a refusal."""
    if isinstance(function, type):
        return (
            function in _PROTOCOL_FUNCTIONS
            or issubclass(function, BaseException)
            or function.__module__.startswith("sgnb.")
            or not is_library(_file_of(function))
        )
    if isinstance(function, BuiltinFunctionType) and function.__self__ is not builtins:
        owner = function.__self__
        if isinstance(owner, str):
            return function.__name__ in _TEXT_METHODS
        return isinstance(owner, _CONTAINERS) or owner is dict
    if type(function).__module__.startswith("sgnb."):
        return True
    try:
        return function in _PROTOCOL_FUNCTIONS
    except TypeError:  # without a hash
        return False


def _file_of(type_: type) -> str:
    """Return the source file of a class; "" for a class of a notebook."""
    if type_.__module__ == "__main__":
        return ""
    module = sys.modules.get(type_.__module__)
    return getattr(module, "__file__", None) or "<frozen builtins>"


def _unstable(function: Any) -> str:
    """Name the source of a result that differs between two runs; "" for a stable function."""
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if isinstance(owner, random.Random):
        return "random numbers"
    if isinstance(owner, type) and issubclass(owner, datetime.date) and name in _CLOCK_METHODS:
        return "a clock"
    if isinstance(owner, pathlib.Path) and name in _FILE_METHODS:
        return "a file"
    if type(function) is BuiltinFunctionType and function in _FILE_FUNCTIONS:
        return "a file"
    module = getattr(function, "__module__", None) or type(owner).__module__
    if module.startswith("numpy.random"):
        return "random numbers"
    return _UNSTABLE_MODULES.get(module, "")


def _name(function: Any) -> str:
    """Return a function's name with the module or the class."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None) or ""
    is_method = "." in name
    return name if is_method or module in ("", "builtins") else f"{module.lstrip('_')}.{name}"


def _placeholder_texts(value: Any, depth: int = 3) -> Iterator[PlaceholderText]:
    """Yield the placeholder texts in a value, also inside containers."""
    if isinstance(value, PlaceholderText):
        yield value
    elif depth and isinstance(value, dict):
        for item in value.items():
            yield from _placeholder_texts(item, depth - 1)
    elif depth and isinstance(value, _CONTAINERS):
        for item in value:
            yield from _placeholder_texts(item, depth - 1)


def _generated(value: Any) -> Iterator[PlaceholderText]:
    """Yield the texts in a value that have generated data."""
    for text in _placeholder_texts(value):
        if text.has_generated_data:
            yield text
