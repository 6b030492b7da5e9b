"""Images, videos and sounds in the states and static views."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgnb import events
from sgnb.errors import RecordError
from sgnb.events import EventLog, MediaNamed, Record, decode, encode
from sgnb.media import Image, thumbnail
from sgnb.media.thumbnails import MAX_CHARACTERS
from sgnb.viz import Feed, LogState, Recording, Trees
from sgnb.viz.state.cache_miss import difference, lookups
from sgnb.viz.state.media import MediaTable
from sgnb.viz.state.token_table import TokenTable
from sgnb.viz.static.bundle import FINAL_LIMIT, RUNNING_LIMIT, size, static_bundle
from sgnb.viz.static.perfetto import trace_events
from sgnb.viz.static.plain_text import plain_text

from .make_log import HOSTILE, Program, WordEngine
from .page import node

PAGE = ("dom", "branch", "models", "reduce", "store", "draw", "text", "layout", "inspect")


def picture(seed: int = 0) -> str:
    return thumbnail(
        Image(np.random.default_rng(seed).integers(0, 256, (96, 96, 3), dtype=np.uint8))
    )


def named(first_id: int, count: int, **changes: Any) -> MediaNamed:
    values = {"media": "image", "number": 1, "label": "image 4×3", "content": "a", "thumbnail": ""}
    return MediaNamed(first_id=first_id, count=count, **values | changes)


def play(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


def compare_program() -> EventLog:
    """Two forks that share an image, and a second run with the same prompt."""
    log = EventLog()
    engine = WordEngine(log)
    first = engine.item("image 640×480", 9, thumbnail=picture())
    second = engine.item("image 320×200", 4, thumbnail=picture(1))
    for run in ("r1", "r2"):
        program = Program(engine, run, "compare")
        program.branch("0")
        program.add("0", f"Look at {first} now")
        play(program.gen("0", "seen", " a chart"))
        program.branch("0.0", "0")
        program.add("0.0", f" and {second} too")
        play(program.gen("0.0", "both", " two charts"))
        for branch in ("0.0", "0"):
            program.end(branch)
        program.finish()
    return log


def test_text_and_counts_of_a_run() -> None:
    log = compare_program()
    state = LogState(log.read().records)
    cold, warm = (plain_text([run]) for run in state.runs.values())
    assert "Look at [image 1: 640×480, 9 tokens, computed] now a chart" in cold
    assert "and [image 2: 320×200, 4 tokens, computed] too" in cold
    assert "encoder skipped for 1 of 3 images (processor 1, prefill 1)" in cold
    assert "Look at [image 1: 640×480, 9 tokens, found] now a chart" in warm
    assert "encoder skipped for 3 of 3 images (processor 3, prefill 3)" in warm
    assert "[image 1: 640×480]" in plain_text([state.tree])
    slices = [e for e in trace_events(log.read().records) if e["name"] == "encode"]
    assert [e["args"] for e in slices] == [{"items": 1, "tokens": n} for n in (9, 4)]


def test_part_of_an_image() -> None:
    log = EventLog()
    engine = WordEngine(log)
    text = engine.item("image 640×480", 9)
    program = Program(engine)
    program.branch("0")
    program.add("0", f"Look {text} now")
    tokens = engine.encode(f"Look {text} now")
    engine.insert([*tokens[:6], *engine.encode(" other")])
    play(program.gen("0", "seen", " yes"))
    state = LogState(log.read().records)
    assert "[image 1: 640×480, 9 tokens, 4 found]" in plain_text([state.runs["r1"]])
    tree = plain_text([state.tree])
    assert "Look [tokens 0–3 of image 1] (6 tokens)" in tree
    assert "[tokens 4–8 of image 1] now yes (7 tokens)" in tree


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), max_size=5),
    st.lists(st.integers(0, 60), max_size=60),
)
def test_spans_are_those_of_a_search_token_by_token(
    items: list[tuple[int, int]], tokens: list[int]
) -> None:
    table, taken = MediaTable(), set[int]()
    kept = []
    for first, count in items:
        if not taken & set(range(first, first + count)):
            taken |= set(range(first, first + count))
            kept.append(named(first, count, number=first))
            table.learn(kept[-1])
    spans = list(table.spans(tokens))
    assert [s.begin for s in spans] == [0, *(s.end for s in spans)][: len(spans)]
    assert sum(s.end - s.begin for s in spans) == len(tokens)
    for span in spans:
        for i in range(span.begin, span.end):
            owner = next((k for k in kept if k.first_id <= tokens[i] < k.first_id + k.count), None)
            assert span.item == owner
            if owner is not None:
                assert tokens[i] == owner.first_id + span.offset + i - span.begin
    script = """
      const media = newMedia();
      for (const item of given.items) nameItem(media, item);
      return spansOf(media, given.tokens).map(({ begin, end, item, offset }) =>
        [begin, end, item ? item.first_id : null, offset]);"""
    if len(spans) > 2:
        given_items = [json.loads(encode(Record(1, 0.0, item))) for item in kept]
        found = node(script, ("dom", "media"), {"items": given_items, "tokens": tokens})
        assert found == [[s.begin, s.end, s.item and s.item.first_id, s.offset] for s in spans]


CAUSES = [
    ({"content": "b"}, "other pixels of the same size, 4×3"),
    ({"content": "b", "label": "image 9×9"}, "another size, 9×9 here and 4×3 there"),
    ({}, "the same content with other processor options"),
    ({"content": "b", "media": "audio", "label": "audio 2.0 s"}, "2.0 s here, image 4×3 there"),
]


@pytest.mark.parametrize(("change", "cause"), CAUSES)
def test_why_an_image_differs(change: dict[str, Any], cause: str) -> None:
    table = TokenTable()
    table.learn(events.TokensNamed((0, 1), ("see ", " now")))
    table.learn(named(100, 3))
    table.learn(named(103, 3, number=2, **change))
    found = difference((0, 103, 104, 105, 1), (0, 100, 101, 102, 1), table)
    assert (found.tokens, found.cause, found.more_text) == (1, cause, 0)
    assert f": {cause}, after 'see '" in found.line()
    script = """
      const state = newState();
      for (const item of given) nameItem(state.media, item);
      return differenceCause(itemAt(state.media, 104), itemAt(state.media, 101));"""
    items = [json.loads(encode(Record(1, 0.0, i))) for i in table.media.items]
    assert node(script, ("branch", "models", "reduce"), items) == cause


def test_why_no_hit_names_the_image() -> None:
    log = EventLog()
    engine = WordEngine(log)
    first, second = engine.item("image 4×3", 5, "a"), engine.item("image 4×4", 5, "b")
    for text in (first, second, first):
        play(engine.generate(f"see {text} now", " yes"))
    reasons = [[r.text for r in lookup.reasons] for lookup in lookups(log.read().records)]
    assert reasons[1][0] == (
        "image 2 instead of image 1 of the most similar prompt: "
        "another size, 4×4 here and 4×3 there; from token 2 on"
    )
    assert len(reasons[2]) == 1, "only the last token"
    for leaf in engine.leaves():
        engine.evict(leaf)
    play(engine.generate(f"see {second} now", " yes"))
    evicted = lookups(log.read().records)[-1].reasons[0]
    assert evicted.text == "was cached earlier and evicted: memory (image 2)"


def long_program(images: int) -> EventLog:
    """A program with this number of images of 576 tokens and pictures of the maximum size."""
    log = EventLog()
    engine = WordEngine(log)
    program = Program(engine, "r1", "many")
    program.branch("0")
    for i in range(images):
        data = f"{i:04}".ljust(MAX_CHARACTERS, "A")
        program.add("0", f"Page {i}: {engine.item(f'image {600 + i}×800', 576, '', data)}. ")
    play(program.gen("0", "answer", " done"))
    program.end("0")
    program.finish()
    return log


def saved(log: EventLog) -> int:
    """The size of a run in a notebook with widget state, in bytes."""
    feed = Feed(Trees(), 0.0)
    feed.push(log.read().records, 0)
    bundle = Recording(feed.lines, "r1")._repr_mimebundle_()
    assert "image/svg+xml" in bundle
    return size(bundle) + len(json.dumps("\n".join(feed.lines)))


def test_a_hundred_images_fit_into_a_saved_notebook() -> None:
    assert saved(long_program(100)) - saved(long_program(0)) <= 600_000


def test_pictures_beyond_the_limit_are_hatched() -> None:
    log = long_program(100)
    state = LogState(log.read().records)
    shown = [state.runs["r1"], state.tree]
    running, final = (static_bundle(shown, "u", limit) for limit in (RUNNING_LIMIT, FINAL_LIMIT))
    assert size(running) <= RUNNING_LIMIT and size(final) <= FINAL_LIMIT
    few, many = (bundle["image/svg+xml"].count("<image ") for bundle in (running, final))
    assert 5 < few < many == 22
    assert "and 78 more" in final["image/svg+xml"]


def test_labels_and_pictures_are_data() -> None:
    log = EventLog()
    engine = WordEngine(log)
    text = engine.item(f"image {HOSTILE}", 5, thumbnail="x' onload='window.__pwned=1")
    program = Program(engine)
    program.branch("0")
    program.add("0", f"See {text}")
    play(program.gen("0", "seen", " yes"))
    state = LogState(log.read().records)
    svg = static_bundle([state.runs["r1"], state.tree], "u")["image/svg+xml"]
    assert "onload" not in svg and "<image" not in svg and "<script" not in svg
    assert "&lt;img onerror" in svg and "\u202e" not in svg
    record = next(r for r in log.read().records if isinstance(r.event, MediaNamed))
    for bad in ({"thumbnail": "x' y"}, {"media": "svg"}, {"count": 0}, {"count": 1 << 30}):
        line = json.dumps(json.loads(encode(record)) | {"thumbnail": ""} | bad)
        with pytest.raises(RecordError):
            decode(line)


@pytest.mark.slow
def test_consecutive_ids_are_stored_as_pairs() -> None:
    rng = random.Random(0)
    for _ in range(300):
        ids: list[int] = []
        for _ in range(rng.randint(0, 6)):
            start = rng.randrange(1000)
            ids += range(start, start + rng.choice([1, 2, 7, 8, 15, 16, 17, 40]))
        event = events.RequestQueued(1, "r", "0", "a", "generate", tuple(ids))
        line = encode(Record(1, 0.0, event))
        assert decode(line).event == event
        script = "return parseLine(given).prompt;"
        if rng.random() < 0.05:
            assert node(script, ("branch", "models"), line) == ids
    line = encode(Record(1, 0.0, events.NodeAdded(1, 0, tuple(range(100, 676)))))
    assert '"tokens":[[100,576]]' in line
    for bad in ([[1, -5]], [[1]], [["a", 20]], [[0, 1 << 40]]):
        with pytest.raises(RecordError):
            decode(json.dumps(json.loads(line) | {"tokens": bad}))


def test_a_page_that_joins_late_knows_the_image() -> None:
    """The processor ran before: its time is not the run's."""
    log = compare_program()
    records = log.read().records
    start = next(i for i, r in enumerate(records) if getattr(r.event, "run", "") == "r2")
    trees = Trees()
    for record in records[:start]:
        trees.apply(record)
    feed = Feed(trees, 0.0)
    feed.push(records[start:], 0)
    names = [decode(line).event for line in feed.lines if '"MediaNamed"' in line]
    assert sorted(n.number for n in names) == [1, 2]
    assert not any(n.processor_seconds for n in names)
    script = """
      const store = newStore();
      store.add(parseLines(given.join("\\n")));
      return wordsOfItems(store.state.runs.get("r2"));"""
    words = "encoder skipped for 3 of 3 images (processor 3, prefill 3)"
    assert node(script, PAGE, feed.lines) == words


def test_details_of_an_image_on_the_page() -> None:
    lines = [encode(record) for record in compare_program().read().records]
    script = """
      const store = newStore();
      store.add(parseLines(given.join("\\n")));
      const of = (request, position) => describe(store.state, { request, position });
      return [of(1, 3), of(3, 3)].map(({ item, facts }) =>
        [item.number, Object.fromEntries(facts)]);
    """
    (first, cold), (second, warm) = node(script, PAGE, lines)
    assert first == second == 1 and cold["image 1"] == "640×480"
    assert (cold["prefill"], warm["prefill"]) == ("of all tokens", "skipped for 9 of 9 tokens")
    assert (cold["encoder"], warm["encoder"]) == ("2.0 ms", "skipped")
    assert (cold["processor"], warm["processor"]) == ("10 ms", "skipped")
    assert re.fullmatch("9, positions 3 to 12", cold["tokens"])
