"""Construction of a step's arrays from a batch: the only reader of requests before a launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cache.radix import Ints
from ..step_input import (
    PREVIOUS,
    UNCONSTRAINED,
    Adjustment,
    AttentionInput,
    EmbeddingSpan,
    Filters,
    Floats,
    LogitUse,
    Longs,
    RowMask,
    SamplingInput,
    StepInput,
)
from .batch import Batch, DecodeSeries
from .request import Request
from .request_state import RequestState
from .rng import draws, uniforms

Mask = Callable[[], RowMask]


def step_input(batch: Batch) -> StepInput:
    """Build the input of a step."""
    series = batch.series
    if series is not None and series.input is not None:
        return _repeated(batch, series, series.input)

    logit_rows, sampled, uses, drafts = _logit_uses(batch)
    step = StepInput(
        tokens=_tokens(batch),
        positions=batch.rotary_positions,
        attention=attention_input(batch),
        states=batch.cache_plans,
        embeddings=tuple(_embeddings(batch)),
        logit_rows=logit_rows,
        sampled=sampled,
        sampling=_sampling_input(list(compress(batch.requests, batch.samples))),
        drafts=drafts,
        uses=uses,
    )
    if series is not None and _repeats(batch, step):
        series.input = step
    return step


def _repeats(batch: Batch, step: StepInput) -> bool:
    """Return whether later steps of the series differ from this step only in tokens, positions, new
    slots, draws and grammar states."""
    states: list[RequestState] = [request.state for request in batch.requests]
    return not step.uses and all(state.fits_kernels and not state.holds_back for state in states)


def _repeated(batch: Batch, series: DecodeSeries, step: StepInput) -> StepInput:
    """Fast twin of `step_input` for a step of a series. step: an earlier step of the series."""
    requests, starts, sampling = batch.requests, batch.starts, step.sampling
    # Positions and indexes grow alike; they differ behind images.
    positions = starts + (step.positions - step.attention.starts) if batch.has_items else starts
    # The last tokens of all requests are read together.
    unread = requests[0].num_placeholders > 0
    numbers, grammar_states = sampling.draws, sampling.grammar_states
    if sampling.temperatures.any():
        numbers = draws(series.first_states, starts + 1 - series.prompt_lengths)
    if sampling.is_constrained:
        grammar_states = _grammar_states([request.state for request in requests])

    return StepInput(
        tokens=~sampling.sample_rows if unread else _tokens(batch),
        positions=positions,
        attention=AttentionInput(
            starts=starts,
            lengths=batch.lengths,
            new_slots=_new_slots(batch),
            kv_slots=step.attention.kv_slots,
            keys=step.attention.keys,
        ),
        states=batch.cache_plans,
        embeddings=(),
        logit_rows=step.logit_rows,
        sampled=step.sampled,
        sampling=SamplingInput(
            temperatures=sampling.temperatures,
            draws=numbers,
            grammar_states=grammar_states,
            sample_rows=sampling.sample_rows,
            filters={},
            adjustments={},
            masks={},
        ),
        drafts=NO_SAMPLING,
        uses=(),
    )


def attention_input(batch: Batch) -> AttentionInput:
    """Build the part of a step for attention."""
    requests = batch.requests
    if batch.has_items and not batch.is_decode:
        return _split_at_blocks(batch)
    return AttentionInput(
        starts=batch.starts,
        lengths=batch.lengths,
        new_slots=_new_slots(batch),
        kv_slots=[request.slots for request in requests],
        keys=[(r.id, r.version, r.node, r.cache_scope.reads) for r in requests],
    )


def _split_at_blocks(batch: Batch) -> AttentionInput:
    """Build the part for attention with a sequence for each block of an item, and for the tokens
    between blocks."""
    starts, lengths, owners, whole = list[int](), list[int](), list[Request](), list[bool]()
    for request, start, end in _spans(batch):
        items = request.items
        parts = [(start, end, False)] if items is None else items.parts(start, end)
        for begin, stop, is_block in parts:
            starts.append(begin)
            lengths.append(stop - begin)
            owners.append(request)
            whole.append(is_block)
    return AttentionInput(
        starts=np.array(starts),
        lengths=np.array(lengths),
        new_slots=_new_slots(batch),
        kv_slots=[request.slots for request in owners],
        keys=[(r.id, r.version, r.node, r.cache_scope.reads) for r in owners],
        whole=whole,
    )


def _new_slots(batch: Batch) -> Ints:
    if batch.new_slots is not None:
        return batch.new_slots
    if batch.is_decode:
        rows = zip(batch.requests, batch.starts.tolist(), strict=True)
        return np.array([request.slots.item(start) for request, start in rows], np.int32)
    return np.concatenate([request.slots[start:end] for request, start, end in _spans(batch)])


def _tokens(batch: Batch) -> Ints:
    if batch.is_decode:
        rows = zip(batch.requests, batch.starts.tolist(), strict=True)
        tokens = [
            r.token_at(start) if start < r.num_tokens else -1 - r.sample_row for r, start in rows
        ]
        return np.array(tokens, np.int32)
    return np.concatenate([request.span(start, end) for request, start, end in _spans(batch)])


def _spans(batch: Batch) -> Iterator[tuple[Request, int, int]]:
    return zip(batch.requests, batch.starts.tolist(), batch.ends.tolist(), strict=True)


def _embeddings(batch: Batch) -> Iterator[EmbeddingSpan]:
    """Yield the parts of precomputed embeddings in the step."""
    if not batch.has_items:
        return
    for (request, start, end), row in zip(_spans(batch), batch.first_rows.tolist(), strict=True):
        for begin, rows in request.items.spans(start, end) if request.items else ():
            yield EmbeddingSpan(row + begin, rows)


def _logit_uses(batch: Batch) -> tuple[Longs, Longs, Sequence[LogitUse], SamplingInput]:
    """Return `logit_rows`, `sampled`, `uses` and `drafts` of the step."""
    only_samples = all(batch.samples) and all(
        not r.params.num_alternatives and (r.wants_only_tokens or r.score_from >= r.num_tokens)
        for r in batch.requests
    )
    if only_samples:
        return batch.last_rows, np.arange(len(batch)), (), NO_SAMPLING

    logit_rows, sampled = list[int](), list[int]()
    uses, drafts = list[LogitUse](), list[tuple[Request, int]]()
    columns = zip(_spans(batch), batch.samples, batch.first_rows.tolist(), strict=True)
    for sequence, ((request, start, end), samples, row) in enumerate(columns):
        positions = request.logit_positions(start, end, samples)
        first, last = len(logit_rows), len(logit_rows) + max(0, len(positions) - 1)
        logit_rows += range(row + positions.start - start, row + positions.stop - start)
        if samples:
            sampled.append(last)

        targets = range(positions.start + 1, min(positions.stop + 1, request.num_tokens))
        scored, drafted = (), None
        if targets and request.params.return_logprob:
            scored = tuple(request.text_tokens[targets.start : targets.stop].tolist())
        elif targets:
            drafted = len(drafts), len(drafts) + len(targets)
            drafts += [(request, position) for position in targets]
        top = request.params.num_alternatives
        exhausted = end == request.num_tokens_with_placeholders and not samples
        if scored or drafted or exhausted or (samples and top):
            uses.append(
                LogitUse(
                    sequence=sequence,
                    first=first,
                    last=last,
                    scored=scored,
                    top=top,
                    drafted=drafted,
                    samples=samples,
                    exhausted=exhausted,
                    checks_norm=exhausted and request.limit == 0,
                )
            )
    return np.array(logit_rows, np.int64), np.array(sampled, np.int64), uses, _drafts(drafts)


def _drafts(drafts: list[tuple[Request, int]]) -> SamplingInput:
    """Build the parameters of drafted tokens, given by request and position."""
    if not drafts:
        return NO_SAMPLING
    masks = {
        row: partial(_tail_mask, request.state, position - request.score_from)
        for row, (request, position) in enumerate(drafts)
    }
    positions = [position - request.num_prompt_tokens for request, position in drafts]
    return _sampling_input([request for request, _ in drafts], positions, masks)


def _sampling_input(
    requests: Sequence[Request],
    positions: Sequence[int] | Longs | None = None,
    masks: Mapping[int, Mask] | None = None,
) -> SamplingInput:
    """Build the parameters of rows, one per request.

    Args:
        requests: Request of each row.
        positions: Number of output tokens before each row's token; by default all tokens of the
            request and its placeholders.
        masks: Masks by row; by default of the requests' grammars that the host follows.
    """
    states: list[RequestState] = [request.state for request in requests]
    filters, adjustments = dict[int, Filters](), dict[int, Callable[[], Adjustment]]()
    hosted = dict[int, Mask]()
    for row in [i for i, s in enumerate(states) if not s.fits_kernels or s.holds_back]:
        state = states[row]
        params = state.request.params
        if params.filters:
            filters[row] = Filters(params.top_k, params.top_p, params.min_p)
        if params.adjusts_logits or state.banned:
            adjustments[row] = partial(_adjustment, state)
        if state.table_offset is None and state.constraint is not None and state.constraint.binds:
            hosted[row] = partial(_row_mask, state)

    temperatures = _column(requests, "params.temperature", np.float32)
    numbers = np.zeros(len(requests))
    if temperatures.any():  # else nothing is drawn
        if positions is None:
            sizes = _column(requests, "num_tokens_with_placeholders", np.int64)
            positions = sizes - _column(requests, "num_prompt_tokens", np.int64)
        seeds = _column(requests, "seed", np.uint64)
        numbers = uniforms(seeds, np.asarray(positions, np.int64))
    return SamplingInput(
        temperatures=temperatures,
        draws=numbers,
        grammar_states=_grammar_states(states),
        sample_rows=_column(requests, "sample_row", np.int32),
        filters=filters,
        adjustments=adjustments,
        masks=hosted if masks is None else masks,
    )


def _grammar_states(states: Sequence[RequestState]) -> Ints:
    """Return the state of each row in the device tables, or UNCONSTRAINED."""
    numbers = [UNCONSTRAINED if s.table_offset is None else _device_state(s) for s in states]
    return np.array(numbers, np.int32)


def _device_state(state: RequestState) -> int:
    """Return the state of a grammar in the device tables."""
    offset, constraint = state.table_offset, state.constraint
    assert offset is not None and constraint is not None
    return PREVIOUS if state.request.num_placeholders else offset + constraint.state


def _column(requests: Sequence[Request], name: str, dtype: Any) -> NDArray[Any]:
    """Return an attribute of all requests."""
    return np.fromiter(map(attrgetter(name), requests), dtype, len(requests))


def _row_mask(state: RequestState) -> RowMask:
    """Return the tokens allowed next."""
    constraint = state.constraint
    assert constraint is not None
    return _mask(state, constraint.allowed_tokens(), constraint.may_end)


def _tail_mask(state: RequestState, index: int) -> RowMask:
    """Return the tokens allowed at the position of tail token `index`."""
    constraint = state.constraint
    assert constraint is not None
    return _mask(state, constraint.allowed_in_tail(index), constraint.tail[index].may_end)


def _mask(state: RequestState, allowed: NDArray[np.bool_], may_end: bool) -> RowMask:
    return RowMask(
        allowed, np.array(list(state.stop_tokens), np.int64), may_end and not state.banned
    )


def _adjustment(state: RequestState) -> Adjustment:
    """Return the penalties, biases and bans of a request."""
    request, params = state.request, state.request.params
    repeated, penalized = NO_TOKENS, NO_TOKENS
    penalties: Floats = np.empty(0)

    if params.repetition_penalty != 1:
        items = request.items
        tokens = request.tokens if items is None else items.without_items(request.tokens)
        repeated = np.unique(tokens).astype(np.int64)
    if params.frequency_penalty or params.presence_penalty:
        penalized, counts = np.unique(request.output, return_counts=True)
        penalties = (counts * params.frequency_penalty + params.presence_penalty).astype(float)
    biased, biases = zip(*params.logit_bias, strict=True) if params.logit_bias else ((), ())

    return Adjustment(
        repeated=repeated,
        repetition_penalty=params.repetition_penalty,
        penalized=penalized.astype(np.int64),
        penalties=penalties,
        biased=np.array(biased, np.int64),
        biases=np.array(biases, np.float64),
        banned=np.array(sorted(state.banned), np.int64),
    )


NO_TOKENS: Longs = np.empty(0, np.int64)
NO_SAMPLING = _sampling_input([])
