"""Everything that happens, as small frozen values: how anyone learns what the engine does.

The engine and the language emit; views, recorders and tests read. Emitting does no I/O and never waits for a
reader: the log is bounded, and a reader that falls behind is told how many records it lost. One log belongs to
one engine. Imports nothing of ours.

Tokens are ids everywhere; `TokensNamed` gives each id's bytes once, before its first use, so that a recorded log
can be shown without the tokenizer. A branch is one stream of a program: "0", and for what it forks "0.0", "0.1";
the programs of a batch are the branches "0", "1", ... of one run.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class EngineStarted:
    model: str
    device: str
    dtype: str
    attention: str
    pool_tokens: int
    context_length: int


@dataclass(frozen=True, slots=True)
class EngineStopped:
    reason: str


@dataclass(frozen=True, slots=True)
class TokensNamed:
    """`pieces[i]` holds the bytes of token `ids[i]`, each byte as the character of the same number (latin-1)."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RequestQueued:
    """`purpose` is "generate", or "score" for a choice that is only scored. `run` is "" outside programs."""

    request: int
    run: str
    branch: str
    name: str
    purpose: str
    prompt: Sequence[int]


@dataclass(frozen=True, slots=True)
class RequestAdmitted:
    """The request holds `cached` tokens of the tree; the rest of its tokens will be computed."""

    request: int
    cached: int


@dataclass(frozen=True, slots=True)
class RequestRetracted:
    """Memory ran out; the request waits again with the output it has."""

    request: int


@dataclass(frozen=True, slots=True)
class RequestFinished:
    """`reason`: "stop", "length", "abort" or "error" (with its message). `cached_tokens`: at the first admission."""

    request: int
    reason: str
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    message: str = ""


class Extended(NamedTuple):
    """Tokens start .. start + length of a request went through the model in this step."""

    request: int
    start: int
    length: int


class Sampled(NamedTuple):
    """A token was chosen; `logprob` is the model's own, before temperature and filters."""

    request: int
    token: int
    logprob: float


class Masked(NamedTuple):
    """A grammar bound a token of `sampled`: `allowed` tokens were left, whose probability by the model was `kept`.

    before, after: the grammar's states; -1 where it has no numbered states.
    """

    request: int
    allowed: int
    kept: float
    before: int
    after: int


class Tokens(Sequence[int]):
    """Token ids, four bytes each; equal to the tuple of them. Python makes the numbers when they are asked for."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        """data: of an array of int32."""
        self._data = data

    @property
    def _ids(self) -> memoryview[int]:
        return memoryview(self._data).cast("i")

    def __len__(self) -> int:
        return len(self._data) // 4

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __getitem__(self, place: Any) -> Any:
        return tuple(self._ids[place]) if isinstance(place, slice) else self._ids[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (Tokens, tuple)) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return Tokens, (self._data,)

    def __repr__(self) -> str:
        return repr(tuple(self))


class Columns(Sequence[_Row]):
    """Named tuples of one kind, kept as one tuple for each field; equal to the tuple of the named tuples.

    A log holds millions of such rows. Python's garbage collector would visit each of them again and again, and stop
    the engine meanwhile; tuples of numbers it leaves alone.
    """

    __slots__ = ("_columns", "_kind")

    def __init__(self, kind: Any, *columns: Iterable[Any]) -> None:
        """kind: the class of the named tuples. columns: one for each of its fields, all of one length."""
        self._kind = kind
        self._columns = tuple([tuple(column) for column in columns])

    def column(self, name: str) -> tuple[Any, ...]:
        place: int = self._kind._fields.index(name)
        return self._columns[place]

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[_Row]:
        return map(self._kind, *self._columns)

    def __getitem__(self, place: Any) -> Any:
        return tuple(self)[place]

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, (Columns, tuple)) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


@dataclass(frozen=True, slots=True)
class StepRan:
    """One forward pass. free + cached + in_flight = the pool's size, in tokens."""

    step: int
    seconds: float
    extended: Sequence[Extended]
    sampled: Sequence[Sampled]
    waiting: int
    running: int
    free: int
    cached: int
    in_flight: int
    masked: Sequence[Masked] = ()


@dataclass(frozen=True, slots=True)
class AttentionSwitched:
    """Other kernels compute attention from now on: they were compiled in the background for so many seconds.

    seconds: 0 when the engine went back to kernels that it had used before.
    """

    before: str
    after: str
    seconds: float


@dataclass(frozen=True, slots=True)
class GrammarReady:
    """The request's grammar is compiled: `states` of its automaton, 0 on the road of the library.

    seconds: of compiling, or of reading it when `from_cache`.
    """

    request: int
    kind: str
    states: int
    seconds: float
    from_cache: bool


@dataclass(frozen=True, slots=True)
class Jumped:
    """Text was appended without asking the model; the tokens go through it in one pass, before the next is chosen.

    reason: "forced" by the grammar, or "limit": the shortest way to an end that max_new_tokens still holds.
    `dropped` of the last tokens were cut anew and are the first of `tokens`. data: the bytes as in `TokensNamed`.
    before, after: the grammar's states. labels: the parts of the pattern or schema that the text comes from.
    """

    request: int
    reason: str
    dropped: int
    tokens: tuple[int, ...]
    data: str
    before: int
    after: int
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """A leaf of the radix tree. Node 0 is the root, never added. `namespace` is "" but for the root's children."""

    node: int
    parent: int
    tokens: Sequence[int]
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class NodeSplit:
    """The new node `upper` takes the first `length` tokens of `node`, its locks and its age, and becomes its parent."""

    node: int
    upper: int
    length: int


@dataclass(frozen=True, slots=True)
class NodeEvicted:
    """A leaf left the tree; `reason`: "memory" or "flush"."""

    node: int
    reason: str


@dataclass(frozen=True, slots=True)
class NodeLocked:
    """`delta` (1 or -1) is added to the lock count of the node and of every node above it, the root excepted."""

    node: int
    delta: int


@dataclass(frozen=True, slots=True)
class NodeTouched:
    """The node and every node above it were used at logical time `tick`."""

    node: int
    tick: int


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A program, or a batch of `total` of them, began. `source` is the program's text where it is known."""

    run: str
    title: str
    source: str
    total: int


@dataclass(frozen=True, slots=True)
class BranchStarted:
    """`parent` is "" for a program's own stream. `text` is what the branch begins with: its parent's text so far."""

    run: str
    branch: str
    parent: str
    text: str


@dataclass(frozen=True, slots=True)
class TextAppended:
    """Constant text, role marks included; what is generated comes from the engine's own events."""

    run: str
    branch: str
    text: str


@dataclass(frozen=True, slots=True)
class GenerationDone:
    """The text that a generation appended to its branch, as the program sees it (stop strings cut off)."""

    run: str
    branch: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ChoiceMade:
    """`scores[i]` belongs to `choices[i]`; the largest wins; `chosen` was appended to the branch."""

    run: str
    branch: str
    name: str
    choices: tuple[str, ...]
    scores: tuple[float, ...]
    chosen: str


@dataclass(frozen=True, slots=True)
class BranchFinished:
    """`error` is "" when all went well."""

    run: str
    branch: str
    error: str


@dataclass(frozen=True, slots=True)
class RunFinished:
    """`status`: "done", "error" or "interrupted"."""

    run: str
    status: str
    message: str = ""


EVENT_KINDS: dict[str, type] = {
    cls.__name__: cls for cls in list(globals().values()) if isinstance(cls, type) and is_dataclass(cls)
}


class Record(NamedTuple):
    """`seq` counts from 1 without gaps; `t` is seconds since the log began."""

    seq: int
    t: float
    event: Any


class Read(NamedTuple):
    """What a reader got: the records after its place, and how many it lost because it was slow."""

    records: list[Record]
    lost: int


_TOKENS = {RequestQueued: "prompt", NodeAdded: "tokens", StepRan: "sampled", TokensNamed: "ids", Jumped: "tokens"}
"""The field of an event that holds tokens: by far the largest part of the memory that a log takes."""

_PLAIN = {
    kind: attrgetter(*names)
    for kind in EVENT_KINDS.values()
    if len(names := [f.name for f in fields(kind) if f.type in ("int", "float", "str")]) == len(fields(kind)) > 1
}
"""What gives the values of an event that has nothing but numbers and strings."""


class EventLog:
    """Bounded, append-only, safe to use from any thread. Readers keep their own place (a `seq`).

    capacity: records kept. tokens: tokens kept in all records together, 4 to 50 bytes each.

    A record is kept as a tuple (time, tokens, event), or (time, tokens, kind, *values) where the values are `_PLAIN`:
    such tuples Python's garbage collector leaves alone.
    """

    def __init__(self, capacity: int = 200_000, tokens: int = 2_000_000) -> None:
        self._records: deque[tuple[Any, ...]] = deque()
        self._capacity, self._spare = capacity, tokens
        self._lock = threading.Lock()
        self._begin = time.perf_counter()
        self.last = 0

    def emit(self, event: Any) -> None:
        """Append `event`. Drops the oldest records when full. Does no I/O."""
        kind = type(event)
        name = _TOKENS.get(kind)
        size = len(getattr(event, name)) if name else 0
        values = _PLAIN.get(kind)
        kept = (kind.__name__, *values(event)) if values else (event,)
        with self._lock:
            self.last += 1
            self._records.append((time.perf_counter(), size, *kept))
            self._spare -= size
            while len(self._records) > self._capacity or self._spare < 0:
                self._spare += self._records.popleft()[1]

    def read(self, after: int = 0) -> Read:
        """The records with seq > `after`, oldest first. Changes nothing."""
        with self._lock:
            new = self.last - after
            have = min(new, len(self._records))
            last = self.last
            found = list(itertools.islice(reversed(self._records), have))
        begin = self._begin
        records = [
            Record(seq, t - begin, EVENT_KINDS[kept[0]](*kept[1:]) if len(kept) > 1 else kept[0])
            for seq, (t, _, *kept) in enumerate(reversed(found), last - have + 1)
        ]
        return Read(records, new - have)


class Recorder:
    """Writes a log to a file, one JSON object a line, from a thread of its own. Close it, or use it in a `with`."""

    def __init__(self, log: EventLog, path: str | Path, after: int = 0) -> None:
        self.path = Path(path)
        self.lost = 0
        self._log, self._after = log, after
        self._file = self.path.open("w", encoding="utf-8")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sgnb-recorder", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            self._drain()

    def _drain(self) -> None:
        records, lost = self._log.read(self._after)
        self.lost += lost
        self._file.writelines(encode(record) + "\n" for record in records)
        if records:
            self._after = records[-1].seq

    def close(self) -> None:
        """Write what is left and close the file. Harmless when repeated."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join()
        self._drain()
        self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def encode(record: Record) -> str:
    """One record as one line of JSON."""
    event = record.event
    body = {f.name: getattr(event, f.name) for f in fields(event)}
    line = {"seq": record.seq, "t": round(record.t, 6), "kind": type(event).__name__, **body}
    return json.dumps(line, ensure_ascii=False, default=list)


def decode(line: str) -> Record:
    """The inverse of `encode`. An unknown kind is a KeyError; `load` skips such lines."""
    body = json.loads(line)
    seq, t, kind = body.pop("seq"), body.pop("t"), body.pop("kind")
    cls = EVENT_KINDS[kind]
    values = {name: _tuples(value) for name, value in body.items()}
    if cls is StepRan:
        values["extended"] = tuple(Extended(*x) for x in values["extended"])
        values["sampled"] = tuple(Sampled(*x) for x in values["sampled"])
        values["masked"] = tuple(Masked(*x) for x in values.get("masked", ()))
    return Record(seq, t, cls(**values))


def load(path: str | Path) -> Iterator[Record]:
    """The records of a file written by `Recorder`; kinds that this version does not know are left out."""
    with Path(path).open(encoding="utf-8") as file:
        yield from replay(file)


def replay(lines: Iterable[str]) -> Iterator[Record]:
    for line in lines:
        if json.loads(line)["kind"] in EVENT_KINDS:
            yield decode(line)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
