"""Forks begin where their parent is when it comes to them, and joins bring back what they made."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from sgnb.errors import OptionError, ProgramError
from sgnb.events import BranchFinished, BranchStarted, TextAppended
from sgnb.lang import Run, gen, user_begin, user_end


def by_name_and_branch(call: Any) -> str:
    return f"{call.name}@{call.branch}"


def test_children_begin_with_what_the_parent_holds(make: Any) -> None:
    executor = make(by_name_and_branch, delay=0.02)
    with Run(executor) as run:
        s = run.state()
        s["n"] = 1
        s += user_begin() + "Q" + gen("a")
        group = s.fork(2)
        s += " after" + user_end()
        group[0] += "!" + user_end()
        assert group[0]["a"] == "a@0"
        assert group[0]["n"] == 1
        assert group[0].text() == "USER: Qa@0!\n"
        assert group[0].messages() == [{"role": "user", "content": "Qa@0!"}]
        assert group[1].text() == "USER: Qa@0"
    assert s.text() == "USER: Qa@0 after\n"


def test_nothing_waits_while_the_parent_generates(make: Any) -> None:
    executor = make(by_name_and_branch, delay=0.3)
    with Run(executor) as run:
        s = run.state()
        s += gen("a")
        group = s.fork(3)
        group += lambda i: f" {i} " + gen("b")
        group.join()
        s += gen("c")
        assert executor.names() == ["a"]
        assert s["b"] == ["b@0.0", "b@0.1", "b@0.2"]
        assert s["c"] == "c@0"
    assert executor.most_running == 3


def test_join_gathers_new_variables_in_order(make: Any) -> None:
    delays = {"0.0": 0.06, "0.1": 0.03, "0.2": 0.0}
    with Run(make(by_name_and_branch, delay=lambda call: delays.get(call.branch, 0))) as run:
        s = run.state()
        s += gen("old")
        group = s.fork(3)
        group += gen("x") + gen()
        group[1]["only"] = "one"
        group.join()
        assert s["x"] == ["x@0.0", "x@0.1", "x@0.2"]
        assert s["only"] == ["one"]
        assert s["old"] == "old@0"
        assert "gen_0" not in s
        assert [meta["length"] for meta in s.get_meta_info("x")] == [5] * 3
        assert group[2]["x"] == "x@0.2"


def test_concate_and_append(make: Any) -> None:
    executor = make(by_name_and_branch)
    with Run(executor) as run:
        s = run.state()
        s += "start"
        group = s.fork(2)
        group += [" A", " B" + gen("x")]
        group.join("concate_and_append")
        s += " end"
    assert s.text() == "start A Bx@0.1 end"
    assert "x" not in s
    assert TextAppended(run.id, "0", " A") in executor.events()


def test_what_a_group_takes(fake: Any) -> None:
    with Run(fake) as run:
        s = run.state()
        group = s.fork(2)
        group += "a"
        group += ["b", "c"]
        group += lambda i: str(i)
        for branch in group:
            branch += "."
        assert [branch.text() for branch in group] == ["ab0.", "ac1."]
        assert len(group) == 2
        with pytest.raises(ProgramError, match="3 expressions for 2 branches"):
            group += ["a", "b", "c"]
        with pytest.raises(OptionError, match="gather_variable"):
            group.join("gather")
        with pytest.raises(ProgramError, match="cannot be replaced"):
            group[0] = s
    with pytest.raises(OptionError, match=r"fork\(0\)"):
        s.fork(0)


def test_a_joined_branch_takes_nothing_more(fake: Any) -> None:
    with Run(fake) as run:
        s = run.state()
        group = s.fork(2)
        group.join()
        with pytest.raises(ProgramError, match=r"branch 0\.1 was joined"):
            group[1] += "x"
        with pytest.raises(ProgramError, match="was joined"):
            group.join()


def test_names_across_forks(make: Any) -> None:
    with Run(make(by_name_and_branch)) as run:
        s = run.state()
        s += gen("x")
        inner = s.fork(1)
        inner += gen("x")
        assert inner[0]["x"] == "x@0.0"
        inner.join()
        assert s["x"] == ["x@0.0"] and s.history("x") == ["x@0", ["x@0.0"]]
        for _ in range(2):
            group = s.fork(2)
            group += gen("thought")
            group.join()
        assert s["thought"] == ["thought@0.3", "thought@0.4"]


@pytest.mark.filterwarnings("ignore:.*is used again")
def test_a_join_gathers_of_those_that_set_the_name(make: Any) -> None:
    with Run(make(by_name_and_branch)) as run:
        s = run.state()
        s["x"] = 0
        group = s.fork(3)
        group[0] += gen("x")
        group[2] += gen("x")
        group.join()
        assert s["x"] == ["x@0.0", "x@0.2"]


def test_a_name_of_a_fork_says_where_it_is(fake: Any) -> None:
    with Run(fake) as run:
        s = run.state()
        s.fork(2)[1].__iadd__(gen("x"))
        with pytest.raises(ProgramError, match="a fork sets it"):
            s["x"]


def test_copy(make: Any) -> None:
    with Run(make(by_name_and_branch)) as run:
        s = run.state()
        s += "a"
        with s.copy() as c:
            c += gen("x")
        s += "b"
        assert s["x"] == ["x@0.0"]
    assert s.text() == "ab"


def test_forks_of_forks(make: Any) -> None:
    executor = make(by_name_and_branch, delay=0.01)
    with Run(executor) as run:
        s = run.state()
        outer = s.fork(2)
        for branch in outer:
            branch += gen("plan")
            inner = branch.fork(2)
            inner += gen("step")
            inner.join()
        outer.join()
        assert s["step"] == [["step@0.0.0", "step@0.0.1"], ["step@0.1.0", "step@0.1.1"]]
    started = executor.events(BranchStarted)
    assert {(e.branch, e.parent) for e in started} == {
        ("0", ""),
        ("0.0", "0"),
        ("0.1", "0"),
        ("0.0.0", "0.0"),
        ("0.0.1", "0.0"),
        ("0.1.0", "0.1"),
        ("0.1.1", "0.1"),
    }
    assert sorted(e.branch for e in executor.events(BranchFinished)) == sorted(
        e.branch for e in started
    )


def test_a_large_fork_needs_no_threads(make: Any) -> None:
    executor = make(by_name_and_branch, together=200)
    before = threading.active_count()
    with Run(executor) as run:
        s = run.state()
        group = s.fork(200)
        group += gen("x") + gen("y")
        group.join()
        assert threading.active_count() <= before
        assert s["y"][199] == "y@0.199"
    assert executor.most_running == 200


def test_the_size_of_a_fork_may_be_numpys(fake: Any) -> None:
    with Run(fake) as run:
        s = run.state()
        assert len(s.fork(np.int64(3))) == 3
        with pytest.raises(OptionError, match=r"fork\(True\)"):
            s.fork(True)
