"""What a person wants to know of a compiled grammar: its size, what it forces, examples, what to
beware of.

Data and text only. Knows no engine, and a tokenizer only as `Writer`.
"""

from __future__ import annotations

import random
import string
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from .advice import Writer, collisions, endless, readable
from .automaton.automaton import Automaton
from .automaton.compressed import Compressed
from .automaton.dfa import START
from .compiler import CompiledGrammar

EXAMPLES = 8
"""Texts over which the share of forced text is taken."""

EXAMPLE_BYTES = 200
"""After so many an example takes the shortest way to its end."""

SHOWN_CHARACTERS = 60

_READABLE = (
    string.ascii_lowercase + string.digits + string.ascii_uppercase + string.punctuation + " "
)
_RANK = np.array(
    [_READABLE.find(chr(byte)) if chr(byte) in _READABLE else len(_READABLE) for byte in range(256)]
)
"""Byte -> how gladly a person reads it, 0 first."""


@dataclass(frozen=True, slots=True)
class GrammarReport:
    """The figures of one grammar. Without an automaton (`why` says why) only kind, source, seconds
    and warnings hold.

    states, classes: of the minimal automaton, and its classes of bytes; compressed_states,
    compressed_edges: where there is a choice, and the ways between. forced: share of the bytes of a
    few random texts that the grammar forces. shortest: a shortest text; None if it is not known.
    """

    kind: str
    source: str
    seconds: float
    from_cache: bool
    why: str = ""
    states: int = 0
    classes: int = 0
    compressed_states: int = 0
    compressed_edges: int = 0
    forced: float = 0.0
    shortest: str | None = None
    example: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def single(self) -> bool:
        """Whether it has one text only, as far as is known."""
        return self.compressed_edges == 1 and self.forced == 1

    def line(self) -> str:
        """The figures in a few words."""
        time = f"{self.seconds * 1000:.1f} ms{' (from cache)' if self.from_cache else ''}"
        if self.why:
            return f"{self.kind}, grammar library, {time}"
        share = f"{self.forced:.0%} forced"
        return (
            f"{self.kind}, {self.states:,} states, {self.compressed_edges:,} edges, {share}, {time}"
        )

    def facts(self) -> dict[str, Any]:
        """The figures by name, for a table."""
        compiled = f"{self.seconds * 1000:.1f} ms, {'read from the cache' if self.from_cache else 'compiled now'}"
        facts: dict[str, Any] = {self.kind: cut(self.source), "time": compiled}
        if self.why:
            return facts | {"made by": f"the grammar library: {self.why}"}
        return facts | {
            "states": f"{self.states:,}",
            "byte classes": self.classes,
            "compressed": f"{self.compressed_states:,} states, {self.compressed_edges:,} edges",
            "forced text": f"{self.forced:.0%} of {EXAMPLES} random texts",
            "shortest": cut(repr(self.shortest)),
            "example": cut(repr(self.example)),
        }

    def __str__(self) -> str:
        width = max(map(len, self.facts()))
        lines = [f"{name:<{width}}  {value}" for name, value in self.facts().items()]
        return "\n".join([*lines, *(f"! {line}" for line in self.warnings)])


def explain(
    grammar: CompiledGrammar,
    writer: Writer | None = None,
    max_tokens: int | None = None,
    stops: Collection[str] = (),
) -> GrammarReport:
    """The report on a grammar. `writer` and `max_tokens` add warnings about tokens; `stops`:
    strings that end the text.

    Takes milliseconds; up to half a second for the largest automata.
    """
    spec, automaton = grammar.spec, grammar.automaton
    if automaton is None:
        unknown = ("its size, its shortest text and its endless parts are not known",)
        return GrammarReport(
            spec.kind, spec.text, grammar.seconds, grammar.from_cache, grammar.why, warnings=unknown
        )
    example, forced = _examples(automaton, grammar.compressed)
    shortest = _shortest(automaton)
    warnings = [
        *endless(automaton, spec.kind, stops),
        *collisions(automaton, writer),
        *_too_long(shortest, writer, max_tokens),
    ]
    return GrammarReport(
        spec.kind,
        spec.text,
        grammar.seconds,
        grammar.from_cache,
        states=automaton.states - 1,
        classes=automaton.table.shape[1],
        compressed_states=grammar.compressed.states,
        compressed_edges=len(grammar.compressed.edges()),
        forced=forced,
        shortest=shortest.decode(errors="replace"),
        example=example.decode(errors="replace"),
        warnings=tuple(warnings),
    )


def _too_long(shortest: bytes, writer: Writer | None, max_tokens: int | None) -> list[str]:
    if (
        writer is None
        or max_tokens is None
        or (needed := len(writer.write(shortest))) <= max_tokens
    ):
        return []
    return [
        f"the shortest text takes {needed} tokens, and only {max_tokens} may be generated: the call would fail"
    ]


def _examples(automaton: Automaton, compressed: Compressed) -> tuple[bytes, float]:
    """One of some random texts, the same each time, and the share of all their bytes that was
    forced."""
    draw = random.Random(0)
    walks = [_walk(automaton, compressed, draw) for _ in range(EXAMPLES)]
    text, _, state = walks[0]
    share = sum(forced for _, forced, _ in walks) / max(1, sum(len(text) for text, _, _ in walks))
    return text + automaton.completion(state), share


def _walk(
    automaton: Automaton, compressed: Compressed, draw: random.Random
) -> tuple[bytes, int, int]:
    """A random text or, when it becomes long, its beginning; how many of its bytes were forced;
    where it ends."""
    state, text, forced = START, b"", 0
    while len(text) < EXAMPLE_BYTES:
        if chain := compressed.forced(state):
            text, forced, state = text + chain, forced + len(chain), automaton.step(state, chain)
            continue
        options = automaton.next_bytes(state)
        final = bool(automaton.final[state])
        if final and (not options or draw.random() < 0.5):
            break
        homewards = not final and draw.random() < 0.25
        byte = _homewards(automaton, state) if homewards else _likely(options, draw)
        text, state = text + byte, automaton.step(state, byte)
    return text, forced, state


def _shortest(automaton: Automaton) -> bytes:
    """A shortest text; where there is a choice, of letters rather than digits, and of those rather
    than others."""
    state, text = START, bytearray()
    while not automaton.final[state]:
        byte = _homewards(automaton, state)
        text += byte
        state = automaton.step(state, byte)
    return bytes(text)


def _homewards(automaton: Automaton, state: int) -> bytes:
    """The byte that is nicest to read of those on a shortest way to a final state, which `state` is
    not."""
    nearer = automaton.distance[automaton.table[state]] == automaton.distance[state] - 1
    return bytes([int(np.where(nearer[automaton.classes], _RANK, len(_READABLE) + 1).argmin())])


def _likely(options: bytes, draw: random.Random) -> bytes:
    """One of the bytes: rather a letter or a digit, and rather one that can be read."""
    plain = [byte for byte in options if chr(byte).isascii() and chr(byte).isalnum()]
    lower = [byte for byte in plain if not 0x41 <= byte <= 0x5A]
    readable = [byte for byte in options if 0x20 <= byte < 0x7F]
    choices = [group for group in (lower, plain, readable) if group] or [list(options)]
    return bytes([draw.choice(draw.choices(choices, [8, 2, 1][: len(choices)])[0])])


def cut(text: str, length: int = SHOWN_CHARACTERS) -> str:
    """The beginning of `text`, so that it shows in one line."""
    shown = readable(text[: length + 1])
    return shown if len(shown) <= length else shown[: length - 1] + "…"
