"""The tree that a log replays to is the tree of the engine that wrote it, and pages follow it
exactly."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb import events
from sgnb.events import EventLog, Record
from sgnb.viz import LogState, TreeState
from sgnb.viz.static.bundle import static_bundle
from sgnb.viz.static.joined_tree import joined_tree
from sgnb.viz.static.plain_text import plain_text, tree_text
from sgnb.viz.static.tree_rows import shown, walk
from tests.counting import calls
from tests.viz.make_log import WordEngine

WORDS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=6)
KINDS = st.sampled_from(["insert", "insert", "match", "lock", "unlock", "evict"])
ACTIONS = st.lists(st.tuples(KINDS, WORDS), max_size=40)
Actions = list[tuple[str, list[str]]]


def play(actions: Actions) -> WordEngine:
    """Random work on a tree; each action adds its events to the engine's log."""
    engine, locked = WordEngine(EventLog()), []
    for i, (action, words) in enumerate(actions):
        tokens = engine.encode(" ".join(words))
        if action == "insert":
            engine.insert(tokens)
        elif action == "match":
            engine.touch(engine.match(tokens)[0])
        elif action == "lock":
            locked.append(engine.match(tokens)[0])
            engine.lock(locked[-1], 1)
        elif action == "unlock" and locked:
            engine.lock(locked.pop(), -1)
        elif leaves := engine.leaves():
            engine.evict(leaves[i % len(leaves)])
    return engine


def replayed(engine: WordEngine) -> TreeState:
    tree = TreeState()
    for record in engine.log.read().records:
        tree.apply(record)
    return tree


@given(ACTIONS)
@settings(max_examples=150, deadline=None)
def test_replays_to_the_engines_tree(actions: Actions) -> None:
    engine = play(actions)
    tree = replayed(engine)
    assert {node.id: node.tokens for node in tree.nodes.values()} == engine.tokens
    assert {
        node.id: list(node.children.values()) for node in tree.nodes.values()
    } == engine.children
    assert {node.id: node.locks for node in tree.nodes.values()} == engine.locks
    assert all(tree.nodes[node].tick == tick for node, tick in engine.ticks.items() if node)
    assert tree.tokens == sum(map(len, engine.tokens.values()))
    assert tree.missing == 0


@given(ACTIONS, st.integers(1, 8))
@settings(max_examples=80, deadline=None)
def test_shown_nodes_are_a_tree_and_the_rest_is_counted(actions: Actions, budget: int) -> None:
    tree = replayed(play(actions))
    kept, hidden = shown(tree, budget)
    assert all(tree.nodes[node].parent in kept for node in kept if node)
    assert len(kept) - 1 + sum(hidden.values()) == len(tree.nodes) - 1
    assert len(tree_text(tree, budget).splitlines()) <= 2 * budget + 2


def paths(tree: TreeState) -> dict[tuple[int, ...], int]:
    """Tokens from the root to each leaf, with the locks of the leaf."""
    found, stack = {}, [(tree.root, ())]
    while stack:
        node, above = stack.pop()
        tokens = (*above, *node.tokens)
        if node.children:
            stack += [(child, tokens) for child in tree.children(node)]
        else:
            found[tokens] = node.locks
    return found


@given(ACTIONS, WORDS)
@settings(max_examples=100, deadline=None)
def test_the_text_of_a_tree_stays_equal_when_nodes_split(
    actions: Actions, words: list[str]
) -> None:
    engine = play(actions)
    tree = replayed(engine)
    joined = joined_tree(tree)
    assert paths(joined) == paths(tree)
    before = tree_text(tree, 1000).splitlines()[1:]
    engine.match(engine.encode(" ".join(words)))  # splits nodes, adds and removes no token
    assert tree_text(replayed(engine), 1000).splitlines()[1:] == before


IDS = st.integers(0, 6)
CONTRADICTING = st.lists(
    st.one_of(
        st.builds(events.NodeAdded, IDS, IDS, st.sampled_from([(1,), (1, 2), (2, 3, 4), (3,)])),
        st.builds(events.NodeSplit, IDS, IDS, st.integers(0, 3)),
        st.builds(events.NodeEvicted, IDS, st.just("memory")),
        st.builds(events.NodeLocked, IDS, st.sampled_from([1, -1])),
        st.builds(events.NodePinned, IDS, st.sampled_from("ab"), st.sampled_from([1, -1])),
        st.builds(events.NodeTouched, IDS, st.integers(0, 9)),
        st.builds(events.CheckpointKept, IDS),
        st.builds(events.CheckpointDropped, IDS),
        st.builds(events.RequestQueued, IDS, st.just("r"), st.just("0"), st.just("x"),
                  st.just("generate"), st.sampled_from([(), (1,), (1, 2, 3)])),
        st.builds(events.RequestAdmitted, IDS, st.integers(0, 9)),
    ),
    max_size=40,
)  # fmt: skip


@given(CONTRADICTING)
@settings(max_examples=200, deadline=None)
def test_contradicting_events_leave_a_tree_that_is_drawn(told: list[events.NodeAdded]) -> None:
    tree = TreeState()
    for seq, event in enumerate(told):
        tree.apply(Record(seq, 0.0, event))
    reached = {node.id for node in walk(tree)}
    assert reached == tree.nodes.keys() - {0} and tree.pins.keys() <= tree.nodes.keys()
    assert tree.tokens == sum(len(node.tokens) for node in tree.nodes.values())
    assert tree.checkpoints == sum(node.checkpoint for node in tree.nodes.values())
    assert static_bundle([tree], "x")["text/plain"] == tree_text(tree)


def test_namespaces_keep_children_of_the_root_apart() -> None:
    tree = TreeState()
    for i, event in enumerate(
        [
            events.NodeAdded(1, 0, (5, 6), "adapter"),
            events.NodeAdded(2, 0, (5, 7)),
            events.NodeSplit(1, 3, 1),
        ]
    ):
        tree.apply(Record(i + 1, 0.0, event))
    assert [(node.id, node.namespace) for node in tree.children(tree.root)] == [
        (3, "adapter"),
        (2, ""),
    ]
    assert tree.nodes[1].namespace == "" and tree.nodes[1].parent == 3


def test_lost_records_are_counted_not_fatal() -> None:
    tree = TreeState()
    for event in (
        events.NodeAdded(9, 8, (1,)),
        events.NodeSplit(7, 6, 1),
        events.NodeEvicted(7, "memory"),
        events.NodeLocked(7, 1),
        events.NodePinned(7, "user", 1),
    ):
        tree.apply(Record(1, 0.0, event))
    assert tree.missing == 5 and len(tree.nodes) == 1 and not tree.pins


def test_pins_are_seen_in_text_and_picture() -> None:
    log = EventLog()
    engine = WordEngine(log)
    engine.insert(engine.encode("one two three"))
    node = engine.insert(engine.encode("one two four"))
    engine.pin(node, "user", 1)
    engine.pin(node, "run1", 1)
    tree = LogState(log.read().records).tree
    assert tree.pins == {node: ["user", "run1"]}
    assert tree.pinned() == {node: 2, tree.nodes[node].parent: 2}
    assert "four (1 token, 2 locks, pinned by user, run1)" in plain_text([tree])
    picture = static_bundle([tree], "id")["image/svg+xml"]
    assert picture.count("class='n h'") == 3 and ">pinned</text>" in picture, "two and the legend"
    engine.pin(node, "user", -1)
    engine.pin(node, "run1", -1)
    tree = LogState(log.read().records).tree
    assert not tree.pins and not tree.pinned() and "pinned" not in plain_text([tree])


def test_events_cost_no_more_in_a_large_tree() -> None:
    tree, records = TreeState(), []
    for i in range(1, 10_001):
        path = i // 8
        records += [
            events.NodeAdded(i, path, (i, i + 1)),
            events.NodeTouched(i, i),
            events.NodeLocked(i, 1),
            events.StepRan(i, 0.001, (), ((1, 2, -0.1),) * 16, 0, 1, 1, 1, 1),
        ]
    records = [Record(i, 0.0, event) for i, event in enumerate(records)]
    parts = [records[:2_000], records[2_000:-2_000], records[-2_000:]]
    first, _, last = (
        calls(lambda part=part: [tree.apply(record) for record in part]) for part in parts
    )
    assert len(tree.nodes) == 10_001
    assert 2_000 < last < 1.2 * first
