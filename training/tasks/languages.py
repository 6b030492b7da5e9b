"""Everyday sentences in ten languages, as frames and the whole phrases that fill them, the same ones in each."""

from __future__ import annotations

from typing import NamedTuple

from ..tables import table

DATA = table("languages")


class Language(NamedTuple):
    """frames take a thing {o} (as an object), a place {p} (where?), a time {t} and a person {w} (as the subject)."""

    hello: tuple[str, ...]
    fixed: tuple[str, ...]
    frames: tuple[str, ...]
    things: tuple[str, ...]
    places: tuple[str, ...]
    times: tuple[str, ...]
    people: tuple[str, ...]


LANGUAGES = DATA.get("languages", dict[str, Language])
