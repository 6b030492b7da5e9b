"""Time on the host of rank 0 that a tensor-parallel step takes: a message to the followers.

In an engine with one follower, and for messages alone. The followers here are threads that only
read: the time is the processor time of the writing thread. The operations between the ranks are not
in the time: on GPUs they are kernels of the step.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import sgnb.backends  # noqa: F401  # lets programs run on engines
from sgnb.engine.cache.tiers.tiers import CacheTiers
from sgnb.engine.engine import Engine
from sgnb.engine.parallel.ring import RingReader, RingWriter
from sgnb.engine.parallel.step_messages import StepReader, StepWriter
from sgnb.engine.parallel.team import Team
from sgnb.engine.step_input import (
    UNCONSTRAINED,
    AttentionInput,
    SamplingInput,
    SequenceKey,
    StepInput,
)

from .common import Report

BAR = 50.0
"""Microseconds per step of 256 rows, at most."""

ROWS, STEPS = 256, 400
CONTEXT = 1000
NEW_TOKENS = 200


def decode_steps(rows: int, keeps_keys: bool) -> Iterator[StepInput]:
    """Yield decode steps of the same requests. keeps_keys: one list of keys, as in a series of
    repeated steps; otherwise equal lists."""
    slots = [np.arange(i, i + CONTEXT + STEPS, dtype=np.int32) for i in range(rows)]
    keys: Sequence[SequenceKey] = [(i, 0, None, True) for i in range(rows)]
    sampling = SamplingInput(
        temperatures=np.zeros(rows, np.float32),
        draws=np.zeros(rows),
        grammar_states=np.full(rows, UNCONSTRAINED, np.int32),
        sample_rows=np.arange(rows, dtype=np.int32),
        filters={},
        adjustments={},
        masks={},
    )
    for step in range(STEPS):
        starts = np.full(rows, CONTEXT + step)
        attention = AttentionInput(
            starts=starts,
            lengths=np.ones(rows, np.int64),
            new_slots=np.full(rows, step, np.int32),
            kv_slots=slots,
            keys=keys if keeps_keys else list(keys),
        )
        yield StepInput(
            tokens=np.full(rows, -1, np.int32),
            positions=starts,
            attention=attention,
            states=(),
            embeddings=(),
            logit_rows=np.arange(rows),
            sampled=np.arange(rows),
            sampling=sampling,
            drafts=sampling,
            uses=(),
        )
        if keeps_keys:
            keys = attention.keys  # the writer replaced the nodes


@contextmanager
def readers(ring: RingWriter, count: int) -> Iterator[tuple[list[int], threading.Semaphore]]:
    """Pipes to threads that read and decode messages, and a semaphore released per decoded
    message."""
    pipes, threads, decoded = [], [], threading.Semaphore(0)
    for rank in range(1, count + 1):
        reading, writing = os.pipe()
        pipes.append(writing)
        threads.append(threading.Thread(target=read_all, args=(ring, reading, rank, decoded)))
        threads[-1].start()
    try:
        yield pipes, decoded
    finally:
        for pipe in pipes:
            os.close(pipe)
        for thread in threads:
            thread.join()


def read_all(ring: RingWriter, pipe: int, rank: int, decoded: threading.Semaphore) -> None:
    reader, steps = RingReader(os.dup(ring.memory), pipe, rank), StepReader()
    while (message := reader.read()) is not None:
        steps.decode(message)
        decoded.release()


def message_times(rows: int, followers: int, keeps_keys: bool) -> list[float]:
    """Return the microseconds of each step's message. The first step has new requests."""
    writer, ring, times = StepWriter(), RingWriter(followers), []
    with readers(ring, followers) as (pipes, decoded):
        for step in decode_steps(rows, keeps_keys):
            began = time.thread_time()
            ring.write(writer.encode(step), pipes)
            times.append(1e6 * (time.thread_time() - began))
            for _ in pipes:
                decoded.acquire()
    return times


def engine_times(rows: int, **options: Any) -> tuple[list[float], list[float]]:
    """Return the microseconds of each step's message, in an engine of two ranks with `rows`
    requests, and of the work of the tiers after each step.

    Args:
        rows: Number of requests.
        options: Further options of the engine.
    """
    times, tier_times = list[float](), list[float]()
    announce, stepped = Team.announce, CacheTiers.stepped

    def timed(team: Team, step: StepInput) -> None:
        began = time.thread_time()
        announce(team, step)
        if step.attention.is_decode and len(step.attention) == rows:
            times.append(1e6 * (time.thread_time() - began))

    def timed_tiers(tiers: CacheTiers) -> None:
        began = time.thread_time()
        stepped(tiers)
        tier_times.append(1e6 * (time.thread_time() - began))

    config = LlamaConfig(
        vocab_size=400, hidden_size=64, intermediate_size=128, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=512,
    )  # fmt: skip
    Team.announce = timed  # type: ignore[method-assign]
    CacheTiers.stepped = timed_tiers  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            LlamaForCausalLM(config).save_pretrained(folder)
            with Engine(folder, device="cpu", tensor_parallel=2, **options) as engine:
                prompts = [[5 + i % 50, 7, 9 + i // 50] for i in range(rows)]
                engine.generate(prompts, max_new_tokens=NEW_TOKENS, ignore_eos=True)
    finally:
        Team.announce = announce  # type: ignore[method-assign]
        CacheTiers.stepped = stepped  # type: ignore[method-assign]
    return times, tier_times


def run() -> list[Report]:
    torch.set_num_threads(1)
    report = Report(
        f"Host time of tensor parallelism: the message of a decode step of {ROWS} rows, in µs",
        ("where", "largest", "median", "tenth percentile"),
        bar=f"median of at most {BAR:.0f} µs per step of {ROWS} rows",
        note=f"Largest: all requests are new, with {CONTEXT:,} slots each in the messages alone. "
        "In an engine, the processor's caches hold the data of the model, and of other processes "
        "on a busy machine.",
    )
    messages, _ = engine_times(ROWS)
    with_tiers, tiers = engine_times(ROWS, host_cache=1.0)
    times = {
        "engine with 1 follower": messages,
        "engine with 1 follower and host_cache": with_tiers,
        "engine with 1 follower and host_cache: work of the idle tiers": tiers,
        "message to 1 follower, repeated step": message_times(ROWS, 1, True),
        "message to 1 follower, step built anew": message_times(ROWS, 1, False),
        "message to 3 followers, repeated step": message_times(ROWS, 3, True),
    }
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, values in times.items():
        tenth = sorted(values)[len(values) // 10]
        report.rows.append((name, f"{max(values):.0f}", f"{medians[name]:.0f}", f"{tenth:.0f}"))
    report.met = max(medians.values()) <= BAR
    return [report]
