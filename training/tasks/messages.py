"""The words and sentence forms of everyday sentences and messages that are told apart by form, tone or purpose."""

from __future__ import annotations

from ..tables import Groups, Texts, table

DATA = table("messages")

DEEDS = DATA.get("deeds", tuple[Texts, ...])
SUBJECTS = DATA.get("subjects", Texts)
AGO = DATA.get("ago", Texts)
OFTEN = DATA.get("often", Texts)
LATER = DATA.get("later", Texts)
DEED_FRAMES = DATA.get("deed_frames", Groups)
TENSE_FRAMES = DATA.get("tense_frames", Groups)
MATTERS = DATA.get("matters", Texts)
SURNAMES = DATA.get("surnames", Texts)
HOURS = DATA.get("hours", Texts)
DAYS = DATA.get("days", Texts)
GIFTS = DATA.get("gifts", Texts)
TROUBLES = DATA.get("troubles", Texts)
TRIFLES = DATA.get("trifles", Texts)
EVENTS = DATA.get("events", Texts)
GOODS = DATA.get("goods", Texts)
COUNTS = DATA.get("counts", Texts)
CAUSES = DATA.get("causes", Texts)
MESSAGES = DATA.get("messages", dict[str, Groups])
WORDS = DATA.get("word_lists", Groups)
