"""Runs programs on an engine in this process: an `Executor` over the engine's requests."""

from __future__ import annotations

import copy
import logging
import queue
import re
import threading
import warnings
import weakref
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ..engine.cache.sequence import SHARED, Sharing
from ..engine.device.background import Background
from ..engine.engine import Engine
from ..engine.request import arguments
from ..engine.request.collect import gather, numbered_callbacks
from ..engine.request.input_processor import split_samples
from ..engine.request.output import Output
from ..engine.request.request_state import Origin
from ..engine.request.tokenizer import common_tokens
from ..errors import (
    Aborted,
    EngineError,
    OptionError,
    RequestError,
    SgnbError,
    printable,
    shown,
)
from ..lang.chat import PLAIN, ChatTemplate, Messages, TemplateError, from_render
from ..lang.chat.tool_format import with_tools
from ..lang.executor import Call, ChoiceScore, Delta, Result, Room, ScoreCall, Scores
from ..reservation import Reservation
from ..sampling import SamplingParams
from ..segment import Segment

if TYPE_CHECKING:
    from .dry import DryExecutor

_log = logging.getLogger(__name__)

TEMPLATE_SECONDS = 5.0
"""How long a model's chat template may take to render a few short turns."""

REMEMBERED_CHOICES = 4096
"""Choices whose log-probabilities without a prompt are kept."""

Tokens = tuple[int, ...]
Logprobs = tuple[float | None, ...]

MAX_BATCHED_CALLS = 512
"""Pieces of mail, calls and results, that are opened at most before the calls are sent."""


@dataclass(frozen=True, slots=True)
class Apart:
    """What calls do not have in common with others on the engine, or do without."""

    sharing: Sharing = SHARED
    jump_forward: bool = True
    seeded: bool = False  # a call without a seed gets one by its place: the same in every run

    def params(self, call: Call) -> SamplingParams:
        """Those of the call."""
        params = call.params
        if not self.jump_forward:
            params = replace(params, jump_forward=False)
        if self.seeded and params.temperature and params.seed is None:
            place = f"{call.branch} {call.name} {call.prompt}"
            params = replace(params, seed=zlib.crc32(place.encode("utf-8", "replace")))
        return params


class LocalExecutor:
    """An `Executor` (see `lang.executor`) over one engine.

    Sinks are called on one thread of the executor's own, so that a program's next step is prepared
    while the engine runs. The same thread sends calls: those that the results of one step lead to
    reach the engine together. It ends with `close`, or when the executor is no longer used.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.log = engine.log
        self.chat, self.marks = chat_template(engine), marks(engine)
        self._apart = Apart()
        self._served_by: LocalExecutor | None = None
        self._unconditional_logprobs: dict[Tokens, Logprobs] = {}  # of choices
        self._weight_changes = 0  # of the engine, as of the last score
        self._mail: Mail = queue.SimpleQueue()
        serve = partial(_serve, self._mail)
        threading.Thread(target=serve, name="sgnb-programs", daemon=True).start()
        self.close = weakref.finalize(self, self._mail.put, None)

    def apart(self, apart: Apart) -> LocalExecutor:
        """The same executor for calls that are so much apart from others."""
        _check("apart", apart, isinstance(apart, Apart), "an Apart")
        other = copy.copy(self)
        other._apart, other._unconditional_logprobs = apart, {}
        other._served_by = self  # whose thread ends when nobody uses it
        return other

    def fill_cache(self, prompts: Sequence[Sequence[int]]) -> None:
        """Compute prompts, token ids, so that calls which share with this executor find them."""
        prompts = arguments.items("prompts", prompts)
        results: queue.SimpleQueue[tuple[int, Output]] = queue.SimpleQueue()
        sinks = numbered_callbacks(results.put, len(prompts))
        params = [SamplingParams(max_new_tokens=0)] * len(prompts)
        ids = self.engine.submit(
            prompts, params, sinks, sharing=[self._apart.sharing] * len(prompts)
        )
        gather(results, ids, self.engine.abort)

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        self._check_open()
        _check_call(call, sink, Call)
        _check("params", call.params, isinstance(call.params, SamplingParams), "SamplingParams")
        pending = _PendingCall(self, call, sink)
        self._mail.put(pending)
        return pending.cancel

    def submit(self, calls: Sequence[_PendingCall]) -> None:
        """Queue calls on the engine, together; each alone if one of them is refused."""
        live = [pending for pending in calls if not pending.cancelled]
        for pending in calls:
            if pending.cancelled:
                pending.fail(Aborted("the call was stopped"))
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
            if pending.cancelled:  # meanwhile
                self.engine.abort(pending.ids)

    def _submit(self, group: Sequence[_PendingCall], stream: bool) -> None:
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
        origins = [_origin(pending.call, "generate") for pending, *_ in samples]
        _, inputs, params, sinks = zip(*samples, strict=True)
        sharing = [
            pending.executor._apart.sharing._replace(
                forked=self._forked(pending.call, prompt), reservation=pending.call.reservation
            )
            for pending, prompt, *_ in samples
        ]
        ids = self.engine.submit(
            inputs, params, sinks, stream=stream, origins=origins, sharing=sharing
        )
        for (pending, *_), id in zip(samples, ids, strict=True):
            pending.ids.append(id)

    def _forked(self, call: Call, prompt: list[int]) -> int:
        """Of the prompt's tokens those before the branch's fork, for a model that keeps states
        there; without recurrent layers nobody asks."""
        if not (call.forked and self.engine.state_bytes):
            return 0
        (before,) = self.engine.encode([call.segments[: call.forked]])
        agree = takewhile(lambda pair: pair[0] == pair[1], zip(before, prompt, strict=False))
        return sum(1 for _ in agree)

    def _check_open(self) -> None:
        self.log.home.check()
        if not self.close.alive:
            raise EngineError(f"what runs programs on {self.engine!r} is closed", "load it again")

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        self._check_open()
        _check_call(call, sink, ScoreCall)
        try:
            return self._score(call, sink)
        except SgnbError as error:
            self._post(sink, Scores(error=error))
            return lambda: None

    def knows_unconditional(self, tokens: Tokens) -> bool:
        """Whether the log-probabilities of a choice without a prompt are kept."""
        ids = (arguments.number("tokens", token) for token in arguments.items("tokens", tokens))
        return tuple(ids) in self._unconditional_logprobs

    def _score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        _, continued, start = encode_choices(self.engine, call)
        own = [tuple(tokens[start:]) for tokens in continued]
        changes, kept = self.engine.check_weights(), self._unconditional_logprobs
        if changes != self._weight_changes or len(kept) > REMEMBERED_CHOICES:
            kept = self._unconditional_logprobs = {}
            self._weight_changes = changes
        # What a choice is worth without the prompt is the same in every program.
        wanted = own if call.unconditional else []
        known = {tokens: kept[tokens] for tokens in wanted if tokens in kept}
        alone = [tokens for tokens in wanted if tokens not in known]

        def finish(outputs: list[Output]) -> None:
            if error := next((o.error for o in outputs if o.error), None):
                self._post(sink, Scores(error=error))
                return
            found = zip(alone, outputs[len(own) :], strict=True)
            made = {tokens: (None, *output.prompt_logprobs) for tokens, output in found}
            kept.update(made)
            self._post(sink, self._scores(own, outputs, known | made))

        gather = _Gather(len(continued) + len(alone), finish)
        conditional = SamplingParams(
            max_new_tokens=0, temperature=0, return_logprob=True, logprob_start_len=start
        )
        unconditional = replace(conditional, logprob_start_len=0)
        params = [conditional] * len(continued) + [unconditional] * len(alone)
        origin = _origin(call, "score")
        sinks = [partial(gather.put, i) for i in range(len(params))]
        origins = [origin] * len(params)
        sharing = [self._apart.sharing._replace(reservation=call.reservation)] * len(params)
        prompts = [*continued, *alone]
        ids = self.engine.submit(prompts, params, sinks, origins=origins, sharing=sharing)
        return partial(self.engine.abort, ids)

    def _scores(
        self, own: list[Tokens], outputs: list[Output], unconditional: dict[Tokens, Logprobs]
    ) -> Scores:
        """own: the tokens of each choice, which the first outputs are for."""
        text = str if self.engine.tokenizer is None else self.engine.tokenizer.text
        choices = []
        for tokens, output in zip(own, outputs, strict=False):
            after = output.next_token
            choices.append(
                ChoiceScore(
                    tokens,
                    tuple(output.prompt_logprobs),
                    unconditional.get(tokens, ()),
                    tuple(map(text, tokens)),
                    () if after is None else ((output.logprobs[0], after, text(after)),),
                )
            )
        meta = {
            "prompt_tokens": sum(o.prompt_tokens for o in outputs),
            "cached_tokens": sum(o.cached_tokens for o in outputs),
            "e2e_latency": max(o.e2e_latency for o in outputs),
        }
        return Scores(tuple(choices), meta)

    @property
    def model_name(self) -> str:
        return str(self.engine.model_name)

    @property
    def room(self) -> Room | None:
        """None with recurrent layers, whose states no reservation counts, and without a cache."""
        engine, options = self.engine, self.engine.options
        requests = options.max_running_requests or 1
        sizes = engine.pool_tokens, engine.context_length, requests, engine.shared_prefix
        most = Room(*sizes, options.reserve)
        return most if options.prefix_cache and not engine.state_bytes else None

    def cached_length(self, tokens: Sequence[int]) -> int:
        """How many leading tokens of a prompt the cache has now, and a call would find."""
        return self.engine.cached_length(tokens) if self.engine.options.prefix_cache else 0

    def dry_executor(self) -> DryExecutor:
        """Another executor, for one run, that asks the engine for no token; to be closed."""
        from .dry import DryExecutor

        return DryExecutor(self.engine)

    def release(self, reservation: Reservation, made: int | None) -> None:
        """After what is on its way to the engine."""
        reservation = arguments.reservation(reservation)
        made = arguments.optional_number("made", made)
        self._mail.put(partial(self.engine.release, reservation, made))

    @property
    def tokenizer_id(self) -> str:
        return "" if self.engine.tokenizer is None else self.engine.tokenizer.fingerprint

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        return self.engine.encode([segments])[0]

    def flush_cache(self) -> int:
        self._unconditional_logprobs = {}
        return self.engine.flush_cache()

    def server_info(self) -> dict[str, Any]:
        engine = self.engine
        own = {"model_path": engine.model_name, "model": engine.model_name, "device": engine.device}
        return own | {"context_length": engine.context_length} | engine.stats()

    def _post(self, sink: Callable[[Any], None], item: Any) -> None:
        self._mail.put(partial(sink, item))


class _PendingCall:
    """A call on its way to the engine, and its requests there."""

    def __init__(
        self, executor: LocalExecutor, call: Call, sink: Callable[[Delta | Result], None]
    ) -> None:
        self.executor, self.call, self.sink = executor, call, sink
        self.params = split_samples(executor._apart.params(call))  # of each sample
        self.outputs: dict[int, Output] = {}  # of the samples that have ended
        self.cancelled = False
        self.ids: list[int] = []

    def cancel(self) -> None:
        self.cancelled = True
        self.executor.engine.abort(self.ids)

    def fail(self, error: Exception) -> None:
        """Hand the error over, on the executor's thread; an error of the sink is logged."""
        _try(partial(self.sink, Result(error=error)))

    def take(self, index: int, output: Output) -> None:
        """Take a sample's output, on the engine's thread."""
        if index == 0 and self.call.stream and output.delta:
            self.executor._post(self.sink, Delta(output.delta, lambda: output.meta_info))
        if output.finish_reason is not None:
            self.outputs[index] = output
            if len(self.outputs) == len(self.params):
                self.executor._mail.put(self._finish)

    def _finish(self) -> None:
        """Hand the result over, on the executor's thread."""
        outputs = [self.outputs[index] for index in range(len(self.params))]
        self.sink(
            Result(
                tuple([output.text for output in outputs]),
                tuple([output.meta_info for output in outputs]),
                next((output.error for output in outputs if output.error), None),
                made_segments(self.executor.engine, outputs[0]),
            )
        )


Mail = queue.SimpleQueue[Callable[[], None] | _PendingCall | None]
"""Deliveries of results to programs, calls for the engine, and None at the end."""


class _Gather:
    """Collects the final outputs of several requests, and hands them on in order when all are
    there. Used on the engine's thread only."""

    def __init__(self, count: int, done: Callable[[list[Output]], None]) -> None:
        self._outputs: dict[int, Output] = {}
        self._count, self._done = count, done

    def put(self, index: int, output: Output) -> None:
        self._outputs[index] = output
        if len(self._outputs) == self._count:
            self._done([self._outputs[i] for i in range(self._count)])


def made_segments(engine: Engine, output: Output) -> tuple[Segment, ...]:
    """An output as later prompts read it: its tokens, without the one that ended it, and as text
    the rest of a token that a stop string cut; all of it as text where thinking was left out."""
    tokens = output.token_ids[: -1 if isinstance(output.stopped_by, int) else None]
    if engine.tokenizer is None or output.reasoning:
        return _as_text(output)
    if not isinstance(output.stopped_by, str):
        return (Segment(output.text, "output", tuple(tokens)),)
    left, kept = output.text.encode(), 0
    for piece in engine.tokenizer.pieces(tokens):
        if not left.startswith(piece):
            break
        left, kept = left[len(piece) :], kept + 1
    try:
        rest = left.decode()
    except UnicodeDecodeError:  # the cut token begins inside a character
        return _as_text(output)
    whole = output.text.removesuffix(rest)
    return Segment(whole, "output", tuple(tokens[:kept])), Segment(rest, "data")


def _as_text(output: Output) -> tuple[Segment, ...]:
    return Segment("", "output"), Segment(output.text, "data")


def _check(name: str, value: Any, right: bool, rule: str) -> None:
    if not right:
        raise OptionError(f"{name}={shown(value)} is not allowed", f"{name} must be {rule}")


def _check_call(call: Any, sink: Any, kind: type[Call] | type[ScoreCall]) -> None:
    _check("call", call, isinstance(call, kind), f"a {kind.__name__}")
    _check("sink", sink, callable(sink), "a function")


def _origin(call: Call | ScoreCall, purpose: str) -> Origin:
    file, line = call.location or ("", 0)
    return Origin(call.run, call.branch, call.name, purpose, file, line)


def encode_choices(engine: Engine, call: ScoreCall) -> tuple[list[int], list[list[int]], int]:
    """The tokens of the prompt, those of the prompt with each choice, and where scoring starts.

    A choice may change how the end of the prompt is tokenized: every choice is scored from the
    first token that differs in any.
    """
    before = call.segments or (Segment(call.prompt),)
    after = [(*before, Segment(choice, call.kind)) for choice in call.choices]
    prompt, *continued = engine.encode([before, *after])
    start = min(common_tokens(prompt, tokens) for tokens in continued)
    if start == 0:
        message = f"select {call.name!r} has no text before its choices"
        raise RequestError(message, "put some text before it")
    return prompt, continued, start


def marks(engine: Engine) -> re.Pattern[str] | None:
    """Finds the special tokens that the model's tokenizer would read in a text."""
    return engine.tokenizer.marks if engine.tokenizer else None


def chat_template(engine: Engine) -> ChatTemplate:
    """The role marks of the model's own chat template; plain ones for a model without."""
    tokenizer = engine.tokenizer.hf if engine.tokenizer else None
    if tokenizer is None or not tokenizer.chat_template:
        return PLAIN

    def render(messages: Messages, tools: Any = None) -> str:
        return tokenizer.apply_chat_template(list(messages), tools=tools, tokenize=False)

    name = engine.model_name
    try:
        template = _read_template(name, render)
    except Exception as error:  # a Jinja template may raise anything
        message = (
            f"{name}'s chat template cannot be taken apart ({error}); plain role marks are used"
        )
        warnings.warn(printable(message), stacklevel=2)
        return PLAIN
    if template.last_answer.strip():
        message = (
            f"{name}'s chat template writes {template.last_answer!r} before a conversation's last "
            "answer; a program that wants it writes assistant(raw(...) + gen(...))"
        )
        warnings.warn(printable(message), stacklevel=2)
    return _with_stops(engine, template)


def _with_stops(engine: Engine, template: ChatTemplate) -> ChatTemplate:
    """`template` with what it writes after an answer, or else before the next turn, as a stop: a
    special token, unless it ends every generation anyway, or a string."""
    assert engine.tokenizer is not None
    after = template.roles["assistant"][1]
    closing = (after if after.strip() else after + template.roles["user"][0]).rstrip()
    mark = engine.tokenizer.marks.search(closing) if engine.tokenizer.marks else None
    text = closing if mark is None else closing[: mark.start()].rstrip()
    if text:
        return replace(template, stop=(text,))
    token = engine.tokenizer.hf.convert_tokens_to_ids(mark[0]) if mark else None
    stops = () if token is None or token in engine.eos_token_ids else (token,)
    return replace(template, stop_token_ids=stops)


def executor_of(engine: Engine) -> LocalExecutor:
    """The one executor that programs on this engine share."""
    with _making:
        if engine.executor is None:
            engine.executor = LocalExecutor(engine)
        executor: LocalExecutor = engine.executor
        return executor


_making = threading.Lock()


def _read_template(name: str, render: Callable[..., str]) -> ChatTemplate:
    """On a thread that can be stopped: a template is a program, and need not end."""
    reading = Background(lambda: with_tools(from_render(name, render), render), "sgnb-template")
    try:
        if reading.wait(TEMPLATE_SECONDS):
            template: ChatTemplate = reading.result()
            return template
    except KeyboardInterrupt:
        reading.stop()
        raise
    reading.stop()
    message = f"it was not rendered after {TEMPLATE_SECONDS:g} s"
    raise TemplateError(message, "give the roles as a ChatTemplate")


def _serve(mail: Mail) -> None:
    """Deliver results and send calls until None comes."""
    item = mail.get()
    while item is not None:
        calls: list[_PendingCall] = []
        opened = 0
        while item is not None:
            if isinstance(item, _PendingCall):
                calls.append(item)
            else:
                _try(item)
            opened += 1
            if opened == MAX_BATCHED_CALLS or mail.empty():
                break
            item = mail.get()
        if calls:
            _try(partial(calls[0].executor.submit, calls))
        ended = item is None
        del calls, item  # they may hold the executor, whose finalizer ends this thread
        item = None if ended else mail.get()


def _try(work: Callable[[], None]) -> None:
    """One that fails is logged, and the others go on."""
    try:
        work()
    except BaseException:
        _log.exception("what listened to a program's step failed")
