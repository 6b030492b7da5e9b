"""Answers in OpenAI's format, whole or streamed in chunks."""

from __future__ import annotations

from typing import Any

from ...sampling import SamplingParams
from .endpoint import Answer, Sample, Tokens, Triple
from .failures import HalfAnswer
from .fields import check_length, count_of, name_of, text_of, triple_of


class Collected:
    """An answer, or the chunks of a stream so far. Malformed data raises arbitrary exceptions."""

    def __init__(self, answer: Any = None) -> None:
        self.id = ""
        self._other: Any = None  # last chunk without an answer
        self._texts: dict[int, list[str]] = {}
        self._reasoning: dict[int, list[str]] = {}
        self._refusals: dict[int, list[str]] = {}
        self._finish: dict[int, str] = {}
        self._logprobs: dict[int, list[Any]] = {}
        self._tokens = Tokens()
        self._length = 0  # characters of all texts
        if answer is not None:
            self.add(answer)

    def add(self, chunk: Any) -> str:
        """Add a chunk. Returns the new part of the first text."""
        first = ""
        choices = getattr(chunk, "choices", None)
        if choices is None:
            self._other = chunk
            return first
        self.id = name_of(chunk.id) or self.id
        for choice in choices:
            at = count_of(choice.index)
            part = _part(choice)
            text = text_of(getattr(choice, "text", None) if part is None else part.content)
            self._texts.setdefault(at, []).append(text)
            thought = text_of(getattr(part, "reasoning_content", None))
            self._reasoning.setdefault(at, []).append(thought)
            refusal = text_of(getattr(part, "refusal", None))
            self._refusals.setdefault(at, []).append(refusal)
            self._length += len(text) + len(thought) + len(refusal)
            check_length(self._length)
            if choice.finish_reason:
                self._finish[at] = name_of(choice.finish_reason)
            self._logprobs.setdefault(at, []).extend(_rows(getattr(choice, "logprobs", None)))
            first += text if at == 0 else ""
        if usage := getattr(chunk, "usage", None):
            self._tokens = tokens_of(usage)
        return first

    def answer(self, params: SamplingParams) -> Answer:
        """Return the complete answer. Raises HalfAnswer for a text without an end, ValueError
        without any text."""
        if not self._texts and self._other is not None:
            raise ValueError(str(getattr(self._other, "error", None) or self._other))
        if not self._texts or self._texts.keys() - self._finish.keys():
            raise HalfAnswer
        samples = (self._sample(at, params) for at in sorted(self._texts)[: params.n])
        return Answer(tuple(samples), self._tokens, self.id)

    def _sample(self, at: int, params: SamplingParams) -> Sample:
        meta: dict[str, Any] = {}
        if params.return_logprob:
            rows = self._logprobs[at]
            meta["output_token_logprobs"] = [own for own, _ in rows]
            meta["output_top_logprobs"] = [top for _, top in rows if params.top_logprobs_num]
        if reasoning := "".join(self._reasoning[at]):
            meta["reasoning"] = reasoning
        finish = self._finish[at]
        if refusal := "".join(self._refusals[at]):
            meta["refusal"], finish = refusal, "refusal"
        return Sample("".join(self._texts[at]), finish, None, meta)


def _part(choice: Any) -> Any:
    """Return a chat choice's message or delta; None for a completion."""
    return getattr(choice, "message", None) or getattr(choice, "delta", None)


def tokens_of(usage: Any) -> Tokens:
    details = getattr(usage, "prompt_tokens_details", None)
    cached = count_of(getattr(details, "cached_tokens", None))
    return Tokens(count_of(usage.prompt_tokens), cached, count_of(usage.completion_tokens))


def _rows(logprobs: Any) -> list[tuple[Triple, list[Triple]]]:
    """Return, per token, its triple and the triples of the top alternatives. Services identify
    tokens by text only."""
    if logprobs is None:
        return []
    if (content := getattr(logprobs, "content", None)) is not None:
        return [
            (
                triple_of((row.logprob, -1, row.token)),
                [triple_of((top.logprob, -1, top.token)) for top in row.top_logprobs],
            )
            for row in content
        ]
    own = zip(logprobs.token_logprobs or (), logprobs.tokens or (), strict=True)
    tops = logprobs.top_logprobs or [{}] * len(logprobs.tokens or ())
    return [
        (triple_of((value, -1, text)), [triple_of((v, -1, t)) for t, v in (top or {}).items()])
        for (value, text), top in zip(own, tops, strict=True)
    ]
