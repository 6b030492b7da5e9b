"""Explanation of cache misses from recorded events. Pure; knows no engine and no display.

A lookup is the cache result of a request at admission. Reasons for uncached tokens: evicted
earlier, not yet computed, in another namespace, or different. Nothing after the first different
token can be shared, even if the texts agree again.

Models with recurrent layers resume from the last checkpoint and recompute the cached tokens after
the checkpoint. The last prompt token is always computed, because sampling needs the logits. Cached
prefixes of any length are used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, NamedTuple

from ...errors import shown
from ...events import (
    AnswerSpliced,
    CheckpointDropped,
    NodeEvicted,
    PrefixLoaded,
    PrefixNotLoaded,
    Record,
    RequestAdmitted,
    RequestFinished,
    RequestQueued,
)
from ...sequences import common_length, longest_common_block
from .copy_reasons import CopyKind, copy_reasons, text_of_head
from .media import difference_cause, title
from .token_table import TokenTable, visible
from .tree import ROOT, TreeState

AROUND = 4
"""Tokens shown on either side of a difference."""

REMEMBERED = 4096
"""Number of latest evicted nodes, dropped checkpoints and earlier prompts compared with a lookup.
"""

REORDERED_AT_MOST = 2048
"""Number of tokens of each prompt after the first difference that are compared for a reorder."""

REORDER_FROM = 8
"""Smallest number of saved tokens worth a reorder."""

Kind = Literal[
    "last token",
    "scored",
    "no state",
    "evicted",
    "computing",
    "namespace",
    "differs",
    "first",
    "reused",
    "loaded",
    CopyKind,
]


class Difference(NamedTuple):
    """First difference of two prompts.

    `reorder_text` follows the difference in both prompts. With the text in front of the
    difference, up to `reorder_tokens` more tokens would be found.
    """

    tokens: int  # common prefix, in tokens
    characters: int  # common prefix, in characters
    before: tuple[str, ...]  # texts of the last common tokens
    here: tuple[str, ...]  # texts of the next tokens of the first prompt, () at the end
    there: tuple[str, ...]  # texts of the next tokens of the second prompt
    more_text: int  # further equal characters: only the tokenization differs
    items: tuple[str, ...] = ()  # names, if two images, videos or sounds differ
    cause: str = ""  # difference of the items
    reorder_tokens: int = 0
    reorder_text: str = ""

    def line(self) -> str:
        """Return the difference as a display line."""
        parts = f"token {self.tokens} (character {self.characters:,}): "
        if self.items:
            parts += f"{self.items[0]} here, {self.items[1]} there: {visible(self.cause)}"
        else:
            parts += f"{_quoted(self.here)} here, {_quoted(self.there)} there"
        if self.before:
            parts += f", after {_quoted(self.before)}"
        if self.more_text:
            parts += f"; the next {self.more_text:,} characters are equal, but the tokens differ"
        if self.reorder_tokens:
            parts += (
                f"; {shown(self.reorder_text)} follows the difference in "
                "both prompts: in front of the difference, up to "
                f"{self.reorder_tokens:,} more tokens would be found"
            )
        return parts


class Reason(NamedTuple):
    """Reason for uncached tokens. The tokens are computed, except for the kinds "reused" and
    "loaded"."""

    kind: Kind
    tokens: int  # number of tokens with this reason
    text: str  # display line


@dataclass(frozen=True, slots=True)
class Lookup:
    """Cache lookup of a request, with reasons for the uncached tokens."""

    request: int
    run: str
    branch: str
    name: str
    prompt_tokens: int
    cached_tokens: int
    recomputed_tokens: int  # cached tokens without a recurrent checkpoint
    reasons: tuple[Reason, ...]  # reasons; the tokens plus `cached_tokens` equal the prompt length
    nearest: int | None  # earlier request with the longest common prefix
    difference: Difference | None  # difference from the nearest prompt
    model: str = ""  # name of another model, "" for the run's default

    def line(self) -> str:
        """Return the lookup as a display line."""
        who = f"{visible(self.name)} of {self.run}, branch {self.branch}" if self.run else "request"
        counts = f"{self.cached_tokens:,} of {self.prompt_tokens:,} prompt tokens found"
        counts += f", {self.recomputed_tokens:,} recomputed" if self.recomputed_tokens else ""
        return f"{who} ({self.request}): {counts}"


def difference(here: Sequence[int], there: Sequence[int], token_table: TokenTable) -> Difference:
    """Return the first difference of two prompts.

    Args:
        here: Token ids of the first prompt.
        there: Token ids of the second prompt.
        token_table: Bytes of the token ids.
    """
    here, there = tuple(here), tuple(there)
    same = common_length(here, there)
    text_here, text_there = token_table.text(here[same:]), token_table.text(there[same:])
    items = [token_table.media.item(ids[same]) for ids in (here, there) if same < len(ids)]
    names, cause = tuple[str, ...](), ""
    if len(items) == 2 and items[0] is not None and items[1] is not None:
        names, cause = (title(items[0]), title(items[1])), difference_cause(items[0], items[1])

    block = _reordered(here, there, same)
    return Difference(
        tokens=same,
        characters=len(token_table.text(here[:same])),
        before=_texts(here[max(0, same - AROUND) : same], token_table),
        here=_texts(here[same : same + AROUND], token_table),
        there=_texts(there[same : same + AROUND], token_table),
        items=names,
        more_text=0 if cause else common_length(text_here, text_there),
        cause=cause,
        reorder_tokens=len(block),
        reorder_text=visible(token_table.label(block, 10**6)),
    )


def _reordered(here: tuple[int, ...], there: tuple[int, ...], same: int) -> tuple[int, ...]:
    """Return the longest block of tokens after the difference in both prompts, or () if a reorder
    saves little. The last token of a prompt is always computed."""
    end = same + REORDERED_AT_MOST
    start, length = longest_common_block(here[same:end], there[same:end])
    saved = min(length, len(here) - 1 - same)
    return () if saved < REORDER_FROM else here[same + start : same + start + saved]


def lookups(
    records: Iterable[Record], run: str = "", branch: str = "", limit: int | None = None
) -> list[Lookup]:
    """Return the lookups of a log in order.

    Args:
        records: Records of a log.
        run: Run id, or "" for all runs.
        branch: BranchText of the run including forks, or "" for all branches.
        limit: Maximum number of lookups, or None for all.
    """
    return list(islice(_LookupReplay(run, branch).lookups(records), limit))


class _LookupReplay:
    """State of the log at a lookup."""

    def __init__(self, run: str, branch: str) -> None:
        self._run, self._branch = run, branch
        self._tree = TreeState()
        self._evicted: deque[tuple[Sequence[int], str]] = deque(maxlen=REMEMBERED)
        # token paths to dropped checkpoints
        self._dropped: deque[Sequence[int]] = deque(maxlen=REMEMBERED)
        self._queued: dict[int, RequestQueued] = {}  # waiting requests
        self._earlier: deque[RequestQueued] = deque(maxlen=REMEMBERED)  # admitted requests
        self._finished: set[int] = set()
        self._not_loaded: dict[int, list[PrefixNotLoaded]] = {}  # by waiting request
        self._spliced: dict[int, AnswerSpliced] = {}  # by waiting request
        self._loaded: dict[int, PrefixLoaded] = {}  # by request, after the admission

    def lookups(self, records: Iterable[Record]) -> Iterator[Lookup]:
        records = list(records)
        loads = (record.event for record in records if isinstance(record.event, PrefixLoaded))
        self._loaded = {load.request: load for load in loads if load.begin}
        for record in records:
            match record.event:
                case NodeEvicted(node=node, reason=reason) if node in self._tree.nodes:
                    self._evicted.append((self._path(node), reason))
                case CheckpointDropped(node=node) if node in self._tree.nodes:
                    self._dropped.append(self._path(node))
                case RequestQueued() as event:
                    self._queued[event.request] = replace(event, prompt=tuple(event.prompt))
                case PrefixNotLoaded(request=request) as event:
                    self._not_loaded.setdefault(request, []).append(event)
                case AnswerSpliced(request=request) as event:
                    self._spliced[request] = event
                case RequestFinished(request=request):
                    self._queued.pop(request, None)
                    self._not_loaded.pop(request, None)
                    self._finished.add(request)
                case RequestAdmitted(request=request) as event if request in self._queued:
                    queued = self._queued.pop(request)
                    if self._is_wanted(queued):
                        yield self._look_up(queued, event)
                    self._earlier.append(queued)
            self._tree.apply(record)

    def _is_wanted(self, queued: RequestQueued) -> bool:
        in_branch = queued.branch == self._branch or queued.branch.startswith(f"{self._branch}.")
        return self._run in ("", queued.run) and (not self._branch or in_branch)

    def _look_up(self, queued: RequestQueued, admitted: RequestAdmitted) -> Lookup:
        prompt, token_table = queued.prompt, self._tree.token_table
        earlier = (
            queued_request
            for queued_request in self._earlier
            if queued_request.namespace == queued.namespace
        )
        nearest = max(earlier, key=lambda e: common_length(prompt, e.prompt), default=None)
        differs = None if nearest is None else difference(prompt, nearest.prompt, token_table)
        reasons: Iterable[Reason] = self._reasons(queued, admitted, nearest, differs)
        spliced = self._spliced.pop(queued.request, None)
        if spliced is not None:
            text = "approximate: keys and values of a similar cached text, at other positions"
            reused = Reason("reused", spliced.reused, text)
            reasons = _with_part(reasons, admitted.cached, spliced.begin, reused)
        if (load := self._loaded.get(queued.request)) is not None:
            at = admitted.cached
            head = Reason("compute", load.begin - at, text_of_head(load.store, load.begin - at))
            tail = Reason("loaded", load.tokens, "was loaded while the tokens before were computed")
            reasons = _with_part(_with_part(reasons, at, load.begin, tail), at, at, head)

        return Lookup(
            request=queued.request,
            run=queued.run,
            branch=queued.branch,
            name=queued.name,
            prompt_tokens=len(prompt),
            cached_tokens=admitted.cached,
            recomputed_tokens=admitted.again,
            reasons=tuple(reasons),
            nearest=None if nearest is None else nearest.request,
            difference=differs,
        )

    def _reasons(
        self,
        queued: RequestQueued,
        admitted: RequestAdmitted,
        nearest: RequestQueued | None,
        differs: Difference | None,
    ) -> Iterator[Reason]:
        """Yield reasons in order. Each reason covers tokens up to a position, beyond the earlier
        reasons."""
        prompt, at = queued.prompt, admitted.cached
        last = len(prompt) - 1
        in_tree, evicted = self._in_tree(prompt), self._most_evicted(prompt)
        ends = self._without_states(prompt, at, admitted.again)
        lost = evicted[0] if evicted is not None and evicted[1] == "memory" else 0
        not_loaded = self._not_loaded.pop(queued.request, ())
        ends += copy_reasons(self._tree, prompt, queued.namespace, at, lost, not_loaded)
        if evicted is not None:
            ends.append((*evicted[:1], "evicted", f"was cached earlier and evicted: {evicted[1]}"))
        others = max((n for space, n in in_tree.items() if space != queued.namespace), default=0)
        ends.append((others, "namespace", "is cached in another namespace"))
        common = 0 if differs is None else differs.tokens

        if queued.purpose == "score":
            cached = max(in_tree.get(queued.namespace, 0), common)
            ends.append((cached, "scored", "scored tokens are always computed"))
        elif nearest is not None:
            over = nearest.request in self._finished
            state = "was not kept after" if over else "was not computed yet by"
            text = f"{state} request {nearest.request}, which has the same tokens"
            ends.append((common, "computing", text))

        for end, kind, text in ends:
            end = min(end, last)
            if end > at:
                yield Reason(kind, end - at, text + self._items_within(prompt, at, end))
                at = end

        if at < last and differs is None:
            yield Reason("first", last - at, "no earlier prompt")
        elif at < last:
            assert differs is not None
            text = f"differs from all earlier prompts; most similar at {differs.line()}"
            if differs.items:
                here, there = differs.items
                text = f"{here} instead of {there} of the most similar prompt: "
                text += f"{visible(differs.cause)}; from token {differs.tokens} on"
            yield Reason("differs", last - at, text)

        if at <= last:
            yield Reason("last token", 1, "always computed: its logits are needed")

    def _items_within(self, prompt: Sequence[int], begin: int, end: int) -> str:
        """Return the names of the items among the tokens begin .. end, in parentheses, or ""."""
        spans = self._tree.token_table.media.spans(prompt[begin:end])
        names = [title(span.item) for span in spans if span.item is not None]
        return f" ({', '.join(names)})" if names else ""

    def _without_states(
        self, prompt: Sequence[int], cached: int, again: int
    ) -> list[tuple[int, Kind, str]]:
        """Return reasons for cached tokens without a checkpoint: up to the last dropped checkpoint,
        and after."""
        if not again:
            return []
        end = cached + again
        gone = (len(path) for path in self._dropped if common_length(prompt, path) == len(path))
        position = max((length for length in gone if cached < length <= end), default=cached)
        dropped = (
            f"is cached, but the state behind token {position:,} was dropped for lack of memory;"
            " a larger max_states keeps more"
        )
        where = f"was kept behind token {position:,}" if position else "of it was kept"
        never = (
            f"is cached, but no state {where}; a smaller checkpoint_every keeps more, and so does"
            " a fork where prompts diverge"
        )
        return [(position, "no state", dropped), (end, "no state", never)]

    def _in_tree(self, prompt: Sequence[int]) -> dict[str, int]:
        """Return the number of cached prompt tokens by namespace."""
        nodes, lengths = self._tree.nodes, dict[str, int]()
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
            lengths[space] = length

        return lengths

    def _most_evicted(self, prompt: Sequence[int]) -> tuple[int, str] | None:
        """Return the longest common prefix with an evicted node, and the cause of the eviction."""
        matches = [(common_length(prompt, path), reason) for path, reason in self._evicted]
        return max(matches, key=lambda pair: pair[0], default=None)

    def _path(self, node: int) -> tuple[int, ...]:
        """Return the tokens from the root to the end of the node."""
        pieces = []
        while node != ROOT:
            pieces.append(self._tree.nodes[node].tokens)
            node = self._tree.nodes[node].parent
        return tuple(token for piece in reversed(pieces) for token in piece)


def _with_part(reasons: Iterable[Reason], at: int, begin: int, part: Reason) -> Iterator[Reason]:
    """Yield the reasons from the position `at` on, with another reason for the tokens from `begin`
    on."""
    end = begin + part.tokens
    for reason in reasons:
        stop = at + reason.tokens
        if at < begin:
            yield reason._replace(tokens=min(stop, begin) - at)
        if at <= begin < stop:
            yield part
        if stop > end:
            yield reason._replace(tokens=stop - max(at, end))
        at = stop


def _texts(tokens: Sequence[int], token_table: TokenTable) -> tuple[str, ...]:
    texts = list[str]()
    for span in token_table.media.spans(tokens):
        if span.item is not None:
            texts.append(f"[{title(span.item)}]")
        else:
            part = tokens[span.begin : span.end]
            texts += [visible(token_table.text((token,))) for token in part]
    return tuple(texts)


def _quoted(texts: tuple[str, ...]) -> str:
    return " ".join(map(repr, texts)) or "the end"
