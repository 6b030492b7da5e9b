"""The line that a load shows."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import sgnb
from sgnb.errors import ModelError


def test_where_nothing_can_be_drawn_over_only_the_end_is_said(shell: Any, capsys: Any) -> None:
    sgnb.load("tiny", name="other")
    sgnb.unload("other")
    said = capsys.readouterr()
    assert said.out.startswith("loaded other in ") and said.out.count("\n") == 1
    assert said.err == ""


def test_a_terminals_line_is_drawn_over_itself_and_goes(
    shell: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    sgnb.load("tiny", name="other")
    sgnb.unload("other")
    with pytest.raises(ModelError):
        sgnb.load("/nowhere", name="other")
    said = capsys.readouterr()
    drawn = said.err.split("\r")
    assert "\n" not in said.err and "reading weights" in said.err and "sizing" in said.err
    assert drawn[-1] == "" and drawn[-2].isspace(), "cleared"
    assert said.out.count("loaded other in ") == 1
