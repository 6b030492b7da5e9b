"""Cases as people write them, in no template of ours: the hardest part of the evaluation."""

from __future__ import annotations

from typing import Any

from ..tables import Texts, table

DATA = table("own_words")
Rows = tuple[tuple[str, str], ...]

# Question / what the answer must contain: the earlier set.
QUESTIONS = DATA.get("questions", Rows)

# Question about a fact / what the answer must contain.
FACTS = DATA.get("facts", Rows)

# Addition or subtraction without a story / what the answer must contain.
SUMS = DATA.get("sums", Rows)

# Problem in two steps / what the answer must contain.
PROBLEMS = DATA.get("problems", Rows)

# Review / positive or negative.
REVIEWS = DATA.get("reviews", Rows)

# Sentence / its topic.
HEADLINES = DATA.get("headlines", Rows)

# Sentence / its language.
LANGUAGES = DATA.get("languages", Rows)

# Passage / question it answers / what the answer must contain / question it does not answer.
PASSAGES = DATA.get("passages", tuple[Texts, ...])

# Sentence / the fields in it.
EXTRACT = DATA.get("extract", tuple[tuple[str, dict[str, Any]], ...])

# What the user tells / what the user asks later / what the answer must contain.
MEMORY = DATA.get("memory", tuple[Texts, ...])
