"""A short soak on an NVIDIA GPU; `python -m benchmarks.gpu.soak` runs a long one."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.gpu.soak import Sizes, soak

pytestmark = pytest.mark.gpu

SHORT = Sizes(threads=8, pool=6000, longest_prompt=1500, longest_output=100, interval=1.0, rest=6.0, warm_up=7.0)


KINDS: dict[str, dict[str, Any]] = {"float32": {}, "deterministic": {"dtype": "bfloat16", "deterministic": True}}


@pytest.mark.parametrize("options", KINDS.values(), ids=list(KINDS))
def test_random_programs_under_memory_pressure(options: dict[str, Any]) -> None:
    findings, seconds = soak(20, SHORT, **options)
    print(findings.line(seconds))
    assert findings.faults == []
    assert findings.retractions > 0, "the pool was never short"
    assert findings.probes > 10
    assert len(findings.programs) == 10, "some kind of program never ran"
