"""`RemoteEngine`: the interface of `Engine`, with the engine in a host process.

This process has the tokenizer and checks prompts; the host has the model, the cache, the scheduler
and the grammars. `LocalExecutor`, the views and `sgnb.cache` use a remote engine like an engine.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...engine.cache.part_extents import PartsPrompt
from ...engine.model.loading import load_tokenizer
from ...engine.options import EngineOptions
from ...engine.request import arguments
from ...engine.request.approximation import Verification
from ...engine.request.generate_methods import GenerateMethods
from ...engine.request.input_processor import InputProcessor, Prompt
from ...engine.request.output import Output
from ...engine.request.request_state import OnOutput, Origin
from ...engine.request.tokenizer import Tokenizer
from ...errors import EngineError, SgnbError
from ...events import (
    AnswerVerified,
    AttentionSwitched,
    EngineStarted,
    EngineStopped,
    EventLog,
    RecordsLost,
    RequestQueued,
)
from ...part_order import OrderSearch, PartOrder
from ...sampling import SamplingParams
from ...segment import Segment
from .client import HostClient, copied, host_clock_offset
from .event_wire import WireEvent, decode_event
from .order_wire import write_order
from .output_wire import EMPTY, WireOutput, decode_output
from .remote_calls import RemoteCalls, RemoteStepper
from .remote_items import RemoteItems
from .request_wire import WireRequests, write_params
from .wire import Connection, EngineFacts, converted, greet_host

GREETING_SECONDS = 20.0
"""Timeout of the greeting."""

SWITCH_INTERVAL = 1e-3
"""GIL switch interval with a remote engine, in seconds: the receiving thread delivers results."""


class _RemoteRequest:
    """An unfinished request: sampling parameters, receiver of outputs, and last output."""

    __slots__ = ("last", "on_output", "params")

    def __init__(self, params: SamplingParams, on_output: OnOutput) -> None:
        self.params, self.on_output, self.last = params, on_output, EMPTY


class RemoteEngine(GenerateMethods, RemoteCalls):
    """An engine in a host process. Use in a `with` block, or call `close`.

    Args:
        sock: Socket connected to a host.
        token: Secret of the host.
        name: Name of the host, for errors.
        tokenizer: Transformers tokenizer; by default read from the folder or hub id of the host's
            model.
        on_close: Called once after the end of the connection.
        end_reason: Returns the reason of a lost connection, or "" if unknown.

    Raises:
        EngineError: The greeting failed.
    """

    items: Any  # `RemoteItems`; None for a model of text
    executor: Any = None  # program executor of this engine, owned by `sgnb.backends`
    model = None  # the host loaded the model

    def __init__(
        self,
        sock: socket.socket,
        token: str,
        name: str,
        tokenizer: Any = None,
        on_close: Callable[[], None] = lambda: None,
        end_reason: Callable[[], str] = str,
    ) -> None:
        self.host_name, self._on_close = name, on_close
        connection = Connection(sock, f"engine host {name!r}")
        try:
            connection.settimeout(GREETING_SECONDS)
            asked_at = time.perf_counter()
            welcome = greet_host(connection, token)
            self._clock_offset = host_clock_offset(welcome.clock, asked_at, time.perf_counter())
            connection.settimeout(None)
            self.log = EventLog()
            self._read_facts(welcome.facts, tokenizer)
        except (OSError, EOFError) as error:
            connection.close()
            message = f"engine host {name!r} did not answer: {error}"
            raise EngineError(message, "start it again, or check the address") from error
        except BaseException:
            connection.close()
            raise

        self._prefix = f"{welcome.client}/"  # of this client's runs in the engine
        self._next_tag = 1
        self._samples: dict[int, _RemoteRequest] = {}
        self._approximations: dict[str, Any] = {}  # by request id, until the comparison
        self._later: list[Callable[[], object]] = []  # functions after the present step
        self._tagging = threading.Lock()
        self._client = HostClient(connection, self._receive, self._end, end_reason)
        self.items = RemoteItems(self._client, self.vocab_size) if self.modalities else None
        self.token_stepper = RemoteStepper(self._client)
        self._seams, self._grammars = {}, None
        self._input_processor = InputProcessor(
            self.model_name,
            self.tokenizer,
            self.vocab_size,
            self.context_length,
            self.pool_tokens,
            self.items,
        )
        sys.setswitchinterval(min(SWITCH_INTERVAL, sys.getswitchinterval()))
        self._client.start()

    def _read_facts(self, facts: EngineFacts, tokenizer: Any) -> None:
        """Set the attributes of an engine."""
        self.model_name, self.device, self.dtype = facts.model_name, facts.device, facts.dtype
        self.vocab_size, self.context_length = facts.vocab_size, facts.context_length
        self.pool_tokens, self.token_bytes = facts.pool_tokens, facts.token_bytes
        self.state_bytes, self.shared_prefix = facts.state_bytes, facts.shared_prefix
        self.eos_token_ids, self.modalities = facts.eos_token_ids, facts.modalities
        self.refused_modalities, self.attention = facts.refused_modalities, facts.attention
        self.options = EngineOptions.make(facts.options)
        self.tokenizer = None
        if facts.has_tokenizer:
            transformers = load_tokenizer(facts.source) if tokenizer is None else tokenizer
            self.tokenizer = Tokenizer(transformers)
        self.log.emit(
            EngineStarted(
                model=facts.model_name,
                device=facts.device,
                dtype=facts.dtype,
                attention=facts.attention,
                pool_tokens=facts.pool_tokens,
                context_length=facts.context_length,
                token_bytes=facts.token_bytes,
                states=facts.states,
                state_bytes=facts.state_bytes,
            )
        )

    def _check_may_wait(self) -> None:
        super()._check_may_wait()
        if self._client.on_its_thread:
            message = "generate cannot be called on the thread that receives outputs"
            raise EngineError(message, "call it on another thread, not in a listener or finalizer")

    def submit(
        self,
        prompts: Sequence[Prompt],
        params: Sequence[SamplingParams],
        on_outputs: Sequence[OnOutput],
        *,
        stream: bool = False,
        origins: Sequence[Origin] | None = None,
        cache_scopes: arguments.CacheScopes = None,
        given_outputs: Sequence[Sequence[int]] | None = None,
    ) -> list[int]:
        """See `Engine.submit`. Waits for the host's ids; outputs arrive on the receiving thread."""
        self.log.home.check()
        stream = arguments.switch("stream", stream)
        values = params, on_outputs, origins, cache_scopes, given_outputs
        asked = arguments.submission(prompts, *values)
        tokens = self._input_processor.tokens(asked.prompts)

        samples = [
            _RemoteRequest(*pair) for pair in zip(asked.params, asked.on_outputs, strict=True)
        ]
        with self._tagging:
            tags = range(self._next_tag, self._next_tag + len(samples))
            self._next_tag += len(samples)
        self._samples.update(zip(tags, samples, strict=True))
        distinct = list({id(each): each for each in asked.params}.values())
        places = {id(each): place for place, each in enumerate(distinct)}
        request = WireRequests(
            first_tag=tags.start,
            prompts=[array.tobytes() for array in tokens],
            params=[write_params(each) for each in distinct],
            which=[places[id(each)] for each in asked.params],
            stream=stream,
            origins=asked.origins,
            cache_scopes=asked.cache_scopes,
            given_outputs=asked.given_outputs,
        )
        try:
            ids: list[int] = self._client.call("submit", request, kind=list[int])
        except BaseException as error:
            for tag in tags:
                self._samples.pop(tag, None)
            if not isinstance(error, SgnbError):  # an interrupt: the host submits nevertheless
                self._client.tell("abort_submission", (tags.start, tags.stop))
            raise
        return ids

    def encode(self, prompts: Sequence[str | Sequence[Segment]]) -> list[list[int]]:
        """See `Engine.encode`."""
        self.log.home.check()
        return self._input_processor.encode(arguments.items("prompts", prompts))

    def abort(self, request: int | Sequence[int]) -> None:
        """See `Engine.abort`. Requests of other clients are ignored."""
        if ids := arguments.ids(request):
            self._client.tell("abort", ids)

    def before_next_step(self, function: Callable[[], object]) -> None:
        """Run `function` on the receiving thread after the outputs of the present step, or at
        once on another thread."""
        if self._client.on_its_thread:
            self._later.append(function)
        else:
            function()

    def find_part_order(
        self,
        find: OrderSearch,
        prompt: PartsPrompt,
        default: PartOrder,
        then: Callable[[PartOrder], object],
    ) -> None:
        """See `Engine.find_part_order`. The host searches."""

        def take(value: Any, error: SgnbError | None) -> None:
            order = default
            if error is None:
                order = converted(value, PartOrder, self._client.name)
                if sorted(order.order) != sorted(default.order):
                    order = default
            then(order)
            self._run_later()

        self._client.ask(take, "find_part_order", write_order(prompt, find))

    @property
    def closed(self) -> bool:
        """True after `close` or the loss of the host."""
        return self.failure is not None

    @property
    def failure(self) -> EngineError | None:
        """See `Engine.failure`."""
        return self._client.failure

    def close(self) -> None:
        """End the connection and this client's requests. Idempotent."""
        reason = f"the connection to engine host {self.host_name!r} is closed"
        self._client.close(EngineError(reason, "load or attach again"))

    def shutdown(self) -> None:
        """Call `close`; SGLang's name."""
        self.close()

    def __enter__(self) -> RemoteEngine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = ", closed" if self.closed else ""
        place = f"in host {self.host_name}, on {self.device}"
        return f"<RemoteEngine {self.model_name} {place}, {self.dtype}{closed}>"

    def _receive(self, lost: int, events: list[WireEvent], outputs: list[WireOutput]) -> None:
        """Log the events of a step, and deliver the outputs."""
        if lost:
            self.log.emit(RecordsLost(lost))
        for wire in events:
            self._log(decode_event(wire), wire.t + self._clock_offset)
        for output in outputs:
            self._deliver(output)
        self._run_later()

    def _run_later(self) -> None:
        while self._later:
            later, self._later = self._later, []
            for function in later:
                function()

    def _log(self, event: Any, at: float) -> None:
        if isinstance(event, RequestQueued) and event.run:
            # Runs of other clients have no view here.
            is_own = event.run.startswith(self._prefix)
            event = replace(event, run=event.run.removeprefix(self._prefix) if is_own else "")
        elif isinstance(event, AttentionSwitched):
            self.attention = event.after
        elif isinstance(event, AnswerVerified):
            self._decide(event)
        self.log.emit(event, at)

    def _deliver(self, wire: WireOutput) -> None:
        sample = self._samples.get(wire.tag)
        if sample is None:  # the submission failed, or was interrupted
            return
        output = decode_output(wire, sample.params, self.tokenizer, sample.last)
        if output.finish_reason is None:
            sample.last = output
        else:
            del self._samples[wire.tag]
            if output.approximate is not None:
                self._approximations[output.id] = output.approximate
        sample.on_output(output)

    def _decide(self, event: AnswerVerified) -> None:
        """Complete the record of an approximate answer."""
        approximation = self._approximations.pop(str(event.request), None)
        if approximation is None:
            return
        result = None
        if event.status != "unverified":
            result = Verification(**{name: getattr(event, name) for name in Verification._fields})
        approximation.decide(result, event.reason)

    def _end(self, error: EngineError) -> None:
        """End all requests after the loss of the connection."""
        samples, self._samples = self._samples, {}
        for sample in samples.values():
            last = sample.last
            ended = Output(
                last.text, last.token_ids, last.prompt_tokens, last.cached_tokens, "error",
                error=copied(error), params=sample.params,
            )  # fmt: skip
            sample.on_output(ended)
        self._run_later()
        self.log.emit(EngineStopped(error.message))
        self._on_close()
