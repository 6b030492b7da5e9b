"""The other workloads of the paper (Zheng et al., arXiv 2312.07104, section 6) in the same form:
shapes, not words."""

from __future__ import annotations

import random

from .workloads import BASIC, Call, Ids, Kind, Workload, chat, few_shot


def select(
    ids: Ids,
    rng: random.Random,
    *,
    prefix: int,
    questions: int,
    question: int,
    choices: int,
    choice: int,
) -> Workload:
    """HellaSwag with `select`: scores each choice after the question, with a common prefix."""
    shared, calls = ids(prefix), []
    for _ in range(questions):
        asked = shared + ids(question)
        calls += [Call(asked + ids(choice), 0, score_from=len(asked)) for _ in range(choices)]
    return Workload(calls, "req/s")


def agents(
    ids: Ids, rng: random.Random, *, templates: int, template: int, calls: int, own: int, new: int
) -> Workload:
    """Generative agents replayed: short calls behind a few templates, in any order."""
    shared = [ids(template) for _ in range(templates)]
    return Workload([Call(rng.choice(shared) + ids(own), new) for _ in range(calls)], "req/s")


def skeleton(
    ids: Ids,
    rng: random.Random,
    *,
    questions: int,
    prompt: int,
    outline: int,
    points: int,
    new: int,
) -> Workload:
    """Skeleton of thought: an outline, then all of its points at the same time."""
    calls: list[Call] = []
    for _ in range(questions):
        first = len(calls)
        calls.append(Call(ids(prompt), outline))
        calls += [Call(ids(8), new, context=first) for _ in range(points)]
    return Workload(calls, "req/s")


def judge(
    ids: Ids, rng: random.Random, *, essays: int, prompt: int, dimensions: int, new: int
) -> Workload:
    """Branch, solve, merge: an essay is judged in several ways at once; a last call reads all the
    judgements."""
    calls: list[Call] = []
    shared = ids(128)
    for _ in range(essays):
        essay, first = shared + ids(prompt), len(calls)
        calls += [Call(essay + ids(24), new) for _ in range(dimensions)]
        calls.append(
            Call(ids(16), new, context=first, joins=tuple(range(first + 1, first + dimensions)))
        )
    return Workload(calls, "req/s")


def retrieval(
    ids: Ids,
    rng: random.Random,
    *,
    questions: int,
    instruction: int,
    passages: int,
    passage: int,
    shown: int,
    new: int,
) -> Workload:
    """Two hops: an answer from a few passages of a common stock, then another with more of them."""
    shared, stock = ids(instruction), [ids(passage) for _ in range(passages)]
    calls: list[Call] = []
    for _ in range(questions):
        seen = [token for one in rng.sample(stock, shown) for token in one]
        calls.append(Call(shared + seen + ids(32), new))
        more = [token for one in rng.sample(stock, shown) for token in one]
        calls.append(Call(more + ids(8), new, context=len(calls) - 1))
    return Workload(calls, "req/s")


PAPER: dict[str, Kind] = {
    "MMLU": Kind(
        few_shot,
        {"prefixes": 57, "prefix": 700, "questions": 1140, "question": 100},
        {"prefixes": 2, "prefix": 14, "questions": 6, "question": 4},
    ),
    "HellaSwag, select": Kind(
        select,
        {"prefix": 1600, "questions": 200, "question": 40, "choices": 4, "choice": 25},
        {"prefix": 16, "questions": 3, "question": 5, "choices": 3, "choice": 4},
    ),
    "ReAct": Kind(
        chat,
        {"sessions": 100, "turns": 5, "message": 120, "new": 60, "system": 1500},
        {"sessions": 2, "turns": 3, "message": 5, "new": 3, "system": 10},
    ),
    "generative agents": Kind(
        agents,
        {"templates": 10, "template": 300, "calls": 400, "own": 200, "new": 40},
        {"templates": 2, "template": 10, "calls": 5, "own": 6, "new": 3},
    ),
    "skeleton of thought": Kind(
        skeleton,
        {"questions": 32, "prompt": 200, "outline": 96, "points": 8, "new": 100},
        {"questions": 2, "prompt": 8, "outline": 4, "points": 3, "new": 3},
    ),
    "judge": Kind(
        judge,
        {"essays": 64, "prompt": 600, "dimensions": 5, "new": 64},
        {"essays": 2, "prompt": 9, "dimensions": 3, "new": 3},
    ),
    "chat, short": Kind(
        chat,
        {"sessions": 64, "turns": 4, "message": 384, "new": 6},
        {"sessions": 2, "turns": 2, "message": 8, "new": 2},
    ),
    "chat, long": Kind(
        chat,
        {"sessions": 32, "turns": 4, "message": 384, "new": 384},
        {"sessions": 2, "turns": 2, "message": 8, "new": 5},
    ),
    "chat, 8 turns": Kind(
        chat,
        {"sessions": 100, "turns": 8, "message": 700, "new": 128},
        {"sessions": 6, "turns": 3, "message": 70, "new": 13},
    ),
    "RAG": Kind(
        retrieval,
        {
            "questions": 64,
            "instruction": 400,
            "passages": 50,
            "passage": 200,
            "shown": 3,
            "new": 64,
        },
        {"questions": 2, "instruction": 8, "passages": 4, "passage": 5, "shown": 2, "new": 3},
    ),
}  # fmt: skip

WORKLOADS: dict[str, Kind] = BASIC | PAPER
