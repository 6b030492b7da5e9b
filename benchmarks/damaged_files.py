"""Damaged and tampered files: bit flips in cache files, changes of saved records.

A flipped cache file must lead to the same automaton as before. A changed snapshot, graph, trace or
row must lead to an answer or to an error of `sgnb.errors`, on reading, printing and drawing, in
less than a second of processor time. `python -m benchmarks.damaged_files --flips N --changes N
--seed N` sets the counts.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import sgnb as sgl
from sgnb import events
from sgnb.backends.local import LocalExecutor
from sgnb.cache_file import CacheFile
from sgnb.errors import SgnbError
from sgnb.grammar import compiler
from sgnb.grammar.lowering import LoweredGrammar
from sgnb.grammar.spec import GrammarSpec
from sgnb.lang import CompiledProgram, Graph, Snapshot
from sgnb.lang.batches.saved import SavedRows
from sgnb.magics.automaton_layout import drawing
from sgnb.viz import Emitter, Recording
from sgnb.viz.live.recorded_run import SUFFIXES
from sgnb.viz.static.automaton_svg import automaton_picture

from .common import Report

LONGEST = 1.0
"""Seconds of processor time of a case at most."""

SPECS = (
    GrammarSpec("regex", r"(cat|dog)s?, [0-9]{1,3} of \w+"),
    GrammarSpec("json_schema", '{"type": "array", "items": {"enum": ["a", "bcd", 7]}}'),
    GrammarSpec("json_schema", '{"$defs": {"t": {"anyOf": [{"type": "null"}, {"type": "array",'
                ' "items": {"$ref": "#/$defs/t"}}]}}, "$ref": "#/$defs/t"}'),
    GrammarSpec("ebnf", 'start: "a" start? "b"'),
)  # fmt: skip


def run(flips: int = 10_000, changes: int = 10_000, seed: int = 0) -> list[Report]:
    """Flip bits in cache files and change records, in a cache folder of their own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, SGNB_CACHE=f"{folder}/cache"),
        patch.object(compiler, "WORTH_KEEPING", 0.0),
    ):
        return [flip_cache_files(flips, seed), change_records(changes, seed, Path(folder))]


def flip_cache_files(flips: int, seed: int) -> Report:
    rng, counts, longest = random.Random(seed), Counter[str](), 0.0
    cases = [_GrammarCase(spec) for spec in SPECS]
    record = CacheFile("logit_checks", "an architecture")
    for _ in range(flips):
        if rng.random() < 0.1:
            record.write(b"passed")
            _flip(record.path, rng)
            counts["rebuilt" if record.read() is None else "different"] += 1
            continue
        case = rng.choice(cases)
        _flip(case.file.path, rng)
        begin = time.thread_time()
        counts[case.compile()] += 1
        longest = max(longest, time.thread_time() - begin)
    return Report(
        "Bit flips in cache files",
        ("flips", "rebuilt", "another content", "damaged file stayed", "longest, ms"),
        [(flips, counts["rebuilt"], counts["different"], counts["stayed"], f"{1e3 * longest:.0f}")],
        "every flip leads to the same automaton or logit check, by a rebuild",
        counts["rebuilt"] == flips,
    )


class _GrammarCase:
    """A grammar in the cache, and the content of its file."""

    def __init__(self, spec: GrammarSpec) -> None:
        self.spec, self.file = spec, compiler.cache_file(spec)
        self._lowered = _lowered(spec)
        self._content = self.file.path.read_bytes()

    def compile(self) -> str:
        """Compile next to a flipped file. Return "rebuilt", "different" or "stayed"."""
        if _lowered(self.spec) != self._lowered:
            return "different"
        return "rebuilt" if self.file.path.read_bytes() == self._content else "stayed"


def _lowered(spec: GrammarSpec) -> bytes:
    grammar = compiler.compile_spec(spec)
    lowered = LoweredGrammar(grammar.automaton, grammar.lark, grammar.why, grammar.shortest)
    return lowered.to_bytes()


def _flip(path: Path, rng: random.Random) -> None:
    path.write_bytes(flipped(path.read_bytes(), rng))


def flipped(data: bytes, rng: random.Random) -> bytes:
    """Return `data` with one bit inverted."""
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


@dataclass
class Outcomes:
    """Counts over the changes of one kind of record."""

    answers: int = 0
    typed: int = 0
    raw: Counter[str] = field(default_factory=Counter)
    longest: float = 0.0

    def note(self, use: Callable[[], None]) -> None:
        begin = time.thread_time()
        try:
            use()
            self.answers += 1
        except SgnbError:
            self.typed += 1
        except Exception as error:
            self.raw[f"{type(error).__name__}: {error}"[:120]] += 1
        self.longest = max(self.longest, time.thread_time() - begin)


def change_records(changes: int, seed: int, folder: Path) -> Report:
    rng, records = random.Random(seed), Records(folder)
    outcomes = {name: Outcomes() for name in records.uses}
    for number in range(changes):
        name = list(outcomes)[number % len(outcomes)]
        data = changed(records.originals[name], rng)
        outcomes[name].note(lambda name=name, data=data: records.uses[name](data))

    raw = sum((one.raw for one in outcomes.values()), Counter[str]())
    slowest = max(one.longest for one in outcomes.values())
    return Report(
        "Changed records: reading, printing, drawing",
        ("record", "changes", "answers", "typed errors", "raw errors", "longest, ms"),
        [
            (name, one.answers + one.typed + one.raw.total(), one.answers, one.typed,
             one.raw.total(), f"{1e3 * one.longest:.0f}")
            for name, one in outcomes.items()
        ],
        f"no raw error, at most {LONGEST:g} s of processor time each",
        not raw and slowest <= LONGEST,
        "; ".join(f"{count} times {text}" for text, count in raw.most_common(5)),
    )  # fmt: skip


@sgl.function
def zoo(s: Any, topic: str, n: int = 2) -> Any:
    """Forks, choices, roles, a grammar, variables."""
    s += sgl.user(f"Say something about {topic}.")
    s += sgl.assistant(sgl.gen("first", max_tokens=6) + sgl.select("mood", ["good", "bad"]))
    s["facts"] = [1, {"deep": [2.5, None, "é\N{FOX FACE}"]}, True]
    forks = s.fork(2)
    for number, fork in enumerate(forks):
        fork += f"\nTip {number}: " + sgl.gen("tip", regex=r"[a-c]{1,4}, (yes|no)\.")
    forks.join()
    s += "\nDate: " + sgl.gen("date", regex=r"20[0-9]{2}-[01][0-9]", max_tokens=12)
    return s["date"]


class Records:
    """A record of each kind from a real run, and its use: read, print, draw."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        rows = folder / "rows.jsonl"
        with sgl.Engine("tiny", max_total_tokens=4096) as engine:
            executor = LocalExecutor(engine)
            emitter = Emitter(engine.log, lambda number: _drawing(engine, number))
            feed = emitter.feed()
            state = zoo.run("foxes", backend=executor, temperature=0)
            state.sync()
            emitter.flush()
            emitter.close()
            zoo.run_batch([{"topic": topic} for topic in "abc"], save=rows, backend=executor)
        trace = [*feed.lines, *_more_events(state.run_id, len(feed.lines))]
        compared = [
            events.VariantRan("c", "as it is", state.run_id, ""),
            events.VariantRan("c", "nocache", state.run_id, "the text differs", 1),
            events.ComparisonDone("c", ("nocache: 2.0 times as fast; the same text",)),
        ]
        self.originals = {
            "snapshot": state.snapshot().to_json().encode(),
            "graph": zoo.compile().graph.to_json().encode(),
            "trace": _joined(trace),
            "comparison": _joined([*trace, *_encoded(compared, len(trace))]),
            "row": rows.read_bytes(),
        }
        self.uses: dict[str, Callable[[bytes], None]] = {
            "snapshot": use_snapshot,
            "graph": use_graph,
            "trace": self.use_trace,
            "comparison": self.use_trace,
            "row": self.use_rows,
        }

    def use_trace(self, data: bytes) -> None:
        file = self._folder / "trace.jsonl"
        file.write_bytes(data)
        trace = Recording.open(file)
        texts = [repr(trace), trace.text(), *trace._repr_mimebundle_().values()]
        texts += [automaton_picture(record.event, "x") for record in events.load(file)
                  if isinstance(record.event, events.AutomatonDrawn)]  # fmt: skip
        _check_printable(*texts)
        for suffix in SUFFIXES:
            trace.save(self._folder / f"saved{suffix}")
        widget = trace.widget()
        json.dumps(widget.build())
        widget.close()

    def use_rows(self, data: bytes) -> None:
        file = self._folder / "changed.jsonl"
        file.write_bytes(data)
        rows = SavedRows(file, "program")
        for state in list(rows._states.values()):
            _check_printable(repr(state), repr(state.variables), repr(state.messages()))
            state.text()
            for name in state.variables:
                repr((state[name], state.get_meta_info(name), state.ret_value))


def use_snapshot(data: bytes) -> None:
    snapshot = Snapshot.from_json(_text(data))
    _check_printable(repr(snapshot), repr(snapshot.text), repr(snapshot.role))
    Snapshot.from_json(snapshot.to_json())


def use_graph(data: bytes) -> None:
    graph = Graph.from_json(_text(data))
    _check_printable(repr(graph), str(graph), graph.to_dot(), *graph._repr_mimebundle_().values())
    _check_printable(repr(graph.nodes), graph.last_node.label(), repr(graph.edges))
    Graph.from_json(graph.to_json())
    CompiledProgram(graph)


def _text(data: bytes) -> str:
    """Decode with surrogates in place of invalid bytes."""
    return data.decode("utf-8", "surrogateescape")


def _check_printable(*texts: str) -> None:
    """Raise UnicodeEncodeError for a text with surrogates, unfit for terminals and notebooks."""
    for text in texts:
        text.encode()


def _drawing(engine: sgl.Engine, number: int) -> events.AutomatonDrawn | None:
    grammar = engine.compiled_grammar(number)
    return drawing(grammar) if grammar else None


def _joined(lines: list[str]) -> bytes:
    return "\n".join([*lines, ""]).encode()


def _encoded(appended: list[Any], after: int) -> list[str]:
    records = [events.Record(after + i, 9.0, event) for i, event in enumerate(appended, 1)]
    return list(map(events.encode, records))


def _more_events(run: str, after: int) -> list[str]:
    """Further kinds of events, absent from the run."""
    further = [
        events.NodeAdded(900, 0, (5, 6, 7)),
        events.NodeAdded(901, 900, (8, 9)),
        events.NodePinned(901, "user", 1),
        events.NodeSplit(901, 902, 1),
        events.CheckpointKept(902),
        events.NodeLocked(901, 1),
        events.NodeTouched(901, 5),
        events.ModelAsked(run, "0", "other", 1, "another/model", 1),
        events.TextStreamed(run, "0", "streamed"),
        events.ModelAnswered(run, "0", 7, 2, 3),
        events.Alternatives(1, (5, 6), (-0.5, -2.0), (True, False)),
        events.NodeAdded(903, 902, (3,)),
        events.NodeEvicted(903, "memory"),
        events.RecordsLost(2),
    ]
    return _encoded(further, after)


DEEP: Any = 0
for _ in range(120):
    DEEP = [DEEP]

ODD_VALUES = (
    None, True, False, -1, 0, 1, 2, 7, 2**31, 2**63, 10**30, -(10**18), 1e308, -1e-320, 0.5,
    float("inf"), float("-inf"), float("nan"), "", "0", "\0", "\ud800", "x" * 100_000, "\x1b[31m",
    "\u202e", "]]>", [], {}, [[]], [None], {"a": {}}, {"dict": 1}, {"Node": []}, DEEP,
)  # fmt: skip


def changed(data: bytes, rng: random.Random) -> bytes:
    """Return `data`, JSON or lines of JSON, with one to three changes."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        if rng.random() < 0.25:
            data = _changed_bytes(data, rng)
            continue
        lines = data.decode("utf-8", "replace").split("\n")
        if len(lines) > 1 and rng.random() < 0.2:
            _change_lines(lines, rng)
        else:
            at = rng.randrange(max(1, len(lines) - 1))
            try:
                document = json.loads(lines[at])
                _change_value(document, json.loads(rng.choice(lines[:-1] or lines)), rng)
                lines[at] = json.dumps(document)
            except (ValueError, RecursionError):
                lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]
        data = "\n".join(lines).encode("utf-8", "replace")
    return data


def _changed_bytes(data: bytes, rng: random.Random) -> bytes:
    begin, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    match rng.randrange(9):
        case 0:
            return data[:begin]
        case 1:
            return data + b"\0"
        case 2:
            return data[:begin] + rng.choice((b"\0", b"\xff", b"\xed\xa0\x80")) + data[begin:]
        case 3:
            return data[:begin] + data[end:]
        case 4:
            return data[:end] + data[begin:]
        case 5:
            deep = rng.choice((b"[", b'{"a":')) * rng.choice((300, 5_000, 200_000))
            return data[:begin] + deep + data[begin:]
        case 6:
            return rng.choice((b"", b"null", b"[]", b"{}", b'"', b"1" * 5_000, b"[" * 100_000))
        case _:
            return flipped(data, rng) if data else b"\0"


def _change_lines(lines: list[str], rng: random.Random) -> None:
    """Drop, repeat, swap or move lines."""
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            del lines[one]
        case 1:
            lines.insert(other, lines[one])
        case 2:
            lines[one], lines[other] = lines[other], lines[one]
        case _:
            lines[min(one, other) : max(one, other)] = []


def _change_value(document: Any, other: Any, rng: random.Random) -> None:
    """Change one place of `document`. `other`: document with replacement values."""
    places = list(_places(document))
    if not places:
        raise ValueError("nothing to change")
    parent, key = rng.choice(places)
    match rng.randrange(8):
        case 0:
            del parent[key]
        case 1:
            parent[key] = [parent[key], copy.deepcopy(parent[key])]
        case 2 if isinstance(parent, dict):
            parent["extra"] = rng.choice(ODD_VALUES)
        case 2:
            parent.append(copy.deepcopy(parent[key]))
        case 3 | 4:
            same = [(p, k) for p, k in _places(other) if k == key and p[k] != parent[key]]
            source, name = rng.choice(same or places)
            parent[key] = copy.deepcopy(source[name])
        case 5 if isinstance(parent[key], int | float):
            parent[key] += rng.choice((-1, 1, 10, -1000))
        case 5 if isinstance(parent[key], str):
            parent[key] *= 3
        case _:
            parent[key] = rng.choice(ODD_VALUES)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """All containers in `value`, each with each of its keys."""
    stack = [value]
    while stack:
        parent = stack.pop()
        if isinstance(parent, dict | list):
            keys = list(parent) if isinstance(parent, dict) else range(len(parent))
            yield from ((parent, key) for key in keys)
            stack += parent.values() if isinstance(parent, dict) else parent


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.damaged_files", description=__doc__)
    for option, default in (("flips", 10_000), ("changes", 10_000), ("seed", 0)):
        parser.add_argument(f"--{option}", type=int, default=default)
    reports = run(**vars(parser.parse_args()))
    print(*(report.markdown() for report in reports), sep="\n")
    raise SystemExit(any(report.met is False for report in reports))
