"""Dry runs (`--dry`, `program.dry(...)`, `sgnb.dry`): predict a program's calls without generating.
Shows no views."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..errors import SgnbError
from ..grammar.grammar_report import cut
from ..lang import CompiledProgram, SglFunction
from ..lang.graph.explanation import Explanation
from ..lang.location import Location
from ..lang.runnable import Runnable
from ..viz.static.plain_text import counted
from .table import Displayable, Table, html_lines, one_line

if TYPE_CHECKING:
    from ..backends.any_engine import AnyEngine
    from ..backends.dry import DryCall


STATES = (
    "the model has recurrent layers: within `earlier`, the first prompt that diverges from the"
    " others recomputes the tokens after the last checkpoint"
)


class DryReport(Displayable):
    """Report of a dry run.

    Attributes:
        calls: Calls in order of execution.
        notes: Further remarks for the user.
        orders: Orders of unordered parts, in words.
        explanation: Analysis of the program's graph, or None without a graph.
    """

    def __init__(
        self,
        calls: Iterable[DryCall],
        notes: Iterable[str] = (),
        explanation: Explanation | None = None,
        orders: Iterable[str] = (),
    ) -> None:
        self.calls, self.notes, self.orders = list(calls), list(notes), list(orders)
        self.explanation = explanation

    @property
    def warnings(self) -> list[str]:
        """Return distinct warnings, each with the name of the call."""
        pairs = ((call.name, warning) for call in self.calls for warning in call.warnings)
        return list(dict.fromkeys(f"{name}: {warning}" for name, warning in pairs))

    def table(self) -> Table:
        """Return a table with a row per call."""
        of_others = any(call.model for call in self.calls)
        rows = (_row(call, of_others) for call in self.calls)
        return Table(rows, empty="the program makes no call")

    def line(self) -> str:
        """Return the sums over all requests to the model, counted like the figures of a run."""
        prompt = sum(call.prompt_tokens for call in self.calls if not call.forced)
        computed = sum(call.computed_tokens for call in self.calls)
        new = sum(call.new_tokens * call.samples for call in self.calls)
        return (
            f"dry: {counted(len(self.calls), 'call')}; "
            f"{computed:,} of {prompt:,} prompt tokens would be computed, "
            f"at most {new:,} generated. Prompts after an answer contain a placeholder answer."
        )

    def outlook(self) -> list[str]:
        """Return predictions of the graph: the longest chain of calls, and cache slots."""
        if self.explanation is None or not self.calls:
            return []
        total = self.explanation.totals
        chain = [call.name for call in self.explanation.calls if call.critical]
        return [
            f"at most {total['passes']:,} passes one after the other: {', '.join(chain)}; "
            f"at most {total['slots']:,} slots of the KV cache at one time"
        ]

    def __repr__(self) -> str:
        marked = [one_line(f"! {line}") for line in (*self.warnings, *self.notes)]
        lines = [self.line(), *self.orders, *self.outlook()]
        return "\n".join([repr(self.table()), *marked, *map(one_line, lines)])

    def _html(self) -> str:
        marked = html_lines("li", (*self.warnings, *self.notes))
        listed = f"<ul>{marked}</ul>" if marked else ""
        return (
            self.table()._html()
            + listed
            + html_lines("p", [self.line(), *self.orders, *self.outlook()])
        )


def dry_run(
    program: Runnable, engine: AnyEngine, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> DryReport:
    """Run a program with placeholders instead of model output.

    An SgnbError is raised like in a run. Other errors end the dry run with a note, because program
    code may not support placeholders.

    Args:
        program: Program to run.
        engine: Engine for tokenization and cache lookups.
        args: Positional arguments of the program.
        kwargs: Keyword arguments of the program.
    """
    from ..backends import executor_of

    executor = executor_of(engine)
    explanation = _explained(program, args, {**kwargs, "backend": executor})
    dry_executor = executor.dry_executor()
    notes = [STATES] if engine.state_bytes else []
    try:
        program.run(*args, **{**kwargs, "backend": dry_executor}).sync()
    except SgnbError:
        raise
    except Exception as error:
        notes.append(_stopped(error, program))
    return DryReport(dry_executor.calls, notes, explanation, dry_executor.orders)


def _explained(
    program: Runnable, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Explanation | None:
    """Explain the program's graph. Return None without a graph or after an error; the dry run
    reports the error."""
    with suppress(Exception):
        if isinstance(program, CompiledProgram):
            return program.explain(*args, **kwargs)
        if isinstance(program, SglFunction):
            return program.explain_graph(*args, **kwargs)
    return None


def _row(call: DryCall, of_others: bool) -> dict[str, Any]:
    """Return the table row of a call, with the model name if `of_others` is set."""
    several = f" x {call.samples}" if call.samples > 1 else ""
    choices = f"{call.scored_tokens} scored" if call.scored_tokens else ""
    return {
        "call": call.name,
        **({"model": call.model} if of_others else {}),
        "line": str(call.location or ""),
        "prompt": call.prompt_tokens,
        "cached": call.cached_tokens,
        "earlier": call.shared_tokens,
        "compute": call.computed_tokens,
        "new": choices or f"<= {call.new_tokens}{several}",
        "grammar": call.grammar.line() if call.grammar else "",
        "stand-in": cut(call.answer, 40),
    }


def _stopped(error: Exception, program: Runnable) -> str:
    """Describe the place and the reason of the program's failure."""
    file, trace, line = program.func.__code__.co_filename, error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    location = f"{Location(file, line)}: " if line else ""
    cause = f"{type(error).__name__}: {error}"
    return f"{location}the program stopped here on a placeholder answer: {cause}"
