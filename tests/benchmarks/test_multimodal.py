"""A part of `benchmarks/multimodal.py` and of `benchmarks/fuzz_images.py`, and their reports."""

from __future__ import annotations

import pytest

from benchmarks import fuzz_images, multimodal
from benchmarks.multimodal import Result

QUICK = "llava", "qwen3_vl"


def listed() -> dict[str, list[str]]:
    lines = multimodal.EXACT_LIST.read_text(encoding="utf-8").splitlines()
    return {name: kinds for name, *kinds in map(str.split, lines)}


def test_the_list_does_not_shrink() -> None:
    kinds = listed()
    assert len(kinds) >= 58
    for name in ("video", "audio"):
        assert sum(name in each for each in kinds.values()) >= multimodal.EXACT_BARS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_type_stays_exact(name: str) -> None:
    assert multimodal.exact_kinds({name: multimodal.try_type(name)}) == {name: listed()[name]}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(listed()) - set(QUICK))[::6])
def test_more_types_stay_exact(name: str) -> None:
    """`python -m benchmarks multimodal` tries all types."""
    assert multimodal.exact_kinds({name: multimodal.try_type(name)}) == {name: listed()[name]}


def test_verdicts_of_a_table() -> None:
    results = {
        "a": {"image": Result("exact"), "video": Result("refused", "why")},
        "b": {"image": Result("exact"), "audio": Result("wrong", "cold")},
        "c": {"any": Result("not built", "no config")},
    }
    assert multimodal.exact_kinds(results) == {"a": ["image"]}
    report = multimodal.table(results)
    assert not report.met and "wrong or failing: b (audio: wrong)" in report.note
    assert report.rows[0] == ("a", "exact", "refused", "", "video: why")


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind == "qwen2_5_vl" else pytest.mark.slow)
        for kind in fuzz_images.TYPES
    ],
)
def test_some_programs_with_images(kind: str) -> None:
    counts, wrong = fuzz_images.work(kind, fuzz_images.TIGHT[0], 3, 1)
    assert wrong == 0 and counts["cached"] and counts["encoded_items"]
