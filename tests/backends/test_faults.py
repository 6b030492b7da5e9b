"""A service that refuses, breaks off, hangs or talks nonsense: each is a clear error or a retry,
nothing is lost, and the table of usage counts it."""

from __future__ import annotations

import time
import traceback
from itertools import pairwise

import pytest

pytest.importorskip("openai")

import sgnb as sgl
from sgnb.backends.api import OpenAI, limits
from sgnb.errors import OptionError, ServiceError

from .service import KEY, Fault, Service

TEXT = "one two three four five"


@sgl.function
def ask(s):
    s += sgl.user("Count.") + sgl.assistant(sgl.gen("a", max_tokens=16, temperature=0))


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    monkeypatch.setattr(limits, "FIRST_WAIT", 0.01)


@pytest.fixture
def service():
    with Service(lambda request: TEXT) as service:
        yield service


def backend(service: Service, is_chat: bool = True, **options) -> OpenAI:
    return OpenAI("model", is_chat, base_url=service.url, api_key=KEY, **options)


ONCE = [
    (Fault("status", 429), "429"),
    (Fault("status", 500), "500"),
    (Fault("status", 503), "503"),
    (Fault("status", 408), "408"),
    (Fault("bad json"), "bad answer"),
    (Fault("wrong type"), "bad answer"),
    (Fault("half"), "half answer"),
    (Fault("kill"), "connection"),
]


@pytest.mark.parametrize("is_chat", [True, False])
@pytest.mark.parametrize(("fault", "reason"), ONCE)
def test_what_may_pass_is_asked_for_again(service, fault, reason, is_chat) -> None:
    service.fail(fault, fault)
    model = backend(service, is_chat)
    state = ask.run(backend=model)
    assert state["a"] == TEXT
    used = model.usage().total
    assert (used.calls, used.requests, dict(used.retries), used.failed) == (1, 3, {reason: 2}, 0)
    assert used.tokens.completion == 5  # of the one that was answered
    assert state.get_meta_info("a")["requests"] == 3


IN_STREAM = [
    (Fault("kill", after=2), "connection"),
    (Fault("half", after=2), "half answer"),
    (Fault("bad json", after=2), "bad answer"),
    (Fault("error in stream", after=2), "error"),
    (Fault("status", 500), "500"),
    (Fault("wrong type"), "half answer"),
]


@pytest.mark.parametrize("is_chat", [True, False])
@pytest.mark.parametrize(("fault", "reason"), IN_STREAM)
def test_a_stream_that_breaks_goes_on(service, fault, reason, is_chat) -> None:
    """What the reader has is not told twice."""
    service.fail(fault)
    model = backend(service, is_chat)
    state = ask.run(backend=model, stream=True)
    assert "".join(state.text_iter("a")) == TEXT == state["a"]
    assert dict(model.usage().total.retries) == {reason: 1}


def test_a_stream_that_goes_on_otherwise_is_an_error(service) -> None:
    texts = iter(["one two three", "one other text"])
    service.answer = lambda request: next(texts)
    service.fail(Fault("kill", after=2))
    state = ask.run(backend=backend(service), stream=True)
    with pytest.raises(ServiceError, match="gave another text"):
        list(state.text_iter("a"))
    assert state.text().endswith("one two")  # what came is kept


def test_a_hang_is_a_timeout(service) -> None:
    service.fail(Fault("hang"))
    model = backend(service, timeout=0.3)
    assert ask.run(backend=model)["a"] == TEXT
    assert dict(model.usage().total.retries) == {"timeout": 1}


def test_the_last_try_is_an_error_that_says_what_happened(service) -> None:
    service.fail(*[Fault("status", 500)] * 9)
    model = backend(service, tries=3)
    state = ask.run(backend=model)
    with pytest.raises(ServiceError, match=r"failed \(500\).*\(3 tries\)") as caught:
        state["a"]
    assert "test_faults.py" in "".join(caught.value.__notes__)
    used = model.usage().total
    assert (used.requests, dict(used.retries), used.failed) == (3, {"500": 2}, 1)


def test_a_dead_server(service) -> None:
    service.close()
    with pytest.raises(ServiceError, match="cannot be reached"):
        ask.run(backend=backend(service, tries=2))["a"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_not_repeated(service, status) -> None:
    service.fail(Fault("status", status))
    with pytest.raises(ServiceError, match=rf"refused the request \({status}\)"):
        ask.run(backend=backend(service))["a"]
    assert len(service.requests) == 1


def test_the_service_says_how_long_to_wait(service) -> None:
    service.fail(Fault("status", 429, (("Retry-After", "0.5"),)))
    begin = time.monotonic()
    assert ask.run(backend=backend(service))["a"] == TEXT
    assert time.monotonic() - begin >= 0.5


def test_waits_grow_and_differ() -> None:
    pauses = [[limits._pause(attempt, None) for _ in range(50)] for attempt in (1, 2, 3, 40)]
    assert all(sum(longer) > sum(shorter) for shorter, longer in pairwise(pauses))
    assert len(set(pauses[0])) > 40
    assert max(pauses[3]) <= 1.5 * limits.MAX_WAIT


def test_one_row_of_a_batch_fails_alone(service) -> None:
    @sgl.function
    def echo(s, word):
        s += sgl.user(word) + sgl.assistant(sgl.gen("a", max_tokens=16))

    service.answer = lambda request: request.body["messages"][-1]["content"]
    service.fail(Fault("status", 400), *[Fault("status", 429)] * 5)
    model = backend(service, max_parallel=3, tries=9)
    states = echo.run_batch([{"word": f"w{i}"} for i in range(20)], backend=model)
    failed = [state.error() for state in states if state.error() is not None]
    assert len(failed) == 1
    assert [s["a"] for s in states if s.error() is None] == [
        f"w{i}" for i, s in enumerate(states) if s.error() is None
    ]
    used = model.usage().total
    assert (used.calls, used.requests, used.failed, used.retries["429"]) == (20, 25, 1, 5)
    assert service.most_running <= 3


def test_requests_are_paced(service) -> None:
    model = backend(service, requests_per_minute=600)  # 60 come at once after a pause
    begin = time.monotonic()
    states = [ask.run(backend=model) for _ in range(70)]
    assert all(state["a"] == TEXT for state in states)
    assert time.monotonic() - begin > 0.8


def test_keys_are_never_printed(service, capsys, tmp_path) -> None:
    """The service quotes the key; so do some in earnest."""
    for fault in [Fault("status", 400), Fault("status", 401), Fault("status", 500)]:
        service.fail(fault)
        model = backend(service, tries=1)
        state = ask.run(backend=model)
        with pytest.raises(ServiceError) as caught:
            state["a"]
        shown = "".join(traceback.format_exception(caught.value))
        shown += repr(model) + repr(model.usage()) + str(model.server_info()) + str(state)
        shown += str([record.event for record in model.log.read().records])
        shown += "".join(caught.value._render_traceback_())
        assert KEY not in shown
    service.fail(Fault("error in stream", after=1))
    state = ask.run(backend=backend(service, tries=1), stream=True)
    with pytest.raises(ServiceError, match="overloaded, key …"):
        list(state.text_iter())
    file = tmp_path / "rows.jsonl"
    service.fail(Fault("status", 500))
    ask.run_batch([{}, {}], backend=backend(service, tries=1), save=str(file))
    assert KEY not in file.read_text()
    assert all(request.headers["authorization"] == f"Bearer {KEY}" for request in service.requests)


def test_an_address_keeps_its_password_to_itself(service) -> None:
    address = service.url.replace("http://", "http://me:hidden1234@") + "?key=hidden1234"
    model = OpenAI("model", base_url=address, tries=1)
    service.close()
    with pytest.raises(ServiceError) as caught:
        ask.run(backend=model)["a"]
    assert "hidden1234" not in f"{caught.value} {model!r} {model.server_info()}"


def test_without_a_key(monkeypatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(OptionError, match="OPENAI_API_KEY"):
        OpenAI("gpt-4o-mini")
