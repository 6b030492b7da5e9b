"""The body as a function: scope, line numbers, and the short block for its errors."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import pytest

from sgnb.errors import EngineError, ProgramError
from sgnb.magics.body import compile_body
from sgnb.magics.line import Param
from sgnb.magics.report import short_lines, shorten
from sgnb.magics.table import Table

FILE = "<a cell>"


def label(filename: str) -> str | None:
    return "Cell In[3]" if filename == FILE else None


def body(text: str, params: str = "", **names: Any) -> Callable[..., Any]:
    lines = ["%%sglang\n", *text.splitlines(keepends=True)]
    linecache.cache[FILE] = (1, None, lines, FILE)
    return compile_body(
        text, "program", [Param.parse(p) for p in params.split()], FILE, names, {"gen": "the word"}
    )


def block(function: Callable[..., Any], *args: Any) -> list[str]:
    with pytest.raises(Exception) as caught:
        function(*args)
    return short_lines(caught.value, label)


def test_scope() -> None:
    names: dict[str, Any] = {"later": 1}
    function = compile_body(
        "x = later\nreturn s, q, n, gen, x",
        "program",
        [Param("q"), Param("n", "int", "3")],
        FILE,
        names,
        {"gen": "the word"},
    )
    names["later"] = 2
    assert function("state", "a") == ("state", "a", 3, "the word", 2)
    assert set(names) - {"__builtins__"} == {"later"}


def test_an_empty_body_and_comments() -> None:
    assert body("")("state") is None
    assert body("# nothing\n")("state") is None
    assert body("x = 1;")("state") is None


def test_error_points_at_the_cells_line() -> None:
    assert block(body("x = 1\nif x:\n    y = 'äö' + boom(x)\n", boom=lambda x: 1 / 0), None) == [
        "ZeroDivisionError: division by zero",
        "Cell In[3], line 4",
        "    y = 'äö' + boom(x)",
        "               ^^^^^^^",
    ]


def test_error_over_several_lines() -> None:
    assert block(body("x = int(\n  'a')\n"), None)[1:] == [
        "Cell In[3], line 2",
        "    x = int(",
        "        ^^^^",
    ]


def test_syntax_error_points_at_the_cells_line() -> None:
    assert block(body, "s += 1\nx = (\n") == [
        "BodySyntaxError: '(' was never closed",
        "Cell In[3], line 3",
        "    x = (",
        "        ^",
    ]
    assert "line 2" in block(body, "await s\n")[1]


def test_message_hint_and_cause() -> None:
    error = EngineError("the engine ended", "load it again")
    error.__cause__ = ValueError("bad step")
    assert short_lines(error, label) == [
        "EngineError: the engine ended",
        "because of ValueError: bad step",
        "hint: load it again",
    ]


def test_the_block_is_shown_once() -> None:
    error = ProgramError("no")
    shorten(error, label)
    assert error._render_traceback_() == ["ProgramError: no"]
    assert "_render_traceback_" not in vars(error)


def test_yield_is_refused() -> None:
    with pytest.raises(ProgramError, match="yield"):
        body("yield 1")


def test_table_escapes() -> None:
    table = Table([{"a": "<img onerror=x>", "bb": 1}, {"a": "y", "bb": 22}])
    assert "<img" not in table._repr_html_()
    assert "&lt;img" in table._repr_html_()
    assert repr(table).splitlines()[2] == "y                22"
    assert repr(Table(empty="no runs")) == "no runs"
