"""Waits of two processes that write large blocks to one disk cache: each call of a process must not
wait for the other one.

A wait is the time of a call without its processor time and without the time in the run queue, when
other programs of the machine had the processors. Linux only.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from .common import Report

SECONDS = 15.0
BLOCK_BYTES, BLOCKS = 8 << 20, 60
MOST_MS = 50.0
ROOT = Path(__file__).resolve().parent.parent
CODE = "import sys; from benchmarks.tier_waits import work; work(*sys.argv[1:])"


def run() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", CODE, f"{folder}/kv"]
        children = [
            subprocess.Popen([*command, str(i)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
            for i in range(2)
        ]
        try:
            outputs = [child.communicate(timeout=20 * SECONDS)[0] for child in children]
        finally:
            for child in children:
                child.kill()
                child.wait()

    report = Report(
        f"Two processes write and read blocks of {BLOCK_BYTES >> 20} MiB in one folder",
        ("call", "calls", "longest wait, ms", "longest call, ms"),
        bar=f"no wait over {MOST_MS:.0f} ms",
        note=f"{SECONDS:.0f} s, bound of {BLOCKS} blocks. The longest call includes the processor "
        "time, and the run queue of a busy machine.",
    )
    results = [json.loads(output) for output in outputs]
    waits = []
    for call in ("read", "write"):
        count, wait, total = np.array([result[call] for result in results]).T
        waits.append(wait.max())
        report.rows.append(
            (call, int(count.sum()), f"{1000 * wait.max():.1f}", f"{1000 * total.max():.1f}")
        )
    report.met = max(waits) <= MOST_MS / 1000
    return report


def work(folder: str, number: str) -> None:
    """Read and write random blocks. Prints calls, longest wait and longest call, by kind."""
    from sgnb.engine.cache.tiers.blocks import BLOCK, Block
    from sgnb.engine.cache.tiers.disk import DiskBlocks

    unit = BLOCK_BYTES // BLOCK
    store = DiskBlocks(folder, "ab", unit, BLOCKS * BLOCK_BYTES)
    rng, ids = np.random.default_rng(int(number)), np.arange(BLOCK, dtype=np.int32)
    data, spare = rng.integers(0, 256, (2, BLOCK, unit), np.uint8)
    results: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        block = Block(rng.integers(4 * BLOCKS).tobytes() * 2, b"p" * 16, ids, rng.random(), data)
        for call in ("read", "write"):
            busy, began = _not_waiting(), time.perf_counter()
            if call == "write":
                store.write(block)
            else:
                with store.open(block.key, block.parent, ids, lambda: spare):
                    pass
            total = time.perf_counter() - began
            wait = total - (_not_waiting() - busy)
            count, most, longest = results[call]
            results[call] = [count + 1, max(most, wait), max(longest, total)]
    print(json.dumps(results))


def _not_waiting() -> float:
    """Return the seconds of this thread on a processor or in the run queue."""
    on_processor, in_queue, _ = Path("/proc/thread-self/schedstat").read_text().split()
    return (int(on_processor) + int(in_queue)) / 1e9
