"""Time on the host that planning a step's attention takes, for the Triton backend with the shape of
Llama 8B.

No GPU, and no memory for keys: tensors lie on torch's device "meta", so that what would be copied
to a GPU is written to its staging memory, and no further. Times are of the thread's own processor
time.
"""

from __future__ import annotations

import statistics
import time
from unittest.mock import patch

import numpy as np
import torch

from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.graphs import SIZES
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.step_builder import attention_input

from .attention_gpu import DIM, HEADS, KV_HEADS, Case, batch_of
from .common import Report

PROGRAMS = 396
"""Of a kernel at a time: 3 on each of an H200's multiprocessors."""
ROUNDS = 15
STEPS = 64
"""Of a round: a first one, in which everything is new, and those that follow it, with one more
token in each row."""

CASES = (
    Case("1 row of 1,024", [(1, 1024)], 1),
    Case("64 rows of 640, nothing shared", [(64, 640)], 64),
    Case("256 rows of 640, nothing shared", [(256, 640)], 256),
    Case("64 forks of 4,000 tokens", [(1, 4000), (64, 64)], 64),
    Case(
        "1,024 leaves of a tree",
        [(1, 1000), (4, 65), (16, 65), (64, 65), (256, 65), (1024, 32)],
        1024,
    ),
)
BARS = {case.name: us for case, us in zip(CASES, (60, np.inf, np.inf, 200, 1000), strict=True)}
"""Microseconds of a following step, at most."""


def first_batch(case: Case) -> Batch:
    """Prepare the first step; the requests have slots for all later steps."""
    batch, slots = batch_of(case)
    rng = np.random.default_rng(0)
    for request, end in zip(batch.requests, batch.ends, strict=True):
        request.slots = np.concatenate(
            [request.slots[:end], rng.integers(0, slots, STEPS, np.int32)]
        )
    return batch


def plan_times(case: Case, padded: bool) -> tuple[float, float]:
    """Return the microseconds of a first step and of a later step."""
    from sgnb.engine.attention import device_plan, triton_backend

    rows = next(size for size in SIZES if size >= case.rows) if padded else None
    kv = KVCache(
        {0: LayerShape(KV_HEADS, DIM, DIM)}, 1_000_000, torch.bfloat16, torch.device("meta")
    )
    first, following = [], []
    with patch.object(device_plan, "CTAS_ON_CPU", PROGRAMS):
        attention = triton_backend.TritonAttention(kv, {0: HEADS})
        batches = [
            first_batch(case) for _ in range(2)
        ]  # in turn, so that nothing is left of a first step before
        for turn in range(1 + ROUNDS):
            times = []
            for step in range(STEPS):
                first_step = batches[turn % 2]
                batch = Batch(first_step.requests, first_step.starts + step, first_step.lengths)
                began = time.thread_time()
                attention.plan(attention_input(batch), rows)
                times.append(1e6 * (time.thread_time() - began))
            first.append(times[0])
            following.append(statistics.mean(times[1:]))
    return statistics.median(first[1:]), statistics.median(following[1:])


def run() -> Report:
    columns = ("case", "first step, us", "padded", "following step, us", "padded")
    report = Report("Host time of planning attention", columns)
    good = []
    for case in CASES:
        (first, following), (padded_first, padded_following) = (
            plan_times(case, padded) for padded in (False, True)
        )
        times = first, padded_first, following, padded_following
        report.rows.append((case.name, *(f"{x:,.0f}" for x in times)))
        good.append(max(following, padded_following) <= BARS[case.name])
    report.bar = (
        "a following step of 1 row below 60 us, of 64 forks below 200, of 1,024 leaves below 1,000"
    )
    report.met = all(good)
    return report
