"""Sums, differences and comparisons of numbers of one and two digits, small products, counting."""

from __future__ import annotations

from random import Random

from ..items import Item

WORDS = {"+": ("plus", "sum"), "-": ("minus", "difference"), "*": ("times", "product")}


def _operands(rng: Random) -> tuple[int, str, int, int]:
    """a, operator, b, result; mostly two digits, never a negative result."""
    sign = rng.choice("+++---*")
    if sign == "*":
        a, b = rng.randint(0, 12), rng.randint(0, 12)
        return a, sign, b, a * b
    top = 20 if rng.random() < 0.2 else 99
    a, b = rng.randint(0, top), rng.randint(0, top)
    if sign == "-" and a < b:
        a, b = b, a
    return a, sign, b, a + b if sign == "+" else a - b


def key(a: int, sign: str, b: int) -> str:
    """Sums that a child knows by heart (below ten) and products are one instance all together: never held out."""
    return "sum/by heart" if sign == "*" or max(a, b) < 10 else f"sum/{a}{sign}{b}"


def sum_question(rng: Random) -> Item:
    a, sign, b, result = _operands(rng)
    plus, total = WORDS[sign]
    ask = rng.choice(("What is {a} {s} {b}?", "What is {a} {p} {b}?", "{a} {s} {b} = ?", "Calculate {a} {s} {b}.",
                      "How much is {a} {p} {b}?", "What is the {t} of {a} and {b}?", "Compute {a} {p} {b}.",
                      "{a} {s} {b}", "What does {a} {s} {b} equal?", "What's {a} {s} {b}?",
                      "{a} {p} {b} is?", "How much is {a} {s} {b}?"))
    ask = ask.format(a=a, b=b, s=sign, p=plus, t=total)
    if rng.random() < 0.12:
        ask = ask.replace(f" {sign} ", sign)
    return Item(key(a, sign, b), ask, str(result), f"{a} {sign} {b} = {result}")


def equation(rng: Random) -> Item:
    """As a bare line: `12 + 34 =`, or `12+34=`."""
    a, sign, b, result = _operands(rng)
    if rng.random() < 0.15:
        return Item(key(a, sign, b), f"{a}{sign}{b}=", str(result), f"{a}{sign}{b}={result}")
    return Item(key(a, sign, b), f"{a} {sign} {b} =", str(result), f"{a} {sign} {b} = {result}")


def compare(rng: Random) -> Item:
    a, b = rng.sample(range(100), 2)
    if rng.random() < 0.5:
        ask = f"Which is larger, {a} or {b}?"
        return Item(f"compare/{a}/{b}", ask, str(max(a, b)), f"{max(a, b)} is larger than {min(a, b)}.",
                    choices=(str(a), str(b)))
    short = "Yes" if a > b else "No"
    return Item(f"compare/{a}/{b}", f"Is {a} greater than {b}?", short,
                f"{short}, {a} is {'greater' if a > b else 'less'} than {b}.", choices=("Yes", "No"))


def parity(rng: Random) -> Item:
    a = rng.randint(0, 200)
    short = "Odd" if a % 2 else "Even"
    return Item(f"parity/{a}", f"Is {a} even or odd?", short, f"{a} is {short.lower()}.", choices=("Even", "Odd"))


def counting(rng: Random) -> Item:
    first, step = rng.randint(0, 30), rng.choice((1, 1, 2, 3, 5, 10))
    row = [first + step * i for i in range(rng.randint(4, 8))]
    shown, rest = ", ".join(map(str, row[:3])), ", ".join(map(str, row[3:]))
    return Item(f"count/{first}/{step}/{len(row)}", f"Continue: {shown}, and {len(row) - 3} more.", rest, rest)


def thought_sum(rng: Random) -> Item:
    """A sum of two-digit numbers; `full` is the written-out steps, to stand between thinking marks."""
    a, b = rng.randint(10, 99), rng.randint(10, 99)
    ones, tens = a % 10 + b % 10, a // 10 + b // 10
    steps = f"{a % 10} + {b % 10} = {ones}. {a // 10} + {b // 10} = {tens}. {tens * 10} + {ones} = {a + b}."
    return Item(key(a, "+", b), f"What is {a} + {b}?", str(a + b), steps)
