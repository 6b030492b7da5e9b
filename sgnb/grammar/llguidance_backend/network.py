"""Test for texts that a greedy lexer (longest match, no backtracking) loses.

A text is lost if a piece could end, and another piece at the same position continues with a byte
that may also follow the first piece. `conflicts` returns the pieces without a proof to the
contrary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..syntax import Alternate, Node, Reference, Repeat, Rules, children, postorder
from .lexemes import Clashes, Piece, WorkBudget

MOST_PLACES = 8192
"""Maximum number of pieces and references in a grammar; sets of positions take the square in bits.
"""


def conflicts(
    rules: Rules,
    kind: Callable[[Node], str | None],
    pieces: Callable[[str], Piece],
    clashes: Clashes,
) -> set[str]:
    """Return the kinds of pieces to split.

    Args:
        rules: syntax tree with rules.
        kind: returns the kind of a piece, or None for nodes above pieces.
        pieces: returns the piece of a kind.
        clashes: overlaps of kinds.
    """
    network = Network(rules, kind, lambda name: pieces(name).nullable, clashes.budget)
    after = _bytes_after(network, pieces, clashes.budget)
    together = [0] * len(after)
    to_split: set[str] = set()
    squares: list[int] = []  # a few large sets of positions whose pairs are all checked
    waiting = [(network.start, network.start)]
    queued = set(waiting)

    while waiting:
        places_a, places_b = waiting.pop()
        if any(not ((places_a | places_b) & ~whole) for whole in squares):
            continue
        if places_a == places_b:
            squares = sorted([*squares, places_a], key=int.bit_count)[-8:]
        for a in bits(places_a):
            new = places_b & ~together[a]
            together[a] |= new
            clashes.budget.spend(1 + new.bit_count())
            for b in bits(new):
                together[b] |= 1 << a
                met = clashes(network.kinds[a], network.kinds[b])
                if met.longer & after[a]:
                    to_split.add(network.kinds[b])
                if met.shorter & after[b]:
                    to_split.add(network.kinds[a])
                low, high = sorted((network.follow[a], network.follow[b]))
                if met.same and (low, high) not in queued:
                    queued.add((low, high))
                    waiting.append((low, high))

    return to_split


def _bytes_after(network: Network, pieces: Callable[[str], Piece], budget: WorkBudget) -> list[int]:
    """Return, per position, the first bytes of all continuations, as bits."""
    leads: dict[int, int] = {}
    for following in network.follow:
        if following not in leads:
            leads[following] = 0
            for next_place in bits(following):
                budget.spend(1)
                leads[following] |= pieces(network.kinds[next_place]).lead
    return [leads[following] for following in network.follow]


def bits(numbers: int) -> Iterator[int]:
    """Yield the indices of the bits that are set, ascending.

    Args:
        numbers: set of numbers, as bits.
    """
    while numbers:
        low = numbers & -numbers
        yield low.bit_length() - 1
        numbers ^= low


class Network:
    """Positions of pieces in the rules. Sets of positions are bits of an int.

    Attributes:
        kinds: kind of the piece at each position; for a reference, the name of the rule.
        start: first positions of a text.
        follow: next positions of each position.

    Args:
        rules: syntax tree with rules.
        kind: returns the kind of a piece, or None for nodes above pieces.
        nullable: returns True for kinds that match the empty text.
        budget: limit of the work.
    """

    def __init__(
        self,
        rules: Rules,
        kind: Callable[[Node], str | None],
        nullable: Callable[[str], bool],
        budget: WorkBudget,
    ) -> None:
        self._kind, self._piece_nullable, self._budget = kind, nullable, budget
        trees = {"": rules.start, **rules.rules}
        self._empty = self._nullable_rules(trees)
        self.kinds: list[str] = []  # for a reference, the name of the rule
        self._is_piece = 0
        self._local: list[int] = []
        self._ends: dict[str, int] = {}
        begins: dict[str, int] = {}
        for name, tree in trees.items():
            _, begins[name], self._ends[name] = self._walk(tree)
        self._begins = self._closed_begins(begins)
        self.start = self._begins[""]
        self.follow = self._closed_follow()

    def _below(self, node: Node) -> tuple[Node, ...]:
        return () if self._kind(node) is not None else children(node)

    def _is_leaf(self, node: Node) -> bool:
        return self._kind(node) is not None or isinstance(node, Reference)

    def _leaf_nullable(self, node: Node, empty: set[str]) -> bool:
        kind = self._kind(node)
        if kind is not None:
            return self._piece_nullable(kind)
        return isinstance(node, Reference) and node.name in empty

    def _nullable_rules(self, trees: dict[str, Node]) -> set[str]:
        nullable_rules: set[str] = set()
        grown = True
        while grown:
            grown = False
            for name, tree in trees.items():
                self._budget.spend(1)
                if name not in nullable_rules and self._nullable(tree, nullable_rules):
                    nullable_rules.add(name)
                    grown = True
        return nullable_rules

    def _nullable(self, tree: Node, empty: set[str]) -> bool:
        nullable: dict[int, bool] = {}
        for node in postorder(tree, self._below):
            below = [nullable[id(child)] for child in self._below(node)]
            match node:
                case _ if self._is_leaf(node):
                    nullable[id(node)] = self._leaf_nullable(node, empty)
                case Alternate():
                    nullable[id(node)] = any(below)
                case Repeat(_, least, _):
                    nullable[id(node)] = least == 0 or all(below)
                case _:
                    nullable[id(node)] = all(below)

        return nullable[id(tree)]

    def _walk(self, tree: Node) -> tuple[bool, int, int]:
        results: dict[int, tuple[bool, int, int]] = {}

        def part(node: Node) -> tuple[bool, int, int]:
            return self._place(node) if self._is_leaf(node) else results[id(node)]

        for node in postorder(tree, self._below):
            if self._is_leaf(node):
                continue
            below = [part(child) for child in children(node)]
            nullable, first, last = not isinstance(node, Alternate), 0, 0
            for empty, begins, ends in below:
                if isinstance(node, Alternate):
                    nullable, first, last = nullable or empty, first | begins, last | ends
                    continue
                self._join(last, begins)
                first |= begins if nullable else 0
                last = ends | last if empty else ends
                nullable = nullable and empty
            if isinstance(node, Repeat):
                nullable = nullable or node.least == 0
                if node.most != 1:
                    self._join(last, first)
            results[id(node)] = nullable, first, last
        return part(tree)

    def _place(self, node: Node) -> tuple[bool, int, int]:
        kind = self._kind(node)
        if len(self.kinds) >= MOST_PLACES:
            self._budget.refuse()
        position = 1 << len(self.kinds)
        if kind is not None:
            self._is_piece |= position
        assert kind is not None or isinstance(node, Reference)
        self.kinds.append(node.name if kind is None and isinstance(node, Reference) else kind or "")
        self._local.append(0)
        return self._leaf_nullable(node, self._empty), position, position

    def _join(self, positions: int, following: int) -> None:
        for position in bits(positions):
            self._budget.spend(1)
            self._local[position] |= following

    def _pieces(self, positions: int, begins: dict[str, int]) -> int:
        """Return the pieces among `positions`, and the first pieces of the rules referred to at
        `positions`."""
        pieces = positions & self._is_piece
        for position in bits(positions & ~self._is_piece):
            pieces |= begins[self.kinds[position]]
        return pieces

    def _closed_begins(self, begins: dict[str, int]) -> dict[str, int]:
        closed = {name: positions & self._is_piece for name, positions in begins.items()}
        grown = True
        while grown:
            grown = False
            for name, positions in begins.items():
                self._budget.spend(1 + (positions & ~self._is_piece).bit_count())
                wider = closed[name] | self._pieces(positions, closed)
                grown = grown or wider != closed[name]
                closed[name] = wider
        return closed

    def _closed_follow(self) -> list[int]:
        follow = [self._pieces(following, self._begins) for following in self._local]
        callers: dict[str, list[int]] = {name: [] for name in self._ends}
        for position in bits(((1 << len(self.kinds)) - 1) & ~self._is_piece):
            callers[self.kinds[position]].append(position)
        waiting = [
            (name, position) for name, positions in callers.items() for position in positions
        ]
        inside: dict[int, list[str]] = {}
        for ends in self._ends.values():
            for position in bits(ends & ~self._is_piece):
                inside.setdefault(position, []).append(self.kinds[position])

        while waiting:
            name, caller = waiting.pop()
            for end in bits(self._ends[name]):
                self._budget.spend(1)
                wider = follow[end] | follow[caller]
                if wider != follow[end]:
                    follow[end] = wider
                    waiting += [(inner, end) for inner in inside.get(end, ())]
        return follow
