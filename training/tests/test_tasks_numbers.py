"""The arithmetic of the generated text is right, and what is held out stays out however it is written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from random import Random

import pytest

from training.alternatives import expand
from training.items import Item, Passage, draw, held_out
from training.suites.problems import last_number, majority
from training.tasks import number_words, numbers, problems
from training.tasks.problem_others import ONE_STEP, THREE_STEP
from training.tasks.problem_schema import NAMES, Schema, words
from training.tasks.problem_stories import plots, story
from training.tasks.problem_teller import NUMBER_WORDS

EQUATION = re.compile(r"(?<![\d+*/-] )(?<!\d)(\d+(?: ?[-+*/] ?\d+)+) ?= ?(\d+)")
SUMS = (numbers.sum_question, numbers.equation, numbers.thought_sum, numbers.worked_sum, numbers.long_product)
PROBLEMS = (problems.problem, problems.two_step, problems.thought_problem, problems.worked_problem,
            problems.worked_lines)
SCHEMATA = (*ONE_STEP, *problems.TWO_STEP, *THREE_STEP)
TAKEN = {"larger": max, "smaller": min, "largest": max, "smallest": min}


def text_of(made: Item | Passage) -> str:
    return made.text.replace("\x00", "") if isinstance(made, Passage) else f"{made.full}\n{made.short}"


def value(expression: str) -> int:
    """A chain of one kind of operation, or of two numbers."""
    first, *rest = re.findall(r"\d+|[-+*/]", expression)
    result = int(first)
    for sign, number in zip(rest[::2], map(int, rest[1::2]), strict=True):
        assert sign != "/" or result % number == 0
        result = numbers.result_of(result, sign, number)
        assert result >= 0
    return result


@pytest.mark.parametrize("make", [*SUMS, *PROBLEMS])
def test_every_equation_is_right_and_no_held_out_sum_is_in_training(make: Callable[[Random], Item | Passage]) -> None:
    for i in range(400):
        text = text_of(draw(make, Random(f"right/{i}")))
        found = EQUATION.findall(text)
        assert found
        for left, right in found:
            assert value(left) == int(right), text
            a, sign, b, *more = re.findall(r"\d+|[-+*/]", left)
            assert more or not held_out(numbers.key(int(a), sign, int(b))), text


@pytest.mark.parametrize("make", [*SUMS, *PROBLEMS[:3]])
def test_the_steps_end_in_the_short_answer(make: Callable[[Random], Item]) -> None:
    for i in range(300):
        item = make(Random(f"end/{i}"))
        assert last_number(item.full) == item.short


def test_the_order_of_what_is_added_makes_no_other_instance() -> None:
    assert numbers.key(345, "+", 278) == numbers.key(278, "+", 345)
    assert numbers.key(345, "-", 278) != numbers.key(345, "+", 278)
    assert numbers.key(15, "-", 8) == numbers.key(3, "+", 4) == "sum/by heart"


def test_what_holds_a_held_out_sum_is_held_out() -> None:
    out = next(k for k in (numbers.key(n, "+", 50) for n in range(50, 200)) if held_out(k))
    assert numbers.together("some problem", "sum/by heart", out) == out
    assert numbers.together("some problem", "sum/by heart") == "some problem"


@pytest.mark.parametrize(("digits", "sign"), [(2, "+"), (2, "-"), (3, "+"), (3, "-")])
def test_sums_have_the_asked_digits_and_often_carry(digits: int, sign: str) -> None:
    carries = 0
    for i in range(300):
        a, b = numbers.operands(Random(f"digits/{i}"), sign, digits)
        assert len(str(max(a, b))) <= digits
        assert sign == "+" or a >= b
        carries += "carry" in numbers.steps(a, sign, b) or "borrow" in numbers.steps(a, sign, b)
    assert carries > 120


def test_written_out_columns() -> None:
    assert numbers.steps(345, "+", 78) == ("5 + 8 = 13, write 3, carry 1. 4 + 7 + 1 = 12, write 2, carry 1. "
                                           "3 + 0 + 1 = 4, write 4. 345 + 78 = 423.")
    assert numbers.steps(305, "-", 278) == ("5 - 8 is too small, borrow: 15 - 8 = 7. 0 - 7 - 1 is too small, borrow: "
                                            "10 - 7 - 1 = 2. 3 - 2 - 1 = 0. 305 - 278 = 27.")


def test_ordering_and_parity_are_right() -> None:
    for i in range(300):
        rng = Random(f"order/{i}")
        item = numbers.extreme(rng)
        given = [int(n) for n in re.findall(r"\d+", item.ask)]
        assert int(item.short) == TAKEN[item.full.rsplit(" ", 1)[1].rstrip(".")](given)
        item = numbers.sorting(rng)
        given, answer = ([int(n) for n in re.findall(r"\d+", text)] for text in (item.ask, item.short))
        assert answer in (sorted(given), sorted(given, reverse=True))
        item = numbers.parity(rng)
        assert item.full.endswith(" odd." if int(re.findall(r"\d+", item.ask)[0]) % 2 else " even.")
        item = numbers.counting(rng)
        shown = re.findall(r"\d+, \d+, \d+", item.ask)[0]
        row = [int(n) for n in f"{shown}, {item.short}".split(", ")]
        assert min(row) >= 0
        assert len({second - first for first, second in pairwise(row)}) == 1


@pytest.mark.parametrize("schema", SCHEMATA, ids=lambda schema: schema.name)
def test_every_way_of_a_problem_gives_one_result(schema: Schema) -> None:
    for i in range(60):
        known = schema.numbers(Random(f"{schema.name}/{i}"))
        assert all(n >= 2 for n in known.values()), known
        assert max(known.values()) <= 999
        for way in schema.ways:
            for name, left, sign, right in way.parsed:
                assert known[name] == numbers.result_of(known[left], sign, known[right])
                assert sign != "/" or known[left] % known[right] == 0
            assert way.parsed[-1][0] == "r"


@pytest.mark.parametrize("schema", SCHEMATA, ids=lambda schema: schema.name)
def test_every_wording_tells_every_number(schema: Schema) -> None:
    """A number that no wording tells is one that is computed, or that everyone knows (a dozen)."""
    given = [rule[0] for rule in schema.rules if len(rule) == 2 and "-" in rule[1]]
    used = {name for way in schema.ways for step in way.parsed for name in (step[1], step[3])}
    for wording in (*schema.asks, *schema.unseen):
        assert [n for n in given if n in used and n not in ("p", "q") and f"{{{n}}}" not in wording] == []


def test_structures_are_many_and_unseen_wordings_are_not_seen() -> None:
    assert len(problems.TWO_STEP) >= 30
    assert len({schema.name for schema in SCHEMATA}) == len(SCHEMATA)
    assert all(len(schema.asks) >= 2 and schema.unseen for schema in SCHEMATA)
    seen = {wording for schema in SCHEMATA for wording in schema.asks}
    assert not seen & {wording for schema in SCHEMATA for wording in schema.unseen}
    assert not set(number_words.ASKS) & set(number_words.UNSEEN_ASKS)
    assert set(problems.REQUESTS) & set(problems.UNSEEN_REQUESTS) == {"{q}"}


def test_a_solution_names_only_whom_the_problem_names() -> None:
    names = re.compile("|".join(NAMES))
    for i in range(500):
        item = problems.problem(Random(f"names/{i}"))
        assert set(names.findall(item.full)) <= set(names.findall(item.ask)), item


def test_the_same_problem_is_solved_in_several_ways_with_one_result() -> None:
    schema = next(schema for schema in problems.TWO_STEP if len(schema.ways) > 1)
    rng = Random(3)
    known, named = schema.numbers(rng), words(rng, schema.things)
    ways = {problems.solution(rng, schema, frozenset("nmwtu"), known, named) for _ in range(60)}
    assert len(ways) > 5
    assert len({last_number(f"{steps} The answer is {known['r']}.") for steps in ways}) == 1


def test_few_problems_repeat() -> None:
    texts = Counter(problems.problem(Random(f"repeat/{i}")).ask for i in range(2000))
    assert len(texts) > 1990


def test_a_vote_takes_the_commonest_last_number() -> None:
    assert majority(["1 + 2 = 3. The answer is 3.", "The answer is 4.", "So it is 3"]) == "3"
    assert last_number("no number") == ""


@pytest.mark.parametrize("make", [partial(numbers.sum_question, unseen=True), problems.two_step_unseen])
def test_unseen_wordings_can_be_drawn(make: Callable[[Random], Item]) -> None:
    for i in range(100):
        assert held_out(draw(make, Random(f"unseen/{i}"), from_held_out=True).key)


@pytest.mark.parametrize("schema", SCHEMATA, ids=lambda schema: schema.name)
def test_a_story_tells_its_numbers_in_clean_sentences(schema: Schema) -> None:
    """Numbers that are computed, and those that everyone knows, need not be told."""
    given = [rule[0] for rule in schema.rules if "-" in rule[-1] or rule[1] in ("<", "note") or rule[0] in "abcde"]
    needed = [name for name in given if name not in "pqrs"]
    for i in range(60):
        rng = Random(f"{schema.name}/story/{i}")
        numbers_of = schema.numbers(rng)
        told, _ = story(rng, schema, numbers_of, words(rng, schema.things))
        assert not re.search(r"[\[\]|{}]|  | [.,;?]|\.\.|[.?]\?| ([a-z]+) \1 ", told), told
        assert told[0].isupper() or told[0].isdigit()
        assert told.endswith((".", "?"))
        spoken = {NUMBER_WORDS.index(word) for word in re.findall(r"[a-z]+", told.lower()) if word in NUMBER_WORDS}
        shown = spoken | {int(n) for n in re.findall(r"\d+", told)}
        assert {numbers_of[name] for name in needed if name != "g"} <= shown, told


def test_every_structure_is_told_in_clauses() -> None:
    assert [schema.name for schema in SCHEMATA if not plots(schema.name)] == []


def test_alternatives() -> None:
    made = {expand(Random(i), "a[b[c|d]|]e") for i in range(60)}
    assert made == {"abce", "abde", "ae"}
    with pytest.raises(ValueError, match="brackets"):
        expand(Random(0), "a]b")


@pytest.mark.parametrize("make", [numbers.sum_question, numbers.compare, numbers.sorting, numbers.extreme])
def test_requests_are_many_and_clean(make: Callable[[Random], Item]) -> None:
    asks = [make(Random(f"ask/{i}")).ask for i in range(1500)]
    assert not [ask for ask in asks if re.search(r"[\[\]|{}]|  | [.,;]|[.,?]\?|\?\.|\.\.", ask) or ask != ask.strip()]
    assert len({re.sub(r"\d+", "0", ask) for ask in asks}) > 300
