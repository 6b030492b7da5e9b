"""Copies in host memory and on disk: the reducers of Python and of the page, compared with a search
over all prefixes, and the words of the tree."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb import events
from sgnb.events import EventLog, Record, encode, replay
from sgnb.viz import TreeState
from sgnb.viz.live import sent_copies
from sgnb.viz.live.feed import Feed
from sgnb.viz.state import copied_blocks
from sgnb.viz.state.copied_blocks import CopiedBlocks
from sgnb.viz.state.residency import with_copies, words_of_copies
from sgnb.viz.state.tree import Trees
from sgnb.viz.static.bundle import static_bundle
from sgnb.viz.static.plain_text import tree_text

from .make_log import WordEngine
from .page import node
from .test_page import REDUCERS
from .test_tree import replayed

BLOCK = 2
WORDS = "abc"
REASONS = ("room", "damaged", "gone", "flush", "full", "bound")


class Copies:
    """Random copies of blocks of two tokens, with the true state of each store."""

    def __init__(self, engine: WordEngine) -> None:
        self.log, self.engine = engine.log, engine
        self.numbers: dict[tuple[int, ...], int] = {}  # by path
        self.stored: dict[str, set[tuple[int, ...]]] = {"host": set(), "disk": set()}

    def name(self, tokens: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Name the blocks of a prompt. Returns the paths to their ends."""
        paths = [tokens[:end] for end in range(BLOCK, len(tokens) + 1, BLOCK)]
        new = [path for path in paths if path not in self.numbers]
        if new:
            first, before = len(self.numbers) + 1, new[0][:-BLOCK]
            self.numbers |= {path: first + i for i, path in enumerate(new)}
            parent = self.numbers.get(before, 0)
            self.log.emit(
                events.BlocksNamed(
                    first, len(new), parent, tokens[len(before) :][: BLOCK * len(new)]
                )
            )
        return paths

    def change(self, store: str, state: str, paths: list[tuple[int, ...]]) -> None:
        self.log.emit(
            events.CopiesChanged(store, state, tuple(self.numbers[path] for path in paths))
        )
        if state == "stored":
            self.stored[store].update(paths)
        else:
            self.stored[store].difference_update(paths)


def work(seed: int, steps: int = 60) -> Copies:
    """Random work on a tree and on the copies."""
    chance, engine = random.Random(seed), WordEngine(EventLog())
    copies = Copies(engine)
    for _ in range(steps):
        text = " ".join(chance.choices(WORDS, k=chance.randrange(1, 9)))
        tokens, action = engine.encode(text), chance.random()
        if action < 0.4:
            engine.insert(tokens)
        elif action < 0.55 and engine.leaves():
            engine.evict(chance.choice(engine.leaves()))
        elif paths := copies.name(tokens):
            begin = chance.randrange(len(paths))
            state = "stored" if chance.random() < 0.7 else chance.choice(REASONS)
            copies.change(chance.choice(("host", "disk")), state, paths[begin:])
    return copies


def path_of(tree: TreeState, id: int) -> tuple[int, ...]:
    tokens: tuple[int, ...] = ()
    while id:
        tokens = (*tree.nodes[id].tokens, *tokens)
        id = tree.nodes[id].parent
    return tokens


@given(st.integers(0, 10_000))
@settings(max_examples=150, deadline=None)
def test_nodes_and_outlines_have_the_copies_of_the_stores(seed: int) -> None:
    copies = work(seed)
    tree = replayed(copies.engine)
    shown = with_copies(tree)
    ends = {id: path_of(shown, id) for id in shown.nodes}
    cached = {path[:end] for id, path in ends.items() if id >= 0 for end in range(len(path) + 1)}
    for id, path in ends.items():
        one = shown.nodes[id]
        if id <= 0:
            continue
        begin = len(path) - len(one.tokens)
        for store, stored in copies.stored.items():
            expected = sum(
                min(BLOCK, end - begin)
                for end in range(BLOCK, len(path) + 1, BLOCK)
                if end > begin and path[:end] in stored
            )
            assert one.copied.get(store, 0) == expected, (path, store)

    everywhere = {path[:end] for path in ends.values() for end in range(len(path) + 1)}
    for store, stored in copies.stored.items():
        assert stored <= everywhere, "each copy is in a node or an outline"
        assert shown.copies.counts().get(store, 0) == BLOCK * len(stored)
    for id, path in ends.items():
        if id < 0:
            below = {
                p for stored in copies.stored.values() for p in stored if p[: len(path)] == path
            }
            assert below and path not in cached and shown.nodes[id].is_outline
            stores = {name for name, stored in copies.stored.items() if path in stored}
            assert set(shown.nodes[id].copied) == stores
    assert tree.nodes.keys() == {id for id in shown.nodes if id >= 0}, "the tree is unchanged"
    assert not any(one.copied for one in tree.nodes.values())


NODES = """
  const nodesOf = (state) => {
    const shown = withCopies(state);
    return [...shown.nodes.values()]
      .sort((a, b) => a.id - b.id)
      .map((n) => [n.id, n.parent, n.tokens, copiedOf(shown, n), Boolean(n.outline),
        n.id ? wordsOfCopies(shown, n) : "",
        [...n.children.values(), ...(shown.outlines?.get(n.id) ?? []).map(({ id }) => id)]]);
  };
"""
SCRIPT = f"""{NODES}
  const store = newStore();
  store.add(given.lines.map(parseLine));
  const results = given.at.map((position) => nodesOf(store.at(position)));
  return [results, wordsOfTotals(store.state, "|"), store.state.copies.blocks.size];
"""


def python_nodes(tree: TreeState) -> list[Any]:
    return [
        [
            *(n.id, n.parent, list(n.tokens), n.copied, n.is_outline),
            words_of_copies(n) if n.id else "",
            list(n.children.values()),
        ]
        for n in sorted(with_copies(tree).nodes.values(), key=lambda n: n.id)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_the_page_has_the_same_copies_at_any_moment(seed: int) -> None:
    records = work(seed, 120).log.read().records
    places = [len(records), len(records) // 2, len(records) // 3]
    trees = []
    for place in places:
        trees.append(TreeState())
        for record in records[:place]:
            trees[-1].apply(record)

    given = {"lines": [encode(record) for record in records], "at": places}
    results, totals, blocks = node(SCRIPT, ("dom", *REDUCERS), given)
    assert results == [python_nodes(tree) for tree in trees]
    assert blocks == len(trees[0].copies.blocks)
    counts = trees[0].copies.counts()
    where = {"host": "in host memory", "disk": "on disk"}
    assert totals == "".join(f"|{count} tokens {where[name]}" for name, count in counts.items())
    assert any(node.is_outline for node in with_copies(trees[0]).nodes.values())


def test_a_live_page_follows_each_record() -> None:
    records = work(4, 40).log.read().records
    script = f"""{NODES}
      const state = newState();
      return given.map((line) => {{ apply(state, parseLine(line)); return nodesOf(state); }});
    """
    live = node(script, ("dom", *REDUCERS), [encode(record) for record in records])
    tree = TreeState()
    for record, nodes in zip(records, live, strict=True):
        tree.apply(record)
        assert nodes == python_nodes(tree), record


def chain(count: int, first: int = 1, parent: int = 0) -> events.BlocksNamed:
    return events.BlocksNamed(first, count, parent, tuple(range(first, first + count)))


def test_absent_blocks_are_forgotten_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied_blocks, "KEPT_ABSENT", 3)
    copies = CopiedBlocks()
    copies.named(chain(3))
    copies.changed(events.CopiesChanged("disk", "stored", (3,)))
    assert len(copies.blocks) == 3
    copies.named(chain(4, first=4))
    copies.changed(events.CopiesChanged("host", "room", (4, 5, 6, 7)))
    assert set(copies.blocks) == {1, 2, 3, 4, 5, 6, 7}, "blocks below need these"
    copies.changed(events.CopiesChanged("disk", "flush", (3,)))
    copies.named(chain(3, first=8, parent=99))
    assert 8 not in copies.blocks, "a page without the start of the chain"
    copies.named(chain(6, first=11))
    copies.changed(events.CopiesChanged("disk", "stored", (16,)))
    assert len(copies._absent) <= 3 and 16 in copies.blocks and 11 in copies.blocks


def texts() -> Iterator[Record]:
    """A prefix of six tokens: four in both stores; an evicted continuation, and a short one."""
    engine = WordEngine(EventLog())
    copies = Copies(engine)
    paths = copies.name(engine.encode("a b a b a c c c c c"))
    engine.insert(engine.encode("a b a b a c"))
    engine.insert(engine.encode("c"))
    copies.change("host", "stored", paths[:2])
    copies.change("disk", "stored", paths)
    yield from engine.log.read().records


def test_the_tree_says_where_the_copies_are() -> None:
    tree = TreeState()
    for record in texts():
        tree.apply(record)
    lines = tree_text(tree).splitlines()
    assert lines.pop(1) == "copies: 4 tokens in host memory, 10 tokens on disk"
    assert lines[1].endswith("(6 tokens, also on disk and 4 in host memory)")
    assert lines[2].endswith("(4 tokens, evicted, on disk)") and lines[2].startswith("│  └─ ")
    assert lines[3].endswith("(1 token)")
    assert "radix tree: 2 nodes" in lines[0], "outlines are not cached"
    text = static_bundle([tree], "u")
    assert lines[1] in text["text/plain"]
    assert "class='disk'" in text["image/svg+xml"] and "class='host'" in text["image/svg+xml"]
    assert "evicted, with a copy" in text["image/svg+xml"]


def test_a_tree_without_copies_has_no_marks() -> None:
    engine = WordEngine(EventLog())
    engine.insert(engine.encode("a b"))
    tree = replayed(engine)
    assert with_copies(tree) is tree
    assert "class='disk'" not in static_bundle([tree], "u")["image/svg+xml"]
    assert "memory" not in tree_text(tree)


def stored_paths(copies: CopiedBlocks) -> dict[str, set[tuple[int, ...]]]:
    found: dict[str, set[tuple[int, ...]]] = {"host": set(), "disk": set()}
    for number, block in copies.blocks.items():
        for store in block.stores:
            found[store].add(tuple(copies.path(number)))
    return found


def fed(feed: Feed) -> TreeState:
    tree = TreeState()
    for record in replay(feed.lines):
        tree.apply(record)
    return tree


@given(st.integers(0, 10_000), st.integers(0, 120), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_a_late_page_receives_the_copies(seed: int, begin: int, sent: int) -> None:
    copies = work(seed, 60)
    records, trees = copies.log.read().records, Trees()
    begin = min(begin, len(records))
    for record in records[:begin]:
        trees.apply(record)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sent_copies, "SENT_BLOCKS", sent)
        feed = Feed(trees, 0.0)
        for record in records[begin:]:
            feed.push([record], 0)
            trees.apply(record)

    page, whole = stored_paths(fed(feed).copies), copies.stored
    assert all(page[store] <= whole[store] for store in whole)
    changed = {
        number
        for record in records[begin:]
        if isinstance(record.event, events.CopiesChanged)
        for number in record.event.blocks
    }
    for store, paths in whole.items():
        assert {path for path in paths if copies.numbers[path] in changed} <= page[store]

    feed = Feed(trees, 0.0)
    assert stored_paths(fed(feed).copies) == whole, "a page of a small cache has each copy"


@given(st.integers(0, 10_000), st.integers(0, 120))
@settings(max_examples=40, deadline=None)
def test_a_page_that_missed_records_has_the_present_copies(seed: int, end: int) -> None:
    copies = work(seed, 60)
    records, trees = copies.log.read().records, Trees()
    end = min(end, len(records))
    for record in records[:end]:
        trees.apply(record)
    feed = Feed(trees, 0.0)
    feed.suspend()
    for record in records[end:]:
        trees.apply(record)
    feed.resume(1.0)
    assert stored_paths(fed(feed).copies) == copies.stored
