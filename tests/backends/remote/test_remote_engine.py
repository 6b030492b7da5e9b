"""A remote engine returns the same outputs, errors and events as the engine, bit for bit."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import sgnb as sgl
from sgnb.backends import executor_of
from sgnb.backends.remote.remote_engine import RemoteEngine
from sgnb.engine import Engine, Output
from sgnb.errors import EngineError, GrammarError, OptionError, RequestError, SgnbError
from sgnb.events import RequestFinished, RequestQueued, StepRan
from sgnb.sampling import SamplingParams

from .conftest import wait_until

PROMPTS = ["The quick brown fox", "Once upon a time", "1, 2, 3,", "A list of colors: red"]
FIELDS = (
    "text", "token_ids", "prompt_tokens", "cached_tokens", "finish_reason", "stopped_by",
    "logprobs", "prompt_logprobs", "top_logprobs", "prompt_top_logprobs", "reasoning", "records",
    "scored_ids",
    "next_token",
)  # fmt: skip


def facts(output: Output) -> dict[str, Any]:
    return {name: getattr(output, name) for name in FIELDS}


CASES: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "seeded": {"temperature": 1.0, "seed": 7},
    "logprobs": {
        "temperature": 0, "return_logprob": True, "top_logprobs_num": 3, "logprob_start_len": 0,
        "return_text_in_logprobs": True,
    },
    "regex": {"regex": "[a-c]{3}(yes|no)", "temperature": 0.7, "seed": 1},
    "json": {
        "json_schema": '{"type": "object", "properties": {"a": {"type": "integer"}}}',
        "temperature": 0,
    },
    "stop": {"temperature": 0, "stop": ("e", "a")},
    "scores": {
        "max_new_tokens": 0, "temperature": 0, "return_logprob": True, "logprob_start_len": 0,
    },
    "bias": {"logit_bias": ((5, 1.5), (9, -2.0)), "temperature": 0, "n": 2},
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_outputs_are_identical(engine: Engine, attach: Callable[[], RemoteEngine], case: str):
    remote, params = attach(), {"max_new_tokens": 12} | CASES[case]
    engine.generate(PROMPTS, **params)  # a grammar that compiles would change the batches
    results = []
    for each in (engine, remote):
        engine.flush_cache()
        results.append(each.generate(PROMPTS, **params))
    local, other = results
    assert len(local) == len(other)
    for one, two in zip(local, other, strict=True):
        assert facts(one) == facts(two)
        assert one.meta_info.keys() == two.meta_info.keys()
        for key in ("input_token_logprobs", "output_top_logprobs", "grammar", "finish_reason"):
            assert one.meta_info.get(key) == two.meta_info.get(key)


@pytest.mark.parametrize("case", ["greedy", "regex", "stop", "logprobs"])
def test_streams_are_identical(engine: Engine, attach: Callable[[], RemoteEngine], case: str):
    remote, params = attach(), {"max_new_tokens": 10} | CASES[case]
    engine.generate(PROMPTS[0], **params)  # a grammar that compiles would change the steps
    streams = []
    for each in (engine, remote):
        engine.flush_cache()
        streams.append(list(each.generate(PROMPTS[0], stream=True, **params)))
    local, other = streams
    assert facts(local[-1]) == facts(other[-1])
    assert "".join(output.delta for output in other) == other[-1].text
    known = {output.text: facts(output) for output in local}
    for output in other:  # a late message may hold several tokens
        assert facts(output) == known[output.text]


@sgl.function
def program(s: Any, topic: str) -> None:
    s += "Facts about " + topic + ": " + sgl.gen("fact", max_tokens=6, temperature=0)
    branches = s.fork(2)
    for i, branch in enumerate(branches):
        branch += f" part {i}: " + sgl.gen("part", max_tokens=5, regex="[a-z ]+", temperature=0)
    branches.join("gather_variable")
    s += " color: " + sgl.select("color", ["red", "blue", "green"])
    s += sgl.unordered(*[f"item {topic} {i}. " for i in range(3)])
    s += sgl.gen("end", max_tokens=4, temperature=0)


def test_programs_are_identical(engine: Engine, attach: Callable[[], RemoteEngine]) -> None:
    remote, rows = attach(), [{"topic": topic} for topic in ("cats", "rain", "tea")]
    texts, hits = [], []
    for each in (engine, remote):
        engine.flush_cache()
        before = engine.stats()["cached_tokens"]
        states = program.run_batch(rows, backend=each)
        texts.append([(state.text(), state["part"], state["color"]) for state in states])
        hits.append(engine.stats()["cached_tokens"] - before)
    assert texts[0] == texts[1]
    assert min(hits) > 0


def test_events_reach_the_client(attach: Callable[[], RemoteEngine]) -> None:
    one, two = attach(), attach()
    state = program.run(topic="rivers", backend=one)
    state.text()
    two.generate("Another notebook", max_new_tokens=2)

    def queued() -> list[RequestQueued]:
        events = [record.event for record in one.log.read().records]
        return [event for event in events if isinstance(event, RequestQueued)]

    wait_until(lambda: any(event.run == "" and len(event.prompt) for event in queued()))
    runs = {event.run for event in queued()}
    assert runs == {state.program.run.id, ""}, "a run of another client is visible"
    records = one.log.read().records
    assert [r.t for r in records] == sorted(r.t for r in records)
    steps = [r.event for r in records if isinstance(r.event, StepRan)]
    assert sum(len(step.sampled) for step in steps) > 10
    assert any(isinstance(r.event, RequestFinished) for r in records)


def test_a_late_client_sees_the_tree(engine: Engine, attach: Callable[[], RemoteEngine]) -> None:
    from sgnb.events import LogReader
    from sgnb.viz.state.tree import TreeState

    engine.flush_cache()
    engine.generate(["one two three", "one two four", "five"], max_new_tokens=3)
    engine.pin("one two three", owner="me")
    remote = attach()
    state, reader = TreeState(), LogReader(remote.log)
    deadline = time.monotonic() + 20
    while state.tokens != engine.stats()["cached"] and time.monotonic() < deadline:
        time.sleep(0.02)
        for record in reader.read().records:
            state.apply(record)
    assert {node.id: tuple(node.tokens) for node in state.nodes.values() if node.id} == {
        row["id"]: row["tokens"] for row in engine.tree()
    }
    locks = {row["id"]: row["locks"] for row in engine.tree()}
    assert {node.id: node.locks for node in state.nodes.values() if node.id} == locks
    assert state.pins and state.missing == 0 and remote.pins() == engine.pins()
    assert remote.unpin(owner="me") == 1


def test_methods_of_the_cache(engine: Engine, attach: Callable[[], RemoteEngine]) -> None:
    remote = attach()
    remote.flush_cache()
    remote.generate("a shared prefix of two prompts", max_new_tokens=1)
    assert remote.cached_length("a shared prefix of two prompts") > 3
    assert remote.tree() == engine.tree()
    assert remote.pin("a shared prefix", owner="x") > 0
    assert remote.unpin(owner="x") == 1
    report = remote.evict(remote.tree()[0]["id"])
    assert report.freed > 0 and "freed" in report.line()
    assert remote.prefetch("nothing is stored") == 0
    assert remote.check_weights() == 0
    assert remote.stats()["free"] == engine.stats()["free"]
    remote.switch(schedule_policy="fcfs")
    assert engine.options.schedule_policy == remote.options.schedule_policy == "fcfs"
    remote.switch(schedule_policy="lpm")


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda e: e.generate("x", temperature=-1), OptionError),
        (lambda e: e.generate("x " * 5000), RequestError),
        (lambda e: e.generate([10**6]), RequestError),
        (lambda e: e.generate("x", stop_token_ids=[10**6]), RequestError),
        (lambda e: e.generate("x", regex="(("), GrammarError),
        (lambda e: e.evict(10**6), OptionError),
        (lambda e: e.pin("x", durable=True), OptionError),
        (lambda e: e.switch(schedule_policy="none"), OptionError),
        (lambda e: e.unpin("x"), OptionError),
    ],
    ids=["params", "long", "token", "stop", "regex", "node", "durable", "policy", "unpin"],
)
def test_errors_are_those_of_the_engine(
    engine: Engine,
    attach: Callable[[], RemoteEngine],
    call: Callable[[Any], Any],
    kind: type[SgnbError],
) -> None:
    messages = []
    for each in (engine, attach()):
        with pytest.raises(kind) as caught:
            call(each)
        messages.append((caught.value.message, caught.value.hint))
    assert messages[0] == messages[1]


def test_runs_have_the_names_of_the_engine(
    engine: Engine, attach: Callable[[], RemoteEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests outside programs have no run, in the engine too."""
    runs: list[str] = []
    monkeypatch.setattr(engine, "why_waiting", lambda run, branch: runs.append(run) or [])
    client = attach()
    client.why_waiting("")
    client.why_waiting("a")
    assert runs == ["", f"{client._prefix}a"]


def test_an_interrupted_submission_ends(
    engine: Engine, attach: Callable[[], RemoteEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, before = attach(), engine.log.last

    def interrupt(method: str, *arguments: Any, kind: Any = Any) -> Any:
        client._client.tell(method, *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(client._client, "call", interrupt)
    with pytest.raises(KeyboardInterrupt):
        client.generate(["go on", "and on"], max_new_tokens=4000, ignore_eos=True)

    def reasons() -> list[str]:
        events = [record.event for record in engine.log.read(before).records]
        return [event.reason for event in events if isinstance(event, RequestFinished)]

    wait_until(lambda: len(reasons()) >= 2)
    assert reasons() == ["abort", "abort"]


def test_abort_ends_own_requests_only(engine: Engine, attach: Callable[[], RemoteEngine]) -> None:
    one, two = attach(), attach()
    results: list[Output] = []
    done = threading.Event()
    params = sgl.SamplingParams(max_new_tokens=3000, ignore_eos=True)

    def take(output: Output) -> None:
        results.append(output)
        done.set()

    (id,) = one.submit(["go on"], [params], [take])
    two.abort(id)
    time.sleep(0.2)
    assert not results
    one.abort(id)
    assert done.wait(20)
    assert results[0].finish_reason == "abort"


def test_the_end_of_a_client_ends_its_requests(
    engine: Engine, attach: Callable[[], RemoteEngine]
) -> None:
    one, two = attach(), attach()
    results: list[Output] = []
    params = sgl.SamplingParams(max_new_tokens=3000, ignore_eos=True)
    one.submit(["go on"], [params], [results.append])
    one.close()
    assert results[0].finish_reason == "error"
    assert isinstance(results[0].error, EngineError)
    with pytest.raises(EngineError, match="test"):
        one.generate("x")
    wait_until(lambda: engine.stats()["in_flight"] == 0)
    assert two.generate("x", max_new_tokens=2).finish_reason == "length"


def test_runs_stop_after_tokens(engine: Engine, attach: Callable[[], RemoteEngine]) -> None:
    remote = attach()
    executor = executor_of(remote)
    stepper: Any = executor.token_stepper

    @sgl.function
    def slow(s: Any) -> None:
        s += "Count: " + sgl.gen("n", max_tokens=6, ignore_eos=True, temperature=0)

    state = slow.run(backend=remote, stream=True)
    run = state.program.run.id
    stepper.pause(run)
    stopped = stepper.outputs(run)
    if stopped:  # the run may have ended before the pause
        assert stepper.step(run) == 1
        assert stepper.stopped_branches(run)
        waiting = remote.why_waiting(run)
        assert all("paused" in str(each) for each in waiting)
    stepper.resume(run)
    assert len(state["n"]) > 0


def test_grammars_for_views(engine: Engine, attach: Callable[[], RemoteEngine]) -> None:
    remote = attach()
    remote.generate("x", regex="[0-9]{2}", max_new_tokens=4)
    number = max(
        record.event.automaton
        for record in engine.log.read().records
        if type(record.event).__name__ == "GrammarReady"
    )
    local, other = engine.compiled_grammar(number), remote.compiled_grammar(number)
    assert local is not None and other is not None
    assert other.number == number and other.spec == local.spec
    assert (local.automaton.table == other.automaton.table).all()  # type: ignore[union-attr]
    assert remote.compiled_grammar(10**6) is None


def test_every_event_is_sent_and_received() -> None:
    """A host's events equal the client's events after the transfer."""
    from sgnb.backends.remote.event_wire import decode_event, encode_event

    with Engine("tiny", device="cpu", max_total_tokens=512) as engine:
        engine.generate(["a b", "a c"], max_new_tokens=4, regex="[ab]+", return_logprob=True)
        engine.pin("a b")
        records = engine.log.read().records
    assert len({type(record.event) for record in records}) > 10
    for record in records:
        wire = encode_event(record, 0.0)
        assert decode_event(wire) == record.event


def test_generate_in_a_listener_is_an_error(attach: Callable[[], RemoteEngine]) -> None:
    remote, errors = attach(), queue.SimpleQueue[Exception]()

    def listener(output: Output) -> None:
        try:
            remote.generate("again", max_new_tokens=1)
        except EngineError as error:
            errors.put(error)

    remote.submit(["once"], [SamplingParams(max_new_tokens=1)], [listener])
    assert "on the thread that receives outputs" in str(errors.get(timeout=20))
