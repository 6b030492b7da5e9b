"""The original exception, with the program's line, wherever a value is missing because of it; and
nothing hangs."""

from __future__ import annotations

from typing import Any

import pytest

from sgnb.errors import OptionError, ProgramError, RequestError
from sgnb.events import BranchFinished, RunFinished
from sgnb.lang import Run, function, gen, set_default_backend


class Boom(Exception):
    pass


def failing(*names: str) -> Any:
    errors = {name: Boom(name) for name in names}
    return lambda call: errors.get(call.name, f"<{call.name}>")


def test_reading_raises_the_original_with_its_line(make: Any) -> None:
    executor = make(failing("b"), delay=0.02)
    with pytest.raises(Boom, match="b") as caught, Run(executor) as run:
        s = run.state()
        s += gen("a") + " "
        s += gen("b")
        s += gen("c")
        assert s["a"] == "<a>"
        for name in "bc":
            with pytest.raises(Boom, match="b"):
                s[name]
        with pytest.raises(Boom):
            s.sync()
        assert isinstance(s.error(), Boom)
        assert s.text() == "<a> "
    assert executor.names() == ["a", "b"]
    line = test_reading_raises_the_original_with_its_line.__code__.co_firstlineno + 5
    assert caught.value.__notes__ == [f"in gen 'b', at {__file__}:{line}"]
    assert executor.events(BranchFinished) == [BranchFinished(run.id, "0", "Boom: b")]
    assert executor.events(RunFinished) == [RunFinished(run.id, "error", "Boom: b")]


def test_a_call_that_is_refused_at_once(make: Any) -> None:
    executor = make()

    def refuse(call: Any, sink: Any) -> Any:
        raise RequestError("prompt too long")

    executor.generate = refuse
    with pytest.raises(RequestError), Run(executor) as run:
        s = run.state()
        s += gen("a")


def test_an_answer_of_the_wrong_shape_is_an_error(make: Any) -> None:
    with pytest.raises(IndexError), Run(make(lambda call: [])) as run:
        s = run.state()
        s += gen("a")


def test_join_brings_a_childs_error(make: Any) -> None:
    executor = make(failing("bad"), delay=0.02)
    with pytest.raises(Boom), Run(executor) as run:
        s = run.state()
        group = s.fork(3)
        group += [gen("x"), gen("bad"), gen("x")]
        group.join()
        s += gen("after")
        with pytest.raises(Boom):
            s["x"]
        assert group[0]["x"] == "<x>"
    assert "after" not in executor.names()


def test_a_childs_error_that_nobody_saw_ends_the_run(make: Any) -> None:
    with pytest.raises(Boom), Run(make(failing("bad"))) as run:
        s = run.state()
        s.fork(2)[1].__iadd__(gen("bad"))


def test_a_childs_error_that_the_program_saw_does_not(make: Any) -> None:
    executor = make(failing("bad"))
    with Run(executor) as run:
        s = run.state()
        group = s.fork(2)
        group += [gen("x"), gen("bad")]
        with pytest.raises(Boom):
            group[1]["bad"]
        s += group[0]["x"]
    assert s.text() == "<x>"
    assert executor.events(RunFinished)[0].status == "done"


def test_a_failed_parent_fails_the_forks_it_never_reached(make: Any) -> None:
    with pytest.raises(Boom), Run(make(failing("bad"), delay=0.02)) as run:
        s = run.state()
        s += gen("bad")
        group = s.fork(2)
        group += gen("x")
        with pytest.raises(Boom):
            group[1]["x"]


def test_an_error_of_the_programs_own_code(make: Any) -> None:
    executor = make(delay=30)

    @function
    def program(s: Any) -> None:
        s += gen("long")
        raise Boom("mine")

    with pytest.raises(Boom, match="mine"):
        program.run(backend=executor)
    assert len(executor.cancelled) == 1
    assert executor.events(RunFinished)[0].message == "Boom: mine"


def test_what_cannot_be_a_program() -> None:
    def wrong(state: Any) -> None: ...

    def empty() -> None: ...

    async def later(s: Any) -> Any:
        yield s

    for func, said in (
        (wrong, "is 'state'"),
        (empty, "is missing"),
        (later, "cannot be a program"),
    ):
        with pytest.raises(ProgramError, match=said):
            function(func)


def test_wrong_arguments(fake: Any) -> None:
    @function
    def program(s: Any, question: str, n: int = 1) -> None: ...

    with pytest.raises(OptionError, match="did you mean 'question'"):
        program.run(qestion="?", backend=fake)
    with pytest.raises(OptionError, match="did you mean 'temperature'"):
        program.run("?", temprature=0, backend=fake)
    with pytest.raises(OptionError, match="missing a required argument: 'question'"):
        program.run(backend=fake)
    with pytest.raises(OptionError, match="did you mean 'n'"):
        program.bind(nn=1)
    with pytest.raises(OptionError, match="top_p=5"):
        program.run("?", top_p=5, backend=fake)
    with pytest.raises(OptionError, match="'abc' is no set of arguments"):
        program.run_batch(["abc"], backend=fake)
    assert fake.events() == []


def test_nothing_to_run_on() -> None:
    set_default_backend(None)

    @function
    def program(s: Any) -> None: ...

    with pytest.raises(OptionError, match="nothing to run programs on"):
        program.run()


def test_the_notebook_shows_the_line_too(make: Any) -> None:
    with (
        pytest.raises(RequestError) as caught,
        Run(make(lambda call: RequestError("too long", "cut it"))) as run,
    ):
        s = run.state()
        s += gen("a")
    message, hint, note = caught.value._render_traceback_()
    assert (message, hint) == ("RequestError: too long", "  hint: cut it")
    assert note.startswith(f"in gen 'a', at {__file__}:")
