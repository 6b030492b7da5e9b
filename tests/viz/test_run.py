"""The text of a run, its colours and its metrics, from logs made by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgnb import events
from sgnb.events import EventLog, Record
from sgnb.viz import RunState
from sgnb.viz.state.branch_text import drop, take
from sgnb.viz.state.run_state import KEPT_BRANCHES
from tests.counting import calls
from tests.viz.make_log import SYSTEM, Program, WordEngine, demo


def follow(log: EventLog, run: str = "r1") -> RunState:
    state = RunState(run)
    for record in log.read().records:
        state.apply(record)
    return state


def finish(*generators: object) -> None:
    for generator in generators:
        list(generator)  # type: ignore[call-overload]


@pytest.fixture
def log() -> EventLog:
    return EventLog()


@pytest.fixture
def program(log: EventLog) -> Program:
    engine = WordEngine(log)
    finish(engine.generate("You are kind. Hello", " there"))
    program = Program(engine)
    program.branch("0")
    return program


def test_colours_of_one_generation(program: Program) -> None:
    program.add("0", "You are kind. Who?")
    assert follow(program.log).branches["0"].segments == [["text", "You are kind. Who?"]]
    finish(program.gen("0", "answer", " Me", cut="\n"))
    branch = follow(program.log).branches["0"]
    assert branch.segments == [
        ["cached", "You are kind."],
        ["computed", " Who?"],
        ["sampled", " Me"],
    ]
    assert branch.variables == {"answer": " Me"}


def test_a_second_request_colours_only_what_is_new(program: Program) -> None:
    program.add("0", "You are kind. Who?")
    finish(program.gen("0", "a", " Me", cut="\n"))
    program.add("0", " Why?")
    assert follow(program.log).branches["0"].segments[-1] == ["text", " Why?"]
    finish(program.gen("0", "b", " So"))
    assert follow(program.log).branches["0"].segments == [
        ["cached", "You are kind."],
        ["computed", " Who?"],
        ["sampled", " Me"],
        ["computed", " Why?"],
        ["sampled", " So"],
    ]


def test_text_that_the_engine_adds_in_front_is_shown_and_kept_by_forks(log: EventLog) -> None:
    engine = WordEngine(log)
    program = Program(engine)
    program.branch("0")
    program.add("0", "Go on")
    program.texts["0"] = "BOS Go on"  # what the engine sees begins with a mark of its own
    finish(program.gen("0", "a", " now"))
    program.texts["0"] = "Go on now"
    program.branch("0.0", "0")
    assert follow(log).branches["0"].text == "BOS Go on now"
    child = follow(log).branches["0.0"]
    assert (child.text, child.own()) == ("BOS Go on now", [])


def test_forks_show_their_own_part(program: Program) -> None:
    program.add("0", "You are kind.")
    finish(program.gen("0", "a", " Yes"))
    for name, text in (("0.0", " One"), ("0.1", " Two")):
        program.branch(name, "0")
        program.add(name, text)
        finish(program.gen(name, "x", " done"))
    state = follow(program.log)
    assert state.branches["0.1"].text == "You are kind. Yes Two done"
    assert state.branches["0.1"].own() == [["computed", " Two"], ["sampled", " done"]]


def test_choices_count_but_only_the_chosen_is_text(program: Program) -> None:
    program.add("0", "You are kind. Or")
    before = follow(program.log).metrics.prompt_tokens
    finish(program.select("0", "pick", (" not", " so"), " so"))
    state = follow(program.log)
    assert state.branches["0"].segments == [
        ["cached", "You are kind."],
        ["computed", " Or"],
        ["sampled", " so"],
    ]
    assert state.metrics.prompt_tokens - before == 12
    assert state.branches["0"].variables == {"pick": " so"}


def test_half_a_character_waits_for_its_other_half(program: Program) -> None:
    program.add("0", "You")
    texts = []
    for _ in program.gen("0", "a", " ☕!"):
        texts.append(follow(program.log).branches["0"].text)
    assert "You \N{HOT BEVERAGE}!" in texts
    assert not any("\N{REPLACEMENT CHARACTER}" in text for text in texts)


def test_figures(program: Program) -> None:
    program.add("0", "You are kind. Who?")
    finish(program.gen("0", "answer", " Me too"))
    program.end("0")
    program.finish()
    state = follow(program.log)
    metrics = state.metrics
    assert (
        metrics.prompt_tokens,
        metrics.cached_tokens,
        metrics.output_tokens,
        metrics.passes,
    ) == (6, 4, 2, 2)
    assert metrics.hit_rate == pytest.approx(4 / 6) and metrics.computed_tokens == 2
    assert (metrics.finished, metrics.total, state.status) == (1, 1, "done")
    assert "hit rate 67%" in metrics.line() and "runs" not in metrics.line()


def test_a_batch_says_how_long_it_may_take(log: EventLog) -> None:
    state = RunState("r1")
    for t, event in [
        (0, events.RunStarted("r1", "b", "", 4)),
        (3, events.BranchFinished("r1", "0", "")),
        (3, events.BranchFinished("r1", "1.0", "")),
    ]:
        state.apply(Record(t + 1, float(t), event))
    assert state.line().startswith("1/4 runs") and state.line().endswith("ETA 9 s")
    state.apply(Record(9, 4.0, events.RunFinished("r1", "interrupted")))
    assert "ETA" not in state.line()


def test_a_batch_has_rows(log: EventLog) -> None:
    program = Program(WordEngine(log), total=2)
    for name in ("0", "1"):
        program.branch(name)
        program.add(name, "Say yes")
        program.branch(f"{name}.0", name)
        finish(program.gen(f"{name}.0", "x", " of course"))
        finish(program.gen(name, "answer", " yes"))
    program.end("0")
    program.end("1", "ValueError: no")
    rows = follow(log).rows
    assert [(row.name, row.answer, row.status, row.error) for row in rows.values()] == [
        ("answer", " yes", "done", ""),
        ("answer", " yes", "error", "ValueError: no"),
    ]
    assert [(row.prompt, row.cached, row.output) for row in rows.values()] == [(4, 1, 3), (4, 2, 3)]
    assert all(row.ended is not None and row.ended >= row.began for row in rows.values())


def test_reading_order_puts_forks_where_they_happened(log: EventLog) -> None:
    finish(demo(log))
    passages = list(follow(log).passages())
    assert [(p.branch.name, p.last) for p in passages] == [
        ("0", False),
        ("0.0", True),
        ("0.1", True),
        ("0.2", True),
        ("0", True),
    ]
    assert passages[-1].segments == [
        ["computed", "The best of these is tip number"],
        ["sampled", " 2"],
    ]


def test_other_runs_do_not_count(program: Program) -> None:
    other = Program(program.engine, "r2")
    other.branch("0")
    other.add("0", "You are")
    finish(other.gen("0", "x", " it"))
    other.finish("error", "no")
    state = follow(program.log)
    assert (state.metrics.output_tokens, state.metrics.passes, state.status) == (0, 0, "running")
    assert state.branches["0"].segments == []


def test_without_an_engine_the_programs_events_are_enough(log: EventLog) -> None:
    for event in (
        events.RunStarted("r1", "api", "", 1),
        events.BranchStarted("r1", "0", "", ""),
        events.TextAppended("r1", "0", "Say"),
        events.GenerationDone("r1", "0", "a", " hi"),
    ):
        log.emit(event)
    assert follow(log).branches["0"].segments == [["text", "Say"], ["sampled", " hi"]]


def test_a_backend_that_tells_no_tokens_tells_text_and_counts(log: EventLog) -> None:
    for event in (
        events.RunStarted("r1", "api", "", 1),
        events.BranchStarted("r1", "0", "", ""),
        events.TextAppended("r1", "0", "Say"),
        events.RequestQueued(1, "r1", "0", "a", "generate", ()),
        events.TextStreamed("r1", "0", " hi"),
        events.TextStreamed("r1", "0", " you sto"),
    ):
        log.emit(event)
    assert follow(log).branches["0"].segments == [["text", "Say"], ["sampled", " hi you sto"]]
    log.emit(events.RequestFinished(1, "stop", 7, 2, 3))
    log.emit(events.GenerationDone("r1", "0", "a", " hi you"))
    state = follow(log)
    assert state.branches["0"].segments == [["text", "Say"], ["sampled", " hi you"]]
    metrics, row = state.metrics, state.rows["0"]
    assert (metrics.prompt_tokens, metrics.cached_tokens, metrics.output_tokens) == (7, 2, 3)
    assert (row.prompt, row.cached, row.output) == (7, 2, 3)


def test_errors_and_interrupts_are_kept(program: Program) -> None:
    program.end("0", "ValueError: 3")
    program.finish("interrupted", "stopped by you")
    state = follow(program.log)
    assert (state.status, state.message, state.failed, state.first_error) == (
        "interrupted",
        "stopped by you",
        1,
        "ValueError: 3",
    )
    assert state.branches["0"].status == "error"


def test_a_large_batch_is_counted_and_cheap() -> None:
    state, batch = RunState("r1"), 2_000
    made: list[object] = [events.RunStarted("r1", "batch", "", batch)]
    for i in range(batch):
        made += [
            events.BranchStarted("r1", str(i), "", ""),
            events.TextAppended("r1", str(i), "text " * 20),
            events.RequestQueued(i, "r1", str(i), "a", "generate", tuple(range(200))),
            events.RequestAdmitted(i, 150),
        ]
    for step in range(batch // 2):
        rows = [(step // 32 * 64 + j) % batch for j in range(64)]
        sampled = tuple(events.Sampled(row, 7, -0.1) for row in rows)
        made.append(events.StepRan(step, 0.001, (), sampled, 0, 64, 1, 1, 1))
    for i in range(batch):
        made += [
            events.RequestFinished(i, "stop", 200, 150, 32),
            events.BranchFinished("r1", str(i), ""),
        ]
    records = [Record(seq, seq / 1000, event) for seq, event in enumerate(made, 1)]
    assert calls(lambda: [state.apply(record) for record in records]) < 60 * len(records)
    assert (len(state.branches), state.hidden) == (KEPT_BRANCHES, batch - KEPT_BRANCHES)
    assert (state.metrics.finished, state.metrics.prompt_tokens) == (batch, 200 * batch)
    assert state.metrics.output_tokens == 32 * batch and state.metrics.hit_rate == 0.75


def test_text_that_only_forks_sent_is_coloured_in_its_parent_too() -> None:
    log = EventLog()
    program = Program(WordEngine(log))
    program.branch("0")
    program.add("0", SYSTEM)
    for i in range(3):
        program.branch(f"0.{i}", "0")
        program.add(f"0.{i}", f" Tip {i}:")
        list(program.gen(f"0.{i}", "tip", " sleep"))
    program.add("0", " not sent")
    state = follow(log)
    assert state.branches["0"].segments == [["computed", SYSTEM], ["text", " not sent"]]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.text(max_size=5))), st.integers(0, 30))
def test_take_and_drop_divide_a_text(segments: list[tuple[str, str]], at: int) -> None:
    pieces = [list(segment) for segment in segments]
    whole = [(kind, c) for kind, text in pieces for c in text]
    assert [(kind, c) for kind, text in take(pieces, at) for c in text] == whole[:at]
    assert [(kind, c) for kind, text in drop(pieces, at) for c in text] == whole[at:]
