"""Product construction on two DFAs: intersection and difference."""

from __future__ import annotations

from collections.abc import Iterator

from .build_limits import Budget
from .dfa import START, Dfa

Pair = tuple[int, int]


def intersection(first: Dfa, second: Dfa, budget: Budget) -> Dfa:
    """Return the texts of both DFAs, with the labels of the first.

    Args:
        first: DFA whose labels are kept.
        second: DFA.
        budget: limits of the build.

    Raises:
        TooLarge: the product exceeds the limits.
    """
    return _product(first, second, False, budget)


def difference(first: Dfa, second: Dfa, budget: Budget) -> Dfa:
    """Return the texts of the first DFA except the texts of the second, with the labels of the
    first.

    Args:
        first: DFA whose labels are kept.
        second: DFA of the removed texts.
        budget: limits of the build.

    Raises:
        TooLarge: the product exceeds the limits.
    """
    return _product(first, second, True, budget)


def _product(first: Dfa, second: Dfa, without: bool, budget: Budget) -> Dfa:
    """Build the product over pairs of states; in a difference, the second state may be dead."""
    dfa = Dfa()
    pairs: list[Pair] = [(0, 0), (min(START, first.size - 1), min(START, second.size - 1))]
    if pairs[1][0] != START:
        return dfa
    numbers = {pair: number for number, pair in enumerate(pairs)}
    state = 0
    while (state := state + 1) < len(pairs):
        first_state, second_state = pairs[state]
        num_pairs = first.num_edges(first_state) * second.num_edges(second_state)
        budget.spend(2 + num_pairs // 8)
        if not state % 256:
            budget.check("building", state, "states before it is made minimal")
        for low, high, pair, label in _edges(first, second, first_state, second_state, without):
            target = numbers.setdefault(pair, len(pairs))
            if target == len(pairs):
                pairs.append(pair)
            dfa.add_edge(low, high, target, label)
        dfa.close_state(first.final[first_state] and second.final[second_state] != without)

    return _trimmed(dfa)


def _edges(
    first: Dfa, second: Dfa, first_state: int, second_state: int, without: bool
) -> Iterator[tuple[int, int, Pair, int]]:
    others = list(second.edges(second_state))
    for low, high, target, label in first.edges(first_state):
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
    """Remove states without a path to a final state, except the dead state."""
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
