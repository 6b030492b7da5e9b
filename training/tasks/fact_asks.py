"""How lists, paragraphs, checks and follow-ups about facts are asked for: templates with alternatives."""

from __future__ import annotations

from ..tables import Texts, table

DATA = table("fact_asks")

CHECK_STARTS = DATA.get("check_starts", Texts)
CHECK_BEFORE = DATA.get("check_before", Texts)
CHECK_AFTER = DATA.get("check_after", Texts)
BARE_AFTER = DATA.get("bare_after", Texts)
TRUTH_LEADS = DATA.get("truth_leads", Texts)
SIGHT_ASKS = DATA.get("sight_asks", Texts)
KIND_ASKS = DATA.get("kind_asks", Texts)
ABOUT_ASKS = DATA.get("about_asks", Texts)
AND_ASKS = DATA.get("and_asks", Texts)
AND_ASKS_UNSEEN = DATA.get("and_asks_unseen", Texts)
TURN_OPENINGS = DATA.get("turn_openings", Texts)
TURN_ENDS = DATA.get("turn_ends", Texts)
SIGHT_THENS = DATA.get("sight_thens", Texts)
CHOICE_LEADS = DATA.get("choice_leads", Texts)
COUNTRY_ASKS = DATA.get("country_asks", Texts)
PLANET_ASKS = DATA.get("planet_asks", str)
TWO_ASKS = DATA.get("two_asks", Texts)
TWO_THINGS_ASKS = DATA.get("two_things_asks", Texts)
ONE_ASKS = DATA.get("one_asks", Texts)
