"""`python -m benchmarks grammar_neighbours`: a free request next to a caller with a slow grammar.

The bundled model writes free text while a caller generates, one text after the other, under a
grammar whose masks or endings take milliseconds to seconds. Both run in turns with the free request
alone; the slowdown is the median over pairs of runs.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import sgnb
from sgnb.errors import SgnbError

from .common import Report
from .grammar_beside import _token_times as token_times

ROUNDS = 5
SLOWDOWN, GAP = 1.2, 0.06  # bars

GRAMMARS: dict[str, dict[str, Any]] = {
    "(free text, for comparison)": {},
    "repeat with maxLength": {
        "json_schema": json.dumps(
            {"type": "string", "pattern": r"^(?:\S+\s+){0,99}\S+$", "maxLength": 5000}
        )
    },
    "allOf of four patterns": {
        "json_schema": json.dumps(
            {
                "type": "string",
                "allOf": [
                    {"pattern": pattern}
                    for pattern in ("[a-m]{3}.*[0-9]", "x.{20}y", "q.{15}[^a]", "(foo|bar).{30}z")
                ],
            }
        )
    },
    "ambiguous GBNF": {
        "ebnf": 'root ::= part\npart ::= part part | "(" part ")" | [a-z]+ | [a-z ]+ part\n'
    },
    "nested quantifiers": {
        "json_schema": json.dumps(
            {"type": "string", "pattern": r"^((\w{1,40}\s?){1,40}[,;]?){1,40}$"}
        )
    },
}


class _Caller:
    """Thread that generates under one grammar until `end`."""

    def __init__(self, engine: sgnb.Engine, grammar: dict[str, Any]) -> None:
        self.tokens = self.failures = 0
        self._engine, self._grammar = engine, grammar
        self._ends = False
        self._thread = threading.Thread(target=self._call)
        self._thread.start()

    def _call(self) -> None:
        while not self._ends:
            try:
                for _ in self._engine.generate(
                    "Some words: ",
                    stream=True,
                    temperature=1.0,
                    max_new_tokens=150,
                    **self._grammar,
                ):
                    self.tokens += 1
                    if self._ends:
                        return
            except SgnbError:
                self.failures += 1

    def end(self) -> None:
        self._ends = True
        self._thread.join()


@contextmanager
def _next_to(engine: sgnb.Engine, grammar: dict[str, Any], done: list[_Caller]) -> Iterator[None]:
    caller = _Caller(engine, grammar)
    done.append(caller)
    try:
        yield
    finally:
        caller.end()


def run() -> Report:
    report = Report(
        "A free request of 300 tokens next to a caller with a slow grammar (CPU)",
        ("caller", "token alone, ms", "next to the caller", "times", "longest gap, ms: alone",
         "next to the caller", "caller's tokens", "caller's failures"),
        bar=f"at most {SLOWDOWN} times the time alone, no gap above {1000 * GAP:g} ms",
    )  # fmt: skip
    met = True
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, {"SGNB_CACHE": folder}),
        sgnb.Engine("tiny") as engine,
    ):
        token_times(engine)
        for name, grammar in GRAMMARS.items():
            with _next_to(engine, grammar, []):  # compile
                token_times(engine)
            times: dict[bool, list[list[float]]] = {False: [], True: []}
            callers: list[_Caller] = []
            for _, beside in itertools.product(range(ROUNDS), times):
                with _next_to(engine, grammar, callers) if beside else nullcontext():
                    times[beside].append(token_times(engine))
            alone, beside_ = ([statistics.mean(run) for run in times[key]] for key in times)
            slower = statistics.median(b / a for a, b in zip(alone, beside_, strict=True))
            longest = [max(map(max, times[key])) for key in times]
            if grammar:
                met &= slower <= SLOWDOWN and longest[True] <= GAP
            report.rows.append(
                (
                    name,
                    f"{1000 * statistics.median(alone):.1f}",
                    f"{1000 * statistics.median(beside_):.1f}",
                    f"{slower:.2f}",
                    f"{1000 * longest[False]:.0f}",
                    f"{1000 * longest[True]:.0f}",
                    sum(caller.tokens for caller in callers),
                    sum(caller.failures for caller in callers),
                )
            )
    report.met = met
    return report
