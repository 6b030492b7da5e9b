"""Random requests and programs on engines with too little memory: a small part of
`benchmarks/fuzz_engine.py`."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.fuzz_engine import ATTENTION, FAMILIES, TIGHT, Job, jobs_for, work

from ..hybrid_models import THREE

DROPS_CHECKPOINTS = 0, 2, 2
"""Rows of `TIGHT` where each model of `THREE` drops checkpoints, however requests are timed."""


def check(job: Job, *kinds: str) -> None:
    """Check that answers equal a fresh engine, and that events of `kinds` happen."""
    found = work(job)
    assert found.wrong == []
    assert [kind for kind in kinds if not found.counts[kind]] == []


@pytest.mark.parametrize(
    ("family", "way"),
    [
        pytest.param(family, way, marks=() if family == "qwen3_next" else pytest.mark.slow)
        for family, way in zip(THREE, DROPS_CHECKPOINTS, strict=True)
    ],
)
def test_some_requests(family: str, way: int) -> None:
    check(Job("requests", family, way, count=20, seed=0), "cached", "CheckpointDropped")


@pytest.mark.slow
def test_some_programs() -> None:
    check(Job("programs", ATTENTION, 0, count=16, seed=0), "cached", "NodeEvicted")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_more_requests(family: str) -> None:
    """On the engines of the rows that `test_some_requests` leaves out."""
    counts: Counter[str] = Counter()
    for way in (1, 3):
        found = work(Job("requests", family, way, count=100, seed=way))
        assert found.wrong == [] and found.counts["cached"]
        counts += found.counts
    assert counts["dropped"] and counts["RequestRetracted"]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_more_programs(family: str) -> None:
    check(Job("programs", family, 0, count=40, seed=0), "cached", "NodeEvicted")


def test_jobs_add_up() -> None:
    jobs = jobs_for(5000, 1000, 0)
    assert sum(job.count for job in jobs if job.kind == "requests") >= 5000
    assert sum(job.count for job in jobs if job.kind == "programs") >= 1000
    assert len({job.seed for job in jobs if job.kind == "requests"}) == len(FAMILIES) * len(TIGHT)
