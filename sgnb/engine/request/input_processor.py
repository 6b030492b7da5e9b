"""Validation of prompts and parameters: token ids, samples, limits.

Runs on the caller's thread before a request is queued. Knows no model and no running request.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import OptionError, RequestError, SgnbError, SgnbWarning, shown
from ...sampling import SamplingParams, read_option
from ...segment import Segment
from ..cache.radix import Ints
from ..items import ItemTable, PromptItems
from .tokenizer import Tokenizer

Prompt = str | Sequence[int]
Sampling = SamplingParams | Mapping[str, Any] | None


class Samples(NamedTuple):
    """Samples to draw: one prompt and one SamplingParams per sample."""

    prompts: list[Prompt]  # one per sample
    params: list[SamplingParams]  # one per sample
    alone: bool  # the caller passed a single prompt for a single sample


def read_samples(
    prompt: Any, sampling_params: Any, sampling: dict[str, Any], stream: bool
) -> Samples:
    """Expand the arguments of `Engine.generate` into samples, each prompt n times. Raises
    OptionError for contradictory arguments."""
    try:
        prompts, several = _split_prompts(prompt)
    except Exception as error:  # raised by a caller's class
        raise _no_prompt(prompt) from error

    each = [sampling_params] * len(prompts)
    if isinstance(sampling_params, (list, tuple)):
        each = read_option("sampling_params", sampling_params, "a dict, or a list of dicts", list)
    if len(each) != len(prompts):
        raise OptionError(
            f"{len(each)} sampling_params for {len(prompts)} prompts",
            "give one for all prompts, or one per prompt",
        )

    params = [SamplingParams.make(p, **sampling) for p in each]
    for ignored in {param.ignored for param in params} - {""}:
        warnings.warn(ignored, SgnbWarning, stacklevel=3)
    if stream and (several or params[0].n > 1):
        raise OptionError("stream=True takes one prompt and n=1", "stream each prompt separately")
    samples = [
        (p, sample)
        for p, shared in zip(prompts, params, strict=True)
        for sample in split_samples(shared)
    ]
    is_single = not several and len(samples) == 1
    return Samples([p for p, _ in samples], [sample for _, sample in samples], is_single)


def _split_prompts(prompt: Any) -> tuple[list[Any], bool]:
    """Return the prompts, and True if the argument may hold several prompts."""
    if hasattr(prompt, "tolist"):  # a tensor or an array of token ids
        prompt = prompt.tolist()
    if not isinstance(prompt, Iterable) or isinstance(prompt, (str, bytes, Mapping)):
        return [prompt], False
    prompts = list(prompt)
    if prompts and isinstance(prompts[0], Integral):
        return [prompts], False
    return prompts, True


def split_samples(params: SamplingParams) -> list[SamplingParams]:
    """Return n parameters with n=1, each with a distinct seed if a seed is set."""
    if params.n == 1:
        return [params]
    return [
        replace(params, n=1, seed=None if params.seed is None else params.seed + i)
        for i in range(params.n)
    ]


@dataclass(frozen=True, slots=True)
class InputProcessor:
    """Prompt validation against the limits of an engine."""

    model_name: str  # for error messages
    tokenizer: Tokenizer | None
    vocab_size: int
    context_length: int  # maximum tokens per request
    pool_tokens: int  # maximum tokens of all requests
    items: ItemTable | None = None  # None for a model of text

    def encode(self, prompts: Sequence[str | Sequence[Segment]]) -> list[list[int]]:
        """See `Tokenizer.encode`."""
        if self.tokenizer is None:
            raise RequestError(
                f"{self.model_name} has no tokenizer, so text cannot be read",
                "give token ids, or Engine(..., tokenizer=...)",
            )
        try:
            return self.tokenizer.encode(self._without_items([_plain(p) for p in prompts]))
        except SgnbError:
            raise
        except Exception as error:  # from segments with odd fields or a caller's class
            raise _no_prompt(prompts) from error

    def _without_items(
        self, prompts: list[str | Sequence[Segment]]
    ) -> list[str | Sequence[Segment]]:
        """Replace images, videos and sounds by their token ids."""
        contents = [
            segment.item
            for prompt in prompts
            if not isinstance(prompt, str)
            for segment in prompt
            if segment.kind == "media"
        ]
        if not contents:
            return prompts
        if self.items is None:
            raise RequestError(
                f"{self.model_name} takes text only",
                "load a multimodal model with its processor to give images, videos or sounds",
            )
        self.items.prepare(contents)
        return [p if isinstance(p, str) else self.items.segments(p) for p in prompts]

    def place_items(self, tokens: Ints) -> PromptItems | None:
        """Return the images, videos and sounds of a prompt; None for a prompt of text. Raises
        RequestError for incomplete items."""
        if self.items is None or tokens.max() < self.vocab_size:
            return None
        return self.items.place(tokens)

    def tokens(self, prompts: Sequence[Prompt]) -> list[Ints]:
        """Return the token ids of each prompt. Raises RequestError for invalid prompts and ids
        outside the vocabulary."""
        texts = [p for p in prompts if isinstance(p, str)]
        encoded = iter(self.encode(texts) if texts else [])
        return [self._checked(next(encoded) if isinstance(p, str) else p) for p in prompts]

    def _checked(self, prompt: Any) -> Ints:
        tokens = _integers(prompt)
        if not len(tokens):
            raise RequestError("the prompt is empty", "give at least one token")
        # Viewed as unsigned, negative ids are huge.
        end = self.vocab_size if self.items is None else self.items.end_id
        if tokens.dtype == np.int32 and tokens.view(np.uint32).max() < end:
            return tokens

        outside = (tokens < 0) | (tokens >= end)
        if outside.any():
            raise RequestError(
                f"token id {shown(tokens.item(outside.argmax()))} is outside the vocabulary of "
                f"{self.vocab_size}",
                "use the tokenizer of this model",
            )
        return tokens.astype(np.int32)

    def limit(self, tokens: Ints, params: SamplingParams) -> int:
        """Return the number of new tokens allowed by context and pool, at most max_new_tokens.
        Raises RequestError if the prompt leaves no room or the parameters need a missing feature of
        the model."""
        self._check_params(len(tokens), params)
        wants = 1 if params.max_new_tokens else 0
        for limit, size, hint in (
            ("context", self.context_length, "shorten the prompt"),
            (
                "KV pool",
                self.pool_tokens,
                "shorten the prompt or load with a larger max_total_tokens",
            ),
        ):
            if len(tokens) + wants > size:
                raise RequestError(
                    f"the prompt has {len(tokens)} tokens, the {limit} holds {size}", hint
                )
        most = 1 if params.scores_next else params.max_new_tokens
        return min(most, self.context_length - len(tokens), self.pool_tokens - len(tokens))

    def check_given(self, output: Sequence[int], limit: int, params: SamplingParams) -> None:
        """Raise RequestError if a request cannot begin with these output tokens."""
        if outside := [token for token in output if token >= self.vocab_size]:
            raise RequestError(
                f"given output token {outside[0]} is outside the vocabulary of {self.vocab_size}",
                "use ids of this model",
            )
        if output and (len(output) > limit or params.scores_next):
            raise RequestError(
                f"the given output has {len(output):,} tokens, and the limit is {limit:,}",
                "raise max_tokens, or give a shorter output",
            )

    def _check_params(self, prompt_length: int, params: SamplingParams) -> None:
        for option, used in (
            ("logit_bias", [token for token, _ in params.logit_bias]),
            ("stop_token_ids", params.stop_token_ids),
        ):
            for token in used:
                if not 0 <= token < self.vocab_size:
                    raise RequestError(
                        f"{option} names token {shown(token)}, outside the vocabulary of "
                        f"{self.vocab_size}",
                        "use ids of this model",
                    )

        if (params.stop or params.stop_regex) and self.tokenizer is None:
            raise RequestError(
                "stop strings need a tokenizer", "use stop_token_ids, or Engine(..., tokenizer=...)"
            )
        if params.return_logprob and params.logprob_start_len > prompt_length:
            raise RequestError(
                f"logprob_start_len={shown(params.logprob_start_len)} is beyond the prompt of "
                f"{prompt_length} tokens",
                "use a position in the prompt",
            )


def _integers(prompt: Any) -> NDArray:
    """Return the items of a prompt as an array; dtype object if an item overflows int64."""
    if isinstance(prompt, list):
        try:
            return np.frombuffer(struct.pack(f"{len(prompt)}i", *prompt), np.int32)
        except Exception:
            pass  # items are not all numbers, or too large

    try:
        if isinstance(prompt, (bytes, Mapping)):
            raise TypeError("their items are not token ids")
        array = np.asarray(prompt)
        return (
            array
            if array.dtype.kind in "iu" and array.ndim == 1
            else np.array([index(t) for t in prompt])
        )
    except Exception:  # also from a caller's class
        raise _no_prompt(prompt) from None


def _no_prompt(prompt: Any) -> RequestError:
    hint = "give a string or a list of token ids, or a list of either"
    return RequestError(f"{shown(prompt)} is not a prompt", hint)


def _plain(prompt: str | Sequence[Segment]) -> str | Sequence[Segment]:
    """Convert texts to exact `str`: the tokenizer caches texts by hash."""
    if isinstance(prompt, str):
        return str.__str__(prompt)
    if all(type(segment.text) is str for segment in prompt):
        return prompt
    return [segment._replace(text=str.__str__(segment.text)) for segment in prompt]
