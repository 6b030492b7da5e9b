"""`%sglang runs rerun`, and the buttons of a batch, without a browser."""

from __future__ import annotations

import pytest

import sgnb
from sgnb.magics.magic_options import CellLine
from sgnb.magics.run_views import Views
from sgnb.magics.session import SESSION

from .conftest import Shell

CELL = """%%sglang ask q:str --over ['Rome', 'Oslo', 'Bern'] --temperature 0 --show text -o rows
if q in broken:
    raise ValueError(f'{q} is broken')
s += f"The capital of {q} is" + gen("answer", max_tokens=4)
"""


def test_failed_rows_run_again(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.ns["broken"] = {"Oslo"}
    shell(CELL)
    first = shell.ns["rows"]
    assert first.failed == [1]
    shell.ns["broken"].clear()
    capsys.readouterr()
    shell("%sglang runs rerun rows")
    again = shell.ns["rows"]
    assert again.failed == [] and again[0] is first[0] and len(again[1]["answer"]) > 0
    out = capsys.readouterr().out
    assert "1 row of rows ran again, 0 failed" in out
    assert "q='Oslo'" in out and "q='Rome'" not in out, "only the failed row runs"
    shell("%sglang runs rerun rows")
    assert "no row of rows has failed" in capsys.readouterr().out


def test_rows_that_fail_again_keep_the_states(shell: Shell) -> None:
    shell.ns["broken"] = {"Oslo"}
    shell(CELL)
    first = shell.ns["rows"]
    lines = shell.fails("%sglang runs rerun rows")
    assert lines[0] == "ValueError: Oslo is broken"
    assert shell.ns["rows"].failed == [1] and shell.ns["rows"][0] is first[0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rerun nosuch", "no batch is called 'nosuch'"),
        ("rerun a b", "'b' is not expected"),
        ("ls a", "'a' is not expected"),
    ],
)
def test_mistakes(shell: Shell, line: str, message: str) -> None:
    shown = shell.fails(f"%sglang runs {line}")
    assert message in shown[0] and shown[-1].startswith("hint: ")


def test_the_buttons_have_csv_and_refuse_a_running_batch(shell: Shell) -> None:
    shell.ns["broken"] = set()
    shell(CELL)
    views = Views(SESSION.engines.backend(), CellLine(show=()), SESSION)
    with pytest.raises(sgnb.errors.OptionError, match="the batch is still running"):
        views._run_rows("csv")
    views.close(shell.ns["rows"])
    data = views._run_rows("csv")
    assert data == shell.ns["rows"].csv_text().encode()
    assert views._run_rows("rerun") == "", "no row has failed"


def test_an_empty_batch_says_so(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    shell("%%sglang ask q --over []\ns += q + gen('a')\n")
    assert "--over [] has no rows" in capsys.readouterr().out
    assert shell.ns["s"] == []
