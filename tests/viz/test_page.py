"""The page's own reducers: the same states as Python's, whenever the page joins."""

from __future__ import annotations

import codecs
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sgnb import events
from sgnb.events import EventLog, LogReader, decode, encode
from sgnb.viz.live.feed import Feed
from sgnb.viz.live.widget import module
from sgnb.viz.state.cache_miss import lookups
from sgnb.viz.state.log_state import LogState
from sgnb.viz.state.run_state import RunState
from sgnb.viz.state.token_table import visible
from sgnb.viz.state.tree import Trees, TreeState

from .make_log import HOSTILE, Program, WordEngine, demo
from .page import canonical, node
from .test_rows import batch

REDUCERS = ("branch", "models", "reduce", "store")

WORDS = ["the", " cat", " sat", "\n", " \N{FOX FACE}", " é", "🦊🐶", " on", " mat.", HOSTILE]


def random_log(rng: random.Random) -> EventLog:
    """Programs with forks, generations, choices, jumps, retraction, splits, evictions and pins."""
    log = EventLog()
    engine = WordEngine(log, states=rng.choice([0, 2, 6]))
    pinned: list[tuple[int, str]] = []
    named: list[int] = []
    labels = [*(f"image {i}×{i}" for i in range(4)), "audio 2.0 s", f"video {HOSTILE} 3×3"]

    def text(most: int) -> str:
        words = [*WORDS, *engine.items, *engine.items]
        return "".join(rng.choices(words, k=rng.randint(1, most)))

    for number in range(rng.randint(1, 3)):
        for label in rng.sample(labels, rng.randint(0, len(labels))):
            labels.remove(label)
            engine.item(label, rng.randint(1, 30))
        program = Program(engine, f"r{number}", f"run {number}", total=rng.choice([1, 14]))
        for name in map(str, range(rng.choice([1, 14]) if number == 0 else 1)):
            program.branch(name)
            program.add(name, text(6))
            forks = [f"{name}.{i}" for i in range(rng.randint(0, 3))]
            for fork in forks:
                program.branch(fork, name)
            lanes: list[Iterator[None]] = []
            for one in [name, *forks]:
                program.add(one, text(3))
                if rng.random() < 0.3:
                    lanes.append(program.select(one, "choice", (" a", " b", text(2)), " b"))
                else:
                    cut = rng.choice(["", "\n", " stop"])
                    lanes.append(program.gen(one, "x", text(5), cut=cut))
            while lanes:
                lane = rng.choice(lanes)
                if next(lane, StopIteration) is StopIteration:
                    lanes.remove(lane)
                if rng.random() < 0.1 and (leaves := engine.leaves()):
                    engine.evict(rng.choice(leaves))
                if rng.random() < 0.1:
                    engine.keep(rng.choice(list(engine.tokens)))
                if rng.random() < 0.1 and engine.checkpoints:
                    engine.drop(rng.choice(engine.checkpoints))
                if rng.random() < 0.1:
                    pinned.append((rng.choice(list(engine.tokens)), rng.choice(["user", "r0"])))
                    engine.pin(*pinned[-1], 1)
                if pinned and rng.random() < 0.1:
                    engine.pin(*pinned.pop(rng.randrange(len(pinned))), -1)
                if rng.random() < 0.1:
                    request = max(0, engine.latest - rng.randint(0, 12))
                    jump(engine, rng, request, text(2))
                if rng.random() < 0.2:
                    change_copies(log, rng, engine, named)
                if rng.random() < 0.2:
                    change_activity(log, rng, f"r{number}", max(1, engine.latest - 1))
                    change_workers(log, rng, f"r{number}")
            for one in [*forks, name]:
                program.end(one, rng.choice(["", "", "ValueError: no"]))
        program.finish(rng.choice(["done", "error"]), rng.choice(["", "it failed"]))
        edited = Program(engine, f"r{number}e", f"run {number}")
        place = f"r{number}", "0", "0", "x", 3, text(1)
        log.emit(events.RunEdited(edited.run, *place))
        edited.branch("0")
        edited.add("0", text(3))
        edited.recorded("0", "w", text(3))
        edited.add("0", text(2))
        list(edited.gen("0", "x", text(4), rng.choice(["", "\n"]), given=text(3)))
        edited.end("0")
        edited.finish()
    return log


def change_copies(log: EventLog, rng: random.Random, engine: WordEngine, named: list[int]) -> None:
    """Names and states of blocks, of unknown blocks as well, and a load."""
    first, count = 1 + log.last, rng.randint(1, 3)
    parent = rng.choice([0, *named, 7])
    named.append(first)
    tokens = tuple(rng.choices(list(engine.ids.values()) or [0], k=2 * count))
    log.emit(events.BlocksNamed(first, count, parent, tokens))
    state = rng.choice(["stored", "stored", "room", "full"])
    blocks = tuple(rng.sample(range(first, first + count + 2), rng.randint(1, count)))
    log.emit(events.CopiesChanged(rng.choice(["host", "disk"]), state, blocks, HOSTILE))
    store = rng.choice(["host", "disk", HOSTILE])
    request = rng.choice([0, engine.latest, engine.latest + 1])
    log.emit(events.PrefixLoaded(request, store, 64, rng.choice([0.25, 2.0]), 0.5))


def change_activity(log: EventLog, rng: random.Random, run: str, request: int) -> None:
    """Waits, retractions, tools, and steps of other requests."""
    reason = rng.choice(["memory", "mask", "grammar", "encoder", "paused"])
    other = 90_000 + log.last
    log.emit(events.RequestQueued(other, "other", "0", "x", "generate", (1, 2)))
    step = events.StepRan(1, 0.002, (events.Extended(other, 0, 2),), (), 1, 1, 0, 0, 0)
    log.emit(
        rng.choice(
            [
                events.RequestWaits(request, reason, 0, 0),
                events.RequestWaits(request, "memory", 0, 0),
                events.RequestRetracted(request),
                events.GrammarReady(request, "regex", 3, 0.1, False),
                events.BranchPaused(run, "0", "gen 'a'", "f.py", rng.choice([0, 3])),
                events.BranchResumed(run, "0"),
                events.ToolCalled(run, "0", "search"),
                events.ToolReturned(run, "0", "search"),
            ]
        )
    )
    log.emit(step)


def change_workers(log: EventLog, rng: random.Random, run: str) -> None:
    """Decisions of a fleet, retries, and the loss of a worker, of unknown workers as well."""
    worker, branch = rng.randrange(4), rng.choice(["0", "0.0", "0.1"])
    engine, name = rng.choice([0, worker + 1]), rng.choice([HOSTILE, "x"])
    estimates = [round(rng.random(), 6) for _ in range(5)]
    log.emit(events.CallRouted(run, branch, name, worker, engine, 900, 64, *estimates))
    if rng.random() < 0.5:
        log.emit(events.CallRetried(run, branch, "x", rng.randrange(5), 3))
    if rng.random() < 0.1:
        log.emit(events.WorkerLost(rng.randrange(5), HOSTILE, rng.randrange(1, 4)))
    if rng.random() < 0.2:
        log.emit(events.WorkerJoined(rng.randrange(6), "tiny", rng.randrange(4)))
        log.emit(events.FleetScaled(rng.randrange(5), "stop", HOSTILE))


def jump(engine: WordEngine, rng: random.Random, request: int, text: str) -> None:
    tokens = engine.encode(text)
    data = text.encode("utf-8", "replace").decode("latin-1")
    engine.log.emit(events.Jumped(request, "forced", 0, tokens, data, 1, 2, ("name",)))


def states(lines: list[str]) -> tuple[TreeState, list[RunState]]:
    state = LogState(map(decode, lines))
    return state.tree, list(state.runs.values())


def logs(count: int) -> list[EventLog]:
    made = [random_log(random.Random(seed)) for seed in range(count)]
    for log in made:
        log.emit(events.ProgramCalled("r0", "0", f"text={HOSTILE!r}"))
    whole = EventLog()
    list(demo(whole))
    return [*made, whole, without_tokens(), batch()]


def without_tokens() -> EventLog:
    """Of a backend that tells texts: two calls of a batch side by side, one of them streamed."""
    log = EventLog()
    calls = [events.RequestQueued(i, "r1", str(i), "a", "generate", ()) for i in range(2)]
    made: list[Any] = [events.RunStarted("r1", "api", "", 2)]
    for name in ("0", "1"):
        made.append(events.BranchStarted("r1", name, "", ""))
        made.append(events.TextAppended("r1", name, "Say"))
    made += calls
    made += [events.TextStreamed("r1", "0", text) for text in (" hi", " you", " sto")]
    made += [events.RequestFinished(i, "stop", 7, 2, 3) for i in range(2)]
    made += [events.GenerationDone("r1", str(i), "a", " hi you") for i in range(2)]
    for event in made:
        log.emit(event)
    return log


def with_splices(log: EventLog, rng: random.Random) -> EventLog:
    """Return a log in which some requests are approximate."""
    copy = EventLog()
    for record in log.read().records:
        event = record.event
        if isinstance(event, events.RequestAdmitted) and rng.random() < 0.3:
            begin, reused = rng.randrange(9), rng.randrange(1, 9)
            copy.emit(events.AnswerSpliced(event.request, 20, 9, reused, 1, begin))
        copy.emit(event)
        if isinstance(event, events.RequestFinished) and rng.random() < 0.3:
            values = 1, 1, 0.1, 0.0, 0.1, 2.0, "a"
            copy.emit(events.AnswerVerified(event.request, "same", *values))
    return copy


@pytest.mark.parametrize("count", [5, pytest.param(15, marks=pytest.mark.slow)])
def test_the_page_comes_to_the_same_states(count: int) -> None:
    every = logs(count)
    every += [with_splices(log, random.Random(i)) for i, log in enumerate(every)]
    lines = [[encode(record) for record in log.read().records] for log in every]
    script = """
      return given.map((lines) => {
        const store = newStore();
        store.add(parseLines(lines.join("\\n")));
        return canonical(store.state);
      });"""
    found = node(script, REDUCERS, lines)
    for one, page in zip(lines, found, strict=True):
        assert page == canonical(*states(one))


def contradicting_log(rng: random.Random) -> EventLog:
    """Events about nodes whose numbers, parents and lengths do not fit."""
    log = EventLog()
    texts = [(1,), (1, 2), (2, 3, 4), (3,)]
    for _ in range(60):
        node, other = rng.randrange(7), rng.randrange(7)
        log.emit(rng.choice([
            events.NodeAdded(node, other, rng.choice(texts)),
            events.NodeAdded(node, 0, rng.choice(texts)),
            events.NodeSplit(node, other, rng.randrange(4)),
            events.NodeEvicted(node, "memory"), events.NodeLocked(node, rng.choice([1, -1])),
            events.NodePinned(node, "user", rng.choice([1, -1])),
            events.NodeTouched(node, rng.randrange(9)), events.CheckpointKept(node),
        ]))  # fmt: skip
    return log


def test_the_page_comes_to_the_same_tree_from_contradicting_events() -> None:
    made = [contradicting_log(random.Random(seed)) for seed in range(100)]
    lines = [[encode(record) for record in log.read().records] for log in made]
    script = """
      return given.map((lines) => {
        const store = newStore();
        store.add(parseLines(lines.join("\\n")));
        return canonical(store.state);
      });"""
    for one, page in zip(lines, node(script, REDUCERS, lines), strict=True):
        assert page == canonical(*states(one))


def log_of_several_models(rng: random.Random) -> EventLog:
    """A run whose calls go to its own engine, to two others and to a model that is no engine."""
    log, far = EventLog(), EventLog()
    own, *others = WordEngine(log), WordEngine(EventLog()), WordEngine(EventLog(), states=3)
    for engine in others:
        list(engine.generate("said before", " and after"))
    program = Program(own, "r0", "several", total=1)
    program.branch("0")
    program.add("0", "".join(rng.choices(WORDS, k=5)))
    branches = ["0", *(f"0.{i}" for i in range(rng.randint(0, 3)))]
    lanes: list[Iterator[None]] = []
    for name in branches:
        if name != "0":
            program.branch(name, "0")

        def lane(name: str = name) -> Iterator[None]:
            for _ in range(rng.randint(1, 4)):
                program.add(name, "".join(rng.choices(WORDS, k=rng.randint(0, 3))))
                text, number = "".join(rng.choices(WORDS, k=4)), rng.randint(0, 3)
                before = rng.choice(["", "", "mark: "])
                variable = rng.choice("xy")
                if number == 0:
                    yield from program.gen(name, variable, text)
                elif number == 3:
                    tokens = rng.randint(0, 9)
                    yield from program.gen_far(far, number, name, variable, text, tokens)
                else:
                    other = others[number - 1]
                    yield from program.gen_by(other, number, name, variable, text, before)

        lanes.append(lane())
    list(own.generate("beside it", " too"))
    while lanes:
        one = rng.choice(lanes)
        if next(one, StopIteration) is StopIteration:
            lanes.remove(one)
    for name in reversed(branches):
        program.end(name, rng.choice(["", "", "ValueError: no"]))
    program.finish()
    return log


@pytest.mark.slow
def test_the_page_tells_several_engines_apart() -> None:
    """In a recording of all of them, at any place in it, and as a view is fed."""
    recorded, fed = [], []
    for seed in range(40):
        rng = random.Random(seed)
        log = log_of_several_models(rng)
        reader = LogReader(log)
        records = reader.read().records
        assert {record.engine for record in records} <= {0, 1, 2}
        recorded.append([encode(record) for record in (*reader.before, *records)])
        trees = Trees()
        for record in reader.before:
            trees.apply(record)
        feed = Feed(trees, 0.0)
        for start in range(0, len(records), 5):
            feed.push(records[start : start + 5], 0)
            for record in records[start : start + 5]:
                trees.apply(record)
        fed.append(feed.lines)
    script = """
      return given.map((lines) => {
        const store = newStore();
        store.add(parseLines(lines.join("\\n")));
        const half = Math.floor(lines.length / 2), direct = newState();
        for (const record of store.records.slice(0, half)) apply(direct, record);
        store.seek(half);
        const all = (state) => [0, 1, 2].map((engine) => canonical(state, engine));
        const same = JSON.stringify(all(store.shown())) === JSON.stringify(all(direct));
        return [same, ...all(store.state)];
      });"""
    for lines, (same, *pages) in zip(recorded, node(script, REDUCERS, recorded), strict=True):
        state = LogState(map(decode, lines))
        assert same
        for engine, page in enumerate(pages):
            assert page == canonical(state.trees[engine], list(state.runs.values()))
        models = state.runs["r0"].models.values()
        metrics = state.runs["r0"].metrics
        assert metrics.prompt_tokens == sum(model.prompt_tokens for model in models)
        assert metrics.output_tokens == sum(model.output_tokens for model in models)
    for lines, whole, pages in zip(fed, recorded, node(script, REDUCERS, fed), strict=True):
        state = LogState(map(decode, lines))
        expected = LogState(map(decode, whole)).runs
        assert pages[1] == canonical(state.tree, list(state.runs.values()))
        for run, (name, other) in zip(state.runs.values(), expected.items(), strict=True):
            assert (run.run, run.metrics.prompt_tokens) == (name, other.metrics.prompt_tokens)
            texts = [[branch.segments for branch in one.branches.values()] for one in (run, other)]
            assert texts[0] == texts[1]


@pytest.mark.slow
def test_an_earlier_state_is_the_one_that_was() -> None:
    log = random_log(random.Random(5))
    for seed in range(6, 30):
        list(demo(log, f"again{seed}"))
    lines = [encode(record) for record in log.read().records]
    assert len(lines) > 4_000
    places = [*random.Random(0).sample(range(len(lines)), 12), 2000, 1999, len(lines), 0, 1]
    script = """
      const [lines, places] = given;
      const records = parseLines(lines.join("\\n"));
      const store = newStore();
      store.add(records);
      return places.map((place) => {
        store.seek(place);
        const direct = newState();
        for (const record of records.slice(0, place)) apply(direct, record);
        return JSON.stringify(canonical(store.shown())) === JSON.stringify(canonical(direct));
      });"""
    assert node(script, REDUCERS, [lines, places]) == [True] * len(places)


@pytest.mark.slow
@pytest.mark.parametrize("told", [3, 4000])
def test_a_feed_tells_what_a_page_that_joins_late_needs(
    told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sgnb.viz.live.feed.SENT_NODES", told)
    fed: list[list[str]] = []
    wanted: list[Any] = []
    for seed in range(20):
        rng = random.Random(seed)
        records = random_log(rng).read().records
        join = rng.randrange(len(records))
        trees = Trees()
        tree = trees[0]
        for record in records[:join]:
            tree.apply(record)
        feed = Feed(trees, 0.0)
        for start in range(join, len(records), 7):
            feed.push(records[start : min(start + 7, len(records))], 0)
            for record in records[start : start + 7]:
                tree.apply(record)
        fed.append(feed.lines)
        named = tree.token_table
        wanted.append(
            {
                str(n.id): [
                    n.parent,
                    list(n.tokens),
                    n.locks,
                    n.tick if n.id else 0,
                    n.checkpoint,
                    named.text(n.tokens),
                    sorted(tree.pins.get(n.id, [])),
                ]
                for n in tree.nodes.values()
            }
        )
    script = """
      return given.map((lines) => {
        const state = newState();
        for (const record of parseLines(lines.join("\\n"))) apply(state, record);
        const text = (n) => textOfTokens(state.tokenTable, n.tokens);
        return [state.missing, Object.fromEntries([...state.nodes.values()].map((n) =>
          [n.id, [n.parent, n.tokens, n.locks, n.id && n.tick, n.checkpoint, text(n),
                  (state.pins.get(n.id) ?? []).toSorted()]]))];
      });"""
    for (missing, nodes), whole in zip(node(script, REDUCERS, fed), wanted, strict=True):
        assert missing == 0 and len(nodes) > 0
        assert nodes == {name: whole[name] for name in nodes}
        if told == 4000:
            assert nodes == whole


def test_what_is_kept_for_late_pages_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgnb.viz.live.feed.KEPT_CHARACTERS", 20_000)
    feed, told = Feed(Trees(), 0.0), 0
    for seed in range(12):
        records = random_log(random.Random(seed)).read().records
        feed.push(records, 0)
        told = feed.dropped + len(feed.lines)
        assert sum(map(len, feed.lines)) <= 20_000
    assert 0 < feed.dropped < told


def test_bytes_that_are_no_text_read_alike() -> None:
    rng = random.Random(0)
    parts = [b"a", b"\xe2\x98", b"\x95", b"\xf0", b"\x9f\xa6", b"\x8a", b"\xff", b"\xc3", b"\xa9"]
    parts += [b"\xe0\x80", b"\xed\xa0\x80"]
    cases = [rng.choices(parts, k=rng.randint(1, 6)) for _ in range(400)]
    script = """
      return given.map((parts) => {
        let pending = [], text = "";
        for (const part of parts) {
          let more;
          [more, pending] = decodeMore(pending, latin1(part));
          text += more;
        }
        return text;
      });"""
    wanted = []
    for case in cases:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        wanted.append("".join(decoder.decode(part) for part in case))
    given = [[part.decode("latin-1") for part in case] for case in cases]
    assert node(script, REDUCERS, given) == wanted


def test_hostile_text_is_shown_as_in_python() -> None:
    texts = [
        HOSTILE, "a\u200db", "👩\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "\u2066x\u2069", "\ud800",
        "\x00\x1b[31m\x7f\x85", "e\u0301", "\U000e0041", "\ufeff\u00ad", "tab\tline\n",
        "🏳\ufe0f\u200d🌈a",
    ]  # fmt: skip
    shown = node("return given.map(visible);", ["dom"], texts)
    assert shown == [visible(text) for text in texts]


def test_rows_know_their_arguments_and_requests_their_line() -> None:
    log = EventLog()
    engine = WordEngine(log)
    log.emit(events.RunStarted("r1", "qa", "def qa(s):\n    s += gen('a')", 2, "cell.py", 7))
    for name in ("0", "1"):
        log.emit(events.BranchStarted("r1", name, "", ""))
        log.emit(events.ProgramCalled("r1", name, f"country='{name}'"))
        tokens = engine.encode("What is it?")
        request = int(name) + 1
        queued = (request, "r1", name, "a", "generate", tokens, "cell.py", 8)
        log.emit(events.RequestQueued(*queued))
    lines = [encode(record) for record in log.read().records]
    script = """
      const state = newState();
      for (const record of parseLines(given.join("\\n"))) apply(state, record);
      const rows = [...state.runs.get("r1").rows.values()].map((row) => row.arguments);
      return [rows, [...state.requests.values()].map((request) => locationOf(state, request))];"""
    files = ["dom", *REDUCERS, "inspect"]
    assert node(script, files, lines) == [
        ["country='0'", "country='1'"],
        ["2: s += gen('a')"] * 2,
    ]


def test_a_prompt_that_leaves_the_tree_says_where() -> None:
    log = EventLog()
    engine = WordEngine(log)
    list(engine.generate("The capital of Spain is", " Madrid"))
    list(engine.generate("The capital of Italy is", " Rome"))
    list(engine.generate("The capital of Italy is", " Rome"))
    lines = [encode(record) for record in log.read().records]
    script = """
      const state = newState();
      for (const record of parseLines(given.join("\\n"))) apply(state, record);
      return [1, 2, 3].map((request) => {
        const position = state.requests.get(request).cached;
        return Object.fromEntries(describe(state, { request, position }).facts)["not found"];
      });"""
    files = ["dom", *REDUCERS, "draw", "text", "layout", "inspect"]
    assert node(script, files, lines) == [
        "from here on, the tree had no continuation",
        "from here on, the tree continued with “␣Spain”",
        "the last token of a prompt is always computed: the logits give the next token",
    ]


def test_a_miss_names_the_other_prompt_the_difference_and_the_savings_of_a_reorder() -> None:
    """The page and Python compare the same prompts, on logs with shared and moved parts."""
    log, random_ = EventLog(), random.Random(4)
    engine = WordEngine(log)
    rules = " ".join(f"rule{i}" for i in range(12))
    names = ["Spain", "Italy", "Peru"]
    for i in range(24):
        parts = ["You are careful.", random_.choice(names), rules, "Answer", random_.choice(names)]
        if i % 3 == 2:
            random_.shuffle(parts)
        list(engine.generate(" ".join(parts), " yes", run=f"r{i}", branch="0", name="a"))
    records = log.read().records
    script = """
      const state = newState();
      for (const record of parseLines(given.join("\\n"))) apply(state, record);
      return [...state.requests.values()].map((request) => {
        const found = nearestOf(state, request);
        const facts = describe(state, { request: request.id, position: missedAt(request) }).facts;
        const border = isBorder(request, 0, request.prompt.length);
        return [found && found.nearest.id, found && found.common, found && found.block.length, border, facts];
      });"""  # noqa: E501
    files = ["dom", *REDUCERS, "draw", "text", "layout", "inspect"]
    of_page = node(script, files, [encode(record) for record in records])
    reordered = 0
    for lookup, (nearest, common, block, border, facts) in zip(
        lookups(records), of_page, strict=True
    ):
        facts, differs = dict(facts), lookup.difference
        assert nearest == lookup.nearest
        whole = differs is not None and differs.tokens == lookup.prompt_tokens
        assert border != whole
        if differs is None:
            assert facts["other prompt"] == "no earlier prompt"
            continue
        assert (common, block) == (differs.tokens, differs.reorder_tokens)
        if border:
            assert facts["other prompt"].startswith(f"run r{nearest - 1}, branch 0, a: {common} ")
            assert facts["first difference"].startswith(f"token {common}: ")
            assert ("reorder" in facts) == bool(block)
            reordered += "reorder" in facts
        else:
            assert "other prompt" not in facts
    assert 5 < reordered < 24


def test_a_prompt_that_was_evicted_or_not_yet_computed_says_so() -> None:
    log = EventLog()
    engine = WordEngine(log)
    list(engine.generate("one two three four", " yes"))
    engine.evict(engine.leaves()[0])
    list(engine.generate("one two three five", " yes"))
    tokens = engine.encode("six seven eight")
    for request in (8, 9):
        log.emit(events.RequestQueued(request, "r", "0", "a", "generate", tokens))
    for request in (8, 9):
        log.emit(events.RequestAdmitted(request, 0))
    lines = [encode(record) for record in log.read().records]
    script = """
      const state = newState();
      for (const record of parseLines(given.join("\\n"))) apply(state, record);
      return [2, 9].map((request) =>
        Object.fromEntries(describe(state, { request, position: 0 }).facts));"""
    files = ["dom", *REDUCERS, "draw", "text", "layout", "inspect"]
    evicted, early = node(script, files, lines)
    assert evicted["cause"] == "the common tokens were evicted or not kept"
    assert evicted["first difference"] == "token 3: “␣five” here, “␣four” there"
    assert early["cause"] == "the other prompt was not computed yet"
    assert early["first difference"] == "none"


def test_alternatives_are_shown_before_and_after_the_mask() -> None:
    log = EventLog()
    engine = WordEngine(log)
    generation = engine.generate("The capital of France is", " Paris")
    tokens = engine.encode(" Paris Lyon")
    for _ in range(3):
        next(generation)
    log.emit(events.Alternatives(1, tokens, (-0.5, -1.5), (True, False)))
    lines = [encode(record) for record in log.read().records]
    script = """
      const state = newState();
      for (const record of parseLines(given.join("\\n"))) apply(state, record);
      const request = state.requests.get(1), position = request.prompt.length;
      const said = () => Object.fromEntries(describe(state, { request: 1, position }).facts);
      const before = said().likeliest;
      request.output[0].mask = { allowed: 1, kept: -0.5, before: 0, after: 1 };
      return [before, said().likeliest];"""
    files = ["dom", *REDUCERS, "draw", "text", "layout", "inspect"]
    assert node(script, files, lines) == [
        "“␣Paris” 60.7 %, “␣Lyon” 22.3 %",
        "“␣Paris” 60.7 % → 100.0 %, “␣Lyon” 22.3 % → not allowed",
    ]


def test_forced_text_that_begins_inside_a_token_is_shown_whole() -> None:
    """Retokenizing replaces the token that was sampled before it."""
    log = EventLog()
    program = Program(WordEngine(log), "r1", "demo")
    program.branch("0")
    program.add("0", "mood:")
    generation = program.gen("0", "mood", "a")
    for _ in range(3):
        next(generation)
    log.emit(events.TokensNamed((900, 901), ("ann", "oyed")))
    log.emit(events.Jumped(program.engine.latest, "forced", 1, (900, 901), "nnoyed", 0, 1, ()))
    lines = [encode(record) for record in log.read().records]
    script = """
    const store = newStore();
    store.add(given.map((line) => JSON.parse(line)));
    const pieces = store.state.runs.get("r1").branches.get("0").pieces.slice(-2);
    return pieces.map((piece) => splitPiece(store.state, piece).map(({ text }) => text));
    """
    assert node(script, [*REDUCERS, "dom", "text"], lines) == [["a"], ["nn", "oyed"]]


@pytest.mark.slow
def test_a_piece_that_grows_has_the_tokens_of_one_that_is_split_anew() -> None:
    logs = [random_log(random.Random(seed)).read().records for seed in range(6)]
    script = """
    const wrong = [];
    let grown = 0;
    for (const lines of given) {
      const store = newStore(), kept = new Map();
      const look = (name, piece) => {
        const { text } = piece, begun = newSplit(piece), old = kept.get(name);
        const fresh = splitPiece(store.state, piece, begun);
        const grows = old?.split && text !== old.text && text.startsWith(old.text);
        const more = grows ? splitGrown(store.state, piece, old.split) : null;
        if (more) {
          grown += 1;
          const all = [...old.parts, ...more];
          if (JSON.stringify(all) !== JSON.stringify(fresh)) wrong.push([name, all, fresh]);
        }
        kept.set(name, { text, parts: fresh, split: fits(piece, begun) ? begun : null });
      };
      for (const line of lines) {
        store.add([JSON.parse(line)]);
        for (const run of store.state.runs.values()) {
          for (const branch of run.branches.values()) {
            branch.pieces.forEach((piece, i) => {
              const { kind, request, from } = piece;
              const name = [run.run, branch.name, i, kind, request, from].join();
              if (kind === "sampled" || kind === "jumped") look(name, piece);
            });
          }
        }
      }
    }
    return [grown, wrong];
    """
    lines = [list(map(encode, records)) for records in logs]
    grown, wrong = node(script, [*REDUCERS, "dom", "text"], lines)
    assert (grown > 30, wrong) == (True, [])


def test_a_request_finds_what_its_own_namespace_has() -> None:
    log = EventLog()
    tokens = WordEngine(log).encode("one two three four")
    for node_id, namespace in ((1, ""), (2, "mine"), (3, "other")):
        log.emit(events.NodeAdded(node_id, 0, tokens[:3], namespace))
    log.emit(events.RequestQueued(1, "", "", "", "generate", tokens, "", 0, "mine"))
    log.emit(events.RequestAdmitted(1, 3))
    lines = [encode(record) for record in log.read().records]
    script = """
      const store = newStore();
      store.add(parseLines(given.join("\\n")));
      return canonical(store.state);"""
    tree, runs = states(lines)
    assert [tree.nodes[node_id].hits for node_id in (1, 2, 3)] == [0, 1, 0]
    assert node(script, REDUCERS, lines) == canonical(tree, runs)


def test_the_scripts_are_one_module_in_which_no_name_is_declared_twice(tmp_path: Path) -> None:
    from playwright._impl._driver import compute_driver_executable

    (tmp_path / "page.mjs").write_text(module(), encoding="utf-8")
    check = [compute_driver_executable()[0], "--check", tmp_path / "page.mjs"]
    checked = subprocess.run(check, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_blanks_are_seen_at_the_ends_of_a_text_and_not_where_it_is_cut() -> None:
    script = "return [inLine(' a b ', 9), inLine('a b', 2)];"
    assert node(script, ("dom",), None) == ["␣a b␣", "a …"]
