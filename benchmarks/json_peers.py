"""JSON requests per second: sgnb, guidance and outlines; same weights, threads, schemas, prompts.

All decode greedily in float32 under the same JSON schema and write compact JSON, and every answer
is validated. Two workloads: short prompts, and prompts that begin with the schema, as requests for
JSON usually do. Each tool is used the fastest way that its API offers. sgnb: all programs of a
workload in one `run_batch`, whose rows may have schemas of their own; one at a time is a row of its
own. guidance: one at a time, it has no batches; forced tokens fast-forwarded, its widgets and
monitoring off, its KV cache kept between requests. outlines: batches of one schema, the best of
several sizes, padded on the left; JSON by its default library, the only one of its three that can
write compact JSON.

The first request for each schema, which compiles it, is a column of its own (median) and not part
of the speed. sgnb starts with an empty folder of grammars, and knows the schemas when the second
workload comes, as guidance does with part of them. sgnb forgets its prefix cache before every run,
the peers forget nothing. guidance 0.3 was made for an older transformers, whose `Cache.crop` took
the length to keep: that is handed to it here.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.cache_utils import Cache

import sgnb
from sgnb import models
from sgnb.backends import LocalExecutor

from .common import Report, seconds
from .json_tasks import MAX_TOKENS, TASKS, Task

BATCHES = (8, 24)
ALONE = 8
"""Requests of each task for a tool that takes one at a time."""
ROUNDS = 3

Work = Sequence[tuple[Task, Sequence[str]]]
"""A workload: prompts for each task."""

Answer = Callable[[Work], list[list[str]]]
"""The texts for each task of a workload."""


@sgnb.function
def answered(s, prompt, schema):  # type: ignore[no-untyped-def]
    s += prompt
    options = {"max_tokens": MAX_TOKENS, "temperature": 0, "json_whitespace": 0}
    s += sgnb.gen("json", json_schema=schema, **options)


def run() -> Report:
    folder = models.path("tiny")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    report = Report(
        f"JSON: {len(TASKS)} schemas, {len(TASKS[0].prompts)} requests each (CPU)",
        (
            "prompts",
            "tool",
            "first request, s",
            "requests a second",
            "tokens a second",
            "valid",
            "sgnb is faster by",
        ),
        bar="at least 3 times faster than guidance and than outlines",
    )
    ratios = []
    with (
        tempfile.TemporaryDirectory() as grammars,
        patch.dict(os.environ, {"SGNB_CACHE": grammars}),
        warnings.catch_warnings(),
        _crop_by_length(),
        sgnb.Engine("tiny") as engine,
    ):
        warnings.simplefilter("ignore")
        tools = _tools(engine, model, tokenizer)
        for kind, tasks in (
            ("short", TASKS),
            ("with the schema", [task.with_schema() for task in TASKS]),
        ):
            measured = {name: _Measured() for name in tools}
            _measure(tasks, tools, measured, tokenizer)
            rates = {name: one.rate() for name, one in measured.items()}
            for name, one in measured.items():
                ratio = rates["sgnb, run_batch"] / rates[name]
                report.rows.append((kind, name, *one.cells(), f"{ratio:.1f}"))
            ratios += [
                rates["sgnb, run_batch"] / rate
                for name, rate in rates.items()
                if "sgnb" not in name
            ]
    report.met = min(ratios) >= 3
    alone = f"what runs one at a time does the first {ALONE} requests of each schema"
    report.note = f"Median of {ROUNDS} rounds; {alone}."
    return report


class _Measured:
    """Result of a tool in a workload. `first`: seconds of the first request per schema; `rounds`:
    seconds of later requests."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.seconds: list[float] = []
        self.answers = self.valid = self.tokens = 0

    def rate(self) -> float:
        """Requests a second."""
        return self.answers / statistics.median(self.seconds)

    def cells(self) -> tuple[str, ...]:
        first = f"{statistics.median(self.first):.2f}"
        speed = f"{self.rate():.1f}", f"{self.tokens / statistics.median(self.seconds):.0f}"
        return first, *speed, f"{self.valid} of {self.answers}"


def _measure(
    tasks: Sequence[Task],
    tools: dict[str, tuple[Answer, int]],
    measured: dict[str, _Measured],
    tokenizer: Any,
) -> None:
    """Time the workload with each tool; the tools take turns, in both directions."""
    texts: dict[str, list[list[str]]] = {}
    for name, (answer, _) in tools.items():
        measured[name].first += [
            seconds(partial(answer, [(task, task.prompts[-1:])])) for task in tasks
        ]
    for turn in range(ROUNDS):
        for name in list(tools)[:: 1 if turn % 2 == 0 else -1]:
            answer, count = tools[name]
            work = [(task, task.prompts[:count]) for task in tasks]
            began = time.perf_counter()
            texts[name] = answer(work)
            measured[name].seconds.append(time.perf_counter() - began)
    for name, one in measured.items():
        for task, answers in zip(tasks, texts[name], strict=True):
            one.answers += len(answers)
            one.valid += task.valid(answers)
            one.tokens += sum(map(len, tokenizer(answers)["input_ids"]))


def _tools(engine: sgnb.Engine, model: Any, tokenizer: Any) -> dict[str, tuple[Answer, int]]:
    """Return each tool by name, with the number of requests per task."""
    import guidance
    import outlines

    executor = LocalExecutor(engine)
    peer = guidance.models.Transformers(model, tokenizer, echo=False, enable_monitoring=False)
    other = outlines.from_transformers(model, tokenizer)

    def by_programs(work: Work) -> list[list[str]]:
        engine.flush_cache()
        rows = [
            {"prompt": prompt, "schema": task.schema}
            for task, prompts in work
            for prompt in prompts
        ]
        states = iter(answered.run_batch(rows, backend=executor))
        return [[next(states)["json"] for _ in prompts] for _, prompts in work]

    def alone(work: Work) -> list[list[str]]:
        engine.flush_cache()
        options = {"max_new_tokens": MAX_TOKENS, "temperature": 0, "json_whitespace": 0}
        return [
            [engine.generate(prompt, options, json_schema=task.schema).text for prompt in prompts]
            for task, prompts in work
        ]

    def by_guidance(task: Task, prompts: Sequence[str]) -> list[str]:
        grammar = guidance.json(
            "json",
            schema=task.schema,
            temperature=0.0,
            max_tokens=MAX_TOKENS,
            separators=(",", ":"),
        )
        return [(peer + prompt + grammar)["json"] for prompt in prompts]

    generators: dict[tuple[Any, ...], Any] = {}

    def by_outlines(batch: int, task: Task, prompts: Sequence[str]) -> list[str]:
        key = batch, *task.prompts
        if key not in generators:
            schema = outlines.types.JsonSchema(task.schema, whitespace_pattern="")
            generators[key] = outlines.Generator(other, schema)
        parts = [list(prompts[i : i + batch]) for i in range(0, len(prompts), batch)]
        options = {"max_new_tokens": MAX_TOKENS, "do_sample": False}
        return [text for part in parts for text in generators[key].batch(part, **options)]

    every = len(TASKS[0].prompts)
    return {
        "sgnb, run_batch": (by_programs, every),
        "sgnb, one at a time": (alone, ALONE),
        "guidance": (_task_by_task(by_guidance), ALONE),
        **{
            f"outlines, batches of {batch}": (_task_by_task(partial(by_outlines, batch)), every)
            for batch in BATCHES
        },
    }


def _task_by_task(answer: Callable[[Task, Sequence[str]], list[str]]) -> Answer:
    return lambda work: [answer(task, prompts) for task, prompts in work]


@contextmanager
def _crop_by_length() -> Iterator[None]:
    """`Cache.crop` with the length to keep, as guidance calls it, or to remove, as transformers."""
    crop = Cache.crop

    def either(self: Cache, tokens: int) -> None:
        crop(self, tokens - self.get_seq_length() if tokens >= 0 else tokens)

    with patch.object(Cache, "crop", either):
        yield
