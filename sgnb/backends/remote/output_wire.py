"""Outputs of requests as data. A streamed output is the difference from the last sent output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ...engine.request.approximation import Approximation
from ...engine.request.output import Output, TokenLogprob, TokenRecord
from ...engine.request.tokenizer import Tokenizer
from ...sampling import SamplingParams
from .wire import WireFailure, error_of, failure_of


class WireDetails(msgspec.Struct, array_like=True):
    """Fields of an `Output` that plain outputs do not have. Each list begins after the first items,
    `counts` of them, which equal the items of the last output of the request."""

    counts: tuple[int, ...]  # of each list
    logprobs: list[float]
    prompt_logprobs: list[float | None]
    top_logprobs: list[list[TokenLogprob]]
    prompt_top_logprobs: list[list[TokenLogprob]]
    records: list[TokenRecord]
    scored_ids: list[int]
    error: WireFailure | None
    reasoning: str
    next_token: int | None
    approximate: tuple[int, int, int, int] | None  # arguments of `Approximation`


class WireOutput(msgspec.Struct, array_like=True):
    """An `Output` of the request `tag`. `text` and `token_ids` begin after the first `kept_text`
    characters and `kept_tokens` tokens of the last output of the request."""

    tag: int
    kept_text: int
    text: str
    kept_tokens: int
    token_ids: list[int]
    prompt_tokens: int
    cached_tokens: int
    finish_reason: str | None
    stopped_by: str | int | None
    id: str
    e2e_latency: float
    details: WireDetails | None


LISTS = (
    "logprobs", "prompt_logprobs", "top_logprobs", "prompt_top_logprobs", "records", "scored_ids",
)  # fmt: skip
"""Fields of `WireDetails` with items that the last output may have."""

EMPTY = Output("", [], 0, 0, None)
"""Output before the first output of a request."""


def encode_output(tag: int, output: Output, last: Output = EMPTY) -> WireOutput:
    """Return an output as data. A step calls this function for each streamed request.

    Args:
        tag: Number of the request, chosen by the client.
        output: Output of the request.
        last: Output that the client received before.
    """
    text, tokens = output.text, output.token_ids
    kept_text, kept_tokens = _common(last.text, text), _common(last.token_ids, tokens)
    return WireOutput(
        tag,
        kept_text,
        text[kept_text:],
        kept_tokens,
        tokens[kept_tokens:],
        output.prompt_tokens,
        output.cached_tokens,
        output.finish_reason,
        output.stopped_by,
        output.id,
        output.e2e_latency,
        _encode_details(output, last) if _has_details(output) else None,
    )


def _common(old: Sequence[Any], new: Sequence[Any]) -> int:
    """Return the length of `old` if `new` begins with `old`, otherwise 0."""
    length = len(old)
    return length if new[:length] == old else 0


def _has_details(output: Output) -> bool:
    return bool(
        output.logprobs
        or output.prompt_logprobs
        or output.top_logprobs
        or output.prompt_top_logprobs
        or output.records
        or output.scored_ids
        or output.reasoning
        or output.error is not None
        or output.next_token is not None
        or output.approximate is not None
    )


def _encode_details(output: Output, last: Output) -> WireDetails:
    counts = [_common(getattr(last, name), getattr(output, name)) for name in LISTS]
    lists: dict[str, Any] = {
        name: getattr(output, name)[count:] for name, count in zip(LISTS, counts, strict=True)
    }
    return WireDetails(
        counts=tuple(counts),
        **lists,
        error=None if output.error is None else failure_of(output.error),
        reasoning=output.reasoning,
        next_token=output.next_token,
        approximate=None if output.approximate is None else _arguments(output.approximate),
    )


def _arguments(answer: Approximation) -> tuple[int, int, int, int]:
    return answer.prompt_tokens, answer.computed_tokens, answer.reused_tokens, answer.donor


def decode_output(
    wire: WireOutput, params: SamplingParams, tokenizer: Tokenizer | None, last: Output = EMPTY
) -> Output:
    """Return the output of received data.

    Args:
        wire: The data.
        params: Parameters of the request.
        tokenizer: Tokenizer of the model, for token texts.
        last: Last output of the request.

    Raises:
        ValueError: The data does not fit the last output.
    """
    text = _joined(last.text, wire.kept_text, wire.text)
    has_texts = tokenizer is not None and params.return_text_in_logprobs
    details = {} if wire.details is None else _decode_details(wire.details, last)
    return Output(
        text,
        _joined(last.token_ids, wire.kept_tokens, wire.token_ids),
        wire.prompt_tokens,
        wire.cached_tokens,
        wire.finish_reason,
        wire.stopped_by,
        delta=text[len(last.text) :],
        id=wire.id,
        e2e_latency=wire.e2e_latency,
        params=params,
        token_text=tokenizer.text if tokenizer is not None and has_texts else None,
        **details,
    )


def _joined(old: Any, count: int, new: Any) -> Any:
    if not 0 <= count <= len(old):
        raise ValueError(f"{count} of {len(old)} items are kept")
    return old[:count] + new


def _decode_details(wire: WireDetails, last: Output) -> dict[str, Any]:
    if len(wire.counts) != len(LISTS):
        raise ValueError(f"{len(wire.counts)} lengths for {len(LISTS)} lists")
    lists = {
        name: _joined(getattr(last, name), count, getattr(wire, name))
        for name, count in zip(LISTS, wire.counts, strict=True)
    }
    return lists | {
        "error": None if wire.error is None else error_of(wire.error),
        "reasoning": wire.reasoning,
        "next_token": wire.next_token,
        "approximate": None if wire.approximate is None else Approximation(*wire.approximate),
    }
