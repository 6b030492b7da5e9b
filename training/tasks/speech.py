"""What people say in ten languages: clauses, questions, things to do, and the commonest words of each language."""

from __future__ import annotations

from typing import NamedTuple

from ..tables import table

DATA = table("speech")


class Speech(NamedTuple):
    """clauses stand alone or with a word of `joins` between two; `wishes` take a phrase of `deeds` as {v}.

    The first of the joins needs no comma before it. words: loose ones, for texts that are no sentence.
    """

    clauses: tuple[str, ...]
    questions: tuple[str, ...]
    joins: tuple[str, ...]
    wishes: tuple[str, ...]
    deeds: tuple[str, ...]
    words: tuple[str, ...]


SPEECH = DATA.get("speech", dict[str, Speech])
