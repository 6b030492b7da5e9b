"""`python -m benchmarks grammar_verdicts FOLDER [--sample N] [--seed N]`: verdicts on public
schemas, on the machine as it is and next to four busy processes.

FOLDER holds MaskBench, as `schema_suites` reads it. A verdict is the kind of the compiled grammar,
or the error. Nothing is cached on disk.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from sgnb.errors import GrammarError
from sgnb.grammar.compiler import compile_spec
from sgnb.grammar.spec import GrammarSpec

from .common import Report
from .schema_suites import maskbench, sampled

BUSY = 4
_LOOP = "while True: pass"


@contextmanager
def _busy_processes() -> Iterator[None]:
    processes = [subprocess.Popen([sys.executable, "-c", _LOOP]) for _ in range(BUSY)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _verdict(schema: str) -> str:
    try:
        grammar = compile_spec(GrammarSpec("json_schema", schema))
    except GrammarError as error:
        return error.message
    return "llguidance" if grammar.automaton is None else "automaton"


def _verdicts(schemas: Sequence[str]) -> tuple[list[str], float]:
    """Return the verdicts in order and the seconds of all."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, {"SGNB_CACHE": folder}):
        return [_verdict(schema) for schema in schemas], time.perf_counter() - began


def run(folder: Path, sample: int | None, seed: int) -> Report:
    paths = [path for _, path in sampled(maskbench(folder), sample, seed)]
    schemas = [json.dumps(json.loads(path.read_text(encoding="utf-8"))["schema"]) for path in paths]
    alone, seconds = _verdicts(schemas)
    with _busy_processes():
        crowded, crowded_seconds = _verdicts(schemas)
    differences = sum(a != b for a, b in zip(alone, crowded, strict=True))

    report = Report(
        f"Verdicts on {len(schemas):,} schemas of MaskBench",
        ("machine", "automaton", "llguidance", "refused", "seconds"),
        bar="no verdict differs",
        met=not differences,
        note=f"{differences} verdicts differ.",
    )
    for name, verdicts, took in (
        ("as it is", alone, seconds),
        (f"next to {BUSY} busy processes", crowded, crowded_seconds),
    ):
        kinds = [verdicts.count(kind) for kind in ("automaton", "llguidance")]
        report.rows.append((name, *kinds, len(verdicts) - sum(kinds), f"{took:.0f}"))
    return report


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks grammar_verdicts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sample", type=int, help="number of schemas; default: all")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    report = run(given.folder, given.sample, given.seed)
    print(report.markdown(), flush=True)
    return int(report.met is False)
