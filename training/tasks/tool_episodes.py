"""Episodes of tool use: a question and the steps to its answer; and the tools themselves.

What a tool says in an episode is what the functions here really say, the same ones that the evaluation calls. The
look-up knows only the invented things of `tool_pages`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from ..items import Item, upper_first, weighted
from . import facts, numbers, tool_words
from .invented import PEOPLE
from .tool_asks import ASKS, question
from .tool_pages import BY_NAME, KINDS, LINKS, PERSON, PRODUCT, RANKED, Field, Kind, Rank, Thing, thing

Pages = tuple[tuple[str, str], ...]
TOOLS = ("calculator", "search engine", "none")
YEARS = tuple((kind, field) for kind in KINDS for field in kind.fields
              if field.noun in ("year of birth", "founding year", "opening year"))
SUMS = tuple(tool_words.SUMS.items())
OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


@dataclass(frozen=True, slots=True)
class Step:
    thought: str
    tool: str
    argument: str

    @property
    def call(self) -> str:
        return f"{self.tool}[{self.argument}]"


@dataclass(frozen=True, slots=True)
class Episode:
    """key: what is asked about, whatever the wording. The last step finishes with `answer`; `full` is a sentence.

    tool: what a question with one tool needs, one of TOOLS; empty where it needs both.
    """

    key: str
    question: str
    steps: tuple[Step, ...]
    answer: str
    full: str
    pages: Pages = ()
    tool: str = ""


def calculate(expression: str) -> str:
    """The value of an expression of numbers, + - * / and brackets, to two decimals; else a sentence that says no."""
    try:
        value = _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError):
        return f"{expression} is not an expression."
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    raise ValueError(node)


def look_up(name: str, pages: Pages) -> str:
    """The page of that name; else which names are alike, if any."""
    wanted = name.strip().casefold()
    for title, text in pages:
        if title.casefold() == wanted:
            return text
    alike = [title for title, _ in pages if wanted in title.casefold() or title.casefold() in wanted]
    return f"Nothing found for {name}." + (f" Similar: {', '.join(alike)}." if alike else "")


def observe(tool: str, argument: str, pages: Pages) -> str:
    """What a tool says."""
    if tool == "Search":
        return look_up(argument, pages)
    return calculate(argument) if tool == "Calculate" else f"There is no tool called {tool}."


def spoken(it: Thing) -> str:
    """Its name inside a sentence."""
    return f"the {it.name}" if it.kind is PRODUCT else it.name


def _search(rng: Random, it: Thing, field: Field, known: str = "") -> Step:
    """`known`: what the step before found."""
    thought = rng.choice(tool_words.THEN if known else tool_words.FIRST).format(f=field.noun, n=spoken(it))
    return Step(f"{known} {thought}".strip(), "Search", it.name)


def _said(it: Thing, field: Field) -> str:
    return field.said.format(n=it.name, v=it[field])


def _finish(rng: Random, thought: str, answer: str) -> Step:
    return Step(f"{thought}{rng.choice(tool_words.DONE)}", "Finish", answer)


def _asked(rng: Random, kind: Kind, field: Field, name: str, new: bool) -> str:
    """The question about a property, in a wording of training or in one that only the evaluation uses."""
    if new:
        return rng.choice(field.unseen).format(n=name)
    return question(rng, ASKS[f"{kind.called}/{field.noun}"], e=f"the {name}" if kind is PRODUCT else name)


def fact(rng: Random, new: bool) -> Episode:
    """One property of one thing. Now and then the page is silent, missing, or found only under another name."""
    kind = rng.choice(KINDS)
    field, it = rng.choice(kind.fields), thing(rng, kind)
    trouble = rng.random()
    if trouble < 0.24 and kind is not PRODUCT:
        return _troubled(rng, it, field, new)
    silent = trouble > 0.94
    pages = ((it.name, it.page(rng, field, silent=silent)),)
    asked = _asked(rng, kind, field, it.name, new)
    return _ended(rng, it, field, asked, (_search(rng, it, field),), pages, unknown=silent)


def _ended(rng: Random, it: Thing, field: Field, asked: str, steps: Sequence[Step], pages: Pages, *,
           unknown: bool = False, key: str = "") -> Episode:
    """The episode that looks `it` up last, with its last step."""
    full = rng.choice(tool_words.SILENT) if unknown else upper_first(_said(it, field))
    answer = "unknown" if unknown else it[field]
    return Episode(key or f"tool/{field.noun}/{it.name}", upper_first(asked),
                   (*steps, _finish(rng, full, answer)), answer, full, pages, "search engine")


def _troubled(rng: Random, it: Thing, field: Field, new: bool) -> Episode:
    """The first search finds nothing: the name was not whole, there is another name, or there is no page at all."""
    which = rng.random()
    if which < 0.4 and it.kind.bare:
        before, after = it.kind.bare.split("{}")
        part = it.name.removeprefix(before).removesuffix(after)
        name, title, thoughts = f"the {it.kind.called} {part}", part, tool_words.ALIKE
    elif which < 0.7:
        title = it.kind.name(rng)
        name, thoughts = f"{title} (also {rng.choice(('called', 'known as'))} {it.name})", tool_words.OTHER_NAME
    else:
        asked = _asked(rng, it.kind, field, it.name, new)
        return _ended(rng, it, field, asked, (_search(rng, it, field),), (), unknown=True)
    first = Step(rng.choice(tool_words.FIRST).format(f=field.noun, n=title), "Search", title)
    again = Step(rng.choice(thoughts).format(n=it.name), "Search", it.name)
    pages = ((it.name, it.page(rng, field)),)
    return _ended(rng, it, field, _asked(rng, it.kind, field, name, new), (first, again), pages)


def chain(rng: Random, new: bool) -> Episode:
    """A property of what is a property of something: two look-ups, sometimes three."""
    kind, link = rng.choice(LINKS)
    it = thing(rng, kind)
    by, known, steps, pages = it.name, "", [], []
    key = f"tool/{it.name}"
    while True:
        by = rng.choice(link.by).format(n=by)
        key += f"/{link.noun}"
        steps.append(_search(rng, it, link, known))
        pages.append((it.name, it.page(rng, link)))
        known = upper_first(_said(it, link))
        it = thing(rng, BY_NAME[link.link], it[link])
        further = [f for f in it.kind.fields if f.link]
        if len(steps) > 1 or not further or rng.random() < 0.8:
            break
        link = rng.choice(further)
    field = rng.choice(it.kind.fields)
    steps.append(_search(rng, it, field, known))
    pages.append((it.name, it.page(rng, field)))
    return _ended(rng, it, field, _asked(rng, it.kind, field, by, new), steps, tuple(pages), key=f"{key}/{field.noun}")


def compare(rng: Random, new: bool) -> Episode:
    """Two things by a number: which has more, how much more, how much together."""
    kind, field = rng.choice(RANKED)
    rank = field.rank
    assert rank is not None
    mode = rng.choice(("which", *(["gap"] * 2 if rank.gap_unseen else []), *(["total"] if rank.total_unseen else [])))
    one, two = _pair(rng, kind, field, rank.down if mode == "gap" else rng.random() < 0.5)
    steps = [_search(rng, one, field), _search(rng, two, field, upper_first(_said(one, field)))]
    known, key = upper_first(_said(two, field)), f"tool/{mode}/{field.noun}/{one.name}/{two.name}"
    pages = ((one.name, one.page(rng, field)), (two.name, two.page(rng, field)))
    if mode == "which":
        asked, thought, answer, full = _which(rng, rank, field, (one, two), new)
        thought = f"{known} {thought}"
    else:
        asked, said, sum_ = (_gap if mode == "gap" else _total)(rng, rank, field, (one, two), new)
        steps.append(_sum(rng, sum_, "-" if mode == "gap" else "+", known))
        answer, key = calculate(sum_), numbers.together(key, _sum_key(sum_))
        thought = full = upper_first(said.format(d=answer))
    steps.append(_finish(rng, thought, answer))
    return Episode(key, upper_first(asked), tuple(steps), answer, full, pages)


def _sum_key(expression: str) -> str:
    """Of a sum with one sign, the key that it has everywhere."""
    parts = expression.split(" ")
    if len(parts) == 3 and parts[1] != "/":
        return numbers.key(int(parts[0]), parts[1], int(parts[2]))
    return f"tool/sum/{expression}"


def _sum(rng: Random, expression: str, sign: str, known: str) -> Step:
    return Step(f"{known} {rng.choice(tool_words.SUM[sign])}", "Calculate", expression)


def _pair(rng: Random, kind: Kind, field: Field, rising: bool) -> list[Thing]:
    """Two things, the one with the smaller number first if `rising`."""
    one, two = thing(rng, kind), thing(rng, kind)
    while int(one[field]) == int(two[field]):
        two = thing(rng, kind)
    return sorted((one, two), key=lambda t: int(t[field]), reverse=not rising)


def _gap(rng: Random, rank: Rank, field: Field, pair: Sequence[Thing], new: bool) -> tuple[str, str, str]:
    """Question, answer with {d} for the difference, expression."""
    names = {"a": pair[0].name, "b": pair[1].name}
    asked = rng.choice(rank.gap_unseen).format(**names) if new else question(rng, ASKS[f"{rank.asks}/gap"], **names)
    small, large = sorted(int(it[field]) for it in pair)
    return asked, rank.gap_said.format(**names, d="{d}"), f"{large} - {small}"


def _total(rng: Random, rank: Rank, field: Field, pair: Sequence[Thing], new: bool) -> tuple[str, str, str]:
    """Question, answer with {d} for the sum, expression."""
    names = {"a": pair[0].name, "b": pair[1].name}
    asked = rng.choice(rank.total_unseen).format(**names) if new else question(rng, ASKS[f"{rank.asks}/total"], **names)
    return asked, rank.total_said.format(**names, d="{d}"), " + ".join(it[field] for it in pair)


def _which(rng: Random, rank: Rank, field: Field, pair: Sequence[Thing], new: bool) -> tuple[str, str, str, str]:
    """Question, last thought, answer, full answer."""
    one, two = pair
    wants_more, one_has_more = rng.random() < 0.5, int(one[field]) > int(two[field])
    best = one if wants_more == one_has_more else two
    does = rank.more if wants_more else rank.less
    who = "who" if one.kind is PERSON else "which"
    asked = tool_words.WHICH.say(rng, new, w=who, p=does, a=spoken(one), b=spoken(two))
    thought = f"{one[field]} is {'more' if one_has_more else 'less'} than {two[field]}, so {spoken(best)} {does}."
    return asked, thought, best.name, upper_first(f"{spoken(best)} {does}.")


def cost(rng: Random, new: bool) -> Episode:
    """What some pieces of one product, or of two, cost together."""
    price = PRODUCT.fields[0]
    bought = [(rng.randint(2, 19), thing(rng, PRODUCT)) for _ in range(rng.choice((1, 2)))]
    steps, pages, known = [], [], ""
    for _, it in bought:
        steps.append(_search(rng, it, price, known))
        pages.append((it.name, it.page(rng, price)))
        known = _said(it, price)
    sum_ = " + ".join(f"{count} * {it[price]}" for count, it in bought)
    steps.append(_sum(rng, sum_, "*", known))
    goods = " and ".join(f"{count} {it.name}s" for count, it in bought)
    total = calculate(sum_)
    full = f"{upper_first(goods)} cost {total} dollars."
    steps.append(_finish(rng, full, total))
    asked = tool_words.COST.say(rng, new, g=goods)
    key = numbers.together(f"tool/cost/{goods}", _sum_key(sum_))
    return Episode(key, asked, tuple(steps), total, full, tuple(pages))


def age(rng: Random, new: bool) -> Episode:
    """How many years lie between a year that the page tells and one that the question tells."""
    kind, field = rng.choice(YEARS)
    words, said = tool_words.AGE if kind is PERSON else tool_words.EXISTED
    it = thing(rng, kind)
    year = int(it[field]) + rng.randint(3, 90)
    sum_ = f"{year} - {it[field]}"
    years = calculate(sum_)
    full = said.format(n=it.name, y=year, d=years)
    steps = (_search(rng, it, field), _sum(rng, sum_, "-", _said(it, field)), _finish(rng, full, years))
    asked = words.say(rng, new, n=it.name, y=year)
    return Episode(numbers.together(f"tool/age/{it.name}/{year}", _sum_key(sum_)), asked, steps, years, full,
                   ((it.name, it.page(rng, field)),))


def calculation(rng: Random, new: bool) -> Episode:
    """A sum too large for the head, said with signs or in words."""
    shape, words = rng.choice(SUMS)
    b, c, d = rng.randint(1000, 9999), rng.randint(13, 99), rng.randint(13, 99)
    a = b + rng.randint(11, 89_999)
    if "{b} *" not in shape and rng.random() < 0.3:
        b, a = sorted((rng.randint(100, 999), rng.randint(100, 999)))
    values = {"a": a, "b": b, "c": c, "d": d, "m": c * b, "h": 100 * d}
    expression = shape.format(**values)
    asked = (tool_words.SIGNS if rng.random() < 0.5 else words).say(rng, new, e=expression, **values)
    return _calculated(rng, asked, expression, "The result is {v}.")


def problem(rng: Random, new: bool) -> Episode:
    """A little story with numbers too large for the head."""
    shape, said, words = rng.choice(tool_words.PROBLEMS)
    b, c = rng.randint(1000, 4999), rng.randint(13, 99)
    numbers_ = {"a": b + rng.randint(1000, 4999), "b": b, "c": c, "m": b * c, "p": rng.choice(PEOPLE)}
    return _calculated(rng, words.say(rng, new, **numbers_), shape.format(**numbers_),
                       said.replace("{p}", str(numbers_["p"])))


def _calculated(rng: Random, asked: str, expression: str, said: str) -> Episode:
    """The tool does it all."""
    value = calculate(expression)
    full = said.format(v=value)
    steps = (Step(rng.choice(tool_words.TOO_LARGE), "Calculate", expression), _finish(rng, full, value))
    return Episode(_sum_key(expression), asked, steps, value, full, tool="calculator")


def at_once(rng: Random, new: bool) -> Episode:
    """A question that needs no tool: about the real world, or a small sum."""
    if rng.random() < 0.6:
        item = facts.unseen_question(rng) if new else facts.question(rng)
    else:
        a, b = rng.randint(0, 99), rng.randint(0, 20)
        sign = "-" if a >= b and rng.random() < 0.5 else "+"
        value = a - b if sign == "-" else a + b
        asked = tool_words.SMALL_SUM.say(rng, new, e=f"{a} {sign} {b}")
        item = Item(numbers.key(a, sign, b), asked, str(value), f"{a} {sign} {b} = {value}")
    step = Step(rng.choice(tool_words.AT_ONCE), "Finish", item.short)
    return Episode(item.key, item.ask, (step,), item.short, item.full, tool="none")


EPISODES: tuple[tuple[float, Callable[[Random, bool], Episode]], ...] = (
    (24, fact), (26, compare), (13, chain), (12, cost), (5, age), (12, calculation), (7, problem), (9, at_once))


def episode(rng: Random, new: bool = False) -> Episode:
    """`new`: the question in a wording that only the evaluation uses."""
    return weighted(rng, EPISODES)(rng, new)
