"""What the views are told of an automaton, and the way through it, byte by byte, beside what the
engine says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sgnb.engine.engine import Engine
from sgnb.events import AutomatonDrawn, NodeAdded, TokensNamed
from sgnb.grammar.compiler import compile_spec
from sgnb.magics.automaton_layout import LARGEST, drawing
from sgnb.magics.fsm import spec_of
from sgnb.magics.loaded_engine import LoadedEngine

from ..byte_tokenizers import byte_level, pieces
from ..random_models import random_model
from ..viz.page import node
from ..viz.test_automaton import FILES

PATTERNS = [
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    r'\{"name":"[a-z]{1,12}","age":[0-9]{1,3}\}',
    r"(yes|no|maybe, but not today)",
    r"(🦊🐶|🦊🐱|Größe|naïve){1,3} end",
    r"([à-ü]à|á[á-ü]){1,3}",
    r"[\w ]{0,20}\.",
]
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "name": {"type": "string", "maxLength": 9}},
        "required": ["ok", "name"],
    }
)

WALK = """
  const state = newState();
  for (const record of parseLines(given)) apply(state, record);
  return [...state.requests.values()].map((request) => {
    const drawn = state.automata.get(request.automaton);
    const said = request.output.map((token) => (token.jump ?? token.mask)?.after ?? null);
    const jumpAt = (i) => request.output[i]?.jump;
    const last = (i) => !jumpAt(i) || jumpAt(i + 1) !== jumpAt(i);
    // The engine's numbers are not there to help.
    const alone = request.output.map(({ token, jump, mask }) =>
      ({ token, jump: jump && { ...jump, before: 0 }, mask: mask && { ...mask, before: 0 } }));
    const walk = walkOf(state, drawn, { ...request, output: alone });
    return walk.map((step, i) => [step.open ? null : drawn.states[step.state],
      last(i) ? said[i] : null, step.edges.length, drawn.states.includes(said[i])]);
  });"""


@pytest.fixture(scope="module", params=["byte_level", "pieces"])
def loaded(request: pytest.FixtureRequest) -> Iterator[LoadedEngine]:
    tokenizer = {"byte_level": byte_level, "pieces": pieces}[request.param]()
    engine = Engine(random_model(vocab_size=len(tokenizer)), tokenizer=tokenizer)
    made = LoadedEngine("made", engine, "made", None)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))


def told(loaded: LoadedEngine, **params: Any) -> list[str]:
    feed = loaded.emitter.feed()
    loaded.engine.generate(["x"] * 4, max_new_tokens=200, seed=7, **params)
    loaded.emitter.flush()
    loaded.emitter.detach(feed)
    assert loaded.emitter.failure(feed) is None
    return feed.lines


@pytest.mark.parametrize("jump", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("grammar", [*({"regex": p} for p in PATTERNS), {"json_schema": SCHEMA}])
def test_the_way_is_the_engines(loaded: LoadedEngine, grammar: dict[str, str], jump: bool) -> None:
    compared = 0
    for steps in node(WALK, FILES, "\n".join(told(loaded, **grammar, jump_forward=jump))):
        for place, said, _, known in steps:
            if said is not None and place is not None:
                assert place == said
                compared += 1
            elif said is not None:
                assert not known or "à" in grammar.get("regex", ""), "a state inside an edge"
        assert sum(edges for _, _, edges, _ in steps) > 0
    assert compared >= 4


def test_each_view_is_told_once_and_nobody_asks_without_one(
    loaded: LoadedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def counting(grammar: Any, tokenizer: Any = None) -> AutomatonDrawn | None:
        asked.append(grammar.number)
        return drawing(grammar, tokenizer)

    monkeypatch.setattr("sgnb.magics.loaded_engine.drawing", counting)
    loaded.engine.generate(["x"] * 3, regex="[ab]{3}", max_new_tokens=9)
    loaded.emitter.flush()
    assert asked == []
    for _ in range(2):
        kinds = [json.loads(line)["kind"] for line in told(loaded, regex="[ab]{3}")]
        assert kinds.count("AutomatonDrawn") == 1 and kinds.count("GrammarReady") == 4
        assert kinds.index("AutomatonDrawn") < kinds.index("GrammarReady")
    assert len(asked) == 1


def test_what_the_tree_holds_is_named() -> None:
    """The blank at the end of forced text is drafted: it is in the tree before it is verified."""
    tokenizer = byte_level()
    with Engine(random_model(vocab_size=len(tokenizer)), tokenizer=tokenizer) as engine:
        mark = engine.log.last
        engine.generate("x", regex="answer: (the|fox|die)", max_new_tokens=20)
        named: set[int] = set()
        for record in engine.log.read(mark).records:
            if isinstance(record.event, TokensNamed):
                named |= set(record.event.ids)
            elif isinstance(record.event, NodeAdded):
                assert set(record.event.tokens) <= named


def test_a_grammar_without_an_automaton_is_not_drawn(
    loaded: LoadedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = told(loaded, ebnf='root ::= "a" root | "b"')
    assert not any('"AutomatonDrawn"' in line for line in lines)
    ready = next(json.loads(line) for line in lines if '"GrammarReady"' in line)
    assert (ready["automaton"], ready["states"]) == (0, 0)
    grammar = compile_spec(spec_of("[ab]{20}"))
    assert drawing(grammar)
    monkeypatch.setattr("sgnb.magics.automaton_layout.LARGEST", 20)
    assert LARGEST > 20 and drawing(grammar) is None


def test_what_is_told_of_a_large_one_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgnb.magics.automaton_layout.EDGES", 100)
    part = drawing(compile_spec(spec_of("[ab]{600}")))
    whole = drawing(compile_spec(spec_of("[ab]{9}")))
    assert drawing(compile_spec(spec_of("(ab|c)" + "d" * 30)))
    monkeypatch.setattr("sgnb.magics.automaton_layout.BYTES", 40)
    assert drawing(compile_spec(spec_of("(ab|c)" + "d" * 30))) is None
    assert part and whole and not part.complete and whole.complete
    assert len(part.starts) == 100 and len(part.states) == 101
    assert (whole.texts, whole.paths) == (("[ab]",), ((("ab", ""),),))
    assert whole.part_names == ("[ab]{9}",) and whole.final == (whole.states[-1],)
