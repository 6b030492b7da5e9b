"""First token of a long prompt before and after a restart of the process, with `disk_cache`, on the
bundled model. The first process is killed after five seconds without requests."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from .common import Report

TURNS = 5
TOKENS = 3800
LEAST_GAIN = 5
IDLE_SECONDS = 5
PROMPT = Path(__file__).resolve().parent.parent / "docs" / "LANGUAGE.md"
CHILD = """
import json, sys, time
from sgnb.engine import Engine
folder, tokens, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
engine = Engine("tiny", disk_cache=folder, max_total_tokens=16384)
[prompt] = engine.encode([open(path, encoding="utf-8").read()])
for length in (20, 200, 600):  # other prompts, so that the process is warm
    engine.generate(prompt[-length:], max_tokens=4, temperature=0)
begin = time.perf_counter()
engine.generate(prompt[:tokens], max_tokens=1, temperature=0)
seconds = time.perf_counter() - begin
text = engine.generate(prompt[:tokens], max_tokens=24, temperature=0).token_ids
print(json.dumps([seconds, engine.stats()["loaded_tokens"], text]), flush=True)
time.sleep(600)
"""


def ask(folder: str, idle: float) -> tuple[float, int, list[int]]:
    """Return the seconds to the first token, the loaded tokens, and the tokens of the answer. Kills
    the process `idle` seconds later."""
    command = [sys.executable, "-c", CHILD, folder, str(TOKENS), str(PROMPT)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        seconds, loaded, tokens = json.loads(child.stdout.readline())
        with suppress(subprocess.TimeoutExpired):
            raise RuntimeError(f"the process ended with {child.wait(idle)}")
    finally:
        child.kill()
        child.wait()
    return seconds, loaded, tokens


def run() -> Report:
    before, after, loaded, same = [], [], [], True
    for _ in range(TURNS):
        with tempfile.TemporaryDirectory() as folder:
            first, _, answer = ask(folder, IDLE_SECONDS)
            second, tokens, again = ask(folder, 0.1)
        before.append(first)
        after.append(second)
        loaded.append(tokens)
        same = same and answer == again

    gain = statistics.median(a / b for a, b in zip(before, after, strict=True))
    report = Report(
        f"Prompt of {TOKENS:,} tokens, bundled model, {TURNS} pairs of processes",
        ("", "measured", "at least"),
        bar="the last column, and the same 24 greedy tokens",
    )
    report.rows = [
        ("first token computed, median, ms", round(1000 * statistics.median(before)), ""),
        ("first token after the restart, median, ms", round(1000 * statistics.median(after)), ""),
        ("computed over loaded, median", round(gain, 1), LEAST_GAIN),
        ("tokens from the disk, fewest", min(loaded), TOKENS - 128),
        ("the same answers", "yes" if same else "no", "yes"),
    ]
    report.met = gain >= LEAST_GAIN and min(loaded) >= TOKENS - 128 and same
    return report
