"""Services behind litellm: Anthropic's protocol and OpenAI's, on loopback."""

from __future__ import annotations

import pytest

pytest.importorskip("litellm")

import sgnb as sgl
from sgnb.backends.api import limits
from sgnb.errors import OptionError, ServiceError

from .service import KEY, Fault, Service

TEXT = "one two three four five"


@sgl.function
def ask(s, **options):
    s += sgl.system("Count.")
    s += sgl.user("To five.") + sgl.assistant(sgl.gen("a", max_tokens=16, **options))


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    monkeypatch.setattr(limits, "FIRST_WAIT", 0.01)


@pytest.fixture
def service():
    with Service(lambda request: TEXT) as service:
        yield service


def claude(service: Service, **options) -> sgl.Anthropic:
    url = service.url.removesuffix("/v1")
    return sgl.Anthropic("claude-haiku-4-5", base_url=url, api_key=KEY, **options)


def other(service: Service, **options) -> sgl.LiteLLM:
    return sgl.LiteLLM("openai/gpt-4o-mini", base_url=service.url, api_key=KEY, **options)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("make", [claude, other])
def test_a_conversation(service, make, stream) -> None:
    model = make(service)
    state = ask.run(backend=model, stream=stream)
    assert "".join(state.text_iter("a")) == TEXT == state["a"]
    meta = state.get_meta_info("a")
    assert meta["finish_reason"]["type"] == "stop"
    assert meta["completion_tokens"] == 5
    assert model.usage().cost > 0  # litellm knows the price


def test_anthropics_own_protocol(service) -> None:
    ask.run(backend=claude(service), temperature=0.5, stop=["x"]).sync()
    [request] = service.requests
    assert request.path == "/v1/messages"
    assert request.headers["x-api-key"] == KEY
    assert request.body["max_tokens"] == 16
    assert request.body["stop_sequences"] == ["x"]
    assert [turn["role"] for turn in request.body["messages"]] == ["user"]
    assert "Count." in str(request.body["system"])


def test_an_answer_that_the_program_begins(service) -> None:
    """Anthropic's models go on with it."""

    @sgl.function
    def begun(s):
        s += sgl.user("To five.") + sgl.assistant("zero" + sgl.gen("a"))

    model = claude(service)
    assert begun.run(backend=model)["a"] == TEXT
    assert service.requests[0].body["messages"][-1]["role"] == "assistant"


@pytest.mark.parametrize("make", [claude, other])
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault("status", 429), "429"),
        (Fault("status", 500), "500"),
        (Fault("bad json"), None),
        (Fault("kill"), None),
    ],
)
def test_what_may_pass_is_asked_for_again(service, make, fault, reason) -> None:
    service.fail(fault)
    model = make(service)
    assert ask.run(backend=model)["a"] == TEXT
    [(counted, count)] = model.usage().total.retries.items()
    assert count == 1 and counted == (reason or counted)
    assert len(service.requests) == 2  # litellm tries nothing again


@pytest.mark.parametrize("make", [claude, other])
@pytest.mark.parametrize("kind", ["kill", "half"])
def test_a_stream_that_breaks_goes_on(service, make, kind) -> None:
    service.fail(Fault(kind, after=2))
    model = make(service)
    state = ask.run(backend=model, stream=True)
    assert "".join(state.text_iter("a")) == TEXT == state["a"]
    assert model.usage().total.requests == 2


@pytest.mark.parametrize("make", [claude, other])
def test_a_refusal_does_not_print_the_key(service, make, capsys) -> None:
    service.fail(Fault("status", 400))
    model = make(service)
    with pytest.raises(ServiceError, match="refused") as caught:
        ask.run(backend=model)["a"]
    assert KEY not in f"{caught.value} {model!r} {model.usage()!r} {model.server_info()}"
    assert KEY not in "".join(capsys.readouterr())


def test_what_a_service_does_not_take_is_an_error(service) -> None:
    with pytest.raises(OptionError, match="does not support logit_bias"):
        ask.run(backend=claude(service), logit_bias={1: 1.0})["a"]
    with pytest.raises(OptionError, match="does not support stop_regex"):
        ask.run(backend=claude(service), stop_regex="a")["a"]
    with pytest.warns(UserWarning, match="seed=3 has no effect"):
        ask.run(backend=claude(service), seed=3).sync()


def test_several_samples_are_several_requests(service) -> None:
    assert ask.run(backend=claude(service), n=3)["a"] == [TEXT] * 3
    assert len(service.requests) == 3


def test_vertex(monkeypatch) -> None:
    monkeypatch.setenv("GCP_PROJECT_ID", "mine")
    model = sgl.VertexAI("gemini-2.0-flash")
    assert model.endpoint.model == "vertex_ai/gemini-2.0-flash"
    assert model.endpoint._options["vertex_project"] == "mine"
