"""Followers of a tensor-parallel engine that are killed, during steps and between steps, with two
and four ranks. Each loss ends the engine, with an error that names the rank."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from sgnb.engine.engine import Engine
from sgnb.errors import EngineError
from tests.engine.rank_scenario import FOUR_RANKS, save_model

from .common import Report

KILLS = 20
SECONDS = 5.0
"""Longest time from a kill to the error of a request."""

PROMPT = [5, 6, 7]
ENDLESS: dict[str, Any] = {"max_new_tokens": 200, "temperature": 0, "ignore_eos": True}


def lose(engine: Engine, rank: int, after: float | None) -> tuple[EngineError | None, float]:
    """Kill a follower and send requests until an error. after: seconds of steps before the kill;
    None: the engine is idle.

    Returns: The error, or None without an error in time; seconds from the kill to the error.
    """
    follower = engine._loop._runner._leader._followers[rank - 1]  # type: ignore[union-attr]
    killed = list[float]()

    def kill() -> None:
        killed.append(time.monotonic())
        follower.kill()

    def since_kill() -> float:
        return time.monotonic() - killed[0] if killed else 0.0

    if after is None:
        kill()
        while not engine.closed and since_kill() < SECONDS:
            time.sleep(0.01)
    else:
        threading.Timer(after, kill).start()
    try:
        while since_kill() < SECONDS:
            engine.generate([PROMPT] * 4, ENDLESS)
    except EngineError as error:
        return error, since_kill()
    return None, since_kill()


def run() -> Report:
    longest, reported = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder), "llama", **FOUR_RANKS)
        for number in range(KILLS):
            size = 2 if number % 4 else 4
            rank, after = 1 + number % (size - 1), 0.05 * (number % 7) if number % 3 else None
            options: dict[str, Any] = {"device": "cpu", "overlap": bool(number % 2)}
            with Engine(folder, tensor_parallel=size, **options) as engine:
                engine.generate(PROMPT, max_new_tokens=2)
                error, seconds = lose(engine, rank, after)
            reported += f"rank {rank} of {size} was killed by signal 9" in str(error)
            longest = max(longest, seconds)
    report = Report("Lost ranks of two and four", ("", "measured", "bar"), bar="the last column")
    report.rows = [
        ("kills with an error that names the rank", reported, KILLS),
        ("longest time to the error, s", f"{longest:.2f}", SECONDS),
    ]
    report.met = reported == KILLS and longest < SECONDS
    return report
