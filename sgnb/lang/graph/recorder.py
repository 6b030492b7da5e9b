"""Recording of a traced program: entries of the streams, in the order of the program's code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from inspect import Parameter, Signature
from types import MappingProxyType
from typing import Any

from ...errors import TraceError
from ..chat.reasoning import reasoning_name
from ..core.branch import Branch
from ..core.ops import Assign, Generate, GenerateCalls, Join, Op, VarScopeBegin, VarScopeEnd
from ..ir import Expr, Gen, Part, PartSet, Select, Text, UnreadMedia
from ..location import Location, caller
from .building import GIVE_VALUE, NodeBuilder, TraceEntry
from .graph import Graph
from .nodes import CallNode, ForkNode, JoinNode, NodeOp, ReturnNode
from .placeholders import Placeholder, Placeholders, PlaceholderText, Variable, is_marked, plain


class UnknownValue:
    """Value of a variable that a graph cannot hold. `reason`: the end of "s[name], which"."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


TOOL_CALLS = UnknownValue("may be a call of a tool")
PART_ORDER = UnknownValue("is the order of parts that the run decides")


class Variables(list[Any]):
    """A list of variables, or of values of branches; each read returns a new list."""


def _generated(stream: int, op: Generate, name: str, version: int) -> Any:
    """Return the value of a generated variable: variables, or `TOOL_CALLS`."""
    if isinstance(op, GenerateCalls):
        return TOOL_CALLS
    if op.params.n == 1:
        return Variable(stream, name, version)
    return Variables(Variable(stream, name, version, i) for i in range(op.params.n))


class TitleContext:
    """A context with a title on the stack of running programs; cheaper than a generator."""

    __slots__ = ("_title", "_titles")

    def __init__(self, titles: list[str], title: str) -> None:
        self._titles, self._title = titles, title

    def __enter__(self) -> None:
        self._titles.append(self._title)

    def __exit__(self, *_: object) -> None:
        self._titles.pop()


class GraphRecorder:
    """Recorded entries and the values of variables of all streams.

    Args:
        title: The name of the program.
        known: Numbers of the placeholders of an earlier trace; equal placeholders get equal marks.
    """

    def __init__(self, title: str, known: Mapping[Placeholder, int] = MappingProxyType({})) -> None:
        self.entries: list[TraceEntry] = []
        self.placeholders = Placeholders(title, known)
        # Values of variables; `read` replaces `Variable` and `Variables` by placeholders.
        self.values: dict[Branch, dict[str, Any]] = {}
        self._streams: dict[Branch, int] = {}
        self._versions: dict[Branch, Counter[str]] = {}
        self._titles: list[str] = []  # stack of running programs

    def stream(self, branch: Branch) -> int:
        """Return the number of a branch's stream."""
        return self._streams[branch]

    def titled(self, title: str) -> TitleContext:
        """Return a context that attributes added entries to the program `title`."""
        return TitleContext(self._titles, title)

    def begin_stream(self, branch: Branch) -> None:
        """Begin the stream of `branch`."""
        self._streams[branch] = len(self._streams)
        self.values[branch], self._versions[branch] = {}, Counter()

    def variable(
        self, branch: Branch, name: str, num_later: int, item: int | None
    ) -> PlaceholderText:
        """Return the placeholder of a name before the `num_later` most recent assignments."""
        version = self._versions[branch][name] - 1 - num_later
        return self.placeholders.text(Variable(self._streams[branch], name, version, item))

    def record_call(self, branch: Branch, call: CallNode) -> None:
        """Record the beginning of a program's code."""
        self._add(branch, call)

    def record_return(self, branch: Branch, value: Any) -> None:
        """Record the end of a program's code and the return value."""
        self._add(branch, ReturnNode(plain(value)))

    def record_expr(self, branch: Branch, expr: Expr, op: Op, location: Location) -> None:
        """Record an expression appended as `op` at `location`."""
        if isinstance(expr, Text):
            self._add(branch, _plain_part(expr), location=location)
        elif isinstance(expr, Gen):
            assert isinstance(op, Generate)
            names = [op.name]
            if op.reasoning is not None and expr.name is not None:
                names.append(reasoning_name(op.name))
            entry = self._add(branch, expr, names, expr.location)
            stream = entry.stream
            for name, version in entry.assignments:
                self.values[branch][name] = _generated(stream, op, name, version)
        elif isinstance(expr, Select):
            name = getattr(op, "name")  # noqa: B009
            entry = self._add(branch, expr, [name], expr.location)
            self.values[branch][name] = Variable(entry.stream, *entry.assignments[0])
        elif isinstance(expr, UnreadMedia):
            self._add(branch, _plain_part(expr), location=location)
        elif isinstance(expr, PartSet):
            names = [] if expr.name is None else [expr.name]
            self._add(branch, expr.map(_plain_part), names, expr.location)
            self.values[branch] |= dict.fromkeys(names, PART_ORDER)
        else:
            self._add(branch, expr, location=location)  # type: ignore[arg-type]

    def read(self, branch: Branch, name: str) -> Any:
        """Return the value of a variable, with placeholders for generated data."""
        return self._with_texts(self.values[branch][name])

    def _with_texts(self, value: Any) -> Any:
        """Replace variables by placeholder texts, also in lists."""
        if type(value) is Variable:
            return self.placeholders.text(value)
        if type(value) is Variables:
            return [self._with_texts(item) for item in value]
        return value

    def record_op(self, branch: Branch, op: Op) -> None:
        """Record an op without an expression."""
        if isinstance(op, Assign):
            self._add(branch, Assign(op.name, plain(op.value)), [op.name])
            self.values[branch][op.name] = op.value
        elif isinstance(op, VarScopeBegin):
            self._add(branch, op)
        elif isinstance(op, VarScopeEnd):
            entry = self._add(branch, op, [op.name])
            self.values[branch][op.name] = Variable(entry.stream, *entry.assignments[0])

    def record_fork(self, branch: Branch, children: Sequence[Branch]) -> None:
        """Record a fork; each child inherits the branch's variables."""
        for child in children:
            self.begin_stream(child)
            self.values[child] = dict(self.values[branch])
        self._add(branch, ForkNode(tuple(self._streams[child] for child in children)))

    def record_join(self, branch: Branch, join: Join) -> None:
        """Record a join and the gathered values."""
        streams = tuple(self._streams[child] for child in join.children)
        self._add(branch, JoinNode(streams, join.append, join.keep), join.names)

        for name in join.names:
            owners = [child for child in join.children if name in child.scope.own]
            gathered = Variables(self.values[child][name] for child in owners)
            if join.keep:
                self.values[branch][name] = gathered[0]
            else:
                unknown = (value for value in gathered if isinstance(value, UnknownValue))
                self.values[branch][name] = next(unknown, gathered)

    def graph(self, signature: Signature, values: Mapping[str, Any], stopped: str = "") -> Graph:
        """Return the recorded graph of a program traced with argument `values`.

        Args:
            signature: The parameters after the state.
            values: The values of the parameters that the trace was given.
            stopped: The reason for the end of a partial trace. The graph then also ends at an
                entry that cannot become a node.

        Raises:
            TraceError: An entry cannot become a node, for example because a text with an argument
                was changed.
        """
        parameters = [p for p in signature.parameters.values() if is_open(p, values)]
        defaults = [(p.name, p.default) for p in parameters if p.default is not p.empty]
        builder = NodeBuilder(self.placeholders)
        try:
            builder.add_all(self.entries)
        except TraceError as error:
            if not stopped:
                raise
            stopped = error.message
        return Graph(
            nodes=tuple(builder.nodes),
            placeholders=tuple(self.placeholders.all),
            parameters=tuple(p.name for p in parameters),
            defaults=tuple(defaults),
            stopped=stopped,
            keyword_only=_keyword_only(signature, values),
            fixed=tuple(p.name for p in signature.parameters.values() if is_fixed(p, values)),
        )

    def _add(
        self,
        branch: Branch,
        op: NodeOp | Text,
        names: Sequence[str] = (),
        location: Location | None = None,
    ) -> TraceEntry:
        location = location or caller()
        assignments: tuple[tuple[str, int], ...] = ()
        if names:
            if self.placeholders.are_used and any(is_marked(plain(name)) for name in names):
                raise TraceError(f"{location}: a name depends on an argument", GIVE_VALUE)
            versions = self._versions[branch]
            assignments = tuple([(name, versions[name]) for name in names])
            for name in names:
                versions[name] += 1
        entry = TraceEntry(self._streams[branch], op, assignments, self._titles[-1], location)
        self.entries.append(entry)
        return entry


def _plain_part(part: Part) -> Part:
    """Return a text or item with marks instead of placeholders."""
    if isinstance(part, Text):
        return part if type(part.text) is str else Text(plain(part.text), part.kind)
    if isinstance(part, UnreadMedia):
        return UnreadMedia(part.kind, plain(part.source), plain(part.options))
    return part


def is_open(parameter: Parameter, values: Mapping[str, Any]) -> bool:
    """Return whether the trace uses a placeholder for `parameter`."""
    if parameter.name in values or parameter.kind in (
        Parameter.VAR_KEYWORD,
        Parameter.VAR_POSITIONAL,
    ):
        return False
    return parameter.default is parameter.empty or isinstance(parameter.default, str)


def is_fixed(parameter: Parameter, values: Mapping[str, Any]) -> bool:
    """Return whether the trace fixes the value of `parameter`: a given value, or a default that is
    not text."""
    if parameter.kind in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL):
        return False
    return not is_open(parameter, values)


def _keyword_only(signature: Signature, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the parameters passed by keyword, including those after an omitted parameter."""
    names, by_keyword = [], False
    for name, parameter in signature.parameters.items():
        by_keyword = by_keyword or parameter.kind is Parameter.KEYWORD_ONLY
        if is_open(parameter, values):
            names += [name] * by_keyword
        else:
            by_keyword = by_keyword or name not in values
    return tuple(names)
