"""How people ask for the day of a character, for an hour of it, for the weight of a memory, for what is remembered."""

from __future__ import annotations

from ..tables import Texts, table

DATA = table("plan_words")

PLAN_ASKS = DATA.get("plan_asks", Texts)
UNSEEN_PLAN_ASKS = DATA.get("unseen_plan_asks", Texts)
JSON_ASKS = DATA.get("json_asks", Texts)
HOUR_ASKS = DATA.get("hour_asks", Texts)
NEXT_ASKS = DATA.get("next_asks", Texts)
RATING_ASKS = DATA.get("rating_asks", Texts)
UNSEEN_RATING_ASKS = DATA.get("unseen_rating_asks", Texts)
REMEMBER_LEADS = DATA.get("remember_leads", Texts)
REMEMBER_ASKS = DATA.get("remember_asks", Texts)
