"""`%sglang tour`: a sentence and a picture per view of a finished run."""

from __future__ import annotations

import html
from typing import NamedTuple

from ..viz import Recording
from ..viz.live.kept_pictures import ViewPicture
from .table import Displayable

SENTENCES = {
    "text": (
        "The text of the run. The color and the line below a token state the origin: found in the"
        " cache, computed as a prompt, sampled by the model, or forced by a grammar.",
        "point at a token: the details name probability, time and program line",
    ),
    "rows": (
        "A batch is a table: arguments, answer, tokens, cached share and time of each row.",
        "sort by a column, and open a row with a click",
    ),
    "tree": (
        "The radix tree is the cache. A node is a stretch of tokens, and prompts with an equal"
        " beginning share its nodes. Green nodes were found by this run, orange nodes are new.",
        "select a node: its tokens are marked in the text",
    ),
    "source": (
        "The program, line by line: calls, tokens found in the cache, computed tokens, new tokens,"
        " and time.",
        "select a line: its calls are marked in all views",
    ),
    "branches": (
        "Each branch is a lane over time. Forks run at the same time, and a join waits for the"
        " last fork.",
        "press c on two lanes to compare the branches",
    ),
    "workers": (
        "Each worker of a fleet is a lane over time. A call was sent to the worker of least cost:"
        " the time to the first token, and the delay of later calls.",
        "point at a call: the details name the cost of each worker",
    ),
    "grammar": (
        "A grammar limits the next token. Below each token stands the number of allowed tokens;"
        " text without a choice is forced, and costs no sampling.",
        "select a token: the automaton marks the state",
    ),
    "time": (
        "Use of the KV pool, rows and prompt tokens of each step, and the hit rate.",
        "drag over a range of time: all views show this range",
    ),
    "compare": (
        "The program with and without a technique, on one time axis.",
        "select a variant: its run opens in the other views",
    ),
}
"""View -> a sentence, and an action to try in the live view. The order is the order of the tour."""


class TourStep(NamedTuple):
    """A step of a tour."""

    view: str
    sentence: str
    action: str
    picture: ViewPicture


class Tour(Displayable):
    """The views of a run with data, in steps.

    Attributes:
        steps: Views with a sentence, an action and a picture.
    """

    def __init__(self, recording: Recording) -> None:
        views = set(recording.views())
        self.run, self.steps = recording.run, list[TourStep]()
        for view, (sentence, action) in SENTENCES.items():
            if view in views:
                self.steps.append(TourStep(view, sentence, action, recording.picture(view)))

    def _heads(self) -> list[str]:
        count = len(self.steps)
        return [f"{number} of {count}: {step.view}" for number, step in enumerate(self.steps, 1)]

    def __repr__(self) -> str:
        parts = (
            f"{head}\n{step.sentence}\nIn the live view: {step.action}.\n\n{step.picture}"
            for head, step in zip(self._heads(), self.steps, strict=True)
        )
        return "\n\n".join([f"tour of {self.run}", *parts])

    def _html(self) -> str:
        return f"<p>tour of {html.escape(self.run)}: {len(self.steps)} views</p>"

    def _ipython_display_(self) -> None:
        """Show each step: a sentence, then the picture."""
        from IPython.display import display

        for head, step in zip(self._heads(), self.steps, strict=True):
            words = f"{step.sentence} In the live view: {step.action}."
            bundle = {
                "text/plain": f"{head}\n{words}",
                "text/html": f"<p><b>{html.escape(head)}</b><br>{html.escape(words)}</p>",
            }
            display(bundle, raw=True)
            display(step.picture._repr_mimebundle_(), raw=True)
