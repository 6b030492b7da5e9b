"""Python source is read on many threads at the same time."""

from __future__ import annotations

import ast
import gc
import linecache
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sgnb.lang.source import literal, parse, source_line, source_of

NUM_THREADS = 20
SOURCE = """\
from sgnb.lang import function, gen

@function
def program(s, n):
    s += f"Question {n}: " + gen("a")
    if n:
        s += [gen("b"), {"c": (1, 2)}][0]
"""


def make_program(name: str) -> Any:
    """A program that has not run, in a file of the line cache."""
    file = f"/virtual/{name}.py"
    linecache.cache[file] = len(SOURCE), None, SOURCE.splitlines(keepends=True), file
    namespace: dict[str, Any] = {"__name__": "virtual"}
    exec(compile(SOURCE, file, "exec"), namespace)
    return namespace["program"]


@contextmanager
def switching() -> Iterator[None]:
    """Garbage collections switch threads: they happen in the middle of a syntax tree."""

    def switch(phase: str, info: Any) -> None:
        time.sleep(0)

    before, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.callbacks.append(switch)
    gc.set_threshold(20, 1000, 1000)
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        gc.callbacks.remove(switch)
        gc.set_threshold(*before)
        sys.setswitchinterval(interval)


def test_first_runs_on_threads(fake: Any) -> None:
    programs = [make_program(f"first{i}") for i in range(3 * NUM_THREADS)]
    errors: list[BaseException] = []
    start = threading.Barrier(NUM_THREADS)

    def work(place: int) -> None:
        start.wait(60)
        for program in programs[place::NUM_THREADS]:
            try:
                program.run(place, backend=fake)
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(NUM_THREADS)]
    with switching():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


def test_a_parse_that_another_library_disturbed_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls, original = [], ast.parse

    def disturbed(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) < 3:
            raise SystemError("AST constructor recursion depth mismatch (before=30, after=24)")
        return original(*arguments)

    monkeypatch.setattr(ast, "parse", disturbed)
    assert ast.unparse(parse("1 +  2")) == "1 + 2"
    assert len(calls) == 3


def test_source_lines_and_literals() -> None:
    program = make_program("lines")
    assert source_of(program.func) == SOURCE.partition("\n\n")[2]
    assert source_of(len) == ""
    assert source_line("/virtual/lines.py", 4) == "def program(s, n):\n"
    assert source_line("/virtual/none.py", 4) == ""
    assert literal(" [1, 'a']") == [1, "a"]
    with pytest.raises(SyntaxError):
        parse("a b")
    with pytest.raises(ValueError, match="malformed"):
        literal("a")
