"""Streaming reads: the text of a branch or variable, piece by piece during generation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from ..chat.reasoning import reasoning_name
from .branch import Branch
from .ops import Generate
from .stopping import PARTIAL


class _Cursor:
    """Position of a reader in the text of a branch or variable.

    `pieces` holds the new texts, or pairs of text and meta information. `over` is True at the end
    of the text, `failed` if an error caused the end.
    """

    def __init__(
        self, branch: Branch, may_grow: Callable[[], bool], name: str | None, with_meta: bool
    ) -> None:
        self.branch, self.name, self.with_meta = branch, name, with_meta
        self._may_grow = may_grow  # returns whether the program may append further ops
        self.pieces: list[Any] = []
        self.over = False
        self.failed = False
        self._num_read = 0  # number of characters read
        self._begin, self._tokens = 0, 0  # begin of the current generation, and its tokens read

    def look(self) -> bool:
        """Read new text into `pieces`. Returns whether there is new text or an end. The program's
        lock is held."""
        text = self._whole() if self.name is None else self._variable(self.name)
        new, begin = text[self._num_read :], self._num_read
        self._num_read += len(new)
        self.pieces = [new] if new else []
        if new and self.with_meta:
            self.pieces = self._explained(begin, new)
        return bool(new) or self.over

    def _whole(self) -> str:
        branch = self.branch
        self.failed = branch.error is not None and not isinstance(branch.error, PARTIAL)
        self.over = branch.error is not None or (branch.idle and not self._may_grow())
        return branch.text + branch.partial

    def _variable(self, name: str) -> str:
        branch = self.branch
        number = branch.scope.names.get(name)
        if number is not None and branch.done >= number:
            self.over = True
            value = branch.variables[name]
            return str(value[0] if isinstance(value, list) and value else value)
        self.over = self.failed = branch.error is not None
        if number is None:
            if self.failed or self._may_grow():
                return ""
            raise branch.scope.unknown(name)

        now = branch.waiting
        if not isinstance(now, Generate):
            return ""
        if now.reasoning is not None and name == reasoning_name(now.name):
            return branch.partial_reasoning
        return branch.text[branch.op_at :] + branch.partial if now.name == name else ""

    def _explained(self, begin: int, new: str) -> list[tuple[str, dict[str, Any]]]:
        """Split `new`, which starts at `begin`, at the borders of generations, and add the meta
        information of each generation."""
        branch = self.branch
        if self.name is not None:
            done = branch.meta.get(self.name)
            live = isinstance(branch.waiting, Generate) and branch.waiting.name == self.name
            meta = branch.partial_meta() if live or done is None else done
            return [(new, self._meta_of(0, meta))]

        pieces: list[tuple[str, dict[str, Any]]] = []
        end = len(branch.text)
        for first, last, meta in [*branch.generated, (end, end + len(branch.partial), None)]:
            if last <= begin:
                continue
            if first > begin:
                pieces.append((new[: first - begin], {}))
                new, begin = new[first - begin :], first
            if new:
                info = self._meta_of(first, branch.partial_meta() if meta is None else meta)
                pieces.append((new[: last - begin], info))
                new, begin = new[last - begin :], last
        return [*pieces, (new, {})] if new else pieces

    def _meta_of(self, begin: int, meta: Any) -> dict[str, Any]:
        """Return the meta information so far of the generation at `begin`, including the
        log-probabilities of the tokens since the last piece."""
        info = dict((meta[0] if meta else {}) if isinstance(meta, list) else meta)
        if begin != self._begin:
            self._begin, self._tokens = begin, 0
        rows = info.get("output_token_logprobs")
        if rows is not None and "choices" not in info:
            info["piece_token_logprobs"] = rows[self._tokens :]
            self._tokens = len(rows)
        return info


def iterate(
    branch: Branch, may_grow: Callable[[], bool], name: str | None, with_meta: bool
) -> Iterator[Any]:
    """See `ProgramState.text_iter`."""
    cursor = _Cursor(branch, may_grow, name, with_meta)
    while not cursor.over:
        branch.program.wait(cursor.look)
        yield from cursor.pieces
    if cursor.failed:
        branch.raise_error()


async def iterate_async(
    branch: Branch, may_grow: Callable[[], bool], name: str | None, with_meta: bool
) -> AsyncIterator[Any]:
    """See `ProgramState.text_async_iter`."""
    cursor = _Cursor(branch, may_grow, name, with_meta)
    while not cursor.over:
        await branch.program.waits.wait_async(cursor.look)
        for piece in cursor.pieces:
            yield piece
    if cursor.failed:
        branch.raise_error()
