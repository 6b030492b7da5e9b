"""Recorded work of a run, to verify equal work of two runs: a recording executor and a comparison.
Measures no time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from ..errors import printable
from ..lang.executor import Call, Delta, Executor, Result, ScoreCall, Scores
from ..segment import Segment
from ..viz.state.lanes import in_order

AROUND = 24
"""Characters of each text shown at a difference."""

Same = Literal["text", "tokens"]
"""Criterion for equal work: equal text, or only equal numbers of tokens."""


class CallResult(NamedTuple):
    """Result of a call."""

    name: str
    texts: tuple[str, ...]
    tokens: int
    greedy: bool


@dataclass
class Work:
    """All calls and results of a run, independent of the order of execution."""

    calls: list[Call | ScoreCall] = field(default_factory=list)
    results: dict[str, list[CallResult]] = field(default_factory=dict)  # by branch
    rows: list[str] = field(default_factory=list)  # final text of each row

    @property
    def generations(self) -> list[Call]:
        return [call for call in self.calls if isinstance(call, Call)]

    @property
    def tokens(self) -> int:
        """Return the number of generated tokens."""
        return sum(generation.tokens for branch in self.results.values() for generation in branch)

    def difference(self, other: Work, same: Same = "text", repeatable: bool = True) -> str:
        """Return the first difference from `other`, or "" for equal work.

        Args:
            other: Work of the unmodified program.
            same: Criterion for equal work.
            repeatable: True if a seed gives the same samples in both runs.
        """
        if len(self.calls) != len(other.calls):
            return f"{len(self.calls):,} calls instead of {len(other.calls):,}"
        for branch in sorted({*self.results, *other.results}, key=in_order):
            ours, theirs = self.results.get(branch, []), other.results.get(branch, [])
            for here, there in zip(ours, theirs, strict=False):
                where = f"branch {branch}, {printable(here.name or 'gen')}"
                exact = same == "text" and (repeatable or there.greedy)
                if exact and here.texts != there.texts:
                    return f"{where}, {_texts(''.join(here.texts), ''.join(there.texts))}"
                if not exact and here.tokens != there.tokens:
                    return f"{where}: {here.tokens} tokens instead of {there.tokens}"
            if len(ours) != len(theirs):
                return f"branch {branch}: {len(ours)} generations instead of {len(theirs)}"

        greedy = all(call.params.temperature == 0 for call in other.generations)
        if same == "text" and (repeatable or greedy):
            for row, (text, expected) in enumerate(zip(self.rows, other.rows, strict=True)):
                if text != expected:
                    return f"row {row}, {_texts(text, expected)}"
        return ""


def _texts(here: str, there: str) -> str:
    pairs = enumerate(zip(here, there, strict=False))
    at = next((i for i, (x, y) in pairs if x != y), min(len(here), len(there)))
    shown = [repr(text[at : at + AROUND]) for text in (here, there)]
    return f"character {at}: {shown[0]} instead of {shown[1]}"


class RecordingExecutor:
    """Executor that records each call in `work`.

    Args:
        executor: Executor to call.
        as_text: Drop output tokens, so that prompts contain generated text like calls to a server.
    """

    def __init__(self, executor: Executor, as_text: bool = False) -> None:
        self.chat, self.log = executor.chat, executor.log
        self.special_tokens = executor.special_tokens
        self.work = Work()
        self._executor, self._as_text = executor, as_text
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        """Return an optional attribute of the executor, such as `room` or `model_name`."""
        return getattr(self._executor, name)

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        with self._lock:
            self.work.calls.append(call)
            results = self.work.results.setdefault(call.branch, [])
            results.append(CallResult(call.name, (), 0, True))
            index = len(results) - 1

        def receive(event: Delta | Result) -> None:
            if isinstance(event, Result):
                tokens = sum(meta.get("completion_tokens", 0) for meta in event.meta)
                greedy = call.params.temperature == 0
                results[index] = CallResult(call.name, event.texts, tokens, greedy)
                if self._as_text:
                    event = replace(event, segments=())
            sink(event)

        return self._executor.generate(call, receive)

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
