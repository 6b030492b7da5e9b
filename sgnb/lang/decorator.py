"""`@function`: programs from Python functions, which can be run, traced and compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from inspect import BoundArguments
from typing import Any

from ..errors import SgnbError, TraceError
from ..sampling import integer, optional, read_option
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
from .primitives.program_method import ProgramMethod
from .runnable import Runnable

MAX_GRAPHS = 16
"""Maximum number of graphs per program, one per combination of argument values other than texts.
Building a graph costs about as much as running the code once."""
_PLAIN = str, int, float, bool, type(None)


def function(
    func: Callable[..., Any] | None = None,
    num_api_spec_tokens: int | None = None,
    *,
    special_tokens: bool = False,
    keep_tokens: bool = True,
    marks: bool | None = None,
) -> Any:
    """Turn a Python function into a program. Usable as a decorator with or without arguments.

    The first parameter of the function is the state and must be named `s`. Other parameters must
    not have the name of a parameter of `SglFunction.run`.

    Args:
        func: Function, or `async def` function, with the state `s` as the first parameter.
        num_api_spec_tokens: Number of tokens, 1 or more, that a model behind an API may write
            beyond the end of a generation. Later generations use this text if the program appends
            the same text; see docs/API_MODELS.md. No effect on engines.
        special_tokens: Recognize special tokens in role contents and arguments. By default special
            tokens in such texts are plain text.
        keep_tokens: Keep sampled token ids in later prompts. False tokenizes generated text again
            together with the text around, as a server does that receives text.
        marks: Former name of `special_tokens`.

    Returns:
        The program (an `SglFunction`), or a decorator if `func` is None.

    Raises:
        ProgramError: `func` cannot be a program.
        OptionError: `num_api_spec_tokens` is not a positive integer.

    Example:
        @sgl.function
        def capital(s, country):
            s += sgl.user(f"What is the capital of {country}?")
            s += sgl.assistant(sgl.gen("answer", max_tokens=16))

        capital.run(country="France")["answer"]
    """
    name, rule = "num_api_spec_tokens", "an integer of 1 or more, or None"
    num_tokens = read_option(name, num_api_spec_tokens, rule, optional(integer(1)))
    make = functools.partial(
        SglFunction,
        special_tokens=special_tokens if marks is None else marks,
        keep_tokens=keep_tokens,
        num_api_spec_tokens=num_tokens,
    )
    return make if func is None else make(func)


class SglFunction(Runnable):
    """Program from a Python function: runs directly, or as a graph after `compile`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # by argument values, see `_graph_for`; None: not traceable
        self._graphs: dict[Any, CompiledProgram | None] = {}

    def _call(self, state: ProgramState, arguments: BoundArguments) -> Any:
        if (check := graphs_inside.get()) is not None:
            values = self._fixed(arguments)
            graph = self._graph_for(values, check)
            if graph is not None:
                texts = {k: v for k, v in arguments.arguments.items() if k not in values}
                try:
                    run_graph = graph.graph_for(texts, state)
                except TraceError:  # not for these texts
                    return super()._call(state, arguments)
                state.program.taint(arguments.arguments)
                return run_graph.plan.run(state, run_graph.arguments, executor_for)
        return super()._call(state, arguments)

    def _fixed(self, arguments: BoundArguments) -> dict[str, Any]:
        """Return the arguments of a call with fixed values in a trace: all arguments except
        texts."""
        parameters = self._signature.parameters
        return {
            name: value
            for name, value in arguments.arguments.items()
            if not (isinstance(value, str) and is_open(parameters[name], self.bound))
        }

    def _graph_for(self, values: Mapping[str, Any], check: bool) -> CompiledProgram | None:
        """Return the compiled program for these argument values. None if the program is not
        traceable, or if the values have no unambiguous representation."""
        key = check, *((name, repr(value)) for name, value in values.items())
        if self._open_ended or not all(type(value) in _PLAIN for value in values.values()):
            return None
        if key not in self._graphs and len(self._graphs) < MAX_GRAPHS:
            try:
                self._graphs[key] = CompiledProgram(
                    self.trace(**values), self.bind(**values), check=check
                )
            except SgnbError:
                self._graphs[key] = None
        return self._graphs.get(key)

    @ProgramMethod
    def trace(self, *, backend: Any = None, partial: bool = False, **arguments: Any) -> Graph:
        """Return the program as a graph, without calling a model. The code runs once.

        Args:
            backend: Engine or executor that provides the chat template; only needed if the code
                reads the template.
            partial: End the graph at the first part without a graph, instead of raising TraceError.
                `Graph.stopped` is the reason.
            **arguments: Values of parameters, in addition to values from `bind`. Every other
                parameter becomes a placeholder, or keeps a default that is not a text.

        Raises:
            TraceError: The code depends on a placeholder or on generated text. The message names
                the line.
        """
        self._code.check()
        self._refuse_unknown(arguments, self._names)
        if self.is_async:
            problem = f"{self.func.__name__} is an async def, which has no graph"
            raise TraceError(f"{self._code.location}: {problem}", "trace a def")
        values = {**self.bound, **arguments}
        executor = None if backend is None else executor_of(backend)
        call = CallNode(self.func.__name__, tuple(values.items()), self._run_settings(0))
        return trace(call, self.func, self._signature, values, executor, partial)

    @ProgramMethod
    def cache(self, backend: Any = None, **arguments: Any) -> int:
        """Prefill the constant prompt prefix: the text before the first argument or generation.

        Later runs find the prefix in the prefix cache.

        Args:
            backend: Engine or executor; the default backend if None.
            **arguments: As in `trace`.

        Returns:
            The number of tokens in the prefix; 0 without a constant prefix, or if the backend has
            no prefix cache.
        """
        executor = executor_for(backend)
        return cache_prefix(self.trace(backend=executor, partial=True, **arguments), executor)

    @ProgramMethod
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

    @ProgramMethod
    def explain(self, *args: Any, backend: Any = None, **kwargs: Any) -> Explanation:
        """Estimate the cost of each call of a run, as `CompiledProgram.explain` does.

        If the program cannot be traced with these arguments, the code runs on a dry executor with
        placeholder answers, and the estimate covers the calls of this dry run.

        Args:
            *args: Arguments of `run`.
            backend: As in `run`.
            **kwargs: Arguments and sampling defaults of `run`.
        """
        executor = executor_for(backend)
        try:
            return self.explain_graph(*args, backend=executor, **kwargs)
        except TraceError as why:
            call = functools.partial(self.run, *args, **kwargs)
            return explain_dry(self.func.__name__, executor, lambda dry: call(backend=dry), why)

    @ProgramMethod
    def explain_graph(self, *args: Any, backend: Any = None, **kwargs: Any) -> Explanation:
        """Estimate the cost of each call of a run from the graph, without a dry run.

        Args:
            *args: Arguments of `run`.
            backend: As in `run`.
            **kwargs: Arguments and sampling defaults of `run`.

        Raises:
            TraceError: The program cannot be traced with these arguments.
        """
        arguments, defaults = self._split(args, kwargs)
        executor = executor_for(backend)
        graph = self.trace(backend=executor, **arguments.arguments)
        return explain_graph(graph, executor, {}, defaults)

    @ProgramMethod
    def compile(
        self,
        *,
        backend: Any = None,
        partial: bool = False,
        move: Any = None,
        check: bool = True,
        **arguments: Any,
    ) -> CompiledProgram:
        """Return a program that runs the graph of `trace`.

        Before each run the code of the program runs with the values of the arguments and without a
        model. If the code appends something else than the graph, for example after the change of a
        global, the run uses a graph of its own arguments. A warning names both lines.

        Args:
            backend: As in `trace`.
            partial: Interpret a program that cannot be traced to the end, with a warning; called
                programs with a graph run as graphs.
            move: Run the graph of `moved(by=move)` instead.
            check: Compare the graph with the code before each run. Without the check the code does
                not run again, and globals, files and helpers keep their values at the trace.
            **arguments: As in `trace`.

        Returns:
            The compiled program.

        Raises:
            TraceError: The program depends on generated data or on an argument without a value.
        """
        traced = None
        if move is None:
            graph = self.trace(backend=backend, partial=partial, **arguments)
        else:
            traced = self.trace(backend=executor_for(backend), **arguments)
            graph = self.moved(by=move, backend=backend, **arguments).graph
        if graph.stopped:
            what = f"{graph.title} is interpreted, not run as a graph: {graph.stopped}"
            warn_once(what, caller())
        return CompiledProgram(graph, self.bind(**arguments), check=check, traced=traced)
