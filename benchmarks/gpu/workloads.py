"""Workloads for all engines as data: calls with token ids, with dependencies on outputs of other
calls.

Imports neither torch nor sgnb, because peers run the workloads in separate processes. Prompts are
random token ids, because shapes decide and words do not. Workloads of a kind have the same shape
for all seeds.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..common import tokens

UNITS = ("tok/s", "prompt tok/s", "req/s", "s")
"""Output tokens, prompt tokens or calls a second, and seconds a call."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request. Its prompt: prompt and output of the call `context`, the outputs of the calls
    `joins`, `tokens`.

    new: output tokens, exactly so many unless there is a schema, with which they are at most so
    many. score_from: instead of making tokens, the log-probabilities of its own from this prompt
    position on. schema: the output is JSON of this schema. Calls are named by their places in the
    workload's list.
    """

    tokens: list[int]
    new: int
    context: int | None = None
    joins: tuple[int, ...] = ()
    score_from: int | None = None
    schema: str | None = None

    @property
    def needs(self) -> tuple[int, ...]:
        """Calls that must be done before."""
        return self.joins if self.context is None else (self.context, *self.joins)


@dataclass(frozen=True)
class Workload:
    """Calls in topological order of their dependencies. With `one_at_a_time` each call waits for
    the previous call."""

    calls: list[Call]
    unit: str
    one_at_a_time: bool = False

    @property
    def constrained(self) -> bool:
        return any(call.schema for call in self.calls)

    @property
    def has_levels(self) -> bool:
        """Whether some calls need others."""
        return any(call.needs for call in self.calls)

    def figure(self, seconds: float) -> float:
        """What `unit` counts, for a run of so many seconds."""
        if self.unit == "s":
            return seconds / len(self.calls)
        amounts = {
            "tok/s": sum(call.new for call in self.calls),
            "prompt tok/s": sum(len(call.tokens) for call in self.calls),
            "req/s": len(self.calls),
        }
        return amounts[self.unit] / seconds


Ids = Callable[[int], list[int]]


def plain(
    ids: Ids, rng: random.Random, *, requests: int, prompt: int, new: int, unit: str = "tok/s"
) -> Workload:
    return Workload([Call(ids(prompt), new) for _ in range(requests)], unit)


def mixed_lengths(
    ids: Ids, rng: random.Random, *, requests: int, prompt: tuple[int, int], new: tuple[int, int]
) -> Workload:
    """Requests in any order. Their lengths are spread over the two ranges, evenly in the logarithm;
    which output follows which prompt is the same for all seeds."""
    prompts, outputs = _spread(requests, *prompt), _spread(requests, *new)
    random.Random(0).shuffle(outputs)
    calls = [Call(ids(length), count) for length, count in zip(prompts, outputs, strict=True)]
    rng.shuffle(calls)
    return Workload(calls, "tok/s")


def _spread(count: int, low: int, high: int) -> list[int]:
    """So many lengths from low to high, each longer than the one before by the same factor."""
    return [round(low * (high / low) ** (i / (count - 1))) for i in range(count)]


def few_shot(
    ids: Ids, rng: random.Random, *, prefixes: int, prefix: int, questions: int, question: int
) -> Workload:
    """Return questions in random order, each after one of the prefixes, with one output token."""
    shared = [ids(prefix) for _ in range(prefixes)]
    calls = [Call(shared[i % prefixes] + ids(question), 1) for i in range(questions)]
    rng.shuffle(calls)
    return Workload(calls, "req/s")


def tree_of_thought(
    ids: Ids, rng: random.Random, *, roots: int, prompt: int, branches: Sequence[int], new: int
) -> Workload:
    """Return a tree of thoughts with equal numbers of children, each distinguished by one token."""
    calls: list[Call] = []
    for _ in range(roots):
        root, level = ids(prompt), [None]
        for width in branches:
            grown: list[Any] = []
            for parent in level:
                for _ in range(width):
                    grown.append(len(calls))
                    own = ids(1)
                    calls.append(
                        Call(root + own, new) if parent is None else Call(own, new, context=parent)
                    )
            level = grown
    return Workload(calls, "tok/s")


def chat(
    ids: Ids,
    rng: random.Random,
    *,
    sessions: int,
    turns: int,
    message: int,
    new: int,
    system: int = 0,
) -> Workload:
    """Turns of sessions; all begin with the same `system` tokens."""
    calls: list[Call] = []
    shared = ids(system)
    for _ in range(sessions):
        for turn in range(turns):
            first = turn == 0
            calls.append(
                Call(
                    (shared if first else []) + ids(message), new, None if first else len(calls) - 1
                )
            )
    return Workload(calls, "tok/s")


def json_records(
    ids: Ids,
    rng: random.Random,
    *,
    requests: int,
    prompt: int,
    new: int,
    one_at_a_time: bool = False,
) -> Workload:
    """Return records of one schema. A random field name prevents cached compilation. The name is
    drawn after the prompts, so that workloads of other sizes draw another name from the same seed.
    """
    prompts = [ids(prompt) for _ in range(requests)]
    text = json.dumps(order_schema(f"reference_{rng.randrange(10**9)}"))
    calls = [Call(own, new, schema=text) for own in prompts]
    return Workload(calls, "s" if one_at_a_time else "req/s", one_at_a_time)


def order_schema(reference: str) -> dict[str, Any]:
    """Seven bounded fields in nested objects, so that random weights finish: after about 105
    tokens, 40 of them forced."""

    def record(**properties: Any) -> dict[str, Any]:
        closed = {"required": list(properties), "additionalProperties": False}
        return {"type": "object", "properties": properties, **closed}

    text = {"type": "string", "maxLength": 100}
    return record(
        **{reference: {"type": "integer", "minimum": 0, "maximum": 999999}},
        customer=record(name=text, city=text),
        item=record(product=text, quantity={"type": "integer", "minimum": 1, "maximum": 99}),
        delivery=record(
            status={"enum": ["waiting for payment", "in preparation", "on its way"]},
            express={"type": "boolean"},
        ),
    )


@dataclass(frozen=True)
class Kind:
    """Constructor of a workload with sizes, and small sizes for a CPU."""

    maker: Callable[..., Workload]
    full: dict[str, Any]
    toy: dict[str, Any]

    def make(self, seed: int, vocab: int, toy: bool = False) -> Workload:
        """The workload; the same for the same seed. Token ids are from 16 to vocab - 1."""
        rng = random.Random(seed)
        sizes = self.full | self.toy if toy else self.full
        return self.maker(lambda count: tokens(rng, count, vocab), rng, **sizes)


BASIC: dict[str, Kind] = {
    "decode 1": Kind(plain, {"requests": 1, "prompt": 16, "new": 256}, {"new": 8}),
    "batch 64": Kind(
        plain, {"requests": 64, "prompt": 512, "new": 256}, {"requests": 3, "prompt": 12, "new": 4}
    ),
    "batch 256": Kind(
        plain, {"requests": 256, "prompt": 512, "new": 256}, {"requests": 4, "prompt": 12, "new": 4}
    ),
    "prefill": Kind(
        plain,
        {"requests": 12, "prompt": 8192, "new": 1, "unit": "prompt tok/s"},
        {"requests": 2, "prompt": 40},
    ),
    "few-shot": Kind(
        few_shot,
        {"prefixes": 40, "prefix": 800, "questions": 1600, "question": 120},
        {"prefixes": 3, "prefix": 20, "questions": 9, "question": 5},
    ),
    "tree of thought": Kind(
        tree_of_thought,
        {"roots": 32, "prompt": 1000, "branches": (4, 4, 2), "new": 64},
        {"roots": 2, "prompt": 12, "branches": (2, 2, 1), "new": 3},
    ),
    "mixed lengths": Kind(
        mixed_lengths,
        {"requests": 300, "prompt": (20, 4000), "new": (8, 512)},
        {"requests": 5, "prompt": (4, 40), "new": (2, 6)},
    ),
    "chat": Kind(
        chat,
        {"sessions": 64, "turns": 4, "message": 256, "new": 64},
        {"sessions": 3, "turns": 3, "message": 6, "new": 3},
    ),
    "JSON, 128 requests": Kind(
        json_records,
        {"requests": 128, "prompt": 64, "new": 256},
        {"requests": 3, "prompt": 8, "new": 200},
    ),
    "JSON, one at a time": Kind(
        json_records,
        {"requests": 8, "prompt": 64, "new": 256, "one_at_a_time": True},
        {"requests": 2, "prompt": 8, "new": 200},
    ),
}  # fmt: skip
"""The lines of the table that has bars, by their names."""
