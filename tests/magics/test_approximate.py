"""Cells with `--approximate`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import sgnb
from sgnb.errors import OptionError
from sgnb.magics.magic_options import CellLine, LineCall

NOTES = "notes = ''.join(f'On day {i} ship {i * 37 % 101} came in. ' for i in range(40))"
CELL = "s += '{title}. ' + notes + 'Which ship came first? Ship' + gen('answer')"
OPTIONS = "-m approximate --max-tokens 4 --temperature 0 -q"


@pytest.fixture
def notes(shell: Any) -> Iterator[Any]:
    shell("%sglang load tiny --as approximate --approximate-seconds 0")
    shell(NOTES)
    yield shell
    sgnb.unload("approximate")


def test_the_lines() -> None:
    assert dict(CellLine.parse("--approximate").sampling) == {"approximate": True}
    assert CellLine.parse("").sampling == ()
    line = "load tiny --approximate-seconds 0.5"
    assert LineCall.parse(line).options["approximate_seconds"] == 0.5


def test_a_cell_marks_its_answer(notes: Any, capsys: pytest.CaptureFixture[str]) -> None:
    notes(f"%%sglang {OPTIONS} -o old\n{CELL.format(title='A log')}")
    capsys.readouterr()
    shown = OPTIONS.replace("-q", "--static --show text")
    notes(f"%%sglang {shown} -o new --approximate\n{CELL.format(title='A log, copied')}")
    old, new = notes.ns["old"], notes.ns["new"]
    assert old.approximate == {} and list(new.approximate) == ["answer"]
    assert new.approximate["answer"].wait(60) is True

    text = capsys.readouterr().out
    assert re.search(r"approximate: computed \d+ of \d+ tokens; ", text), text


def test_a_batch(notes: Any) -> None:
    body = CELL.format(title="Log {t}").replace("'Log {t}. '", "f'Log {t}. '")
    notes(f"%%sglang first t {OPTIONS} -o old --over ['1']\n{body}")
    notes(f"%%sglang second t {OPTIONS} -o new --approximate --over ['22', '333']\n{body}")
    assert [state.approximate["answer"].wait(60) for state in notes.ns["new"]] == [True, True]


def test_a_wrong_number_of_seconds() -> None:
    with pytest.raises(OptionError):
        LineCall.parse("load tiny --approximate-seconds soon")
