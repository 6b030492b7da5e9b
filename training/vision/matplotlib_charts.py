"""Bar charts by matplotlib in many styles, reduced to 96 x 96 pixels as an image processor does."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from PIL import Image

from .drawings import COLORS, MOST, SIZE, Bars, Pixels

NAMED = {"red": "tab:red", "blue": "tab:blue", "green": "tab:green", "orange": "tab:orange", "purple": "tab:purple",
         "brown": "tab:brown", "pink": "tab:pink", "black": "black"}
TITLES = "", "", "Sales", "Votes", "Books read", "Rain", "Points"


def render(what: Bars, rng: Random) -> Pixels:
    """Draw a chart with values from 0 to `MOST`, uint8 [96, 96, 3]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    side = rng.uniform(2.0, 4.5)
    figure = Figure((side * rng.uniform(0.9, 1.35), side), dpi=rng.choice((60, 72, 100)))
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    names, values = zip(*what.bars, strict=True)
    palette = NAMED if rng.random() < 0.5 else {
        name: tuple(part / 255 for part in color) for name, color in COLORS.items()}
    edge: dict[str, Any] = {"edgecolor": "black"} if rng.random() < 0.2 else {}
    axes.bar(range(len(names)), values, color=[palette[name] for name in names],
             width=rng.uniform(0.5, 0.9), zorder=2, **edge)
    axes.set_ylim(0, MOST)
    if rng.random() < 0.7:
        axes.set_xticks(range(len(names)), names)
    else:
        axes.set_xticks([])
    axes.set_yticks(range(0, MOST + 1, rng.choice((1, 2, 2, 5))))
    if rng.random() < 0.6:
        axes.grid(axis="y", color="lightgray", zorder=0)
    if rng.random() < 0.3:
        axes.spines[["top", "right"]].set_visible(False)
    title = rng.choice(TITLES)
    if title:
        axes.set_title(title)
    if rng.random() < 0.7:
        figure.tight_layout()
    canvas.draw()
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3])
    return np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BICUBIC))
