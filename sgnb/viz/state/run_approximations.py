"""Approximate answers of a run, and their comparison with exact runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...events import AnswerSpliced, AnswerVerified
from ...events.verdict import verdict
from .metrics import duration
from .token_table import visible

SHOWN_ANSWERS = 3
"""Answers with a line each. More answers have a common line."""

SHOWN_TEXT = 200
"""Characters of an exact answer."""


@dataclass(slots=True)
class ApproximateAnswer:
    """An approximate answer; `verified` is None before the comparison."""

    spliced: AnswerSpliced
    verified: AnswerVerified | None = None

    @property
    def status(self) -> str:
        return "pending" if self.verified is None else self.verified.status

    def verdict(self) -> str:
        """Return the comparison as a part of a sentence."""
        result = self.verified
        if result is None:
            return verdict(self.status, None, "", "", "")
        text = visible(result.text[:SHOWN_TEXT].replace("\n", " "))
        text += "…" * (len(result.text) > SHOWN_TEXT)
        return verdict(self.status, result, result.reason, duration(result.seconds), text)


@dataclass(slots=True)
class RunApproximations:
    """Approximate answers by engine and request."""

    answers: dict[tuple[int, int], ApproximateAnswer] = field(default_factory=dict)

    def apply(self, engine: int, event: AnswerSpliced | AnswerVerified, runs: bool) -> bool:
        """Apply an event. Returns whether the event belongs to the run. runs: the request is a
        running request of the run."""
        key = engine, event.request
        if isinstance(event, AnswerVerified):
            if key in self.answers:
                self.answers[key].verified = event
        elif runs:
            self.answers[key] = ApproximateAnswer(event)
        return key in self.answers

    @property
    def pending(self) -> bool:
        """True if a comparison is to come."""
        return any(answer.verified is None for answer in self.answers.values())

    def line(self) -> str:
        """Return the answers as text, or "" without any. Twin of `wordsOfSplices` of the page."""
        answers = list(self.answers.values())
        if len(answers) <= SHOWN_ANSWERS:
            return "\n".join(
                f"approximate: computed {answer.spliced.computed:,} of "
                f"{answer.spliced.prompt_tokens:,} tokens; {answer.verdict()}"
                for answer in answers
            )

        computed = sum(answer.spliced.computed for answer in answers)
        prompt = sum(answer.spliced.prompt_tokens for answer in answers)
        words = {
            "same": "verified",
            "differs": "different",
            "unverified": "unverified",
            "pending": "not verified yet",
        }
        counts = {status: sum(a.status == status for a in answers) for status in words}
        parts = [f"{counts[status]} {word}" for status, word in words.items() if counts[status]]
        return (
            f"{len(answers)} approximate answers: computed {computed:,} of {prompt:,} tokens; "
            f"{', '.join(parts)}"
        )
