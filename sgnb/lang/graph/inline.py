"""Inline a graph into another trace: the replay records its nodes in the traced program without
waiting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from ..core.run import Run
from .holes import Hole, Variable, placed, plain
from .nodes import Called, Node, OwnRun
from .replay import Plan, Replay, Step
from .tracer import Trace, Tracer, TracingState


def inline(plan: Plan, state: TracingState, arguments: Mapping[str, Any]) -> Any:
    """Append all nodes to `state`. Returns the program's return value, with placeholders."""
    return _Inlined(plan, state, arguments).run()


class _Inlined(Replay):
    """A replay inside a traced program."""

    def __init__(self, plan: Plan, state: TracingState, arguments: Mapping[str, Any]) -> None:
        super().__init__(plan, state, arguments, _no_executor)
        self.trace: Trace = state.tracer.trace

    def _do(self, step: Step) -> None:
        with self.trace.titled(step.node.program):
            super()._do(step)

    def _is_there(self, variable: Variable) -> bool:
        return (variable.stream, variable.name, variable.version) in self.numbers

    def _variable(self, variable: Variable) -> Any:
        stream, name = variable.stream, variable.name
        number = self.numbers[stream, name, variable.version]
        later = sum(number < one for one in self.later[stream, name])
        return self.trace.variable(self.branches[stream], name, later, variable.item)

    def _read(self, hole: Hole) -> str:
        text: str = plain(super()._read(hole))
        return text

    def _fill(self, value: Any, node: Node) -> Any:
        return placed(super()._fill(value, node), self.trace.holes)

    def _call(self, step: Step) -> None:
        node, called = step.node, step.node.what
        assert isinstance(called, Called)
        if node.id == 0:  # already recorded by the caller
            return
        arguments = plain(self._fill(called.arguments, node))
        if called.run is not None:
            own = self._begun(node, called.run)
            self.trace.record_call(self.branches[node.stream], Called(called.title, arguments, own))
        else:
            self.trace.record_call(self.branches[node.stream], Called(called.title, arguments))

    def _begun(self, node: Node, own: OwnRun) -> OwnRun:
        """Begin the stream of a called program. Returns the run settings in this graph."""
        caller = self.branches[own.caller]
        defaults = plain(self._fill(own.defaults, node))
        run = Run(caller.program.executor, node.program, defaults=dict(defaults), traced=True)
        self.branches[node.stream] = self.trace.begin(run).root
        return replace(own, caller=self.trace.number(caller), defaults=defaults)

    def _return(self, step: Step) -> None:
        returned: Any = step.node.what
        value = self._fill(returned.value, step.node)
        program = self.branches[step.node.stream].program
        if step.node.stream == 0:
            self.value = value
        else:
            assert isinstance(program, Tracer)
            self.trace.end(program, value)


def _no_executor(backend: Any) -> NoReturn:
    raise AssertionError("a traced program asks nothing")
