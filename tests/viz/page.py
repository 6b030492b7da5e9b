"""What a page makes of operations: the same rules as the modules in `sgnb/viz/static`, in
Python."""

from __future__ import annotations

from typing import Any


class TreePage:
    def __init__(self, ops: list[Any] = ()) -> None:
        self.nodes: dict[int, dict[str, Any]] = {}
        self.totals: dict[str, Any] = {}
        self.apply(ops)

    def apply(self, ops: list[Any]) -> None:
        for kind, *rest in ops:
            if kind == "gone":
                self.nodes.pop(rest[0], None)
            elif kind == "node":
                names = ("parent", "order", "tokens", "locks", "tick", "namespace", "text")
                self.nodes[rest[0]] = dict(zip(names, rest[1:], strict=True))
            elif kind == "use":
                self.nodes[rest[0]] |= {"locks": rest[1], "tick": rest[2]}
            else:
                self.totals = rest[0]

    def state(self) -> tuple[Any, ...]:
        return self.nodes, self.totals


class TextPage:
    """Text is kept in UTF-16, as JavaScript keeps it."""

    def __init__(self, ops: list[Any] = ()) -> None:
        self.branches: dict[str, list[Any]] = {}
        self.texts: dict[str, list[tuple[str, bytes]]] = {}
        self.totals: dict[str, Any] = {}
        self.apply(ops)

    def apply(self, ops: list[Any]) -> None:
        for kind, *rest in ops:
            if kind == "branch":
                self.branches[rest[0]] = rest[1:]
            elif kind == "text":
                units = [(kind, c) for kind, text in rest[2] for c in _utf16(text)]
                self.texts[rest[0]] = self.texts.get(rest[0], [])[: rest[1]] + units
            else:
                self.totals = rest[0]

    def state(self) -> tuple[Any, ...]:
        return self.branches, self.texts, self.totals


def _utf16(text: str) -> list[bytes]:
    raw = text.encode("utf-16-le")
    return [raw[i : i + 2] for i in range(0, len(raw), 2)]
