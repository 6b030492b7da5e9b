"""`@function`: makes a program of a Python function, which can be run, traced and compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from inspect import BoundArguments
from typing import Any

from ..errors import OptionError, SgnbError, TraceError, shown
from ..sampling import scalar
from .compiled import CompiledProgram, graphs_inside
from .core.state import ProgramState
from .executor import executor_of
from .graph.code_motion import Motion, cache_prefix, move_constants
from .graph.explanation import Explanation, explain_dry, explain_graph
from .graph.graph import Graph
from .graph.nodes import CallNode
from .graph.recorder import is_open
from .graph.tracer import trace
from .location import caller, warn_once
from .primitives.config import executor_for
from .runnable import Runnable

MAX_GRAPHS = 16
"""Of a program, for values of its arguments that are no texts: each costs about what running its
code does."""
_PLAIN = str, int, float, bool, type(None)


def function(
    func: Callable[..., Any] | None = None,
    num_api_spec_tokens: int | None = None,
    *,
    special_tokens: bool = False,
    keep_tokens: bool = True,
    marks: bool | None = None,
) -> Any:
    """Make a program of a Python function whose first argument is the state, `s`; no other may be
    called as one of `run`'s own is.

    With `special_tokens`, special tokens written in the contents of its roles and in its arguments
    are read as such, and not as plain text, in every run of it; `marks` is the former name. Without
    `keep_tokens`, what the model wrote is tokenized anew with the text around it, as a server would
    that is sent text.
    With `num_api_spec_tokens` a model behind an API is let write on beyond a stop, up to so many
    tokens, and generations after it are taken from what it wrote where that is what the program
    has (docs/API_MODELS.md). It changes nothing for an engine.
    """
    make = functools.partial(
        SglFunction,
        special_tokens=special_tokens if marks is None else marks,
        keep_tokens=keep_tokens,
        num_api_spec_tokens=_checked(num_api_spec_tokens),
    )
    return make if func is None else make(func)


def _checked(tokens: Any) -> int | None:
    tokens = scalar(tokens)
    if tokens is None or (isinstance(tokens, int) and not isinstance(tokens, bool) and tokens > 0):
        return tokens
    message = f"num_api_spec_tokens={shown(tokens)} is not allowed"
    raise OptionError(message, "give an integer of 1 or more, or None")


class SglFunction(Runnable):
    """A program: runs, and becomes a graph."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._graphs: dict[Any, CompiledProgram | None] = {}  # of `_graph_for`; None: has none

    def _call(self, state: ProgramState, arguments: BoundArguments) -> Any:
        if graphs_inside.get():
            given = self._fixed(arguments)
            if (graph := self._graph_for(given)) is not None:
                texts = {k: v for k, v in arguments.arguments.items() if k not in given}
                return graph._call(state, graph._arguments((), texts))
        return super()._call(state, arguments)

    def _fixed(self, arguments: BoundArguments) -> dict[str, Any]:
        """The arguments of a call whose values a trace is given: all but texts."""
        parameters = self._signature.parameters
        return {
            name: value
            for name, value in arguments.arguments.items()
            if not (isinstance(value, str) and is_open(parameters[name], self.bound))
        }

    def _graph_for(self, given: Mapping[str, Any]) -> CompiledProgram | None:
        """The program with these values of arguments as a graph; None where it has none, and for
        values that cannot be told apart by what they are."""
        key = tuple((name, repr(value)) for name, value in given.items())
        if self._open_ended or not all(type(value) in _PLAIN for value in given.values()):
            return None
        if key not in self._graphs and len(self._graphs) < MAX_GRAPHS:
            try:
                self._graphs[key] = self.compile(**given)
            except SgnbError:
                self._graphs[key] = None
        return self._graphs.get(key)

    def trace(self, *, backend: Any = None, partial: bool = False, **arguments: Any) -> Graph:
        """The program as a graph. Its code runs once and asks no model: `arguments` have the values
        that are given, or fixed by `bind`; the others are placeholders, or their defaults where
        these are no texts.

        TraceError, with the line, where the program depends on what it has no value for or on what
        a model will write; with `partial` the graph up to there, whose `stopped` says why.
        `backend`: whose chat template the program finds, if it asks for it.
        """
        self._code.check()
        self._refuse_unknown(arguments, self._names)
        if self.is_async:
            what = f"{self.func.__name__} is an async def, which has no graph"
            raise TraceError(f"{self._code.location}: {what}", "trace a def")
        given = {**self.bound, **arguments}
        executor = None if backend is None else executor_of(backend)
        call = CallNode(self.func.__name__, tuple(given.items()), self._run_settings(0))
        return trace(call, self.func, self._signature, given, executor, partial)

    def cache(self, backend: Any = None, **arguments: Any) -> int:
        """Compute what every run begins with, up to the first argument or generation, so that runs
        find it in the cache. Its tokens; 0 where there is none, or where `backend` has no cache of
        its own. `arguments` are those of `trace`."""
        executor = executor_for(backend)
        return cache_prefix(self.trace(backend=executor, partial=True, **arguments), executor)

    def moved(self, *, by: Any, backend: Any = None, **arguments: Any) -> Motion:
        """Return the graph of `trace` with constant paragraphs before paragraphs with arguments.

        A longer part of the prompt is then equal in all runs and computed once.

        Args:
            by: The first words of each paragraph to move, or an engine or executor whose model
                chooses the order.
            backend: Counts the tokens; the default engine if None.
            **arguments: Arguments of `trace`.

        Returns:
            The graph, a `diff` of the text, and the number of `gained` tokens.

        Raises:
            TraceError: The order is not valid, or the constant prefix does not grow.
        """
        executor = executor_for(backend)
        graph = self.trace(backend=executor, **arguments)
        order = by if isinstance(by, Sequence) else executor_of(by)
        return move_constants(graph, executor, order)

    def explain(self, *args: Any, backend: Any = None, **kwargs: Any) -> Explanation:
        """What a run with these arguments, on `backend`, will take: as `CompiledProgram.explain`.
        Of a program that cannot be traced, not even with its arguments, what a dry run tells: its
        code runs with stand-ins for answers."""
        executor = executor_for(backend)
        try:
            return self.explain_graph(*args, backend=executor, **kwargs)
        except TraceError as why:
            call = functools.partial(self.run, *args, **kwargs)
            return explain_dry(self.func.__name__, executor, lambda dry: call(backend=dry), why)

    def explain_graph(self, *args: Any, backend: Any = None, **kwargs: Any) -> Explanation:
        """As `explain`, on `backend`; of a program that cannot be traced a TraceError."""
        arguments, defaults = self._split(args, kwargs)
        executor = executor_for(backend)
        graph = self.trace(backend=executor, **arguments.arguments)
        return explain_graph(graph, executor, {}, defaults)

    def compile(
        self, *, backend: Any = None, partial: bool = False, move: Any = None, **arguments: Any
    ) -> CompiledProgram:
        """Return a program that runs the graph of `trace` without the original code.

        Args:
            backend: As in `trace`.
            partial: Interpret a program that cannot be traced to the end, with a warning; called
                programs with a graph run as graphs.
            move: Run the graph of `moved(by=move)` instead.
            **arguments: As in `trace`.
        """
        if move is None:
            graph = self.trace(backend=backend, partial=partial, **arguments)
        else:
            graph = self.moved(by=move, backend=backend, **arguments).graph
        if graph.stopped:
            what = f"{graph.title} is interpreted, not run as a graph: {graph.stopped}"
            warn_once(what, caller())
        return CompiledProgram(graph, self.bind(**arguments))
