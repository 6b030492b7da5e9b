"""Drawings with known content: bar charts, shapes and numbers, 96 x 96 pixels. Knows no questions."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

SIZE = 96
COLORS: dict[str, tuple[int, int, int]] = {
    "red": (214, 39, 40), "blue": (31, 119, 180), "green": (44, 160, 44), "orange": (255, 150, 14),
    "purple": (148, 80, 189), "brown": (140, 86, 60), "pink": (240, 130, 200), "black": (30, 30, 30),
}
BACKGROUNDS = ((255, 255, 255), (250, 250, 245), (240, 244, 250), (245, 245, 245), (255, 250, 235))
MOST = 10
"""Largest value of a bar, at the upper end of the axis."""

SHAPES = "circle", "square", "triangle"
Color = tuple[int, int, int]
Pixels = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars from left to right, each with a color of its own and a value from 1 to `MOST`."""

    bars: tuple[tuple[str, int], ...]

    @property
    def key(self) -> str:
        return f"bars {self.bars}"


@dataclass(frozen=True, slots=True)
class Shapes:
    """Shapes with their colors, in any order."""

    shapes: tuple[tuple[str, str], ...]

    @property
    def key(self) -> str:
        return f"shapes {sorted(self.shapes)}"


@dataclass(frozen=True, slots=True)
class Number:
    """A number in seven segments."""

    digits: str

    @property
    def key(self) -> str:
        return f"number {self.digits}"


Content = Bars | Shapes | Number


def bars(rng: Random) -> Bars:
    names = rng.sample(sorted(COLORS), rng.choice((2, 3, 3, 4, 4, 5)))
    return Bars(tuple((name, rng.randint(1, MOST)) for name in names))


def shapes(rng: Random) -> Shapes:
    """Few kinds and colors, so that counts are above one."""
    kinds = rng.sample(SHAPES, rng.choice((1, 2, 2, 3)))
    names = rng.sample(sorted(COLORS), rng.choice((1, 2, 2, 3)))
    return Shapes(tuple((rng.choice(kinds), rng.choice(names)) for _ in range(rng.randint(1, 6))))


def number(rng: Random) -> Number:
    length = rng.choice((1, 2, 3, 3, 4, 4))
    return Number(str(rng.randint(0 if length == 1 else 10 ** (length - 1), 10**length - 1)))


def content(rng: Random) -> Content:
    return rng.choice((bars, bars, shapes, shapes, number))(rng)


def draw(what: Content, rng: Random) -> Pixels:
    """Draw in a random style, uint8 [96, 96, 3]."""
    background = rng.choice(BACKGROUNDS)
    image = Image.new("RGB", (SIZE, SIZE), background)
    pen = ImageDraw.Draw(image)
    if isinstance(what, Bars):
        _bars(pen, what, rng)
    elif isinstance(what, Shapes):
        _shapes(pen, what, rng)
    else:
        _number(pen, what, rng)
    pixels = np.asarray(image).astype(np.int16)
    if rng.random() < 0.3:
        noise = np.random.default_rng(rng.getrandbits(32)).normal(0, rng.uniform(1, 6), pixels.shape)
        pixels = pixels + noise.astype(np.int16)
    return pixels.clip(0, 255).astype(np.uint8)


def _near(color: Color, rng: Random) -> Color:
    red, green, blue = (min(255, max(0, part + rng.randint(-14, 14))) for part in color)
    return red, green, blue


def _bars(pen: ImageDraw.ImageDraw, what: Bars, rng: Random) -> None:
    left, top = rng.randint(4, 16), rng.randint(3, 14)
    right, bottom = SIZE - rng.randint(2, 8), SIZE - rng.randint(4, 14)
    unit = (bottom - top) / MOST
    gray = (rng.randint(170, 225),) * 3
    if rng.random() < 0.75:  # grid
        each = rng.choice((1, 2, 2, 5))
        for value in range(each, MOST + 1, each):
            pen.line((left, bottom - value * unit, right, bottom - value * unit), fill=gray)
    slot = (right - left) / len(what.bars)
    width = slot * rng.uniform(0.5, 0.9)
    outline = (40, 40, 40) if rng.random() < 0.25 else None
    for place, (name, value) in enumerate(what.bars):
        begin = left + slot * place + (slot - width) / 2
        box = (begin, bottom - value * unit, begin + width, bottom)
        pen.rectangle(box, fill=_near(COLORS[name], rng), outline=outline)
    ink = (rng.randint(0, 110),) * 3
    pen.line((left, bottom, right, bottom), fill=ink)
    pen.line((left, top, left, bottom), fill=ink)  # ends at `MOST`
    for value in range(0, MOST + 1, rng.choice((1, 2, 5, 10))):  # ticks
        pen.line((left - 2, bottom - value * unit, left, bottom - value * unit), fill=ink)


def _shapes(pen: ImageDraw.ImageDraw, what: Shapes, rng: Random) -> None:
    """Shapes in the cells of a grid, each with its own size and place in the cell."""
    cells = rng.sample([(x, y) for x in range(3) for y in range(3)], len(what.shapes))
    for (kind, name), (x, y) in zip(what.shapes, cells, strict=True):
        radius = rng.randint(8, 14)
        across = x * 32 + 16 + rng.randint(radius - 16, 16 - radius)
        down = y * 32 + 16 + rng.randint(radius - 16, 16 - radius)
        box = (across - radius, down - radius, across + radius, down + radius)
        color = _near(COLORS[name], rng)
        if kind == "circle":
            pen.ellipse(box, fill=color)
        elif kind == "square":
            pen.rectangle(box, fill=color)
        else:
            pen.polygon((box[0], box[3], box[2], box[3], across, box[1]), fill=color)


SEGMENTS = {
    "0": "abcdef", "1": "bc", "2": "abged", "3": "abgcd", "4": "fgbc", "5": "afgcd", "6": "afgedc",
    "7": "abc", "8": "abcdefg", "9": "abcdfg",
}


def _number(pen: ImageDraw.ImageDraw, what: Number, rng: Random) -> None:
    count = len(what.digits)
    width = rng.uniform(0.7, 1.0) * min(20.0, 84 / count - 5)
    height = width * rng.uniform(1.5, 2.0)
    gap = width + rng.uniform(4, 6)
    left = rng.uniform(4, max(4.0, SIZE - 4 - gap * (count - 1) - width))
    top = rng.uniform(6, SIZE - 6 - height)
    line = max(2, round(width / rng.uniform(4, 6)))
    color = _near(rng.choice(list(COLORS.values())), rng)
    for place, digit in enumerate(what.digits):
        x0, x1 = left + place * gap, left + place * gap + width
        y0, y1, middle = top, top + height, top + height / 2
        lines = {
            "a": (x0, y0, x1, y0), "b": (x1, y0, x1, middle), "c": (x1, middle, x1, y1),
            "d": (x0, y1, x1, y1), "e": (x0, middle, x0, y1), "f": (x0, y0, x0, middle),
            "g": (x0, middle, x1, middle),
        }
        for segment in SEGMENTS[digit]:
            pen.line(lines[segment], fill=color, width=line)
