"""Whether a greedy lexer (longest match, no backtracking) loses any of a grammar's texts.

It does if, where one piece could end, another that is possible at the same place continues with a
byte that may also come next. `conflicts` finds the pieces for which this cannot be ruled out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..syntax import Alternate, Node, Reference, Repeat, Rules
from .lexemes import Budget, Clashes, Piece
from .normal import children, postorder

MOST_PLACES = 8192
"""Pieces and references in one grammar; the sets of places take the square of it in bits."""


def conflicts(
    rules: Rules,
    kind: Callable[[Node], str | None],
    pieces: Callable[[str], Piece],
    clashes: Clashes,
) -> set[str]:
    """The kinds of pieces to split. A piece is a part of the tree for which `kind` is not None."""
    network = Network(rules, kind, lambda name: pieces(name).nullable, clashes.budget)
    after = _bytes_after(network, pieces, clashes.budget)
    together = [0] * len(after)
    found: set[str] = set()
    squares: list[int] = []  # a few large sets whose members have all met each other
    waiting = [(network.start, network.start)]
    known = set(waiting)

    while waiting:
        one, other = waiting.pop()
        if any(not ((one | other) & ~whole) for whole in squares):
            continue
        if one == other:
            squares = sorted([*squares, one], key=int.bit_count)[-8:]
        for a in bits(one):
            new = other & ~together[a]
            together[a] |= new
            clashes.budget.spend(1 + new.bit_count())
            for b in bits(new):
                together[b] |= 1 << a
                met = clashes(network.kinds[a], network.kinds[b])
                if met.longer & after[a]:
                    found.add(network.kinds[b])
                if met.shorter & after[b]:
                    found.add(network.kinds[a])
                low, high = sorted((network.follow[a], network.follow[b]))
                if met.same and (low, high) not in known:
                    known.add((low, high))
                    waiting.append((low, high))
    return found


def _bytes_after(network: Network, pieces: Callable[[str], Piece], budget: Budget) -> list[int]:
    """For each place the first bytes of what can follow it, as bits."""
    leads: dict[int, int] = {}
    for following in network.follow:
        if following not in leads:
            leads[following] = 0
            for next_place in bits(following):
                budget.spend(1)
                leads[following] |= pieces(network.kinds[next_place]).lead
    return [leads[following] for following in network.follow]


def bits(numbers: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while numbers:
        low = numbers & -numbers
        yield low.bit_length() - 1
        numbers ^= low


class Network:
    """The places of pieces in the rules. Sets of places are bits of an int.

    kinds: the kind of the piece at each place. start: where a text can begin. follow: what comes
    after each place.
    """

    def __init__(
        self,
        rules: Rules,
        kind: Callable[[Node], str | None],
        nullable: Callable[[str], bool],
        budget: Budget,
    ) -> None:
        self._kind, self._piece_nullable, self._budget = kind, nullable, budget
        trees = {"": rules.start, **rules.rules}
        self._empty = self._nullable_rules(trees)
        self.kinds: list[str] = []  # of a reference: the name of its rule
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
        found: set[str] = set()
        grown = True
        while grown:
            grown = False
            for name, tree in trees.items():
                self._budget.spend(1)
                if name not in found and self._nullable(tree, found):
                    found.add(name)
                    grown = True
        return found

    def _nullable(self, tree: Node, empty: set[str]) -> bool:
        known: dict[int, bool] = {}
        for node in postorder(tree, self._below):
            below = [known[id(child)] for child in self._below(node)]
            match node:
                case _ if self._is_leaf(node):
                    known[id(node)] = self._leaf_nullable(node, empty)
                case Alternate():
                    known[id(node)] = any(below)
                case Repeat(_, least, _):
                    known[id(node)] = least == 0 or all(below)
                case _:
                    known[id(node)] = all(below)
        return known[id(tree)]

    def _walk(self, tree: Node) -> tuple[bool, int, int]:
        known: dict[int, tuple[bool, int, int]] = {}

        def part(node: Node) -> tuple[bool, int, int]:
            return self._place(node) if self._is_leaf(node) else known[id(node)]

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
            known[id(node)] = nullable, first, last
        return part(tree)

    def _place(self, node: Node) -> tuple[bool, int, int]:
        kind = self._kind(node)
        if len(self.kinds) >= MOST_PLACES:
            self._budget.refuse()
        place = 1 << len(self.kinds)
        if kind is not None:
            self._is_piece |= place
        assert kind is not None or isinstance(node, Reference)
        self.kinds.append(node.name if kind is None and isinstance(node, Reference) else kind or "")
        self._local.append(0)
        return self._leaf_nullable(node, self._empty), place, place

    def _join(self, before: int, after: int) -> None:
        for place in bits(before):
            self._budget.spend(1)
            self._local[place] |= after

    def _pieces(self, places: int, begins: dict[str, int]) -> int:
        """The pieces among `places`, and those at the beginnings of rules referred to there."""
        found = places & self._is_piece
        for place in bits(places & ~self._is_piece):
            found |= begins[self.kinds[place]]
        return found

    def _closed_begins(self, begins: dict[str, int]) -> dict[str, int]:
        found = {name: places & self._is_piece for name, places in begins.items()}
        grown = True
        while grown:
            grown = False
            for name, places in begins.items():
                self._budget.spend(1 + (places & ~self._is_piece).bit_count())
                wider = found[name] | self._pieces(places, found)
                grown = grown or wider != found[name]
                found[name] = wider
        return found

    def _closed_follow(self) -> list[int]:
        found = [self._pieces(following, self._begins) for following in self._local]
        callers: dict[str, list[int]] = {name: [] for name in self._ends}
        for place in bits(((1 << len(self.kinds)) - 1) & ~self._is_piece):
            callers[self.kinds[place]].append(place)
        waiting = [(name, place) for name, places in callers.items() for place in places]
        inside: dict[int, list[str]] = {}
        for ends in self._ends.values():
            for place in bits(ends & ~self._is_piece):
                inside.setdefault(place, []).append(self.kinds[place])
        while waiting:
            name, caller = waiting.pop()
            for end in bits(self._ends[name]):
                self._budget.spend(1)
                wider = found[end] | found[caller]
                if wider != found[end]:
                    found[end] = wider
                    waiting += [(inner, end) for inner in inside.get(end, ())]
        return found
