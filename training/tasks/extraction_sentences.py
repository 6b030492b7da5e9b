"""Sentences that tell of a person or of an order: templates with alternatives, in every order of the fields."""

from __future__ import annotations

from ..tables import Groups, Texts, table

DATA = table("extraction_sentences")

PERSON_WHOLE = DATA.get("person_whole", Texts)
PERSON_PARTS = DATA.get("person_parts", Groups)
PERSON_ME_WHOLE = DATA.get("person_me_whole", Texts)
PERSON_ME_PARTS = DATA.get("person_me_parts", Groups)
ORDER_WHOLE = DATA.get("order_whole", Texts)
ORDER_PARTS = DATA.get("order_parts", Groups)
PERSON_BRIEF = DATA.get("person_brief", Texts)
ORDER_BRIEF = DATA.get("order_brief", Texts)
"""Clauses of one thing each, for sentences that tell of several things in the same manner."""
