"""How people ask about numbers: templates with alternatives in brackets."""

from __future__ import annotations

from ..tables import Groups, Texts, table

DATA = table("number_words")

ASKS = DATA.get("asks", Texts)
OWN_ASKS = DATA.get("own_asks", Groups)
UNSEEN_ASKS = DATA.get("unseen_asks", Texts)
UNSEEN_OWN_ASKS = DATA.get("unseen_own_asks", Groups)
STEP_ASKS = DATA.get("step_asks", Texts)
UNSEEN_STEP_ASKS = DATA.get("unseen_step_asks", Texts)
BIGGER = DATA.get("bigger", str)
LESSER = DATA.get("lesser", str)
TWO = DATA.get("two", Texts)
LARGER = (*(ask.replace("{w}", BIGGER) for ask in TWO), "What is the maximum of {x} and {y}?",
          "[Max|Maximum] of {x} and {y}?",
          "Which of the two is more, {x} or {y}?", "[Which|What] is more, {x} or {y}?", "{x} or {y}, what is more?")
SMALLER = (*(ask.replace("{w}", LESSER) for ask in TWO), "What is the minimum of {x} and {y}?",
           "[Min|Minimum] of {x} and {y}?",
           "Which of the two is less, {x} or {y}?", "[Which|What] is less, {x} or {y}?", "{x} or {y}, what is less?")
GREATER_THAN = DATA.get("greater_than", Texts)
LESS_THAN = DATA.get("less_than", Texts)
MOST = DATA.get("most", Texts)
LARGEST = (*(ask.replace("{w}", "[largest|greatest|biggest|highest]") for ask in MOST), "What is the maximum of {s}?",
           "Maximum: {s}",
           "Which is the most: {s}?")
SMALLEST = (*(ask.replace("{w}", "[smallest|lowest]") for ask in MOST), "What is the minimum of {s}?", "Minimum: {s}",
            "Which is the least: {s}?")
ORDERS = DATA.get("orders", Texts)
BY_UP = DATA.get("by_up", str)
BY_DOWN = DATA.get("by_down", str)
UP = DATA.get("up", str)
DOWN = DATA.get("down", str)
PLAIN_ORDERS = DATA.get("plain_orders", Texts)
ASCENDING = (*(ask.replace("{d}", UP).replace("{k}", BY_UP) for ask in ORDERS), *PLAIN_ORDERS)
DESCENDING = tuple(ask.replace("{d}", DOWN).replace("{k}", BY_DOWN) for ask in ORDERS)
UNSEEN_LARGER = DATA.get("unseen_larger", Texts)
UNSEEN_SMALLER = DATA.get("unseen_smaller", Texts)
UNSEEN_ASCENDING = DATA.get("unseen_ascending", Texts)
PARITY = DATA.get("parity", Texts)
AFTER = DATA.get("after", Texts)
BEFORE = DATA.get("before", Texts)
CONTINUE = DATA.get("continue", Texts)
CONTINUE_ONE = DATA.get("continue_one", Texts)
