"""An engine in a host process against an engine in this process: the same requests in turns. Wall
time, processor time of all processes, and the time to the first token. One thread of torch each, so
that engine and client have a core each on two cores."""

from __future__ import annotations

import os
import random
import statistics
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from sgnb.backends.remote.lifetime import start_child
from sgnb.backends.remote.registry import find_hosts
from sgnb.benchmark.stats import in_turn
from sgnb.engine import Engine

from .common import Report, tokens

REQUESTS = 64
TOKENS = 64
ROUNDS = 5
FIRST_TOKENS = 30
OPTIONS: dict[str, Any] = {"device": "cpu", "dtype": "float32", "max_total_tokens": 32768}
GREEDY: dict[str, Any] = {"temperature": 0, "ignore_eos": True}
TICK = os.sysconf("SC_CLK_TCK")


def run() -> Report:
    torch.set_num_threads(1)
    report = Report(
        f"An engine in a host process (CPU, bundled model, {REQUESTS} requests of {TOKENS} tokens)",
        ("workload", "in this process", "in a host process", "ratio"),
        bar="tokens and log-probabilities identical, throughput at least 97 %, first token at most "
        "1 ms later",
    )
    with Engine("tiny", **OPTIONS) as local, start_child("tiny", OPTIONS) as remote:
        pid = next(host.pid for host in find_hosts() if host.name == remote.host_name)
        engines = {"local": local, "remote": remote}
        same = answers(local) == answers(remote)
        met = [same]
        for name, stream in (("results at the end", False), ("streamed", True)):
            walls, works = throughput(engines, pid, stream)
            ratio = statistics.median(
                one / two for one, two in zip(walls["local"], walls["remote"], strict=True)
            )
            report.rows.append((f"{name}, wall time", *milliseconds(walls), f"{ratio:.3f}"))
            work = statistics.median(
                one / two for one, two in zip(works["local"], works["remote"], strict=True)
            )
            report.rows.append((f"{name}, processor time", *milliseconds(works), f"{work:.3f}"))
            met.append(ratio >= 0.97)
        firsts = first_tokens(engines)
        later = statistics.median(firsts["remote"]) - statistics.median(firsts["local"])
        report.rows.append(
            ("first token of one request", *milliseconds(firsts), f"{1000 * later:+.2f} ms")
        )
    report.met = all([*met, later <= 0.001])
    report.note = f"Tokens and log-probabilities are {'identical' if same else 'different'}."
    return report


def answers(engine: Any) -> Any:
    """Return tokens and log-probabilities of all requests on an empty cache."""
    engine.flush_cache()
    outputs = engine.generate(prompts(engine, 0), max_tokens=16, return_logprob=True, **GREEDY)
    return [(output.token_ids, output.logprobs) for output in outputs]


def prompts(engine: Any, seed: int) -> list[list[int]]:
    rng = random.Random(seed)
    return [tokens(rng, 32, engine.vocab_size) for _ in range(REQUESTS)]


def throughput(
    engines: dict[str, Any], pid: int, stream: bool
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return wall and processor seconds of each round, by engine. pid: the host."""
    walls: dict[str, list[float]] = {name: [] for name in engines}
    works: dict[str, list[float]] = {name: [] for name in engines}
    for turn in range(-1, ROUNDS):
        for name in in_turn(list(engines), turn):
            engine = engines[name]
            batch = prompts(engine, turn)
            engine.flush_cache()
            work, wall = processor_seconds(pid), time.perf_counter()
            answer(engine, batch, stream)
            wall, work = time.perf_counter() - wall, processor_seconds(pid) - work
            if turn >= 0:
                walls[name].append(wall)
                works[name].append(work)
    return walls, works


def answer(engine: Any, batch: list[list[int]], stream: bool) -> None:
    """Run all requests together and wait."""
    import queue

    from sgnb.sampling import SamplingParams

    ends: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def take(output: Any) -> None:
        if output.finish_reason is not None:
            ends.put(output)

    params = [SamplingParams(max_new_tokens=TOKENS, **GREEDY)] * len(batch)
    engine.submit(batch, params, [take] * len(batch), stream=stream)
    for _ in batch:
        assert ends.get().finish_reason == "length"


def first_tokens(engines: dict[str, Any]) -> dict[str, list[float]]:
    """Return the seconds to the first token of a streamed request, by engine."""
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for turn in range(FIRST_TOKENS):
        for name in in_turn(list(engines), turn):
            engine = engines[name]
            prompt = prompts(engine, 1000 + turn)[0]
            began = time.perf_counter()
            stream = engine.generate(prompt, max_tokens=4, stream=True, **GREEDY)
            next(stream)
            seconds[name].append(time.perf_counter() - began)
            for _ in stream:
                pass
    return seconds


def processor_seconds(pid: int) -> float:
    """Return the processor time of this process and of process `pid`."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / TICK


def milliseconds(times: dict[str, list[float]]) -> tuple[str, str]:
    one, two = (1000 * statistics.median(times[name]) for name in ("local", "remote"))
    return f"{one:.1f} ms", f"{two:.1f} ms"
