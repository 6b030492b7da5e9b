"""`@function`: makes a program of a Python function, which can be run, traced and compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..errors import OptionError, TraceError, shown
from ..sampling import scalar
from .compiled import CompiledProgram
from .executor import executor_of
from .graph.graph import Graph
from .graph.nodes import Called
from .graph.tracer import trace
from .location import caller, warn_once
from .runnable import Runnable


def function(
    func: Callable[..., Any] | None = None,
    num_api_spec_tokens: int | None = None,
    *,
    marks: bool = False,
    keep_tokens: bool = True,
) -> Any:
    """Make a program of a Python function whose first argument is the state, `s`; no other may be
    called as one of `run`'s own is.

    With `marks`, special tokens written in the contents of its roles and in its arguments are read
    as such, and not as plain text, in every run of it. Without `keep_tokens`, what the model wrote
    is tokenized anew with the text around it, as a server would that is sent text.
    With `num_api_spec_tokens` a model behind an API is let write on beyond a stop, up to so many
    tokens, and generations after it are taken from what it wrote where that is what the program
    has (docs/API_MODELS.md). It changes nothing for an engine.
    """
    make = functools.partial(
        SglFunction,
        marks=marks,
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
    """A program: all that `Runnable` does, and its graph."""

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
        called = Called(self.func.__name__, tuple(given.items()), self._own_run(0))
        return trace(called, self.func, self._signature, given, executor, partial)

    def compile(
        self, *, backend: Any = None, partial: bool = False, **arguments: Any
    ) -> CompiledProgram:
        """A program that runs the graph of `trace`, without this one's code; `backend` and
        `arguments` are those of `trace`. With `partial`, a program that cannot be traced to its end
        runs as it is, and says so."""
        graph = self.trace(backend=backend, partial=partial, **arguments)
        if graph.stopped:
            what = f"{graph.title} is interpreted, not run as a graph: {graph.stopped}"
            warn_once(what, caller())
        return CompiledProgram(graph, self.bind(**arguments))
