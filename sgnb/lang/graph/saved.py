"""The nodes of a graph as JSON, and back: equal to what was saved. What JSON cannot hold, such as
functions of the user's, is refused with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

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

FORMAT = 2
"""Of the JSON."""

_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Argument, Assign, Called, Constant, ForkItem, Forked, Gen, Joined, Location, Node,
        OwnRun, Reasoning, Returned, RoleBegin, RoleEnd, Select, Variable, VarScopeBegin,
        VarScopeEnd,
    )
}  # fmt: skip
_LEFT_OUT = {"before"}  # of a node: `after` says the same


T = TypeVar("T")


def dumps(held: Mapping[str, Any], title: str) -> str:
    """`held`, the parts of the graph `title` by their names, as a text. ProgramError for what JSON
    cannot hold."""
    saved = {name: _saved(value, title) for name, value in held.items()}
    return json.dumps({"format": FORMAT, **saved})


def loads(text: str, make: Callable[..., T]) -> T:
    """What `make` makes of the parts in a text of `dumps`; ProgramError for another text."""
    nodes: dict[int, Node] = {}
    try:
        saved = json.loads(text)
        if saved.pop("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}, which this version of sgnb writes")
        held = {name: _read(value, nodes) for name, value in saved.items()}
        if not nodes:
            raise ValueError("it has no nodes")
        return make(**held)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        message = f"this is no graph that can be read: {type(error).__name__}: {error}"
        raise ProgramError(message, "give what Graph.to_json() gave") from None


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
    hint = "a graph runs without being saved; JSON holds texts, numbers, lists and dicts"
    raise ProgramError(f"{where}: {shown(value)} cannot be saved", hint)


def _read(held: Any, nodes: dict[int, Node]) -> Any:
    """What was saved as `held`. `nodes`: those so far, by their ids."""
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
        return Location(*inner)
    made = dict(zip(_names(kind), inner, strict=True))
    if kind is Node:
        made["before"] = tuple(nodes[id] for id in made["after"])
        nodes[made["id"]] = Node(**made)
        return nodes[made["id"]]
    return kind(**made)


def _names(kind: Any) -> list[str]:
    return [one.name for one in fields(kind) if one.name not in _LEFT_OUT]
