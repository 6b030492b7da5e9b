"""One run: its text with the origin of every piece, and its figures. A pure reducer.

What a piece of text means: "text" is constant and has not reached the engine yet; "cached" was
found in the tree; "computed" went through the model as prompt; "again" did too, although it is in
the tree, because no states of the model's recurrent layers were kept there; "sampled" was chosen by
the model; "jumped" was forced by a grammar. Of a large batch only the first branches keep their
text; the others are rows and counts. The live page does the same with the same records
(`page/reduce.js`).
"""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from ..events import (
    BranchFinished,
    BranchStarted,
    ChoiceMade,
    GenerationDone,
    Jumped,
    ProgramCalled,
    Record,
    RequestAdmitted,
    RequestFinished,
    RequestQueued,
    RunFinished,
    RunStarted,
    StepRan,
    TextAppended,
    TextStreamed,
    TokensNamed,
)
from .branch import Branch, common_length, drop, take
from .tokens import Vocabulary

KEPT_BRANCHES = 12
LEAST_PREFILL = 8
"""Prompt tokens of a step from which on its time says what a token of a prompt takes."""

_utf8 = codecs.getincrementaldecoder("utf-8")


@dataclass(slots=True)
class Figures:
    """Counts over a run's requests, those that only score included."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    again_tokens: int = 0  # of those computed
    output_tokens: int = 0
    jumped_tokens: int = 0
    passes: int = 0  # forward passes
    seconds: float = 0.0  # from the first record to the last
    finished: int = 0
    total: int = 1

    @property
    def computed_tokens(self) -> int:
        return self.prompt_tokens - self.cached_tokens

    @property
    def sampled_tokens(self) -> int:
        return self.output_tokens - self.jumped_tokens

    def by_kind(self) -> dict[str, int]:
        """Tokens of each kind of text that there is; "again" are some of those computed."""
        counts = {
            "cached": self.cached_tokens,
            "computed": self.computed_tokens,
            "again": self.again_tokens,
            "sampled": self.sampled_tokens,
            "jumped": self.jumped_tokens,
        }
        return {k: n for k, n in counts.items() if n or k not in ("again", "jumped")}

    @property
    def hit_rate(self) -> float:
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def tokens_per_second(self) -> float:
        return self.output_tokens / self.seconds if self.seconds else 0.0

    def line(self) -> str:
        """All of it in one line, for people."""
        parts = [f"{self.finished}/{self.total} runs"] if self.total > 1 else []
        parts.append(f"{self.prompt_tokens} prompt + {self.output_tokens} new tokens")
        parts.append(f"hit rate {self.hit_rate:.0%}")
        parts += [f"{self.jumped_tokens} jumped"] if self.jumped_tokens else []
        parts += [f"{self.tokens_per_second:.0f} tok/s"] if self.output_tokens else []
        parts.append(f"{self.passes} pass" + "es" * (self.passes != 1))
        parts.append(duration(self.seconds))
        return " · ".join(parts)


KIND_NAMES = {"again": "of these again"}
"""In a legend, where a kind's own name does not say it."""


def duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


@dataclass(slots=True)
class Row:
    """A program of a batch, with its forks."""

    branch: str  # the program's own
    began: float  # in seconds of the log's clock
    ended: float | None = None
    status: str = "running"
    error: str = ""
    arguments: str = ""
    name: str = ""  # of the variable set last
    answer: str = ""  # its value
    prompt: int = 0  # tokens of all requests
    cached: int = 0
    again: int = 0
    output: int = 0


class Passage(NamedTuple):
    """A piece of a branch's own text between two forks."""

    branch: Branch
    segments: list[list[str]]
    last: bool  # the branch has no more


@dataclass(slots=True, eq=False)
class _Request:
    row: Row | None
    branch: Branch | None  # None: its text is not shown
    prompt: Sequence[int]
    generates: bool
    admitted: bool = False
    written: int = 0  # output tokens
    forced: bytes = b""  # what the grammar wrote before the request was admitted
    pending: codecs.IncrementalDecoder = field(default_factory=lambda: _utf8("replace"))


class RunState:
    def __init__(self, run: str, vocabulary: Vocabulary | None = None) -> None:
        self.run = run
        self.vocabulary = vocabulary or Vocabulary()
        self.title = self.message = ""
        self.status = "waiting"  # then "running", then that of `RunFinished`
        self.branches: dict[str, Branch] = {}
        self.rows: dict[str, Row] = {}
        self.hidden = 0  # branches that are only counted
        self.failed = self.lost = 0
        self.first_error = ""
        self.figures = Figures()
        self.began: float | None = None  # in seconds of the log's clock
        self._now = 0.0
        self._prefill: float | None = None  # seconds a token, in the step that was fastest at it
        self._requests: dict[int, _Request] = {}

    def line(self) -> str:
        """The figures, and how long the rest of a batch may take."""
        figures, line = self.figures, self.figures.line()
        if self.status == "running" and 0 < figures.finished < figures.total:
            left = figures.seconds / figures.finished * (figures.total - figures.finished)
            line += f" · ETA {left:.0f} s"
        return line

    @property
    def is_batch(self) -> bool:
        return self.figures.total > 1

    def gain(self) -> str:
        """What the cache saved, in one line; "" before a request was admitted."""
        figures = self.figures
        if not figures.prompt_tokens:
            return ""
        line = f"{figures.cached_tokens:,} of {figures.prompt_tokens:,} prompt tokens"
        line += " found in the cache"
        if figures.cached_tokens and self._prefill is not None:
            line += f": about {duration(self._prefill * figures.cached_tokens)}"
        if figures.again_tokens:
            line += f"; {figures.again_tokens:,} more computed again for want of a state"
        return line

    def apply(self, record: Record) -> None:
        event = record.event
        self._now = record.t
        handler = self._handlers.get(type(event))
        if handler is None or getattr(event, "run", self.run) != self.run:
            return
        if handler(self, event) is not False:
            self._time(record.t)

    def _time(self, t: float) -> None:
        if self.began is None:
            self.began = t
        self.figures.seconds = t - self.began

    def _name(self, event: TokensNamed) -> bool:
        self.vocabulary.learn(event)
        return False

    def _start(self, event: RunStarted) -> None:
        self.title, self.figures.total, self.status = event.title, event.total, "running"

    def _finish(self, event: RunFinished) -> None:
        self.status, self.message = event.status, event.message

    def _branch_start(self, event: BranchStarted) -> None:
        if "." not in event.branch:
            self.rows[event.branch] = Row(event.branch, self._now)
        if len(self.branches) >= KEPT_BRANCHES:
            self.hidden += 1
            return
        branch = Branch(event.branch, event.parent)
        parent = self.branches.get(event.parent)
        if parent is not None and parent.text.endswith(event.text):
            # The engine may show more than the program wrote (a mark that begins every prompt):
            # keep the parent's.
            branch.segments = [list(segment) for segment in parent.segments]
            branch.shared = parent.length
        else:
            branch.append("text", event.text)
        branch.forked_at = parent.length if parent is not None else 0
        self.branches[event.branch] = branch

    def _called(self, event: ProgramCalled) -> None:
        row = self.rows.get(event.branch)
        if row is not None:
            row.arguments = event.arguments

    def _branch_finish(self, event: BranchFinished) -> None:
        self.figures.finished += "." not in event.branch
        if event.error:
            self.failed += 1
            self.first_error = self.first_error or event.error
        status = "error" if event.error else "done"
        branch, row = self.branches.get(event.branch), self.rows.get(event.branch)
        if branch is not None:
            branch.status, branch.error = status, event.error
        if row is not None:
            row.status, row.error, row.ended = status, event.error, self._now

    def _text(self, event: TextAppended) -> None:
        branch = self.branches.get(event.branch)
        if branch is not None:
            branch.generated_from = None
            branch.append("text", event.text)

    def _streamed(self, event: TextStreamed) -> None:
        branch = self.branches.get(event.branch)
        if branch is not None:
            if branch.generated_from is None:
                branch.generated_from = branch.length
            branch.append("sampled", event.text)

    def _generated(self, event: GenerationDone) -> None:
        self._finish_text(event.branch, event.name, event.text)

    def _chosen(self, event: ChoiceMade) -> None:
        self._finish_text(event.branch, event.name, event.chosen)

    def _finish_text(self, name: str, variable: str, text: str) -> None:
        """Replace what was streamed by the program's text, as far as the two differ."""
        row = self._row(name)
        if row is not None:
            row.name, row.answer = variable, text
        branch = self.branches.get(name)
        if branch is None:
            return
        if branch.generated_from is not None:
            streamed = "".join(part for _, part in drop(branch.segments, branch.generated_from))
            same = common_length(streamed, text)
            branch.cut(branch.generated_from + same)
            branch.generated_from = None
        else:
            same = 0
        branch.append("sampled", text[same:])
        branch.variables[variable] = text

    def _row(self, branch: str) -> Row | None:
        """That of the program to which a branch belongs."""
        return self.rows.get(branch.partition(".")[0])

    def _queued(self, event: RequestQueued) -> None:
        branch = self.branches.get(event.branch)
        if any(request.branch is branch for request in self._requests.values()):
            branch = None  # of several samples or choices of a prompt the first is shown
        row = self._row(event.branch)
        generates = event.purpose == "generate"
        self._requests[event.request] = _Request(row, branch, event.prompt, generates)

    def _admitted(self, event: RequestAdmitted) -> bool:
        request = self._requests.get(event.request)
        if request is None or request.admitted:
            return False
        request.admitted = True
        self.figures.prompt_tokens += len(request.prompt)
        self.figures.cached_tokens += event.cached
        self.figures.again_tokens += event.again
        if request.row is not None:
            request.row.prompt += len(request.prompt)
            request.row.cached += event.cached
            request.row.again += event.again
        if request.branch is not None:
            pieces = self._pieces(request.prompt, event.cached, event.again)
            request.branch.prompt(pieces, request.generates)
            above = self.branches.get(request.branch.parent)
            while above is not None:
                above.sent(pieces)
                above = self.branches.get(above.parent)
            self._stream(request, "jumped", request.forced)
        return True

    def _pieces(self, prompt: Sequence[int], cached: int, again: int) -> list[list[str]]:
        """A prompt's text, by what became of its tokens."""
        decoder, bytes_of = _utf8("replace"), self.vocabulary.bytes
        found = decoder.decode(bytes_of(prompt[:cached]))
        repeated = decoder.decode(bytes_of(prompt[cached : cached + again]))
        computed = decoder.decode(bytes_of(prompt[cached + again :]), True)
        return [["cached", found], ["again", repeated], ["computed", computed]]

    def _stepped(self, event: StepRan) -> bool:
        requests, involved = self._requests, False
        if not requests:
            return False
        for number, token, _ in event.sampled:
            request = requests.get(number)
            if request is not None:
                involved = True
                request.written += 1
                self.figures.output_tokens += 1
                if request.row is not None:
                    request.row.output += 1
                self._stream(request, "sampled", self.vocabulary.bytes((token,)))
        involved = involved or any(number in requests for number, _, _ in event.extended)
        self.figures.passes += involved
        if involved:
            lengths = [length for _, _, length in event.extended]
            if sum(length for length in lengths if length > 1) >= LEAST_PREFILL:
                each = event.seconds / sum(lengths)
                self._prefill = min(each, self._prefill or each)
        return involved

    def _jumped(self, event: Jumped) -> bool:
        request = self._requests.get(event.request)
        if request is None:
            return False
        count, data = len(event.tokens) - event.dropped, event.data.encode("latin-1")
        request.written += count
        self.figures.output_tokens += count
        self.figures.jumped_tokens += count
        if request.row is not None:
            request.row.output += count
        if request.admitted:
            self._stream(request, "jumped", data)
        else:
            request.forced += data
        return True

    def _stream(self, request: _Request, kind: str, new: bytes, final: bool = False) -> None:
        """Show a request's new bytes, while its branch shows this generation."""
        branch = request.branch
        if branch is not None and branch.generated_from is not None:
            branch.append(kind, request.pending.decode(new, final))

    def _request_finished(self, event: RequestFinished) -> bool:
        request = self._requests.pop(event.request, None)
        if request is None:
            return False
        self.figures.output_tokens += event.output_tokens - request.written
        if not request.prompt:
            self._count_untold(request, event)
        self._stream(request, "sampled", b"", final=True)
        return True

    def _count_untold(self, request: _Request, event: RequestFinished) -> None:
        """The tokens of a request that were counted elsewhere, and not told."""
        self.figures.prompt_tokens += event.prompt_tokens
        self.figures.cached_tokens += event.cached_tokens
        if request.row is not None:
            request.row.prompt += event.prompt_tokens
            request.row.cached += event.cached_tokens
            request.row.output += event.output_tokens

    _handlers: ClassVar[dict[type, Callable[[Any, Any], bool | None]]] = {
        TokensNamed: _name,
        RunStarted: _start,
        RunFinished: _finish,
        BranchStarted: _branch_start,
        ProgramCalled: _called,
        BranchFinished: _branch_finish,
        TextAppended: _text,
        TextStreamed: _streamed,
        GenerationDone: _generated,
        ChoiceMade: _chosen,
        RequestQueued: _queued,
        RequestAdmitted: _admitted,
        StepRan: _stepped,
        Jumped: _jumped,
        RequestFinished: _request_finished,
    }
    """A handler that returns False says that the record was not about this run."""

    def passages(self) -> Iterator[Passage]:
        """The text of all branches in reading order: forks stand where they forked."""
        roots = [branch for branch in self.branches.values() if branch.parent not in self.branches]
        return itertools.chain.from_iterable(map(self._passages, roots))

    def _passages(self, branch: Branch) -> Iterator[Passage]:
        at = branch.shared
        for child in [other for other in self.branches.values() if other.parent == branch.name]:
            if child.forked_at > at:
                yield Passage(branch, take(drop(branch.segments, at), child.forked_at - at), False)
                at = child.forked_at
            yield from self._passages(child)
        yield Passage(branch, drop(branch.segments, at), True)
