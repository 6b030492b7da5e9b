"""Shortest endings of texts on the byte NFA, for parts with too large automata.

The number of bytes from a position to the end is the same in every set of positions. The NFA
therefore suffices, without subset construction. An intersection is a list of NFAs over the same
bytes.
"""

from __future__ import annotations

import heapq
import itertools
import sys
from collections import deque
from collections.abc import Iterable

from ...errors import GrammarError
from ..syntax import Concatenate, Intersect, Lexeme, Literal, Node, Rules, Source, concat
from .build_limits import Budget, BuildLimits
from .expand import expand
from .nfa import FINAL, Edge, Follow, Nfa
from .sizes import Sizes

MOST_SETS = 4000
"""Maximum number of sets of positions of a search: an ending of this length, or several shorter
attempts."""

MOST_STEPS = 100_000
"""Maximum number of kept steps between sets of positions."""

FAR = sys.maxsize
"""Distance of a position without a path to the end."""

_READABLE = b"a0A "
"""Bytes preferred in an ending, if several bytes are equally near to the end."""


class TextEndings:
    """Endings of the texts of rules.

    Args:
        rules: non-recursive rules.
        limits: limits of the NFA.

    Raises:
        Recursive: a rule is recursive.
        TooLarge: the NFA exceeds the limits.
        GrammarError: no text fits, a rule is undefined, or a text is not valid UTF-8.
    """

    def __init__(self, rules: Rules, limits: BuildLimits) -> None:
        budget = Budget(limits)
        parts = _intersected(rules.start)
        self._parts = [_Positions(Rules(part, rules.rules), budget) for part in parts]
        self._start = tuple(part.start for part in self._parts)
        self._last = b"", self._start  # text of the last call, and its positions

    def completion(self, text: bytes) -> bytes | None:
        """Return a short ending of `text`, a shortest without intersections.

        Args:
            text: start of a text.

        Returns:
            The ending. None if no text begins with `text`, or if the search fails.
        """
        previous, sets = self._last
        if not text.startswith(previous):
            previous, sets = b"", self._start

        for byte in text[len(previous) :]:
            sets = self._step(sets, byte)

        self._last = text, sets
        return self._search(sets) if all(sets) else None

    def _step(self, sets: tuple[Follow, ...], byte: int) -> tuple[Follow, ...]:
        pairs = zip(self._parts, sets, strict=True)
        return tuple(part.step(positions, byte) for part, positions in pairs)

    def _needed(self, sets: tuple[Follow, ...]) -> int:
        """Return the sum of the remaining bytes of all parts. A step on the shortest path of a part
        lowers the sum, because the remaining bytes of other parts seldom increase."""
        return sum(part.needed(at) for part, at in zip(self._parts, sets, strict=True))

    def _search(self, start: tuple[Follow, ...]) -> bytes | None:
        count = itertools.count()
        queue = [(self._needed(start), next(count), start, b"")]
        visited = {start}

        while queue and len(visited) < MOST_SETS:
            _, _, sets, ending = heapq.heappop(queue)
            if all(positions[0] == FINAL for positions in sets):
                return ending

            wanted = [part.nearer(at) for part, at in zip(self._parts, sets, strict=True)]
            for byte in dict.fromkeys(b"".join(wanted)):
                following = self._step(sets, byte)
                if all(following) and following not in visited:
                    visited.add(following)
                    needed = len(ending) + 1 + self._needed(following)
                    text = ending + bytes([byte])
                    heapq.heappush(queue, (needed, next(count), following, text))
        return None


class _Positions:
    """NFA of a part, with the bytes from each position to the end."""

    def __init__(self, rules: Rules, budget: Budget) -> None:
        budget.check("positions", Sizes(rules, budget).needed, "byte positions")
        self._nfa = Nfa(budget)
        start = expand(rules, self._nfa, budget)
        self._distance = self._distances()
        self.start = self._live(start)
        if not self.start:
            hint = "remove empty choices and contradictory parts"
            raise GrammarError("no text matches the grammar", hint)
        self._steps: dict[tuple[Follow, int], Follow] = {}

    def _distances(self) -> list[int]:
        """Return the bytes from each position to FINAL, by a search from the end in which joints
        cost nothing."""
        nfa = self._nfa
        before: list[list[tuple[int, int]]] = [[] for _ in nfa.edges]

        for position, edges in enumerate(nfa.edges):
            for _, _, follow, _ in edges:
                for target in follow:
                    before[target].append((position, 1))

        for joint, members in nfa.joints.items():
            for target in members:
                before[target].append((joint, 0))

        distance = [FAR] * len(nfa.edges)
        queue = deque([(FINAL, 0)])
        while queue:
            position, needed = queue.popleft()
            if distance[position] == FAR:
                distance[position] = needed
                for source, cost in before[position]:
                    (queue.append if cost else queue.appendleft)((source, needed + cost))
        return distance

    def _live(self, follow: Iterable[int]) -> Follow:
        """Return the positions with a path to the end, without joints."""
        live = (position for position in follow if self._distance[position] < FAR)
        return self._nfa.closure(tuple(sorted(live)))

    def needed(self, positions: Follow) -> int:
        """Return the bytes of a shortest ending after `positions`."""
        return min(self._distance[position] for position in positions)

    def step(self, positions: Follow, byte: int) -> Follow:
        """Return the positions after a byte; () is a dead end."""
        key = positions, byte
        following = self._steps.get(key)
        if following is None:
            if len(self._steps) > MOST_STEPS:
                self._steps.clear()

            edges = self._nfa.edges
            targets = {
                target
                for position in positions
                for low, high, follow, _ in edges[position]
                if low <= byte <= high
                for target in follow
            }
            following = self._steps[key] = self._live(targets)
        return following

    def nearer(self, positions: Follow) -> bytes:
        """Return bytes that lead to the end on a shortest path; b"" at the end."""
        distance = self.needed(positions)
        edges = {
            _readable(edge)
            for position in positions
            if self._distance[position] == distance
            for edge in self._nfa.edges[position]
            if any(self._distance[target] == distance - 1 for target in edge[2])
        }
        return bytes(sorted(edges))


def _readable(edge: Edge) -> int:
    low, high = edge[:2]
    return next((byte for byte in _READABLE if low <= byte <= high), low)


def _intersected(node: Node) -> list[Node]:
    """Return parts whose intersection has the texts of `node`. Splits intersections between fixed
    texts, such as the quotes of a JSON string."""
    match node:
        case Source(inner) | Lexeme(inner):
            return _intersected(inner)
        case Intersect(parts):
            return [each for part in parts for each in _intersected(part)]
        case Concatenate(parts):
            sets = [at for at, part in enumerate(parts) if isinstance(part, Intersect)]
            fixed = sum(isinstance(part, Literal) for part in parts)
            if len(sets) == 1 and fixed == len(parts) - 1:
                [at] = sets
                before, after = parts[:at], parts[at + 1 :]
                return [concat(*before, each, *after) for each in _intersected(parts[at])]
    return [node]
