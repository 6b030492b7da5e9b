"""A request of a run, and its part of the text of a branch."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .branch_text import BranchText
from .media import ItemMark
from .metrics import Row
from .models import Model, made_by
from .token_table import TokenTable

_utf8 = codecs.getincrementaldecoder("utf-8")


@dataclass(slots=True, eq=False)
class RunRequest:
    """A queued or running request."""

    row: Row | None
    branch: BranchText | None  # None for hidden text
    prompt: Sequence[int]  # empty if the backend reports counts instead of tokens
    generates: bool
    model: Model
    token_table: TokenTable
    num_given: int = 0  # last prompt tokens that are output, see `RequestQueued`
    reused: tuple[int, int] = 0, 0  # positions of approximate keys and values, see `AnswerSpliced`
    admitted: bool = False
    written: int = 0  # number of output tokens
    forced: bytes = b""  # text forced by the grammar before admission
    pending: codecs.IncrementalDecoder = field(default_factory=lambda: _utf8("replace"))

    def prompt_pieces(self, cached: int, again: int) -> list[list[str]]:
        """Split the text of the prompt by cache result, with a piece per image, video or sound.

        Args:
            cached: Number of cached tokens.
            again: Number of recomputed tokens after the cached tokens.
        """
        prompt, decoder = self.prompt, _utf8("replace")

        def kind(position: int) -> str:
            if position < cached:
                return "cached"
            if position < cached + again:
                return "again"
            return "reused" if self.reused[0] <= position < self.reused[1] else "computed"

        borders = sorted({cached, cached + again, *self.reused})
        pieces = []
        for span in self.token_table.media.spans(prompt):
            if span.item is not None:
                found = max(0, min(cached - span.begin, span.item.count))
                mark = ItemMark(self.model.engine, span.item.first_id, span.begin, found)
                text = decoder.decode(self.token_table.bytes(prompt[span.begin : span.end]))
                pieces.append([mark.kind(kind(span.begin)), text])
                continue
            inner = [border for border in borders if span.begin < border < span.end]
            for start, end in pairwise([span.begin, *inner, span.end]):
                text = decoder.decode(self.token_table.bytes(prompt[start:end]))
                pieces.append([kind(start), text])
        return [*pieces, ["computed", decoder.decode(b"", True)]]

    def given_length(self) -> int:
        """Return the length of the text of the given tokens."""
        data = self.token_table.bytes(self.prompt)
        before = self.token_table.bytes(self.prompt[: len(self.prompt) - self.num_given])
        return len(data.decode(errors="replace")) - len(_utf8("replace").decode(before))

    def show(self, kind: str, new: bytes, final: bool = False) -> None:
        """Append output to the branch while the branch shows this generation.

        Args:
            kind: Kind of the text.
            new: Bytes of new tokens.
            final: True at the end of the request.
        """
        if self.branch is not None and self.branch.generated_from is not None:
            kind = made_by(kind, self.model if self.model.number else None)
            self.branch.append(kind, self.pending.decode(new, final))
