"""Python source on any thread: syntax trees, the text of functions, single lines of files.

CPython before 3.11.8 and 3.12.2 counts the depth of all running conversions to syntax trees in one
variable (gh-106905): `ast.parse` on two threads raises SystemError. `inspect` and `linecache` drop
cache entries between the test for an entry and the read.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import traceback
from collections.abc import Callable
from contextlib import suppress
from threading import RLock
from types import CodeType
from typing import Any, Literal

PARSE_ATTEMPTS = 10

_lock = RLock()  # reentrant: a finalizer may run a program while the lock is held


def parse(text: str, filename: str = "<unknown>", mode: Literal["exec", "eval"] = "exec") -> Any:
    """Return the syntax tree of `text`. Raises SyntaxError."""
    with _lock:
        # The lock does not cover parses by other libraries, for instance IPython and `traceback`.
        for _ in range(PARSE_ATTEMPTS - 1):
            with suppress(SystemError):
                return ast.parse(text, filename, mode)
        return ast.parse(text, filename, mode)


def literal(text: str) -> Any:
    """Return the value of a Python literal. Raises ValueError or SyntaxError."""
    return ast.literal_eval(parse(text.lstrip(" \t"), mode="eval"))


def source_of(func: Callable[..., Any] | CodeType) -> str:
    """Return the source of `func`, or "" without source.

    Unlike `inspect.getsource` without a search through all modules, which takes milliseconds in a
    process with torch.
    """
    code = func if isinstance(func, CodeType) else getattr(inspect.unwrap(func), "__code__", None)
    if code is None:
        return ""
    with _lock:
        linecache.checkcache(code.co_filename)
        lines = linecache.getlines(code.co_filename, getattr(func, "__globals__", None))
        return "".join(inspect.getblock(lines[max(code.co_firstlineno, 1) - 1 :]))


def source_line(file: str, line: int) -> str:
    """Return a line of a file or cell, or "" without source."""
    with _lock:
        return linecache.getline(file, line)


def file_source(file: str) -> str:
    """Return the source of a file or cell, or "" without source."""
    with _lock:
        return "".join(linecache.getlines(file))


def frames_of(error: BaseException) -> traceback.StackSummary:
    """Return the frames of the traceback of `error`, outermost first."""
    with _lock:
        return traceback.extract_tb(error.__traceback__)
