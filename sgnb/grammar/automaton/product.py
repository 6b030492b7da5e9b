"""The product of two DFAs: the texts of both, or of the first only."""

from __future__ import annotations

from collections.abc import Iterator

from .dfa import START, Dfa
from .limits import Budget

Pair = tuple[int, int]


def intersection(first: Dfa, second: Dfa, budget: Budget) -> Dfa:
    """The texts of both, with the labels of the first. Raises TooLarge."""
    return _product(first, second, False, budget)


def difference(first: Dfa, second: Dfa, budget: Budget) -> Dfa:
    """The first's texts that are not the second's, with the first's labels. Raises TooLarge."""
    return _product(first, second, True, budget)


def _product(first: Dfa, second: Dfa, without: bool, budget: Budget) -> Dfa:
    """A state is a pair; for the difference the second may be dead, 0."""
    dfa = Dfa()
    pairs: list[Pair] = [(0, 0), (min(START, first.size - 1), min(START, second.size - 1))]
    if pairs[1][0] != START:
        return dfa
    numbers = {pair: number for number, pair in enumerate(pairs)}
    state = 0
    while (state := state + 1) < len(pairs):
        if not state % 256:
            budget.check_time()
            budget.check("building", state, "states before it is made minimal")
        left, right = pairs[state]
        for low, high, pair, label in _edges(first, second, left, right, without):
            found = numbers.setdefault(pair, len(pairs))
            if found == len(pairs):
                pairs.append(pair)
            dfa.add_edge(low, high, found, label)
        dfa.close_state(first.final[left] and second.final[right] != without)
    return _trimmed(dfa)


def _edges(
    first: Dfa, second: Dfa, left: int, right: int, without: bool
) -> Iterator[tuple[int, int, Pair, int]]:
    others = list(second.edges(right))
    for low, high, target, label in first.edges(left):
        for other_low, other_high, other, _ in others:
            if other_high < low or other_low > high:
                continue
            if without and other_low > low:
                yield low, other_low - 1, (target, 0), label
            yield max(low, other_low), min(high, other_high), (target, other), label
            low = other_high + 1
        if without and low <= high:
            yield low, high, (target, 0), label


def _trimmed(dfa: Dfa) -> Dfa:
    """Without the states that reach no final one; of a DFA without texts the dead state is left."""
    distance = dfa.distances(*dfa.predecessors())
    live = [state for state in range(START, dfa.size) if distance[state] >= 0]
    if START not in live[:1]:
        return Dfa()
    numbers = {state: number for number, state in enumerate(live, START)}
    result = Dfa()
    for state in live:
        for low, high, target, label in dfa.edges(state):
            if target in numbers:
                result.add_edge(low, high, numbers[target], label)
        result.close_state(dfa.final[state])
    return result
