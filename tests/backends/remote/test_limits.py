"""Limits on the memory of a client in a host, and the lifetime of a client's items."""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from sgnb.backends.remote import client_session
from sgnb.backends.remote.client_session import ClientSession
from sgnb.backends.remote.remote_engine import RemoteEngine
from sgnb.backends.remote.remote_items import RemoteItems
from sgnb.backends.remote.wire import Ask, Connection, WireError
from sgnb.engine import Engine
from sgnb.errors import RequestError
from sgnb.events import MediaNamed
from sgnb.media import Image


@pytest.fixture
def session(engine: Engine) -> Iterator[ClientSession]:
    """A client that reads nothing."""
    one, two = socket.socketpair()
    with ThreadPoolExecutor(1) as pool:
        session = ClientSession(engine, Connection(one, "client 9"), 9, pool, {})
        yield session
        session.close()
    two.close()


def image(seed: int) -> Image:
    return Image(np.full((4, 5, 3), seed, np.uint8))


def test_items_of_a_client_are_limited(
    session: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_session, "MAX_ITEMS", 2)
    monkeypatch.setattr(client_session, "MAX_ITEM_BYTES", 3 * image(1).num_bytes)
    for seed in (1, 2, 1):
        session._keep_item(image(seed))
    with pytest.raises(RequestError, match="at most 2 images"):
        session._keep_item(image(3))
    for digest in (image(1).digest, image(1).digest, image(7).digest):
        session._drop_item(0, digest)
    session._keep_item(image(3))

    monkeypatch.setattr(client_session, "MAX_ITEMS", 9)
    session._keep_item(image(4))
    with pytest.raises(RequestError, match="a client has at most"):
        session._keep_item(image(5))


def test_a_client_that_reads_no_replies_ends(
    session: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_session, "MAX_CALLS", 5)
    for serial in range(1, 6):
        session._handle(Ask(serial, "grammar_spec", [0]))
    with pytest.raises(WireError, match="client 9 has 5 unread replies"):
        session._handle(Ask(6, "grammar_spec", [0]))


def test_calls_beyond_the_limit_are_refused(
    engine: Engine, attach: Callable[[], RemoteEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    remote, stats = attach(), engine.stats
    monkeypatch.setattr(client_session, "MAX_CALLS", 3)
    going_on, done = threading.Event(), threading.Event()
    errors: list[Any] = []

    def slow_stats() -> Any:
        assert going_on.wait(20)
        return stats()

    def take(value: Any, error: Any) -> None:
        errors.append(error)
        if len(errors) == 2:
            going_on.set()
        if len(errors) == 5:
            done.set()

    monkeypatch.setattr(engine, "stats", slow_stats)
    for _ in range(5):
        remote._client.ask(take, "stats")
    assert done.wait(20)
    assert [type(error) for error in errors[:2]] == [RequestError] * 2
    assert "at most 3 unfinished calls" in str(errors[0])
    assert errors[2:] == [None] * 3
    assert remote.stats()["free"] > 0, "the client goes on"


class Host:
    """A host that keeps items, with an action during the addition of an item."""

    name = "the host"

    def __init__(self) -> None:
        self.present: set[bytes] = set()
        self.actions: list[Callable[[], None]] = []

    def call(self, method: str, item: Any) -> Any:
        content = Image(np.frombuffer(item.content, np.uint8).reshape(item.shape))
        self.present.add(content.digest)
        if self.actions:
            self.actions.pop()()
        return [1000, 2, asdict(MediaNamed(1000, 2, "image", 1, "image 5×4", "", ""))]

    def tell(self, method: str, digest: bytes) -> None:
        assert method == "drop_item"
        self.present.discard(digest)


def test_the_end_of_an_equal_item_drops_no_item_that_is_being_added() -> None:
    host = Host()
    items = RemoteItems(host, 1000)  # type: ignore[arg-type]
    kept = image(1)

    def add_and_end() -> None:
        assert items.find(image(1)) == (1000, 1001)
        gc.collect()

    host.actions.append(add_and_end)
    items.find(kept)
    assert host.present == {kept.digest}
    assert items.find(image(1)) == (1000, 1001) and host.present == {kept.digest}
    del kept
    gc.collect()
    assert not host.present and not items._holders
