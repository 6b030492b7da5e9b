"""What a word problem is made of: numbers that fit together, the ways to the result, and the words of the story."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from .numbers import result_of

GIRLS = ("Mira", "Anna", "Clara", "Ella", "Grace", "Iris", "Kira", "Maya", "Olga", "Rosa", "Tina", "Uma", "Wendy",
         "Yara", "Zoe", "Alice", "Carol", "Nina", "Lucy", "Emma", "Julia", "Sara", "Ruth", "Hanna")
BOYS = ("Tom", "Ben", "David", "Felix", "Henry", "Jack", "Leo", "Noah", "Paul", "Sam", "Victor", "Bob", "Emil",
        "Oscar", "Max", "Peter", "Adam", "Luke", "Simon", "Martin", "James", "Hugo", "Karl", "Ali")
NAMES = GIRLS + BOYS
HER = {"he": "she", "He": "She", "his": "her", "His": "Her", "him": "her"}
HIM = {"he": "he", "He": "He", "his": "his", "His": "His", "him": "him"}
KEPT = (("stamp", "stamps"), ("coin", "coins"), ("marble", "marbles"), ("shell", "shells"), ("card", "cards"),
        ("sticker", "stickers"), ("button", "buttons"), ("badge", "badges"), ("postcard", "postcards"),
        ("pen", "pens"), ("pencil", "pencils"), ("book", "books"), ("balloon", "balloons"), ("candle", "candles"),
        ("cup", "cups"), ("plate", "plates"), ("toy", "toys"), ("ball", "balls"), ("key", "keys"), ("ring", "rings"))
FOOD = (("apple", "apples"), ("pear", "pears"), ("orange", "oranges"), ("peach", "peaches"), ("plum", "plums"),
        ("lemon", "lemons"), ("banana", "bananas"), ("cookie", "cookies"), ("muffin", "muffins"), ("egg", "eggs"),
        ("sandwich", "sandwiches"), ("roll", "rolls"), ("cherry", "cherries"), ("potato", "potatoes"),
        ("carrot", "carrots"), ("tomato", "tomatoes"), ("onion", "onions"), ("nut", "nuts"), ("cake", "cakes"))
THINGS = {"kept": KEPT, "food": FOOD, "any": KEPT + FOOD}
BOXES = (("box", "boxes"), ("bag", "bags"), ("basket", "baskets"), ("pack", "packs"), ("crate", "crates"),
         ("jar", "jars"), ("tray", "trays"), ("case", "cases"))
NOTES = (10, 20, 50, 100, 200)


@dataclass(frozen=True)
class Way:
    """Steps such as `p = a * b; r = c + p`, and sentences that say them: `{0}` and `{1}` are the steps' equations."""

    steps: str
    says: tuple[str, ...]

    @cached_property
    def parsed(self) -> tuple[tuple[str, str, str, str], ...]:
        """(name, left, sign, right) of each step."""
        return tuple((name, left, sign, right) for name, _, left, sign, right in map(str.split, self.steps.split(";")))


def way(steps: str, *says: str) -> Way:
    return Way(steps, says)


@dataclass(frozen=True)
class Schema:
    """One structure of problem.

    given: how the numbers are drawn, in order: `a 2-12` from a range, `k 60` fixed, `c < p` at least 2 and at least 2
    less than p, `c note p` a banknote above p, `p = a * b` computed.
    ways: steps to the result `r`. asks: wordings; unseen: those that only the evaluation uses.
    things: which of THINGS. about: what a number beside the point must not be about.
    """

    name: str
    given: str
    ways: tuple[Way, ...]
    asks: tuple[str, ...]
    unseen: tuple[str, ...] = field(default=())
    things: str = "any"
    about: str = ""

    @cached_property
    def rules(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(rule.split()) for rule in self.given.split(","))

    def numbers(self, rng: Random) -> dict[str, int]:
        """The given numbers and the result of every step of every way."""
        known: dict[str, int] = {}
        for name, *rule in self.rules:
            known[name] = _drawn(rng, rule, known)
        for each in self.ways:
            for name, left, sign, right in each.parsed:
                known[name] = result_of(known[left], sign, known[right])
        return known


def _drawn(rng: Random, rule: list[str], known: dict[str, int]) -> int:
    match rule:
        case ["=", left, sign, right]:
            return result_of(known[left], sign, known[right])
        case ["<", top]:
            return rng.randint(2, known[top] - 2)
        case ["note", price]:
            return rng.choice([note for note in NOTES if note > known[price] + 1])
        case [values]:
            low, _, high = values.partition("-")
            return rng.randint(int(low), int(high or low))
    raise ValueError(f"no rule for numbers: {rule}")


def words(rng: Random, things: str) -> dict[str, str]:
    """Three people {n} {m} {w}, {he} for the first; things {t} (one {o}), others {u} (one {v}), {boxes} (one {box})."""
    (o, t), (v, u) = rng.sample(THINGS[things], 2)
    box, boxes = rng.choice(BOXES)
    girl = rng.random() < 0.5
    n = rng.choice(GIRLS if girl else BOYS)
    m, w = [name for name in rng.sample(NAMES, 3) if name != n][:2]
    return {"n": n, "m": m, "w": w, "o": o, "t": t, "v": v, "u": u, "box": box, "boxes": boxes,
            **(HER if girl else HIM)}
