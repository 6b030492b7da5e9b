"""Lists of tips and of points, a paragraph for each of them, summaries, titles, rewriting."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import sgnb as sgl

from ..items import Draw, Item, draw
from ..tasks import writing
from ..tips import SUBJECTS, TIPS
from .base import Case, Suite, ask, chat, exact


def _is_list(answer: str, known: set[str], count: int) -> bool:
    """As many lines as wanted, numbered, different, and all of them known."""
    lines = [line.partition(". ") for line in answer.strip().splitlines()]
    titles = {title.lower() for _, _, title in lines}
    numbers = [number for number, _, _ in lines]
    return numbers == [str(i + 1) for i in range(count)] and len(titles) == count and titles <= known


def tips_of(answer: str, want: str) -> bool:
    """A list of tips of the wanted topic."""
    topic, count = want.split("/")
    return _is_list(answer, {tip.title.lower() for tip in TIPS[topic]}, int(count))


def points_of(answer: str, want: str) -> bool:
    """A list of points of the wanted subject, all of the side of the wanted ones."""
    subject = next(s for s in SUBJECTS if s.name == want.split("/")[0])
    titles = want.split("/")[1:]
    side = subject.good if titles[0] in {point.title for point in subject.good} else subject.bad
    return _is_list(answer, {point.title.lower() for point in side}, len(titles))


def tip_list(make: Draw, rng: Random) -> Case:
    """The question is one that training asks too: what is judged is the list, which is drawn anew each time."""
    item = make(rng)
    topic = item.key.split("/")[1]
    return Case(ask(item.ask), f"{topic}/{len(item.short.splitlines())}", ())


def point_list(make: Draw, rng: Random) -> Case:
    """As with tips, the question is common and the list is judged."""
    item = make(rng)
    return Case(ask(item.ask), item.key.partition("/")[2], ())


@sgl.function
def expand(s: Any, case: Any, stop: str) -> str:
    """A list, then a branch for each of its points, all at the same time."""
    s += case.prompt
    branches = s.fork(len(case.want.splitlines()))
    branches += lambda i: f"\n\nExpand tip {i + 1}:"
    branches += sgl.gen("paragraph", max_tokens=80, stop=stop)
    branches.join()
    return "\n".join(str(paragraph).strip() for paragraph in s["paragraph"])


def _listed(rng: Random) -> Item:
    topic, tips = writing.choose(rng)
    text = "\n".join(writing.paragraph(tip) for tip in tips)
    return Item(writing.list_key(topic, tips), writing.shown_list(rng, topic, tips), text, text)


def paragraphs(rng: Random) -> Case:
    """A list that training never saw in this order; every paragraph has to belong to its tip."""
    item = draw(_listed, rng, from_held_out=True)
    return Case(item.ask, item.short, (item.key,))


SUITES = (
    Suite("a list of tips (question not held out): right count, right topic, no repeats",
          partial(tip_list, writing.tip_list), tips_of, bar=0.95),
    Suite("a list of tips, phrasing never seen", partial(tip_list, writing.tip_list_unseen), tips_of, bar=0.85),
    Suite("a list, then a branch for each tip: every paragraph is that of its tip", paragraphs, exact, "\n", bar=0.9,
          program=expand),
    Suite("advantages or disadvantages (question not held out)", partial(point_list, writing.points), points_of,
          bar=0.95),
    Suite("advantages or disadvantages, phrasing never seen", partial(point_list, writing.points_unseen), points_of,
          bar=0.85),
    Suite("summary of a text, chat", chat(writing.text_summary), exact, bar=0.9),
    Suite("summary of a text, phrasing never seen", chat(writing.text_summary_unseen), exact, bar=0.8),
    Suite("title for a text, chat", chat(writing.text_title), exact, bar=0.9),
    Suite("rewriting a sentence, chat", chat(writing.rewriting), exact, bar=0.92),
    Suite("rewriting a sentence, phrasing never seen", chat(writing.rewriting_unseen), exact, bar=0.8),
)
