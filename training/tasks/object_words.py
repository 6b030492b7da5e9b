"""Wordings of requests for JSON about the world's things. `{s}` is the thing, `{f}` the fields, `{k}` the kind."""

from __future__ import annotations

from ..tables import Groups, Texts, table
from .json_text import Frames

DATA = table("object_words")

FRAMES = DATA.get("frames", Frames)
UNSEEN_FRAMES = DATA.get("unseen_frames", Frames)
"""Wordings that only the evaluation uses."""
LIST_ASKS = DATA.get("list_asks", Groups)
TEXT_LEADS = DATA.get("text_leads", Texts)
FORMAT_SYSTEMS = DATA.get("format_systems", Texts)
FOLLOW_UPS = DATA.get("follow_ups", Texts)
