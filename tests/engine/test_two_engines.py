"""One program over two engines: what each is asked and finds in its cache, and what a log of the
run's own engine tells of both."""

from __future__ import annotations

import copy
import gc
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sgnb import function, gen, select
from sgnb.engine.engine import Engine
from sgnb.errors import EngineError
from sgnb.events import (
    EventLog,
    LogReader,
    NodeAdded,
    Record,
    Recorder,
    RequestAdmitted,
    RequestQueued,
    TextAppended,
    load,
)
from sgnb.lang import assistant, user
from sgnb.viz import Emitter, Recording, RunState
from sgnb.viz.state.log_state import LogState
from sgnb.viz.static.perfetto import trace_events
from sgnb.viz.static.plain_text import plain_text

QUESTION = "Name an animal, and say in a few words what it does."
OTHER_ROLES = "{% for m in messages %}[{{ m.role }}] {{ m.content }} [/{{ m.role }}] {% endfor %}"


@pytest.fixture(scope="module")
def drafter() -> Iterator[Engine]:
    with Engine("tiny") as engine:
        yield engine


@pytest.fixture(scope="module")
def judge() -> Iterator[Engine]:
    with Engine("tiny") as engine:
        yield engine


@function
def duel(s: Any, judge: Any) -> None:
    """Two drafts by the run's own model; the other chooses one, says why, and chooses again."""
    s += user(QUESTION)
    drafts = s.fork(2)
    for i, draft in enumerate(drafts):
        draft += assistant(f"Draft {i}:" + gen("draft", max_tokens=16, ignore_eos=True))
    drafts.join()
    s += user(f"One:{s['draft'][0]}\nTwo:{s['draft'][1]}\nWhich is better?")
    s += assistant(
        select("best", ["One", "Two"], backend=judge)
        + " is better, for it"
        + gen("why", max_tokens=12, ignore_eos=True, backend=judge)
    )
    s += user("Are you sure?")
    s += assistant(gen("sure", max_tokens=8, ignore_eos=True, backend=judge))


def requests(engine: Engine, run: str) -> dict[str, list[tuple[RequestQueued, RequestAdmitted]]]:
    """Of a run on one engine, by the variable: what was asked, and how it was admitted."""
    events = [record.event for record in engine.log.read().records]
    admitted = {e.request: e for e in events if isinstance(e, RequestAdmitted)}
    found: dict[str, list[tuple[RequestQueued, RequestAdmitted]]] = {}
    for event in events:
        if isinstance(event, RequestQueued) and event.run == run:
            found.setdefault(event.name, []).append((event, admitted[event.request]))
    return found


def tokenizer_text(engine: Engine) -> Any:
    """Gives a token's text."""
    assert engine.tokenizer is not None
    return engine.tokenizer.text


def read(log: EventLog) -> list[Record]:
    reader = LogReader(log)
    records = reader.read().records
    return [*reader.before, *records]


def test_the_judge_reads_again_what_it_has_in_its_own_cache(drafter: Engine, judge: Engine) -> None:
    """What the drafter made is text to the judge, encoded the same each time; what the judge made
    stays its own tokens, and so do the drafter's to the drafter."""
    drafter.flush_cache()
    judge.flush_cache()
    state = duel.run(judge, backend=drafter, temperature=0.7)
    state.sync()
    own, other = requests(drafter, state.run_id), requests(judge, state.run_id)
    assert set(own) == {"draft"} and set(other) == {"best", "why", "sure"}
    (why, why_admitted), (sure, sure_admitted) = other["why"][0], other["sure"][0]
    made = tuple(state.get_meta_info("why")["token_ids"])
    assert sure.prompt[: len(why.prompt) + len(made)] == (*why.prompt, *made)
    # All that a call before had computed: its prompt and its output but for the last token.
    assert sure_admitted.cached == len(why.prompt) + len(made) - 1
    best = [event for event, _ in other["best"]]
    shared = min(len(event.prompt) for event in best) - 1
    assert why_admitted.cached >= shared and why.prompt[:shared] == best[0].prompt[:shared]

    @function
    def once_more(s: Any) -> None:
        s += user("Once more?") + assistant(gen("more", max_tokens=4, backend=judge))

    again = once_more.run(backend=drafter, continue_from=state)
    again.sync()
    (more, admitted), *_ = requests(judge, again.run_id)["more"]
    # To whom goes on from a state, what another model than the run's own made is text.
    assert len(more.prompt) > len(sure.prompt) and admitted.cached >= len(why.prompt) - 2
    assert "".join(map(tokenizer_text(judge), more.prompt)) in again.text()


def test_a_view_of_the_drafters_log_tells_of_both(
    drafter: Engine, judge: Engine, tmp_path: Path
) -> None:
    emitter = Emitter(drafter.log)
    feed = emitter.feed()
    with Recorder(drafter.log, tmp_path / "log.jsonl"):
        state = duel.run(judge, backend=drafter, temperature=0.7)
        followed = RunState(state.run_id, emitter.trees)
        emitter.follow(followed)
        state.sync()
        emitter.flush()
    emitter.detach(feed)
    emitter.close()

    direct = LogState(read(drafter.log))
    recorded = LogState(load(tmp_path / "log.jsonl"))
    told = Recording(feed.lines, state.run_id)
    for found in (followed, *(one.runs[state.run_id] for one in (direct, recorded, told.states))):
        own, other = found.models.values()
        meta = [state.get_meta_info(name) for name in ("best", "why", "sure")]
        drafts = state.get_meta_info("draft")
        assert other.prompt_tokens == sum(one["prompt_tokens"] for one in meta)
        assert other.cached_tokens == sum(one["cached_tokens"] for one in meta)
        # To score a choice samples a token after it.
        assert other.output_tokens == 2 + sum(len(one.get("token_ids", ())) for one in meta)
        assert own.output_tokens == sum(len(one["token_ids"]) for one in drafts)
        assert 0 < other.seconds <= found.metrics.seconds and own.name == other.name == "tiny"
        branch = found.branches["0"]
        assert branch.text == state.text()
        made = "".join(text for kind, text in branch.segments if kind == "sampled B")
        assert made == state["best"] + state["why"] + state["sure"]
        assert branch.makers == {"best": "B", "why": "B", "sure": "B"}
        assert found.branches["0.0"].makers == {"draft": ""}
    text = plain_text([followed, *followed.trees()])
    assert "radix tree of A tiny" in text and "radix tree of B tiny" in text
    assert f"best = {state['best']!r}  (by B)" in text
    tokens = judge.stats()["cached"]
    assert [len(one.trees[1].nodes) > 3 for one in (direct, recorded, told.states)] == [True] * 3
    assert direct.trees[1].tokens == recorded.trees[1].tokens == tokens
    assert direct.trees[1].missing == recorded.trees[1].missing == told.states.trees[1].missing == 0

    events = trace_events(load(tmp_path / "log.jsonl"))
    json.dumps(events)
    spans = [e for e in events if e["ph"] == "X" and e.get("args", {}).get("model") == "tiny"]
    assert {e["name"].split(" ")[0] for e in spans} >= {"best", "why", "sure"}
    assert len({e["pid"] for e in events if e["name"] == "step"}) == 2


def test_what_another_run_does_on_the_other_engine_is_not_the_first_ones(
    drafter: Engine, judge: Engine
) -> None:
    emitter = Emitter(drafter.log)
    feed = emitter.feed()

    @function
    def alone(s: Any) -> None:
        s += "Alone" + gen("a", max_tokens=4)

    before = alone.run(backend=judge)
    before.sync()
    emitter.flush()
    assert '"of_engine"' not in "".join(feed.lines)
    state = duel.run(judge, backend=drafter)
    beside = alone.run(backend=judge)
    state.sync()
    beside.sync()
    emitter.flush()
    states = Recording(feed.lines).states
    assert list(states.runs) == [state.run_id]
    assert "".join(states.runs[state.run_id].branches) == "00.00.1"
    emitter.close()


def test_roles_of_another_template_keep_the_marks_of_who_answered(drafter: Engine) -> None:
    """The judge is the run's own and reads the drafts of a model whose roles are other words."""
    tokenizer = drafter.tokenizer.hf  # type: ignore[union-attr]
    worded = copy.deepcopy(tokenizer)
    worded.chat_template = OTHER_ROLES
    with Engine("tiny", tokenizer=worded) as other:

        @function
        def judged(s: Any) -> None:
            s += user(QUESTION)
            s += assistant(gen("draft", max_tokens=12, ignore_eos=True, backend=other))
            s += user("Is that so?") + assistant(gen("so", max_tokens=6, ignore_eos=True))

        state = judged.run(backend=drafter)
        state.sync()
        (draft, _), *_ = requests(other, state.run_id)["draft"]
        assert other.tokenizer is not None
        read_by_other = "".join(map(other.tokenizer.text, draft.prompt))
        assert f"[user] {QUESTION} [/user]" in read_by_other
        run = LogState(read(drafter.log)).runs[state.run_id]
    branch = run.branches["0"]
    assert branch.text == state.text()
    by_other = [text for kind, text in branch.segments if kind == "sampled B"]
    assert by_other == [state["draft"]]
    assert {kind for kind, text in branch.segments} >= {"computed", "sampled"}


def test_an_engine_that_is_closed_ends_its_calls_alone(drafter: Engine) -> None:
    other = Engine("tiny")

    @function
    def both(s: Any) -> None:
        forks = s.fork(2)
        forks[0] += "Once" + gen("a", max_tokens=400, ignore_eos=True, backend=other)
        forks[1] += "Twice" + gen("b", max_tokens=20, ignore_eos=True)
        s["forks"] = forks

    state = both.run(backend=drafter)
    while not other.stats()["running"]:
        time.sleep(0.001)
    other.close()
    forks = state["forks"]
    assert len(forks[1].get_meta_info("b")["token_ids"]) == 20
    with pytest.raises(EngineError):
        forks[0]["a"]
    states = LogState(read(drafter.log))
    assert any("EngineError" in b.error for b in states.runs[state.run_id].branches.values())


def test_a_log_that_nobody_has_any_more_is_let_go() -> None:
    log, other = EventLog(), EventLog()
    assert (log.join(other), log.join(other)) == (1, 1)
    other.emit(NodeAdded(1, 0, (1,)))
    reader = LogReader(log)
    assert [record.engine for record in reader.read().records] == [1]
    del other, reader
    gc.collect()
    assert log.joined[0][0]() is None and log.join(EventLog()) == 2
    assert LogReader(log).read().records == []


def test_records_of_several_logs_come_in_the_order_of_time() -> None:
    log, other = EventLog(), EventLog()
    other.emit(NodeAdded(1, 0, (7,)))
    other.emit(TextAppended("r", "0", "of a program there"))
    log.join(other)
    reader, expected, seen = LogReader(log), [], []
    for i in range(300):
        (log, other)[i * 7 % 5 % 2].emit(NodeAdded(i, 0, (i,)))
        expected.append(i)
        if i % 11 == 0:
            records, lost = reader.read()
            seen += records
            assert lost == 0 and (i or [one.event.tokens for one in reader.before] == [(7,)])
    seen += reader.read().records
    assert [record.event.node for record in seen] == expected
    assert [record.t for record in seen] == sorted(record.t for record in seen)
    again = reader.again(5).records
    own = [one for one in seen if not one.engine][5:]
    assert again == sorted([*own, *(one for one in seen if one.engine)], key=lambda one: one.t)


def test_a_stopped_run_leaves_neither_engine_at_work(drafter: Engine, judge: Engine) -> None:
    @function
    def both(s: Any) -> None:
        forks = s.fork(2)
        forks[0] += "Once" + gen("a", max_tokens=2000, ignore_eos=True, backend=judge)
        forks[1] += "Twice" + gen("b", max_tokens=2000, ignore_eos=True)

    state = both.run(backend=drafter)
    while not (judge.stats()["running"] and drafter.stats()["running"]):
        time.sleep(0.001)
    state.program.run.cancel()
    state.program.wait_finished()
    for engine in (drafter, judge):
        while engine.stats()["running"]:
            time.sleep(0.001)
    run = LogState(read(drafter.log)).runs[state.run_id]
    assert run.status == "interrupted"
    assert all(model.output_tokens > 0 for model in run.models.values())
    assert run.branches["0.0"].segments[-1][0] == "sampled B"
