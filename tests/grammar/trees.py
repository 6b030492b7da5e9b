"""Random syntax trees over a few characters of one to four bytes, and random texts over them."""

from __future__ import annotations

from hypothesis import strategies as st

from sgnb.grammar.syntax import (
    Alternate,
    Chars,
    Concatenate,
    Intersect,
    Literal,
    Node,
    Ranges,
    Repeat,
    Source,
    Without,
)

ALPHABET = "abé߿€한😀"

texts = st.text(ALPHABET, max_size=6)


def _ranges(points: list[int]) -> Ranges:
    """Sorted, disjoint and not adjacent."""
    result: list[tuple[int, int]] = []
    for point in sorted(set(points)):
        if result and result[-1][1] + 1 == point:
            result[-1] = (result[-1][0], point)
        else:
            result.append((point, point))
    return tuple(result)


_characters = st.one_of(
    st.lists(st.sampled_from(ALPHABET), max_size=4).map(
        lambda found: _ranges([ord(c) for c in found])
    ),
    st.sampled_from(
        [
            ((0, 0xD7FF), (0xE000, 0x10FFFF)),
            ((98, 0x7FF),),
            ((0x7FF, 0x20AC),),
            ((97, 97), (0xE000, 0x10FFFF)),
        ]
    ),
).map(Chars)

_leaves = st.one_of(st.text(ALPHABET, max_size=3).map(Literal), _characters)


def _grow(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    some = st.lists(nodes, max_size=3).map(tuple)
    counts = st.tuples(st.integers(0, 2), st.none() | st.integers(0, 3))
    return st.one_of(
        some.map(Concatenate),
        some.map(Alternate),
        st.tuples(nodes, counts).map(
            lambda x: Repeat(x[0], x[1][0], None if x[1][1] is None else sum(x[1]))
        ),
        st.lists(nodes, min_size=1, max_size=3).map(tuple).map(Intersect),
        st.tuples(nodes, nodes).map(lambda x: Without(*x)),
        st.tuples(nodes, st.sampled_from(["x", "y", "z"])).map(lambda x: Source(*x)),
    )


trees: st.SearchStrategy[Node] = st.recursive(_leaves, _grow, max_leaves=10)
