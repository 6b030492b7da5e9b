"""`--keep` and `%sglang tour`: static pictures of all views, within the limit of a notebook."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

import sgnb
from sgnb.errors import OptionError
from sgnb.events import replay
from sgnb.magics.complete import cell_words, line_words
from sgnb.magics.help_texts import cell_help, line_help
from sgnb.magics.session import SESSION
from sgnb.viz import KEPT_VIEWS
from sgnb.viz.state.run_details import RunDetails
from sgnb.viz.static.bundle import LIMIT, size
from sgnb.viz.static.time_svg import grouped

FORKS = """%%sglang {options} --temperature 0
s += "Two tips.\\n1. Regular exercise\\n2. Enough <sleep>\\n\\n"
forks = s.fork(3)
forks += lambda i: f"Expand tip {{i + 1}}.\\n"
forks += gen("detail", stop="\\n", max_tokens=6)
forks.join()
s += "As JSON: " + gen("record", regex=r'\\{{"age": [0-9]{{1,2}}\\}}')
"""
BATCH = """%%sglang each q {options} --over [str(i) for i in range({rows})] --temperature 0
s += "Count: " + q + gen("next", max_tokens=2, ignore_eos=True)
"""


@pytest.fixture
def forks(shell: Any) -> Any:
    shell("%sglang load tiny")
    shell("%sglang cache flush")
    shell(FORKS.format(options=""))
    return sgnb.recording()


def kept(capsys: Any, shell: Any, cell: str) -> str:
    capsys.readouterr()
    shell(cell)
    return str(capsys.readouterr().out)


def test_each_view_with_data_has_a_picture(forks: Any) -> None:
    assert forks.views() == ["text", "tree", "source", "branches", "time", "grammar"]
    for view in forks.views():
        picture = forks.picture(view)
        ET.fromstring(picture.svg)
        bundle = picture._repr_mimebundle_()
        assert picture.text and size(bundle) <= LIMIT, view
    for view in ("rows", "compare"):
        with pytest.raises(OptionError, match=f"no data for the view '{view}'"):
            forks.picture(view)
    with pytest.raises(OptionError, match="did you mean 'tree'"):
        forks.picture("tre")


def test_pictures_have_the_figures_of_the_run(forks: Any) -> None:
    run = forks.states.runs[forks.run]
    source = forks.picture("source").text
    assert "calls 3" in source and "calls 1" in source and 's += "Two tips.' in source
    details = RunDetails(forks.run, list(replay(forks.lines)))
    assert sum(len(call.tokens) for call in details.calls) == run.metrics.output_tokens
    assert sum(call.cached for call in details.calls) == run.metrics.cached_tokens
    assert len([step for step in details.steps if step.prefill + step.decode]) >= run.metrics.passes
    branches = forks.picture("branches").text
    assert [line.split(":")[0] for line in branches.splitlines()[1:]] == ["0", "0.0", "0.1", "0.2"]
    forced = run.metrics.jumped_tokens
    walk = forks.picture("grammar").text
    assert f"{forced} of them forced" in walk and "allowed)" in walk
    assert f"of {run.metrics.prompt_tokens} prompt tokens found" in forks.picture("time").text
    text = "".join(line.partition("  (")[0] for line in walk.splitlines()[2:]).replace("␣", " ")
    assert text == run.branches["0"].variables["record"]


def test_text_is_escaped(forks: Any) -> None:
    for view in forks.views():
        assert "<sleep" not in forks.picture(view).svg


def test_keep_prints_in_a_terminal(shell: Any, capsys: Any) -> None:
    shell("%sglang load tiny")
    out = kept(capsys, shell, FORKS.format(options="--keep source,grammar --show none"))
    assert "line by line" in out and "walk of record" in out and "over time" not in out
    out = kept(capsys, shell, BATCH.format(options="--keep rows,grammar -q", rows=3))
    assert "--keep grammar: this run has no data for the view" in out
    assert "q='2'" in out
    compared = FORKS.format(options="--vs nocache --rounds 1 --keep compare,text -q")
    assert "compared with itself" in (out := kept(capsys, shell, compared))
    assert "Two tips." in out


@pytest.mark.slow
def test_a_large_batch_stays_within_the_limit(shell: Any) -> None:
    shell("%sglang load tiny")
    shell(BATCH.format(options="", rows=300))
    recording = sgnb.recording()
    assert recording.views() == ["tree", "source", "branches", "time", "rows"]
    for view in recording.views():
        assert size(recording.picture(view)._repr_mimebundle_()) <= LIMIT, view


def test_steps_are_grouped_by_time(forks: Any) -> None:
    details = RunDetails(forks.run, list(replay(forks.lines)))
    columns = grouped(details.steps, details.ended - details.began, 3)
    assert 1 <= len(columns) <= 2 * 3 + 1
    for figure in ("prefill", "decode", "waiting"):
        largest = max(getattr(step, figure) for step in details.steps)
        assert max(getattr(column, figure) for column in columns) == largest
    assert grouped(details.steps, 0.0, 3) == details.steps


def test_the_tour_skips_views_without_data(shell: Any, forks: Any) -> None:
    tour = shell("%sglang tour")
    assert [step.view for step in tour.steps] == [
        "text", "tree", "source", "branches", "grammar", "time",
    ]  # fmt: skip
    text = repr(tour)
    assert "1 of 6: text" in text and "In the live view: press c on two lanes" in text
    shell(BATCH.format(options="-q --keep rows", rows=2))
    assert sgnb.tour().steps[0].view == "rows"
    assert repr(sgnb.tour(forks.run)) == text
    assert "no recording of 'run999999'" in "\n".join(shell.fails("%sglang tour run999999"))


def test_keep_is_checked_completed_and_in_the_help(shell: Any) -> None:
    error = "\n".join(shell.fails("%%sglang --keep tre\npass"))
    assert "--keep 'tre': not a view" in error and "did you mean 'tree'" in error
    assert "exclude each other" in "\n".join(shell.fails("%%sglang --dry --keep tree\npass"))
    assert cell_words(["--keep"], SESSION) == [*KEPT_VIEWS]
    assert "--keep VIEWS" in cell_help() and "%sglang tour [last|RUN]" in line_help()
    assert line_words(["tour"], SESSION)[0] == "last"
