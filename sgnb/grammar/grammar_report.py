"""Report on a compiled grammar: size, forced bytes, examples, warnings.

Produces data and text only. Knows no engine, and a tokenizer only as `Encoder`.
"""

from __future__ import annotations

import random
import string
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from .automaton.automaton import Automaton
from .automaton.compressed import CompressedAutomaton
from .automaton.dfa import START
from .compiler import CompiledGrammar, lint_spec
from .distinct.json_memory import JsonMemory
from .distinct.liveness import AutomatonWalk, shortest_ending
from .distinct.places import root_place
from .grammar_rules import Rule, likely_byte, rules_of
from .grammar_warnings import Encoder, collisions, endless, readable

EXAMPLES = 8
"""Number of random texts for the estimate of the forced share."""

EXAMPLE_BYTES = 200
"""From this length on, an example takes the shortest path to a final state."""

SHOWN_CHARACTERS = 60

_READABLE = f"{string.ascii_lowercase}{string.digits}{string.ascii_uppercase}{string.punctuation} "
_RANK = np.array([_READABLE.find(chr(byte)) % (len(_READABLE) + 1) for byte in range(256)])
"""[256]: readability of each byte; 0 is the most readable."""


@dataclass(frozen=True, slots=True)
class GrammarReport:
    """Key figures of a grammar. Without an automaton most fields keep their defaults."""

    kind: str
    source: str
    seconds: float
    from_cache: bool
    why: str = ""  # reason for the absence of an automaton
    states: int = 0  # of the minimal automaton
    classes: int = 0  # number of byte classes
    compressed_states: int = 0
    compressed_edges: int = 0
    forced: float = 0.0  # share of forced bytes in random texts
    shortest: str | None = None  # a shortest text
    example: str = ""
    rules: tuple[Rule, ...] = ()  # only without an automaton
    warnings: tuple[str, ...] = ()

    @property
    def single(self) -> bool:
        """True if the grammar has a single text, as far as known."""
        return self.compressed_edges == 1 and self.forced == 1

    def line(self) -> str:
        """Return the key figures in a short line."""
        time = f"{self.seconds * 1000:.1f} ms{' (from cache)' if self.from_cache else ''}"
        if self.why:
            return f"{self.kind}, llguidance, {time}"
        size = f"{self.states:,} states, {self.compressed_edges:,} edges"
        return f"{self.kind}, {size}, {self.forced:.0%} forced, {time}"

    def facts(self) -> dict[str, Any]:
        """Return the key figures by name, for a table."""
        origin = "read from the cache" if self.from_cache else "compiled now"
        time = f"{self.seconds * 1000:.1f} ms, {origin}"
        facts: dict[str, Any] = {self.kind: cut(self.source), "time": time}
        if self.why:
            facts |= {"engine": f"llguidance: {self.why}", "rules": f"{len(self.rules):,}"}
            texts = {"shortest": self.shortest, "example": self.example or None}
            return facts | {
                name: cut(repr(text)) for name, text in texts.items() if text is not None
            }

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
    encoder: Encoder | None = None,
    max_tokens: int | None = None,
    stops: Collection[str] = (),
) -> GrammarReport:
    """Return the report on a grammar. Takes milliseconds, up to half a second for the largest
    automata.

    Args:
        grammar: compiled grammar.
        encoder: tokenizer for warnings about tokens.
        max_tokens: token limit of the request, for a warning about a longer shortest text.
        stops: strings that end the text.
    """
    spec, automaton = grammar.spec, grammar.automaton
    head: dict[str, Any] = {
        "kind": spec.kind,
        "source": spec.text,
        "seconds": grammar.seconds,
        "from_cache": grammar.from_cache,
        "why": grammar.why,
    }
    if automaton is None:
        return GrammarReport(**head, **_of_llguidance(grammar, encoder, max_tokens))

    example, forced = _examples(automaton, grammar.compressed)
    shortest = _shortest(automaton)
    if _repeats(grammar, shortest):
        walk = AutomatonWalk(automaton, START)
        shortest = shortest_ending(JsonMemory(root_place(spec.text)), walk) or b""
    if _repeats(grammar, example):
        example = shortest
    warnings = [
        *lint_spec(spec),
        *endless(automaton, spec.kind, stops),
        *collisions(automaton, encoder),
        *_too_long(shortest, encoder, max_tokens),
    ]

    return GrammarReport(
        **head,
        states=automaton.states - 1,
        classes=automaton.table.shape[1],
        compressed_states=grammar.compressed.states,
        compressed_edges=len(grammar.compressed.edges()),
        forced=forced,
        shortest=shortest.decode(errors="replace"),
        example=example.decode(errors="replace"),
        warnings=tuple(warnings),
    )


def _of_llguidance(
    grammar: CompiledGrammar, encoder: Encoder | None, max_tokens: int | None
) -> dict[str, Any]:
    shortest, hints, rules = grammar.shortest, lint_spec(grammar.spec), rules_of(grammar)
    if shortest is not None and _repeats(grammar, shortest):
        shortest = None
    if shortest is None:
        unknown = "size, shortest text and unbounded parts are not known"
        return {"rules": rules, "warnings": (unknown, *hints)}
    unknown = "size and unbounded parts are not known"
    too_long = _too_long(shortest, encoder, max_tokens)
    return {
        "shortest": shortest.decode(errors="replace"),
        "rules": rules,
        "warnings": (unknown, *hints, *too_long),
    }


def _repeats(grammar: CompiledGrammar, text: bytes) -> bool:
    """True if an item or name repeats, which the automaton alone does not forbid."""
    return grammar.distinct and JsonMemory(root_place(grammar.spec.text)).advance(text) is None


def _too_long(shortest: bytes, encoder: Encoder | None, max_tokens: int | None) -> list[str]:
    if encoder is None or max_tokens is None:
        return []
    needed = len(encoder.write(shortest))
    tokens = f"{needed} tokens, and max_tokens is {max_tokens}"
    return [f"the shortest text takes {tokens}: the call would fail"] if needed > max_tokens else []


def _examples(automaton: Automaton, compressed: CompressedAutomaton) -> tuple[bytes, float]:
    """Return a random example (deterministic) and the forced share of all random texts."""
    draw = random.Random(0)
    walks = [_walk(automaton, compressed, draw) for _ in range(EXAMPLES)]
    text, _, state = walks[0]
    share = sum(forced for _, forced, _ in walks) / max(1, sum(len(text) for text, _, _ in walks))
    return text + automaton.completion(state), share


def _walk(
    automaton: Automaton, compressed: CompressedAutomaton, draw: random.Random
) -> tuple[bytes, int, int]:
    """Return a random text or the start of a long text, the number of forced bytes, and the last
    state."""
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
        byte = _homewards(automaton, state) if homewards else likely_byte(options, draw)
        text, state = text + byte, automaton.step(state, byte)

    return text, forced, state


def _shortest(automaton: Automaton) -> bytes:
    """Return a shortest text; among equal lengths, the most readable byte at each position."""
    state, text = START, bytearray()
    while not automaton.final[state]:
        byte = _homewards(automaton, state)
        text += byte
        state = automaton.step(state, byte)
    return bytes(text)


def _homewards(automaton: Automaton, state: int) -> bytes:
    """Return the most readable byte on a shortest path from `state`, not final, to an end."""
    nearer = automaton.distance[automaton.table[state]] == automaton.distance[state] - 1
    return bytes([int(np.where(nearer[automaton.classes], _RANK, len(_READABLE) + 1).argmin())])


def cut(text: str, length: int = SHOWN_CHARACTERS) -> str:
    """Return the start of `text` for display on a single line.

    Args:
        text: text to shorten.
        length: maximum number of characters.
    """
    shown = readable(text[: length + 1])
    return shown if len(shown) <= length else shown[: length - 1] + "…"
