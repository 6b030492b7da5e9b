"""Which clauses, in which order, tell a word problem of each structure."""

from __future__ import annotations

from ..tables import Groups, Texts, table
from .problem_clauses import CROWDS, OWN, PLACE, PURSE, SHOP

DATA = table("problem_plots")

PLOTS = DATA.get("plots", Groups)
EVENTS = frozenset(("gain", "lose", "morepacks", "share", "fill", "halve", "sharerest", "fillrest",
                    "item", "pays"))
WORLDS = (OWN, PLACE, *CROWDS, PURSE, SHOP)
TALES = DATA.get("tales", dict[str, tuple[tuple[Texts, ...], ...]])
