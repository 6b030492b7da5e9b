"""Programs on a model behind an API, over a service on loopback."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from statistics import fmean

import pytest

pytest.importorskip("openai")

import sgnb as sgl
from sgnb.backends.api import ApiExecutor, OpenAI
from sgnb.errors import Aborted, OptionError, RequestError, ServiceError
from sgnb.events import GenerationDone
from sgnb.lang import Run, gen
from sgnb.lang.executor import Call

from .service import KEY, Fault, Request, Service, logprob


def by_last_turn(request: Request) -> str:
    last = request.body["messages"][-1]["content"] if "messages" in request.body else request.prompt
    return f"answer to {last.strip().splitlines()[-1]}"


@sgl.function
def talk(s, question):
    s += sgl.system("Be short.")
    s += sgl.user(question)
    s += sgl.assistant(sgl.gen("first", max_tokens=16))
    s += sgl.user("And why?")
    s += sgl.assistant(sgl.gen("second", max_tokens=16, temperature=0.5))


@sgl.function
def ask(s, question="Say it.", **options):
    s += sgl.user(question) + sgl.assistant(sgl.gen("a", **options))


@pytest.fixture
def service():
    with Service(by_last_turn) as service:
        yield service


def chat(service: Service, **options) -> ApiExecutor:
    return OpenAI("model", base_url=service.url, api_key=KEY, **options)


def text(service: Service, **options) -> ApiExecutor:
    return OpenAI("model", False, base_url=service.url, api_key=KEY, **options)


def test_a_conversation_is_sent_turn_by_turn(service) -> None:
    state = talk.run("What is 2?", backend=chat(service))
    assert state["first"] == "answer to What is 2?"
    assert state["second"] == "answer to And why?"
    assert [m["role"] for m in service.requests[1].body["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert service.requests[1].body["messages"][2]["content"] == "answer to What is 2?"
    meta = state.get_meta_info("second")
    assert meta["finish_reason"] == {"type": "stop", "matched": None}
    assert (meta["prompt_tokens"], meta["cached_tokens"], meta["completion_tokens"]) == (16, 1, 4)


def test_a_completion_is_sent_the_text(service) -> None:
    @sgl.function
    def complete(s):
        s += "Q: name?\nA:" + sgl.gen("a", stop="\n")
        s += "\nQ: more?\nA:" + sgl.gen("b", max_tokens=2)

    state = complete.run(backend=text(service))
    assert state.text() == "Q: name?\nA:answer to A:\nQ: more?\nA:answer to"
    assert service.requests[1].body["prompt"] == "Q: name?\nA:answer to A:\nQ: more?\nA:"
    assert state.get_meta_info("b")["finish_reason"] == {"type": "length", "length": 2}


@pytest.mark.parametrize("make", [chat, text])
def test_streams(service, make) -> None:
    @sgl.function
    def ask(s):
        s += sgl.user("hello you") + sgl.assistant(sgl.gen("a", max_tokens=16))

    service.delay = 0.1
    state = ask.run(backend=make(service), stream=True)
    pieces = list(state.text_iter("a"))
    assert len(pieces) > 1
    assert "".join(pieces) == state["a"]
    assert state.get_meta_info("a")["completion_tokens"] == len(state["a"].split())


def test_forks_and_joins_run_side_by_side(service) -> None:
    @sgl.function
    def tips(s):
        s += sgl.user("Two tips.")
        s += sgl.assistant("")
        forks = s.fork(3)
        for i, fork in enumerate(forks):
            fork += sgl.user(f"Tip {i}?") + sgl.assistant(sgl.gen("tip"))
        forks.join()

    service.delay = 0.2
    model = chat(service)
    state = tips.run(backend=model)
    assert state["tip"] == [f"answer to Tip {i}?" for i in range(3)]
    assert service.most_running == 3
    done = [r.event for r in model.log.read().records if isinstance(r.event, GenerationDone)]
    assert {event.branch for event in done} == {"0.0", "0.1", "0.2"}


def test_a_default_backend_and_a_batch(service) -> None:
    model = chat(service, max_parallel=4)
    sgl.set_default_backend(model)
    try:
        states = talk.run_batch([{"question": f"q{i}"} for i in range(12)])
        assert [s["first"] for s in states] == [f"answer to q{i}" for i in range(12)]
        assert sgl.get_server_info() == {"model": "model", "base_url": service.url, "chat": True}
    finally:
        sgl.set_default_backend(None)
    [row, total] = model.usage().rows()
    assert (row["calls"], row["run"]) == (24, states[0].run_id)
    assert (total["prompt"], total["completion"]) == (
        service.prompt_tokens,
        service.completion_tokens,
    )


def test_two_models_in_one_program(service) -> None:
    with Service(lambda request: "judged") as other:
        judge = chat(other)

        @sgl.function
        def draft(s):
            s += sgl.user("Write.") + sgl.assistant(sgl.gen("draft"))
            s += sgl.user("Good?") + sgl.assistant(sgl.gen("verdict", backend=judge))

        state = draft.run(backend=text(service))
        assert (state["draft"], state["verdict"]) == ("answer to ASSISTANT:", "judged")
        assert [m["content"] for m in other.requests[0].body["messages"]] == [
            "Write.",
            "answer to ASSISTANT:",
            "Good?",
        ]


def test_an_interrupt_stops_the_call_and_keeps_what_came(service) -> None:
    service.answer, service.delay = lambda request: " ".join("word" for _ in range(100)), 0.05
    model = chat(service)
    with pytest.raises(KeyboardInterrupt), Run(model, stream=True) as run:
        s = run.state()
        s += sgl.user("Go.") + sgl.assistant(gen("a", max_tokens=200))
        while "word word" not in s._branch.text + s._branch.partial:
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert "word word" in s.text()
    assert run.status == "interrupted"
    assert model.usage().total.stopped == 1
    running = service.running
    deadline = time.monotonic() + 5
    while running and time.monotonic() < deadline:  # the request is given up, not waited for
        running = service.running
    assert not running


def test_calls_that_wait_are_stopped_too(service) -> None:
    service.delay = 0.3
    model = chat(service, max_parallel=1)
    results, got = [], threading.Event()

    def sink(message) -> None:
        results.append(message)
        if len(results) == 3:
            got.set()

    call = Call("hi", sgl.SamplingParams(), "run", "0", "a")
    cancels = [model.generate(call, sink) for _ in range(3)]
    for cancel in cancels:
        cancel()
    assert got.wait(5)
    assert all(isinstance(result.error, Aborted) for result in results)


class TestFormats:
    def test_a_schema_is_enforced_by_the_service(self, service) -> None:
        service.answer = lambda request: '{"age": 3}'
        schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
        assert ask.run(json_schema=schema, backend=chat(service))["a"] == '{"age": 3}'
        told = service.requests[0].body["response_format"]["json_schema"]
        assert told == {"name": "answer", "schema": schema}
        closed = schema | {"additionalProperties": False}
        ask.run(json_schema=closed, backend=chat(service)).sync()
        assert service.requests[1].body["response_format"]["json_schema"]["strict"] is True

    def test_what_does_not_fit_is_asked_for_again(self, service) -> None:
        answers = iter(["I think", '{"age": "three"}', '{"age": 3}'])
        service.answer = lambda request: next(answers)
        schema = {"type": "object", "properties": {"age": {"type": "integer"}}}
        model = text(service)
        assert ask.run(json_schema=schema, backend=model)["a"] == '{"age": 3}'
        assert dict(model.usage().total.retries) == {"format": 2}

    def test_what_never_fits_is_an_error(self, service) -> None:
        with pytest.raises(ServiceError, match=r"regex='\[0-9\]\+' matches \(3 tries\)"):
            ask.run(regex="[0-9]+", backend=chat(service))["a"]

    @pytest.mark.parametrize(
        ("options", "answer", "expected"),
        [
            ({"dtype": int}, " 42", "42"),
            ({"dtype": int}, "42 apples", "42"),
            ({"dtype": float}, "4.5e", "4.5"),
            ({"dtype": bool}, "True, of course", "True"),
            ({"regex": "(ab)+"}, "abababx", "ababab"),
            ({"regex": " (yes|no)"}, " yes, it is", " yes"),
            ({"regex": "[a-z]*"}, " abc", "abc"),
            ({"regex": "ä*"}, "äää!", "äää"),
            ({"ebnf": 'root ::= "a" root? "b"'}, "aabbc", "aabb"),
        ],
    )
    def test_what_a_pattern_takes_is_kept(self, service, options, answer, expected) -> None:
        service.answer = lambda request: answer
        assert ask.run(**options, backend=chat(service))["a"] == expected

    def test_an_answer_that_is_cut_is_not_asked_for_again(self, service) -> None:
        service.answer = lambda request: '{"age": 3, "name": "no end'
        with pytest.raises(ServiceError, match="the answer ended at max_tokens="):
            ask.run(json_schema={"type": "object"}, max_tokens=2, backend=chat(service))["a"]
        assert len(service.requests) == 1

    def test_a_service_that_refuses_schemas_is_asked_without(self, service) -> None:
        service.answer = lambda request: '{"age": 3}'
        service.refuses = "response_format"
        model = chat(service)
        for _ in range(2):
            assert ask.run(json_schema={"type": "object"}, backend=model)["a"] == '{"age": 3}'
        assert ["response_format" in request.body for request in service.requests] == [1, 0, 0]
        assert dict(model.usage().total.retries) == {"400": 1}

    def test_it_is_not_streamed_before_it_fits(self, service) -> None:
        answers = iter(["no", "42"])
        service.answer = lambda request: next(answers)
        state = ask.run(regex="[0-9]+", backend=chat(service), stream=True)
        assert "".join(state.text_iter("a")) == "42"


class TestOptions:
    def test_what_is_said(self, service) -> None:
        ask.run(
            backend=chat(service, extra_body={"top_k": 5}),
            max_tokens=7,
            temperature=0.3,
            top_p=0.9,
            stop=["x", "y"],
            frequency_penalty=0.1,
            presence_penalty=0.2,
            seed=3,
            logit_bias={5: 1.0},
        ).sync()
        body = service.requests[0].body
        del body["messages"]
        assert body == {
            "model": "model",
            "max_tokens": 7,
            "temperature": 0.3,
            "top_p": 0.9,
            "stop": ["x", "y"],
            "frequency_penalty": 0.1,
            "presence_penalty": 0.2,
            "seed": 3,
            "logit_bias": {"5": 1.0},
            "top_k": 5,
        }

    @pytest.mark.parametrize(
        "options",
        [
            {"min_tokens": 3},
            {"stop_token_ids": [1]},
            {"stop_regex": "a"},
            {"ignore_eos": True},
            {"max_tokens": 0},
            {"return_logprob": True, "logprob_start_len": 0},
            {"thinking": True, "regex": "a"},
        ],
    )
    def test_what_it_cannot_be_told_is_an_error(self, service, options) -> None:
        state = ask.run(backend=chat(service), **options)
        with pytest.raises(OptionError, match=r"hint: ."):
            state["a"]
        assert not service.requests

    def test_what_only_has_less_effect_is_a_warning(self, service) -> None:
        with pytest.warns(UserWarning, match="top_k=5 has no effect.*does not support it"):
            ask.run(backend=chat(service), top_k=5).sync()
        with pytest.warns(UserWarning, match="approximate=True has no effect"):
            ask.run(backend=chat(service), approximate=True).sync()

    def test_many_stops(self, service) -> None:
        """The service takes four of them."""
        service.answer = lambda request: "a b c d e f g"
        model = chat(service)
        state = ask.run(backend=model, stop=["t", "u", "v", "w", "x", "e f"], stream=True)
        assert "".join(state.text_iter("a")) == "a b c d " == state["a"]
        assert state.get_meta_info("a")["finish_reason"] == {"type": "stop", "matched": "e f"}

    @pytest.mark.parametrize("own", [True, False])
    def test_several_samples(self, service, own) -> None:
        service.samples = own
        numbers = iter("abc")
        service.answer = lambda request: next(numbers)
        state = ask.run(n=3, seed=1, backend=chat(service))
        assert sorted(state["a"]) == ["a", "b", "c"]
        assert len(service.requests) == (1 if own else 3)
        assert len(state.get_meta_info("a")) == 3

    def test_one_of_several_samples_that_fails(self, service) -> None:
        service.samples = False
        service.fail(None, Fault("status", 400))
        with pytest.raises(ServiceError, match="refused"):
            ask.run(n=3, backend=chat(service))["a"]

    @pytest.mark.parametrize("make", [chat, text])
    def test_log_probabilities(self, service, make) -> None:
        state = ask.run(return_logprob=True, top_logprobs_num=1, backend=make(service))
        rows = state.get_meta_info("a")["output_token_logprobs"]
        assert "".join(text for _, _, text in rows) == state["a"]
        assert rows[0][:2] == (-0.5, -1)


class TestConversations:
    @pytest.mark.parametrize(
        ("program", "message"),
        [
            (lambda s: s.__iadd__(sgl.user("a") + gen("x")), "outside of the roles"),
            (lambda s: s.__iadd__(sgl.user("a" + gen("x"))), "in the role 'user'"),
            (lambda s: s.__iadd__("stray" + sgl.assistant(gen("x"))), "text outside of the roles"),
            (lambda s: s.__iadd__(sgl.assistant("I am" + gen("x"))), "begins with 'I am'"),
        ],
    )
    def test_what_is_none(self, service, program, message) -> None:
        with pytest.raises(RequestError, match=message), Run(chat(service)) as run:
            program(run.state())

    def test_text_alone_is_the_users_turn(self, service) -> None:
        with Run(chat(service)) as run:
            s = run.state()
            s += "Tell me. " + gen("x")
        assert s["x"] == "answer to Tell me."

    def test_several_generations_of_one_turn_are_refused(self, service) -> None:
        """A chat service writes whole turns."""
        with pytest.raises(RequestError, match="whole turns"), Run(chat(service)) as run:
            s = run.state()
            s += sgl.user("a") + sgl.assistant(gen("x") + gen("y"))


@sgl.function
def pick(s, method=sgl.token_length_normalized):
    s += sgl.user("Which?")
    s += sgl.assistant("I say" + sgl.select("c", [" zz", " b", " c d"], choices_method=method))


class TestSelects:
    def test_choices_are_scored(self, service) -> None:
        state = pick.run(backend=text(service))
        assert state["c"] == " b"
        meta = state.get_meta_info("c")
        assert meta["normalized_prompt_logprobs"] == pytest.approx(
            [logprob(" zz"), logprob(" b"), fmean([logprob(" c"), logprob(" d")])]
        )
        assert meta["input_token_logprobs"][2] == [
            (logprob(" c"), -1, " c"),
            (logprob(" d"), -1, " d"),
        ]
        assert len(service.requests) == 1

    def test_without_the_prompt_too(self, service) -> None:
        state = pick.run(sgl.unconditional_likelihood_normalized, backend=text(service))
        meta = state.get_meta_info("c")
        assert [row[0][0] for row in meta["unconditional_token_logprobs"]] == [None] * 3
        assert len(service.requests) == 2

    def test_a_service_that_scores_nothing_chooses(self, service) -> None:
        service.scores = False
        service.answer = lambda request: " b it is"
        state = pick.run(backend=text(service))
        assert state["c"] == " b"
        assert state.get_meta_info("c")["scores"] == (0.0, 1.0, 0.0)

    def test_a_chat_chooses_under_a_schema(self, service) -> None:
        @sgl.function
        def choose(s):
            s += sgl.user("Which?") + sgl.assistant(sgl.gen("c", choices=["yes", "no"]))

        answers = iter(['{"choice": "maybe"}', '{"choice": "no"}'])
        service.answer = lambda request: next(answers)
        model = chat(service)
        assert choose.run(backend=model)["c"] == "no"
        schema = service.requests[0].body["response_format"]["json_schema"]["schema"]
        assert schema["properties"]["choice"]["enum"] == ["yes", "no"]
        assert dict(model.usage().total.retries) == {"format": 1}
        service.answer = lambda request: "neither"
        with pytest.raises(ServiceError, match="is not one of"):
            choose.run(backend=model)["c"]


def test_money(service) -> None:
    model = chat(service, prices=(1.0, 10.0))
    ask.run(backend=model).sync()
    used = model.usage()
    assert used.cost == pytest.approx(
        (service.prompt_tokens + 10 * service.completion_tokens) / 1e6
    )
    lines = repr(used).splitlines()
    assert lines[0] == "model"
    assert lines[1].split()[:3] == ["run", "calls", "requests"]
    assert lines[-1].split()[-1] == f"{used.cost:.6f}"
    free = chat(service)
    ask.run(backend=free).sync()
    assert free.usage().cost is None and repr(free.usage()).endswith("?")


def test_no_torch_is_imported(service) -> None:
    code = f"""
import sys, sgnb as sgl
sgl.set_default_backend(sgl.OpenAI("model", base_url={service.url!r}, api_key="k"))
@sgl.function
def ask(s):
    s += sgl.user("hi") + sgl.assistant(sgl.gen("a", regex="answer.*"))
print(ask.run()["a"], "torch" in sys.modules, "litellm" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.split("\n")[0] == "answer to hi False False"


def test_a_closed_backend_says_so(service) -> None:
    model = chat(service)
    model.close()
    with pytest.raises(sgl.errors.EngineError, match="closed"):
        ask.run(backend=model)["a"]


def test_a_backend_that_nobody_uses_ends_its_thread(service) -> None:
    def threads() -> set[str]:
        return {t for t in threading.enumerate() if t.name == "sgnb-api"}

    before = threads()
    model, answered = chat(service), threading.Event()
    model.generate(Call("hi", sgl.SamplingParams(), "run", "0", "a"), lambda result: answered.set())
    assert answered.wait(5) and threads() - before
    del model
    gc.collect()
    deadline = time.monotonic() + 5
    while threads() - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not threads() - before
