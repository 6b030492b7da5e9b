"""Runs a workload on any engine, and times it. Knows an engine as a `Server`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

from .chip import watched
from .workloads import Call, Kind, Workload

WARM_UP_SEED, REPETITIONS = 1000, 3

PORTION = 64
"""So many calls are submitted at a time, unless they must begin together: a server may begin with
the first ones."""


class Asked(NamedTuple):
    """Call that is ready to run. `number` is the index in the workload."""

    number: int
    prompt: list[int]
    call: Call


class Server(Protocol):
    """An engine. All sampling is greedy and does not end at an end-of-sequence token, except with a
    schema."""

    name: str
    version: str

    def submit(self, batch: Sequence[Asked], together: bool) -> None:
        """Queue calls and return at once. together: no other comes before all of these are done."""
        ...

    def finished(self) -> list[tuple[int, list[int]]]:
        """Wait for at least one call: number and output tokens of all that are done and were not
        given before."""
        ...

    def flush(self) -> None:
        """Forget every cached prefix."""
        ...

    def reset(self) -> None:
        """Give up the calls that are not done: a workload has failed."""
        ...

    def close(self) -> None: ...


def play(server: Server, workload: Workload, levels: bool = False) -> list[list[int]]:
    """Run all calls and return their outputs.

    A call is submitted as soon as those it needs are done; with `levels`, only when no call is
    running. Raises ValueError when an output has not the length that was asked for.
    """
    calls = workload.calls
    missing = [len(set(call.needs)) for call in calls]
    followers: list[list[int]] = [[] for _ in calls]
    for number, call in enumerate(calls):
        for need in set(call.needs):
            followers[need].append(number)
    ready = [number for number, count in enumerate(missing) if count == 0]
    outputs: dict[int, list[int]] = {}
    running = 0
    while len(outputs) < len(calls):
        if ready and not (running and (levels or workload.one_at_a_time)):
            chosen = ready[:1] if workload.one_at_a_time else ready
            ready = ready[len(chosen) :]
            size = len(chosen) if levels else PORTION
            for first in range(0, len(chosen), size):
                portion = chosen[first : first + size]
                server.submit(
                    [Asked(n, _prompt(calls[n], calls, outputs), calls[n]) for n in portion], levels
                )
            running += len(chosen)
        for number, output in server.finished():
            _check(calls[number], output, number)
            outputs[number] = output
            running -= 1
            for follower in followers[number]:
                missing[follower] -= 1
                if missing[follower] == 0:
                    ready.append(follower)
    return [outputs[number] for number in range(len(calls))]


def _prompt(call: Call, calls: Sequence[Call], outputs: dict[int, list[int]]) -> list[int]:
    """Made when it is asked for: lists of all prompts would be work for Python's garbage
    collector."""
    parts = [call.tokens, *(outputs[other] for other in reversed(call.joins))]
    while call.context is not None:
        parts.append(outputs[call.context])
        call = calls[call.context]
        parts += [call.tokens, *(outputs[other] for other in reversed(call.joins))]
    return list(chain.from_iterable(reversed(parts)))


def _check(call: Call, output: list[int], number: int) -> None:
    if call.score_from is not None:
        return
    good = 0 < len(output) <= call.new if call.schema else len(output) == call.new
    if not good:
        raise ValueError(f"call {number} gave {len(output)} tokens, {call.new} were asked for")


def measure(
    server: Server,
    kind: Kind,
    vocab: int,
    *,
    toy: bool = False,
    repetitions: int = REPETITIONS,
    styles: Sequence[bool] = (False,),
) -> dict[str, Any]:
    """The best style's median: {"figure", "unit", "seconds" of each repetition, "levels"}, and the
    GPU's clock.

    One warm-up of each style; then repetitions with the cache flushed before each, and other tokens
    in each. styles: values of `play`'s levels that are tried; the better one counts. Without levels
    in the workload they mean whether the calls are handed over together. An error gives up the
    calls that are running.
    """
    try:
        with watched() as chip:
            runs = _runs(server, kind, vocab, toy, repetitions, styles)
    except Exception:
        server.reset()
        raise
    best = min(runs, key=lambda levels: statistics.median(runs[levels]))
    workload = kind.make(0, vocab, toy)
    return {
        "figure": workload.figure(statistics.median(runs[best])),
        "unit": workload.unit,
        "seconds": [round(second, 4) for second in runs[best]],
        "levels": best,
        **chip,
    }


def _runs(
    server: Server, kind: Kind, vocab: int, toy: bool, repetitions: int, styles: Sequence[bool]
) -> dict[bool, list[float]]:
    """Seconds of every repetition, by style."""
    runs: dict[bool, list[float]] = {}
    for levels in styles:
        play(server, kind.make(WARM_UP_SEED, vocab, toy), levels)
        for seed in range(repetitions):
            workload = kind.make(seed + 100 * levels, vocab, toy)
            server.flush()
            began = time.perf_counter()
            play(server, workload, levels)
            runs.setdefault(levels, []).append(time.perf_counter() - began)
    return runs
