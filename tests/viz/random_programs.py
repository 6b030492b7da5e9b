"""Random programs over the bundled model, and their results by run."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from sgnb.engine.engine import Engine
from sgnb.events import Jumped, StepRan
from sgnb.lang import SglFunction, function, gen, select
from sgnb.viz.state.log_state import LogState

TEXTS = "Q: What is the capital of Spain?\nA:", "A story.", "Name: ", "One, two,", "{", "été "
REGEXES = (
    r" (Paris|Pardubice|London)", r"\d{4}-\d{2}-\d{2}", r"The capital city of [A-Z][a-z]+ is",
    r" [PL][a-z]{2,6}", r'\{"name": "[a-z]{1,5}", "age": \d+\}', r"(yes|no), because [a-z ]{3,8}",
)  # fmt: skip
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8},
          "population": {"type": "integer"}}, "required": ["city", "population"]}  # fmt: skip


class Outcome(NamedTuple):
    """Results of a run that recording must not change."""

    text: str
    tokens: list[list[int]]  # sampled and forced tokens of each request, with dropped tokens
    forced: int
    passes: int
    prompt: int
    cached: int


def random_program(seed: int, *, forks: bool = False) -> SglFunction:
    """Return a program of one to four texts and calls, drawn from `seed`."""
    steps = _steps(random.Random(seed))

    @function
    def program(s: Any) -> None:
        for i, (text, call, options) in enumerate(steps):
            s += text
            branches = s.fork(2) if forks and i == 1 else [s]
            for j, branch in enumerate(branches):
                if forks:
                    branch += f" {j}"
                branch += call(f"v{i}", **options)
            if len(branches) > 1:
                branches.join()

    return program


def _steps(rng: random.Random) -> list[tuple[str, Any, dict[str, Any]]]:
    calls: list[tuple[Any, dict[str, Any]]] = [
        (gen, {}), (gen, {"stop": "\n"}), (gen, {"json_schema": SCHEMA}), (gen, {"dtype": int}),
        (select, {"choices": [" Paris", " Madrid", " Parma"]}),
        *[(gen, {"regex": regex}) for regex in REGEXES],
    ]  # fmt: skip
    steps = []
    for _ in range(rng.randint(1, 4)):
        call, options = rng.choice(calls)
        if call is gen:
            options = {**options, "max_tokens": rng.randint(16, 40)}
            if rng.random() < 0.4:
                options |= {"temperature": 1.0, "seed": rng.randrange(100)}
        steps.append((rng.choice(TEXTS), call, options))
    return steps


def outcome(engine: Engine, program: SglFunction, **options: Any) -> Outcome:
    """Run `program` on an empty cache."""
    engine.flush_cache()
    after = engine.log.last
    state = program.run(backend=engine, temperature=0, **options)
    text = state.text()
    state.wait()
    records = engine.log.read(after).records
    [run] = LogState(records).runs.values()
    tokens: dict[int, list[int]] = {}
    for record in records:
        if isinstance(record.event, StepRan):
            for request, token, _ in record.event.sampled:
                tokens.setdefault(request, []).append(token)
        elif isinstance(record.event, Jumped):
            tokens.setdefault(record.event.request, []).extend(record.event.tokens)
    metrics = run.metrics
    return Outcome(
        text=text,
        tokens=[tokens[request] for request in sorted(tokens)],
        forced=metrics.jumped_tokens,
        passes=metrics.passes,
        prompt=metrics.prompt_tokens,
        cached=metrics.cached_tokens,
    )
