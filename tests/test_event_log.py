"""The log itself: bounded in records and in tokens, and honest about what a slow reader lost."""

from __future__ import annotations

import copy
import pickle
from array import array

from sgnb.events import EventLog, NodeAdded, NodeTouched, Record, Tokens, decode, encode


def test_oldest_records_go_first() -> None:
    log = EventLog(capacity=3)
    for tick in range(5):
        log.emit(NodeTouched(1, tick))
    records, lost = log.read()
    assert [r.event.tick for r in records] == [2, 3, 4]
    assert [r.seq for r in records] == [3, 4, 5]
    assert lost == 2
    assert log.read(after=4) == ([records[-1]], 0)


def test_long_prompts_take_more_room() -> None:
    log = EventLog(tokens=10)
    for node in range(5):
        log.emit(NodeAdded(node, 0, (1, 2, 3, 4)))
        log.emit(NodeTouched(node, node))
    records, lost = log.read()
    assert sum(len(r.event.tokens) for r in records if isinstance(r.event, NodeAdded)) == 8
    assert lost == 10 - len(records)
    log.emit(NodeAdded(9, 0, tuple(range(11))))
    assert log.read().records == []
    log.emit(NodeTouched(9, 9))
    assert len(log.read().records) == 1


def test_tokens_are_a_tuple_to_whoever_reads_them() -> None:
    ids = (3, 0, 131_071, -1)
    tokens = Tokens(array("i", ids).tobytes())
    assert tokens == ids and ids == tokens and tokens == Tokens(array("i", ids).tobytes())
    assert tokens != ids[:3] and tokens != [*ids] and hash(tokens) == hash(ids)
    assert (len(tokens), tokens[2], tokens[1:3], tokens[-1:], list(tokens)) == (4, 131_071, ids[1:3], ids[-1:], [*ids])
    assert repr(NodeAdded(1, 0, tokens)) == repr(NodeAdded(1, 0, ids))
    event = NodeAdded(1, 0, tokens)
    assert pickle.loads(pickle.dumps(event)) == copy.deepcopy(event) == event
    assert decode(encode(Record(1, 0.5, event))) == Record(1, 0.5, event)
