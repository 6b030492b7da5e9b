"""Reading a branch while it is being made: its text, or one variable's, piece by piece."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from .branch import Branch
from .ops import Generate


class _Cursor:
    """How far one reader has come."""

    def __init__(self, branch: Branch, name: str | None) -> None:
        self.branch, self.name = branch, name
        self.piece = ""  # what is new
        self.over = False  # nothing will follow
        self.failed = False  # because of an error
        self._seen = 0

    def look(self) -> bool:
        """Take what is new; whether there is something, or an end. The program's lock is held."""
        text = self._whole() if self.name is None else self._variable(self.name)
        self.piece = text[self._seen :]
        self._seen += len(self.piece)
        return bool(self.piece) or self.over

    def _whole(self) -> str:
        branch = self.branch
        self.failed = branch.error is not None
        self.over = self.failed or (branch.idle and not branch.program.may_grow())
        return branch.text + branch.partial

    def _variable(self, name: str) -> str:
        branch = self.branch
        number = branch.scope.names.get(name)
        if number is None:
            if branch.program.may_grow():
                return ""
            raise branch.scope.unknown(name)
        if branch.done >= number:
            self.over = True
            value = branch.variables[name]
            return str(value[0] if isinstance(value, list) and value else value)
        self.over = self.failed = branch.error is not None
        now = branch.waiting
        return branch.partial if isinstance(now, Generate) and now.name == name else ""


def iterate(branch: Branch, name: str | None) -> Iterator[str]:
    """See `ProgramState.text_iter`. An error that cut the text short is raised after the text."""
    cursor = _Cursor(branch, name)
    while not cursor.over:
        branch.program.wait(cursor.look)
        if cursor.piece:
            yield cursor.piece
    if cursor.failed:
        branch.raise_error()


async def iterate_async(branch: Branch, name: str | None, with_meta: bool) -> AsyncIterator[Any]:
    """See `ProgramState.text_async_iter`."""
    cursor = _Cursor(branch, name)
    while not cursor.over:
        await branch.program.wait_async(cursor.look)
        if cursor.piece:
            yield (cursor.piece, branch.meta.get(name or "", {})) if with_meta else cursor.piece
    if cursor.failed:
        branch.raise_error()
