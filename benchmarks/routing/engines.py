"""Two engines of the bundled model in this process, with a routing policy in front: the policies
have the same order as in the simulation of the same calls."""

from __future__ import annotations

import queue
import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from sgnb import Engine
from sgnb.backends.fleet.tree_feed import TreeFeed, prompt_keys
from sgnb.engine.cache.tiers.blocks import BLOCK
from sgnb.engine.request.output import Output
from sgnb.sampling import SamplingParams

from ..common import Report
from .policies import LeastLoad, LongestPrefix, Ours, Thresholds
from .simulator import PREFILL_RATE, Job, Outcome, Policy, Simulation
from .traces import Calls, SimulatedCall, at_load

ENGINES = 2
POOL = 60 * BLOCK
"""Tokens of the cache of each engine: 0.6 of the documents."""

LOAD = 1.4
"""Prefill time without a cache, per time of the engines."""

DOCUMENTS, DOCUMENT_BLOCKS, QUESTION = 12, 8, 20
"""Number of documents, blocks of a document behind a common block, tokens of a question."""

TOKENS = range(300, 4000)

MakePolicy = Callable[[int], Policy]

POLICIES: dict[str, MakePolicy] = {
    "least load": LeastLoad,
    "longest prefix": LongestPrefix,
    "thresholds": Thresholds,
    "sgnb": partial(Ours, block=BLOCK),
}

DISTINCT = 0.05
"""Least difference of simulated hit rates of policies that have an order."""


def run() -> Report:
    calls, prompts = questions(150)
    simulated, measured = simulate(calls, POLICIES), measure(calls, prompts, POLICIES)
    report = Report(
        f"{len(calls)} questions about documents, {ENGINES} engines of the bundled model: hit rate;"
        " median seconds to the first token",
        ("policy", "simulation", "engines"),
    )
    for name in POLICIES:
        outcomes = simulated[name], measured[name]
        cells = (f"{outcome.hit_rate:.3f}; {outcome.wait(50):.4f}" for outcome in outcomes)
        report.rows.append((name, *cells))
    report.bar = f"policies with simulated hit rates at least {DISTINCT} apart have the same order"
    report.met = same_order(simulated, measured)
    report.note = "The waits depend on the load of the machine; the simulated engines are faster."
    return report


def same_order(simulated: dict[str, Outcome], measured: dict[str, Outcome]) -> bool:
    """Return whether the engines order all distinct policies by hit rate as the simulation does."""
    pairs = [
        (one, other)
        for one in simulated
        for other in simulated
        if simulated[one].hit_rate > simulated[other].hit_rate + DISTINCT
    ]
    return bool(pairs) and all(measured[a].hit_rate > measured[b].hit_rate for a, b in pairs)


def questions(count: int, seed: int = 0) -> tuple[Calls, list[list[int]]]:
    """Return questions about documents, some documents more often, and the prompts' token ids."""
    rng = random.Random(seed)
    calls, prompts = Calls(), []
    for number in range(count):
        document = min(int(rng.expovariate(0.25)), DOCUMENTS - 1)
        first = 1 + DOCUMENT_BLOCKS * document
        blocks = (0, *range(first, first + DOCUMENT_BLOCKS))
        prompt = [
            token for block in blocks for token in random.Random(block).choices(TOKENS, k=BLOCK)
        ]
        prompt += rng.choices(TOKENS, k=QUESTION)
        prompts.append(prompt)
        calls.append(SimulatedCall(number + rng.random(), blocks, len(prompt), 4))
    return calls, prompts


def simulate(calls: Calls, policies: dict[str, MakePolicy]) -> dict[str, Outcome]:
    """Return the outcome of each policy in the simulation."""
    loaded = at_load(calls, LOAD, ENGINES, PREFILL_RATE)
    return {
        name: Simulation(make(ENGINES), ENGINES, BLOCK, POOL).run(loaded)
        for name, make in policies.items()
    }


def measure(
    calls: Calls, prompts: Sequence[Sequence[int]], policies: dict[str, MakePolicy]
) -> dict[str, Outcome]:
    """Return the outcome of each policy with real engines, which begin with empty caches."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ExitStack() as opened:
            engines = [
                opened.enter_context(Engine("tiny", max_total_tokens=POOL)) for _ in range(ENGINES)
            ]
            rate = prefill_rate(engines)
            loaded = at_load(calls, LOAD, ENGINES, rate)
            return {
                name: Drive(engines, make(ENGINES)).run(loaded, prompts)
                for name, make in policies.items()
            }
    finally:
        torch.set_num_threads(threads)


def prefill_rate(engines: Sequence[Engine]) -> float:
    """Return the prefill rate of an engine, in tokens per second, while all engines work."""
    rng = random.Random(1)
    results: queue.SimpleQueue[Output] = queue.SimpleQueue()
    count, length = 5, DOCUMENT_BLOCKS * BLOCK
    began = time.perf_counter()
    for engine in engines:
        prompts = [rng.choices(TOKENS, k=length) for _ in range(count)]
        engine.submit(prompts, [SamplingParams(max_new_tokens=1)] * count, [results.put] * count)
    for _ in range(count * len(engines)):
        results.get()
    return count * length / (time.perf_counter() - began)


class Drive:
    """A run of calls on engines, with a policy."""

    def __init__(self, engines: Sequence[Engine], policy: Policy) -> None:
        self._engines, self._policy = engines, policy
        self._outputs: queue.SimpleQueue[tuple[Job, Output, float]] = queue.SimpleQueue()
        self._prompts: dict[Job, Sequence[int]] = {}
        self._feeds: list[TreeFeed] = []
        self._read = [0] * len(engines)
        for number, engine in enumerate(engines):
            engine.flush_cache()
            if policy.index is not None:
                self._read[number] = seq = engine.log.last
                feed = TreeFeed(policy.index, number, "", engine.vocab_size, seq)
                feed.restore(engine.snapshot())
                self._feeds.append(feed)

    def run(self, calls: Calls, prompts: Sequence[Sequence[int]]) -> Outcome:
        jobs: list[Job] = []
        for call, prompt in zip(calls, prompts, strict=True):
            keys = prompt_keys("", "", np.array(prompt, np.int32), TOKENS.stop)
            jobs.append(Job(replace(call, keys=tuple(keys))))  # type: ignore[arg-type]
            self._prompts[jobs[-1]] = prompt
        began, arrivals, unfinished = time.perf_counter(), list(reversed(jobs)), len(jobs)
        while unfinished:
            now = time.perf_counter() - began
            if arrivals and arrivals[-1].call.time <= now:
                self._follow()
                job = arrivals.pop()
                self._send(self._policy.arrived(job, now))
                continue
            try:
                wait = arrivals[-1].call.time - now if arrivals else None
                job, output, at = self._outputs.get(timeout=wait)
            except queue.Empty:
                continue
            unfinished -= self._receive(job, output, at - began)
        return Outcome(jobs)

    def _receive(self, job: Job, output: Output, now: float) -> bool:
        """Handle an output. Returns whether the call ended."""
        self._follow()
        if not job.first:
            job.first, job.cached = now, output.cached_tokens
            self._send(self._policy.prefilled(job, now))
        if output.finish_reason is None:
            return False
        self._send(self._policy.finished(job, now))
        return True

    def _send(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            params = SamplingParams(max_new_tokens=job.call.output, temperature=0, ignore_eos=True)
            put = partial(self._put, job)
            engine = self._engines[job.worker]
            engine.submit([self._prompts[job]], [params], [put], stream=True)

    def _put(self, job: Job, output: Output) -> None:
        self._outputs.put((job, output, time.perf_counter()))

    def _follow(self) -> None:
        """Apply the events of the engines to the index."""
        for number, feed in enumerate(self._feeds):
            records, _ = self._engines[number].log.read(self._read[number])
            if records:
                self._read[number] = records[-1].seq
                feed.apply(records)
                assert not feed.stale
