"""Drawing of cache and batch over time as SVG, equal to the page's drawing (`page/time.js`).

Shows the KV pool, the size of each step, and the hit rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..state.copied_blocks import PLACES
from ..state.metrics import duration
from ..state.run_details import RunDetails, StepFigures
from ..state.token_table import visible
from .lanes_svg import draw_legend
from .media_svg import Thumbnails
from .plain_text import counted, label
from .svg import COPY_STYLE, INSIDE, tag, text_at

LEFT, ROOM = 64, INSIDE - 64 - 74
"""Start and width of the time axis in pixels."""
POOL, BATCH, LOADS, RATE = 74, 62, 20, 46
"""Heights of the strips in pixels."""
COLUMNS_PER_ROW = 8
"""Columns of time per row of the limit on the size."""

Figure = Callable[[StepFigures], float]


class TimeView:
    """Cache and batch over the time of a run."""

    style = ""

    def __init__(self, details: RunDetails) -> None:
        self.title, self._calls = details.started.title, details.calls
        self.begin, self.end = details.began, max(details.ended, details.began + 1e-4)
        self.steps = [step for step in details.steps if step.t >= self.begin]
        self.evictions = [t for t in details.evictions if t >= self.begin]
        self.loads = [bar for bar in details.loads.bars if bar.ended >= self.begin]

    def sentence(self) -> str:
        """Return the figures of the run as a sentence."""
        admitted = [call for call in self._calls if call.admitted]
        prompt = sum(len(call.queued.prompt) for call in admitted)
        hits = sum(call.cached for call in admitted)
        share = f"{hits / prompt:.0%} of {prompt:,} prompt tokens found, " if prompt else ""
        prefill = sum(step.prefill for step in self.steps)
        evicted = f", {len(self.evictions):,} nodes evicted" if self.evictions else ""
        return (
            f"{counted(len(self._calls), 'request')}, {share}{prefill:,} tokens of prompts and"
            f" forced text computed in {counted(len(self.steps), 'step')}{evicted}"
        )

    def text(self) -> str:
        heading = f"cache and batch of {visible(self.title)} over time"
        loads = (bar.line() for bar in self.loads)
        return "\n".join([heading, self.sentence(), *loads, *map(" ".join, self._maxima())])

    def draw(self, rows: int, thumbnails: Thumbnails) -> tuple[str, float]:
        columns = grouped(self.steps, self.end - self.begin, COLUMNS_PER_ROW * rows)
        maxima = list(self._maxima())
        out = [text_at(0, 12, label(f"cache and batch of {self.title} over time", 110), "h")]
        out.append(text_at(0, 30, self.sentence(), "m"))

        y = 42.0
        for draw, height, (name, *figures) in zip(
            (self._pool, self._batch), (POOL, BATCH), maxima, strict=True
        ):
            out += self._frame(name, figures, y, height)
            out += draw(columns, y, height)
            y += height + 8

        if self.loads:
            tokens = sum(bar.tokens for bar in self.loads)
            out += [*self._frame("loads", [f"{tokens:,} tokens"], y, LOADS), *self._load_bars(y)]
            y += LOADS + 8

        out += self._frame("hit rate", [self._rate()], y, RATE)
        out.append(tag("path", class_="u cached", d=self._rates(y, RATE)))
        y += RATE

        out += [text_at(LEFT, y + 14, "0", "m")]
        out += [text_at(LEFT + ROOM, y + 14, duration(self.end - self.begin), "r")]
        out += _legend(y + 24)
        if self.loads:
            stores = {bar.store for bar in self.loads}
            marks = [(name, f"loaded from {place}") for name, place in PLACES.items()]
            out += draw_legend(y + 40, [mark for mark in marks if mark[0] in stores])
            y += 18
        return "".join(out), y + 42

    def _maxima(self) -> Iterator[list[str]]:
        """Yield the name of each strip and the figures at the right."""
        used = max((step.cached + step.in_flight for step in self.steps), default=0)
        pool = sum(self.steps[-1][-3:]) if self.steps else 0
        rows = max((step.decode for step in self.steps), default=0)
        tokens = max((step.prefill for step in self.steps), default=0)
        yield ["KV pool", f"{used:,} of", f"{pool:,}"]
        yield ["batch", counted(rows, "row"), f"{tokens} tokens"]

    def _frame(self, name: str, figures: Sequence[str], y: float, height: float) -> Iterator[str]:
        yield text_at(0, y + 12, name, "m")
        yield tag("rect", class_="l", fill="none", x=LEFT, y=y, width=ROOM, height=height)
        for i, figure in enumerate(figures):
            yield text_at(LEFT + ROOM + 6, y + 12 + 14 * i, figure, "m")

    def _x(self, t: float) -> float:
        return LEFT + ROOM * min(1.0, max(0.0, (t - self.begin) / (self.end - self.begin)))

    def _area(
        self, columns: Sequence[StepFigures], figure: Figure, scale: float, y: float, style: str
    ) -> str:
        """Draw a stepped area above the line `y`. `scale`: pixels per unit."""
        path = "".join(
            f"M{self._x(step.t - step.seconds):.1f} {y:.1f}v{-max(1, figure(step) * scale):.1f}"
            f"H{self._x(step.t):.1f}V{y:.1f}z"
            for step in columns
            if figure(step)
        )
        return tag("path", class_=style, d=path) if path else ""

    def _pool(self, columns: Sequence[StepFigures], y: float, height: float) -> Iterator[str]:
        scale = height / max(1, sum(columns[-1][-3:])) if columns else 0
        yield self._area(columns, lambda s: s.cached + s.in_flight, scale, y + height, "d")
        yield self._area(columns, lambda s: s.cached, scale, y + height, "n f")
        marks = "".join(f"M{self._x(t):.1f} {y:.1f}v{height}" for t in self.evictions[:200])
        yield tag("path", class_="x v", d=marks) if marks else ""

    def _batch(self, columns: Sequence[StepFigures], y: float, height: float) -> Iterator[str]:
        rows = max([1, *(max(step.decode, step.waiting) for step in columns)])
        tokens = max([1, *(step.prefill for step in columns)])
        yield self._area(columns, lambda s: s.decode, height / rows, y + height, "d")

        narrow = [step._replace(seconds=0.4 * step.seconds) for step in columns]
        yield self._area(narrow, lambda s: s.prefill, height / tokens, y + height, "p")

        waiting = "".join(
            f"M{self._x(s.t - s.seconds):.1f} {y + height * (1 - s.waiting / rows):.1f}"
            f"H{self._x(s.t):.1f}"
            for s in columns
            if s.waiting
        )
        yield tag("path", class_="v", d=waiting) if waiting else ""

    def _load_bars(self, y: float) -> Iterator[str]:
        yield tag("style", COPY_STYLE)
        for bar in self.loads:
            left = self._x(bar.began)
            right = max(left + 2, self._x(bar.ended))
            yield tag("rect", class_="w", x=left, y=y + 2, width=right - left, height=LOADS - 4)
            style = bar.store if bar.store in PLACES else "v"
            yield tag("path", class_=style, d=f"M{left:.1f} {y + LOADS - 3.5:.1f}H{right:.1f}")

    def _rate(self) -> str:
        prompt = sum(len(call.queued.prompt) for call in self._calls if call.admitted)
        hits = sum(call.cached for call in self._calls)
        return f"{hits / prompt:.0%}" if prompt else "–"

    def _rates(self, y: float, height: float) -> str:
        """Return the path of the hit rate after each admission."""
        prompt = hits = 0
        path = f"M{LEFT} {y + height:.1f}"
        for call in self._calls:
            if call.admitted:
                prompt, hits = prompt + len(call.queued.prompt), hits + call.cached
                path += f"H{self._x(call.began):.1f}V{y + height * (1 - hits / prompt):.1f}"

        return f"{path}H{LEFT + ROOM}"


def grouped(steps: Sequence[StepFigures], seconds: float, count: int) -> list[StepFigures]:
    """Group steps into at most `count` columns of time. The largest step represents a column."""
    columns: list[StepFigures] = []
    for step in steps:
        last = columns[-1] if columns else None
        if last is None or step.t - (last.t - last.seconds) >= seconds / count:
            columns.append(step)
            continue
        columns[-1] = step._replace(
            seconds=step.t - last.t + last.seconds,
            prefill=max(step.prefill, last.prefill),
            decode=max(step.decode, last.decode),
            waiting=max(step.waiting, last.waiting),
        )

    return columns


def _legend(y: float) -> Iterator[str]:
    x = 0.0
    for style, text in {
        "n f": "in the tree",
        "d": "of running requests; rows decoding",
        "p": "tokens of prompts and forced text",
        "v": "requests waiting",
    }.items():
        yield tag("rect", class_=style, x=x + 0.5, y=y + 2.5, width=15, height=9)
        yield text_at(x + 22, y + 12, text, "m")
        x += 40 + 6.4 * len(text)
