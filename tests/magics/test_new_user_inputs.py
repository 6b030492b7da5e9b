"""Mistakes of new users: each is said in the cell, once, in plain words, without foreign frames."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import sgnb
from sgnb.magics.session import SESSION

pytestmark = pytest.mark.slow

INPUTS = [
    block.split("\n=> ") for block in Path(__file__).with_suffix(".txt").read_text().split("\n\n")
]
"""Cells, and a part of the text that the cell has to show."""

FOREIGN = re.compile(r"Traceback|site-packages|/sgnb/|^File ", re.MULTILINE)


def test_there_are_enough_inputs() -> None:
    assert len({cell for cell, _ in INPUTS}) >= 120


@pytest.mark.parametrize("cell, expected", INPUTS)
def test_an_input_is_said_once_without_foreign_frames(
    shell: Any, capsys: Any, shows_warnings: None, cell: str, expected: str
) -> None:
    if SESSION.engines.names() != ["tiny"]:
        for name in SESSION.engines.names():
            sgnb.unload(name)
        shell("%sglang load tiny")
    shell.shown.clear()
    capsys.readouterr()
    shell.ipython.run_cell(f"{cell}\n", store_history=True)
    captured = capsys.readouterr()
    shown = "\n".join([captured.out, captured.err, *shell.shown])
    assert shown.count(expected.strip()) == 1
    assert not FOREIGN.search(shown)
