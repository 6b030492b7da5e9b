"""Sums, differences, products and quotients of whole numbers, with and without working; comparing and counting.

A result is never negative. What a child knows by heart is never held out; every other sum is one instance wherever it
stands, so `together` gives what holds several of them (written-out working, a word problem) to the held-out side as
soon as one of them is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from ..alternatives import expand
from ..items import Item, held_out, upper_first
from .number_words import (
    AFTER,
    ASCENDING,
    ASKS,
    BEFORE,
    CONTINUE,
    CONTINUE_ONE,
    DESCENDING,
    GREATER_THAN,
    LARGER,
    LARGEST,
    LESS_THAN,
    OWN_ASKS,
    PARITY,
    SMALLER,
    SMALLEST,
    STEP_ASKS,
    UNSEEN_ASCENDING,
    UNSEEN_ASKS,
    UNSEEN_LARGER,
    UNSEEN_OWN_ASKS,
    UNSEEN_SMALLER,
    UNSEEN_STEP_ASKS,
)

WORDS = {"+": ("plus",), "-": ("minus",), "*": ("times", "multiplied by"), "/": ("divided by",)}


def by_heart(a: int, sign: str, b: int) -> bool:
    """Sums and differences of the numbers below ten, the table of products up to 12 * 12, round tens times a digit."""
    if sign == "+":
        return max(a, b) < 10
    if sign == "-":
        return b < 10 and a - b < 10
    return sign == "/" or max(a, b) <= 12 or (min(a, b) < 10 and max(a, b) < 100 and max(a, b) % 10 == 0)


def key(a: int, sign: str, b: int) -> str:
    """The one key of this sum; the order of what is added or multiplied does not matter."""
    if by_heart(a, sign, b):
        return "sum/by heart"
    if sign in "+*":
        a, b = sorted((a, b))
    return f"sum/{a}{sign}{b}"


def together(own: str, *parts: str) -> str:
    """The key of something that shows several instances: the first of them that is held out, otherwise its own."""
    return next((part for part in parts if held_out(part)), own)


def worded(rng: Random, templates: Sequence[str]) -> str:
    """One of the templates with its alternatives chosen and a capital letter."""
    return upper_first(expand(rng, rng.choice(templates)))


def _of_length(rng: Random, digits: int) -> int:
    return rng.randint(10 ** (digits - 1) if digits > 1 else 0, 10**digits - 1)


def _hard(rng: Random, sign: str, digits: int) -> tuple[int, int]:
    """Two numbers that carry or borrow, or pass it on, in every column but a subtraction's first."""
    a = b = 0
    if sign == "-":
        a = rng.randint(2, 9)
        b = rng.randint(0, a - 1)
        digits -= 1
    for _ in range(digits):
        upper = rng.randint(1, 9) if sign == "+" else rng.randint(0, 8)
        a, b = 10 * a + upper, 10 * b + rng.randint(9 - upper if sign == "+" else upper, 9)
    return a, b


def operands(rng: Random, sign: str, digits: int) -> tuple[int, int]:
    """For a sum or a difference: the longer number has `digits` digits (leading zeros aside)."""
    if rng.random() < 0.35:
        a, b = _hard(rng, sign, digits)
    else:
        a = _of_length(rng, digits)
        b = _of_length(rng, digits if rng.random() < 0.7 else rng.randint(1, digits))
        if rng.random() < 0.03:
            b = rng.choice((0, a))
    if sign == "-":
        return max(a, b), min(a, b)
    return (a, b) if rng.random() < 0.5 else (b, a)


def _table(rng: Random, sign: str) -> tuple[int, int]:
    """For a product or a quotient without remainder, from the table."""
    a, b = rng.randint(0, 12), rng.randint(0, 12)
    if sign == "*" and rng.random() < 0.2:
        a, b = rng.choice(((10 * rng.randint(2, 9), rng.randint(2, 9)), (rng.randint(2, 9), 10 * rng.randint(2, 9))))
    if sign == "/":
        b = max(b, 1)
        a *= b
    return a, b


def result_of(a: int, sign: str, b: int) -> int:
    return {"+": a + b, "-": a - b, "*": a * b, "/": a // (b or 1)}[sign]


def _some_sum(rng: Random, signs: str, digits: int) -> tuple[int, str, int]:
    sign = rng.choice(signs)
    digits = digits or rng.choice((1, 2, 2, 2, 3, 3, 3, 3, 3))
    a, b = operands(rng, sign, digits) if sign in "+-" else _table(rng, sign)
    return a, sign, b


def _ask(rng: Random, a: int, sign: str, b: int, unseen: bool = False) -> str:
    common, own = (UNSEEN_ASKS, UNSEEN_OWN_ASKS) if unseen else (ASKS, OWN_ASKS)
    if rng.random() < 0.35:
        return worded(rng, own[sign]).format(a=a, b=b)
    word = rng.random()
    if word < 0.3:
        expression = f"{a} {rng.choice(WORDS[sign])} {b}"
    else:
        expression = f"{a}{sign}{b}" if word > 0.92 else f"{a} {sign} {b}"
    return worded(rng, common).format(e=expression)


def sum_question(rng: Random, signs: str = "+++++-----**/", digits: int = 0, unseen: bool = False) -> Item:
    """`digits`: of the longer number of a sum or difference; 0 is any mixture of up to three."""
    a, sign, b = _some_sum(rng, signs, digits)
    result = result_of(a, sign, b)
    return Item(key(a, sign, b), _ask(rng, a, sign, b, unseen), str(result), f"{a} {sign} {b} = {result}")


def equation(rng: Random, signs: str = "+++++-----**/", digits: int = 0) -> Item:
    """As a bare line: `12 + 34 =`, or `12+34=`."""
    a, sign, b = _some_sum(rng, signs, digits)
    ask, result = f"{a} {sign} {b} =", str(result_of(a, sign, b))
    if rng.random() < 0.15:
        ask = ask.replace(" ", "")
        return Item(key(a, sign, b), ask, result, ask + result)
    return Item(key(a, sign, b), ask, result, f"{ask} {result}")


def _added_columns(a: int, b: int) -> Iterator[str]:
    carry = 0
    while a or b:
        total = a % 10 + b % 10 + carry
        column = f"{a % 10} + {b % 10}{' + 1' if carry else ''} = {total}"
        a, b, carry = a // 10, b // 10, total // 10
        yield f"{column}, write {total % 10}, carry 1." if carry and (a or b) else f"{column}, write {total}."


def _subtracted_columns(a: int, b: int) -> Iterator[str]:
    """`5 - 8 is too small, borrow: 15 - 8 = 7.`"""
    borrow = 0
    while a or b:
        upper, lower = a % 10, f" - {b % 10}{' - 1' if borrow else ''}"
        rest = upper - b % 10 - borrow
        borrow = int(rest < 0)
        yield f"{upper}{lower} is too small, borrow: 1{upper}{lower} = {rest + 10}." if borrow \
            else f"{upper}{lower} = {rest}."
        a, b = a // 10, b // 10


def steps(a: int, sign: str, b: int) -> str:
    """A sum or difference column by column from the ones, then the sum with its result."""
    columns = _added_columns(a, b) if sign == "+" else _subtracted_columns(a, b)
    return " ".join((*columns, f"{a} {sign} {b} = {result_of(a, sign, b)}."))


def _written_out(rng: Random, signs: str, digits: int) -> tuple[int, str, int]:
    sign = rng.choice(signs)
    a, b = operands(rng, sign, digits or rng.choice((2, 2, 3, 3, 3)))
    return a, sign, b


def thought_sum(rng: Random, signs: str = "+-", digits: int = 0, unseen: bool = False) -> Item:
    """A sum of up to three digits; `full` is the written-out steps, to stand between thinking marks."""
    a, sign, b = _written_out(rng, signs, digits)
    return Item(key(a, sign, b), _ask(rng, a, sign, b, unseen), str(result_of(a, sign, b)), steps(a, sign, b))


def worked_sum(rng: Random, signs: str = "+-", digits: int = 0, unseen: bool = False) -> Item:
    """A sum whose steps the request itself asks for."""
    a, sign, b = _written_out(rng, signs, digits)
    ask = rng.choice(UNSEEN_STEP_ASKS if unseen else STEP_ASKS)
    ask = ask.format(q=rng.choice(("What is {e}?", "Calculate {e}.", "Work out {e}.")).format(e=f"{a} {sign} {b}"))
    return Item(key(a, sign, b), ask, str(result_of(a, sign, b)), steps(a, sign, b))


def long_product(rng: Random, unseen: bool = False) -> Item:
    """Two digits times one, always by way of the tens and the ones: `20 * 4 = 80. 3 * 4 = 12. 80 + 12 = 92. ...`"""
    a, b = rng.randint(1, 9) * 10 + rng.randint(1, 9), rng.randint(2, 9)
    if a <= 12:
        a += 10
    tens, ones = a // 10 * 10 * b, a % 10 * b
    working = f"{a // 10 * 10} * {b} = {tens}. {a % 10} * {b} = {ones}. {tens} + {ones} = {a * b}."
    first, second = (a, b) if rng.random() < 0.7 else (b, a)
    return Item(together(key(a, "*", b), key(tens, "+", ones)), _ask(rng, first, "*", second, unseen), str(a * b),
                f"{working} {first} * {second} = {a * b}")


def _near(rng: Random, count: int) -> list[int]:
    """Different numbers, often of one length and with the same first digits."""
    low, high = rng.choice(((0, 20), (0, 99), (10, 99), (0, 999), (100, 999), (100, 999)))
    if high > 99 and rng.random() < 0.4:
        low = rng.randrange(100, 1000, 10 if rng.random() < 0.5 else 100)
        high = low + rng.choice((19, 99))
    return rng.sample(range(low, high + 1), count)


def compare(rng: Random, unseen: bool = False) -> Item:
    x, y = _near(rng, 2)
    less, more = min(x, y), max(x, y)
    own, kind = f"compare/{less}/{more}", rng.random()
    if kind < 0.35:
        ask = worded(rng, UNSEEN_LARGER if unseen else LARGER).format(x=x, y=y)
        return Item(own, ask, str(more), f"{more} is larger than {less}.", choices=(str(x), str(y)))
    if kind < 0.6 or unseen:
        ask = worded(rng, UNSEEN_SMALLER if unseen else SMALLER).format(x=x, y=y)
        return Item(own, ask, str(less), f"{less} is smaller than {more}.", choices=(str(x), str(y)))
    asked_more = rng.random() < 0.6
    ask = worded(rng, GREATER_THAN if asked_more else LESS_THAN).format(x=x, y=y)
    short = "Yes" if (x > y) == asked_more else "No"
    return Item(own, ask, short, f"{short}, {x} is {'greater' if x > y else 'less'} than {y}.", choices=("Yes", "No"))


def _row(rng: Random, numbers: list[int]) -> tuple[str, str]:
    """The key of these numbers in any order, and how they are shown."""
    words = [str(n) for n in numbers]
    last = rng.choice((", ", ", ", " and ", ", and "))
    return f"order/{'/'.join(map(str, sorted(numbers)))}", ", ".join(words[:-1]) + last + words[-1]


def extreme(rng: Random) -> Item:
    """The largest or smallest of some numbers."""
    numbers = _near(rng, rng.choice((3, 3, 3, 4, 4, 5)))
    own, shown = _row(rng, numbers)
    asks, word, best = rng.choice(((LARGEST, "largest", max), (SMALLEST, "smallest", min)))
    answer = str(best(numbers))
    return Item(own, worded(rng, asks).format(s=shown), answer, f"{answer} is the {word}.")


def sorting(rng: Random, unseen: bool = False) -> Item:
    numbers = _near(rng, rng.choice((3, 3, 3, 4, 4, 5)))
    own, shown = _row(rng, numbers)
    down = not unseen and rng.random() < 0.4
    asks = UNSEEN_ASCENDING if unseen else DESCENDING if down else ASCENDING
    answer = ", ".join(map(str, sorted(numbers, reverse=down)))
    return Item(own, worded(rng, asks).format(s=shown), answer, answer)


def parity(rng: Random) -> Item:
    x = rng.randint(0, rng.choice((99, 999)))
    word, other = ("odd", "even") if x % 2 else ("even", "odd")
    if rng.random() < 0.7:
        short = word.capitalize()
        return Item(f"parity/{x}", rng.choice(PARITY).format(x=x), short, f"{x} is {word}.", choices=("Even", "Odd"))
    asked = rng.choice((word, other))
    ask = rng.choice(("Is {x} {w}?", "Is {x} an {w} number?", "Is the number {x} {w}?")).format(x=x, w=asked)
    short = "Yes" if asked == word else "No"
    return Item(f"parity/{x}", ask, short, f"{short}, {x} is {word}.", choices=("Yes", "No"))


def neighbour(rng: Random) -> Item:
    """The number after or before another; it is the same instance as the sum with one."""
    x = rng.randint(1, rng.choice((99, 999)))
    if rng.random() < 0.2:
        x = 10 * rng.randint(1, 99) + rng.choice((-1, 0))
    word, asks, answer = rng.choice((("after", AFTER, x + 1), ("before", BEFORE, x - 1)))
    own = together(f"next/{x}", key(x, "+", 1), key(x, "-", 1))
    return Item(own, rng.choice(asks).format(x=x), str(answer), f"{answer} comes {word} {x}.")


def counting(rng: Random) -> Item:
    first, step = rng.randint(0, 99), rng.choice((1, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 10, 20, 100))
    count = rng.choice((1, 1, 2, 3, 4, 5))
    if rng.random() < 0.2:
        first, step = first + 9 * step, -step
    row = [str(first + step * i) for i in range(3 + count)]
    shown, rest = ", ".join(row[:3]), ", ".join(row[3:])
    asks = CONTINUE_ONE if count == 1 else CONTINUE
    return Item(f"count/{first}/{step}", rng.choice(asks).format(s=shown, k=count), rest, rest)
