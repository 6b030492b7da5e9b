"""Wordings of requests to extract fields from a text. `{f}` stands for the fields, `{s}` for the text."""

from __future__ import annotations

from ..tables import Texts, table
from .json_text import Frames

DATA = table("extraction_requests")

FRAMES = DATA.get("frames", Frames)
UNSEEN_FRAMES = DATA.get("unseen_frames", Frames)
"""Wordings that only the evaluation uses."""
LIST_ASKS = DATA.get("list_asks", Texts)
TEXT_FORMS = DATA.get("text_forms", Texts)
SYSTEMS = DATA.get("systems", Texts)
