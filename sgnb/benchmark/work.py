"""What a run did, so that two runs can be told to be the same work: an executor between a program
and its executor that notes each call, and what is compared."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from ..lang.executor import Call, Delta, Executor, Result, ScoreCall, Scores
from ..segment import Segment
from ..viz.state.comparison import in_order

AROUND = 24
"""Characters of two texts that are shown from where they differ."""

Same = Literal["text", "tokens"]
"""What must be the same in two runs: what they made, or only of how many tokens it is."""


class Made(NamedTuple):
    """What a call gave."""

    name: str
    texts: tuple[str, ...]
    tokens: int
    greedy: bool


@dataclass
class Work:
    """Everything that a run asked for and got, whatever the order in which it happened."""

    calls: list[Call | ScoreCall] = field(default_factory=list)
    made: dict[str, list[Made]] = field(default_factory=dict)  # by branch
    rows: list[str] = field(default_factory=list)  # the text of each row's state in the end

    @property
    def generations(self) -> list[Call]:
        return [call for call in self.calls if isinstance(call, Call)]

    @property
    def tokens(self) -> int:
        """Those that were made."""
        return sum(made.tokens for branch in self.made.values() for made in branch)

    def difference(self, other: Work, same: Same = "text", repeatable: bool = True) -> str:
        """Where this work is another than `other`, the program as it is; "" if it is the same.
        repeatable: a seed gives the same draws in both."""
        if len(self.calls) != len(other.calls):
            return f"{len(self.calls):,} calls instead of {len(other.calls):,}"
        for branch in sorted({*self.made, *other.made}, key=in_order):
            ours, theirs = self.made.get(branch, []), other.made.get(branch, [])
            for here, there in zip(ours, theirs, strict=False):
                where = f"branch {branch}, {here.name or 'gen'}"
                exact = same == "text" and (repeatable or there.greedy)
                if exact and here.texts != there.texts:
                    return f"{where}, {_texts(''.join(here.texts), ''.join(there.texts))}"
                if not exact and here.tokens != there.tokens:
                    return f"{where}: {here.tokens} tokens instead of {there.tokens}"
            if len(ours) != len(theirs):
                return f"branch {branch}: {len(ours)} generations instead of {len(theirs)}"
        greedy = all(call.params.temperature == 0 for call in other.generations)
        if same == "text" and (repeatable or greedy):
            for row, (text, before) in enumerate(zip(self.rows, other.rows, strict=True)):
                if text != before:
                    return f"row {row}, {_texts(text, before)}"
        return ""


def _texts(here: str, there: str) -> str:
    pairs = enumerate(zip(here, there, strict=False))
    at = next((i for i, (x, y) in pairs if x != y), min(len(here), len(there)))
    shown = [repr(text[at : at + AROUND]) for text in (here, there)]
    return f"character {at}: {shown[0]} instead of {shown[1]}"


class Noted:
    """An executor whose calls are noted in `work`. as_text: what the model made goes on as text,
    not as its tokens, as to a server."""

    def __init__(self, executor: Executor, as_text: bool = False) -> None:
        self.chat, self.log, self.marks = executor.chat, executor.log, executor.marks
        self.work = Work()
        self._executor, self._as_text = executor, as_text
        self._lock = threading.Lock()

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        with self._lock:
            self.work.calls.append(call)
            place = self.work.made.setdefault(call.branch, [])
            place.append(Made(call.name, (), 0, True))
            at = len(place) - 1

        def take(got: Delta | Result) -> None:
            if isinstance(got, Result):
                tokens = sum(meta.get("completion_tokens", 0) for meta in got.meta)
                greedy = call.params.temperature == 0
                place[at] = Made(call.name, got.texts, tokens, greedy)
                if self._as_text:
                    got = replace(got, segments=())
            sink(got)

        return self._executor.generate(call, take)

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        with self._lock:
            self.work.calls.append(call)
        return self._executor.score(call, sink)

    @property
    def tokenizer_id(self) -> str:
        return self._executor.tokenizer_id

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        return self._executor.encode(segments)

    def flush_cache(self) -> int:
        return self._executor.flush_cache()

    def server_info(self) -> dict[str, Any]:
        return self._executor.server_info()
