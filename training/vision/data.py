"""Batches of drawings with questions, and of text: functions of a seed and a step."""

from __future__ import annotations

import multiprocessing
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from .. import forms
from ..corpus import Batches
from ..items import held_out
from . import matplotlib_charts
from .drawings import Bars, Content, Pixels, bars, content, draw
from .network import IMAGE, TOKENS, tokenizer_with_image
from .questions import Question, ask

LENGTH = 160
"""Tokens of a row: an image and a few questions."""

BEFORE = f"{forms.BOS}{forms.USER}\n"
UNTRAINED = -100
CHARTS_PER_BATCH, CHARTS_KEPT = 4, 1500
"""Charts of matplotlib that a process renders for each batch, and keeps for later batches."""


class Batch(NamedTuple):
    pixels: Tensor  # uint8 [rows, 96, 96, 3]
    ids: Tensor  # int64 [rows, LENGTH]
    labels: Tensor  # int64 [rows, LENGTH], UNTRAINED outside of answers
    text: Tensor  # int16 [rows, length]


def draw_content(rng: Random, *, from_held_out: bool, chart: bool = False) -> Content:
    """Return the content of a drawing on the wanted side of the held-out rule."""
    while True:
        what = bars(rng) if chart else content(rng)
        if held_out(what.key) == from_held_out:
            return what


class Drawings(Dataset[Batch]):
    """Batch number `step`. A part `chart_share` of the rows has charts of matplotlib."""

    def __init__(
        self, text_model: Path, seed: int, steps: int, rows: int, chart_share: float, text_tokens: int
    ) -> None:
        self.tokenizer = tokenizer_with_image(text_model)
        self.seed, self.steps, self.rows, self.chart_share = seed, steps, rows, chart_share
        lengths = (256, 512, 256, 1024)
        self.texts = Batches(text_model / "tokenizer.json", seed, steps, text_tokens, lengths)
        self._charts: list[tuple[Bars, Pixels]] = []

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, step: int) -> Batch:
        rng = Random(f"vision/{self.seed}/{step}")
        self._render(rng)
        drawn = [self._drawing(rng, row < self.chart_share * self.rows) for row in range(self.rows)]
        rows = [self.row(what, rng) for what, _ in drawn]
        pixels = torch.from_numpy(np.stack([image for _, image in drawn]))
        ids, labels = (torch.tensor(column) for column in zip(*rows, strict=True))
        return Batch(pixels, ids, labels, self.texts[step])

    def _render(self, rng: Random) -> None:
        for _ in range(CHARTS_PER_BATCH if self.chart_share else 0):
            what = draw_content(rng, from_held_out=False, chart=True)
            assert isinstance(what, Bars)
            self._charts.append((what, matplotlib_charts.render(what, rng)))
        del self._charts[:-CHARTS_KEPT]

    def _drawing(self, rng: Random, chart: bool) -> tuple[Content, Pixels]:
        if chart:
            return rng.choice(self._charts)
        what = draw_content(rng, from_held_out=False)
        return what, draw(what, rng)

    def row(self, what: Content, rng: Random) -> tuple[list[int], list[int]]:
        """Return ids and labels: a chat with as many questions as fit, the image in the first one."""
        ids = self._encode(BEFORE) + self._encode(IMAGE) * TOKENS
        labels = [UNTRAINED] * len(ids)
        for number in range(rng.choice((1, 2, 3, 4, 5))):
            _, question, answer = ask(what, rng)
            begin = f"{forms.USER}\n" if number else ""
            asked = self._encode(f"{begin}{question}{forms.END}\n{forms.ASSISTANT}\n")
            answered = self._encode(f"{answer}{forms.END}")
            if len(ids) + len(asked) + len(answered) + 1 > LENGTH:
                break
            ids += asked + answered
            labels += [UNTRAINED] * len(asked) + answered
            ids += self._encode("\n")
            labels += [UNTRAINED]
        padding = LENGTH - len(ids)
        pad = self._encode(forms.PAD)
        return ids + pad * padding, labels + [UNTRAINED] * padding

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text).ids
        return ids


def held_out_question(seed: int, chart: bool, index: int) -> tuple[Pixels, Question]:
    """Return a held-out drawing and a question."""
    rng = Random(f"held out/{seed}/{chart}/{index}")
    what = draw_content(rng, from_held_out=True, chart=chart)
    pixels = matplotlib_charts.render(what, rng) if chart and isinstance(what, Bars) else draw(what, rng)
    return pixels, ask(what, rng)


def held_out_questions(count: int, *, chart: bool, seed: int = 0) -> list[tuple[Pixels, Question]]:
    """Return held-out drawings with a question each, drawn by several processes."""
    with multiprocessing.Pool(initializer=torch.set_num_threads, initargs=(1,)) as processes:
        return processes.map(partial(held_out_question, seed, chart), range(count), 20)
