"""The table of ablations, from made-up figures: what has a bar, and what is only told."""

from __future__ import annotations

from benchmarks.gpu import ablations
from benchmarks.gpu.results import Results


def test_deterministic_mode_has_a_price_and_no_bar() -> None:
    results = Results()
    for option, seconds in {
        ablations.ALL_ON: 1.0,
        ablations.DETERMINISTIC: 0.5,
        ablations.AGAIN: 1.0,
    }.items():
        results.add(
            option, "1", "one request", {"seconds": [seconds], "unit": "tok/s", "figure": 1.0}
        )
    table = ablations.make_table(results, gpu=True)
    assert table.rows == [("one request", "1.000", "0.50", "1.00")]
    assert table.met is None


def test_the_first_and_the_last_run_have_all_on() -> None:
    assert [next(iter(ablations.OPTIONS)), list(ablations.OPTIONS)[-1]] == [
        ablations.ALL_ON,
        ablations.AGAIN,
    ]
    assert set(ablations.GPU_ONLY) <= set(ablations.OPTIONS)
