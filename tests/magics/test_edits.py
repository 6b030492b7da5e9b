"""Edits that a page requests from the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sgnb.engine.engine import Engine
from sgnb.errors import OptionError
from sgnb.lang import function, gen
from sgnb.magics.edits import KEPT_RUNS, Edits
from sgnb.viz.live.views import EditRequest


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    import sgnb.backends  # noqa: F401  # lets programs run on engines

    with Engine("tiny", context_length=256, max_total_tokens=2048) as engine:
        yield engine


@function
def story(s: Any) -> None:
    s += "Once" + gen("a", max_tokens=8, ignore_eos=True)


def test_a_request_starts_an_edited_run(engine: Engine) -> None:
    state = story.run(backend=engine, temperature=0)
    position = state.at("a", 1).position
    edits, begun = Edits(), []
    edits.keep(state.program.run)
    state.program.run.on_edit = begun.append
    request = EditRequest(state.run_id, "0", position, " cat", None)
    message = edits(request)
    [run] = begun
    assert message == f"{run.id} continues from here"
    run.wait()
    assert " cat" in run.states[0]["a"] and run.states[0].error() is None
    edits.keep(run)  # an edit of the edit
    assert edits(request._replace(run=run.id, text=None, token=state.at("a", 1).token))
    assert begun[1].edit.call.branch.program.run is run
    begun[1].wait()


def test_requests_that_are_not_possible(engine: Engine) -> None:
    state = story.run(backend=engine, temperature=0)
    state.wait()
    edits = Edits()
    request = EditRequest(state.run_id, "0", state.at("a", 1).position, "x", None)
    with pytest.raises(OptionError, match=f"not among the last {KEPT_RUNS} runs"):
        edits(request)
    edits.keep(state.program.run)
    with pytest.raises(OptionError, match=r"no branch '0\.7'"):
        edits(request._replace(branch="0.7"))
    with pytest.raises(OptionError, match="token 0 was not generated"):
        edits(request._replace(position=0))

    for _ in range(KEPT_RUNS):
        later = story.run(backend=engine, temperature=0)
        later.wait()
        edits.keep(later.program.run)
    with pytest.raises(OptionError, match="run the cell again"):
        edits(request)


def test_a_running_program_is_paused_first(engine: Engine) -> None:
    @function
    def long(s: Any) -> None:
        s += "Once" + gen("a", max_tokens=200, ignore_eos=True)

    edits = Edits()
    state = long.run(backend=engine, temperature=0)
    run = state.program.run
    edits.keep(run)
    with pytest.raises(OptionError, match="pause the run first"):
        edits(EditRequest(run.id, "0", 5, "x", None))
    run.cancel()
    state.wait()
    with pytest.raises(OptionError, match=r"was not generated|has no tokens"):
        edits(EditRequest(run.id, "0", 0, "x", None))
