"""Why stored copies of a prompt were not used: reasons with figures and a remedy, from recorded
events only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sgnb import events
from sgnb.events import EventLog, Record, encode
from sgnb.viz.state.cache_miss import Lookup, lookups

from .make_log import WordEngine
from .page import node
from .test_page import REDUCERS

BLOCK = 4
WORDS = "one two three four five six seven eight nine ten eleven twelve"


class Case:
    """A prompt of twelve words, evicted, with copies in blocks of four tokens."""

    def __init__(self, host: int = 3 << 30, disk: int = 1 << 30, min_tokens: int = 8) -> None:
        self.engine = WordEngine(EventLog())
        self.log = self.engine.log
        if host or disk:
            self.log.emit(events.TiersStarted(host, disk, BLOCK, min_tokens))
        self.tokens: tuple[int, ...] = ()

    def evict(self, text: str = WORDS) -> None:
        self.tokens = self.engine.encode(text)
        self.engine.evict(self.engine.insert(self.tokens))

    def copies(self, store: str, *states: str, message: str = "") -> None:
        """States of the three blocks in a store."""
        if not any(isinstance(r.event, events.BlocksNamed) for r in self.records()):
            self.log.emit(events.BlocksNamed(1, 3, 0, self.tokens[:12]))
        for number, state in enumerate(states, 1):
            self.log.emit(events.CopiesChanged(store, state, (number,), message))

    def records(self) -> list[Record]:
        return self.log.read().records

    def ask(self, text: str = f"{WORDS} and more", *not_loaded: events.PrefixNotLoaded) -> Lookup:
        steps = self.engine.generate(text, " yes")
        next(steps)
        for event in not_loaded:
            self.log.emit(event)
        for _ in steps:
            pass
        last = lookups(self.records())[-1]
        assert last.cached_tokens + sum(r.tokens for r in last.reasons) == last.prompt_tokens
        return last


def refused(reason: str, tokens: int = 8, **figures: float | str) -> events.PrefixNotLoaded:
    return events.PrefixNotLoaded(1, "disk", reason, tokens, **figures)  # type: ignore[arg-type]


STATES = [
    ("host", "room", "", "dropped", "dropped for lack of room; a larger host_cache keeps more"),
    ("disk", "room", "", "dropped", "dropped for lack of room; a larger disk_cache keeps more"),
    ("host", "memory", "", "dropped", "too little free memory; disk_cache keeps files"),
    ("disk", "gone", "", "dropped", "deleted by another process"),
    ("host", "flush", "", "dropped", "by flush_cache()"),
    ("disk", "full", "No space left on device", "disk full", "No space left on device; free some"),
    (
        "disk",
        "bound",
        "",
        "not copied",
        "no room (bound 1 GiB, or too little",
    ),
    (
        "host",
        "bound",
        "",
        "not copied",
        "no room (bound 3 GiB, or too little",
    ),
    ("host", "busy", "", "not copied", "pin the prompt"),
    ("disk", "damaged", "", "damaged", "had a damaged copy on disk, which is deleted"),
    ("host", "not finite", "", "never copied", "not finite; load the model in a dtype"),
    ("disk", "weights", "", "other weights", "earlier weights; load these weights again"),
]


def first_on_the_page(case: Case) -> str:
    """The reason of the last request as the page gives it."""
    script = """
      const store = newStore();
      store.add(given.map(parseLine));
      return [...store.state.requests.values()].at(-1).notUsed;
    """
    lines = [encode(record) for record in case.records()]
    text: str = node(script, ("dom", *REDUCERS), lines)
    return text


@pytest.mark.parametrize(
    ("store", "state", "message", "kind", "text"), STATES, ids=[f"{s}-{t}" for s, t, *_ in STATES]
)
def test_states_of_copies(store: str, state: str, message: str, kind: str, text: str) -> None:
    case = Case()
    case.evict()
    case.copies(store, "stored", state, state, message=message)
    first = case.ask().reasons[0]
    assert (first.kind, first.tokens) == (kind, 12)
    assert text in first.text and first_on_the_page(case) == first.text


def test_copies_of_the_cached_part_do_not_matter() -> None:
    case = Case()
    case.evict()
    case.copies("host", "room", "room", "gone")
    case.engine.insert(case.tokens[:9])
    reasons = case.ask().reasons
    assert (reasons[0].kind, reasons[0].tokens) == ("dropped", 3)
    assert "another process" in reasons[0].text and first_on_the_page(case) == reasons[0].text
    case.engine.insert(case.tokens)
    assert case.ask(WORDS).reasons[0].kind == "last token" and first_on_the_page(case) == ""


def test_the_most_specific_reason_counts() -> None:
    case = Case()
    case.evict()
    case.copies("host", "room", "room", "room")
    case.copies("disk", "damaged", "full", "full", message="disk quota exceeded")
    assert case.ask().reasons[0].kind == "damaged"


LOADS = [
    (
        refused("compute", 8, seconds=1.3, compute_seconds=0.4),
        "compute",
        "8 tokens are on disk, but computing was faster: about 400 ms instead of about 1.3 s;"
        " host_cache loads faster",
    ),
    (refused("cancelled"), "cancelled", "a larger max_total_tokens has room"),
    (refused("memory"), "cancelled", "had no free slots; a larger max_total_tokens"),
    (refused("flush"), "cancelled", "flush_cache()"),
    (refused("weights"), "cancelled", "because the weights changed"),
    (
        refused("other weights", fingerprint="ab12"),
        "other weights",
        "for other weights, model ab12; load these weights, or delete the files with %sglang cache"
        " forget ab12",
    ),
]


@pytest.mark.parametrize(("event", "kind", "text"), LOADS, ids=[e.reason for e, *_ in LOADS])
def test_loads_that_did_not_happen(event: events.PrefixNotLoaded, kind: str, text: str) -> None:
    case = Case()
    case.evict()
    case.copies("disk", "stored", "stored")
    reasons = case.ask(f"{WORDS} and more", event).reasons
    assert (reasons[0].kind, reasons[0].tokens) == (kind, 8)
    assert text in reasons[0].text and first_on_the_page(case) == reasons[0].text
    assert case.ask("Other words", event).reasons[0].tokens < 8, "of this request only"


def rules() -> Iterator[tuple[str, Case, str, str, str]]:
    case = Case(min_tokens=16)
    case.evict()
    yield "short", case, WORDS + " and", "short", "below 16 tokens are not copied; pin"

    case = Case()
    case.evict(WORDS + " thirteen")
    case.copies("disk", "stored", "stored", "stored")
    yield "rest", case, WORDS + " thirteen and", "short", "after full blocks of 4 tokens is not"

    case = Case(host=0)
    case.evict()
    yield "never", case, WORDS + " and", "not copied", "without a copy; host_cache copies each"

    case = Case()
    case.evict()
    yield "host", case, WORDS + " and", "not copied", "a larger host_cache copies each"


@pytest.mark.parametrize("name", ["short", "rest", "never", "host"])
def test_rules_that_leave_no_copy(name: str) -> None:
    [(_, case, prompt, kind, text)] = [rule for rule in rules() if rule[0] == name]
    texts: dict[str, str] = {reason.kind: reason.text for reason in case.ask(prompt).reasons}
    assert text in texts[kind], texts


def test_private_namespaces_are_never_copied() -> None:
    case = Case()
    tokens = case.engine.encode(WORDS)
    log = case.log
    log.emit(events.NodeAdded(70, 0, tokens, "mine"))
    log.emit(events.NodeEvicted(70, "memory"))
    log.emit(events.RequestQueued(9, "", "", "", "generate", tokens, namespace="mine"))
    log.emit(events.RequestAdmitted(9, 0))
    [lookup] = lookups(case.records())
    assert lookup.reasons[0].kind == "never copied" and "private" in lookup.reasons[0].text


@pytest.mark.parametrize("reason", ["flush", "weights", "hand", "spoilt"])
def test_other_evictions_have_the_reasons_as_before(reason: str) -> None:
    case = Case()
    tokens = case.engine.encode(WORDS)
    case.engine.evict(case.engine.insert(tokens), reason)
    assert case.ask().reasons[0].kind == "evicted"


def test_without_tiers_nothing_changes() -> None:
    case = Case(host=0, disk=0)
    case.evict()
    first = case.ask().reasons[0]
    assert (first.kind, first.text) == ("evicted", "was cached earlier and evicted: memory")
