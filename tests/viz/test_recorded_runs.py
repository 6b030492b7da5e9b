"""Recording explains a run without changing the run: random programs on the bundled model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sgnb.engine.engine import Engine
from sgnb.events import Alternatives, NodeAdded, Recorder, RequestQueued, StepRan, encode
from sgnb.lang import function, gen
from sgnb.viz import Display, Emitter
from sgnb.viz.state.log_state import LogState
from sgnb.viz.state.tree import ROOT

from .page import node
from .random_programs import outcome, random_program

WITHOUT_LINE = """
return given.flatMap((lines) => {
  const state = newState();
  for (const line of lines) apply(state, parseLine(line));
  const nodes = [...state.nodes.values()].filter(({ id }) => id !== ROOT);
  return nodes.filter((node) => !state.requests.get(node.request)?.line);
});
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("tiny", context_length=512, max_total_tokens=4096) as engine:
        yield engine


@pytest.mark.parametrize("programs", [2, pytest.param(25, marks=pytest.mark.slow)])
def test_recording_changes_no_run(engine: Engine, tmp_path: Path, programs: int) -> None:
    forced = 0
    for seed in range(programs):
        program = random_program(seed)
        plain = outcome(engine, program)
        assert outcome(engine, program) == plain, "the program itself differs between runs"
        assert outcome(engine, program, recorded_alternatives=5) == plain, seed

        emitter = Emitter(engine.log)
        display = Display(emitter, static=True)
        display.open()
        with Recorder(engine.log, tmp_path / f"{seed}.jsonl", after=engine.log.last):
            assert outcome(engine, program, recorded_alternatives=2) == plain, seed
        emitter.close()
        forced += plain.forced
    assert forced > programs, "too few programs with forced tokens"


@pytest.mark.slow
def test_scores_of_returned_tokens_may_change_a_run(engine: Engine) -> None:
    """The reason why the views record alternatives instead of returned log-probabilities."""
    assert any(
        outcome(engine, random_program(seed))
        != outcome(engine, random_program(seed), return_logprob=True, top_logprobs_num=2)
        for seed in range(20)
    )


@pytest.mark.slow
def test_alternatives_belong_to_the_sampled_token(engine: Engine) -> None:
    """Also for a token in place of a drafted token, and with the grammar's mask at its position."""

    @function
    def program(s: object) -> None:
        s += "Q: What is the capital of France?\nA:" + gen(  # type: ignore[operator]
            "x", regex=r" (Paris|Pardubice|London|Parma) is (a|the) (city|capital)"
        )

    for seed in [None, *range(10)]:
        after = engine.log.last
        program_or_random = program if seed is None else random_program(seed)
        outcome(engine, program_or_random, recorded_alternatives=3)
        records = [record.event for record in engine.log.read(after).records]
        rows: dict[int, list[tuple[int, float]]] = {}
        for event in records:
            if isinstance(event, StepRan):
                for request, token, logprob in event.sampled:
                    rows.setdefault(request, []).append((token, logprob))
            elif isinstance(event, Alternatives):
                token, logprob = rows[event.request][-1]
                pairs = dict(zip(event.tokens, event.logprobs, strict=True))
                assert pairs.get(token, logprob) == pytest.approx(logprob, abs=2e-3)
                allowed = dict(zip(event.tokens, event.allowed, strict=True))
                assert allowed.get(token, True)
                assert token in pairs or max(logprob, min(event.logprobs)) == min(event.logprobs)


@pytest.mark.slow
def test_every_node_has_the_run_and_the_line_that_made_it(engine: Engine) -> None:
    added, lines = 0, list[list[str]]()
    for seed in range(24):
        engine.flush_cache()
        after = engine.log.last
        outcome(engine, random_program(seed, forks=seed % 2 == 1))
        records = engine.log.read(after).records
        state = LogState(records)
        queued = {r.event.request: r.event for r in records if isinstance(r.event, RequestQueued)}
        made = [r.event for r in records if isinstance(r.event, NodeAdded)]
        assert all(queued[event.request].run and queued[event.request].line for event in made)
        assert {n.made_by for n in state.tree.nodes.values() if n.id != ROOT} == set(state.runs), (
            seed
        )
        lines.append([encode(record) for record in records])
        added += len(made)
    assert added > 75
    assert node(WITHOUT_LINE, ["models", "branch", "reduce"], lines) == []
