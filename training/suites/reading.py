"""Answers from a given text, and texts that do not hold the answer."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from .. import forms
from ..items import JOINT, Draw, draw
from ..tasks import reading
from ..tasks.material import asked, documents_material, material, on_side, told
from ..tasks.passages import NOT_SAID
from .base import Case, Suite, chat, contains, exact


def says(answer: str, want: str) -> bool:
    """The wanted words, as whole words, in an answer that does not give up; and the mark of the document, if wanted."""
    words, bracket, mark = want.partition(" [")
    return NOT_SAID not in answer and contains(answer, words) and bracket + mark in answer


def after_examples(make: Draw) -> Callable[[Random], Case]:
    """Labeled lines: a text that holds an answer, one that does not, then the text of the question."""

    def case(rng: Random) -> Case:
        before = [draw(reading.answered, rng), draw(reading.absent, rng)]
        item = draw(make, rng, from_held_out=True)
        shots = [forms.shot(shown, shown.labels, short=True) for shown in (*before, item)]
        return Case("\n\n".join(shots).rpartition(JOINT)[0].replace(JOINT, ""), item.short, (item.key,))

    return case


def fifth_question(rng: Random) -> Case:
    """The text in the system line, four questions about it with their answers, then one that it answers."""
    made = on_side(material, rng, from_held_out=True)
    last = asked(rng, made, answered=True)
    turns = [(ask.question, ask.full) for ask in (*(asked(rng, made) for _ in range(4)), last)]
    prompt = forms.chat(turns, f"Answer from this text.\n\n{told(rng, made)}").rpartition(JOINT)[0]
    return Case(prompt.replace(JOINT, ""), last.short, (made.key,))


def source(rng: Random) -> Case:
    """Documents, a question and its answer, then which document it was."""
    made = on_side(documents_material, rng, from_held_out=True)
    texts, marks = reading.numbered(rng, made)
    ask = asked(rng, made, answered=True)
    turns = [(f"Answer from the documents.\n\n{texts}\n\n{ask.question}", ask.full), ("Which document says it?", "")]
    prompt = forms.chat(turns).rpartition(JOINT)[0].replace(JOINT, "")
    return Case(prompt, marks[ask.where], (made.key,))


SUITES = (
    Suite("answers from a passage, chat", chat(reading.answered), says, bar=0.92),
    Suite("answers from a passage, chat, phrasing never seen", chat(reading.answered_unseen), says),
    Suite("answers from a passage, after two examples", after_examples(reading.answered), exact, "\n", bar=0.92),
    Suite("answers from a passage, the fifth question about it", fifth_question, says, bar=0.92),
    Suite("answers from documents, chat", chat(reading.documents_answered), says, bar=0.92),
    Suite("answers from documents, chat, phrasing never seen", chat(reading.documents_answered_unseen), says),
    Suite("which document says it", source, exact),
    Suite("no answer in the passage, chat", chat(reading.absent), exact, bar=0.85),
    Suite("no answer in the passage, chat, phrasing never seen", chat(reading.absent_unseen), exact),
    Suite("no answer in the passage, after two examples", after_examples(reading.absent), exact, "\n", bar=0.85),
    Suite("no answer in the documents, chat", chat(reading.documents_absent), exact, bar=0.85),
)
