"""What sentences on a topic are about: things, deeds and whole clauses, in everyday words."""

from __future__ import annotations

from typing import NamedTuple

from ..tables import table

DATA = table("topic_words")


class Matter(NamedTuple):
    """What a topic is made of.

    things: noun phrases. deeds: what anybody may have done, in the past. clauses: they stand alone or after "that".
    """

    things: tuple[str, ...]
    deeds: tuple[str, ...]
    clauses: tuple[str, ...]


MATTERS = DATA.get("matters", dict[str, Matter])
