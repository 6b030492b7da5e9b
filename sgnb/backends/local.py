"""Execution of programs on an engine in this process: an `Executor` over the engine's requests."""

from __future__ import annotations

import copy
import queue
import threading
import weakref
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ..engine.cache.sequence import SHARED, CacheScope
from ..engine.loop import TokenStepper
from ..engine.request import arguments
from ..engine.request.collect import gather, numbered_callbacks
from ..engine.request.output import Output
from ..engine.request.request_state import Origin
from ..errors import (
    Aborted,
    EngineError,
    OptionError,
    RequestError,
    SgnbError,
    shown,
)
from ..events import Wait, WaitingRequest, WaitReason
from ..lang.executor import Call, Delta, OrderCall, Result, Room, ScoreCall, Scores
from ..lang.graph.dry_execution import DryExecutor
from ..lang.location import warn_once
from ..part_order import OrderMemory, PartOrder
from ..sampling import SamplingParams
from ..segment import Segment
from ..sequences import common_length
from .any_engine import AnyEngine
from .choice_scores import Logprobs, OutputGather, Tokens, build_scores
from .dry import EngineAnswers
from .mail import Mail
from .order_search import PartOrders
from .pending_call import PendingCall
from .template_reader import chat_template, special_tokens

if TYPE_CHECKING:
    from .remote.remote_calls import RemoteStepper

REMEMBERED_CHOICES = 4096
"""Maximum number of choices with stored log-probabilities without a prompt."""


@dataclass(frozen=True, slots=True)
class CallOverrides:
    """Isolation of calls from other calls on the engine, and disabled features."""

    cache_scope: CacheScope = SHARED
    jump_forward: bool = True
    seeded: bool = False  # calls without a seed get a reproducible seed by their place

    def params(self, call: Call) -> SamplingParams:
        """Return the sampling parameters of `call`."""
        params = call.effective_params
        if not self.jump_forward:
            params = replace(params, jump_forward=False)
        if self.seeded and params.temperature and params.seed is None:
            place = f"{call.branch} {call.name} {call.prompt}"
            params = replace(params, seed=zlib.crc32(place.encode("utf-8", "replace")))
        return params


class LocalExecutor:
    """An `Executor` (see `lang.executor`) over one engine.

    The thread of `Mail` calls the sinks, so a program prepares its next step while the engine
    runs. The same thread sends calls: calls triggered by the results of one step reach the
    engine together. The thread ends with `close`, or with the garbage collection of the executor.

    Attributes:
        engine: The engine.
        mail: Thread of the programs.
        overrides: Changes of all calls.
    """

    continues_output = True

    def __init__(self, engine: AnyEngine) -> None:
        self.engine = engine
        self.log = engine.log
        self.chat, self.special_tokens = chat_template(engine), special_tokens(engine)
        self.overrides = CallOverrides()
        self._served_by: LocalExecutor | None = None
        self._unconditional_logprobs: dict[Tokens, Logprobs] = {}  # by choice
        self._weight_changes = 0  # of the engine at the last score
        self._processing: dict[int, PendingCall] = {}  # by `id`: items are not processed yet
        self.mail = Mail(engine.before_next_step)
        self._part_orders = PartOrders(engine, self.mail, self.overrides.cache_scope.namespace)
        self.close = weakref.finalize(self, self.mail.close)

    def with_overrides(self, overrides: CallOverrides) -> LocalExecutor:
        """Return a copy of the executor with calls isolated as described by `overrides`."""
        _check("overrides", overrides, isinstance(overrides, CallOverrides), "CallOverrides")
        other = copy.copy(self)
        other.overrides, other._unconditional_logprobs = overrides, {}
        other._part_orders = PartOrders(self.engine, self.mail, overrides.cache_scope.namespace)
        other._served_by = self  # keeps the thread's owner alive
        return other

    def fill_cache(self, prompts: Sequence[Sequence[int]]) -> None:
        """Prefill `prompts` (token ids) into the cache for calls of this executor."""
        prompts = arguments.items("prompts", prompts)
        results: queue.SimpleQueue[tuple[int, Output]] = queue.SimpleQueue()
        sinks = numbered_callbacks(results.put, len(prompts))
        params = [SamplingParams(max_new_tokens=0)] * len(prompts)
        ids = self.engine.submit(
            prompts, params, sinks, cache_scopes=[self.overrides.cache_scope] * len(prompts)
        )
        gather(results, ids, self.engine.abort)

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        self._check_open()
        _check_call(call, sink, Call)
        _check("params", call.params, isinstance(call.params, SamplingParams), "SamplingParams")
        _warn_of_limit(call, self.engine.context_length)
        pending = PendingCall(self, call, sink)
        pending.process_items()
        return pending.cancel

    def submit(self, calls: Sequence[PendingCall]) -> None:
        """Queue `calls` on the engine together, or separately if the engine refuses a call."""
        live = [each for each in calls if not each.cancelled and each.error is None]
        for pending in calls:
            if pending.cancelled:
                pending.fail(Aborted("the call was stopped"))
            elif pending.error is not None:
                pending.fail(pending.error)

        for stream in (False, True):
            group = [pending for pending in live if pending.call.stream == stream]
            try:
                self._submit(group, stream)
            except Exception as error:
                if len(group) == 1:
                    group[0].fail(error)
                else:
                    for pending in group:
                        self.submit([pending])
        for pending in live:
            if pending.cancelled:  # cancelled in the meantime
                self.engine.abort(pending.ids)

    def _submit(self, group: Sequence[PendingCall], stream: bool) -> None:
        if not group:
            return
        prompts = self.engine.encode(
            [pending.call.segments or pending.call.prompt for pending in group]
        )
        samples = [
            (pending, prompt, params, partial(pending.take, index))
            for pending, prompt in zip(group, prompts, strict=True)
            for index, params in enumerate(pending.params)
        ]
        for pending, prompt in zip(group, prompts, strict=True):
            pending.last_token = prompt[-1] if len(prompt) else None

        origins = [_origin(pending.call, "generate") for pending, *_ in samples]
        _, inputs, params, sinks = zip(*samples, strict=True)
        cache_scopes = [
            pending.executor.overrides.cache_scope._replace(
                forked=self._forked(pending.call, prompt)
            )
            for pending, prompt, *_ in samples
        ]

        ids = self.engine.submit(
            inputs,
            params,
            sinks,
            stream=stream,
            origins=origins,
            cache_scopes=cache_scopes,
            given_outputs=[pending.call.given_output for pending, *_ in samples],
        )
        for (pending, *_), id in zip(samples, ids, strict=True):
            pending.ids.append(id)

    def _forked(self, call: Call, prompt: list[int]) -> int:
        """Return the number of prompt tokens before the branch's fork, for recurrent checkpoints; 0
        without recurrent layers."""
        if not (call.forked and self.engine.state_bytes):
            return 0
        (before,) = self.engine.encode([call.segments[: call.forked]])
        agree = takewhile(lambda pair: pair[0] == pair[1], zip(before, prompt, strict=False))
        return sum(1 for _ in agree)

    def _check_open(self) -> None:
        self.log.home.check()
        if not self.close.alive:
            raise EngineError(f"the executor of {self.engine!r} is closed", "load it again")

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        self._check_open()
        _check_call(call, sink, ScoreCall)
        try:
            return self._score(call, sink)
        except SgnbError as error:
            self.mail.put(partial(sink, Scores(error=error)))
            return lambda: None

    def order(self, call: OrderCall, sink: Callable[[PartOrder], None]) -> None:
        """Search the order of a prompt's parts without waiting; see `lang.core.part_orders`."""
        self._check_open()
        self._part_orders.send(call, sink)

    def find_order(self, call: OrderCall, memory: OrderMemory) -> PartOrder:
        """Return the order of a prompt's parts with a separate memory, for a dry run."""
        return self._part_orders.find(call, memory)

    def encode_choices(self, call: ScoreCall) -> tuple[list[int], list[list[int]], int]:
        """Return the prompt's tokens, the tokens of the prompt with each choice, and the first
        scored position.

        A choice may change the tokenization of the prompt's end. All choices are scored from the
        first token that differs in any choice.
        """
        segments = call.segments or (Segment(call.prompt),)
        prompts = [(*segments, Segment(choice, call.kind)) for choice in call.choices]
        prompt, *continued = self.engine.encode([segments, *prompts])
        start = min(common_length(prompt, tokens) for tokens in continued)
        if start == 0:
            message = f"select {call.name!r} has no text before its choices"
            raise RequestError(message, "put some text before it")
        return prompt, continued, start

    def knows_unconditional(self, tokens: Tokens) -> bool:
        """Return whether log-probabilities of the choice `tokens` without a prompt are stored."""
        ids = (arguments.number("tokens", token) for token in arguments.items("tokens", tokens))
        return tuple(ids) in self._unconditional_logprobs

    def _score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        _, continued, start = self.encode_choices(call)
        choice_tokens = [tuple(tokens[start:]) for tokens in continued]
        changes, stored = self.engine.check_weights(), self._unconditional_logprobs
        if changes != self._weight_changes or len(stored) > REMEMBERED_CHOICES:
            stored = self._unconditional_logprobs = {}
            self._weight_changes = changes
        # Log-probabilities of a choice without the prompt are equal in all programs.
        wanted = choice_tokens if call.unconditional else []
        reused = {tokens: stored[tokens] for tokens in wanted if tokens in stored}
        missing = [tokens for tokens in wanted if tokens not in reused]

        def finish(outputs: list[Output]) -> None:
            if error := next((o.error for o in outputs if o.error), None):
                self.mail.put_result(partial(sink, Scores(error=error)))
                return
            pairs = zip(missing, outputs[len(choice_tokens) :], strict=True)
            computed = {tokens: (None, *output.prompt_logprobs) for tokens, output in pairs}
            stored.update(computed)
            scores = build_scores(choice_tokens, outputs, reused | computed, self._token_text)
            self.mail.put_result(partial(sink, scores))

        gather = OutputGather(len(continued) + len(missing), finish)
        conditional = SamplingParams(
            max_new_tokens=0, temperature=0, return_logprob=True, logprob_start_len=start
        )
        unconditional = replace(conditional, logprob_start_len=0)
        params = [conditional] * len(continued) + [unconditional] * len(missing)
        origin = _origin(call, "score")
        sinks = [partial(gather.put, i) for i in range(len(params))]
        origins = [origin] * len(params)
        cache_scopes = [self.overrides.cache_scope] * len(params)
        prompts = [*continued, *missing]
        ids = self.engine.submit(prompts, params, sinks, origins=origins, cache_scopes=cache_scopes)
        return partial(self.engine.abort, ids)

    @property
    def model_name(self) -> str:
        return str(self.engine.model_name)

    @property
    def modalities(self) -> frozenset[str]:
        return self.engine.modalities

    @property
    def room(self) -> Room | None:
        """The engine's limits; None without a cache, or with recurrent layers, whose states the
        bounds of programs do not count."""
        engine = self.engine
        if not engine.options.prefix_cache or engine.state_bytes:
            return None
        return Room(engine.context_length, engine.shared_prefix)

    def cached_length(self, tokens: Sequence[int]) -> int:
        """Return the number of leading `tokens` in the cache that a call would reuse now."""
        return self.engine.cached_length(tokens) if self.engine.options.prefix_cache else 0

    @property
    def token_stepper(self) -> TokenStepper | RemoteStepper:
        """Stops of runs after tokens; see `lang.core.stepping`."""
        return self.engine.token_stepper

    def why_waiting(self, run: str, branch: str) -> list[WaitingRequest]:
        """See `Engine.why_waiting`; with the calls whose images, videos or sounds are processed."""
        wait = Wait(WaitReason.PROCESSOR)
        calls = [pending.call for pending in list(self._processing.values())]
        return self.engine.why_waiting(run, branch) + [
            WaitingRequest(None, call.branch, call.name, wait)
            for call in calls
            if call.run == run and f"{call.branch}.".startswith(f"{branch}.")
        ]

    def dry_executor(self) -> DryExecutor:
        """Return an executor for a dry run, which generates no tokens."""
        return DryExecutor(self, EngineAnswers(self))

    @property
    def tokenizer_id(self) -> str:
        return "" if self.engine.tokenizer is None else self.engine.tokenizer.fingerprint

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        return self.engine.encode([segments])[0]

    def token_texts(self, tokens: Sequence[int]) -> list[str]:
        """Return the text of each token, with U+FFFD for a partial character."""
        return [self._token_text(token) for token in tokens]

    def _token_text(self, token: int) -> str:
        return str(token) if self.engine.tokenizer is None else self.engine.tokenizer.text(token)

    def flush_cache(self) -> int:
        self._part_orders.forget()
        self._unconditional_logprobs = {}
        return self.engine.flush_cache()

    def server_info(self) -> dict[str, Any]:
        engine = self.engine
        facts = {
            "model_path": engine.model_name,
            "model": engine.model_name,
            "device": engine.device,
        }
        return facts | {"context_length": engine.context_length} | engine.stats()


def _warn_of_limit(call: Call, context: int) -> None:
    """Warn once per line if `max_tokens` is above the context, in tokens."""
    limit = call.params.max_new_tokens
    if limit > context and call.location is not None:
        message = f"max_tokens={limit:,} is above the context of {context:,} tokens"
        warn_once(f"{message}: the text ends with the context at the latest", call.location)


def _check(name: str, value: Any, right: bool, rule: str) -> None:
    if not right:
        raise OptionError(f"{name}={shown(value)} is not allowed", f"{name} must be {rule}")


def _check_call(call: Any, sink: Any, kind: type[Call] | type[ScoreCall]) -> None:
    _check("call", call, isinstance(call, kind), f"a {kind.__name__}")
    _check("sink", sink, callable(sink), "a function")


def _origin(call: Call | ScoreCall, purpose: str) -> Origin:
    file, line = call.location or ("", 0)
    file = file.encode(errors="backslashreplace").decode()  # a path with bytes outside of UTF-8
    return Origin(call.run, call.branch, call.name, purpose, file, line)


def executor_of(engine: AnyEngine) -> LocalExecutor:
    """Return the executor shared by all programs on this engine."""
    with _making:
        if engine.executor is None:
            engine.executor = LocalExecutor(engine)
        executor: LocalExecutor = engine.executor
        return executor


_making = threading.Lock()
