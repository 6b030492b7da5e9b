"""Responses in OpenAI's format: checked fields, assembly of streams, and echoed prompts.

A service may send any JSON value in any field.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from ...errors import RequestError, ServiceError, shown
from ...lang.executor import ChoiceScore, ScoreCall
from ...sampling import SamplingParams
from .client_guard import Refusal
from .endpoint import CompletionResponse, RawCall, Sample, Tokens
from .transport import IncompleteResponse

MAX_COUNT = 2**53
MAX_TEXT = 2**20
"""Maximum number of characters of a response's texts. Views and logs hold whole texts."""

MAX_NAME = 200
"""Maximum number of characters of a finish reason, an id or a model name."""

TokenLogprob = tuple[float | None, int, str | None]
"""SGLang's format: log-probability, token id (-1 if unknown), text."""

EchoedToken = tuple[float | None, str, int]
"""Log-probability, text, start offset in characters."""


def count_of(value: Any) -> int:
    """Return a number of tokens; 0 for anything else."""
    return value if isinstance(value, int) and 0 <= value <= MAX_COUNT else 0


def text_of(value: Any) -> str:
    """Return a text, "" for None, without halves of surrogate pairs, which no prompt can have.

    Raises:
        ValueError: `value` is neither.
        Refusal: The text is longer than `MAX_TEXT`.
    """
    if not isinstance(value, str | None):
        raise ValueError(f"its content is {shown(value)}")
    _check_length(len(value or ""))
    return (value or "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _check_length(length: int) -> None:
    if length > MAX_TEXT:
        message = f"its text has more than {MAX_TEXT:,} characters"
        raise Refusal("too large", message, "ask for fewer tokens or samples")


def name_of(value: Any) -> str:
    """Return a short text. Raises ValueError as `text_of`."""
    return text_of(value)[:MAX_NAME]


def logprob_of(value: Any) -> float | None:
    """Return a log-probability, None for None. Raises ValueError for anything else."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise ValueError(f"a log-probability is {shown(value)}")
    return float(value)


def score_of(value: Any) -> float:
    """Return a log-probability of a choice's token. Raises ValueError for anything else."""
    logprob = logprob_of(value)
    if logprob is None:
        raise ValueError("a choice has a token without a log-probability")
    return logprob


def token_logprob_of(row: Any) -> TokenLogprob:
    """Return log-probability, token and text. Raises ValueError for anything else."""
    if not isinstance(row, list | tuple) or len(row) != 3 or not isinstance(row[1], int):
        raise ValueError(f"a token's log-probability is {shown(row)}")
    return logprob_of(row[0]), row[1], None if row[2] is None else text_of(row[2])


def tokens_of(usage: Any) -> Tokens:
    """Return the token counts of a usage record."""
    details = getattr(usage, "prompt_tokens_details", None)
    cached = count_of(getattr(details, "cached_tokens", None))
    return Tokens(count_of(usage.prompt_tokens), cached, count_of(usage.completion_tokens))


class StreamAssembly:
    """The chunks of a response so far; a whole response is a single chunk. Malformed data raises
    arbitrary exceptions."""

    def __init__(self) -> None:
        self.id = ""
        self._without_choices: Any = None  # last chunk without choices, such as an error
        self._texts: dict[int, list[str]] = {}  # by choice, as the next five
        self._reasoning: dict[int, list[str]] = {}
        self._refusals: dict[int, list[str]] = {}
        self._finish: dict[int, str] = {}
        self._logprobs: dict[int, list[Any]] = {}
        self._calls: dict[int, dict[int, RawCall]] = {}  # by choice and index
        self._tokens = Tokens()
        self._length = 0  # characters of all texts

    def add(self, chunk: Any) -> str:
        """Add a chunk. Returns the new part of the first text."""
        choices = getattr(chunk, "choices", None)
        if choices is None:
            self._without_choices = chunk
            return ""

        self.id = name_of(chunk.id) or self.id
        first = ""
        for choice in choices:
            index = count_of(choice.index)
            part = _chat_part(choice)
            text = text_of(getattr(choice, "text", None) if part is None else part.content)
            reasoning = text_of(getattr(part, "reasoning_content", None))
            refusal = text_of(getattr(part, "refusal", None))
            self._length += len(text) + len(reasoning) + len(refusal) + self._add_calls(index, part)
            _check_length(self._length)

            self._texts.setdefault(index, []).append(text)
            self._reasoning.setdefault(index, []).append(reasoning)
            self._refusals.setdefault(index, []).append(refusal)
            self._logprobs.setdefault(index, []).extend(_rows(getattr(choice, "logprobs", None)))
            if choice.finish_reason:
                self._finish[index] = name_of(choice.finish_reason)
            first += text if index == 0 else ""

        if usage := getattr(chunk, "usage", None):
            self._tokens = tokens_of(usage)
        return first

    def _add_calls(self, choice: int, part: Any) -> int:
        """Add the tool calls of a message, or the new parts of calls. Returns the number of
        characters."""
        calls, length = self._calls.setdefault(choice, {}), 0
        for entry in getattr(part, "tool_calls", None) or ():
            function = entry.function
            new = RawCall(
                name_of(getattr(entry, "id", None)),
                name_of(getattr(function, "name", None)),
                text_of(getattr(function, "arguments", None)),
            )
            index = getattr(entry, "index", None)
            if not isinstance(index, int):  # a whole message, or a service without indices
                is_whole = bool(new.name)
                index = len(calls) if is_whole or not calls else max(calls)

            earlier = calls.get(index, RawCall("", "", ""))
            calls[index] = RawCall(
                earlier.id or new.id,
                earlier.name or new.name,
                earlier.arguments + new.arguments,
            )
            length += 1 + len(new.id) + len(new.name) + len(new.arguments)
        return length

    def response(self, params: SamplingParams) -> CompletionResponse:
        """Return the complete response. Raises IncompleteResponse for a text without an end,
        ValueError without any text."""
        if not self._texts and self._without_choices is not None:
            error = getattr(self._without_choices, "error", None)
            raise ValueError(str(error or self._without_choices))
        if not self._texts or self._texts.keys() - self._finish.keys():
            raise IncompleteResponse
        samples = (self._sample(index, params) for index in sorted(self._texts)[: params.n])
        return CompletionResponse(tuple(samples), self._tokens, self.id)

    def _sample(self, index: int, params: SamplingParams) -> Sample:
        meta: dict[str, Any] = {}
        if params.return_logprob:
            rows = self._logprobs[index]
            meta["output_token_logprobs"] = [sampled for sampled, _ in rows]
            meta["output_top_logprobs"] = [top for _, top in rows if params.top_logprobs_num]
        if reasoning := "".join(self._reasoning[index]):
            meta["reasoning"] = reasoning
        finish = self._finish[index]
        if refusal := "".join(self._refusals[index]):
            meta["refusal"], finish = refusal, "refusal"
        calls = tuple(call for _, call in sorted(self._calls[index].items()))
        return Sample("".join(self._texts[index]), finish, None, meta, calls)


def assembled(response: Any, params: SamplingParams) -> CompletionResponse:
    """Return a whole response. Raises as `StreamAssembly.response`."""
    assembly = StreamAssembly()
    assembly.add(response)
    return assembly.response(params)


def _chat_part(choice: Any) -> Any:
    """Return a chat choice's message or delta; None for a completion."""
    return getattr(choice, "message", None) or getattr(choice, "delta", None)


def _rows(logprobs: Any) -> list[tuple[TokenLogprob, list[TokenLogprob]]]:
    """Return each token and its top alternatives. Services identify tokens by text only."""
    if logprobs is None:
        return []
    if (content := getattr(logprobs, "content", None)) is not None:
        return [
            (
                token_logprob_of((row.logprob, -1, row.token)),
                [token_logprob_of((top.logprob, -1, top.token)) for top in row.top_logprobs],
            )
            for row in content
        ]

    sampled = zip(logprobs.token_logprobs or (), logprobs.tokens or (), strict=True)
    tops = logprobs.top_logprobs or [{}] * len(logprobs.tokens or ())
    return [
        (
            token_logprob_of((value, -1, text)),
            [token_logprob_of((logprob, -1, token)) for token, logprob in (top or {}).items()],
        )
        for (value, text), top in zip(sampled, tops, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Echo:
    """The tokens of the prompt with each choice and their log-probabilities, plus one generated
    token: the response of a completion service with `echo`."""

    call: ScoreCall
    rows: tuple[tuple[EchoedToken, ...], ...]
    start: int  # start in characters of the first token that overlaps a choice

    @classmethod
    def read(cls, call: ScoreCall, response: Any) -> Echo | None:
        """Parse a response; None if the service did not echo the prompts with log-probabilities."""
        rows = _echoed_rows(response, [call.prompt + choice for choice in call.choices])
        if rows is None:
            return None
        end = len(call.prompt)
        start = min(begin for row in rows for _, text, begin in row if begin + len(text) > end)
        if start == 0:
            message = f"select {call.name!r} has no text before its choices"
            raise RequestError(message, "put some text before it")
        return cls(call, rows, start)

    def scored_texts(self) -> list[str]:
        """Return the scored text of each choice."""
        return [(self.call.prompt + choice)[self.start :] for choice in self.call.choices]

    def scores(
        self, unconditional: list[tuple[float | None, ...]] | None = None
    ) -> tuple[ChoiceScore, ...]:
        """Return the scores. `unconditional`: log-probabilities of each choice without the
        prompt."""
        rows = unconditional or [()] * len(self.rows)
        return tuple(self._score(index, row) for index, row in enumerate(rows))

    def _score(self, index: int, unconditional: tuple[float | None, ...]) -> ChoiceScore:
        end = len(self.call.prompt + self.call.choices[index])
        row = self.rows[index]
        scored = [token for token in row if self.start <= token[2] < end]
        values, texts, _ = zip(*scored, strict=True)
        values = tuple(map(score_of, values))
        following = tuple((value, -1, text) for value, text, begin in row if begin >= end)
        return ChoiceScore((-1,) * len(texts), values, unconditional, texts, following[:1])

    def unconditional_logprobs(self, response: Any) -> list[tuple[float | None, ...]]:
        """Return the log-probabilities of each choice without the prompt, from the echo of
        `scored_texts`. Raises ServiceError for different tokens."""
        texts = self.scored_texts()
        rows = _echoed_rows(response, texts) or ()
        result = []
        for score, row, text in zip(self.scores(), rows, texts, strict=True):
            values = [(value, token) for value, token, begin in row if begin < len(text)]
            if tuple(token for _, token in values) != score.texts:
                message = f"select {self.call.name!r}: without the prompt {text!r} is other tokens"
                raise ServiceError(message, "choose by another choices_method")
            result.append(tuple(value for value, _ in values))
        return result


def _echoed_rows(response: Any, texts: list[str]) -> tuple[tuple[EchoedToken, ...], ...] | None:
    choices = sorted(response.choices, key=lambda choice: choice.index)
    if len(choices) != len(texts):
        return None
    rows = []
    for choice, text in zip(choices, texts, strict=True):
        logprobs = choice.logprobs
        if logprobs is None or not logprobs.tokens or not choice.text.startswith(text):
            return None
        begins = [0, *accumulate(map(len, logprobs.tokens))][:-1]
        values = map(logprob_of, logprobs.token_logprobs)
        rows.append(tuple(zip(values, logprobs.tokens, begins, strict=True)))
    return tuple(rows)
