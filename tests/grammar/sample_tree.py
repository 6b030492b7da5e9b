"""Random texts of a syntax tree, rules included; deep inside, the shortest way out is taken."""

from __future__ import annotations

import random

from sgnb.errors import GrammarError
from sgnb.grammar.automaton.automaton import Automaton, build
from sgnb.grammar.syntax import (
    Alternate,
    Chars,
    Concatenate,
    Intersect,
    Lexeme,
    Literal,
    Node,
    Reference,
    Repeat,
    Rules,
    Source,
    Without,
)

FAR = 10**9


_products: dict[int, tuple[Node, Automaton | None]] = {}


def product(node: Intersect | Without) -> Automaton | None:
    """The automaton of `node`, or None if it has no text. Known by the node's id: a tree may share
    parts so often that its hash takes forever."""
    if id(node) not in _products:
        try:
            _products[id(node)] = node, build(Rules(node))
        except GrammarError:
            _products[id(node)] = node, None
    return _products[id(node)][1]


class Sampler:
    """Texts of `rules`. References nested deeper than `depth` end as soon as the rules allow."""

    def __init__(self, rules: Rules, rng: random.Random, depth: int = 4) -> None:
        self.rules = rules
        self.rng = rng
        self.depth = depth
        self.heights = dict.fromkeys(rules.rules, FAR)
        changed = True
        while changed:
            new = {name: self.height(node) + 1 for name, node in rules.rules.items()}
            changed, self.heights = new != self.heights, new

    def text(self) -> str:
        return self.sample(self.rules.start, 0)

    def height(self, node: Node) -> int:
        """The least nesting of references in a text of `node`."""
        match node:
            case Reference(name):
                return min(self.heights[name], FAR)
            case Concatenate(parts):
                return max(map(self.height, parts), default=0)
            case Alternate(options):
                return min(map(self.height, options), default=FAR)
            case Repeat(inner, least, _):
                return self.height(inner) if least else 0
            case Source(inner, _) | Lexeme(inner):
                return self.height(inner)
            case Intersect() | Without():
                return 0 if product(node) else FAR
        return 0

    def sample(self, node: Node, depth: int) -> str:
        match node:
            case Literal(text):
                return text
            case Chars(ranges):
                low, high = self.rng.choice(ranges[:2] if self.rng.random() < 0.5 else ranges)
                return chr(
                    self.rng.randint(low, min(high, low + 90) if self.rng.random() < 0.7 else high)
                )
            case Concatenate(parts):
                return "".join(self.sample(part, depth) for part in parts)
            case Alternate(options):
                heights = [self.height(option) for option in options]
                limit = FAR - 1 if depth < self.depth else min(heights)
                allowed = [
                    option
                    for option, height in zip(options, heights, strict=True)
                    if height <= limit
                ]
                return self.sample(self.rng.choice(allowed), depth)
            case Repeat(inner, least, most):
                return "".join(
                    self.sample(inner, depth) for _ in range(self.count(node, least, most, depth))
                )
            case Intersect() | Without():
                return self.walk(product(node))
            case Source(inner, _) | Lexeme(inner):
                return self.sample(inner, depth)
            case Reference(name):
                return self.sample(self.rules.rules[name], depth + 1)
        raise TypeError(node)

    def count(self, node: Repeat, least: int, most: int | None, depth: int) -> int:
        height = self.height(node.node)
        if height >= FAR or (height and depth >= self.depth):
            return least
        more = min(5 if most is None else most - least, self.rng.choice((0, 1, 2, 5, 40)))
        return least + self.rng.randint(0, more)

    def walk(self, automaton: Automaton | None) -> str:
        assert automaton, "a part without texts"
        state, data = 1, b""
        for _ in range(self.rng.randint(0, 30)):
            choices = automaton.next_bytes(state)
            if not choices:
                break
            byte = bytes([self.rng.choice(choices)])
            state, data = automaton.step(state, byte), data + byte
        return (data + automaton.completion(state)).decode()
