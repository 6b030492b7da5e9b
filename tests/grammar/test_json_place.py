"""Places in unfinished JSON texts, compared with the parsed whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgnb.grammar.json_place import json_place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "$"),
        ('"a, b: {', "$"),
        ("{", "$"),
        ('{"a": "x', "$.a"),
        ('{"a": 1, "b c": [1, {"d', '$["b c"][1]'),
        ('{"a": 1, "b c": [1, {"d": "\\"]', '$["b c"][1].d'),
        ('{"a": [1, [2], 3', "$.a[2]"),
        ('[{"a": {}}, ', "$[1]"),
        ('{"a": {"b": 1}, ', "$"),
        ('{"\\', "$"),
    ],
)
def test_places(text: str, place: str) -> None:
    assert json_place(text) == place


VALUES = st.recursive(
    st.text(max_size=4) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in leaves(inner, (*path, key))]
    if isinstance(value, list):
        return [leaf for i, inner in enumerate(value) for leaf in leaves(inner, (*path, i))]
    return [(path, value)]


@given(VALUES, st.data())
def test_the_place_of_a_leaf(value: Any, data: st.DataObject) -> None:
    """A mark in place of a leaf: the text before the mark ends at the leaf's place."""
    found = leaves(value)
    if not found:
        return
    path, _ = data.draw(st.sampled_from(found))
    mark = "☠"  # in no escaped text
    holder: Any = [value]
    for step in (0, *path)[:-1]:
        holder = holder[step]
    holder[(0, *path)[-1]] = mark
    root = holder if not path else value
    text = json.dumps(root[0] if not path else root, ensure_ascii=False)
    expected = "$" + "".join(
        f"[{step}]"
        if isinstance(step, int)
        else f".{step}"
        if step.isidentifier()
        else f"[{json.dumps(step, ensure_ascii=False)}]"
        for step in path
    )
    if text.count(mark) == 1:
        assert json_place(text.partition(mark)[0]) == expected
