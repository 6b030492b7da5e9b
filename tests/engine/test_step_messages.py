"""Messages with steps: a follower has the step of rank 0 after any history."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sgnb.engine.attention.cascade import find_cascade
from sgnb.engine.parallel import team
from sgnb.engine.parallel.ring import PLACES, RingReader, RingWriter
from sgnb.engine.parallel.step_messages import NO_LONGS, NUMBERS, StepReader, StepWriter
from sgnb.engine.step_input import UNCONSTRAINED, AttentionInput, SamplingInput, StepInput
from sgnb.errors import LostRankError


@dataclass(eq=False)
class Node:
    parent: Node | None
    end: int


@dataclass(eq=False)
class Sequence:
    id: int
    node: Node | None
    end: int = 0
    version: int = 0
    reads: bool = True
    slots: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))


def sampling(rows: int, plain: bool, constrained: bool) -> SamplingInput:
    return SamplingInput(
        temperatures=np.ones(rows, np.float32),
        draws=np.zeros(rows),
        grammar_states=np.full(rows, 5 if constrained else UNCONSTRAINED, np.int32),
        sample_rows=np.arange(rows, dtype=np.int32),
        filters={} if plain else {0: None},  # type: ignore[dict-item]
        adjustments={},
        masks={},
    )


def step_of(sequences: list[Sequence], lengths: list[int], draw: Any) -> StepInput:
    starts = np.array([s.end for s in sequences])
    new = []
    for sequence, length in zip(sequences, lengths, strict=True):
        sequence.end += length
        new.append(sequence.slots[sequence.end - length : sequence.end])
    rows = sum(lengths)
    plain, constrained = draw(st.booleans()), draw(st.booleans())
    return StepInput(
        tokens=np.arange(-3, rows - 3, dtype=np.int32),
        positions=NO_LONGS,
        attention=AttentionInput(
            starts=starts,
            lengths=np.array(lengths),
            new_slots=np.concatenate(new),
            kv_slots=[s.slots for s in sequences],
            keys=[(s.id, s.version, s.node, s.reads) for s in sequences],
        ),
        states=(),
        embeddings=(),
        logit_rows=np.arange(len(sequences)),
        sampled=np.arange(len(sequences)),
        sampling=sampling(len(sequences), plain, constrained),
        drafts=sampling(0, True, False),
        uses=(),
    )


@given(st.data())
def test_any_history(data: st.DataObject) -> None:
    """Sequences join, leave, pause, are rewritten and move to other nodes."""
    draw, ids = data.draw, iter(range(1, 1000))
    root = Node(None, 0)
    trunk = Node(root, 4)
    nodes = [None, root, trunk, Node(trunk, 6), Node(trunk, 8), Node(root, 5)]
    writer, reader, live = StepWriter(), StepReader(), list[Sequence]()
    random = np.random.default_rng(0)
    for _ in range(draw(st.integers(1, 8))):
        if not live or draw(st.booleans()):
            node = draw(st.sampled_from(nodes))
            end = 0 if node is None else node.end
            slots = random.integers(0, 1 << 30, 200).astype(np.int32)
            live.append(Sequence(next(ids), node, end, 0, draw(st.booleans()), slots))
        changed = draw(st.sampled_from(live))
        match draw(st.integers(0, 5)):
            case 0:
                changed.version += 1
                changed.slots = random.integers(0, 1 << 30, 200).astype(np.int32)
            case 1:
                changed.node = root
            case 2 if len(live) > 1:
                live.remove(changed)
        present = [s for s in live if draw(st.integers(0, 4))] or live
        lengths = [draw(st.sampled_from([1, 1, 1, 5])) for _ in present]
        step = step_of(present, lengths, draw)
        given_keys, cascade = step.attention.keys, find_cascade(step.attention, lengths, yes)
        parts = writer.encode(step)
        found = reader.decode(np.concatenate([part.astype(np.int32) for part in parts]))

        mine, its = found.attention, step.attention
        assert (found.tokens == step.tokens).all() and (found.positions == its.kv_positions).all()
        assert (mine.starts == its.starts).all() and (mine.lengths == its.lengths).all()
        assert (mine.new_slots == its.new_slots).all()
        pairs = zip(mine.kv_indices, its.kv_indices, strict=True)
        assert all((a == b).all() for a, b in pairs)
        assert [(k[0], k[1], k[3]) for k in mine.keys] == [(k[0], k[1], k[3]) for k in given_keys]
        for attention in (mine, its):
            plans = zip(find_cascade(attention, lengths, yes), cascade, strict=True)
            assert all((a == b).all() for a, b in plans)
        assert found.sampling.num_rows == step.sampling.num_rows
        assert found.sampling.is_plain == step.sampling.is_plain
        assert found.sampling.is_constrained == step.sampling.is_constrained


def yes(rows: int, tokens: int) -> bool:
    return True


def test_a_decode_step_of_known_sequences_is_small() -> None:
    writer = StepWriter()
    sequences = [Sequence(i, None, 0, slots=np.arange(5000, dtype=np.int32)) for i in range(64)]
    draw = lambda strategy: False  # noqa: E731
    first = writer.encode(step_of(sequences, [4000] * 64, draw))
    later = writer.encode(step_of(sequences, [1] * 64, draw))
    assert sum(map(len, first)) > 64 * 4000
    assert sum(map(len, later)) == NUMBERS + 2 * 64


@pytest.fixture
def pipes() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for end in (reading, writing):
        os.close(end)


@given(sizes=st.lists(st.integers(1, 300), min_size=1, max_size=60), behind=st.integers(0, 50))
@example(sizes=[3] * 60, behind=PLACES - 1)
@example(sizes=[3] * 60, behind=PLACES)
def test_messages_arrive_unchanged(sizes: list[int], behind: int) -> None:
    """The reader may be any number of messages behind."""
    reading, writing = os.pipe()
    writer = RingWriter(1, 16)
    reader = RingReader(os.dup(writer.memory), reading, 1)
    try:
        for i, size in enumerate(sizes):
            writer.write([np.full(size, i), np.array([size], np.int32)], [writing])
            if i >= behind:
                check(reader, i - behind, sizes)
        for i in range(max(0, len(sizes) - behind), len(sizes)):
            check(reader, i, sizes)
    finally:
        os.close(writing)
    assert reader.read() is None
    os.close(reading)
    os.close(reader._memory)
    writer.close()


@pytest.mark.parametrize("size, messages", [(17, 0), (16, PLACES)])
def test_messages_without_memory_change_nothing(
    monkeypatch: pytest.MonkeyPatch, pipes: tuple[int, int], size: int, messages: int
) -> None:
    """A longer message, or one more unread message, needs memory."""
    writer = RingWriter(1, 16)
    reader = RingReader(writer.memory, pipes[0], 1)
    for number in range(messages):
        writer.write([np.full(3, number)], pipes[1:])

    def fail(file: int, begin: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", fail)
        with pytest.raises(MemoryError, match=r"bytes of shared memory for steps.*No space"):
            writer.write([np.arange(size)], pipes[1:])
    assert (writer._num_places, writer._place_size) == (PLACES, 16)
    writer.write([np.arange(size)], pipes[1:])
    for number in range(messages):
        message = reader.read()
        assert message is not None and message[:3].tolist() == [number] * 3
    message = reader.read()
    assert message is not None and message[:size].tolist() == list(range(size))
    writer.close()


def test_messages_without_memory_are_no_lost_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    class FullRing(RingWriter):
        def write(self, parts: Any, pipes: Any) -> None:
            raise MemoryError("65,536 bytes of shared memory for steps: No space left on device")

    class Command:
        def encode(self, number: int) -> list[NDArray[np.int32]]:
            return [np.full(1, -1, np.int32)]

    monkeypatch.setattr(team, "RingWriter", FullRing)
    monkeypatch.setattr(team.Team, "_start", lambda *args: None)
    monkeypatch.setattr(team, "RankGroup", lambda *args: SimpleNamespace(abort=int, close=int))
    ranks = team.Team(2, torch.device("cpu"), {})
    try:
        with pytest.raises(LostRankError, match="rank 0 of 2 failed: MemoryError: 65,536 bytes"):
            ranks.ask(Command())
    finally:
        ranks.close()


def check(reader: RingReader, i: int, sizes: list[int]) -> None:
    message = reader.read()
    assert message is not None
    assert message[: sizes[i] + 1].tolist() == [i] * sizes[i] + [sizes[i]]


def test_a_team_that_does_not_start_leaves_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rings: list[RingWriter] = []

    def make_ring(readers: int) -> RingWriter:
        rings.append(RingWriter(readers, 4096))
        return rings[-1]

    def fail(self: team.Team, rank: int, start: dict[str, Any]) -> None:
        raise OSError("no process can be started")

    monkeypatch.setattr(team, "RingWriter", make_ring)
    monkeypatch.setattr(team.Team, "_start", fail)
    with pytest.raises(OSError, match="no process"):
        team.Team(2, torch.device("cpu"), {})
    assert [ring.memory for ring in rings] == [-1]


@pytest.mark.parametrize("function", ["posix_fallocate", "memfd_create"])
def test_a_team_without_memory_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """The first reservation of shared memory, or the second file, fails."""
    original: Any = getattr(os, function)
    folders: list[str] = []

    def fail(*args: Any) -> Any:
        if args == ("sgnb-blocks",):
            return original(*args)
        raise OSError(errno.ENOSPC, "No space left on device")

    def make_folder(prefix: str) -> str:
        folders.append(prefix)
        return prefix

    monkeypatch.setattr(os, function, fail)
    monkeypatch.setattr(team.tempfile, "mkdtemp", make_folder)
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(LostRankError, match=r"rank 0 of 2 failed: .*No space left on device"):
        team.Team(2, torch.device("cpu"), {})
    assert set(os.listdir("/proc/self/fd")) <= before
    assert not folders
