"""Rehearse a graph with stand-in answers of maximum length and record the requests of its calls.
Sends no request to a model; uses the executor only for tokenization."""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple, NoReturn

from ...errors import Aborted, GrammarError, ProgramError
from ...events import EventLog
from ...grammar.automaton.automaton import START
from ...grammar.compiler import compile_spec
from ...grammar.spec import GrammarSpec
from ...sampling import SamplingParams
from ...segment import Segment
from ...sequences import common_length
from ..chat import PLAIN, ChatTemplate
from ..core.choices import (
    token_length_normalized,
    unconditional_likelihood_normalized,
    wants_unconditional,
)
from ..core.run import Run
from ..core.snapshot import Snapshot
from ..executor import (
    Call,
    ChoiceScore,
    Delta,
    Executor,
    Result,
    ScoreCall,
    Scores,
    executor_of,
    room_of,
)
from ..ir import Gen, Select
from .graph import Graph
from .nodes import Node
from .replay import Plan

SLACK = 8
"""Tokens added per appended generated text of n tokens: n / SLACK. Retokenization in another
context may yield more tokens."""

_UNITS = " the", " a", "a", "\U0001f9ee"
_REPEATED = 64
"""Repetitions of a unit when measuring its number of tokens in a stand-in text."""


class DryRequest(NamedTuple):
    """A request of a call."""

    prompt: tuple[int, ...]  # token ids; negative for tokens not generated yet
    reusable: int  # leading tokens that may come from the cache
    new: int  # maximum number of new tokens
    recomputed: int = 0  # reusable tokens that may be recomputed next to a concurrent request
    answer: tuple[int, ...] = ()  # ids of the new tokens, if later prompts continue from the answer
    forced: int = 0  # estimated new tokens forced by the grammar


class DryCall(NamedTuple):
    """A call and its requests; no requests if another executor runs the call."""

    node: Node
    requests: tuple[DryRequest, ...]


class DryExecution:
    """A graph prepared for repeated rehearsals on an executor. Thread-safe.

    Holds a weak reference to the executor. Raises ProgramError for a graph with unpredictable
    calls.
    """

    def __init__(self, graph: Graph, executor: Executor) -> None:
        _check_known(graph)
        self._own = graph.settings
        self._asking = [node for node in graph.nodes if isinstance(node.op, Gen | Select)]
        self._asked: list[tuple[DryRequest, ...]] = []
        self._lock = threading.Lock()  # guards `_asked`
        self._executor = weakref.ref(executor)
        self._here = StandIn(executor, self._asked)
        nodes = tuple(replace(node, op=self._rehearsed(node.op)) for node in graph.nodes)
        self._plan = Plan(replace(graph, nodes=nodes))

    def run(
        self,
        arguments: Mapping[str, Any],
        defaults: SamplingParams | Mapping[str, Any] | None = None,
        initial: Snapshot | None = None,
    ) -> list[DryCall]:
        """Return the calls of a run with these `arguments`, in node order.

        See `Run` for `defaults` and `initial`. Raises the errors of the program, such as
        ExpressionError.
        """
        own = self._own
        with self._lock:
            self._asked.clear()
            self._here.written = 0
            run = Run(
                self._here,
                defaults=defaults,
                special_tokens=own.special_tokens,
                keep_tokens=own.keep_tokens,
                initial=initial,
                traced=True,
            )
            state = run.state()
            state.program.taint(dict(arguments))
            self._plan.run(state, arguments, self._stand_in)
            state.raise_error()
            return list(map(DryCall, self._asking, self._asked))

    def _stand_in(self, backend: Any) -> StandIn:
        """Return the stand-in of an executor; `None` means the run's executor."""
        if backend is None or executor_of(backend) is self._executor():
            return self._here
        return StandIn(executor_of(backend), self._asked, counts=False)

    def _rehearsed(self, what: Any) -> Any:
        """Return `what` with a stand-in backend and a built-in choice method."""
        if isinstance(what, Gen | Select) and what.backend is not None:
            what = replace(what, backend=self._stand_in(what.backend))
        if isinstance(what, Select):
            alone = wants_unconditional(what.method)
            method = unconditional_likelihood_normalized if alone else token_length_normalized
            return replace(what, method=method, temperature=0.0)
        return what


class StandIn:
    """An `Executor` that answers immediately on the caller's thread: generations with distinct
    texts of maximum length, selects with the longest choice."""

    dry = True

    def __init__(
        self, executor: Executor, asked: list[tuple[DryRequest, ...]], counts: bool = True
    ) -> None:
        """Wrap `executor`; append each call's requests to `asked`, or an empty tuple if not
        `counts`."""
        self.chat, self.special_tokens, self.log = (
            executor.chat,
            executor.special_tokens,
            EventLog(0),
        )
        self.tokenizer_id = executor.tokenizer_id
        self._executor = weakref.ref(executor)
        self._asked, self._counts = asked, counts
        self.written = 0  # number of generated tokens
        room = room_of(executor)
        self._context = inf if room is None else room.context
        self._again = 0 if room is None else room.shared - 1
        sizes = {unit: len(self.encode([Segment(unit * _REPEATED)])) for unit in _UNITS}
        self._unit = min((u for u in _UNITS if sizes[u] >= _REPEATED), key=sizes.__getitem__)

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        params, prompt = call.params, self._tokens(call)
        new = new_tokens(params, self._context - len(prompt))
        scored = params.return_logprob and params.logprob_start_len >= 0
        reusable = max(params.logprob_start_len, 1) if scored else len(prompt)
        reusable = max(0, min(reusable, len(prompt)) - 1)
        request = self._request(prompt, reusable, new, forced=min(new, self._forced(params)))
        first = -1 - self.written
        self.written += new
        made = tuple(range(first, first - new, -1))
        self._note([request._replace(answer=made), *[request] * (params.n - 1)])
        texts = tuple([self._text(f"{self.written}.{i}", new) for i in range(params.n)])
        sink(Result(texts, ({},) * params.n, segments=(Segment(texts[0], "output", made),)))
        return lambda: None

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        before = call.segments or (Segment(call.prompt),)
        prompt = self._tokens(call)
        after = [tuple(self.encode([*before, Segment(c, call.kind)])) for c in call.choices]
        start = min(common_length(prompt, tokens) for tokens in after)
        own = [tokens[start:] for tokens in after]
        requests = [self._request(tokens, max(0, start - 1), 0) for tokens in after]
        requests += [DryRequest(tokens, 0, 0) for tokens in own if call.unconditional]
        self._note(requests)
        longest = max(own, key=len)
        scores = [_score(tokens, 0.0 if tokens is longest else -1e9) for tokens in own]
        sink(Scores(tuple(scores)))
        return lambda: None

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        executor = self._executor()
        assert executor is not None, "its caller holds it"
        return executor.encode(segments)

    def flush_cache(self) -> int:
        """Return 0 without any effect."""
        return 0

    def server_info(self) -> dict[str, Any]:
        return {}

    def _note(self, requests: list[DryRequest]) -> None:
        self._asked.append(tuple(requests) if self._counts else ())

    def _request(
        self, prompt: tuple[int, ...], reusable: int, new: int, forced: int = 0
    ) -> DryRequest:
        return DryRequest(prompt, reusable, new, min(self._again, reusable), forced=forced)

    def _forced(self, params: SamplingParams) -> int:
        """Estimate the forced tokens by the share of forced bytes in the shortest text."""
        grammar = params.grammar
        if grammar is None or params.thinking or params.return_logprob or not params.jump_forward:
            return 0
        text, forced = _shortest(grammar)
        return len(self.encode([Segment(text)])) * forced // max(1, len(text.encode()))

    def _tokens(self, call: Call | ScoreCall) -> tuple[int, ...]:
        return tuple(self.encode(call.segments or (Segment(call.prompt),)))

    def _text(self, name: str, tokens: int) -> str:
        return f" {name}{self._unit * (tokens + -(-tokens // SLACK))}" if tokens else ""


class NoExecutor:
    """An executor for traces: provides a chat template and never receives a request."""

    tokenizer_id = ""
    special_tokens: re.Pattern[str] | None = None

    def __init__(self) -> None:
        self.chat: ChatTemplate = PLAIN
        self.log = EventLog()

    def generate(self, call: Any, sink: Any) -> NoReturn:
        raise Aborted("a traced program asks no model")

    score = generate

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        return []

    def flush_cache(self) -> int:
        return 0

    def server_info(self) -> dict[str, Any]:
        return {}


def new_tokens(params: SamplingParams, room: float) -> int:
    """Return the maximum number of new tokens with `room` tokens left in the context."""
    most = int(max(0, min(params.max_new_tokens, room)))
    if params.grammar is None or params.thinking:
        return most
    return min(most, _longest(params.grammar, most) + 1)  # plus the end token


@lru_cache(maxsize=256)
def _longest(spec: GrammarSpec, most: int) -> int:
    """Return the length in bytes of a grammar's longest text, an upper bound of tokens; at most
    `most`."""
    try:
        automaton = compile_spec(spec).automaton
    except GrammarError:  # raised again by the call
        return most
    return most if automaton is None else automaton.longest(most)


@lru_cache(maxsize=256)
def _shortest(spec: GrammarSpec) -> tuple[str, int]:
    """Return a grammar's shortest text and its number of forced bytes; empty if unknown."""
    try:
        grammar = compile_spec(spec)
    except GrammarError:
        return "", 0
    automaton = grammar.automaton
    if automaton is None:
        return "", 0
    text, state, forced = automaton.completion(START), START, 0
    for at in range(len(text)):
        forced += bool(grammar.compressed.singular[state])
        state = automaton.step(state, text[at : at + 1])
    return text.decode(errors="replace"), forced


def _check_known(graph: Graph) -> None:
    if graph.stopped:
        raise ProgramError(f"{graph!r} is not the whole program", graph.stopped)
    for node in graph.nodes:
        if isinstance(node.op, Gen) and node.op.tools is not None:
            what = "how often tools are called is not known before the run"
            raise ProgramError(f"{node.location}: {what}", "run the program to see")


def _score(tokens: tuple[int, ...], logprob: float) -> ChoiceScore:
    """Return the score of a choice with this log-probability per token; 0 without the prompt."""
    alone = (None, *(0.0,) * (len(tokens) - 1))
    return ChoiceScore(tokens, (logprob,) * len(tokens), alone)
