"""A byte NFA, built from the end to the start so that equal suffixes are shared. Knows no syntax
tree.

Positions are numbers. Position FINAL ends a text. Any other position has edges, or is a joint: an
epsilon position that stands for a set of positions. A `Follow` is the sorted tuple of next
positions. The follow of an optional part is the union of the part's first positions and the
positions after the part.
"""

from __future__ import annotations

from collections.abc import Collection

from ...sequences import common_length
from .build_limits import Budget
from .utf8 import EXIT, Fragment

FINAL = 0

Follow = tuple[int, ...]
"""Sorted positions; () is a dead end."""

Edge = tuple[int, int, Follow, int]
"""(first byte, last byte, follow, label set)."""

Word = tuple[bytes, Follow, int]
"""(text, follow, label set)."""

_OFTEN = 1024  # positions between two counts of work
_WIDE = 8  # wider unions become a joint: n optional parts take n positions, not n * n


class LabelSets:
    """Names of parts, and interned sets of names as small numbers; set 0 is empty."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self._ids: dict[tuple[int, ...], int] = {(): 0}
        self.sets: list[tuple[int, ...]] = [()]

    def single(self, name: str) -> int:
        """Return the set that contains only `name`.

        Args:
            name: label of a part.
        """
        return self._intern((self.names.setdefault(name, len(self.names)),))

    def union(self, ids: Collection[int]) -> int:
        """Return the union of sets. Pass all sets at once, because every intermediate set is
        stored.

        Args:
            ids: one or more set numbers.
        """
        if len(ids) == 1:
            return next(iter(ids))
        return self._intern(tuple(sorted({name for number in ids for name in self.sets[number]})))

    def _intern(self, members: tuple[int, ...]) -> int:
        set_id = self._ids.setdefault(members, len(self.sets))
        if set_id == len(self.sets):
            self.sets.append(members)
        return set_id


class Nfa:
    """Growing NFA: `edges[position]`, `joints[position]` for joints, and `labels`.

    Args:
        budget: limits of the build.
    """

    def __init__(self, budget: Budget) -> None:
        self.edges: list[tuple[Edge, ...]] = [()]
        self.joints: dict[int, Follow] = {}
        self.labels = LabelSets()
        self._budget = budget
        self._max_positions = budget.limits.positions
        self._positions: dict[tuple[Edge, ...], int] = {}
        self._unions: dict[Follow, int] = {}

    def position(self, edges: tuple[Edge, ...]) -> int:
        """Return the position with these edges; create the position if needed.

        Args:
            edges: disjoint edges.
        """
        position = self._positions.get(edges)
        if position is None:
            position = self._positions[edges] = self.reserve()
            self.edges[position] = edges
        return position

    def reserve(self) -> int:
        """Return a new position. The caller sets its edges or joint later."""
        position = len(self.edges)
        if position >= self._max_positions:
            self._budget.check("positions", position + 1, "byte positions")
        if not position % _OFTEN:
            self._budget.spend(2 * _OFTEN)
        self.edges.append(())
        return position

    def union(self, *follows: Follow) -> Follow:
        """Return the union of the follows, behind a joint if wide.

        Args:
            follows: sets of positions.
        """
        members = tuple(sorted(set().union(*follows)))
        if len(members) <= _WIDE:
            return members
        joint = self._unions.get(members)
        if joint is None:
            joint = self._unions[members] = self.reserve()
            self.joints[joint] = members
        return (joint,)

    def literal(self, data: bytes, follow: Follow, label: int) -> Follow:
        for byte in reversed(data):
            follow = (self.position(((byte, byte, follow, label),)),)
        return follow

    def character(self, fragment: Fragment, follow: Follow, label: int) -> Follow:
        follows: list[Follow] = []
        for edges in fragment:
            whole = tuple(
                (low, high, follow if target == EXIT else follows[target], label)
                for low, high, target in edges
            )
            follows.append((self.position(whole),) if whole else ())
        return follows[-1]

    def words(self, words: list[Word]) -> Follow:
        """Add a trie of the words with shared suffixes. Sorts `words`.

        Source: Daciuk et al., "Incremental construction of minimal acyclic finite-state automata"
        (2000).

        Args:
            words: texts with follow and label set.
        """
        words.sort()
        trie = _OpenPath(self)
        for data, follow, label in words:
            trie.add(data, follow, label)
        return trie.finish()

    def closure(self, follow: Follow) -> Follow:
        """Return the positions of `follow` with all joints resolved.

        Args:
            follow: positions, possibly joints.
        """
        joints = self.joints
        if not any(position in joints for position in follow):
            return follow
        visited = set(follow)
        stack = [position for position in follow if position in joints]
        while stack:
            fresh = [position for position in joints[stack.pop()] if position not in visited]
            visited.update(fresh)
            stack += [position for position in fresh if position in joints]
        return tuple(sorted(position for position in visited if position not in joints))


class _OpenPath:
    """Last word of a trie under construction: its nodes are open, all others are complete."""

    def __init__(self, nfa: Nfa) -> None:
        self._nfa = nfa
        self._text = bytearray()
        self._labels: list[set[int]] = []
        self._edges: list[list[Edge]] = [[]]
        self._ends: list[Follow] = [()]

    def add(self, data: bytes, follow: Follow, label: int) -> None:
        """Add a word. Words must arrive in ascending order."""
        common = common_length(bytes(self._text), data)
        self._close(common)
        for depth in range(common):
            self._labels[depth].add(label)
        num_new = len(data) - common
        self._text += data[common:]
        self._labels += [{label} for _ in range(num_new)]
        self._edges += [[] for _ in range(num_new)]
        self._ends += [()] * num_new
        self._ends[-1] = self._nfa.union(self._ends[-1], follow) if self._ends[-1] else follow

    def finish(self) -> Follow:
        """Complete all nodes and return the positions of the root."""
        self._close(0)
        return self._node_positions()

    def _close(self, depth: int) -> None:
        """Complete the nodes below `depth`; the node at `depth` stays open."""
        while len(self._text) > depth:
            target = self._node_positions()
            self._edges.pop()
            self._ends.pop()
            byte, edges = self._text.pop(), self._edges[-1]
            label = self._nfa.labels.union(self._labels.pop())
            if edges and edges[-1][1] + 1 == byte and edges[-1][2:] == (target, label):
                edges[-1] = (edges[-1][0], byte, target, label)
            elif target:
                edges.append((byte, byte, target, label))

    def _node_positions(self) -> Follow:
        edges, end = self._edges[-1], self._ends[-1]
        if not edges:
            return end
        position = (self._nfa.position(tuple(edges)),)
        return self._nfa.union(position, end) if end else position
