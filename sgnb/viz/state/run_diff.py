"""Difference of two recorded runs of a program: changed lines, changed tokens, and the change that
caused each computed prompt token. Pure; knows no engine and no display.

Only calls to the run's default engine have causes.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from ...errors import OptionError
from ...events import (
    Jumped,
    ProgramCalled,
    Record,
    RequestAdmitted,
    RequestQueued,
    RowsNumbered,
    RunsCompared,
    RunStarted,
    StepRan,
)
from ...sequences import common_length
from .cache_miss import Lookup, lookups
from .log_state import LogState
from .token_table import TokenTable, visible

MAX_CALLS = 256
"""Number of first calls of a run with causes."""

MAX_CELLS = 4_000_000
"""Size of the table of an exact diff of tokens. Longer texts have one changed part."""

CONTEXT = 1
"""Unchanged lines shown next to a changed line."""

_utf8 = codecs.getincrementaldecoder("utf-8")
_WORD = re.compile(r"\s*\S+|\s+")


@dataclass(slots=True, eq=False)
class ComparedCall:
    """A request of a run with prompt and output."""

    request: int
    branch: str  # see `RecordedRun.place`
    name: str
    line: int
    prompt: tuple[int, ...]
    output: list[int] = field(default_factory=list)
    admitted: bool = False

    @property
    def tokens(self) -> tuple[int, ...]:
        return (*self.prompt, *self.output)


class RecordedRun:
    """A run with source, arguments, calls and states, read from the records of the run."""

    def __init__(self, run: str, records: Iterable[Record]) -> None:
        """Read a run.

        Args:
            run: Id of the run.
            records: Records from before the start of the run.

        Raises:
            OptionError: The records do not have the start of the run.
        """
        self.id, self.records = run, list(records)
        states = LogState(self.records)
        if run not in states.runs:
            hint = "compare later runs of the cell"
            raise OptionError(f"the records no longer have the start of {run}", hint)

        self.state, self.table = states.runs[run], states.tree.token_table
        self.source, self.first_line = "", 1
        self.rows: tuple[int, ...] = ()  # of a batch, if not all rows ran
        self.arguments: dict[str, str] = {}  # by place
        self.calls: dict[int, ComparedCall] = {}  # by request
        for record in self.records:
            if not record.engine:
                self._read(record.event)

        self.texts = {self.place(name): text for name, text in self.state.branches.items()}
        self.answers = {self.place(name): row for name, row in self.state.rows.items()}

    def place(self, branch: str) -> str:
        """Return the id of a branch with the row of the batch as first number; equal for a row of
        a batch and of a rerun of failed rows."""
        root, dot, path = branch.partition(".")
        return f"{self.rows[int(root)]}{dot}{path}" if self.rows else branch

    def ran(self, place: str) -> bool:
        """Return False for a row that kept the state of an earlier run."""
        return not self.rows or int(place.partition(".")[0]) in self.rows

    def places(self) -> dict[tuple[str, int], ComparedCall]:
        """Return the calls by branch and number within the branch."""
        numbers = Counter[str]()
        places = {}
        for call in self.calls.values():
            places[call.branch, numbers[call.branch]] = call
            numbers[call.branch] += 1

        return places

    def tokens(self, branch: str) -> list[str]:
        """Return the tokens of the text of a place as strings, without the text of the parent
        branch. Text that no request has is split at words."""
        text = self.texts[branch]
        calls = [call for call in self.calls.values() if call.branch == branch and call.admitted]
        decoder, pieces, at = _utf8("replace"), list[str](), 0

        for token in calls[-1].tokens if calls else ():
            piece = decoder.decode(self.table.bytes((token,)))
            if not text.text.startswith(piece, at):
                break
            pieces += [piece] if piece else []
            at += len(piece)

        pieces += _WORD.findall(text.text[at:])
        return _without(pieces, text.shared)

    def _read(self, event: object) -> None:
        match event:
            case RunStarted() if event.run == self.id:
                self.source, self.first_line = event.source, event.first_line
            case RowsNumbered() if event.run == self.id:
                self.rows = tuple(event.rows)
            case ProgramCalled() if event.run == self.id:
                self.arguments[self.place(event.branch)] = event.arguments
            case RequestQueued() if event.run == self.id:
                place, prompt = self.place(event.branch), tuple(event.prompt)
                self.calls[event.request] = ComparedCall(
                    event.request, place, event.name, event.line, prompt
                )
            case RequestAdmitted() if event.request in self.calls:
                self.calls[event.request].admitted = True
            case StepRan():
                for row in event.sampled if self.calls else ():
                    if row.request in self.calls:
                        self.calls[row.request].output.append(row.token)
            case Jumped() if event.request in self.calls:
                output = self.calls[event.request].output
                del output[len(output) - event.dropped :]
                output += event.tokens


class DiffLine(NamedTuple):
    """A line of a diff."""

    mark: str  # "=", "-" or "+"
    number: int  # in the file of the marked run
    text: str


class DiffText(NamedTuple):
    """Consecutive tokens of a branch with equal marks."""

    branch: str
    mark: str
    text: str


class Cause(NamedTuple):
    """The change that caused the computation of the prompt tokens begin .. end of a request."""

    request: int
    begin: int
    end: int
    text: str


def compare_runs(name: str, earlier: RecordedRun, later: RecordedRun) -> RunsCompared:
    """Compare two runs.

    Args:
        name: Name of the comparison.
        earlier: The earlier run.
        later: The later run.
    """
    lines = changed_lines(earlier, later)
    places = _places(earlier.texts, later.texts, earlier, later)
    pieces = [piece for place in places for piece in _text(place, earlier, later)]
    causes = list(_Causes(earlier, later, lines).all())
    return RunsCompared(
        comparison=name,
        earlier=earlier.id,
        later=later.id,
        line_marks=tuple(line.mark for line in lines),
        line_numbers=tuple(line.number for line in lines),
        lines=tuple(line.text for line in lines),
        text_branches=tuple(piece.branch for piece in pieces),
        text_marks=tuple(piece.mark for piece in pieces),
        texts=tuple(piece.text for piece in pieces),
        cause_requests=tuple(cause.request for cause in causes),
        cause_begins=tuple(cause.begin for cause in causes),
        cause_ends=tuple(cause.end for cause in causes),
        causes=tuple(cause.text for cause in causes),
    )


def changed_lines(earlier: RecordedRun, later: RecordedRun) -> list[DiffLine]:
    """Return the changed lines of the source with neighbours; empty for equal sources."""
    old, new = earlier.source.splitlines(), later.source.splitlines()
    lines = [
        DiffLine(mark, i + (later if mark != "-" else earlier).first_line, text)
        for mark, i, text in _diff(old, new)
    ]
    changed = [i for i, line in enumerate(lines) if line.mark != "="]
    near = {i + step for i in changed for step in range(-CONTEXT, CONTEXT + 1)}
    return [line for i, line in enumerate(lines) if i in near]


def changed_answers(earlier: RecordedRun, later: RecordedRun) -> list[str]:
    """Return the rows of a batch with another answer or error. A row that did not run again has
    the same answer."""
    old, new = earlier.answers, later.answers
    return [
        name
        for name in _places(old, new, earlier, later)
        if name not in old
        or name not in new
        or (old[name].answer, old[name].error) != (new[name].answer, new[name].error)
    ]


def _places(
    old: Iterable[str], new: Iterable[str], earlier: RecordedRun, later: RecordedRun
) -> list[str]:
    """Return the places of both runs, without rows of a single run."""
    places = dict.fromkeys([*new, *old])
    return [place for place in places if earlier.ran(place) and later.ran(place)]


def _text(branch: str, earlier: RecordedRun, later: RecordedRun) -> Iterator[DiffText]:
    """Yield the text of a branch in both runs, token by token."""
    sides = [run.tokens(branch) if branch in run.texts else [] for run in (earlier, later)]
    for mark, entries in groupby(_diff(*sides), itemgetter(0)):
        yield DiffText(branch, mark, "".join(text for _, _, text in entries))


def _diff(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """Yield (mark, index, item) for the items of both sequences, in order. Deletions come before
    insertions."""
    blocks: Sequence[tuple[str, int, int, int, int]]
    begin = common_length(old, new)
    end = common_length(old[begin:][::-1], new[begin:][::-1])
    here, there = old[begin : len(old) - end], new[begin : len(new) - end]

    yield from (("=", i, new[i]) for i in range(begin))
    if len(here) * len(there) > MAX_CELLS:
        blocks = [("replace", 0, len(here), 0, len(there))]
    else:
        blocks = SequenceMatcher(None, here, there, autojunk=False).get_opcodes()

    for kind, i, j, k, m in blocks:
        if kind == "equal":
            yield from (("=", begin + n, there[n]) for n in range(k, m))
            continue
        yield from (("-", begin + n, here[n]) for n in range(i, j))
        yield from (("+", begin + n, there[n]) for n in range(k, m))
    yield from (("=", i, new[i]) for i in range(len(new) - end, len(new)))


def _without(pieces: list[str], characters: int) -> list[str]:
    """Return the pieces without the first `characters`."""
    for i, piece in enumerate(pieces):
        if characters < len(piece):
            return [piece[characters:], *pieces[i + 1 :]]
        characters -= len(piece)

    return []


class _Causes:
    """Finds the causes of computed prompt tokens of the later run."""

    def __init__(self, earlier: RecordedRun, later: RecordedRun, lines: list[DiffLine]) -> None:
        self._earlier, self._later, self._lines = earlier, later, lines
        self._places = earlier.places()
        self._place_of = {call.request: place for place, call in later.places().items()}

    def all(self) -> Iterator[Cause]:
        records = [record for record in self._later.records if not record.engine]
        for lookup in lookups(records, self._later.id, limit=MAX_CALLS):
            yield from self._of(lookup)

    def _of(self, lookup: Lookup) -> Iterator[Cause]:
        call = self._later.calls[lookup.request]
        former = self._places.get(self._place_of[call.request])
        same = 0 if former is None else common_length(call.prompt, former.tokens)

        at = lookup.cached_tokens
        for reason in lookup.reasons:
            end = at + reason.tokens
            if reason.kind not in ("differs", "first"):
                yield Cause(call.request, at, end, reason.text)
            elif former is None:
                yield Cause(call.request, at, end, f"{self._earlier.id} has no such call")
            else:
                middle = max(at, min(same, end))
                if at < middle:
                    text = f"{self._earlier.id} has the same tokens, which are no longer cached"
                    yield Cause(call.request, at, middle, text)

                if middle < end:
                    yield Cause(call.request, middle, end, self._change(call, former, same))
            at = end

    def _change(self, call: ComparedCall, former: ComparedCall, at: int) -> str:
        """Return the change at the first different token of a prompt."""
        table = self._later.table
        here, there = (
            _quoted(table, call.prompt[at:]),
            _quoted(self._earlier.table, former.tokens[at:]),
        )
        return f"{self._source_of(call, at)}: {here} instead of {there}, at token {at}"

    def _source_of(self, call: ComparedCall, at: int) -> str:
        for writer in self._later.calls.values():
            begin = len(writer.prompt)
            is_part = writer is not call and call.prompt[:begin] == writer.prompt
            if is_part and begin <= at < begin + len(writer.output):
                return f"other text of {visible(writer.name)}"

        changed = [line for line in self._lines if line.mark != "="]
        word = self._later.table.text(call.prompt[at : at + 4]).strip()[:4]
        matching = [line for line in changed if word and line.mark == "+" and word in line.text]

        root = call.branch.partition(".")[0]
        arguments = [run.arguments.get(root, "") for run in (self._earlier, self._later)]
        if not matching and arguments[0] != arguments[1]:
            return f"other arguments, {visible(arguments[1])} instead of {visible(arguments[0])}"

        if changed:
            return f"changed line {(matching or changed)[0].number}"
        return "another value of a variable outside the program"


def _quoted(table: TokenTable, tokens: Sequence[int]) -> str:
    text = visible(table.text(tokens[:1]))
    return repr(text) if tokens else "the end"
