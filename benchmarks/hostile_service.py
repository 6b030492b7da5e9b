"""A hostile service with 273 answers against every client: what it reaches, reads, blocks and
learns.

The service runs in a process of its own. `sys.addaudithook` records opened files and connections
of this process; a thread that wakes every 5 ms measures blocked time. Texts are errors, warnings,
tracebacks with local variables, representations, events, snapshots, usage tables and views.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from tests.backends.attacks import ATTACKS
from tests.backends.survey import Outcome, Survey, surveying

from .common import Report

BAR = 0.2
WARM_UP = ("type-info-5", "key-content", "key-sglang", "key-litellm", "key-claude", "tokenizer-0")


def run() -> Report:
    report = Report(
        f"A hostile service with {len(ATTACKS)} answers",
        (
            "answers",
            "number",
            "answered",
            "typed errors",
            "other errors",
            "other hosts",
            "files",
            "texts with the key",
            "longest block, s of processor time",
            "median time, s",
            "longest time, s",
        ),
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, SGNB_CACHE=str(Path(folder, "cache"))),
        surveying(Path(folder)) as survey,
    ):
        for name in WARM_UP:  # imports, which open files
            survey.run(ATTACKS[name])
        groups: dict[str, list[str]] = {}
        for name in ATTACKS:
            groups.setdefault(name.partition("-")[0], []).append(name)
        outcomes: list[Outcome] = []
        faults = 0
        for group, names in groups.items():
            row, own, found = _row(survey, group, names)
            report.rows.append(row)
            outcomes += own
            faults += found
        faults += survey.hits()
    longest = max(outcome.gap for outcome in outcomes)
    report.bar = f"no other host, no file, no key, only typed errors, no block over {BAR} s"
    report.met = not faults and longest <= BAR
    report.note = (
        f"Longest block {longest:.3f} s, without Python's garbage collections, of which one takes"
        " 0.3 s with the objects of torch and litellm. One try per request, at most 4 s each."
    )
    return report


def _row(
    survey: Survey, group: str, names: Sequence[str]
) -> tuple[tuple[object, ...], list[Outcome], int]:
    """Run a group of attacks. Return its row, its outcomes, and the number of faults."""
    survey.watch.files.clear()
    survey.watch.connections.clear()
    outcomes = [survey.run(ATTACKS[name]) for name in names]
    untyped = sum(not outcome.is_typed for outcome in outcomes)
    keys = sum(outcome.quotes_key for outcome in outcomes)
    hosts, files = len(survey.watch.connections), len(survey.watch.files)
    row = (
        group,
        len(names),
        sum(outcome.error is None for outcome in outcomes),
        sum(outcome.error is not None and outcome.is_typed for outcome in outcomes),
        untyped,
        hosts,
        files,
        keys,
        f"{max(outcome.gap for outcome in outcomes):.3f}",
        f"{statistics.median(outcome.seconds for outcome in outcomes):.2f}",
        f"{max(outcome.seconds for outcome in outcomes):.2f}",
    )
    return row, outcomes, untyped + keys + hosts + files
