"""Calls of a simulation: Mooncake's trace format, and generated workloads."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

BLOCK = 512
"""Tokens of a block of a trace."""

NOTEBOOKS = 8
"""Clients of a generated workload."""


@dataclass(frozen=True, slots=True)
class SimulatedCall:
    """A generation call.

    Attributes:
        time: Arrival in seconds.
        keys: Numbers of the prompt's full blocks. Equal numbers mean equal prompts so far.
        tokens: Tokens of the prompt.
        output: Generated tokens.
        client: Client for fairness.
    """

    time: float
    keys: tuple[int, ...]
    tokens: int
    output: int
    client: str = ""


Calls = list[SimulatedCall]


def read_mooncake(path: Path) -> Calls:
    """Return the calls of a trace: JSON lines with `timestamp` in milliseconds, `input_length`,
    `output_length` and `hash_ids` of blocks of 512 tokens, the last of which may be partial."""
    calls: Calls = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        tokens = int(row["input_length"])
        keys = tuple(map(int, row["hash_ids"][: tokens // BLOCK]))
        calls.append(
            SimulatedCall(row["timestamp"] / 1000, keys, tokens, int(row["output_length"]))
        )
    return sorted(calls, key=lambda call: call.time)


def at_load(calls: Calls, load: float, workers: int, rate: float) -> Calls:
    """Return the calls with scaled arrival times, so that the prefill of all prompts without a
    cache takes `load` of the time of the workers."""
    span = calls[-1].time - calls[0].time
    wanted = sum(call.tokens for call in calls) / (load * workers * rate)
    return [replace(call, time=(call.time - calls[0].time) * wanted / span) for call in calls]


def copies(calls: Calls, count: int) -> Calls:
    """Return `count` copies of the calls, interleaved, with different blocks."""
    first = 1 + max((key for call in calls for key in call.keys), default=0)
    moved = (
        replace(call, keys=tuple(key + number * first for key in call.keys))
        for number in range(count)
        for call in calls
    )
    return sorted(moved, key=lambda call: call.time)


def split_blocks(calls: Calls, parts: int) -> Calls:
    """Return the calls with `parts` smaller blocks instead of each block."""
    return [
        replace(call, keys=tuple(key * parts + i for key in call.keys for i in range(parts)))
        for call in calls
    ]


class Texts:
    """Generator of prompts that grow: a list of block numbers and a length in tokens."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._numbers = itertools.count(1)

    def grow(self, keys: tuple[int, ...], tokens: int, more: int) -> tuple[tuple[int, ...], int]:
        """Return a prompt with `more` further tokens."""
        total = tokens + more
        new = total // BLOCK - len(keys)
        return keys + tuple(itertools.islice(self._numbers, new)), total

    def length(self, median: float, spread: float) -> int:
        """Return a random length in tokens with a lognormal distribution."""
        return 1 + min(int(self.rng.lognormvariate(0, spread) * median), 120_000)


def _sessions(
    texts: Texts,
    count: int,
    span: float,
    *,
    turns: float,
    first: tuple[float, float],
    later: tuple[float, float],
    output: tuple[float, float],
    pause: float,
    shared: tuple[tuple[int, ...], int] = ((), 0),
) -> Iterator[SimulatedCall]:
    """Yield the calls of conversations. first, later, output: median and spread of lengths."""
    rng = texts.rng
    for number in range(count):
        time, (keys, tokens) = rng.random() * span, shared
        keys, tokens = texts.grow(keys, tokens, texts.length(*first))
        while True:
            answer = texts.length(*output)
            yield SimulatedCall(time, keys, tokens, answer, f"notebook {number % NOTEBOOKS}")
            if rng.random() * turns < 1:
                break
            time += answer * 0.03 + rng.expovariate(1 / pause)
            keys, tokens = texts.grow(keys, tokens, answer + texts.length(*later))


def _ordered(calls: Iterable[SimulatedCall]) -> Calls:
    return sorted(calls, key=lambda call: call.time)


def conversations(seed: int = 0, count: int = 7500) -> Calls:
    """Return a trace with the shape of Mooncake's conversation trace: prompts of 12,000 tokens on
    average and 7,000 in the median; 0.37 of the tokens stand in earlier prompts.

    A smaller count is a shorter trace: with a proportionally smaller cache, hit rates are similar.
    """
    texts, span = Texts(random.Random(seed)), 0.48 * count
    shape = {"turns": 1.7, "first": (4800, 1.2), "later": (1300, 1.25), "output": (250, 0.8)}
    calls = _sessions(texts, count, span, pause=span / 15, **shape)
    return _ordered(call for call in calls if call.time < span)


def chat(seed: int = 0, count: int = 1500) -> Calls:
    """Return short conversations behind one system prompt."""
    texts = Texts(random.Random(seed))
    shape = {"turns": 6, "first": (400, 1), "later": (200, 1), "output": (200, 0.8)}
    system = texts.grow((), 0, 2048)
    return _ordered(_sessions(texts, count, 600, pause=20, shared=system, **shape))


def agents(seed: int = 0, count: int = 400) -> Calls:
    """Return agents: many short steps, long tool results, short pauses."""
    texts = Texts(random.Random(seed))
    shape = {"turns": 20, "first": (1500, 0.5), "later": (900, 1), "output": (120, 0.6)}
    system = texts.grow((), 0, 6144)
    return _ordered(_sessions(texts, count, 400, pause=2, shared=system, **shape))


def trees(seed: int = 0, count: int = 250) -> Calls:
    """Return searches: four levels of four branches each, which continue from the best branch."""
    texts = Texts(random.Random(seed))
    calls: Calls = []
    for number in range(count):
        time = texts.rng.random() * 200
        keys, tokens = texts.grow((), 0, texts.length(3000, 0.7))
        for _ in range(4):
            branches = [texts.grow(keys, tokens, texts.length(600, 0.5)) for _ in range(4)]
            calls += [
                SimulatedCall(time, *branch, 150, f"notebook {number % NOTEBOOKS}")
                for branch in branches
            ]
            keys, tokens = texts.grow(*texts.rng.choice(branches), 150)
            time += 3.0
    return _ordered(calls)


def hot_prefix(seed: int = 0, count: int = 4000) -> Calls:
    """Return calls at 400 per second with 20,480 shared and 300 own tokens."""
    rng, keys = random.Random(seed), tuple(range(1, 41))
    time, calls = 0.0, Calls()
    for number in range(count):
        time += rng.expovariate(400)
        call = SimulatedCall(time, keys, 40 * BLOCK + 300, 50, f"notebook {number % NOTEBOOKS}")
        calls.append(call)
    return calls


def adversary(seed: int = 0) -> Calls:
    """Return a chat, and one client that floods the fleet with long prompts behind the chat's
    system prompt: three times the prefill rate of eight workers, for 60 seconds."""
    texts = Texts(random.Random(seed))
    shape = {"turns": 6, "first": (400, 1), "later": (200, 1), "output": (200, 0.8)}
    keys, tokens = texts.grow((), 0, 2048)
    calls = list(_sessions(texts, 150, 60, pause=10, shared=(keys, tokens), **shape))
    for number in range(60 * 50):
        prompt = texts.grow(keys, tokens, 18_000)
        calls.append(SimulatedCall(10 + number / 50, *prompt, 20, "adversary"))
    return _ordered(calls)


WORKLOADS: dict[str, Callable[[], Calls]] = {
    "chat": chat,
    "agents": agents,
    "trees": trees,
}
