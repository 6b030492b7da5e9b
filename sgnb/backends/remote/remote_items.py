"""Images, videos and sounds of a remote engine: the host processes the content, once per client."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from ...engine.cache.radix import Ints
from ...errors import RequestError, SgnbError
from ...events import MediaNamed
from ...media.items import MediaItem
from ...segment import Segment
from .client import HostClient
from .item_wire import write_item
from .wire import converted

_Named = tuple[int, int, MediaNamed]
"""First token id, number of tokens, and name of an item."""


class RemoteItems:
    """`ItemTable` of a client, by the digest of the content. For any thread.

    The host keeps the content of an item while this process holds a `MediaItem` with the content.

    Args:
        client: Connection to the host.
        vocab_size: Ids of items begin here.
    """

    def __init__(self, client: HostClient, vocab_size: int) -> None:
        self._client = client
        self.vocab_size = self.end_id = vocab_size
        self._items: dict[bytes, _Named] = {}
        self._present: set[bytes] = set()  # digests of the content that the host keeps
        self._holders: dict[bytes, set[int]] = {}  # ids of `MediaItem` objects by digest
        self._lock = threading.RLock()  # a finalizer may run inside

    def prepare(self, contents: Iterable[MediaItem]) -> None:
        """Let the host process all new content, and wait."""
        for content in contents:
            self.find(content)

    def prepare_soon(
        self, contents: Iterable[MediaItem], then: Callable[[Exception | None], None]
    ) -> bool:
        """Let the host process all new content without waiting; see `ItemTable.prepare_soon`."""
        new = [content for content in contents if not self._claim(content)]
        done = count(1)
        errors: list[SgnbError] = []

        def finish(content: MediaItem, value: Any, error: SgnbError | None) -> None:
            try:
                if error is None:
                    self._add(content, value)
            except SgnbError as invalid:
                error = invalid
            errors.extend([] if error is None else [error])
            if next(done) == len(new):
                then(errors[0] if errors else None)

        for content in new:
            self._client.ask(partial(finish, content), "add_item", write_item(content))
        return bool(new)

    def segments(self, prompt: Sequence[Segment]) -> Sequence[Segment]:
        """Replace the items of a prompt by their token ids."""
        return [
            segment if segment.kind != "media" else Segment("", "media", self.find(segment.item))
            for segment in prompt
        ]

    def find(self, content: MediaItem) -> tuple[int, ...]:
        """Return the token ids of an item."""
        if not self._claim(content):
            self._add(content, self._client.call("add_item", write_item(content)))
        first_id, size, _ = self._items[content.digest]
        return tuple(range(first_id, first_id + size))

    def names(self, tokens: Iterable[int]) -> list[MediaNamed]:
        """Return the names of the items with these token ids; other ids are ignored."""
        wanted = {token for token in tokens if token >= self.vocab_size}
        return [
            name
            for first_id, size, name in list(self._items.values())
            if wanted and not wanted.isdisjoint(range(first_id, first_id + size))
        ]

    def place(self, tokens: Ints) -> None:
        """Raise RequestError for ids of no item; the host checks the rest."""
        if len(tokens) and np.max(tokens) >= self.end_id:
            raise RequestError(f"token id {np.max(tokens)} is no token", "use ids of this model")

    def _claim(self, content: MediaItem) -> bool:
        """Return True if the host has the content; otherwise the caller adds the content.

        The host drops the content after the last `MediaItem` with the content. A claim precedes the
        addition, so that the end of an equal item meanwhile drops nothing.
        """
        with self._lock:
            holders = self._holders.setdefault(content.digest, set())
            if id(content) not in holders:
                holders.add(id(content))
                forget = partial(self._forget, content.digest, id(content))
                weakref.finalize(content, forget).atexit = False
            return content.digest in self._present

    def _add(self, content: MediaItem, value: Any) -> None:
        named: _Named = converted(value, _Named, self._client.name)
        with self._lock:
            self._items[content.digest] = named
            self._present.add(content.digest)
            self.end_id = max(self.end_id, named[0] + named[1])

    def _forget(self, digest: bytes, holder: int) -> None:
        with self._lock:
            holders = self._holders.get(digest, set())
            holders.discard(holder)
            if not holders:
                self._holders.pop(digest, None)
                self._present.discard(digest)
                self._client.tell("drop_item", digest)
