"""Answers in OpenAI's shapes, whole or chunk by chunk, which many services speak."""

from __future__ import annotations

from typing import Any

from ...errors import shown
from ...sampling import SamplingParams
from .endpoint import Answer, Sample, Tokens, Triple
from .failures import HalfAnswer


class Collected:
    """What an answer, or a stream's chunks so far, say. Whatever is no answer raises something."""

    def __init__(self, answer: Any = None) -> None:
        self.id = ""
        self._other: Any = None  # the last chunk that is none
        self._texts: dict[int, str] = {}
        self._reasoning: dict[int, str] = {}
        self._refusals: dict[int, str] = {}
        self._finish: dict[int, str] = {}
        self._logprobs: dict[int, list[Any]] = {}
        self._tokens = Tokens()
        if answer is not None:
            self.add(answer)

    def add(self, chunk: Any) -> str:
        """Take a chunk; the first text's new part."""
        first = ""
        choices = getattr(chunk, "choices", None)
        if choices is None:
            self._other = chunk
            return first
        self.id = chunk.id or self.id
        for choice in choices:
            at = choice.index or 0
            part = _part(choice)
            text = _text(getattr(choice, "text", None) if part is None else part.content)
            self._texts[at] = self._texts.get(at, "") + text
            thought = getattr(part, "reasoning_content", None) or ""
            self._reasoning[at] = self._reasoning.get(at, "") + thought
            refusal = getattr(part, "refusal", None) or ""
            self._refusals[at] = self._refusals.get(at, "") + refusal
            if choice.finish_reason:
                self._finish[at] = choice.finish_reason
            self._logprobs.setdefault(at, []).extend(_rows(getattr(choice, "logprobs", None)))
            first += text if at == 0 else ""
        if usage := getattr(chunk, "usage", None):
            self._tokens = tokens_of(usage)
        return first

    def answer(self, params: SamplingParams) -> Answer:
        """All of it. HalfAnswer where a text has no end, ValueError where none is there."""
        if not self._texts and self._other is not None:
            raise ValueError(str(getattr(self._other, "error", None) or self._other))
        if not self._texts or self._texts.keys() - self._finish.keys():
            raise HalfAnswer
        samples = (self._sample(at, params) for at in sorted(self._texts))
        return Answer(tuple(samples), self._tokens, self.id)

    def _sample(self, at: int, params: SamplingParams) -> Sample:
        meta: dict[str, Any] = {}
        if params.return_logprob:
            rows = self._logprobs[at]
            meta["output_token_logprobs"] = [own for own, _ in rows]
            meta["output_top_logprobs"] = [top for _, top in rows if params.top_logprobs_num]
        if self._reasoning[at]:
            meta["reasoning"] = self._reasoning[at]
        finish = self._finish[at]
        if self._refusals[at]:
            meta["refusal"], finish = self._refusals[at], "refusal"
        return Sample(self._texts[at], finish, None, meta)


def _part(choice: Any) -> Any:
    """Of a conversation the message or its new part; None of a completion."""
    return getattr(choice, "message", None) or getattr(choice, "delta", None)


def _text(content: Any) -> str:
    """With no half of a surrogate pair: no prompt could have it."""
    if not isinstance(content, str | None):
        raise ValueError(f"its content is {shown(content)}")
    return (content or "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def tokens_of(usage: Any) -> Tokens:
    details = getattr(usage, "prompt_tokens_details", None)
    cached = getattr(details, "cached_tokens", None) or 0
    return Tokens(usage.prompt_tokens or 0, cached, usage.completion_tokens or 0)


def _rows(logprobs: Any) -> list[tuple[Triple, list[Triple]]]:
    """Of each token its own triple and those of the likeliest in its place. Services name tokens by
    their texts alone."""
    if logprobs is None:
        return []
    if (content := getattr(logprobs, "content", None)) is not None:
        return [
            (
                (one.logprob, -1, one.token),
                [(top.logprob, -1, top.token) for top in one.top_logprobs],
            )
            for one in content
        ]
    own = zip(logprobs.token_logprobs or (), logprobs.tokens or (), strict=True)
    tops = logprobs.top_logprobs or [{}] * len(logprobs.tokens or ())
    return [
        ((value, -1, text), [(v, -1, t) for t, v in (top or {}).items()])
        for (value, text), top in zip(own, tops, strict=True)
    ]
