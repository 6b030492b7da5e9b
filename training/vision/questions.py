"""Questions about drawings, with their answers."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import NamedTuple

from .drawings import Bars, Content, Number, Shapes


class Question(NamedTuple):
    kind: str
    ask: str
    answer: str


def ask(what: Content, rng: Random) -> Question:
    """Return a random question about a drawing."""
    if isinstance(what, Bars):
        return _about_bars(what, rng)
    return _about_shapes(what, rng) if isinstance(what, Shapes) else _about_number(what, rng)


def _about_bars(what: Bars, rng: Random) -> Question:
    values = dict(what.bars)
    kind = rng.choice(("value", "value", "tallest", "shortest", "bars", "compare", "order", "bars as JSON"))
    if kind in ("tallest", "shortest"):
        best = max(values.values()) if kind == "tallest" else min(values.values())
        if list(values.values()).count(best) == 1:
            name = next(name for name, value in values.items() if value == best)
            return Question(kind, rng.choice((f"Which bar is the {kind}?", f"What color is the {kind} bar?",
                                              f"Name the color of the {kind} bar.")), name)
        kind = "value"
    if kind == "bars":
        return Question(kind, rng.choice(("How many bars are there?", "How many bars does the chart have?",
                                          "Count the bars.")), str(len(values)))
    if kind == "compare":
        first, second = rng.sample(sorted(values), 2)
        if rng.random() < 0.5 or values[first] == values[second]:
            return Question(kind, f"Is the {first} bar taller than the {second} bar?",
                            "yes" if values[first] > values[second] else "no")
        return Question(kind, f"Which bar is taller, {first} or {second}?",
                        first if values[first] > values[second] else second)
    if kind == "order":
        return Question(kind, rng.choice(("Name the colors from left to right.",
                                          "Which colors do the bars have, from left to right?")), ", ".join(values))
    if kind == "bars as JSON":
        return Question(kind, rng.choice(("Write the chart as JSON.", "Give the bars as JSON.",
                                          "Write the values of the bars as JSON.")), json.dumps(values))
    name = rng.choice(sorted(values))
    return Question("value", rng.choice((f"What is the value of the {name} bar?", f"How tall is the {name} bar?",
                                         f"What is the value of {name}?")), str(values[name]))


def _about_shapes(what: Shapes, rng: Random) -> Question:
    kinds, colors = Counter(kind for kind, _ in what.shapes), Counter(color for _, color in what.shapes)
    kind = rng.choice(("count of a shape", "count of a color", "count", "is there", "shapes as JSON"))
    if kind == "count of a shape":
        shape = rng.choice(("circle", "square", "triangle"))
        return Question(kind, rng.choice((f"How many {shape}s are there?", f"Count the {shape}s.")), str(kinds[shape]))
    if kind == "count of a color":
        color = rng.choice(sorted({*colors, rng.choice(("red", "blue", "green"))}))
        return Question(kind, rng.choice((f"How many {color} shapes are there?", f"Count the {color} shapes.")),
                        str(colors[color]))
    if kind == "count":
        return Question(kind, rng.choice(("How many shapes are there?", "Count the shapes.")), str(len(what.shapes)))
    if kind == "is there":
        pair = (rng.choice(what.shapes) if rng.random() < 0.5
                else (rng.choice(sorted(kinds)), rng.choice(sorted(colors))))
        if rng.random() < 0.2:
            pair = (rng.choice(("circle", "square", "triangle")), rng.choice(("red", "blue", "green", "orange")))
        article = "an" if pair[1][0] == "o" else "a"
        return Question(kind, f"Is there {article} {pair[1]} {pair[0]}?", "yes" if pair in what.shapes else "no")
    counts = {f"{shape}s": kinds[shape] for shape in ("circle", "square", "triangle")}
    return Question(kind, rng.choice(("Write the shapes as JSON.", "Count the shapes of each kind as JSON.")),
                    json.dumps(counts))


def _about_number(what: Number, rng: Random) -> Question:
    kind = rng.choice(("number", "number", "number", "digits", "first digit"))
    if kind == "digits":
        return Question(kind, rng.choice(("How many digits are there?", "How many digits does the number have?")),
                        str(len(what.digits)))
    if kind == "first digit":
        return Question(kind, "What is the first digit?", what.digits[0])
    return Question("number", rng.choice(("What number is shown?", "Which number is this?", "Read the number.")),
                    what.digits)
