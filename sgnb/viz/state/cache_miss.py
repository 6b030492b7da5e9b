"""Why a prompt was not found in the cache, from what a log recorded: pure functions from records to
data. Knows no engine and no display.

A look-up is what a request found when it was admitted. What it did not find was evicted before, was
not computed yet, lies in another namespace, or differs: from the first other token on nothing can
be shared, even where the texts are the same again. A model with recurrent layers goes on from the
last token whose states were kept: what the tree has behind it is computed again. The last token of
a prompt is always computed, because its logits are needed. What is in the tree is found however
short it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from ...events import (
    CheckpointDropped,
    NodeEvicted,
    Record,
    RequestAdmitted,
    RequestFinished,
    RequestQueued,
)
from .branch import common_length
from .tokens import Vocabulary, visible
from .tree import ROOT, TreeState

AROUND = 4
"""Tokens shown on either side of a difference."""

REMEMBERED = 4096
"""Evicted nodes, dropped checkpoints and earlier prompts that a look-up is compared with, the
latest."""

Kind = Literal[
    "last token", "scored", "no state", "evicted", "computing", "namespace", "differs", "first"
]


class Difference(NamedTuple):
    """Where two prompts part."""

    tokens: int  # in common
    characters: int  # of text in these
    before: tuple[str, ...]  # the last tokens in common, as text
    here: tuple[str, ...]  # the next tokens of the one, () at its end
    there: tuple[str, ...]  # and of the other
    more_text: int  # characters that the texts have in common beyond: only tokenization differs

    def line(self) -> str:
        """One line, for people."""
        parts = f"token {self.tokens} (character {self.characters:,}): "
        parts += f"{_quoted(self.here)} here, {_quoted(self.there)} there"
        if self.before:
            parts += f", after {_quoted(self.before)}"
        if self.more_text:
            parts += f"; the texts go on alike for {self.more_text:,} characters, but not as tokens"
        return parts


class Reason(NamedTuple):
    """Why tokens were computed."""

    kind: Kind
    tokens: int  # how many, for this reason
    text: str  # one line, for people


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a request found in the cache, and why no more."""

    request: int
    run: str
    branch: str
    name: str
    prompt_tokens: int
    cached_tokens: int
    recomputed_tokens: int  # more that were in the tree, and were computed for want of a state
    reasons: tuple[Reason, ...]  # their tokens and `cached_tokens` make up the prompt
    nearest: int | None  # the earlier request with the longest common prefix
    difference: Difference | None  # from that one's prompt
    model: str = ""  # another one than the run's own

    def line(self) -> str:
        """One line, for people."""
        who = f"{visible(self.name)} of {self.run}, branch {self.branch}" if self.run else "request"
        found = f"{self.cached_tokens:,} of {self.prompt_tokens:,} prompt tokens found"
        found += f", {self.recomputed_tokens:,} computed again" if self.recomputed_tokens else ""
        return f"{who} ({self.request}): {found}"


def difference(here: Sequence[int], there: Sequence[int], vocabulary: Vocabulary) -> Difference:
    """Of two prompts as token ids."""
    here, there = tuple(here), tuple(there)
    same = common_length(here, there)
    left, right = vocabulary.text(here[same:]), vocabulary.text(there[same:])
    return Difference(
        same,
        len(vocabulary.text(here[:same])),
        _texts(here[max(0, same - AROUND) : same], vocabulary),
        _texts(here[same : same + AROUND], vocabulary),
        _texts(there[same : same + AROUND], vocabulary),
        common_length(left, right),
    )


def lookups(records: Iterable[Record], run: str = "", branch: str = "") -> list[Lookup]:
    """The look-ups of a log, of a run, or of a branch of it and its forks, in order."""
    return list(_Replay(run, branch).lookups(records))


class _Replay:
    """The log so far."""

    def __init__(self, run: str, branch: str) -> None:
        self._run, self._branch = run, branch
        self._tree = TreeState()
        self._evicted: deque[tuple[Sequence[int], str]] = deque(maxlen=REMEMBERED)
        self._dropped: deque[Sequence[int]] = deque(maxlen=REMEMBERED)  # tokens up to a checkpoint
        self._queued: dict[int, RequestQueued] = {}  # not admitted yet
        self._earlier: deque[RequestQueued] = deque(maxlen=REMEMBERED)  # admitted
        self._finished: set[int] = set()

    def lookups(self, records: Iterable[Record]) -> Iterator[Lookup]:
        for record in records:
            match record.event:
                case NodeEvicted(node=node, reason=reason) if node in self._tree.nodes:
                    self._evicted.append((self._path(node), reason))
                case CheckpointDropped(node=node) if node in self._tree.nodes:
                    self._dropped.append(self._path(node))
                case RequestQueued() as event:
                    self._queued[event.request] = replace(event, prompt=tuple(event.prompt))
                case RequestFinished(request=request):
                    self._queued.pop(request, None)
                    self._finished.add(request)
                case RequestAdmitted(request=request) as event if request in self._queued:
                    queued = self._queued.pop(request)
                    if self._is_wanted(queued):
                        yield self._look_up(queued, event)
                    self._earlier.append(queued)
            self._tree.apply(record)

    def _is_wanted(self, queued: RequestQueued) -> bool:
        own = queued.branch == self._branch or queued.branch.startswith(f"{self._branch}.")
        return self._run in ("", queued.run) and (not self._branch or own)

    def _look_up(self, queued: RequestQueued, admitted: RequestAdmitted) -> Lookup:
        prompt, vocabulary = queued.prompt, self._tree.vocabulary
        earlier = (one for one in self._earlier if one.namespace == queued.namespace)
        nearest = max(earlier, key=lambda e: common_length(prompt, e.prompt), default=None)
        differs = None if nearest is None else difference(prompt, nearest.prompt, vocabulary)
        reasons = tuple(self._reasons(queued, admitted, nearest, differs))
        return Lookup(
            queued.request,
            queued.run,
            queued.branch,
            queued.name,
            len(prompt),
            admitted.cached,
            admitted.again,
            reasons,
            None if nearest is None else nearest.request,
            differs,
        )

    def _reasons(
        self,
        queued: RequestQueued,
        admitted: RequestAdmitted,
        nearest: RequestQueued | None,
        differs: Difference | None,
    ) -> Iterator[Reason]:
        """Each for the tokens up to which it reaches and none before it did."""
        prompt, at = queued.prompt, admitted.cached
        last = len(prompt) - 1
        in_tree, evicted = self._in_tree(prompt), self._most_evicted(prompt)
        ends = self._without_states(prompt, at, admitted.again)
        if evicted is not None:
            ends.append((*evicted[:1], "evicted", f"was cached, and evicted before: {evicted[1]}"))
        others = max((n for space, n in in_tree.items() if space != queued.namespace), default=0)
        ends.append((others, "namespace", "is cached in another namespace"))
        common = 0 if differs is None else differs.tokens
        if queued.purpose == "score":
            known = max(in_tree.get(queued.namespace, 0), common)
            ends.append((known, "scored", "what is scored is computed, in the cache or not"))
        elif nearest is not None:
            over = nearest.request in self._finished
            state = "was not kept after" if over else "was not computed yet by"
            text = f"{state} request {nearest.request}, which has the same tokens"
            ends.append((common, "computing", text))
        for end, kind, text in ends:
            end = min(end, last)
            if end > at:
                yield Reason(kind, end - at, text)
                at = end
        if at < last and differs is None:
            yield Reason("first", last - at, "no prompt came before it")
        elif at < last:
            assert differs is not None
            yield Reason(
                "differs", last - at, f"differs from all before; nearest at {differs.line()}"
            )
        if at <= last:
            yield Reason("last token", 1, "always computed: its logits are needed")

    def _without_states(
        self, prompt: Sequence[int], cached: int, again: int
    ) -> list[tuple[int, Kind, str]]:
        """What the tree has of the prompt behind the last token whose states are kept: up to where
        others were, and the rest."""
        if not again:
            return []
        end = cached + again
        gone = (len(path) for path in self._dropped if common_length(prompt, path) == len(path))
        place = max((length for length in gone if cached < length <= end), default=cached)
        dropped = (
            f"is cached, but the state behind token {place:,} was dropped for lack of memory;"
            " a larger max_states keeps more"
        )
        where = f"was kept behind token {place:,}" if place else "of it was kept"
        never = (
            f"is cached, but no state {where}; a smaller checkpoint_every keeps more, and so does"
            " a fork where prompts part"
        )
        return [(place, "no state", dropped), (end, "no state", never)]

    def _in_tree(self, prompt: Sequence[int]) -> dict[str, int]:
        """How many tokens of the prompt the tree has, by namespace."""
        nodes, found = self._tree.nodes, dict[str, int]()
        for space, first in nodes[ROOT].children:
            if not prompt or first != prompt[0]:
                continue
            node, length = nodes[nodes[ROOT].children[space, first]], 0
            while True:
                same = common_length(tuple(node.tokens), prompt[length:])
                length += same
                below = node.children.get(("", prompt[length])) if length < len(prompt) else None
                if same < len(node.tokens) or below is None:
                    break
                node = nodes[below]
            found[space] = length
        return found

    def _most_evicted(self, prompt: Sequence[int]) -> tuple[int, str] | None:
        """Up to where an evicted node had the prompt's tokens, and why it went."""
        found = [(common_length(prompt, path), reason) for path, reason in self._evicted]
        return max(found, key=lambda one: one[0], default=None)

    def _path(self, node: int) -> tuple[int, ...]:
        """The tokens from the root to the end of the node."""
        pieces = []
        while node != ROOT:
            pieces.append(self._tree.nodes[node].tokens)
            node = self._tree.nodes[node].parent
        return tuple(token for piece in reversed(pieces) for token in piece)


def _texts(tokens: Sequence[int], vocabulary: Vocabulary) -> tuple[str, ...]:
    return tuple(visible(vocabulary.text((token,))) for token in tokens)


def _quoted(texts: tuple[str, ...]) -> str:
    return " ".join(map(repr, texts)) or "the end"
