"""Speculative execution of API calls: a request writes ahead, and later calls read the speculative
text.

A request omits the call's stops. Text after the stop answers the program's next constants and
generations if the format matches. Each branch stores its unused text; branches share nothing, and
the text ends with the program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from ...errors import ServiceError, shown
from ...lang.executor import Ahead, Call, Result, ScoreCall, Scores
from ...lang.ir import RoleBegin
from ...sampling import SamplingParams
from ...segment import Segment
from .ahead import Miss, Taken, Written, first_stop, settings_of
from .endpoint import Answer, Ask, Endpoint, Tokens
from .flight import Flight

AskOf = Callable[[Call], Ask]
Send = Callable[[Callable[[], Awaitable[Answer]], Ask, Flight], Awaitable[Answer]]


class Speculation:
    """Speculation for one call of an `ApiExecutor`. `tries`: maximum number of answers requested
    until an answer begins like the program's turn."""

    def __init__(
        self, endpoint: Endpoint, ask_of: AskOf, send: Send, flight: Flight, tries: int
    ) -> None:
        assert flight.call.ahead is not None
        self._endpoint, self._ask_of, self._send, self._flight = endpoint, ask_of, send, flight
        self._tries = tries
        self._ahead: Ahead = flight.call.ahead
        # The begun text of a turn that the service cannot continue, and the preceding prompt. A
        # direct request is impossible for such a call, and `max_tokens` does not bound the answer.
        self._begun, self._before = self._turn(flight.call)

    async def generate(self, call: Call) -> Result | None:
        """Answer from speculative text, or send a request that writes ahead. Returns None if the
        call needs an ordinary request."""
        written = self._left()
        if not _can_be_a_part(call.params):
            return None
        if written is not None and written.text.strip():
            try:
                return self._result(await self._answer(written, call))
            except Miss as miss:
                self._flight.used.missed[miss.reason] += 1
        if self._begun:
            asked = written is not None and written.prompt.startswith(self._before.prompt)
            return await self._write_turn(call, is_told=asked)
        if self._may_go_on(call.params):
            return await self._write_on(call)
        return None

    def choose(self, call: ScoreCall) -> Scores | None:
        """Answer a select from speculative text, without a new request."""
        written = self._left()
        if written is None or not written.text.strip():
            return None
        try:
            if call.unconditional:
                raise Miss("other settings")
            index, taken = written.at(call.prompt).choice(call.choices)
        except Miss as miss:
            self._flight.used.missed[miss.reason] += 1
            if self._begun:
                raise self._lost(f"one of {list(call.choices)}", written.text) from None
            return None
        values = tuple(float(i == index) for i in range(len(call.choices)))
        return Scores(meta=self._keep(taken), values=values, chosen=index)

    def _left(self) -> Written | None:
        """Take the model's last unused text of the branch."""
        written, self._ahead.kept = self._ahead.kept, None
        own = isinstance(written, Written) and written.model is self._endpoint
        return written if own else None

    def _turn(self, call: Call | ScoreCall) -> tuple[str, Call | ScoreCall]:
        at = len(call.segments)
        while at > 0 and not isinstance(call.segments[at - 1].origin, tuple):
            at -= 1
        opened = at > 0 and isinstance(call.segments[at - 1].origin[0], RoleBegin)
        if not (opened and self._endpoint.is_chat and not self._endpoint.continues):
            return "", call
        begun = _text(call.segments[at:])
        before, segments = call.prompt.removesuffix(begun), call.segments[:at]
        return begun, replace(call, prompt=before, segments=segments)

    def _may_go_on(self, params: SamplingParams) -> bool:
        """Return whether the call has an end (stop or format) that allows writing ahead."""
        if params.grammar is not None:
            return params.grammar.kind not in self._endpoint.enforces
        return bool(set(params.stop) - set(self._endpoint.chat.stop))

    async def _write_on(self, call: Call) -> Result | None:
        """Send a request that writes ahead. Returns None if the text's end is unknown."""
        written, answer = await self._request(self._ask(call), call)
        try:
            taken = await self._answer(written, call)
        except Miss:
            self._flight.used.saved -= answer.tokens.prompt
            return None
        return self._result(taken, answer)

    async def _write_turn(self, call: Call, is_told: bool) -> Result:
        """Request the whole turn; its beginning must match the program's text. `is_told`: an
        earlier answer did not match."""
        ask = self._ask(call)
        wanted = f"a turn that begins with {shown(self._begun)}"
        for attempt in range(self._tries):
            if attempt:
                self._flight.used.again["other beginning"] += 1
            told = attempt > 0 or is_told
            request = _told(ask, self._begun) if told else ask
            written, answer = await self._request(request, call)
            try:
                return self._result(await self._answer(written, call), answer)
            except Miss as miss:
                self._flight.used.saved -= answer.tokens.prompt
                after = " and goes on in its format" if miss.reason == "format" else ""
        raise self._lost(wanted + after, written.text)

    def _ask(self, call: Call) -> Ask:
        params = replace(
            settings_of(call.params),
            stop=tuple(stop for stop in call.params.stop if stop in self._endpoint.chat.stop),
            max_new_tokens=max(call.params.max_new_tokens, self._ahead.num_tokens),
        )
        before = self._before
        ask = self._ask_of(
            replace(call, params=params, prompt=before.prompt, segments=before.segments)
        )
        return replace(ask, stream=call.stream and call.params.grammar is None)

    async def _request(self, ask: Ask, call: Call) -> tuple[Written, Answer]:
        flight, most = self._flight, self._most(call)
        held = most if most is not None and most < ask.params.max_new_tokens else None

        async def request() -> Answer:
            flight.begin(call.params.stop, self._begun, held)
            return await self._endpoint.ask(ask, flight.piece)

        answer = await self._send(request, ask, flight)
        flight.count_tokens(answer.tokens)
        flight.used.extra += answer.tokens.completion
        return self._written(ask, answer), answer

    def _written(self, ask: Ask, answer: Answer) -> Written:
        [sample] = answer.samples
        text, finish, stops = sample.text, sample.finish, ask.params.stop
        if stopped := first_stop(text, stops):
            text, finish = text[: stopped[0]], "stop"
        if begun := self._begun:  # ignores leading whitespace
            text = begun[: len(begun) - len(begun.lstrip())] + text.lstrip()
        return Written(
            self._endpoint,
            answer.id,
            self._before.prompt,
            text,
            answer.tokens.prompt,
            answer.tokens.completion,
            settings_of(ask.params),
            stops,
            finish,
            ask.params.max_new_tokens,
        )

    def _most(self, call: Call) -> int | None:
        return None if self._begun else call.params.max_new_tokens

    async def _answer(self, written: Written, call: Call) -> Taken:
        left = written.at(call.prompt)
        if call.params.grammar is None:
            return left.answer(call.params, self._most(call))
        return await asyncio.to_thread(left.answer, call.params, self._most(call))

    def _result(self, taken: Taken, answer: Answer | None = None) -> Result:
        """Return the result. `answer`: the answer of a request sent for this call."""
        self._flight.finish(taken.text)
        return Result((taken.text,), (self._keep(taken, answer),))

    def _keep(self, taken: Taken, answer: Answer | None = None) -> dict[str, Any]:
        """Store the unused text for the branch's next call. Returns the call's meta information."""
        used = self._flight.used
        self._ahead.kept = taken.rest
        used.extra -= taken.tokens
        tokens, meta = Tokens(), {"written_ahead": answer is None}
        if answer is None:
            used.ahead += 1
            used.saved += taken.rest.prompt_tokens - taken.tokens
        else:
            tokens, meta = answer.tokens, answer.samples[0].meta | meta
        own = Answer(
            (replace(taken.sample, meta=meta),),
            replace(tokens, completion=taken.tokens),
            taken.rest.id,
        )
        return self._flight.meta(own, own.samples[0])

    def _lost(self, wanted: str, text: str) -> ServiceError:
        what = f"{self._flight.call.name!r} needs {wanted}, and the model wrote {shown(text)}"
        hint = "show the format in the user's turn, or give more num_api_spec_tokens="
        return ServiceError(what, hint)


def _can_be_a_part(params: SamplingParams) -> bool:
    """Return whether the parameters allow the call's text to be part of a longer text."""
    alone = params.n > 1 or params.return_logprob or params.min_new_tokens or params.thinking
    return not (alone or params.stop_regex or params.ignore_eos or params.max_new_tokens == 0)


def _text(segments: tuple[Segment, ...]) -> str:
    return "".join([segment.text for segment in segments])


def _told(ask: Ask, begun: str) -> Ask:
    """Return the request with an instruction to begin with `begun`."""
    said = f"Begin your answer with exactly this text, and go on after it:\n{begun}"
    *before, last = ask.messages
    if last["role"] != "user":
        return replace(ask, messages=(*ask.messages, {"role": "user", "content": said}))
    told = {**last, "content": f"{last['content']}\n\n{said}"}
    return replace(ask, messages=(*before, told))
