"""The words and sentence forms of reviews, and of sentences and headlines on a topic: tables, `|` between values."""

from __future__ import annotations

from typing import NamedTuple

from ..tables import Groups, Texts, table

DATA = table("sentences")


class Topic(NamedTuple):
    """who did: a sentence in the past. who does: a headline. about: what a talk or a book may be about."""

    who: tuple[str, ...]
    did: tuple[str, ...]
    does: tuple[str, ...]
    about: tuple[str, ...]


PRODUCTS = DATA.get("products", Groups)

GOOD = DATA.get("good", Texts)
BAD = DATA.get("bad", Texts)
PLAIN_GOOD = DATA.get("plain_good", Texts)
PLAIN_BAD = DATA.get("plain_bad", Texts)
DENIALS = DATA.get("denials", Texts)

FITTING = DATA.get("fitting", dict[str, tuple[Texts, ...]])

SHARED_REVIEWS = DATA.get("shared_reviews", Texts)
GOOD_REVIEWS = DATA.get("good_reviews", Texts)
BAD_REVIEWS = DATA.get("bad_reviews", Texts)
GOOD_TURNS = DATA.get("good_turns", Texts)
BAD_TURNS = DATA.get("bad_turns", Texts)
TOSS_UPS = DATA.get("toss_ups", Texts)

TOPICS = DATA.get("topics", dict[str, Topic])
TOPIC_REPORTS = DATA.get("topic_reports", Texts)
TOPIC_TALK = DATA.get("topic_talk", Texts)
HEADLINES = DATA.get("headlines", Texts)
WHEN = DATA.get("when", Texts)
ENDS = DATA.get("ends", Texts)
TAILS = DATA.get("tails", Texts)
