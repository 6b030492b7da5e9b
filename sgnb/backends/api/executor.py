"""Execution of programs on a model behind an API: an `Executor` over an `Endpoint`."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...errors import Aborted, OptionError, RequestError, shown
from ...events import EventLog, RequestQueued, TextStreamed
from ...lang.executor import Call, Delta, Result, ScoreCall, Scores
from ...sampling import SamplingParams
from ...segment import Segment
from .choosing import chosen, question
from .conversation import conversation
from .endpoint import Answer, Ask, Endpoint, Failure, Message, Sample
from .flight import Flight
from .formats import Mismatch, fitting, prepare
from .limits import Gate, Limits
from .loop import LoopThread
from .speculation import Speculation
from .usage import Price, TokenUsage, Usage

CHARACTERS_PER_TOKEN = 4
"""Estimate for prompts without a token count."""


class ApiExecutor:
    """An `Executor` (see `lang.executor`) over one model of a service.

    A dedicated thread runs the event loop and calls the sinks. The thread ends with `close`, or
    with the garbage collection of the executor.
    """

    def __init__(
        self, endpoint: Endpoint, limits: Limits | None = None, price: Price = lambda tokens: None
    ) -> None:
        self.endpoint, self.limits = endpoint, limits or Limits()
        self.chat, self.special_tokens, self.log = endpoint.chat, None, EventLog()
        self._usage = Usage(endpoint.model, price)
        self._token_usage = TokenUsage(self._usage)
        self._gate = Gate(self.limits, f"the service of {endpoint.model!r}")
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

    def ask_of(self, call: Call) -> Ask:
        """Return the request for `call`.

        Raises:
            RequestError: The prompt is not a conversation.
            OptionError: The service does not support an argument.
        """
        self.endpoint.check(call.params, call.location)
        if not self.endpoint.is_chat:
            return Ask(call.params, call.prompt, stream=call.stream)
        turns = conversation(call.name, call.prompt, call.segments, self.endpoint.continues)
        return Ask(call.params, messages=turns, stream=call.stream)

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        if call.ahead is None:
            return self.send(self.ask_of(call), call, sink)
        self.endpoint.check(call.params, call.location)
        flight = self._flight(call, call.stream, sink)
        return self._start(partial(self._generate_ahead, call, flight), flight, Result, sink)

    async def _generate_ahead(self, call: Call, flight: Flight) -> Result:
        found = await self._speculation(flight).generate(call)
        return found or await self._generate(self.ask_of(call), flight)

    def _speculation(self, flight: Flight) -> Speculation:
        tries = self.limits.format_tries
        return Speculation(self.endpoint, self.ask_of, self._send, flight, tries)

    def send(
        self, ask: Ask, call: Call, sink: Callable[[Delta | Result], None]
    ) -> Callable[[], None]:
        """Send `ask` for `call` and deliver to `sink`, like `generate`, which builds the request
        from the call. Returns a function that cancels the call."""
        flight = self._flight(call, ask.stream, sink)
        return self._start(partial(self._generate, ask, flight), flight, Result, sink)

    def _flight(self, call: Call, stream: bool, sink: Callable[[Delta], None]) -> Flight:
        def tell(piece: Delta) -> None:
            self.log.emit(TextStreamed(call.run, call.branch, piece.text))
            sink(piece)

        return Flight(call, self.endpoint.secrets, tell if stream else None)

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        flight = Flight(call, self.endpoint.secrets)
        return self._start(partial(self._score, call, flight), flight, Scores, sink)

    def _start(
        self,
        work: Callable[[], Any],
        flight: Flight,
        kind: type[Result] | type[Scores],
        sink: Callable[[Any], None],
    ) -> Callable[[], None]:
        request, call = next(self._numbers), flight.call
        _check_text(call.name, call.prompt)
        purpose = "generate" if kind is Result else "score"
        place = call.location or ("", 0)
        event = RequestQueued(request, call.run, call.branch, call.name, purpose, (), *place)

        def ended(task: asyncio.Task[Any]) -> None:
            error: BaseException | None = Aborted("the call was stopped")
            if not task.cancelled():
                error = task.exception()
            made = task.result() if error is None else kind(error=error)  # type: ignore[arg-type]
            if error is not None and isinstance(made, Result):
                made = replace(made, texts=(flight.told,), meta=(flight.meta(None),))
            self._usage.add(call.run, flight.count(error))
            self.log.emit(flight.finished(request, error, made))
            sink(made)

        self.log.emit(event)
        return self._loop.start(work, ended)

    async def _generate(self, ask: Ask, flight: Flight) -> Result:
        answers: list[Answer] = []
        if ask.params.n == 1 or self.endpoint.samples:
            answers = [await self._fitting(ask, flight)]
        have = sum(len(answer.samples) for answer in answers)  # some services ignore `n`
        missing = [_single(ask, i) for i in range(have, ask.params.n)]
        tasks = [asyncio.create_task(self._fitting(one, flight)) for one in missing]
        try:
            answers += await asyncio.gather(*tasks)
        finally:
            for task in tasks:  # cancel the remaining samples after an error or a stop
                task.cancel()
        samples = [(answer, sample) for answer in answers for sample in answer.samples]
        return Result(
            tuple(sample.text for _, sample in samples),
            tuple(flight.meta(answer, sample) for answer, sample in samples),
        )

    async def _fitting(self, ask: Ask, flight: Flight) -> Answer:
        """Return an answer whose texts match the call's format."""
        grammar, stops = ask.params.grammar, ask.params.stop
        if grammar is not None and grammar.kind not in self.endpoint.enforces:
            # A free answer may begin with whitespace, and a whitespace stop would end the answer
            # immediately.
            params = replace(ask.params, stop=tuple(stop for stop in stops if stop.strip()))
            ask = replace(ask, params=params, stream=False)
        if grammar is not None and self._checks(grammar.kind):
            await asyncio.to_thread(prepare, grammar)
        for attempt in range(1, self.limits.format_tries + 1):
            answer = await self._ask(ask, flight)
            try:
                texts = [await self._format(sample, ask.params) for sample in answer.samples]
            except Mismatch as mismatch:
                if attempt == self.limits.format_tries or mismatch.cut or flight.told:
                    raise mismatch.error(attempt) from None
                flight.used.again["format"] += 1
                continue
            pairs = zip(answer.samples, texts, strict=True)
            fitted = (replace(sample, text=text) for sample, text in pairs)
            return replace(answer, samples=tuple(_cut(sample, stops) for sample in fitted))
        raise AssertionError("the last try returns or raises")

    async def _format(self, sample: Sample, params: SamplingParams) -> str:
        """Return the formatted text. JSON is always checked: some services only claim to enforce
        schemas, and all services truncate at max_tokens."""
        if params.grammar is None or not self._checks(params.grammar.kind):
            return sample.text
        return await asyncio.to_thread(fitting, sample, params)

    def _checks(self, kind: str) -> bool:
        return kind == "json_schema" or kind not in self.endpoint.enforces

    async def _ask(self, ask: Ask, flight: Flight) -> Answer:
        """Return the service's answer, truncated at stops: some services limit the number of stops
        or return them in the text."""
        stops = () if ask.params.min_new_tokens else ask.params.stop

        async def request() -> Answer:
            flight.begin(stops)
            return await self.endpoint.ask(ask, flight.piece)

        answer = await self._send(request, ask, flight)
        flight.count_tokens(answer.tokens)
        samples = tuple(_cut(sample, stops) for sample in answer.samples)
        if ask.stream:
            flight.finish(samples[0].text)
        return replace(answer, samples=samples)

    async def _send(self, request: Callable[[], Any], ask: Ask, flight: Flight) -> Any:
        def failed(failure: Failure, again: bool) -> None:
            if again:
                flight.used.again[failure.reason] += 1

        async def counted() -> Any:
            flight.used.requests += 1
            return self.endpoint.secrets.clean(await request())

        characters = len(ask.prompt) + sum(len(turn["content"]) for turn in ask.messages)
        tokens = characters / CHARACTERS_PER_TOKEN + ask.params.max_new_tokens * ask.params.n
        return await self._gate.send(counted, tokens, failed)

    async def _score(self, call: ScoreCall, flight: Flight) -> Scores:
        if call.ahead is not None:
            scores = self._speculation(flight).choose(call)
            if scores is not None:
                return scores
        if self.endpoint.scores:
            ask = Ask(SamplingParams(max_new_tokens=0), call.prompt + "".join(call.choices))
            scores, tokens = await self._send(partial(self.endpoint.score, call), ask, flight)
            flight.count_tokens(tokens)
            if scores:
                return Scores(scores, flight.meta(None))
        return await self._choose(call, flight)

    async def _choose(self, call: ScoreCall, flight: Flight) -> Scores:
        """Let the model pick a choice if the service cannot score."""
        turns: tuple[Message, ...] = ()
        if self.endpoint.is_chat:
            turns = conversation(call.name, call.prompt, call.segments)
        ask = question(call, turns, self.endpoint.enforces)
        for attempt in range(1, self.limits.format_tries + 1):
            answer = await self._ask(ask, flight)
            index = chosen(answer.samples[0].text, call.choices, ask.params)
            if index is not None:
                values = tuple(float(i == index) for i in range(len(call.choices)))
                return Scores(meta=flight.meta(answer), values=values, chosen=index)
            if attempt < self.limits.format_tries:
                flight.used.again["format"] += 1
        raise Mismatch(answer.samples[0], f"one of {list(call.choices)}").error(attempt)

    @property
    def model_name(self) -> str:
        return self.endpoint.model

    @property
    def tokenizer_id(self) -> str:
        return f"{type(self.endpoint).__name__} {self.endpoint.model}"

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        """Raise OptionError: services do not expose their tokens."""
        hint = "s.text() is the text; a local engine gives tokens too"
        raise OptionError(f"{self!r} gives no tokens of a text", hint)

    def flush_cache(self) -> int:
        """Flush the cache of an SGLang server; no effect on other services. Returns 0 because the
        server does not report a count."""
        self._ask_now(self.endpoint.flush_cache)
        return 0

    def server_info(self) -> dict[str, Any]:
        """Return the model and the service's description of itself."""
        return dict(self._ask_now(self.endpoint.info))

    def _ask_now(self, request: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a request outside of calls and wait for the answer."""
        answer = self._loop.run(lambda: self._gate.send(request, 0, lambda failure, again: None))
        return self.endpoint.secrets.clean(answer)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.endpoint.model!r}>"


def _check_text(name: str, prompt: str) -> None:
    try:
        prompt.encode()
    except UnicodeEncodeError as error:
        where = shown(prompt[max(0, error.start - 20) : error.end])
        message = f"the prompt of {name!r} has half of a surrogate pair: {where}"
        raise RequestError(message, "write the whole character") from None


def _single(ask: Ask, index: int) -> Ask:
    """Return the request for sample `index`; only the first sample is streamed."""
    params = ask.params
    seed = None if params.seed is None else params.seed + index
    return replace(ask, params=replace(params, n=1, seed=seed), stream=ask.stream and index == 0)


def _cut(sample: Sample, stops: Sequence[str]) -> Sample:
    found = [(at, stop) for stop in stops if (at := sample.text.find(stop)) >= 0]
    if not found:
        return sample
    at, stop = min(found)
    return replace(sample, text=sample.text[:at], finish="stop", matched=stop)
