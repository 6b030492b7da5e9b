"""JSON of saved records: bounded depth, checked fields."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import pytest

from sgnb.codec import DEPTH, LARGEST, Range, build, dumps, parse, reading
from sgnb.errors import RecordError


class Point(NamedTuple):
    x: int
    y: Annotated[int, Range(-1)] = -1


@dataclass(frozen=True)
class Sample:
    name: str | None
    kind: Literal["a", "b"]
    point: Point
    scores: tuple[float, ...]
    pair: tuple[str, int]
    extra: dict[str, Any]
    ids: Sequence[int] = ()
    flag: bool = False


GOOD: dict[str, Any] = {
    "name": "x\ud800", "kind": "b", "point": [3], "scores": [1, -0.5], "pair": ["p", 2],
    "extra": {"any": [None]},
}  # fmt: skip


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def test_fields_have_their_types() -> None:
    sample = build(Sample, parse(json.dumps(GOOD | {"unknown": 1, "ids": [7, 8]})))
    assert sample == Sample(
        "x\ud800", "b", Point(3, -1), (1.0, -0.5), ("p", 2), {"any": [None]}, (7, 8)
    )
    assert type(sample.scores[0]) is float and build(Sample, sample) is sample


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", 1), ("kind", "c"), ("kind", []), ("point", [-1]), ("point", {"y": 1}),
        ("point", [1, -2]), ("point", "p"), ("point", [1, 2, 3]), ("scores", "12"),
        ("scores", [float("nan")]), ("scores", [float("inf")]), ("scores", [10**400]),
        ("scores", [True]), ("pair", ["p"]), ("pair", ["p", 2, 3]), ("pair", {"0": "p"}),
        ("extra", []), ("ids", [1.0]), ("ids", [True]), ("ids", [int(2 * LARGEST)]), ("flag", 1),
    ],
)  # fmt: skip
def test_a_value_of_another_type_names_its_field(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        build(Sample, GOOD | {name: value})


@pytest.mark.parametrize("name", GOOD)
def test_a_field_without_a_default_is_required(name: str) -> None:
    with pytest.raises(ValueError, match=f"Sample without '{name}'"):
        build(Sample, {key: GOOD[key] for key in GOOD if key != name})


@pytest.mark.parametrize("value", [None, [], "text", 3])
def test_a_record_is_an_object(value: Any) -> None:
    with pytest.raises(ValueError, match="is not Sample"):
        build(Sample, value)


def test_depth_is_bounded_on_both_ways() -> None:
    assert parse(dumps(nested(DEPTH))) == nested(DEPTH)
    assert parse("[" + "[], " * 10 * DEPTH + "[]]") == [[]] * (10 * DEPTH + 1)
    for levels in (DEPTH + 1, 100_000):
        with pytest.raises(ValueError, match="more than 200 levels"):
            parse("[" * levels + "]" * levels)
    for levels in (DEPTH + 1, 5_000):
        with pytest.raises(ValueError, match="more than 200 levels"):
            dumps(nested(levels))
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="Circular"):
        dumps(endless)


@pytest.mark.parametrize(
    "text", ["", "{}\0", b"\xff", "{", "1" * 5_000, None, "[" * 100_000, "\ufeff{}"]
)
def test_damaged_text_is_one_kind_of_error(text: Any) -> None:
    with pytest.raises(RecordError, match="the thing cannot be read"), reading("the thing", ""):
        parse(text)
