"""Runs programs on an engine in this process: an `Executor` over the engine's requests."""

from __future__ import annotations

import logging
import queue
import re
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..engine.device.background import Background
from ..engine.engine import Engine, Origin
from ..engine.request.input_processor import split_samples
from ..engine.request.output import Output
from ..engine.request.tokenizer import common_tokens
from ..errors import RequestError, SgnbError, printable
from ..lang.chat import PLAIN, ChatTemplate, Messages, TemplateError, from_render
from ..lang.executor import Call, ChoiceScore, Delta, Result, ScoreCall, Scores
from ..sampling import SamplingParams
from ..segment import Segment

_log = logging.getLogger(__name__)

TEMPLATE_SECONDS = 5.0
"""How long a model's chat template may take to render a few short turns."""

Deliveries = queue.SimpleQueue[Callable[[], None] | None]


class LocalExecutor:
    """An `Executor` (see `lang.executor`) over one engine.

    Sinks are called on one thread of the executor's own, so that a program's next step is prepared
    while the engine runs. The thread ends with `close`, or when the executor is no longer used.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.log = engine.log
        self.chat, self.marks = chat_template(engine), marks(engine)
        self._deliveries: Deliveries = queue.SimpleQueue()
        deliver = partial(_deliver, self._deliveries)
        threading.Thread(target=deliver, name="sgnb-programs", daemon=True).start()
        self.close = weakref.finalize(self, self._deliveries.put, None)

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        params = split_samples(call.params)
        samples = _Gather(len(params), lambda outputs: self._post(sink, self._result(outputs)))

        def take(index: int, output: Output) -> None:
            if output.finish_reason is None:
                if index == 0:
                    self._post(sink, Delta(output.delta))
                return
            if index == 0 and call.stream and output.delta:
                self._post(sink, Delta(output.delta))
            samples.put(index, output)

        origin = Origin(call.run, call.branch, call.name)
        sinks = [partial(take, i) for i in range(len(params))]
        try:
            prompts = self.engine.encode([call.segments or call.prompt]) * len(params)
            ids = self.engine.submit(prompts, params, sinks, stream=call.stream, origin=origin)
        except SgnbError as error:
            self._post(sink, Result(error=error))
            return lambda: None
        return partial(self.engine.abort, ids)

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        try:
            return self._score(call, sink)
        except SgnbError as error:
            self._post(sink, Scores(error=error))
            return lambda: None

    def _score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        _, continued, start = encode_choices(self.engine, call)
        own = [tuple(tokens[start:]) for tokens in continued]
        alone = [list(tokens) for tokens in own if len(tokens) > 1] if call.unconditional else []

        def finish(outputs: list[Output]) -> None:
            self._post(sink, _scores(own, outputs, call.unconditional))

        gather = _Gather(len(continued) + len(alone), finish)
        conditional = SamplingParams(max_new_tokens=0, return_logprob=True, logprob_start_len=start)
        unconditional = replace(conditional, logprob_start_len=0)
        params = [conditional] * len(continued) + [unconditional] * len(alone)
        origin = Origin(call.run, call.branch, call.name, "score")
        sinks = [partial(gather.put, i) for i in range(len(params))]
        ids = self.engine.submit([*continued, *alone], params, sinks, origin=origin)
        return partial(self.engine.abort, ids)

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        return self.engine.encode([segments])[0]

    def flush_cache(self) -> None:
        self.engine.flush_cache()

    def server_info(self) -> dict[str, Any]:
        engine = self.engine
        own = {"model": engine.model_name, "device": engine.device}
        return own | {"context_length": engine.context_length} | engine.stats()

    def _result(self, outputs: list[Output]) -> Result:
        error = next((o.error for o in outputs if o.error), None)
        texts, meta = tuple(o.text for o in outputs), tuple(o.meta_info for o in outputs)
        return Result(texts, meta, error, made_segments(self.engine, outputs[0]))

    def _post(self, sink: Callable[[Any], None], item: Any) -> None:
        self._deliveries.put(partial(sink, item))


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
    as_text = Segment("", "output"), Segment(output.text, "data")
    if output.reasoning or engine.tokenizer is None:
        return as_text
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
        return as_text
    whole = output.text.removesuffix(rest)
    return Segment(whole, "output", tuple(tokens[:kept])), Segment(rest, "data")


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

    def render(messages: Messages) -> str:
        return tokenizer.apply_chat_template(list(messages), tokenize=False)

    name = engine.model_name
    try:
        return _read_template(name, render)
    except Exception as error:  # a Jinja template may raise anything
        message = (
            f"{name}'s chat template cannot be taken apart ({error}); plain role marks are used"
        )
        warnings.warn(printable(message), stacklevel=2)
        return PLAIN


def _read_template(name: str, render: Callable[[Messages], str]) -> ChatTemplate:
    """On a thread that can be stopped: a template is a program, and need not end."""
    reading = Background(partial(from_render, name, render), "sgnb-template")
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


def _deliver(deliveries: Deliveries) -> None:
    """Make deliveries until None comes. A sink that fails is logged, and the others go on."""
    while (delivery := deliveries.get()) is not None:
        try:
            delivery()
        except BaseException:
            _log.exception("what listened to a program's step failed")
        del delivery  # it may hold the executor, whose finalizer ends this thread


def _scores(own: list[tuple[int, ...]], outputs: list[Output], unconditional: bool) -> Scores:
    error = next((o.error for o in outputs if o.error), None)
    if error:
        return Scores(error=error)
    alone = iter(outputs[len(own) :])
    choices = []
    for tokens, output in zip(own, outputs, strict=False):
        without: tuple[float | None, ...] = (None,) if unconditional else ()
        if unconditional and len(tokens) > 1:
            without = (None, *next(alone).prompt_logprobs)
        choices.append(ChoiceScore(tokens, tuple(output.prompt_logprobs), without))
    meta = {
        "prompt_tokens": sum(o.prompt_tokens for o in outputs),
        "cached_tokens": sum(o.cached_tokens for o in outputs),
    }
    return Scores(tuple(choices), meta)
