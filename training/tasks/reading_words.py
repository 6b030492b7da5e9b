"""The forms in which a text and a question are handed over, for `alternatives.expand`; {p} text, {q} question.

The UNSEEN ones are for the evaluation only.
"""

from __future__ import annotations

from random import Random

from ..alternatives import expand
from ..tables import Texts, table

DATA = table("reading_words")

READ_ASKS = DATA.get("read_asks", Texts)
BRIEF_READ_ASKS = DATA.get("brief_read_asks", Texts)
DOCUMENT_ASKS = DATA.get("document_asks", Texts)
CITED_ASKS = DATA.get("cited_asks", Texts)
UNSEEN_READ_ASKS = DATA.get("unseen_read_asks", Texts)
UNSEEN_DOCUMENT_ASKS = DATA.get("unseen_document_asks", Texts)
WHICH_ASKS = DATA.get("which_asks", Texts)


def handed_over(rng: Random, templates: tuple[str, ...], text: str, question: str) -> str:
    """The text and the question in one request."""
    frame = expand(rng, rng.choice(templates))
    return frame.replace("{q}", question).replace("{p}", text)
