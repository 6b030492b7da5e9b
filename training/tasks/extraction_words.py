"""Everyday words that people and orders are told with: names, jobs, hobbies, wares; many, to learn copying."""

from __future__ import annotations

from ..tables import Texts, table
from .invented import CITIES, GOODS, HOBBIES, JOBS

DATA = table("extraction_words")

WOMEN = DATA.get("women", Texts)
MEN = DATA.get("men", Texts)
LAST_NAMES = DATA.get("last_names", Texts)
MORE_CITIES = DATA.get("more_cities", Texts)
TOWNS = (*CITIES, *MORE_CITIES)
MORE_JOBS = DATA.get("more_jobs", Texts)
TRADES = (*JOBS, *MORE_JOBS)
MORE_HOBBIES = DATA.get("more_hobbies", Texts)
PASTIMES = (*HOBBIES, *MORE_HOBBIES)
MORE_GOODS = DATA.get("more_goods", Texts)
WARES = (*GOODS, *MORE_GOODS)
LOOKS = DATA.get("looks", Texts)
