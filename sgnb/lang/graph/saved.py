"""Convert the nodes of a graph to JSON and back, without loss. Rejects content that JSON cannot
hold, such as user functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from ...codec import build, dumps, parse
from ...errors import ProgramError, shown
from ..chat.reasoning import Reasoning
from ..core.choices import METHODS
from ..core.ops import Assign, VarScopeBegin, VarScopeEnd
from ..ir import Gen, RoleBegin, RoleEnd, Select
from ..location import Location
from .holes import Argument, Variable
from .nodes import (
    Called,
    Constant,
    Forked,
    ForkItem,
    Joined,
    Node,
    OwnRun,
    Returned,
)

FORMAT = 3
"""Version of the JSON format."""

_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Argument, Assign, Called, Constant, ForkItem, Forked, Gen, Joined, Location, Node,
        OwnRun, Reasoning, Returned, RoleBegin, RoleEnd, Select, Variable, VarScopeBegin,
        VarScopeEnd,
    )
}  # fmt: skip
_LEFT_OUT = {"before"}  # derived from `after`
_HINT = "a graph runs without being saved; JSON holds texts, numbers, lists and dicts"


T = TypeVar("T")


def save(parts: Mapping[str, Any], title: str) -> str:
    """Return the parts of the graph `title`, by their names, as JSON.

    Raises:
        ProgramError: JSON cannot hold a part.
    """
    try:
        saved = {name: _saved(value, title) for name, value in parts.items()}
        return dumps({"format": FORMAT, **saved})
    except (ValueError, RecursionError) as error:
        raise ProgramError(f"{title}: a value cannot be saved: {error}", _HINT) from None


def load(text: str, kind: type[T]) -> T:
    """Return the parts in a text of `save` as a `kind`. Call inside `codec.reading`."""
    nodes: dict[int, Node] = {}
    saved = parse(text)
    if saved["format"] != FORMAT:
        raise ValueError(f"its format is {shown(saved['format'])}, not {FORMAT}")
    parts = {name: _read(value, nodes) for name, value in saved.items()}
    _check(list(nodes.values()))
    return build(kind, parts)


def _saved(value: Any, where: str) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Location):
        return {"Location": list(value)}
    if type(value) is tuple:
        return [_saved(one, where) for one in value]
    if type(value) is list:
        return {"list": [_saved(one, where) for one in value]}
    if type(value) is dict:
        return {"dict": [_saved(pair, where) for pair in value.items()]}
    if isinstance(value, Node):
        where = f"{value.location}: {value.label()}"
    if type(value).__name__ in _KINDS and is_dataclass(value):
        own = [_saved(getattr(value, name), where) for name in _names(value)]
        return {type(value).__name__: own}
    for name, method in METHODS.items():
        if value is method:
            return {"method": name}
    raise ProgramError(f"{where}: {shown(value)} cannot be saved", _HINT)


def _read(held: Any, nodes: dict[int, Node]) -> Any:
    """Decode a saved value. `nodes`: the decoded nodes by id."""
    if isinstance(held, list):
        return tuple(_read(one, nodes) for one in held)
    if not isinstance(held, dict):
        return held
    ((name, value),) = held.items()
    if name == "method":
        return METHODS[value]
    inner = _read(value, nodes)
    if name in ("list", "dict"):
        return list(inner) if name == "list" else dict(inner)
    kind = _KINDS[name]
    if kind is Location:
        return build(Location, inner)
    arguments = dict(zip(_names(kind), inner, strict=True))
    if kind is not Node:
        return build(kind, arguments)
    arguments["before"] = tuple(nodes[id] for id in arguments["after"])
    node = build(Node, arguments)
    if nodes and node.id <= next(reversed(nodes)):
        raise ValueError(f"node {node.id} is there twice, or too late")
    nodes[node.id] = node
    return node


def _check(nodes: list[Node]) -> None:
    """Raise ValueError if a node needs a stream or a variable without an earlier node for it."""
    if not nodes or not isinstance(nodes[0].what, Called) or nodes[0].what.run is None:
        raise ValueError("the first node is not the call of the program")
    streams, variables = {0}, set[tuple[int, str, int]]()
    for node in nodes:
        needed_streams = {node.stream}
        match node.what:
            case Called(run=OwnRun(caller=caller)):
                needed_streams = {caller}
                streams.add(node.stream)
            case Forked(streams=children):
                streams.update(children)
            case Joined(streams=children):
                needed_streams.update(children)
        if not needed_streams <= streams:
            raise ValueError(f"node {node.id} is on a stream that nothing begins")

        holes = (node.what, *(hole for _, hole in node.holes))
        needed = {(h.stream, h.name, h.version) for h in holes if isinstance(h, Variable)}
        if not needed <= variables:
            raise ValueError(f"node {node.id} reads a variable that nothing sets")
        variables.update((node.stream, name, version) for name, version in node.sets)
        node.line()  # KeyError for a mark without a hole


def _names(kind: Any) -> list[str]:
    return [one.name for one in fields(kind) if one.name not in _LEFT_OUT]
