"""Word problems, answered with written-out steps. The same problem has several right ways to write them, and the
generator takes any of them, so that samples of the model differ where their answers agree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from random import Random
from string import Formatter

from ..items import JOINT, Draw, Item, Passage, draw, upper_first, weighted
from ..tables import Texts, table
from .numbers import key, together
from .problem_counts import COUNTS
from .problem_measures import MEASURES
from .problem_others import ONE_STEP, THREE_STEP
from .problem_schema import Schema, Way, words
from .problem_stories import SENTENCE_START, plots, story

DATA = table("problems")

TWO_STEP = COUNTS + MEASURES
SCHEMATA: tuple[tuple[float, Sequence[Schema]], ...] = ((2, ONE_STEP), (6.5, TWO_STEP), (1.5, THREE_STEP))

REQUESTS = ("{q}", "{q}", "{q}", "{q}", "{q}", "{q}", "{q} Think step by step.", "{q} Let's think step by step.",
            "{q}\nLet's think step by step.", "{q}\nThink step by step.", "Think step by step. {q}",
            "Solve this problem: {q}", "Word problem: {q}", "{q} Show your steps.", "{q} Show your work.",
            "{q} Work it out step by step.", "Please solve this. {q}", "Can you help me with this? {q}",
            "Here is a problem. {q}", "Problem: {q}", "{q} Write down each step.", "{q} Explain your answer.",
            "{q} Please calculate it.", "Question: {q}", "{q} Give the steps and the answer.", "Read carefully. {q}",
            "Let's do some math. {q}", "{q} Solve it step by step.", "{q}\n\nShow each step.", "A small puzzle: {q}")
UNSEEN_REQUESTS = ("{q}", "{q} Reason it through before you tell me the number.", "My homework says this. {q}",
                   "{q}\nTake it slowly, one step after the other.")

BESIDE = (
    ("age", "{n} is {x} years old."), ("", "The house of {n} has the number {x}."),
    ("degrees", "It is {x} degrees outside."), ("", "The favorite number of {n} is {x}."),
    ("distance", "The next town is {x} kilometers away."),
    ("people", "There are {x} children in the class of {n}."), ("time", "{n} slept for {x} hours."),
    ("time", "It is {x} minutes after ten."), ("", "{n} knows {x} poems."), ("", "The street has {x} lamps."),
)
BESIDE_OTHERS = (
    ("age", "The brother of {m} is {x} years old."), ("pages", "{m} is on page {x} of a book."),
    ("", "The shirt of {m} has the number {x}."), ("money", "{m} paid {x} dollars for a new hat."),
    ("distance", "{m} lives {x} kilometers from here."), ("age", "The house of {m} is {x} years old."),
)
HARMLESS = ("", "age", "degrees")
"""What no story is about, but for those whose structure says so."""
PLAIN = DATA.get("plain", dict[int, Texts])
STORIES = 0.75
"""The share of problems that are told in clauses put together, where there are any for their structure."""
WORD = re.compile(r"\w+")
NAMED = frozenset(("n", "m", "w", "t", "u", "boxes"))
SAME_AS = {"he": "n", "He": "n", "his": "n", "His": "n", "him": "n", "o": "t", "v": "u", "box": "boxes"}
LABELS = (("Q", "A"), ("Q", "A"), ("Q", "A"), ("Question", "Answer"), ("Problem", "Solution"), ("Problem", "Answer"))


def problem_key(schema: Schema, numbers: dict[str, int]) -> str:
    """A problem is its structure and numbers, whatever the names; a sum in any of its ways may hold it out."""
    given = "/".join(str(numbers[rule[0]]) for rule in schema.rules)
    sums = (key(numbers[left], sign, numbers[right]) for way in schema.ways for _, left, sign, right in way.parsed)
    return together(f"problem/{schema.name}/{given}", *sums)


def equations(rng: Random, way: Way, numbers: dict[str, int]) -> list[str]:
    """`5 * 3 = 15` for each step; what is added or multiplied now and then the other way round."""
    made = []
    for name, left, sign, right in way.parsed:
        if sign in "+*" and rng.random() < 0.25:
            left, right = right, left
        made.append(f"{numbers[left]} {sign} {numbers[right]} = {numbers[name]}")
    return made


@cache
def _named_in(text: str) -> frozenset[str]:
    """Which people and things a template names."""
    return frozenset(SAME_AS.get(name, name) for _, name, _, _ in Formatter().parse(text) if name) & NAMED


def _words_in(text: str, named: dict[str, str]) -> frozenset[str]:
    """Which people and things a story names."""
    there = frozenset(WORD.findall(text))
    return frozenset(slot for slot in NAMED if frozenset(named[slot].split()) <= there and named[slot])


def solution(rng: Random, schema: Schema, known: frozenset[str], numbers: dict[str, int], named: dict[str, str]) -> str:
    """The steps in one of the ways of the schema: bare, or in sentences that name only what is known."""
    way = schema.ways[0] if rng.random() < 0.6 else rng.choice(schema.ways)
    made = equations(rng, way, numbers)
    says = [say for say in way.says if _named_in(say) <= known]
    if named.get("cur", "dollars") != "dollars":
        says = [say for say in says if "dollars" not in say]
    if says and rng.random() < 0.5:
        said = str(rng.choice(says).format(*made, **{**named, **numbers}))
        return SENTENCE_START.sub(lambda found: found.group().upper(), said)
    return str(rng.choice(PLAIN[len(made)]).format(*made))


def _template(rng: Random, schema: Schema, wording: str, values: dict[str, object]) -> str:
    """The problem as told; one in six tells a number beside the point as well."""
    told = wording.format(**values)
    if rng.random() > 1 / 6:
        return told
    start, stop, question = told.rpartition(". ")
    inside = bool(start) and rng.random() < 0.5
    # Inside the story another person would take over the "he" of the question.
    table = BESIDE if inside else BESIDE + BESIDE_OTHERS
    beside = rng.choice([text for about, text in table if not about or about != schema.about])
    sentence = beside.format(x=rng.randint(2, 60), n=values["n"], m=values["m"])
    return f"{start}{stop}{sentence} {question}" if inside else f"{sentence} {told}"


def _with_beside(rng: Random, schema: Schema, told: str, said: dict[str, str]) -> str:
    """The story, one time in eight after a number beside the point."""
    if rng.random() > 1 / 8:
        return told
    table = (BESIDE if said["n"] else ()) + BESIDE_OTHERS
    beside = rng.choice([text for about, text in table if about in HARMLESS and (not about or about != schema.about)])
    return upper_first(f"{beside.format(x=rng.randint(2, 60), n=said['n'], m=said['m'])} {told}")


def make(rng: Random, schemata: Sequence[Schema], *, unseen: bool = False) -> Item:
    """A problem without any request around it; `full` is the steps alone."""
    schema = rng.choice(schemata)
    numbers, named = schema.numbers(rng), words(rng, schema.things)
    own = problem_key(schema, numbers)
    if not unseen and rng.random() < STORIES and plots(schema.name):
        told, said = story(rng, schema, numbers, named)
        solved = solution(rng, schema, _words_in(told, said), numbers, said)
        return Item(own, _with_beside(rng, schema, told, said), str(numbers["r"]), solved)
    wording = rng.choice(schema.unseen if unseen else schema.asks)
    told = upper_first(_template(rng, schema, wording, {**numbers, **named}))
    return Item(own, told, str(numbers["r"]), solution(rng, schema, _named_in(wording), numbers, named))


def _asked(rng: Random, item: Item, requests: Sequence[str]) -> Item:
    return Item(item.key, rng.choice(requests).format(q=item.ask), item.short, with_answer(item))


def with_answer(item: Item) -> str:
    return f"{item.full} The answer is {item.short}."


def problem(rng: Random) -> Item:
    """Mostly of two steps."""
    return _asked(rng, make(rng, weighted(rng, SCHEMATA)), REQUESTS)


def two_step(rng: Random) -> Item:
    return _asked(rng, make(rng, TWO_STEP), REQUESTS)


def two_step_unseen(rng: Random) -> Item:
    """In wordings that training never saw."""
    return _asked(rng, make(rng, TWO_STEP, unseen=True), UNSEEN_REQUESTS)


def thought_problem(rng: Random) -> Item:
    """`full` is the steps, to stand between thinking marks."""
    return make(rng, weighted(rng, SCHEMATA))


def worked_problem(rng: Random) -> Item:
    """For few-shot lines: the answer is the steps and their end, also where answers are short."""
    item = make(rng, weighted(rng, SCHEMATA))
    return Item(item.key, item.ask, with_answer(item), with_answer(item))


def worked_line(item: Item, labels: tuple[str, str], opening: str) -> str:
    """`Q: ... A: Let's think step by step. ... The answer is 27.`"""
    return f"{labels[0]}: {item.ask}\n{labels[1]}:{opening}{JOINT} {item.full} The answer is{JOINT} {item.short}."


def worked_lines(rng: Random, problem: Draw = thought_problem) -> Passage:
    """Some problems one after the other, as a prompt with examples shows them."""
    labels, gap = rng.choice(LABELS), rng.choice(("\n", "\n\n", "\n\n"))
    opening = rng.choice(("", "", " Let's think step by step.", " Let's think step by step.", " Step by step:"))
    items = [*(draw(problem, rng) for _ in range(rng.choice((0, 0, 1, 2, 3, 4)))), problem(rng)]
    return Passage(items[-1].key, gap.join(worked_line(item, labels, opening) for item in items))
