"""What a free request feels of callers whose schemas are hard: the times between its tokens.

Four threads compile one new schema after the other, each some tenths of a second of work, while the
bundled model writes free text. Beside it, a thread that sleeps a millisecond at a time shows how
long it waits for Python's lock. All in turns: alone, with the compiler's processes, and as where no
process can be started.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import sgnb
from sgnb.grammar.compiler import GrammarCompiler, processes
from sgnb.grammar.lowering import lower
from sgnb.grammar.spec import GrammarSpec

from .common import Report

CALLERS = 4
TOKENS = 300
ROUNDS = 3


def hard(number: int) -> dict[str, Any]:
    """A schema that no other number has."""
    names = [f"name_{number}_{index}" for index in range(200)]
    text = {"type": "string", "minLength": 1, "maxLength": 80}
    either = {"anyOf": [text, {"type": "array", "items": {"type": "integer", "maximum": number}}]}
    nested = {"$ref": "#"}
    kinds: list[dict[str, Any]] = [
        {"properties": dict.fromkeys(names, text), "required": names[:150]},
        {"properties": dict.fromkeys(names, either)},
        {"patternProperties": {"^[a-z]+_[0-9]{1,9}$": {"enum": names}}, "maxProperties": 40},
        {"properties": dict.fromkeys(names[:60], nested), "additionalProperties": text},
    ]
    return {"type": "object", **kinds[number % len(kinds)]}


class _Ticker:
    """Seconds between the wakings of a thread that sleeps."""

    def __init__(self) -> None:
        self.gaps: list[float] = []
        self._ends = False
        self._thread = threading.Thread(target=self._tick)
        self._thread.start()

    def _tick(self) -> None:
        last = time.perf_counter()
        while not self._ends:
            time.sleep(0.001)
            last, before = time.perf_counter(), last
            self.gaps.append(last - before)

    def end(self) -> list[float]:
        self._ends = True
        self._thread.join()
        return self.gaps


class _Callers:
    """`CALLERS` threads that compile. `compiled`: how many schemas are done."""

    def __init__(self, grammars: GrammarCompiler, numbers: Iterator[int]) -> None:
        self.compiled = 0
        self._grammars, self._numbers = grammars, numbers
        self._ends = False
        self._threads = [threading.Thread(target=self._call) for _ in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def _call(self) -> None:
        while not self._ends:
            text = json.dumps(hard(next(self._numbers)))
            self._grammars.compile(GrammarSpec("json_schema", text)).exception()
            self.compiled += 1

    def end(self) -> None:
        self._ends = True
        for thread in self._threads:
            thread.join()


@contextmanager
def _beside(grammars: GrammarCompiler, numbers: Iterator[int], done: list[int]) -> Iterator[None]:
    callers = _Callers(grammars, numbers)
    try:
        yield
    finally:
        callers.end()
        done.append(callers.compiled)


def run() -> Report:
    numbers, done = itertools.count(), []
    times: dict[str, list[float]] = {"alone": [], "processes": [], "threads": []}
    ticks: dict[str, list[float]] = {name: [] for name in times}
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, {"SGNB_CACHE": folder}),
        sgnb.Engine("tiny") as engine,
    ):
        assert engine.tokenizer is not None
        vocabulary = engine.tokenizer.vocabulary
        grammars = GrammarCompiler(lambda: vocabulary)
        grammars.compile(GrammarSpec("json_schema", json.dumps(hard(next(numbers))))).exception()
        here = patch.object(processes, "lower", lower)
        around: dict[str, Callable[[], Any]] = {
            "alone": nullcontext,
            "processes": lambda: _beside(grammars, numbers, done),
            "threads": lambda: _beside(grammars, numbers, []),
        }
        _token_times(engine)
        for _, name in itertools.product(range(ROUNDS), times):
            with here if name == "threads" else nullcontext(), around[name]():
                ticker = _Ticker()
                times[name] += _token_times(engine)
                ticks[name] += ticker.end()
        grammars.close()
    slower = statistics.mean(times["processes"]) / statistics.mean(times["alone"])
    report = Report(
        f"A free request beside {CALLERS} callers with hard schemas (CPU)",
        ("callers' compiler", "token, ms: mean", "99 %", "max", "waking, ms: 99 %", "max"),
        bar="processes: tokens at most 1.3 times slower than alone, no gap above 60 ms",
        met=slower <= 1.3 and max(times["processes"]) < 0.06,
    )
    report.rows = [
        ("(none)" if name == "alone" else name, *_figures(times[name]), *_figures(ticks[name])[1:])
        for name in times
    ]
    report.note = (
        f"{ROUNDS} rounds of {TOKENS} tokens; {sum(done)} schemas compiled in processes meanwhile. "
        f"Tokens came {slower:.2f} times slower beside processes."
    )
    return report


def _token_times(engine: sgnb.Engine) -> list[float]:
    """Seconds between the tokens of a free request."""
    came = [
        time.perf_counter()
        for _ in engine.generate(
            "Once upon a time", temperature=0, max_new_tokens=TOKENS, ignore_eos=True, stream=True
        )
    ]
    return [later - before for before, later in itertools.pairwise(came)]


def _figures(times: list[float]) -> tuple[str, str, str]:
    ordered = sorted(times)
    chosen = statistics.mean(times), ordered[int(0.99 * len(ordered))], ordered[-1]
    return tuple(f"{1000 * value:.1f}" for value in chosen)  # type: ignore[return-value]
