"""Cached automata of common lexemes, compared with builds that expand every tree."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sgnb.grammar.automaton.automaton import START, Automaton, build
from sgnb.grammar.automaton.build_limits import BuildLimits, TooLarge
from sgnb.grammar.automaton.common_lexemes import LIMITS, common_lexeme
from sgnb.grammar.automaton.expand import common_automaton, expand
from sgnb.grammar.llguidance_backend.normal import rebuilt
from sgnb.grammar.regex.parser import parse
from sgnb.grammar.schema.string_formats import FORMATS
from sgnb.grammar.schema.text import string
from sgnb.grammar.schema.translate import translate
from sgnb.grammar.syntax import Lexeme, Node, Rules, postorder

TYPES = ("string", "number", "integer", ["string", "number"], ["integer", "null", "boolean"])
SCHEMAS: list[dict[str, Any]] = [
    *({"type": kind} for kind in TYPES),
    *({"type": "array", "items": {"type": kind}, "maxItems": 3} for kind in TYPES),
    *({"type": kind, "minimum": low} for kind in ("number", "integer") for low in (0, 1, 7)),
    *({"type": "string", "format": name} for name in FORMATS),
    {"properties": {"a": {"type": "number"}, "b": {"type": "number"}, "c": {"type": "string"}}},
    {"type": "string", "minLength": 1},
]


def uncached(node: Node) -> Node:
    return Lexeme(node.node) if isinstance(node, Lexeme) else node


def assert_equal(first: Automaton, second: Automaton) -> None:
    """Walk both minimal automata at once: states, ends and labels correspond."""
    assert first.states == second.states
    pairs, waiting = {START: START}, [START]
    while waiting:
        a = waiting.pop()
        b = pairs[a]
        assert first.final[a] == second.final[b]
        targets = second.table[b][second.classes]
        for byte, to in enumerate(first.table[a][first.classes].tolist()):
            assert bool(to) == bool(targets[byte])
            if to and to not in pairs:
                pairs[to] = int(targets[byte])
                waiting.append(to)
            if to:
                assert pairs[to] == targets[byte]
                assert names(first, a, to) == names(second, b, pairs[to])


def names(automaton: Automaton, state: int, to: int) -> set[str]:
    return {automaton.labels[label] for label in automaton.sources.get((state, to), ())}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
def test_equal_automata(schema: dict[str, Any], strict: bool) -> None:
    rules = translate(json.dumps(schema), strict=strict)
    if rules.distinct:
        return  # recursive
    trees = {name: rebuilt(node, uncached) for name, node in rules.rules.items()}
    assert_equal(build(rules), build(Rules(rebuilt(rules.start, uncached), trees)))


def test_equal_forms_are_the_same_tree() -> None:
    lexemes = [
        node.node
        for _ in range(2)
        for rules in [translate('{"type": ["number", "string"]}')]
        for root in (rules.start, *rules.rules.values())
        for node in postorder(root)
        if isinstance(node, Lexeme) and node.is_common
    ]
    assert len(lexemes) == 4 and len(set(map(id, lexemes))) == 2


def test_counted_work_does_not_depend_on_the_cache() -> None:
    """The same limit holds for the first and for later builds."""
    tree = string(parse("[a-z]{30}|[0-9]{40}|x+y"))
    rules, steps = Rules(Lexeme(tree, True)), common_lexeme(tree, expand).steps
    limits = BuildLimits(work=steps + 20)
    with pytest.raises(TooLarge):
        build(rules, limits)
    with pytest.raises(TooLarge):
        build(rules, limits)
    assert build(rules, replace(limits, work=20 * steps)).accepts(b'"xxy"')


def test_large_lexemes_are_expanded() -> None:
    tree = parse("[ab]{700}")
    assert common_automaton(tree).dfa is None
    assert build(Rules(Lexeme(tree, True))).states > LIMITS.states
