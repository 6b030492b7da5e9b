"""A byte NFA, built from its end to its start so that equal suffixes are shared.

Knows no syntax tree. Positions are numbers. Position FINAL ends a text; every other has edges, or
is a joint: an epsilon position that stands for others. A `Follow` is the set of next positions, as
a sorted tuple; the follow of an optional part is the union of what begins it and what follows it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .limits import Budget
from .utf8 import EXIT, Fragment

FINAL = 0

Follow = tuple[int, ...]
"""Positions, sorted; () is a dead end."""

Edge = tuple[int, int, Follow, int]
"""First byte, last byte, follow, id of the label set."""

Word = tuple[bytes, Follow, int]
"""Text, follow, id of the label set."""

_WIDE = 8  # a wider union becomes a joint: n optional parts take n positions and not n * n


class LabelSets:
    """Names of parts, and sets of them as small numbers; set 0 is the empty one."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self._ids: dict[tuple[int, ...], int] = {(): 0}
        self.sets: list[tuple[int, ...]] = [()]

    def single(self, name: str) -> int:
        """The set of this name alone."""
        return self._intern((self.names.setdefault(name, len(self.names)),))

    def union(self, ids: Collection[int]) -> int:
        """The union of one or more sets. Give all at once: every set that is made is kept."""
        if len(ids) == 1:
            return next(iter(ids))
        return self._intern(tuple(sorted({name for number in ids for name in self.sets[number]})))

    def _intern(self, members: tuple[int, ...]) -> int:
        found = self._ids.setdefault(members, len(self.sets))
        if found == len(self.sets):
            self.sets.append(members)
        return found


class Nfa:
    """`edges[position]`; `joints[position]` for joints; `labels`. Grows only, within the budget."""

    def __init__(self, budget: Budget) -> None:
        self.edges: list[tuple[Edge, ...]] = [()]
        self.joints: dict[int, Follow] = {}
        self.labels = LabelSets()
        self._budget = budget
        self._most = budget.limits.positions
        self._known: dict[tuple[Edge, ...], int] = {}
        self._unions: dict[Follow, int] = {}

    def position(self, edges: tuple[Edge, ...]) -> int:
        """The position with these edges, which is new unless there is one."""
        found = self._known.get(edges)
        if found is None:
            found = self._known[edges] = self.reserve()
            self.edges[found] = edges
        return found

    def reserve(self) -> int:
        """A new position, whose edges or joint the caller sets later."""
        found = len(self.edges)
        if found >= self._most or not found % 4096:
            self._budget.check("positions", found + 1, "byte positions")
            self._budget.check_time()
        self.edges.append(())
        return found

    def union(self, *follows: Follow) -> Follow:
        """The positions of all follows; a joint for them where they are many."""
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
        made: list[Follow] = []
        for edges in fragment:
            whole = tuple(
                (low, high, follow if target == EXIT else made[target], label)
                for low, high, target in edges
            )
            made.append((self.position(whole),) if whole else ())
        return made[-1]

    def words(self, words: list[Word]) -> Follow:
        """Any of the words, as a trie whose equal tails are shared; sorts `words`.

        Daciuk et al., "Incremental construction of minimal acyclic finite-state automata" (2000).
        """
        words.sort()
        trie = _OpenPath(self)
        for data, follow, label in words:
            trie.add(data, follow, label)
        return trie.finish()

    def closure(self, follow: Follow) -> Follow:
        """The positions, none of them a joint, that `follow` stands for."""
        joints = self.joints
        if not any(position in joints for position in follow):
            return follow
        seen = set(follow)
        stack = [position for position in follow if position in joints]
        while stack:
            fresh = [position for position in joints[stack.pop()] if position not in seen]
            seen.update(fresh)
            stack += [position for position in fresh if position in joints]
        return tuple(sorted(position for position in seen if position not in joints))


class _OpenPath:
    """The last word of a trie under construction: its nodes still get edges, others are done."""

    def __init__(self, nfa: Nfa) -> None:
        self._nfa = nfa
        self._text = bytearray()
        self._labels: list[set[int]] = []
        self._edges: list[list[Edge]] = [[]]
        self._ends: list[Follow] = [()]

    def add(self, data: bytes, follow: Follow, label: int) -> None:
        """Words come in rising order."""
        common = common_length(self._text, data)
        self._close(common)
        for depth in range(common):
            self._labels[depth].add(label)
        rest = len(data) - common
        self._text += data[common:]
        self._labels += [{label} for _ in range(rest)]
        self._edges += [[] for _ in range(rest)]
        self._ends += [()] * rest
        self._ends[-1] = self._nfa.union(self._ends[-1], follow) if self._ends[-1] else follow

    def finish(self) -> Follow:
        """Make all nodes. Returns what the first one stands for."""
        self._close(0)
        return self._made()

    def _close(self, depth: int) -> None:
        """Make the nodes below `depth`; the node there stays open."""
        while len(self._text) > depth:
            target = self._made()
            self._edges.pop()
            self._ends.pop()
            byte, edges = self._text.pop(), self._edges[-1]
            label = self._nfa.labels.union(self._labels.pop())
            if edges and edges[-1][1] + 1 == byte and edges[-1][2:] == (target, label):
                edges[-1] = (edges[-1][0], byte, target, label)
            elif target:
                edges.append((byte, byte, target, label))

    def _made(self) -> Follow:
        edges, end = self._edges[-1], self._ends[-1]
        if not edges:
            return end
        position = (self._nfa.position(tuple(edges)),)
        return self._nfa.union(position, end) if end else position


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """The length of the common prefix."""
    length = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        length += 1
    return length
