"""Replay a graph: append its nodes to a program's branches without running the program's code.

Nodes run in trace order. A stream blocks while its next node needs a pending text; other streams
continue. If all streams block, the thread waits for the first blocked stream's text.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from math import inf
from typing import Any

from ...events import ProgramCalled
from ..core.branch import Branch
from ..core.ops import Assign, VarScopeBegin, VarScopeEnd
from ..core.program import Program, inside
from ..core.run import Run
from ..core.state import ProgramState
from ..executor import Executor
from ..ir import Gen, PartSet, Select, Text, UnreadMedia
from ..location import standing
from .filling import Filler
from .graph import Graph
from .nodes import (
    CallNode,
    Constant,
    ForkItem,
    ForkNode,
    JoinNode,
    Node,
    ReturnNode,
    RunSettings,
)
from .placeholders import Argument, Placeholder, Variable


class _ArgumentRepr(reprlib.Repr):
    def repr_bytes(self, value: bytes, level: int) -> str:
        return self.repr_instance(value[: self.maxother], level)  # `repr` copies a whole file


_short = _ArgumentRepr()  # formats program arguments; inspects only the beginning of long values
_short.maxstring = _short.maxother = 60


def shown_arguments(arguments: Mapping[str, Any]) -> str:
    """Format a program's `arguments` as a short line."""
    return ", ".join([f"{name}={_short.repr(value)}" for name, value in arguments.items()])


@dataclass(slots=True)
class Step:
    """A unit of replay: a node, or all nodes of a text."""

    order: int  # position among all steps
    node: Node
    needs: tuple[Variable, ...] = ()
    pieces: list[str | Placeholder] = field(default_factory=list)  # pieces of a text
    streams: frozenset[int] = frozenset()  # streams that must reach `order` first


class Plan:
    """A graph prepared for repeated runs."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps: list[Step] = []  # in the order of the trace
        self.streams: dict[int, list[Step]] = {}
        step: Step
        program_of: dict[int, int] = {}  # stream -> first stream of the stream's program
        for node in graph.nodes:
            op = node.op
            if isinstance(op, ForkItem):
                continue
            if not node.continues_text:
                step = Step(node.id, node)
                self.steps.append(step)
                self.streams.setdefault(node.stream, []).append(step)
            if isinstance(op, Constant):
                step.pieces.append(op.text)
            elif isinstance(op, Argument | Variable):
                step.pieces.append(op)
            values = (op, *(placeholder for _, placeholder in node.placeholders))
            step.needs += tuple(value for value in values if isinstance(value, Variable))

            program_of.setdefault(node.stream, node.stream)
            if isinstance(op, ForkNode):
                program_of |= dict.fromkeys(op.streams, program_of[node.stream])
            elif isinstance(op, JoinNode):
                step.streams = frozenset(op.streams)
            elif isinstance(op, ReturnNode):
                streams = {s for s, first in program_of.items() if first == node.stream}
                step.streams = frozenset(streams - {node.stream})

    def run(
        self,
        state: ProgramState,
        arguments: Mapping[str, Any],
        executor_of: Callable[[Any], Executor],
    ) -> Any:
        """Append all nodes to `state` and return the program's return value.

        Args:
            state: The state of the run.
            arguments: The values of the graph's parameters.
            executor_of: Returns the executor of a called program's `backend`.
        """
        return Replay(self, state, arguments, executor_of).run()


class Replay(Filler):
    """A single run of a plan. `tracer.py` derives a replay for traced programs."""

    def __init__(
        self,
        plan: Plan,
        state: ProgramState,
        arguments: Mapping[str, Any],
        executor_of: Callable[[Any], Executor],
    ) -> None:
        super().__init__({**dict(plan.graph.defaults), **arguments})
        self.executor_of = executor_of
        self.branches: dict[int, Branch] = {0: state._branch}
        # remaining steps of each stream, last step first
        self.remaining = {stream: steps[::-1] for stream, steps in plan.streams.items()}
        # variable -> number of the op that sets it
        self.numbers: dict[tuple[int, str, int], int] = {}
        # (stream, name) -> numbers of all ops that set the name
        self.setters: dict[tuple[int, str], list[int]] = {}
        self.open: dict[int, Run] = {}  # runs of called programs, by first stream
        self.value: Any = None

    def run(self) -> Any:
        token = standing.set(None)
        try:
            self._run_steps()
            return self.value
        except BaseException as error:
            for run in self.open.values():
                for state in run.states:
                    state.program.close(error)
                run.finish(error)
            raise
        finally:
            standing.reset(token)

    def _run_steps(self) -> None:
        """Run all steps, in trace order unless a stream blocks."""
        heap = sorted((self._next(stream), stream) for stream in self.remaining)
        blocked: list[tuple[float, int]] = []  # streams by next step
        progress = True
        while heap or blocked:
            if not heap:
                if not progress:
                    self._wait(self.remaining[min(blocked)[1]][-1])
                heap, blocked, progress = sorted(blocked), [], False

            order, stream = heappop(heap)
            step = self.remaining[stream][-1]
            if not self._is_ready(step):
                blocked.append((order, stream))
                continue
            standing.set(step.node.location)
            self._do(step)
            self.remaining[stream].pop()
            progress = True
            if self.remaining[stream]:
                heappush(heap, (self._next(stream), stream))

    def _do(self, step: Step) -> None:
        getattr(self, _DO.get(type(step.node.op), "_expr"))(step)

    def _next(self, stream: int) -> float:
        """Return the order of a stream's next step."""
        steps = self.remaining.get(stream)
        return steps[-1].order if steps else inf

    def _is_ready(self, step: Step) -> bool:
        return (
            self._has_begun(step.node)
            and all(self._next(stream) > step.order for stream in step.streams)
            and all(map(self._is_there, step.needs))
        )

    def _has_begun(self, node: Node) -> bool:
        settings = isinstance(node.op, CallNode) and node.op.settings
        return (settings.caller if settings else node.stream) in self.branches

    def _is_there(self, variable: Variable) -> bool:
        number = self.numbers.get((variable.stream, variable.name, variable.version))
        if number is None:
            return False
        branch = self.branches[variable.stream]
        return branch.done >= number or branch.error is not None

    def _wait(self, step: Step) -> None:
        """Wait for the first missing variable of `step`, if any is still missing."""
        variable = next((v for v in step.needs if not self._is_there(v)), None)
        if variable is not None:
            program = self.branches[variable.stream].program
            program.wait(partial(self._is_there, variable))

    def _variable(self, variable: Variable) -> Any:
        """Return a variable's value, counted from the end of the name's history, because the state
        may hold older values."""
        stream, name = variable.stream, variable.name
        branch, number = self.branches[stream], self.numbers[stream, name, variable.version]
        with branch.program.changed:
            if branch.done < number:
                branch.raise_error()
            setters = self.setters[stream, name]
            num_later = sum(number < setter <= branch.done for setter in setters)
            value = (*branch.earlier.get(name, ()), branch.variables[name])[-1 - num_later]
        return value if variable.item is None else value[variable.item]

    def _record_setter(self, step: Step, branch: Branch) -> None:
        """Record the last appended op as the setter of the node's variables."""
        node, number = step.node, branch.scope.num_ops
        for name, version in node.assignments:
            self.numbers[node.stream, name, version] = number
            self.setters.setdefault((node.stream, name), []).append(number)

    def _append(self, step: Step, expr: Any) -> None:
        branch = self.branches[step.node.stream]
        branch.program.append(branch, expr)
        self._record_setter(step, branch)

    def _text(self, step: Step) -> None:
        self._append(step, Text(self.text(step.pieces), step.node.kind))

    def _expr(self, step: Step) -> None:
        self._append(step, step.node.op)

    def _media(self, step: Step) -> None:
        self._append(step, self.media(step.node))

    def _unordered(self, step: Step) -> None:
        self._append(step, self.unordered(step.node))

    def _gen(self, step: Step) -> None:
        self._append(step, self.gen(step.node))

    def _select(self, step: Step) -> None:
        self._append(step, self.select(step.node))

    def _op(self, step: Step) -> None:
        op: Any = step.node.op
        if isinstance(op, Assign):
            op = Assign(op.name, self.fill(op.value, step.node))
        branch = self.branches[step.node.stream]
        branch.program.add(branch, op)
        self._record_setter(step, branch)

    def _fork(self, step: Step) -> None:
        fork: Any = step.node.op
        branch = self.branches[step.node.stream]
        children = branch.program.fork(branch, len(fork.streams))
        self.branches |= zip(fork.streams, children, strict=True)

    def _join(self, step: Step) -> None:
        join: Any = step.node.op
        branch = self.branches[step.node.stream]
        children = tuple(self.branches[stream] for stream in join.streams)
        branch.program.join(branch, children, join.append, join.keep)
        self._record_setter(step, branch)
        if not join.keep:
            branch.raise_error()

    def _call(self, step: Step) -> None:
        call: Any = step.node.op
        arguments = dict(self.call_arguments(step.node))
        if call.settings is not None and step.node.id > 0:
            self._begin(step.node, call.settings, arguments)
        self.branches[step.node.stream].program.taint(arguments)

    def _begin(self, node: Node, settings: RunSettings, arguments: dict[str, Any]) -> None:
        """Begin the run of a called program."""
        token = inside.set(self.branches[settings.caller].program)
        try:
            run = Run(
                self.executor_of(settings.backend),
                node.program,
                settings.source,
                location=settings.location,
                defaults=dict(self.fill(settings.defaults, node)),
                stream=settings.stream,
                special_tokens=settings.special_tokens,
                keep_tokens=settings.keep_tokens,
                num_api_spec_tokens=settings.num_api_spec_tokens,
            )
        finally:
            inside.reset(token)
        self.open[node.stream] = run
        program: Program = run.state(start=False).program
        self.branches[node.stream] = program.root
        program.start()
        run.emit(ProgramCalled(run.id, program.root.id, shown_arguments(arguments)))

    def _return(self, step: Step) -> None:
        return_node: Any = step.node.op
        value = self.fill(return_node.value, step.node)
        if step.node.stream == 0:
            self.value = value
            return
        program = self.branches[step.node.stream].program
        program.value = value
        del self.open[step.node.stream]
        program.close()


_DO = {
    Constant: "_text",
    Argument: "_text",
    Variable: "_text",
    UnreadMedia: "_media",
    PartSet: "_unordered",
    Gen: "_gen",
    Select: "_select",
    Assign: "_op",
    VarScopeBegin: "_op",
    VarScopeEnd: "_op",
    ForkNode: "_fork",
    JoinNode: "_join",
    CallNode: "_call",
    ReturnNode: "_return",
}
"""Node type -> method of `Replay`; other nodes are appended unchanged."""
