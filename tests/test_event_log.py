"""The log itself: bounded in records and in tokens, and honest about what a slow reader lost."""

from __future__ import annotations

import copy
import gc
import pickle
import tracemalloc
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sgnb.events import (
    BranchFinished,
    Columns,
    EngineStopped,
    EventLog,
    Extended,
    GrammarReady,
    Jumped,
    NodeAdded,
    NodeSplit,
    NodeTouched,
    Record,
    RequestAdmitted,
    RequestFinished,
    RequestQueued,
    Sampled,
    StepRan,
    TextAppended,
    TokenIds,
    TokensNamed,
    decode,
    encode,
)
from sgnb.events.event_log import RECORD_BYTES

from .counting import calls


def test_oldest_records_go_first() -> None:
    log = EventLog(memory=3 * RECORD_BYTES)
    for tick in range(5):
        log.emit(NodeTouched(1, tick))
    records, lost = log.read()
    assert [r.event.tick for r in records] == [2, 3, 4]
    assert [r.seq for r in records] == [3, 4, 5]
    assert lost == 2
    assert log.read(after=4) == ([records[-1]], 0)


def test_events_come_out_as_they_went_in() -> None:
    """Whether they are kept as values or whole."""
    events = [
        RequestAdmitted(3, 7),
        RequestFinished(3, "length", 7, 2, 5),
        EngineStopped("closed"),
        GrammarReady(3, "regex", 5, 0.5, True),
        Jumped(3, "forced", 0, (1, 2), "ab", 0, 1, ("a",)),
        NodeSplit(4, 5, 6),
        NodeAdded(9, 0, TokenIds(array("i", (1, 2)).tobytes()), "a"),
        StepRan(1, 0.5, (Extended(3, 0, 7),), (), 0, 1, 2, 3, 4),
        BranchFinished("run", "0", ""),
    ]
    log = EventLog()
    for event in events:
        log.emit(event)
    records = log.read().records
    assert [r.event for r in records] == events
    assert [type(r.event) for r in records] == [type(event) for event in events]
    written = [decode(encode(r)) for r in records]
    assert [r.event for r in written] == events and [r.seq for r in written] == list(range(1, 10))
    assert [r.t for r in records] == sorted(r.t for r in records)
    assert log.read(after=6).records == records[6:]


def test_numbers_are_no_work_for_the_garbage_collector() -> None:
    log = EventLog()
    for tick in range(10):
        log.emit(NodeTouched(1, tick))
    gc.collect()
    assert not any(gc.is_tracked(kept) for kept in log._records)


def test_long_prompts_take_more_room() -> None:
    log = EventLog(memory=7 * RECORD_BYTES)
    prompt = TokenIds(bytes(RECORD_BYTES))
    for node in range(5):
        log.emit(NodeAdded(node, 0, prompt))
        log.emit(NodeTouched(node, node))
    records, lost = log.read()
    assert [type(r.event) for r in records] == [NodeAdded, NodeTouched] * 2
    assert lost == 10 - len(records)
    log.emit(NodeAdded(9, 0, TokenIds(bytes(7 * RECORD_BYTES))))
    assert log.read().records == []
    log.emit(NodeTouched(9, 9))
    assert len(log.read().records) == 1


def step(number: int, rows: int) -> StepRan:
    """As the engine makes it."""
    ids, column = [*range(10**6, 10**6 + rows)], np.arange(rows) + 10**6
    return StepRan(
        number,
        0.1 + number,
        Columns(Extended, ids, column + number, column + number),
        Columns(Sampled, ids, column + number, column / 3 + number),
        0, rows, 10**6 + number, 10**6 + number, 10**6 + number,
    )  # fmt: skip


MANY: dict[str, Callable[[int], Any]] = {
    "steps of one row": lambda i: step(i, 1),
    "steps of many rows": lambda i: step(i, 300),
    "prompts": lambda i: RequestQueued(i, "", "", "", "generate", TokenIds(bytes(5000 + i))),
    "texts": lambda i: TextAppended("r1", "0", str(i) * 1000),
    "names": lambda i: TokensNamed((*range(i, i + 99),), (*map(str, range(i, i + 99)),)),
    "nodes": lambda i: NodeTouched(10**6 + i, 10**6 + i),
}


@pytest.mark.parametrize("kind", MANY)
def test_the_bound_is_one_of_memory(kind: str) -> None:
    bound, make = 1 << 20, MANY[kind]
    tracemalloc.start()
    try:
        log = EventLog(memory=bound)
        while log.last == len(log._records):
            log.emit(make(log.last))
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.3 * bound < taken < 1.2 * bound


def test_a_step_is_weighed_with_few_calls() -> None:
    """It happens in each, on the engine's thread."""
    log, event = EventLog(), step(1, 300)
    assert calls(lambda: log.emit(event)) < 20


def test_tokens_are_a_tuple_to_whoever_reads_them() -> None:
    ids = (3, 0, 131_071, -1)
    tokens = TokenIds(array("i", ids).tobytes())
    assert tokens == ids and ids == tokens and tokens == TokenIds(array("i", ids).tobytes())
    assert tokens != ids[:3] and tokens != [*ids] and hash(tokens) == hash(ids)
    assert (len(tokens), tokens[2], tokens[1:3], tokens[-1:], list(tokens)) == (
        4,
        131_071,
        ids[1:3],
        ids[-1:],
        [*ids],
    )
    assert repr(NodeAdded(1, 0, tokens)) == repr(NodeAdded(1, 0, ids))
    event = NodeAdded(1, 0, tokens)
    assert pickle.loads(pickle.dumps(event)) == copy.deepcopy(event) == event
    natural = Record(1, 0.5, NodeAdded(1, 0, TokenIds(array("i", ids[:3]).tobytes())))
    assert decode(encode(natural)) == natural
