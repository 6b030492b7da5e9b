"""Speculative execution of API calls: a request writes beyond the end of its call, and later calls
read the speculative text.

A request omits the call's stops. Text after the stop answers the program's next constants and
generations if the format matches. Each branch stores its unused text; branches share nothing, and
the text ends with the program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import ServiceError, shown
from ...grammar.schema.strict_json import InvalidAnswer, read_prefix
from ...lang.executor import Call, LookaheadBuffer, Result, ScoreCall, Scores
from ...lang.ir import RoleBegin
from ...sampling import SamplingParams
from .call_state import CallState
from .endpoint import CompletionRequest, CompletionResponse, Endpoint, Sample, Tokens
from .formats import FormatMismatch, match_format
from .media_parts import media_in, with_text

RequestOf = Callable[[Call], CompletionRequest]
Send = Callable[
    [Callable[[], Awaitable[CompletionResponse]], CompletionRequest, CallState],
    Awaitable[CompletionResponse],
]


class LookaheadMismatch(Exception):
    """Speculative text cannot answer a call. `reason` is the two-word label in the usage table."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Lookahead:
    """Text of a model after `prompt`, written ahead of the program.

    Services count tokens for whole prompts and answers. Token counts of parts are estimated from
    the answer's average token length.
    """

    model: Any  # endpoint that wrote the text
    id: str  # id of the response
    prompt: str
    text: str
    prompt_tokens: int
    text_tokens: int
    settings: SamplingParams  # sampling settings of the request; see `settings_of`
    stops: tuple[str, ...]  # stop strings of the request, absent from the text
    finish: str  # finish reason as in `Sample`; "stop" is an end token or a string of `stops`
    limit: int  # token limit of the request; 0 after partial use

    def at(self, prompt: str) -> Lookahead:
        """Return the unused text after `prompt`. Raises LookaheadMismatch if the model's text
        differs from `prompt`."""
        since = prompt[len(self.prompt) :]
        if not (prompt.startswith(self.prompt) and self.text.startswith(since)):
            raise LookaheadMismatch("other text")
        return self._after(len(since)) if since else self

    def answer(self, params: SamplingParams, max_tokens: int | None) -> LookaheadAnswer:
        """Return the answer to a call with this prompt.

        Raises LookaheadMismatch if the answer is missing, has no certain end or may exceed
        `max_tokens`. Slow if `params` contain a format.
        """
        if settings_of(params) != self.settings:
            raise LookaheadMismatch("other settings")
        ended = self.finish == "stop" and set(self.stops) <= set(params.stop)
        if not self.text and not (ended and (self.limit or max_tokens is None)):
            raise LookaheadMismatch("too short")

        if params.grammar is not None:
            answer = self._in_format(params, ended)
        else:
            answer = self._up_to_stop(params, ended, max_tokens)
        if max_tokens is not None and not self._fits(answer, max_tokens):
            raise LookaheadMismatch("too long")
        return answer

    def _fits(self, answer: LookaheadAnswer, max_tokens: int) -> bool:
        """Return whether the answer and its stop surely have at most `max_tokens` tokens."""
        if 0 < self.limit <= max_tokens:
            return True
        text = answer.text + (answer.sample.matched or "")
        return min(self._tokens(text), len(text.encode())) <= max_tokens  # a token has >= 1 byte

    def choice(self, choices: Sequence[str]) -> tuple[int, LookaheadAnswer]:
        """Return the longest of `choices` at the start of the text, or raise LookaheadMismatch."""
        matches = [index for index, choice in enumerate(choices) if self._begins_with(choice)]
        if not matches:
            raise LookaheadMismatch("no choice")
        index = max(matches, key=lambda index: len(choices[index]))
        return index, self._consume(0, len(choices[index]))

    def _begins_with(self, choice: str) -> bool:
        after = self.text[len(choice) : len(choice) + 1]
        whole = after and not (choice[-1].isalnum() and after.isalnum())
        ended = not after and self.finish == "stop"
        return self.text.startswith(choice) and bool(whole or ended)

    def _up_to_stop(
        self, params: SamplingParams, ended: bool, max_tokens: int | None
    ) -> LookaheadAnswer:
        if stop := first_stop(self.text, params.stop):
            return self._consume(0, *stop)
        if ended:
            return self._consume(0, len(self.text))
        if max_tokens in (self.limit, None):  # equal to a separate request, or unbounded
            return self._consume(0, len(self.text), finish=self.finish)
        raise LookaheadMismatch("too short")

    def _in_format(self, params: SamplingParams, ended: bool) -> LookaheadAnswer:
        """Match the format as in a separate answer; leading whitespace is optional."""
        text, blanks = self.text, len(self.text) - len(self.text.lstrip())
        if stop := first_stop(text, [stop for stop in params.stop if stop.strip()]):
            text, ended = text[: stop[0]], True
        try:
            if params.json_schema is not None:
                text = text[: read_prefix(text)[1]]
            match = match_format(Sample(text, "stop"), params)
        except (FormatMismatch, InvalidAnswer):
            raise LookaheadMismatch("format") from None

        begin = 0 if text.startswith(match) else blanks
        if not ended and begin + len(match) == len(self.text):
            raise LookaheadMismatch("too short")
        end, matched = first_stop(match, params.stop) or (len(match), None)
        return self._consume(begin, begin + end, matched)

    def _consume(
        self, begin: int, end: int, matched: str | None = None, finish: str = "stop"
    ) -> LookaheadAnswer:
        at_begin = replace(self._after(begin), prompt=self.prompt)
        remaining = at_begin._after(end - begin)
        sample = Sample(self.text[begin:end], finish, matched)
        return LookaheadAnswer(sample, at_begin.text_tokens - remaining.text_tokens, remaining)

    def _after(self, end: int) -> Lookahead:
        tokens = self._tokens(self.text[:end])
        return replace(
            self,
            prompt=self.prompt + self.text[:end],
            text=self.text[end:],
            prompt_tokens=self.prompt_tokens + tokens,
            text_tokens=self.text_tokens - tokens,
            limit=0,
        )

    def _tokens(self, part: str) -> int:
        return round(self.text_tokens * len(part.encode()) / max(1, len(self.text.encode())))


@dataclass(frozen=True, slots=True)
class LookaheadAnswer:
    """The answer to a call and the unused text after the answer."""

    sample: Sample
    num_tokens: int
    remaining: Lookahead

    @property
    def text(self) -> str:
        return self.sample.text


def settings_of(params: SamplingParams) -> SamplingParams:
    """Return the parameters that affect sampling, without the parameters that end a call's text."""
    plain = SamplingParams()
    return replace(
        params,
        stop=plain.stop,
        max_new_tokens=plain.max_new_tokens,
        regex=None,
        json_schema=None,
        ebnf=None,
        json_whitespace=None,
        json_strict=plain.json_strict,
        leading_blank=plain.leading_blank,
    )


def first_stop(text: str, stops: Sequence[str]) -> tuple[int, str] | None:
    """Return the position and the string of the first stop in `text`."""
    positions = ((text.find(stop), stop) for stop in stops)
    return min((match for match in positions if match[0] >= 0), default=None)


class Speculation:
    """Speculation for one call of an `ApiExecutor`.

    Args:
        endpoint: Model of the call.
        request_of: Builds the request of a call.
        send: Sends a request.
        state: State of the call.
        tries: Maximum number of responses requested until a response begins like the program's
            turn.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        request_of: RequestOf,
        send: Send,
        state: CallState,
        tries: int,
    ) -> None:
        assert state.call.lookahead is not None
        self._endpoint, self._request_of, self._send = endpoint, request_of, send
        self._state, self._tries = state, tries
        self._buffer: LookaheadBuffer = state.call.lookahead
        # The begun text of a turn that the service cannot continue, and the call before this turn.
        # A direct request is impossible for such a call, and `max_tokens` does not bound the
        # answer.
        self._turn_prefix, self._before_turn = self._split_turn(state.call)

    async def generate(self, call: Call) -> Result | None:
        """Answer from speculative text, or send a request that writes ahead. Returns None if the
        call needs an ordinary request."""
        lookahead = self._take_lookahead()
        if not _can_be_a_part(call.params):
            return None
        if lookahead is not None and lookahead.text.strip():
            try:
                return self._result(await self._answer(lookahead, call))
            except LookaheadMismatch as mismatch:
                self._state.usage.missed[mismatch.reason] += 1

        if self._turn_prefix:
            asked = lookahead is not None and lookahead.prompt.startswith(self._before_turn.prompt)
            return await self._write_turn(call, instruct=asked)
        if self._may_write_ahead(call.params):
            return await self._write_ahead(call)
        return None

    def choose(self, call: ScoreCall) -> Scores | None:
        """Answer a select from speculative text, without a new request."""
        lookahead = self._take_lookahead()
        if lookahead is None or not lookahead.text.strip():
            return None
        try:
            if call.unconditional:
                raise LookaheadMismatch("other settings")
            index, answer = lookahead.at(call.prompt).choice(call.choices)
        except LookaheadMismatch as mismatch:
            self._state.usage.missed[mismatch.reason] += 1
            if self._turn_prefix:
                raise self._error(f"one of {list(call.choices)}", lookahead.text) from None
            return None
        values = tuple(float(i == index) for i in range(len(call.choices)))
        return Scores(meta=self._store(answer), values=values, chosen=index)

    def _take_lookahead(self) -> Lookahead | None:
        """Take the model's last unused text of the branch."""
        lookahead, self._buffer.unused = self._buffer.unused, None
        is_ours = isinstance(lookahead, Lookahead) and lookahead.model is self._endpoint
        return lookahead if is_ours else None

    def _split_turn(self, call: Call | ScoreCall) -> tuple[str, Call | ScoreCall]:
        start = len(call.segments)
        while start > 0 and not isinstance(call.segments[start - 1].origin, tuple):
            start -= 1
        is_open = start > 0 and isinstance(call.segments[start - 1].origin[0], RoleBegin)
        has_media = bool(media_in(call.segments[start:]))  # refused by `conversation`
        if has_media or not (is_open and self._endpoint.is_chat and not self._endpoint.continues):
            return "", call
        prefix = "".join([segment.text for segment in call.segments[start:]])
        prompt, segments = call.prompt.removesuffix(prefix), call.segments[:start]
        return prefix, replace(call, prompt=prompt, segments=segments)

    def _may_write_ahead(self, params: SamplingParams) -> bool:
        """Return whether the call has an end (stop or format) that allows writing ahead."""
        if params.grammar is not None:
            return params.grammar.kind not in self._endpoint.enforces
        return bool(set(params.stop) - set(self._endpoint.chat.stop))

    async def _write_ahead(self, call: Call) -> Result | None:
        """Send a request that writes ahead. Returns None if the text's end is unknown."""
        lookahead, response = await self._write(self._request(call), call)
        try:
            answer = await self._answer(lookahead, call)
        except LookaheadMismatch:
            self._state.usage.saved -= response.tokens.prompt
            return None
        return self._result(answer, response)

    async def _write_turn(self, call: Call, instruct: bool) -> Result:
        """Request the whole turn, which must begin with the program's text.

        Args:
            instruct: Tell the model the beginning in the first request too, because an earlier
                response did not match.
        """
        plain = self._request(call)
        for attempt in range(self._tries):
            if attempt:
                self._state.usage.retries["other beginning"] += 1
            instructed = attempt > 0 or instruct
            request = _with_instruction(plain, self._turn_prefix) if instructed else plain
            lookahead, response = await self._write(request, call)
            try:
                return self._result(await self._answer(lookahead, call), response)
            except LookaheadMismatch as mismatch:
                self._state.usage.saved -= response.tokens.prompt
                after = " and continues in its format" if mismatch.reason == "format" else ""

        expected = f"a turn that begins with {shown(self._turn_prefix)}{after}"
        raise self._error(expected, lookahead.text)

    def _request(self, call: Call) -> CompletionRequest:
        params = replace(
            settings_of(call.params),
            stop=tuple(stop for stop in call.params.stop if stop in self._endpoint.chat.stop),
            max_new_tokens=max(call.params.max_new_tokens, self._buffer.num_tokens),
        )
        prompt, segments = self._before_turn.prompt, self._before_turn.segments
        request = self._request_of(replace(call, params=params, prompt=prompt, segments=segments))
        return replace(request, stream=call.stream and call.params.grammar is None)

    async def _write(
        self, request: CompletionRequest, call: Call
    ) -> tuple[Lookahead, CompletionResponse]:
        state, limit = self._state, self._limit(call)
        max_bytes = limit if limit is not None and limit < request.params.max_new_tokens else None

        async def complete() -> CompletionResponse:
            state.begin(call.params.stop, self._turn_prefix, max_bytes)
            return await self._endpoint.complete(request, state.add_text)

        response = await self._send(complete, request, state)
        state.usage.tokens += response.tokens
        state.usage.extra += response.tokens.completion
        return self._lookahead(request, response), response

    def _lookahead(self, request: CompletionRequest, response: CompletionResponse) -> Lookahead:
        [sample] = response.samples
        text, finish, stops = sample.text, sample.finish, request.params.stop
        if stop := first_stop(text, stops):
            text, finish = text[: stop[0]], "stop"
        if prefix := self._turn_prefix:  # ignores leading whitespace
            text = prefix[: len(prefix) - len(prefix.lstrip())] + text.lstrip()

        return Lookahead(
            model=self._endpoint,
            id=response.id,
            prompt=self._before_turn.prompt,
            text=text,
            prompt_tokens=response.tokens.prompt,
            text_tokens=response.tokens.completion,
            settings=settings_of(request.params),
            stops=stops,
            finish=finish,
            limit=request.params.max_new_tokens,
        )

    def _limit(self, call: Call) -> int | None:
        return None if self._turn_prefix else call.params.max_new_tokens

    async def _answer(self, lookahead: Lookahead, call: Call) -> LookaheadAnswer:
        unused = lookahead.at(call.prompt)
        if call.params.grammar is None:
            return unused.answer(call.params, self._limit(call))
        return await asyncio.to_thread(unused.answer, call.params, self._limit(call))

    def _result(
        self, answer: LookaheadAnswer, response: CompletionResponse | None = None
    ) -> Result:
        """Return the result. `response`: of a request sent for this call."""
        self._state.deliver(answer.text)
        return Result((answer.text,), (self._store(answer, response),))

    def _store(
        self, answer: LookaheadAnswer, response: CompletionResponse | None = None
    ) -> dict[str, Any]:
        """Store the unused text for the branch's next call. Returns the call's meta information."""
        usage = self._state.usage
        self._buffer.unused = answer.remaining
        usage.extra -= answer.num_tokens
        tokens, meta = Tokens(), {"written_ahead": response is None}
        if response is None:
            usage.ahead += 1
            usage.saved += answer.remaining.prompt_tokens - answer.num_tokens
        else:
            tokens, meta = response.tokens, response.samples[0].meta | meta

        sample = replace(answer.sample, meta=meta)
        tokens = replace(tokens, completion=answer.num_tokens)
        part = CompletionResponse((sample,), tokens, answer.remaining.id)
        return self._state.meta(part, sample)

    def _error(self, expected: str, text: str) -> ServiceError:
        name = self._state.call.name
        message = f"{name!r} needs {expected}, and the model wrote {shown(text)}"
        hint = "show the format in the user's turn, or use a larger num_api_spec_tokens="
        return ServiceError(message, hint)


def _can_be_a_part(params: SamplingParams) -> bool:
    """Return whether the parameters allow the call's text to be part of a longer text."""
    separate = params.n > 1 or params.return_logprob or params.min_new_tokens or params.thinking
    return not (separate or params.stop_regex or params.ignore_eos or params.max_new_tokens == 0)


def _with_instruction(request: CompletionRequest, prefix: str) -> CompletionRequest:
    """Return the request with an instruction to begin with `prefix`."""
    instruction = f"Begin your answer with exactly this text, and continue after it:\n{prefix}"
    *earlier, last = request.messages
    if last["role"] != "user":
        turn = {"role": "user", "content": instruction}
        return replace(request, messages=(*request.messages, turn))
    turn = {**last, "content": with_text(last["content"], instruction)}
    return replace(request, messages=(*earlier, turn))
