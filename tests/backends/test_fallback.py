"""Lists of backends: the second is asked after a ServiceError of the first."""

from __future__ import annotations

import time
from typing import Any

import pytest

pytest.importorskip("openai")

import sgnb as sgl
from sgnb.backends.api import limits
from sgnb.errors import OptionError, RequestError, ServiceError, TimedOut, TraceError
from sgnb.lang.executor import executor_of

from .service import KEY, Fault, Service
from .tool_service import Reply, ToolService, Wire


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    monkeypatch.setattr(limits, "FIRST_WAIT", 0.01)


@pytest.fixture
def first():
    with Service(lambda request: "from the first") as service:
        yield service


@pytest.fixture
def second():
    with Service(lambda request: "from the second") as service:
        yield service


def model(service: Service, name: str, is_chat: bool = True, **options) -> sgl.OpenAI:
    options = {"tries": 2, **options}
    return sgl.OpenAI(name, is_chat, base_url=service.url, api_key=KEY, **options)


@sgl.function
def ask(s: Any, **options: Any) -> None:
    s += sgl.user("Hello?")
    s += sgl.assistant(sgl.gen("a", max_tokens=16, **options))


DOWN = [Fault("status", 503)] * 2


@pytest.mark.parametrize("stream", [False, True])
def test_the_second_answers_after_the_tries_of_the_first(first, second, stream) -> None:
    first.fail(*DOWN)
    backends = [model(first, "one"), model(second, "two")]
    state = ask.run(backend=backends, stream=stream)
    assert "".join(state.text_iter("a")) == state["a"] == "from the second"
    meta = state.get_meta_info("a")
    assert (meta["backend"], meta["backend_index"]) == ("two", 1)
    [error] = meta["backend_errors"]
    assert "503" in error and KEY not in error
    assert (len(first.requests), len(second.requests)) == (2, 1)
    assert second.requests[0].body["messages"] == first.requests[0].body["messages"]

    again = ask.run(backend=backends)
    assert again["a"] == "from the first"
    meta = again.get_meta_info("a")
    assert (meta["backend"], meta["backend_index"], meta["backend_errors"]) == ("one", 0, [])


def test_each_program_of_a_batch_falls_back_alone(first, second) -> None:
    first.fail(None, Fault("status", 401), None)
    backends = [model(first, "one", max_parallel=1), model(second, "two")]
    states = ask.run_batch([{}] * 4, backend=backends, num_threads=1)
    used = [state.get_meta_info("a")["backend"] for state in states]
    assert sorted(used) == ["one", "one", "one", "two"]


def test_a_generation_with_its_own_list(first, second) -> None:
    first.fail(*DOWN)
    with Service(lambda request: "from the run") as run:
        backends = [model(first, "one"), model(second, "two")]

        @sgl.function
        def both(s: Any) -> None:
            s += sgl.user("Hello?") + sgl.assistant(sgl.gen("a", backend=backends))
            s += sgl.user("And?") + sgl.assistant(sgl.gen("b"))

        state = both.run(backend=model(run, "three"))
        assert (state["a"], state["b"]) == ("from the second", "from the run")
        assert state.get_meta_info("a")["backend"] == "two"
        assert "backend" not in state.get_meta_info("b")


def test_a_select_falls_back(first, second) -> None:
    first.fail(*DOWN)
    second.answer = lambda request: '{"choice": "no"}'

    @sgl.function
    def program(s: Any) -> None:
        s += sgl.user("?") + sgl.assistant(sgl.select("word", ["yes", "no"]))

    state = program.run(backend=[model(first, "one"), model(second, "two")])
    assert state["word"] == "no" and state.get_meta_info("word")["backend"] == "two"


def test_if_all_fail_the_error_quotes_all(first, second) -> None:
    first.fail(*DOWN)
    second.fail(Fault("status", 401))
    with pytest.raises(ServiceError, match=r"no backend answered: 'one': .*503.*'two': .*401"):
        ask.run(backend=[model(first, "one"), model(second, "two")]).sync()


def test_text_that_the_reader_has_is_not_followed_by_another_model(first, second) -> None:
    first.fail(Fault("kill", after=2))
    state = ask.run(backend=[model(first, "one", tries=1), model(second, "two")], stream=True)
    with pytest.raises(ServiceError):
        state.sync()
    assert "from the" in state.text() and second.requests == []


def test_mistakes_of_the_program_do_not_fall_back(first, second) -> None:
    backends = [model(first, "one"), model(second, "two")]
    with pytest.raises(OptionError, match="ignore_eos"):
        ask.run(backend=backends, ignore_eos=True).sync()

    @sgl.function
    def outside(s: Any) -> None:
        s += sgl.user("?") + sgl.gen("a")

    with pytest.raises(RequestError, match="outside of the roles"):
        outside.run(backend=backends).sync()
    assert first.requests == second.requests == []


def test_a_timeout_of_the_generation_does_not_fall_back(first, second) -> None:
    first.fail(Fault("hang"))

    @sgl.function
    def program(s: Any) -> None:
        s += sgl.user("?") + sgl.assistant(sgl.gen("a", timeout=0.2))

    with pytest.raises(TimedOut):
        program.run(backend=[model(first, "one"), model(second, "two")]).sync()
    assert second.requests == []


def test_a_timeout_of_the_service_falls_back(first, second) -> None:
    first.fail(Fault("hang"))
    backends = [model(first, "one", timeout=0.2, tries=1), model(second, "two")]
    assert ask.run(backend=backends)["a"] == "from the second"


def test_a_stopped_run_stops_the_second_backend(first, second) -> None:
    first.fail(*DOWN)
    second.fail(Fault("hang"))

    @sgl.function
    def program(s: Any) -> None:
        s += sgl.user("?") + sgl.assistant(sgl.gen("a"))

    state = program.run(backend=[model(first, "one"), model(second, "two")], stream=True)
    while not second.requests:
        time.sleep(0.01)
    state.cancel()
    with pytest.raises(sgl.errors.Aborted):
        state.sync()


def test_roles_and_stops_are_those_of_the_answering_backend(first, second) -> None:
    first.fail(*DOWN)
    assert ask.run(backend=[model(first, "one"), model(second, "two", False)])["a"]
    [request] = second.requests
    assert request.prompt == "USER: Hello?\nASSISTANT: "
    assert request.body["stop"] == ["\nUSER:"]


def test_an_engine_as_the_last_resort(first) -> None:
    first.fail(*DOWN)
    with sgl.Engine("tiny") as engine:
        expected = ask.run(backend=engine, temperature=0)
        state = ask.run(backend=[model(first, "one"), engine], temperature=0)
        assert state["a"] == expected["a"]
        for name in ("prompt_tokens", "completion_tokens"):
            assert state.get_meta_info("a")[name] == expected.get_meta_info("a")[name]
        assert state.get_meta_info("a")["backend_index"] == 1

        with pytest.raises(OptionError, match="tools on several backends need chat services"):
            ask_with_tools.run(backend=[model(first, "one"), engine]).sync()


def add(a: int) -> int:
    """Adds one."""
    return a + 1


@sgl.function
def ask_with_tools(s: Any) -> Any:
    s += sgl.user("?")
    return sgl.agent(s, [add], max_tokens=32)


def test_tools_fall_back_also_after_faulty_calls() -> None:
    faulty, good = Wire("rm", "{}"), Wire("add", '{"a": 1}')

    def reply(body: dict[str, Any]) -> Reply:
        return Reply("Two.") if body["messages"][-1]["role"] == "tool" else Reply("", [good])

    with ToolService(Reply("", [faulty])) as broken, ToolService(reply) as service:
        backends = [
            sgl.OpenAI(name, base_url=f"{server.url}/v1", api_key=KEY, format_tries=2)
            for name, server in (("one", broken), ("two", service))
        ]
        state = ask_with_tools.run(backend=backends)
        assert state.ret_value == "Two."
        assert state.get_meta_info("answer_0")["backend"] == "two"
        assert "rm" in state.get_meta_info("answer_0")["backend_errors"][0]
    assert [turn["role"] for turn in service.bodies[1]["messages"]] == ["user", "assistant", "tool"]


def test_text_written_ahead_by_another_backend_is_not_used(first, second) -> None:
    @sgl.function(num_api_spec_tokens=64)
    def fields(s: Any) -> None:
        s += "Name:" + sgl.gen("name", stop="\n") + "\nJob:" + sgl.gen("job", stop="\n")

    text = " Ada\nJob: Poet\n"
    second.answer = lambda request: text
    first.answer = lambda request: " Cook\n"
    first.fail(*DOWN)
    backends = [model(first, "one", False), model(second, "two", False)]
    state = fields.run(backend=backends)
    assert (state["name"], state["job"]) == (" Ada", " Cook")
    used = [state.get_meta_info(name)["backend"] for name in ("name", "job")]
    assert used == ["two", "one"]


def test_a_backend_of_the_list_by_itself_does_not_fall_back(first, second) -> None:
    first.fail(*DOWN)
    one, two = model(first, "one"), model(second, "two")

    @sgl.function
    def program(s: Any) -> None:
        s += sgl.user("?") + sgl.assistant(sgl.gen("a", backend=one))

    with pytest.raises(ServiceError, match="503"):
        program.run(backend=[one, two]).sync()
    assert second.requests == []


def test_lists_of_backends(first, second) -> None:
    one, two = model(first, "one"), model(second, "two")
    assert executor_of([one, two]) is executor_of((one, two)) is not executor_of([two, one])
    assert executor_of([one]) is one
    assert repr(executor_of([one, two])) == "<FallbackExecutor 'one | two'>"
    assert [info["model"] for info in executor_of([one, two]).server_info()["backends"]] == [
        "one",
        "two",
    ]
    with pytest.raises(OptionError, match="has no backend"):
        ask.run(backend=[])
    with pytest.raises(OptionError, match="repeats a backend"):
        ask.run(backend=[one, one])
    with pytest.raises(OptionError, match="cannot run programs"):
        ask.run(backend=[one, "two"])


@sgl.function
def estimated(s: Any, question: str) -> None:
    s += "Rules: be brief and kind.\nQuestion: " + question + sgl.gen("a", max_tokens=4)
    if s["a"]:
        s += "\nWhy?" + sgl.gen("b", max_tokens=3)


def test_estimates_of_a_list_are_those_of_the_first_backend(first) -> None:
    with sgl.Engine("tiny") as engine:
        backends = [engine, model(first, "cloud", False)]
        alone, listed = (estimated.explain("?", backend=b) for b in (engine, backends))
        assert repr(listed) == repr(alone) and [row["call"] for row in listed.rows] == ["a", "b"]
        assert estimated.cache(backends) == estimated.cache(engine) > 0
        hits = estimated.explain("?", backend=backends).rows[0]
        assert hits == estimated.explain("?", backend=engine).rows[0] != listed.rows[0]
        assert not first.requests


def test_a_list_with_a_service_first_has_no_estimate(first) -> None:
    with sgl.Engine("tiny") as engine:
        backends = [model(first, "cloud", False), engine]
        with pytest.raises(TraceError, match="depends on generated data"):
            estimated.explain("?", backend=backends)


def test_a_dry_run_shows_the_list_of_a_generation(first) -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += "Hello" + sgl.gen(
            "a", max_tokens=4, backend=[model(first, "cloud", False), model(first, "other", False)]
        )

    sgl.load("tiny")
    try:
        report = repr(sgl.dry(program))
    finally:
        sgl.unload("tiny")
    assert "cloud" in report and not first.requests
