"""How people ask for a judgement of an essay, whether it is one, what it is about, and for the merge of judgements."""

from __future__ import annotations

from ..tables import Texts, table

DATA = table("essay_words")

JUDGE_ASKS = DATA.get("judge_asks", Texts)
UNSEEN_JUDGE_ASKS = DATA.get("unseen_judge_asks", Texts)
VALID_ASKS = DATA.get("valid_asks", Texts)
ABOUT_ASKS = DATA.get("about_asks", Texts)
MERGE_ASKS = DATA.get("merge_asks", Texts)
UNSEEN_MERGE_ASKS = DATA.get("unseen_merge_asks", Texts)
