"""Images, videos and sounds among the tokens of a log: their spans, names, and marks in coloured
text. The live page implements the same functions (`page/media.js`)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from ...events import MediaNamed


class TokenSpan(NamedTuple):
    """Tokens begin .. end of a sequence: of text, or of one item."""

    begin: int
    end: int
    item: MediaNamed | None = None
    offset: int = 0  # of the first token in the item

    @property
    def is_whole(self) -> bool:
        return self.item is not None and self.end - self.begin == self.item.count


class MediaTable:
    """Images, videos and sounds named by a log, by token id."""

    def __init__(self) -> None:
        self.items: list[MediaNamed] = []  # by first token id

    def learn(self, event: MediaNamed) -> None:
        at = bisect_right(self.items, event.first_id, key=attrgetter("first_id"))
        if at and self.items[at - 1].first_id == event.first_id:
            return
        self.items.insert(at, event)

    def item(self, token: int) -> MediaNamed | None:
        """Return the item with this token, or None for a token of text."""
        at = bisect_right(self.items, token, key=attrgetter("first_id"))
        item = self.items[at - 1] if at else None
        return item if item is not None and token < item.first_id + item.count else None

    def spans(self, tokens: Sequence[int]) -> Iterator[TokenSpan]:
        """Cut tokens into spans of text and of items, in order."""
        end, at, text = len(tokens), 0, 0
        lowest = self.items[0].first_id if self.items else 0
        if not self.items or max(tokens, default=0) < lowest:
            at = end  # text needs no search
        else:
            tokens = tuple(tokens)  # access to single `TokenIds` is slow

        while at < end:
            item = self.item(tokens[at]) if tokens[at] >= lowest else None
            if item is None:
                at += 1
                continue
            if text < at:
                yield TokenSpan(text, at)
            begin, offset = at, tokens[at] - item.first_id
            while (
                at < end
                and at - begin < item.count - offset
                and (tokens[at] == tokens[begin] + at - begin)
            ):
                at += 1
            yield TokenSpan(begin, at, item, offset)
            text = at

        if text < end:
            yield TokenSpan(text, end)


def title(item: MediaNamed) -> str:
    """Return the short name of an item, such as "image 1"."""
    return f"{item.media} {item.number}"


def size_of(item: MediaNamed) -> str:
    """Return the label without the kind, such as "640×480"."""
    return item.label.removeprefix(f"{item.media} ")


def span_label(span: TokenSpan) -> str:
    """Return the text of an item, or of a part, among the tokens of a tree node."""
    assert span.item is not None
    if span.is_whole:
        return f"[{title(span.item)}: {size_of(span.item)}]"
    last = span.offset + span.end - span.begin - 1
    if last == span.offset:
        return f"[token {last} of {title(span.item)}]"
    return f"[tokens {span.offset}\N{EN DASH}{last} of {title(span.item)}]"


class ItemMark(NamedTuple):
    """An item in coloured text. The kind of the segment is "KIND @ENGINE/FIRST_ID/POSITION/FOUND":
    the position makes the kinds of two equal items differ."""

    engine: int
    first_id: int
    position: int  # in the prompt, in tokens
    found: int  # number of tokens found in the cache

    def kind(self, kind: str) -> str:
        return f"{kind} @{'/'.join(map(str, self))}"


def mark_of(kind: str) -> ItemMark | None:
    """Return the item of a kind of text, or None for text."""
    _, is_item, mark = kind.partition(" @")
    return ItemMark(*map(int, mark.split("/"))) if is_item else None


def chip_text(item: MediaNamed, kind: str, found: int) -> str:
    """Return the replacement text of an item: name, size, tokens and cache result.

    Args:
        item: The item.
        kind: Kind of text of the first token.
        found: Number of tokens found in the cache.
    """
    result = {"again": "recomputed", "text": "not sent"}.get(kind, "computed")
    if found:
        result = "found" if found >= item.count else f"{found} found"
    tokens = f"{item.count:,} token" + "s" * (item.count != 1)
    return f"{title(item)}: {size_of(item)}, {tokens}, {result}"


def difference_cause(here: MediaNamed, there: MediaNamed) -> str:
    """Return the reason for different tokens of two items."""
    if here.content == there.content:
        return "the same content with other processor options"
    if here.media != there.media:
        return f"{size_of(here)} here, {there.label} there"
    if here.label != there.label:
        return f"another size, {size_of(here)} here and {size_of(there)} there"
    content = "samples" if here.media == "audio" else "pixels"
    return f"other {content} of the same size, {size_of(here)}"
