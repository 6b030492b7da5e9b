"""Outputs of requests as data. A streamed output is the difference from the last sent output."""

from __future__ import annotations

from typing import Any

import msgspec

from ...engine.request.approximation import Approximation
from ...engine.request.output import Output, TokenLogprob, TokenRecord
from ...engine.request.tokenizer import Tokenizer
from ...sampling import SamplingParams
from .wire import Failure, error_of, failure_of


class WireOutput(msgspec.Struct, array_like=True):
    """An `Output` of the request `tag`. Each list field begins after the first `kept` items, which
    equal the items of the last output of the request; likewise `text`."""

    tag: int
    kept: tuple[int, ...]  # of `text`, then of the list fields
    text: str
    token_ids: list[int]
    logprobs: list[float]
    prompt_logprobs: list[float | None]
    top_logprobs: list[list[TokenLogprob]]
    prompt_top_logprobs: list[list[TokenLogprob]]
    records: list[TokenRecord]
    scored_ids: list[int]
    prompt_tokens: int
    cached_tokens: int
    finish_reason: str | None
    stopped_by: str | int | None
    error: Failure | None
    reasoning: str
    id: str
    e2e_latency: float
    next_token: int | None
    approximate: tuple[int, int, int, int] | None  # arguments of `Approximation`


_GROWING = (
    "text",
    "token_ids",
    "logprobs",
    "prompt_logprobs",
    "top_logprobs",
    "prompt_top_logprobs",
    "records",
    "scored_ids",
)
_FIXED = (
    "prompt_tokens",
    "cached_tokens",
    "finish_reason",
    "stopped_by",
    "reasoning",
    "id",
    "e2e_latency",
    "next_token",
)
EMPTY = Output("", [], 0, 0, None)
"""Output before the first output of a request."""


def encode_output(tag: int, output: Output, last: Output = EMPTY) -> WireOutput:
    """Return an output as data.

    Args:
        tag: Number of the request, chosen by the client.
        output: Output of the request.
        last: Output that the client received before.
    """
    kept, rest = [], []
    for name in _GROWING:
        old, new = getattr(last, name), getattr(output, name)
        count = len(old) if len(old) <= len(new) and new[: len(old)] == old else 0
        kept.append(count)
        rest.append(new[count:] if count else new)
    approximation = output.approximate
    values = {name: getattr(output, name) for name in _FIXED}
    values |= dict(zip(_GROWING, rest, strict=True))
    return WireOutput(
        tag=tag,
        kept=tuple(kept),
        error=None if output.error is None else failure_of(output.error),
        approximate=None if approximation is None else _facts(approximation),
        **values,
    )


def _facts(approximation: Approximation) -> tuple[int, int, int, int]:
    return (
        approximation.prompt_tokens,
        approximation.computed_tokens,
        approximation.reused_tokens,
        approximation.donor,
    )


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
    values: dict[str, Any] = {name: getattr(wire, name) for name in _FIXED}
    if len(wire.kept) != len(_GROWING):
        raise ValueError(f"{len(wire.kept)} lengths for {len(_GROWING)} fields")
    for name, count in zip(_GROWING, wire.kept, strict=True):
        old, rest = getattr(last, name), getattr(wire, name)
        if not 0 <= count <= len(old):
            raise ValueError(f"{name}: {count} items of {len(old)} are kept")
        values[name] = old[:count] + rest if count else rest

    has_texts = tokenizer is not None and params.return_text_in_logprobs
    return Output(
        **values,
        delta=values["text"][len(last.text) :],
        error=None if wire.error is None else error_of(wire.error),
        params=params,
        token_text=tokenizer.text if tokenizer is not None and has_texts else None,
        approximate=None if wire.approximate is None else Approximation(*wire.approximate),
    )
