"""What jump-forward saves on JSON, and costs where nothing is forced: the bundled model on the CPU.

The requests of a task run with jumps, and so that every token of the same texts is asked for, in
turns and in both directions, greedily, each run from an empty prefix cache: one at a time, for
forward passes and seconds, and all at once. `json_answers` says whether the answers are right. Free
text runs on pairs of engines, one with the option jump_forward and one without: without a grammar,
and under a pattern that forces nothing.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import sgnb

from .common import Report, median_ratio, seconds
from .json_tasks import MAX_TOKENS, TASKS, Task

ROUNDS_ALONE, ROUNDS_TOGETHER, ROUNDS_FREE = 2, 6, 6
WARM_UP = 2
ENGINES = 10
"""Pairs of engines for free text: where their memory lies is worth a percent between two."""
FREE_TOKENS = 48
FREE_PROMPT = "Tell me a story about a fox and a crow.\n"
FREE_PATTERN = r"(?s).*"

Times = dict[bool, list[float]]
"""Seconds of each run: with jump-forward (True), the same texts without (False)."""


def run() -> Report:
    report = Report(
        f"Jump-forward on JSON: {len(TASKS[0].prompts)} requests of each task (CPU)",
        (
            "task",
            "forward passes",
            "same texts without",
            "share",
            "one at a time, s",
            "without",
            "times faster",
            "together, s",
            "without",
            "times faster",
            "valid",
        ),
        bar="at most 0.45 of the passes, at least 1.6 times faster alone and together, "
        "free text within 1 %",
    )
    met = []
    with sgnb.Engine("tiny") as engine:
        for task in TASKS:
            row, reached = _measure(engine, task)
            report.rows.append(row)
            met.append(reached)
    losses = {
        name: _loss(**options)
        for name, options in (("no grammar", {}), (FREE_PATTERN, {"regex": FREE_PATTERN}))
    }
    report.met = all(met) and max(losses.values()) <= 0.01
    changes = ", ".join(f"{loss:+.1%} ({name})" for name, loss in losses.items())
    mean = f"mean of {ENGINES} pairs of engines"
    report.note = f"Free text of {FREE_TOKENS} tokens takes longer by: {changes}; {mean}."
    return report


def _measure(engine: sgnb.Engine, task: Task) -> tuple[tuple[Any, ...], bool]:
    """The task's row, and whether it reaches the bars."""
    prompts = list(task.prompts)
    answers = [output.text for output in engine.generate(prompts, _options(task))]
    asked = {
        True: [_options(task)] * len(prompts),
        False: [_the_same(answer) for answer in answers],
    }
    texts: list[str] = []
    passes: dict[bool, int] = {}
    engine.generate(prompts[:WARM_UP], asked[False][:WARM_UP])

    def one_by_one(jump: bool) -> None:
        engine.flush_cache()
        before = engine.stats()["steps"]
        pairs = zip(prompts, asked[jump], strict=True)
        texts.extend(engine.generate(prompt, options).text for prompt, options in pairs)
        passes[jump] = engine.stats()["steps"] - before

    def together(jump: bool) -> None:
        engine.flush_cache()
        texts.extend(output.text for output in engine.generate(prompts, asked[jump]))

    alone, batch = _turns(one_by_one, ROUNDS_ALONE), _turns(together, ROUNDS_TOGETHER)
    share = passes[True] / passes[False]
    faster = median_ratio(alone[False], alone[True]), median_ratio(batch[False], batch[True])
    valid = task.valid(texts)
    row = (
        task.name,
        passes[True],
        passes[False],
        f"{share:.2f}",
        *_cells(alone, faster[0]),
        *_cells(batch, faster[1]),
        f"{valid} of {len(texts)}",
    )
    return row, share <= 0.45 and min(faster) >= 1.6 and valid == len(texts)


def _options(task: Task) -> dict[str, Any]:
    return {"max_new_tokens": MAX_TOKENS, "temperature": 0, "json_schema": task.schema}


def _the_same(answer: str) -> dict[str, Any]:
    """Asks for `answer`, token by token."""
    pattern = re.escape(answer)
    return {"max_new_tokens": MAX_TOKENS, "temperature": 0, "regex": pattern, "jump_forward": False}


def _cells(times: Times, faster: float) -> tuple[str, ...]:
    return (
        f"{statistics.median(times[True]):.2f}",
        f"{statistics.median(times[False]):.2f}",
        f"{faster:.2f}",
    )


def _turns(function: Callable[[bool], None], rounds: int) -> Times:
    """Measure both ways in turns, with alternating order."""
    times: Times = {True: [], False: []}
    for turn in range(rounds):
        for jump in (turn % 2 == 0, turn % 2 == 1):
            times[jump].append(seconds(partial(function, jump)))
    return times


def _loss(**options: Any) -> float:
    """By how much free text takes longer with jump-forward: the best times of each pair."""
    options |= {"max_new_tokens": FREE_TOKENS, "temperature": 0, "ignore_eos": True}
    ratios = []
    for turn in range(ENGINES):
        first = turn % 2 == 0
        with (
            sgnb.Engine("tiny", jump_forward=first) as one,
            sgnb.Engine("tiny", jump_forward=not first) as other,
        ):
            pair = {first: one, not first: other}
            for engine in pair.values():
                engine.generate(FREE_PROMPT, options)
            times = _turns(partial(_generate, pair, options), ROUNDS_FREE)
        ratios.append(min(times[True]) / min(times[False]))
    return statistics.geometric_mean(ratios) - 1


def _generate(engines: dict[bool, sgnb.Engine], options: dict[str, Any], jump: bool) -> None:
    engines[jump].generate(FREE_PROMPT, options)
