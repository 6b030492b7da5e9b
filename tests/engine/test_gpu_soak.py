"""A short soak on an NVIDIA GPU; `python -m benchmarks.gpu.soak` runs a long one."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.gpu import soak as soak_module
from benchmarks.gpu.memory_cycle import Memory, memory
from benchmarks.gpu.soak import Sizes, soak

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

SHORT = Sizes(
    threads=8,
    pool=3500,
    longest_prompt=1500,
    longest_output=100,
    interval=1.0,
    rest=6.0,
    warm_up=7.0,
)

KINDS: dict[str, dict[str, Any]] = {
    "float32": {},
    "deterministic": {"dtype": "bfloat16", "deterministic": True},
}


def own_memory() -> Memory:
    """The device's memory that torch holds in this process: other tests may use the GPU at the same
    time."""
    now = memory()
    return now._replace(used=now.reserved)


@pytest.mark.parametrize("options", KINDS.values(), ids=list(KINDS))
def test_random_programs_under_memory_pressure(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak_module, "memory", own_memory)
    findings, seconds = soak(20, SHORT, **options)
    print(findings.line(seconds))
    assert findings.faults == []
    assert findings.retractions > 0, "the pool was never short"
    assert findings.probes > 10
    assert len(findings.programs) == 10, "some kind of program never ran"
