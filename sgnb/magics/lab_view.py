"""Controls and table of a prompt lab in a notebook. The table is an output of its own: the saved
notebook keeps the answers and ratings, and model text stays text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ..errors import OptionError, SgnbError, shown
from ..lang.batches.rows import is_program
from ..viz import in_kernel
from ..viz.live.display import is_static
from ..viz.static.plain_text import label
from .engines import Engines
from .lab import RATINGS, Lab, LabCell
from .lab_controls import Control, controls_of, setting_controls
from .table import one_line

REFRESH_SECONDS = 0.25
SETTINGS = ("temperature", "max_tokens", "seed")
"""Settings with a control, unless the lab has a grid."""
NO_RATING = "not rated"
LABEL_CHARACTERS = 80
ALIGNED = {"description_width": "100px"}
WIDE = {"width": "auto", "max_width": "640px"}


class Labs:
    """Makes labs for the engines of a session."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines

    def __call__(self, program: Any, rows: Any = None, grid: Any = None) -> Lab:
        """Return a prompt lab: a program over a grid of settings and rows, with ratings.

        Displays as controls for the program's parameters and a table of the answers. Equal pairs of
        row and setting run once.

        Args:
            program: Program to run.
            rows: Rows of arguments, as in `run_batch`; None for rows from the controls.
            grid: Dict from a name to a list of values: sampling parameters, "model" (names of
                engines, or backends), "program" (other prompts), and arguments of the program. None
                for settings from the controls.

        Raises:
            OptionError: The program, the rows or the grid are invalid.
        """
        if not is_program(program):
            hint = "give a function with @sgnb.function, or the name of a cell"
            raise OptionError(f"{shown(program)} is not a program", hint)

        return Lab(self._engines, program, rows, grid, show)


def show(lab: Lab) -> None:
    """Display a lab in the running cell: controls and table, or a text in a terminal."""
    if not in_kernel():
        print(repr(lab))
        return
    from IPython.display import display

    view = None if is_static() else LabView(lab)
    if view is not None:
        display(view.widget)
    table = display(lab._repr_mimebundle_(), raw=True, display_id=True)
    if view is not None:
        view.table = table


class LabView:
    """Widgets of a lab. All methods run on the kernel's main thread.

    Attributes:
        widget: Box with the controls.
        table: Display handle of the table.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.table: Any = None
        engines = lab.engines.names()
        in_grid = {name for setting in lab.settings for name in setting}
        self._controls = [c for c in controls_of(lab.program) if c.name not in in_grid]
        self._settings = [] if lab.has_grid else setting_controls(SETTINGS, engines)
        self._inputs = {c.name: _input(c) for c in [*self._controls, *self._settings]}
        self.widget = self._box()
        self._fill_choices()

    def _box(self) -> Any:
        import ipywidgets

        self._start = self._button("run", "run all pairs without an answer", self._run)
        stop = "stop at the next token; answers stay"
        self._stop = self._button("stop", stop, self._lab.stop)
        self._stop.disabled = True
        self._error = ipywidgets.Label()
        aligned = {"style": ALIGNED, "layout": WIDE}
        self._pair = ipywidgets.Dropdown(description="answer", options=[], **aligned)
        options = [(NO_RATING, NO_RATING), *((str(rating), rating) for rating in RATINGS)]
        self._rating = ipywidgets.Dropdown(description="rating", options=options, style=ALIGNED)
        self._note = ipywidgets.Text(description="note", **aligned)
        rate = "keep rating and note, and go to the next answer"
        self._rate = self._button("rate", rate, self._keep)
        self._pair.observe(self._show_rating, "value")
        rating = ipywidgets.HBox([self._rating, self._rate], layout={"flex_flow": "row wrap"})
        return ipywidgets.VBox(
            [
                *self._inputs.values(),
                ipywidgets.HBox([self._start, self._stop, self._error]),
                self._pair,
                rating,
                self._note,
            ]
        )

    def _button(self, name: str, tooltip: str, action: Callable[[], None]) -> Any:
        import ipywidgets

        button = ipywidgets.Button(description=name, tooltip=tooltip)
        button.on_click(lambda _: self._do(action))
        return button

    def _do(self, action: Callable[[], None]) -> None:
        """Execute the action of a button. An error is shown next to the buttons."""
        self._error.value = ""
        try:
            action()
        except SgnbError as error:
            hint = f" ({error.hint})" if error.hint else ""
            self._error.value = one_line(f"{error.message}{hint}")

    def _run(self) -> None:
        """Add the values of the controls to the grid, and start."""
        values = {c.name: c.read(self._inputs[c.name].value) for c in self._controls}
        setting = {c.name: c.read(self._inputs[c.name].value) for c in self._settings}
        if not self._lab.has_grid:
            self._lab.add_setting({k: v for k, v in setting.items() if v not in (None, "")})

        if not self._lab.rows or values != self._initial():
            self._lab.add_row(values)
        self._lab.start()
        self._start.disabled, self._stop.disabled = True, False
        self._refresh()

    def _initial(self) -> dict[str, Any]:
        return {control.name: control.read(control.value) for control in self._controls}

    def _refresh(self) -> None:
        """Show the progress, until the run has ended."""
        is_running = self._lab.is_running
        self._lab.update()
        self.table.update(self._lab._repr_mimebundle_(), raw=True)
        if is_running:
            asyncio.get_running_loop().call_later(REFRESH_SECONDS, self._refresh)
            return

        self._start.disabled, self._stop.disabled = False, True
        self._fill_choices()

    def _fill_choices(self) -> None:
        """Offer the answers for a rating."""
        index = self._pair.value
        pairs = [pair for pair in self._lab.cells if pair.status == "done"]
        self._pair.options = [(_label(pair), pair.index) for pair in pairs]
        indices = [pair.index for pair in pairs]
        self._pair.value = index if index in indices else next(iter(indices), None)

    def _show_rating(self, change: Any) -> None:
        pair = next((pair for pair in self._lab.cells if pair.index == change["new"]), None)
        rating = None if pair is None else pair.rating
        self._rating.value = NO_RATING if rating is None else rating
        self._note.value = "" if pair is None else pair.note

    def _keep(self) -> None:
        """Keep the rating, and go to the next answer without a rating."""
        if self._pair.value is None:
            return
        rating = None if self._rating.value == NO_RATING else self._rating.value
        self._lab.rate(self._pair.value, rating, self._note.value)
        self.table.update(self._lab._repr_mimebundle_(), raw=True)
        later = [
            pair.index
            for pair in self._lab.cells
            if pair.status == "done" and pair.rating is None and pair.index > self._pair.value
        ]
        self._fill_choices()
        if later:
            self._pair.value = later[0]


def _input(control: Control) -> Any:
    """Return the widget of a control."""
    import ipywidgets

    kind = {
        "checkbox": ipywidgets.Checkbox,
        "integer": ipywidgets.IntText,
        "number": ipywidgets.FloatText,
        "choice": ipywidgets.Dropdown,
        "long text": ipywidgets.Textarea,
    }.get(control.kind, ipywidgets.Text)
    options: dict[str, Any] = {"value": control.value, "description": control.name}
    if control.kind == "choice":
        options["options"] = list(control.choices)

    if control.kind == "optional number":
        options["placeholder"] = "default"
    if control.kind in ("text", "long text", "literal"):
        options["layout"] = WIDE

    return kind(**options, style=ALIGNED)


def _label(pair: LabCell) -> str:
    rating = "" if pair.rating is None else f" [{pair.rating}]"
    return label(f"{pair.index}: {pair.answer}", LABEL_CHARACTERS) + rating
