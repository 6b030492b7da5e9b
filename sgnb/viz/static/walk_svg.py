"""Drawing of a constrained generation as SVG: the tokens with the number of allowed tokens, forced
text as one step, and the automaton. Equal to the page's drawing (`page/grammar.js`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...events import AutomatonDrawn
from ..state.run_details import RunCall
from ..state.token_table import visible
from ..state.tree import Trees
from .automaton_svg import DRAWN, draw_automaton
from .media_svg import Thumbnails
from .plain_text import counted, in_line
from .svg import CHAR, INSIDE, LETTER, columns, tag, text_at

STEP_LINE, GAP = 46, 6
"""Height of a line of steps, and the distance between two steps, in pixels."""
STEP_TEXT = 60
"""Maximum characters of a step."""


@dataclass
class WalkStep:
    """A sampled token, or the forced text of a jump."""

    tokens: list[int]
    note: str  # "forced", "free", or the number of allowed tokens
    mass: float = 1.0  # probability mass of the allowed tokens
    forced: bool = False


class WalkView:
    """The walk of the first constrained generation of a run. Others are counted."""

    style = DRAWN

    def __init__(
        self, calls: Sequence[RunCall], automata: Mapping[int, AutomatonDrawn], trees: Trees
    ) -> None:
        self.call, self.others = calls[0], len(calls) - 1
        self._table = trees[self.call.engine].token_table
        grammar = self.call.grammar
        self.automaton = automata.get(grammar.automaton) if grammar is not None else None
        self.steps = list(_steps(self.call))

    def lines(self) -> list[str]:
        """Return the heading and the counts."""
        queued, grammar = self.call.queued, self.call.grammar
        kind = grammar.grammar if grammar is not None else "grammar"
        tokens = self.call.tokens
        jumps = {id(token.jump): token.jump for token in tokens if token.jump is not None}
        replaced = sum(jump.dropped for jump in jumps.values())  # sampled before
        forced = sum(token.jump is not None for token in tokens) - replaced

        counts = f"{counted(len(tokens), 'token')}, {forced} of them forced"
        counts += f": {forced / len(tokens):.0%} without a choice"
        if self.others:
            counts += f" · and {counted(self.others, 'more generation')} with a grammar"

        return [f"walk of {queued.name or queued.purpose} [{queued.branch}] ({kind})", counts]

    def text(self) -> str:
        steps = [f"{in_line(self._text(step), STEP_TEXT)}  ({step.note})" for step in self.steps]
        return "\n".join([*map(visible, self.lines()), *steps])

    def draw(self, rows: int, thumbnails: Thumbnails) -> tuple[str, float]:
        heading, counts = self.lines()
        out = [text_at(0, 12, in_line(heading, 110), "h"), text_at(0, 30, counts, "m")]
        x, y, line = 0.0, 40.0, 0

        for index, step in enumerate(self.steps):
            text = in_line(self._text(step), STEP_TEXT) or "·"
            width = max(columns(text) * CHAR + 10, len(step.note) * LETTER + 4)
            if x and x + width > INSIDE:
                x, y, line = 0.0, y + STEP_LINE, line + 1

            if line >= max(1, rows // 3):
                hidden = counted(len(self.steps) - index, "more step")
                out.append(text_at(0, y + 12, f"… {hidden}", "m"))
                break
            out.append(_drawn_step(step, text, x, y, width))
            x += width + GAP

        y += STEP_LINE + 4
        if self.automaton is not None and rows > 2:
            body, height = draw_automaton(self.automaton)
            out.append(tag("g", body, transform=f"translate(0 {y:.0f})"))
            y += height

        return "".join(out), y

    def _text(self, step: WalkStep) -> str:
        return self._table.text(step.tokens)


def _steps(call: RunCall) -> list[WalkStep]:
    """Return the steps of a generation. The tokens of a jump are one step."""
    steps: list[WalkStep] = []
    last = None

    for token, mask, jump in call.tokens:
        if jump is not None and jump is last:
            steps[-1].tokens.append(token)
        elif jump is not None:
            steps.append(WalkStep([token], "forced", forced=True))
        else:
            note = f"{mask.allowed:,} allowed" if mask is not None else "free"
            logprob = mask.kept if mask is not None and mask.kept is not None else 0.0
            steps.append(WalkStep([token], note, math.exp(min(0.0, logprob))))

        last = jump
    return steps


def _drawn_step(step: WalkStep, text: str, x: float, y: float, width: float) -> str:
    """Draw a step: the text, a bar for the probability mass of allowed tokens, and the note."""
    style = "jumped" if step.forced else "sampled"
    return "".join(
        [
            tag("rect", class_=style, x=x, y=y, width=width, height=20, rx=3),
            text_at(x + 5, y + 14, text, ""),
            tag("path", class_=f"u {style}", d=f"M{x:.1f} {y + 22:.1f}h{width * step.mass:.1f}"),
            text_at(x + 1, y + 35, step.note, "c"),
        ]
    )
