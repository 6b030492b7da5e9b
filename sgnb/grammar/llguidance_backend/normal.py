"""Normal form of rules: without labels, and without unproductive parts (parts without a text).

Supports trees of any depth: no function recurses. Knows no library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

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
    concat,
)

SET_LIMITS = BuildLimits(states=4096, building=8192, positions=16_384, work=200_000)


def children(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below `node`; references and lexemes have none.

    Args:
        node: any node.
    """
    match node:
        case Concatenate(parts) | Intersect(parts):
            return parts
        case Alternate(options):
            return options
        case Repeat(inner, _, _) | Source(inner, _):
            return (inner,)
        case Without(kept, removed):
            return (kept, removed)
    return ()


def postorder(node: Node, below: Callable[[Node], tuple[Node, ...]] = children) -> Iterator[Node]:
    """Yield every node object of a tree once, children first.

    Args:
        node: root of the tree.
        below: returns the children of a node.
    """
    visited: set[int] = set()
    stack = [(node, False)]
    while stack:
        top, below_done = stack.pop()
        if below_done:
            yield top
        elif id(top) not in visited:
            visited.add(id(top))
            stack.append((top, True))
            stack += [(child, False) for child in reversed(below(top))]


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


def users(rules: Mapping[str, Node]) -> dict[str, set[str]]:
    """Return rule -> names of the rules that refer to the rule.

    Args:
        rules: rules by name.
    """
    users: dict[str, set[str]] = {name: set() for name in rules}
    for name, node in rules.items():
        for need in references(node):
            users[need].add(name)
    return users


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
    productive = _productive(reached, spend)
    start = simplified(rules.start, productive, spend)
    if start is None:
        hint = "add an alternative without recursion to every rule"
        raise GrammarError("the grammar describes no text", hint)
    simple_rules = {name: simplified(reached[name], productive, spend) for name in reached}
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


def _productive(rules: dict[str, Node], spend: Callable[[int], None]) -> set[str]:
    """Return the names of the rules that describe at least one text."""
    productive: set[str] = set()
    above = users(rules)
    stale = set(rules)
    while stale:
        for name in reversed(rules):  # dependencies usually follow their users
            if name in stale:
                stale.remove(name)
                spend(5)
                if simplified(rules[name], productive, spend) is not None:
                    productive.add(name)
                    stale |= above[name] - productive
    return productive


def simplified(root: Node, productive: set[str], spend: Callable[[int], None]) -> Node | None:
    """Return the tree without Source and unproductive parts; None if no text remains.

    Args:
        root: root of the tree.
        productive: names of the rules with a text.
        spend: receives the estimated microseconds of the next step; may raise.
    """
    results: dict[int, Node | None] = {}
    for node in postorder(root):
        spend(5)
        results[id(node)] = _simple(
            node, [results[id(child)] for child in children(node)], productive
        )
    return results[id(root)]


def _simple(node: Node, below: list[Node | None], productive: set[str]) -> Node | None:
    """Return `node` with the children `below`; None stands for no text."""
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
