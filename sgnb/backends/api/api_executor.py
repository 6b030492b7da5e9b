"""Execution of programs on a model behind an API: an `Executor` over an `Endpoint`."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from ...errors import Aborted, OptionError, RequestError, ServiceError, shown
from ...event_loops import LoopThread
from ...events import EventLog, RequestQueued, TextStreamed
from ...lang.chat.tool_turns import merged_tools, tools_in
from ...lang.chat.tools import ToolUse
from ...lang.executor import Call, Delta, Result, ScoreCall, Scores
from ...lang.location import warn_once
from ...sampling import SamplingParams
from ...segment import Segment
from .call_state import CallState
from .endpoint import CompletionRequest, CompletionResponse, Endpoint, Message, Sample
from .formats import FormatMismatch, choice_request, match_format, prepare, selection
from .limits import Limits, RequestAdmission
from .media_parts import num_characters, text_prompt
from .speculation import Speculation, first_stop
from .tool_calls import (
    checked_calls,
    choice_of,
    ids_in,
    instructions,
    warn_of_unparsed_call,
    written_calls,
)
from .transport import Failure
from .turns import conversation, text_with_system, with_system
from .usage import Price, TokenUsage, Usage

CHARACTERS_PER_TOKEN = 4
"""Estimate for prompts without a token count."""

T = TypeVar("T")


class ApiExecutor:
    """An `Executor` (see `lang.executor`) over one model of a service.

    A thread runs the event loop and calls the sinks, until `close` or garbage collection.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        limits: Limits | None = None,
        price: Price = lambda tokens: None,
        modalities: frozenset[str] = frozenset(),
    ) -> None:
        self.endpoint, self.limits = endpoint, limits or Limits()
        self.chat, self.special_tokens, self.log = endpoint.chat, None, EventLog()
        self.modalities = modalities
        self.generates_calls, self.declares_tools = True, endpoint.declares_tools
        self._usage = Usage(endpoint.model, price)
        self._token_usage = TokenUsage(self._usage)
        self._admission = RequestAdmission(self.limits, f"the service of {endpoint.model!r}")
        self._numbers = itertools.count(1)  # call numbers
        self._loop = LoopThread("sgnb-api", endpoint.close)
        self.close = self._loop.close

    def usage(self) -> Usage:
        """Tokens, requests and cost of all calls so far, per run and in total."""
        return self._usage

    @property
    def token_usage(self) -> TokenUsage:
        """Tokens of all calls since `reset`, in SGLang's format."""
        return self._token_usage

    def request_of(self, call: Call) -> CompletionRequest:
        """Return the request for `call`.

        Raises:
            RequestError: The prompt is not a conversation.
            OptionError: The service does not support an argument.
        """
        endpoint, use = self.endpoint, call.tool_use
        endpoint.check(call.params, call.location)
        if endpoint.native_tools and (endpoint.is_chat or use is not None):
            return self._native_request(call)

        tools = merged_tools(call.tools, use.tools if use is not None else ())
        text = instructions(use, tools, self.chat.tools) if tools else ""
        is_streamed = call.stream and use is None  # the text of a call is not the program's
        if endpoint.is_chat:
            turns = conversation(call.name, call.prompt, call.segments, endpoint.continues)
            turns = with_system(turns, text) if text else turns
            return CompletionRequest(call.params, messages=turns, stream=is_streamed)

        prompt = text_prompt(call, endpoint.media_tokens)
        written = prompt.text
        if text and endpoint.declares_tools:
            written = text_with_system(self.chat, written, prompt.segments, text)
        return CompletionRequest(call.params, written, media=prompt.items, stream=is_streamed)

    def _native_request(self, call: Call) -> CompletionRequest:
        """Return the request with tools, calls and results in the service's own format."""
        use, continues = call.tool_use, self.endpoint.continues
        turns = conversation(call.name, call.prompt, call.segments, continues, native_tools=True)
        offered = call.tools if use is None else use.tools
        return CompletionRequest(
            params=call.params,
            messages=turns,
            stream=call.stream,
            tools=merged_tools(tools_in(call.segments), offered),
            tool_choice="none" if use is None else choice_of(use),
            parallel_tool_calls=use is not None and use.parallel,
        )

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        if call.lookahead is None or call.tool_use is not None:
            request = self.request_of(call)
            if call.tool_use is None and not request.tools:
                return self.send(request, call, sink)
            if call.lookahead is not None:
                call.lookahead.unused = None

            state = self._call_state(call, request.stream, sink)
            return self._start(partial(self._generate_with_tools, call, state), state, Result, sink)
        self.endpoint.check(call.params, call.location)
        state = self._call_state(call, call.stream, sink)
        return self._start(partial(self._generate_ahead, call, state), state, Result, sink)

    async def _generate_ahead(self, call: Call, state: CallState) -> Result:
        result = await self._speculation(state).generate(call)
        return result or await self._generate_with_tools(call, state)

    async def _generate_with_tools(self, call: Call, state: CallState) -> Result:
        """Return the result of a call with tools. Repeats the request in the plain format if the
        service refuses tools."""
        request = self.request_of(call)
        try:
            return await self._answer(request, call, state)
        except ServiceError:
            if not request.tools or self.endpoint.native_tools:
                raise

        state.usage.retries["no tools"] += 1
        if call.location is not None:
            reason = f"the service of {self.model_name!r} takes no tools"
            warn_once(f"{reason}: calls are written in the plain format", call.location)
        return await self._answer(self.request_of(call), call, state)

    async def _answer(self, request: CompletionRequest, call: Call, state: CallState) -> Result:
        if call.tool_use is None:
            return await self._generate(request, state)
        result = await self._generate_calls(request, call.tool_use, state)
        if request.tools and not result.calls:
            warn_of_unparsed_call(result.texts[0], call, self.model_name)
        return result

    async def _generate_calls(
        self, request: CompletionRequest, use: ToolUse, state: CallState
    ) -> Result:
        """Return text, or validated tool calls."""
        form, used_ids = self.chat.tools, ids_in(request.messages)

        async def check(response: CompletionResponse) -> Result:
            sample = response.samples[0]
            if not request.tools:
                text, raw_calls = written_calls(sample.text, form)
                sample = replace(sample, text=text, calls=raw_calls)
            calls = await asyncio.to_thread(checked_calls, sample, use, form, used_ids)
            return Result((sample.text,), (state.meta(response, sample),), calls=calls)

        return await self._checked(request, state, "tool call", check)

    def _speculation(self, state: CallState) -> Speculation:
        tries = self.limits.format_tries
        return Speculation(self.endpoint, self.request_of, self._send, state, tries)

    def send(
        self, request: CompletionRequest, call: Call, sink: Callable[[Delta | Result], None]
    ) -> Callable[[], None]:
        """Send `request` for `call` and deliver to `sink`, like `generate`, which builds the
        request from the call. Returns a function that cancels the call."""
        state = self._call_state(call, request.stream, sink)
        return self._start(partial(self._generate, request, state), state, Result, sink)

    def _call_state(self, call: Call, stream: bool, sink: Callable[[Delta], None]) -> CallState:
        def deliver(piece: Delta) -> None:
            self.log.emit(TextStreamed(call.run, call.branch, piece.text))
            sink(piece)

        return CallState(call, self.endpoint.secrets, deliver if stream else None)

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        state = CallState(call, self.endpoint.secrets)
        return self._start(partial(self._score, call, state), state, Scores, sink)

    def _start(
        self,
        work: Callable[[], Any],
        state: CallState,
        kind: type[Result] | type[Scores],
        sink: Callable[[Any], None],
    ) -> Callable[[], None]:
        number, call = next(self._numbers), state.call
        _check_text(call.name, call.prompt)
        purpose = "generate" if kind is Result else "score"
        location = call.location or ("", 0)
        event = RequestQueued(number, call.run, call.branch, call.name, purpose, (), *location)

        def ended(task: asyncio.Task[Any]) -> None:
            error: BaseException | None = Aborted("the call was stopped")
            if not task.cancelled():
                error = task.exception()
            result = task.result() if error is None else kind(error=error)  # type: ignore[arg-type]
            if error is not None and isinstance(result, Result):
                result = replace(result, texts=(state.delivered,), meta=(state.meta(None),))

            self._usage.add(call.run, state.close(error))
            self.log.emit(state.finish_event(number, error, result))
            sink(result)

        self.log.emit(event)
        return self._loop.start(work, ended)

    async def _generate(self, request: CompletionRequest, state: CallState) -> Result:
        responses: list[CompletionResponse] = []
        if request.params.n == 1 or self.endpoint.samples:
            responses = [await self._formatted(request, state)]
        # Some services ignore `n`.
        num_samples = sum(len(response.samples) for response in responses)
        missing = [_single(request, index) for index in range(num_samples, request.params.n)]
        tasks = [asyncio.create_task(self._formatted(single, state)) for single in missing]
        try:
            responses += await asyncio.gather(*tasks)
        finally:
            for task in tasks:  # cancel the remaining samples after an error or a stop
                task.cancel()

        samples = [(response, sample) for response in responses for sample in response.samples]
        return Result(
            tuple(sample.text for _, sample in samples),
            tuple(state.meta(response, sample) for response, sample in samples),
        )

    async def _formatted(self, request: CompletionRequest, state: CallState) -> CompletionResponse:
        """Return a response whose texts match the call's format."""
        grammar, stops = request.params.grammar, request.params.stop
        if grammar is not None and grammar.kind not in self.endpoint.enforces:
            # A free answer may begin with whitespace, and a whitespace stop would end the answer
            # immediately.
            params = replace(request.params, stop=tuple(stop for stop in stops if stop.strip()))
            request = replace(request, params=params, stream=False)
        if grammar is not None and self._checks(grammar.kind):
            await asyncio.to_thread(prepare, grammar)

        async def check(response: CompletionResponse) -> CompletionResponse:
            texts = [await self._format(sample, request.params) for sample in response.samples]
            pairs = zip(response.samples, texts, strict=True)
            samples = (_up_to_stop(replace(sample, text=text), stops) for sample, text in pairs)
            return replace(response, samples=tuple(samples))

        return await self._checked(request, state, "format", check)

    async def _checked(
        self,
        request: CompletionRequest,
        state: CallState,
        reason: str,
        check: Callable[[CompletionResponse], Awaitable[T]],
    ) -> T:
        """Return the result of `check` for an answer. Repeats the request `format_tries` times
        after a FormatMismatch, and counts retries by `reason`."""
        for attempt in range(1, self.limits.format_tries + 1):
            response = await self._complete(request, state)
            try:
                return await check(response)
            except FormatMismatch as mismatch:
                is_last = attempt == self.limits.format_tries
                if is_last or mismatch.is_truncated or state.delivered:
                    raise mismatch.error(attempt) from None
                state.usage.retries[reason] += 1
        raise AssertionError("the last try returns or raises")

    async def _format(self, sample: Sample, params: SamplingParams) -> str:
        """Return the formatted text. JSON is always checked: some services only claim to enforce
        schemas, and all services truncate at max_tokens."""
        if sample.calls:
            names = ", ".join(call.name for call in sample.calls)
            raise FormatMismatch(replace(sample, text=names), "text: no tool may be called")
        if params.grammar is None or not self._checks(params.grammar.kind):
            return sample.text
        return await asyncio.to_thread(match_format, sample, params)

    def _checks(self, kind: str) -> bool:
        return kind == "json_schema" or kind not in self.endpoint.enforces

    async def _complete(self, request: CompletionRequest, state: CallState) -> CompletionResponse:
        """Return the service's response, truncated at stops: some services limit the number of
        stops or return them in the text."""
        stops = () if request.params.min_new_tokens else request.params.stop

        async def complete() -> CompletionResponse:
            state.begin(stops)
            return await self.endpoint.complete(request, state.add_text)

        response = await self._send(complete, request, state)
        state.usage.tokens += response.tokens
        samples = tuple(_up_to_stop(sample, stops) for sample in response.samples)
        if request.stream:
            state.deliver(samples[0].text)
        return replace(response, samples=samples)

    async def _send(
        self, work: Callable[[], Any], request: CompletionRequest, state: CallState
    ) -> Any:
        """Return the result of `work`, which sends `request`, within the limits."""

        def count_failure(failure: Failure, retries: bool) -> None:
            if retries:
                state.usage.retries[failure.reason] += 1

        async def send() -> Any:
            state.usage.requests += 1
            return self.endpoint.secrets.clean(await work())

        characters = num_characters(request)
        max_new_tokens = request.params.max_new_tokens * request.params.n
        tokens = characters / CHARACTERS_PER_TOKEN + max_new_tokens
        return await self._admission.send(send, tokens, count_failure)

    async def _score(self, call: ScoreCall, state: CallState) -> Scores:
        if call.lookahead is not None:
            speculative = self._speculation(state).choose(call)
            if speculative is not None:
                return speculative

        if self.endpoint.scores:
            prompt = call.prompt + "".join(call.choices)
            request = CompletionRequest(SamplingParams(max_new_tokens=0), prompt)
            work = partial(self.endpoint.score, call)
            scores, tokens = await self._send(work, request, state)
            state.usage.tokens += tokens
            if scores:
                return Scores(scores, state.meta(None))
        return await self._choose(call, state)

    async def _choose(self, call: ScoreCall, state: CallState) -> Scores:
        """Let the model pick a choice if the service cannot score."""
        turns: tuple[Message, ...] = ()
        if self.endpoint.is_chat:
            native = self.endpoint.native_tools
            turns = conversation(call.name, call.prompt, call.segments, native_tools=native)
        request = choice_request(call, turns, self.endpoint.enforces)
        if ids_in(turns):
            request = replace(request, tools=tools_in(call.segments))
        for attempt in range(1, self.limits.format_tries + 1):
            response = await self._complete(request, state)
            index = selection(response.samples[0].text, call.choices, request.params)
            if index is not None:
                values = tuple(float(i == index) for i in range(len(call.choices)))
                return Scores(meta=state.meta(response), values=values, chosen=index)
            if attempt < self.limits.format_tries:
                state.usage.retries["format"] += 1
        raise FormatMismatch(response.samples[0], f"one of {list(call.choices)}").error(attempt)

    @property
    def model_name(self) -> str:
        return self.endpoint.model

    @property
    def tokenizer_id(self) -> str:
        return f"{type(self.endpoint).__name__} {self.endpoint.model}"

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        """Raise OptionError: services do not expose their tokens."""
        hint = "use s.text(), or a local engine"
        raise OptionError(f"{self!r} returns no token ids", hint)

    def flush_cache(self) -> int:
        """Flush the cache of an SGLang server; no effect on other services. Returns 0 because the
        server does not report a count."""
        self._run(self.endpoint.flush_cache)
        return 0

    def server_info(self) -> dict[str, Any]:
        """Return the model and the service's description of itself."""
        return dict(self._run(self.endpoint.info))

    def _run(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a request outside of calls and wait for the response."""
        admitted = partial(self._admission.send, work, 0, lambda failure, retries: None)
        return self.endpoint.secrets.clean(self._loop.run(admitted))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.endpoint.model!r}>"


def _check_text(name: str, prompt: str) -> None:
    try:
        prompt.encode()
    except UnicodeEncodeError as error:
        excerpt = shown(prompt[max(0, error.start - 20) : error.end])
        message = f"the prompt of {name!r} has half of a surrogate pair: {excerpt}"
        raise RequestError(message, "write the whole character") from None


def _single(request: CompletionRequest, index: int) -> CompletionRequest:
    """Return the request for sample `index`; only the first sample is streamed."""
    params = request.params
    seed = None if params.seed is None else params.seed + index
    stream = request.stream and index == 0
    return replace(request, params=replace(params, n=1, seed=seed), stream=stream)


def _up_to_stop(sample: Sample, stops: Sequence[str]) -> Sample:
    if stop := first_stop(sample.text, stops):
        return replace(sample, text=sample.text[: stop[0]], finish="stop", matched=stop[1])
    return sample
