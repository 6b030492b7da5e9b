"""Answering from a given passage or from documents, and saying when the answer is not there: the forms of prompt."""

from __future__ import annotations

from random import Random

from .. import forms
from ..alternatives import expand
from ..items import JOINT, Item, Passage
from .material import Material, asked, documents_material, material, on_side, told, told_each
from .passages import Asked
from .reading_words import (
    BRIEF_READ_ASKS,
    CITED_ASKS,
    DOCUMENT_ASKS,
    READ_ASKS,
    UNSEEN_DOCUMENT_ASKS,
    UNSEEN_READ_ASKS,
    WHICH_ASKS,
    handed_over,
)


def question(rng: Random, *, answered: bool | None = None, unseen: bool = False) -> Item:
    """A passage and a question about it in one request."""
    made = material(rng)
    ask = asked(rng, made, answered=answered, unseen=unseen)
    passage = told(rng, made)
    brief = not unseen and rng.random() < 0.2
    templates = UNSEEN_READ_ASKS if unseen else BRIEF_READ_ASKS if brief else READ_ASKS
    text = handed_over(rng, templates, passage, ask.question)
    return Item(made.key, text, ask.short, ask.short if brief else ask.full, f"{passage}\nQuestion: {ask.question}",
                ("Passage", "Answer"))


def answered_unseen(rng: Random) -> Item:
    """In wordings that training never has; the passage holds the answer."""
    return question(rng, answered=True, unseen=True)


def absent_unseen(rng: Random) -> Item:
    return question(rng, answered=False, unseen=True)


def answered(rng: Random) -> Item:
    return question(rng, answered=True)


def absent(rng: Random) -> Item:
    return question(rng, answered=False)


def numbered(rng: Random, made: Material) -> tuple[str, dict[str, str]]:
    """The numbered documents, and the mark of the one that tells of each thing or event."""
    told_of = told_each(rng, made)
    head, mark = rng.choice((("[{}] ", "[{}]"), ("[{}] ", "[{}]"), ("[{}]\n", "[{}]"), ("Document {}: ", "[{}]"),
                             ("Document [{}]: ", "[{}]")))
    gap = rng.choice(("\n", "\n", "\n\n"))
    texts = gap.join(head.replace("{}", str(i)) + text for i, (_, text) in enumerate(told_of, 1))
    return texts, {name: mark.replace("{}", str(i)) for i, (names, _) in enumerate(told_of, 1) for name in names}


def documents(rng: Random, *, answered: bool | None = None, unseen: bool = False) -> Item:
    """Numbered documents and a question, the document cited if that is asked for."""
    made = documents_material(rng)
    texts, marks = numbered(rng, made)
    ask = asked(rng, made, answered=answered, unseen=unseen)
    cited = not unseen and rng.random() < 0.3
    words = expand(rng, rng.choice(CITED_ASKS)).replace("{q}", ask.question) if cited else ask.question
    mark = f" {marks[ask.where]}" if cited and ask.where else ""
    text = handed_over(rng, UNSEEN_DOCUMENT_ASKS if unseen else DOCUMENT_ASKS, texts, words)
    return Item(made.key, text, ask.short + mark, ask.full + mark, f"{texts}\nQuestion: {words}",
                ("Documents", "Answer"))


HAND_OVERS = (("Read this text. I will ask about it.\n\n{p}", "I have read it. What would you like to know?"),
              ("{p}", "Thank you. What would you like to know?"), ("Here is a text.\n\n{p}", "I have read it."),
              ("I will ask questions about this:\n{p}", "I am ready for your questions."),
              ("Please remember this:\n\n{p}", "I will remember it."))
READ_SYSTEMS = ("Answer from this text.\n\n{p}", "{p}", "Text:\n{p}", "You answer questions about this text:\n{p}",
                "You know only this: {p}", "Use the following context to answer.\n\n{p}",
                "You are a helpful assistant. Answer from the text below.\n\n{p}")
BRIEFLY = ("Answer briefly.", "Give short answers.", "Answer with words from the text only.", "Be brief.")


def several(rng: Random) -> Passage:
    """A chat of several questions about one passage, which is in the system line or in the first turn."""
    made = material(rng)
    brief = rng.random() < 0.35
    turns = [(ask.question, ask.short if brief else ask.full) for ask in _questions(rng, made, rng.randint(2, 7))]
    return _chat_about(rng, made, told(rng, made), turns, rng.choice(BRIEFLY) if brief else "", READ_ASKS)


def _questions(rng: Random, made: Material, count: int) -> list[Asked]:
    """So many questions or less, no two of them the same."""
    return list({ask.question: ask for ask in (asked(rng, made) for _ in range(count))}.values())


def _chat_about(rng: Random, made: Material, text: str, turns: list[tuple[str, str]], words: str,
                templates: tuple[str, ...]) -> Passage:
    """words: how to answer, for the system line."""
    where = rng.random()
    if where < 0.4:
        system = f"{rng.choice(READ_SYSTEMS).replace('{p}', text)}\n\n{words}".rstrip()
        return Passage(made.key, forms.chat(turns, system))
    if where < 0.7:
        request, reply = rng.choice(HAND_OVERS)
        turns = [(request.replace("{p}", text), reply), *turns]
    else:
        turns = [(handed_over(rng, templates, text, turns[0][0]), turns[0][1]), *turns[1:]]
    return Passage(made.key, forms.chat(turns, words))


CITE_SYSTEMS = ("Cite the document.", "Name the source of every answer.", "Give the number of the document.",
                "Add the source to each answer.", "Always cite the document.")


def several_documents(rng: Random) -> Passage:
    """A chat of several questions about documents; half of the time each answer names its document."""
    made = documents_material(rng)
    texts, marks = numbered(rng, made)
    cited = rng.random() < 0.5
    turns = [(ask.question, f"{ask.full} {marks[ask.where]}" if cited and ask.where else ask.full)
             for ask in _questions(rng, made, rng.randint(3, 8))]
    return _chat_about(rng, made, texts, turns, rng.choice(CITE_SYSTEMS) if cited else "", DOCUMENT_ASKS)


def sources(rng: Random) -> Passage:
    """A chat about documents in which the user asks which one said it."""
    made = documents_material(rng)
    texts, marks = numbered(rng, made)
    turns = []
    for _ in range(rng.randint(2, 6)):
        ask = asked(rng, made, answered=rng.random() < 0.85)
        turns.append((ask.question, ask.full))
        if ask.where:
            turns.append((expand(rng, rng.choice(WHICH_ASKS)), marks[ask.where]))
    turns[0] = (handed_over(rng, DOCUMENT_ASKS, texts, turns[0][0]), turns[0][1])
    return Passage(made.key, forms.chat(turns))


LABELS = (("Passage", "Question", "Answer"), ("Passage", "Question", "Answer"), ("Text", "Question", "Answer"),
          ("Context", "Question", "Answer"), ("Text", "Q", "A"), ("Passage", "Q", "A"), ("Context", "Q", "A"),
          ("Article", "Question", "Answer"), ("Information", "User", "Assistant"))
READ_LEADS = ("", "", "", "Read the text and answer the question.\n\n", "Answer from the text.\n\n",
              "Answer the questions about the text. If the text does not say, say so.\n\n")


def plain(rng: Random) -> Passage:
    """Labeled lines: one to four passages, each with a question or a few."""
    labels = rng.choice(LABELS)
    gap = rng.choice(("\n", "\n", "\n\n"))
    scenes = [on_side(material, rng) for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4)))]
    each = rng.choice((1, 2, 3, 4, 5, 6))
    blocks = []
    for made in scenes:
        lines = [f"{labels[0]}: {told(rng, made)}"]
        for ask in _questions(rng, made, each):
            lines.append(f"{labels[1]}: {ask.question}\n{labels[2]}:{JOINT} {ask.short}")
        blocks.append(gap.join(lines))
    return Passage("+".join(made.key for made in scenes), rng.choice(READ_LEADS) + "\n\n".join(blocks))


def documents_answered(rng: Random) -> Item:
    return documents(rng, answered=True)


def documents_absent(rng: Random) -> Item:
    return documents(rng, answered=False)


def documents_answered_unseen(rng: Random) -> Item:
    return documents(rng, answered=True, unseen=True)
