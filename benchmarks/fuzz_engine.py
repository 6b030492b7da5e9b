"""`python -m benchmarks.fuzz_engine --requests 5000 --programs 1000 --jobs 1 --seed 0`: random
requests and programs on engines with too little memory, against an engine without a prefix cache.

Requests share prefixes, have grammars, stops, penalties and log-probabilities, and are aborted.
Programs fork inside forks, are continued, and go on from snapshots that were written as JSON. Three
models with recurrent layers, and one with attention alone. A job is a model on an engine.
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import torch

import sgnb
from sgnb.engine.engine import Engine
from sgnb.engine.request.output import Output
from sgnb.events import Jumped, RequestAdmitted
from tests.byte_tokenizers import TEXT, byte_level
from tests.hybrid_models import THREE, hybrid_model
from tests.random_models import random_model

from .common import Report

REQUESTS, PROGRAMS = 5_000, 1_000
RETRACTIONS = 200
"""The bar: at least this many requests are preempted in all jobs."""

ATTENTION = "llama"
FAMILIES = *THREE, ATTENTION

VOCAB = 400

NOISE = 1e-4
"""Relative noise of the logits: far above rounding by another order of sums in float32. Cases that
the noise changes have near ties, and are left out."""

THREADS = 4
"""Threads that ask one engine."""

CASES = 110
"""Requests that a family's are drawn from."""

Asked = tuple[Any, dict[str, Any]]
Answer = tuple[list[int], str, str | None]
Play = list[Any]
"""A program as data: texts, ("gen", options), ("read",), ("fork", plays, join mode)."""
Case = TypeVar("Case")

PATTERNS = [
    "[a-z]{2,6}", r'\{"name": "[a-z]{1,4}", "age": [1-9]\}',
    "([a-z]{1,5} ){2}((the answer|their fox|what) is [a-z]{3,6}, ){2}",
    "[ab]: the (quick|qu[xyz]|quit it) [a-c], the (lazy|laz[ab]|dog)",
]  # fmt: skip

TIGHT: list[dict[str, Any]] = [
    {"max_total_tokens": 125, "max_step_tokens": 13, "max_states": 16, "checkpoint_every": 16},
    {"max_total_tokens": 130, "max_step_tokens": 40, "max_states": 12, "checkpoint_every": 48,
     "overlap": True, "schedule_policy": "fcfs"},
    {"max_total_tokens": 140, "max_step_tokens": 7, "max_states": 30, "checkpoint_every": 1,
     "overlap": True, "eviction_policy": "lfu"},
    {"max_total_tokens": 125, "max_step_tokens": 64, "max_states": 14, "checkpoint_every": 24,
     "overlap": True, "eviction_policy": "slru"},
]  # fmt: skip


class Job(NamedTuple):
    """Work of one process."""

    kind: str  # "requests" or "programs"
    family: str
    way: int  # of TIGHT
    count: int
    seed: int


class Found(NamedTuple):
    """Result of a job."""

    job: Job
    counts: Counter[str]  # of events, and of tokens
    wrong: list[Any]  # what was asked, expected and answered
    seconds: float


def engine(family: str, noise: float = 0, **options: Any) -> Engine:
    make = random_model if family == ATTENTION else hybrid_model
    model = make(family, vocab_size=VOCAB)
    head = model.get_output_embeddings().weight
    with torch.no_grad():
        head *= 1 + noise * torch.randn(head.shape, generator=torch.Generator().manual_seed(0))
    return Engine(
        model, tokenizer=byte_level(), max_running_requests=6, context_length=200, **options
    )


def answers(engine: Engine, asked: list[Asked]) -> list[Answer]:
    outputs: list[Output] = engine.generate(
        [p for p, _ in asked], [options for _, options in asked]
    )
    return [(output.token_ids, output.text, output.finish_reason) for output in outputs]


def draw(rng: random.Random, prefixes: list[list[int]]) -> Asked:
    """A request with a prefix from `prefixes` and random tokens."""
    prefix = rng.choice(prefixes)
    prompt = prefix[: rng.choice([len(prefix), rng.randrange(len(prefix))])]
    prompt = prompt + [rng.randrange(3, VOCAB) for _ in range(rng.randrange(1, 20))]
    options: dict[str, Any] = {
        "max_new_tokens": rng.choice([0, 1, 8, 40, 40]), "seed": rng.randrange(2**64),
        "temperature": rng.choice([0, 0, 0.5, 1]), "ignore_eos": rng.random() < 0.5,
    }  # fmt: skip
    if rng.random() < 0.3:
        options["regex"] = rng.choice(PATTERNS)
        options["max_new_tokens"] = 40
    more: dict[str, dict[str, Any]] = {
        "stop": {"stop": ["e", "the"]}, "penalty": {"repetition_penalty": 1.3},
        "filter": {"top_k": 5}, "scores": {"return_logprob": True, "logprob_start_len": 0},
    }  # fmt: skip
    for key in rng.sample(list(more), rng.randrange(3)):
        options |= more[key]
    return prompt, options


def without_ties(
    family: str,
    pairs: list[tuple[Case, Any]],
    answer: Callable[[Engine, list[Case]], list[Any]],
) -> list[tuple[Case, Any]]:
    """Drop cases whose answer changes with noise in the logits."""
    with engine(family, NOISE, prefix_cache=False) as noisy:
        disturbed = answer(noisy, [case for case, _ in pairs])
    kept = [pair for pair, other in zip(pairs, disturbed, strict=True) if pair[1] == other]
    assert len(kept) > len(pairs) / 3, "too few cases without near ties"
    return kept


def drawn(family: str, count: int, seed: int = 0) -> list[tuple[Asked, Answer]]:
    """Requests with the answers of an engine without a cache. Some continue earlier answers."""
    rng = random.Random(seed)
    prefixes = [[rng.randrange(3, VOCAB) for _ in range(40)] for _ in range(4)]
    found: list[tuple[Asked, Answer]] = []
    with engine(family, prefix_cache=False) as fresh:
        for _ in range(count):
            asked = draw(rng, prefixes)
            [answer] = answers(fresh, [asked])
            found.append((asked, answer))
            if len(prefixes) < 8:
                prefixes.append((asked[0] + answer[0])[:60])
    return without_ties(family, found, answers)


def ask_and_leave(engine: Engine, asked: Asked) -> None:
    """Ask for a stream and drop it after the first token."""
    next(engine.generate(*asked, stream=True), None)


def ask(engine: Engine, pool: list[tuple[Asked, Answer]], count: int, seed: int) -> list[Any]:
    """Ask `count` requests of the pool, up to eight together. Returns the wrong answers."""
    rng, wrong = random.Random(seed), []
    while count > 0:
        some = rng.choices(pool, k=min(count, rng.randrange(1, 9)))
        count -= len(some)
        for one, got in zip(some, answers(engine, [asked for asked, _ in some]), strict=True):
            if got != one[1]:
                wrong.append((*one, got))
        if rng.random() < 0.3:
            ask_and_leave(engine, rng.choice(pool)[0])
        if rng.random() < 0.03:
            engine.flush_cache()
    return wrong


def draw_play(rng: random.Random, depth: int, seeds: Any) -> Play:
    """A program of some 40 tokens at most: forks in forks to `depth`."""
    play: Play = [rng.choice(TEXT)[: rng.randrange(1, 7)]]
    for _ in range(rng.randrange(1, 3)):
        options = {
            "max_tokens": rng.randrange(1, 7), "temperature": rng.choice([0, 0, 0.8]),
            "seed": next(seeds), "ignore_eos": rng.random() < 0.8,
        }  # fmt: skip
        play.append(("gen", options))
        if rng.random() < 0.2:
            play.append(("read",))
    if depth and rng.random() < 0.8:
        plays = [draw_play(rng, depth - 1, seeds) for _ in range(rng.randrange(2, 4))]
        modes = "gather_variable", "concate_and_append" if depth == 1 else None, None
        play.append(("fork", plays, rng.choice(modes)))
        play.append(("gen", {"max_tokens": 3, "temperature": 0, "seed": next(seeds)}))
    return play


def play_on(s: Any, play: Play, names: Any) -> list[Any]:
    """Run a program on a state. Returns the states of open forks."""
    open_forks, last = [], ""
    for step in play:
        if isinstance(step, str):
            s += step
        elif step[0] == "gen":
            last = next(names)
            s += sgnb.gen(last, **step[1])
        elif step[0] == "read":
            s += f"[{len(s[last])}]"
        else:
            group = s.fork(len(step[1]))
            for fork, inner in zip(group, step[1], strict=True):
                open_forks += play_on(fork, inner, names)
            if step[2]:
                group.join(step[2])
            else:
                open_forks += group
    return open_forks


@sgnb.function
def program(s: Any, play: Play, letter: str) -> Any:
    """Run a program given as data. All variable names begin with `letter`."""
    names = (f"{letter}{i}" for i in itertools.count())
    return [fork.text() for fork in play_on(s, play, names)]


def run_plays(engine: Engine, plays: Sequence[tuple[Play, Play, bool]]) -> list[Any]:
    """Run pairs of programs; the second continues the first, perhaps through JSON. Returns text,
    tokens and variables of both programs, and the texts of open forks."""
    return [_run_play(engine, *pair) for pair in plays]


def _run_play(engine: Engine, first: Play, second: Play, by_json: bool) -> Any:
    state = program.run(first, "a", backend=engine)
    held: Any = state
    if by_json:
        held = sgnb.Snapshot.from_json(state.snapshot().to_json())
    after = program.run(second, "b", backend=engine, continue_from=held)
    return [
        (s.text(), s.token_ids(), s.snapshot().variables, s.program.value) for s in (state, after)
    ]


def drawn_plays(family: str, count: int, seed: int) -> list[tuple[Any, Any]]:
    """Pairs of programs with the results of an engine without a prefix cache."""
    rng = random.Random(seed)
    seeds = (rng.randrange(2**32) for _ in itertools.count())
    plays = [
        (draw_play(rng, 2, seeds), draw_play(rng, 1, seeds), rng.random() < 0.5)
        for _ in range(count)
    ]
    with engine(family, prefix_cache=False) as fresh:
        pairs = list(zip(plays, run_plays(fresh, plays), strict=True))
    return without_ties(family, pairs, run_plays)


def play_pool(engine: Engine, pool: list[Any], count: int, seed: int) -> list[Any]:
    """Run `count` pairs of programs of the pool. Returns the pairs with a wrong result."""
    rng, wrong = random.Random(seed), []
    for _ in range(count):
        pair, expected = rng.choice(pool)
        [got] = run_plays(engine, [pair])
        if got != expected:
            wrong.append((pair, expected, got))
        if rng.random() < 0.03:
            engine.flush_cache()
    return wrong


def work(job: Job) -> Found:
    """One model on one engine, asked by several threads."""
    torch.set_num_threads(1)
    began, asks_programs = time.perf_counter(), job.kind == "programs"
    cases = min(CASES, max(16, job.count // 4))
    pool: list[Any]
    if asks_programs:
        pool, do = drawn_plays(job.family, cases, job.seed), play_pool
    else:
        pool, do = drawn(job.family, cases, job.seed), ask
    share = math.ceil(job.count / (2 if asks_programs else 1) / THREADS)

    with engine(job.family, **TIGHT[job.way]) as tight, ThreadPoolExecutor(THREADS) as threads:
        seeds = range(job.seed * THREADS, (job.seed + 1) * THREADS)
        futures = [threads.submit(do, tight, pool, share, seed) for seed in seeds]
        wrong = [each for future in futures for each in future.result()]
        wait_until_whole(tight)
        counts = count_events(tight)
    counts[job.kind] = share * THREADS * (2 if asks_programs else 1)
    return Found(job, counts, wrong, time.perf_counter() - began)


def wait_until_whole(engine: Engine, seconds: float = 60) -> None:
    """Wait until nothing runs; every slot and every state is free or cached then."""
    deadline = time.monotonic() + seconds
    while (state := engine.stats())["running"] + state["waiting"] + state["in_flight"]:
        assert time.monotonic() < deadline, state
        time.sleep(0.01)
    assert state["free"] + state["cached"] == state["pool_tokens"], state
    if "states" in state:
        assert state["free_states"] + state["kept_states"] == state["states"], state


def count_events(engine: Engine) -> Counter[str]:
    """The number of events of each kind, and of tokens that were cached, computed again or dropped
    by a jump."""
    counts = Counter[str]()
    records, lost = engine.log.read()
    assert not lost
    for record in records:
        event = record.event
        counts[type(event).__name__] += 1
        if isinstance(event, RequestAdmitted):
            counts["cached"] += event.cached
            counts["again"] += event.again
        elif isinstance(event, Jumped):
            counts["dropped"] += event.dropped
    return counts


def jobs_for(requests: int, programs: int, seed: int) -> list[Job]:
    """Each family on each engine, with an equal share."""
    pairs = list(itertools.product(FAMILIES, range(len(TIGHT))))
    return [
        Job(kind, family, way, math.ceil(count / len(pairs)), seed * 1000 + number)
        for kind, count in (("requests", requests), ("programs", programs))
        for number, (family, way) in enumerate(pairs)
        if count
    ]


def campaign(requests: int, programs: int, jobs: int, seed: int) -> Report:
    if jobs == 1:
        results = [work(job) for job in jobs_for(requests, programs, seed)]
    else:
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, mp_context=spawn) as processes:
            results = list(processes.map(work, jobs_for(requests, programs, seed)))
    columns = "asked", "model", "engine", "number", "preempted", "cached tokens", "wrong", "s"
    report = Report("Random requests and programs in too little memory", columns)
    total = Counter[str]()
    for job, counts, wrong, seconds in results:
        total += counts
        total["wrong"] += len(wrong)
        shown = counts[job.kind], counts["RequestRetracted"], counts["cached"], len(wrong)
        row = (job.kind, job.family, job.way + 1, *(f"{n:,}" for n in shown), f"{seconds:.0f}")
        report.rows.append(row)
        for case in wrong[:1]:
            print(f"{job}: {case}", flush=True)
    report.bar = f"all as a fresh engine; at least {RETRACTIONS} preemptions at full counts"
    full = requests >= REQUESTS
    report.met = not total["wrong"] and (not full or total["RequestRetracted"] >= RETRACTIONS)
    report.note = (
        f"{total['requests']:,} requests and {total['programs']:,} programs, "
        f"{total['RequestRetracted']:,} preemptions, {total['wrong']} wrong; seed {seed}."
    )
    return report


def run() -> Report:
    """All of it, on all processors."""
    return campaign(REQUESTS, PROGRAMS, os.cpu_count() or 1, 0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz_engine", description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--programs", type=int, default=PROGRAMS)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    report = campaign(arguments.requests, arguments.programs, arguments.jobs, arguments.seed)
    print(report.markdown(), flush=True)
    return int(not report.met)


if __name__ == "__main__":
    raise SystemExit(main())
