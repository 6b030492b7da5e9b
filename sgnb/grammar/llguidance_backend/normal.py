"""Normal form of rules: without labels, and without unproductive parts (parts without a text).

Supports trees of any depth: no function recurses. Knows no library.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import TypeVar

from ...errors import GrammarError
from ..automaton.automaton import build
from ..automaton.build_limits import BuildLimits, Recursive, TooLarge
from ..syntax import (
    EMPTY,
    NOTHING,
    Alternate,
    Chars,
    Concatenate,
    Intersect,
    Literal,
    Node,
    Reference,
    Repeat,
    Rules,
    Source,
    Without,
    alternate,
    children,
    concat,
    postorder,
)

Value = TypeVar("Value")

SET_LIMITS = BuildLimits(states=4096, building=8192, positions=16_384, work=200_000)


def rebuilt(root: Node, change: Callable[[Node], Node]) -> Node:
    """Return the tree with `change` applied bottom-up. Unchanged subtrees stay the same objects.

    Args:
        root: root of the tree.
        change: returns the replacement of a node.
    """
    results: dict[int, Node] = {}
    for node in postorder(root):
        old = children(node)
        new = tuple(results[id(child)] for child in old)
        same = all(a is b for a, b in zip(old, new, strict=True))
        results[id(node)] = change(node if same else _over(node, new))
    return results[id(root)]


def _over(node: Node, below: tuple[Node, ...]) -> Node:
    match node:
        case Concatenate():
            return Concatenate(below)
        case Alternate():
            return Alternate(below)
        case Intersect():
            return Intersect(below)
        case Without():
            return Without(below[0], below[1])
        case Repeat(_, least, most):
            return Repeat(below[0], least, most)
        case Source(_, label):
            return Source(below[0], label)

    return node


def references(node: Node) -> set[str]:
    """Return the names of the rules that a tree refers to.

    Args:
        node: root of the tree.
    """
    return {part.name for part in postorder(node) if isinstance(part, Reference)}


def least_solution(
    orders: Mapping[str, Sequence[Node]],
    evaluate: Callable[[str, Mapping[str, Value]], Value | None],
    size: Callable[[Value], int],
) -> dict[str, Value]:
    """Return the smallest value of each rule that has a value.

    Args:
        orders: nodes of each rule, children first.
        evaluate: returns the value of a rule by the values so far; None without a value.
        size: returns the size by which values are compared.
    """
    above: dict[str, set[str]] = {name: set() for name in orders}
    for name, order in orders.items():
        for node in order:
            if isinstance(node, Reference):
                above[node.name].add(name)

    values: dict[str, Value] = {}
    stale = set(orders)
    while stale:
        for name in reversed(list(orders)):  # dependencies usually follow their users
            if name in stale:
                stale.remove(name)
                value = evaluate(name, values)
                if value is not None and (name not in values or size(value) < size(values[name])):
                    values[name] = value
                    stale |= above[name]
    return values


def closed(needs: dict[str, set[str]]) -> list[str]:
    """Return the rules that depend on no recursive rule, in topological order: dependencies first.

    Args:
        needs: rule -> names of the rules that the rule refers to.
    """
    missing = {name: len(names) for name, names in needs.items()}
    users: dict[str, list[str]] = {name: [] for name in needs}
    for name, names in needs.items():
        for need in names:
            users[need].append(name)
    order = [name for name, count in missing.items() if not count]
    for name in order:
        for user in users[name]:
            missing[user] -= 1
            if not missing[user]:
                order.append(user)
    return order


def plain(rules: Rules, spend: Callable[[int], None]) -> Rules:
    """Return equivalent rules without Source and without unused or unproductive rules.

    Args:
        rules: syntax tree with rules.
        spend: receives the estimated microseconds of the next step; may raise.

    Raises:
        GrammarError: a rule is undefined or recursive inside Intersect or Without, or no text
            remains.
    """
    reached = _reached(rules)

    def without_empty_set(node: Node) -> Node:
        spend(3)
        is_set = isinstance(node, (Intersect, Without))
        return NOTHING if is_set and _is_empty(node, reached) else node

    start = rebuilt(rules.start, without_empty_set)
    changed = {name: rebuilt(node, without_empty_set) for name, node in reached.items()}
    result = trimmed(Rules(start, changed), spend)
    _refuse_recursion_in_sets(result)
    return result


def trimmed(rules: Rules, spend: Callable[[int], None]) -> Rules:
    """Return equivalent rules without Source and without unused or unproductive rules.

    Args:
        rules: rules in which every lexeme has a text.
        spend: receives the estimated microseconds of the next step; may raise.

    Raises:
        GrammarError: a rule is undefined, or no text remains.
    """
    reached = _reached(rules)
    live = productive(reached, spend)
    start = simplified(rules.start, live, spend)
    if start is None:
        hint = "add an alternative without recursion to every rule"
        raise GrammarError("the grammar describes no text", hint)
    simple_rules = {name: simplified(reached[name], live, spend) for name in reached}
    result = Rules(start, {name: node for name, node in simple_rules.items() if node is not None})
    return Rules(result.start, _reached(result))


def _is_empty(node: Node, rules: dict[str, Node]) -> bool:
    """True if the intersection or difference has no text; False if an automaton cannot decide."""
    try:
        build(Rules(node, rules), SET_LIMITS)
    except (TooLarge, Recursive):
        return False
    except GrammarError:
        return True
    return False


def _reached(rules: Rules) -> dict[str, Node]:
    reached: dict[str, Node] = {}
    waiting = sorted(references(rules.start))
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        if name not in rules.rules:
            message = f"the grammar refers to a rule {name!r}, which it does not have"
            raise GrammarError(message, "define the rule")
        reached[name] = rules.rules[name]
        waiting += sorted(references(reached[name]))
    return reached


def productive(rules: Mapping[str, Node], spend: Callable[[int], None]) -> set[str]:
    """Return the names of the rules that describe at least one text.

    Args:
        rules: rules in which every lexeme, intersection and difference has a text.
        spend: receives the estimated microseconds of the next step; may raise.
    """
    orders = {name: list(postorder(node)) for name, node in rules.items()}

    def evaluate(name: str, values: Mapping[str, bool]) -> bool | None:
        spend(5 + len(orders[name]))
        return _has_text(orders[name], values) or None

    return set(least_solution(orders, evaluate, int))


def _has_text(order: Sequence[Node], productive: Mapping[str, bool]) -> bool:
    results: dict[int, bool] = {}
    result = False
    for node in order:
        match node:
            case Reference(name):
                result = name in productive
            case Chars(ranges):
                result = bool(ranges)
            case Alternate(options):
                result = any(results[id(option)] for option in options)
            case Repeat(inner, least, _):
                result = not least or results[id(inner)]
            case Without(inner, _):
                result = results[id(inner)]
            case _:
                result = all(results[id(child)] for child in children(node))
        results[id(node)] = result
    return result


def simplified(root: Node, productive: Container[str], spend: Callable[[int], None]) -> Node | None:
    """Return the tree without Source and unproductive parts; None if no text remains.

    Args:
        root: root of the tree.
        productive: names of the rules with a text.
        spend: receives the estimated microseconds of the next step; may raise.
    """
    results: dict[int, Node | None] = {}
    for node in postorder(root):
        spend(5)
        results[id(node)] = simple(
            node, [results[id(child)] for child in children(node)], productive
        )
    return results[id(root)]


def simple(node: Node, below: list[Node | None], productive: Container[str]) -> Node | None:
    """Return `node` with other children, without Source; None stands for no text.

    Args:
        node: node of a tree.
        below: simplified children.
        productive: names of the rules with a text.
    """
    whole = [child for child in below if child is not None]
    complete = len(whole) == len(below)

    match node:
        case Literal(text):
            return Literal(_utf8(text))
        case Chars(((low, high),)) if low == high:
            return Literal(chr(low))
        case Chars(ranges):
            return node if ranges else None
        case Reference(name):
            return node if name in productive else None
        case Source():
            return below[0]
        case Concatenate():
            return concat(*whole) if complete else None
        case Intersect():
            return Intersect(tuple(whole)) if complete else None
        case Alternate():
            return alternate(*_once(whole)) if whole else None
        case Repeat(_, least, most):
            if most == 0 or (not complete and least == 0):
                return EMPTY
            return Repeat(whole[0], least, most) if complete else None
        case Without():
            return Without(whole[0], whole[1]) if complete else below[0]

    return node


def _once(options: list[Node]) -> list[Node]:
    """Remove repeated literals, which llguidance does not always accept."""
    unique: dict[str | int, Node] = {}
    for option in options:
        unique.setdefault(option.text if isinstance(option, Literal) else id(option), option)
    return list(unique.values())


def _utf8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"U+{ord(text[error.start]):04X} in {text!r:.80} is a surrogate, not a character"
        raise GrammarError(message, "write the whole character") from None
    return text


def _refuse_recursion_in_sets(rules: Rules) -> None:
    needs = {name: references(node) for name, node in rules.rules.items()}
    flat = set(closed(needs))
    for node in (rules.start, *rules.rules.values()):
        for part in postorder(node):
            if isinstance(part, (Intersect, Without)) and not references(part) <= flat:
                name = min(references(part) - flat)
                problem = "is recursive and stands inside an intersection or a difference"
                hint = "remove allOf or not around it, or write it without recursion"
                raise GrammarError(f"the rule {name!r} {problem}", hint)
