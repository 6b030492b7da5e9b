"""A hostile service: typed errors, no other host, file, blocked thread, or key in a text."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator

import pytest

pytest.importorskip("litellm")

from sgnb.backends.api import sglang
from sgnb.backends.api.client_guard import MAX_DOCUMENT, Refusal, ResponseSize
from sgnb.backends.api.transport import HIDDEN, Secrets

from . import survey
from .attacks import ATTACKS, KEY
from .survey import Survey, Ticker, surveying

LONGEST_GAP = 0.2
"""Seconds of processor time."""

WARM_UP = ("type-info-5", "key-content", "key-sglang", "key-litellm", "key-claude", "tokenizer-0")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Iterator[Survey]:
    patch = pytest.MonkeyPatch()
    folder = tmp_path_factory.mktemp("hostile")
    patch.setenv("SGNB_CACHE", str(folder / "cache"))
    patch.setattr(survey, "TIMEOUT", 1.5)
    patch.setattr(sglang, "CONNECT_SECONDS", 1.5)
    with surveying(folder) as found:
        for name in WARM_UP:  # imports, which open files
            found.run(ATTACKS[name])
        yield found
    patch.undo()


SLOW = [
    pytest.param(name, marks=() if attack.quick else pytest.mark.slow)
    for name, attack in ATTACKS.items()
]


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_an_attack(hostile, name) -> None:
    hostile.watch.files.clear()
    hostile.watch.connections.clear()
    outcome = hostile.run(ATTACKS[name])
    assert outcome.is_typed, "".join(traceback.format_exception(outcome.error))
    assert hostile.watch.files == []
    assert hostile.watch.connections == []
    assert [text for text in outcome.texts if KEY.lower() in text.lower()] == []
    assert outcome.gap < LONGEST_GAP


def test_no_attack_reached_another_host(hostile) -> None:
    outcome = hostile.run(ATTACKS["redirect-307"])
    assert outcome.error.message.endswith("redirects are not followed")
    assert hostile.service.names["TRAP"] in outcome.error.message
    assert hostile.hits() == 0


def test_the_watch_and_the_ticker_notice(hostile, tmp_path) -> None:
    hostile.watch.files.clear()
    hostile.watch.active = True
    (tmp_path / "x").write_text("")
    hostile.watch.active = False
    assert hostile.watch.files == [str(tmp_path / "x")]
    ticker = Ticker()
    threading.Event().wait(0.05)
    sum(range(30_000_000))  # one call in C
    assert ticker.close() > LONGEST_GAP


def test_keys_are_hidden() -> None:
    secrets = Secrets([KEY, "EMPTY", "not-a-real-key-here"])
    assert secrets.hide(f"{KEY.upper()} EMPTY") == f"{HIDDEN} {HIDDEN}"
    cleaned = secrets.clean({KEY: (f"a {KEY}", "EMPTY", 1.5, None)})
    assert cleaned == {HIDDEN: (f"a {HIDDEN}", "EMPTY", 1.5, None)}
    assert secrets.safe_length(f"a {KEY[:7]}") == 2
    assert secrets.safe_length("a EMPT") == 6
    assert KEY not in repr(secrets)
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert HIDDEN in str(secrets.clean(deep))


@pytest.mark.parametrize(
    ("status", "kind", "chunk", "count"),
    [
        (200, "application/json", b" " * 65_536, MAX_DOCUMENT // 65_536 + 1),
        (200, "text/event-stream", b"data: " + b"a" * 65_530, MAX_DOCUMENT // 65_536 + 1),
        (200, "text/event-stream", b"data: a\n\n" * 8192, 911),
        (400, "application/json", b" " * 65_536, 2),
        (200, "application/json", b"[]," * 10_000, 11),
        (200, "application/json", b"1," * 10_000, 21),
    ],
)
def test_the_limits_of_an_answer(status, kind, chunk, count) -> None:
    body = ResponseSize(status, {"content-type": kind})
    for _ in range(count - 1):
        body.add(chunk)
    with pytest.raises(Refusal, match="more than"):
        body.add(chunk)


def test_the_end_of_an_event_may_be_split() -> None:
    """The limits of a document hold for each event, whatever the chunks are."""
    body = ResponseSize(200, {"content-type": "text/event-stream"})
    for _ in range(30_000):  # together more than MAX_CONTAINERS
        body.add(b"\ndata: [{[{}]}]\n")
