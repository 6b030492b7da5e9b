"""A step's batch against loops over its requests, and the two ways of reading its results."""

from __future__ import annotations

import random
from itertools import compress
from typing import Any

import numpy as np
import pytest
import torch

from sgnb.engine.loop.step_output import AsyncStepOutput, StepOutput
from sgnb.engine.request.batch import NO_ROW, Batch
from sgnb.engine.request.request import Request
from sgnb.engine.request.request_state import Finish, RequestState
from sgnb.engine.request.step_builder import attention_input, step_input
from sgnb.engine.sampling.results import StepResults
from sgnb.engine.sampling.torch_sampler import SamplerOutput
from sgnb.engine.step_input import SHORT
from sgnb.sampling import SamplingParams


def request(id: int, size: int, placeholder: bool = False, **params: Any) -> Request:
    made = Request(id, list(range(100, 100 + size)), SamplingParams(**params), 8)
    RequestState(made, None, frozenset(), lambda output: None)
    made.slots[:] = np.arange(len(made.slots)) + 1000 * id
    made.num_tokens_with_placeholders += placeholder
    made.sample_row = id
    return made


def random_batch(rng: random.Random, decode: bool) -> Batch:
    requests = [request(i, rng.randint(2, 60), rng.random() < 0.5) for i in range(9)]
    ends = [r.num_tokens_with_placeholders for r in requests]
    lengths = [1 if decode else rng.randint(1, end) for end in ends]
    rows = sorted(zip(requests, ends, lengths, strict=True), key=lambda row: row[2] > SHORT)
    requests, ends, lengths = map(list, zip(*rows, strict=True))
    samples = [rng.random() < 0.8 for _ in rows]
    return Batch(requests, [e - n for e, n in zip(ends, lengths, strict=True)], lengths, samples)


@pytest.mark.parametrize("decode", [True, False])
def test_arrays_are_what_the_requests_say(decode: bool) -> None:
    rng = random.Random(0)
    for _ in range(50):
        batch = random_batch(rng, decode)
        rows = [
            (r, position, first + position - start)
            for r, start, end, first in zip(
                batch.requests, batch.starts, batch.ends, batch.first_rows, strict=True
            )
            for position in range(start, end)
        ]
        assert [row for _, _, row in rows] == list(range(batch.num_tokens))
        step = step_input(batch)
        attention = step.attention
        positions = [position for _, position, _ in rows]
        assert attention.kv_positions.tolist() == step.positions.tolist() == positions
        assert attention.new_slots.tolist() == [r.slots[position] for r, position, _ in rows]
        assert step.tokens.tolist() == [
            r.tokens[position] if position < r.num_tokens else -1 - r.sample_row
            for r, position, _ in rows
        ]
        assert batch.num_short == sum(n <= SHORT for n in batch.lengths)
        ranks = [row for row in batch.sample_rows if row != NO_ROW]
        assert ranks == list(range(sum(batch.samples)))
        assert [row != NO_ROW for row in batch.sample_rows] == list(batch.samples)
        part = batch.part(2, 7)
        assert part.requests == batch.requests[2:7]
        assert part.ends.tolist() == batch.ends[2:7].tolist()
        some = attention.part(2, 7)
        assert some.kv_positions.tolist() == [p for r, p, _ in rows if r in part.requests]
        assert some.new_slots.tolist() == attention_input(part).new_slots.tolist()
        assert [len(slots) for slots in some.kv_indices] == some.ends.tolist()
        last = [step.logit_rows[i] for i in step.sampled]
        assert last == list(compress(batch.last_rows, batch.samples))


def results(batch: Batch, logprobs: torch.Tensor) -> AsyncStepOutput:
    tokens = torch.arange(len(batch) + 3) + 500  # a graph has rows that belong to nobody
    allowed = torch.full_like(tokens, 9, dtype=torch.int32)
    sampled = SamplerOutput(tokens, logprobs, torch.zeros(len(tokens)), allowed)
    return AsyncStepOutput(batch, StepResults(sampled, lambda: None, {}))


def columns(output: StepOutput) -> tuple[Any, ...]:
    tokens, logprobs = list(map(int, output.tokens)), list(map(float, output.logprobs))
    return output.requests, tokens, logprobs, output.masked, output.exhausted


def test_both_ways_to_read_a_decode_step_agree() -> None:
    batch = Batch([request(i, 4) for i in range(5)], [3] * 5, [1] * 5)
    logprobs = -torch.rand(8)
    logprobs[5:] = torch.nan
    made = results(batch, logprobs)
    fast = made._get_plain()
    assert fast is not None and columns(fast) == columns(made._get_each())
    assert columns(made.get())[:2] == (batch.requests, [500, 501, 502, 503, 504])


def test_what_is_not_plain_is_read_one_by_one() -> None:
    """A request that ended or was rewritten since, NaN, log-probabilities, no token."""
    logprobs = -torch.rand(8)
    non_finite = logprobs.clone()
    non_finite[2] = torch.nan

    ended = Batch([request(i, 4) for i in range(5)], [3] * 5, [1] * 5)
    made = results(ended, logprobs)
    ended.requests[1].state.finish(Finish("abort"))
    ended.requests[3].rewrite(3, [7, 8])
    assert made._get_plain() is None
    assert [r.id for r in made.get().requests] == [0, 2, 4]

    made = results(Batch([request(i, 4) for i in range(5)], [3] * 5, [1] * 5), non_finite)
    output = made.get()
    assert [r.id for r in output.requests] == [0, 1, 3, 4]
    assert [r.id for r in output.non_finite] == [2] and not output.failed

    scored = [request(0, 4), request(1, 4, return_logprob=True)]
    output = results(Batch(scored, [3] * 2, [1] * 2), logprobs).get()
    assert output.tokens == [500, 501] and scored[1].logprobs == pytest.approx([logprobs[1].item()])


def test_both_ways_to_read_a_step_with_unfinished_prompts_agree() -> None:
    requests = [request(i, 9) for i in range(5)]
    batch = Batch(requests, [3, 3, 3, 8, 4], [1, 6, 2, 1, 1], [False, True, False, True, False])
    made = results(batch, -torch.rand(8))
    fast, each = made._get_plain(), made._get_each()
    assert fast is not None and columns(fast) == columns(each)
    assert [r.id for r in fast.requests] == [1, 3] and fast.tokens == [500, 501]
    assert fast.is_plain and not each.is_plain

    batch.sample_rows = [NO_ROW, 4, NO_ROW, 6, NO_ROW]  # of a graph
    assert columns(made._get_plain()) == columns(made._get_each())  # type: ignore[arg-type]
