"""Dry execution: run a program without a model and describe the calls.

`DryExecutor` answers every call at once. The texts and the descriptions come from `Answers`:
`LongestAnswers` for upper bounds of a graph, `backends.dry.EngineAnswers` for likely answers.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple, NoReturn, Protocol
from weakref import WeakKeyDictionary

from ...errors import Aborted, GrammarError, ProgramError
from ...events import EventLog
from ...grammar.automaton.automaton import START
from ...grammar.compiler import compile_spec
from ...grammar.spec import GrammarSpec
from ...part_order import OrderMemory, PartOrder
from ...sampling import SamplingParams
from ...segment import Segment
from ...sequences import common_length
from ..chat import PLAIN, ChatTemplate
from ..core.choices import (
    token_length_normalized,
    unconditional_likelihood_normalized,
    wants_unconditional,
)
from ..core.part_orders import remembered_order
from ..core.run import Run
from ..core.snapshot import Snapshot
from ..executor import (
    Call,
    ChoiceScore,
    Delta,
    Executor,
    OrderCall,
    Result,
    ScoreCall,
    Scores,
    executor_of,
    modalities,
    model_name,
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
"""Repetitions of a unit when measuring the number of tokens in a text of units."""


class NoExecutor:
    """An executor for traces: provides a chat template and never receives a request."""

    tokenizer_id = ""
    modalities = frozenset({"image", "video", "audio"})
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


class Answers(Protocol):
    """Answers of a dry run, and a description of each call."""

    calls: list[Any]  # in call order, including calls to other models

    def generate(self, call: Call) -> Result: ...

    def score(self, call: ScoreCall) -> Scores: ...

    def order(self, call: OrderCall) -> PartOrder: ...

    def for_backend(self, backend: Executor) -> Answers:
        """Return the answers of another model, with the same list of calls."""
        ...


class DryExecutor:
    """An `Executor` that answers on the caller's thread and sends no request to a model."""

    dry = True

    def __init__(self, executor: Executor, answers: Answers) -> None:
        self.chat, self.special_tokens = executor.chat, executor.special_tokens
        self.tokenizer_id, self.log = executor.tokenizer_id, EventLog(0)
        self.modalities, self.model_name = modalities(executor), model_name(executor)
        self._executor, self._answers = executor, answers
        self._stand_ins: WeakKeyDictionary[EventLog, DryExecutor] = WeakKeyDictionary()
        self.orders: list[str] = []  # chosen orders of parts, in words
        self._lock = threading.Lock()  # guards the answers and the stand-ins

    @property
    def calls(self) -> list[Any]:
        """Descriptions of the calls, in call order."""
        return self._answers.calls

    def stand_in(self, backend: Executor) -> DryExecutor:
        """Return the dry executor for calls to `backend`."""
        if backend.log is self._executor.log:
            return self
        with self._lock:
            if backend.log not in self._stand_ins:
                answers = self._answers.for_backend(backend)
                self._stand_ins[backend.log] = DryExecutor(backend, answers)
            return self._stand_ins[backend.log]

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        with self._lock:
            result = self._answers.generate(call)
        sink(result)
        return lambda: None

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        with self._lock:
            scores = self._answers.score(call)
        sink(scores)
        return lambda: None

    def order(self, call: OrderCall, sink: Callable[[PartOrder], None]) -> None:
        """See `core.part_orders`."""
        with self._lock:
            order = self._answers.order(call)
            self.orders.append(f"{call.location}: {order.line()}")
        sink(order)

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        return self._executor.encode(segments)

    def flush_cache(self) -> int:
        """Return 0: the executor's cache stays unchanged."""
        return 0

    def server_info(self) -> dict[str, Any]:
        return {"dry": True}


class DryRequest(NamedTuple):
    """A request of a call."""

    prompt: tuple[int, ...]  # token ids; negative for tokens not generated yet
    reusable: int  # leading tokens that may come from the cache
    new: int  # maximum number of new tokens
    recomputed: int = 0  # reusable tokens that may be recomputed next to a concurrent request
    answer: tuple[int, ...] = ()  # ids of the new tokens, if later prompts continue the answer
    forced: int = 0  # estimated new tokens forced by the grammar


class NodeRequests(NamedTuple):
    """A node with a call, and the requests of the call; none if another executor runs the call."""

    node: Node
    requests: tuple[DryRequest, ...]


class DryExecution:
    """A graph prepared for repeated dry runs with answers of maximum length. Thread-safe.

    Holds a weak reference to the executor.

    Raises:
        ProgramError: The calls of the graph are not known before the run.
    """

    def __init__(self, graph: Graph, executor: Executor) -> None:
        _check_calls_are_known(graph)
        self._settings = graph.settings
        self._call_nodes = [node for node in graph.nodes if isinstance(node.op, Gen | Select)]
        nodes = tuple(map(_with_builtin_method, graph.nodes))
        self._plan = Plan(replace(graph, nodes=nodes))
        self._executor = weakref.ref(executor)

    def run(
        self,
        arguments: Mapping[str, Any],
        defaults: SamplingParams | Mapping[str, Any] | None = None,
        initial: Snapshot | None = None,
        orders: list[str] | None = None,
    ) -> list[NodeRequests]:
        """Return the calls of a run with these `arguments`, in node order. Appends the orders of
        parts, in words, to `orders`.

        See `Run` for `defaults` and `initial`. Raises the errors of the program, such as
        ExpressionError.
        """
        executor = self._executor()
        assert executor is not None, "the caller keeps the executor alive"
        dry_executor = DryExecutor(executor, LongestAnswers(executor))

        def executor_for(backend: Any) -> Executor:
            if backend is None:
                return dry_executor
            return dry_executor.stand_in(executor_of(backend))

        run = Run(
            dry_executor,
            defaults=defaults,
            special_tokens=self._settings.special_tokens,
            keep_tokens=self._settings.keep_tokens,
            initial=initial,
            traced=True,
        )
        state = run.state()
        state.program.taint(dict(arguments))
        self._plan.run(state, arguments, executor_for)
        state.raise_error()
        if orders is not None:
            orders += dry_executor.orders
        return list(map(NodeRequests, self._call_nodes, dry_executor.calls))


class LongestAnswers:
    """Answers of maximum length: generations with distinct texts, selects with the longest
    choice."""

    def __init__(
        self, executor: Executor, calls: list[tuple[DryRequest, ...]] | None = None
    ) -> None:
        """`calls`: the list of the main model, if `executor` runs another model. Calls to another
        model have no requests."""
        self.calls: list[tuple[DryRequest, ...]] = [] if calls is None else calls
        self._is_main = calls is None
        self._executor = executor
        self._orders = OrderMemory()
        self._num_written = 0  # number of generated tokens
        room = room_of(executor)
        self._context = inf if room is None else room.context
        self._recomputed = 0 if room is None else room.shared - 1
        sizes = {unit: len(executor.encode([Segment(unit * _REPEATED)])) for unit in _UNITS}
        self._unit = min((u for u in _UNITS if sizes[u] >= _REPEATED), key=sizes.__getitem__)

    def for_backend(self, backend: Executor) -> LongestAnswers:
        return LongestAnswers(backend, self.calls)

    def generate(self, call: Call) -> Result:
        params, prompt = call.params, self._tokens(call)
        new = new_tokens(params, self._context - len(prompt))
        is_scored = params.return_logprob and params.logprob_start_len >= 0
        end = max(params.logprob_start_len, 1) if is_scored else len(prompt)
        reusable = max(0, min(end, len(prompt)) - 1)
        request = self._request(prompt, reusable, new, forced=min(new, self._forced(params)))

        first_id = -1 - self._num_written
        self._num_written += new
        answer = tuple(range(first_id, first_id - new, -1))
        self._record([request._replace(answer=answer), *[request] * (params.n - 1)])
        texts = tuple([self._text(f"{self._num_written}.{i}", new) for i in range(params.n)])
        return Result(texts, ({},) * params.n, segments=(Segment(texts[0], "output", answer),))

    def order(self, call: OrderCall) -> PartOrder:
        return likely_order(self._executor, call, self._orders)

    def score(self, call: ScoreCall) -> Scores:
        segments = call.segments or (Segment(call.prompt),)
        prompt = self._tokens(call)
        continued = [
            tuple(self._executor.encode([*segments, Segment(choice, call.kind)]))
            for choice in call.choices
        ]
        start = min(common_length(prompt, tokens) for tokens in continued)
        choices = [tokens[start:] for tokens in continued]
        requests = [self._request(tokens, max(0, start - 1), 0) for tokens in continued]
        requests += [DryRequest(tokens, 0, 0) for tokens in choices if call.unconditional]
        self._record(requests)
        longest = max(choices, key=len)
        return Scores(tuple(choice_score(tokens, tokens is longest) for tokens in choices))

    def _record(self, requests: list[DryRequest]) -> None:
        self.calls.append(tuple(requests) if self._is_main else ())

    def _request(
        self, prompt: tuple[int, ...], reusable: int, new: int, forced: int = 0
    ) -> DryRequest:
        recomputed = min(self._recomputed, reusable)
        return DryRequest(prompt, reusable, new, recomputed, forced=forced)

    def _forced(self, params: SamplingParams) -> int:
        """Estimate the forced tokens by the share of forced bytes in the shortest text."""
        grammar = params.grammar
        if grammar is None or params.thinking or params.return_logprob or not params.jump_forward:
            return 0
        text, forced = _shortest(grammar)
        return len(self._executor.encode([Segment(text)])) * forced // max(1, len(text.encode()))

    def _tokens(self, call: Call | ScoreCall) -> tuple[int, ...]:
        return tuple(self._executor.encode(call.segments or (Segment(call.prompt),)))

    def _text(self, name: str, tokens: int) -> str:
        return f" {name}{self._unit * (tokens + -(-tokens // SLACK))}" if tokens else ""


def likely_order(executor: Executor, call: OrderCall, memory: OrderMemory) -> PartOrder:
    """Return the order that a run would choose now, without a trace in the executor.

    Args:
        executor: The executor of a run.
        call: The parts.
        memory: Orders of the dry run's earlier prompts.
    """
    find = getattr(executor, "find_order", None)
    order: PartOrder = (remembered_order if find is None else find)(call, memory)
    return order


def choice_score(tokens: Sequence[int], is_chosen: bool) -> ChoiceScore:
    """Return scores by which every choice method selects the choice with `is_chosen`."""
    unconditional = (None, *(0.0,) * (len(tokens) - 1))
    return ChoiceScore(tuple(tokens), (0.0 if is_chosen else -1e9,) * len(tokens), unconditional)


def new_tokens(params: SamplingParams, room: float) -> int:
    """Return the maximum number of new tokens with `room` tokens left in the context."""
    limit = int(max(0, min(params.max_new_tokens, room)))
    if params.grammar is None or params.thinking:
        return limit
    return min(limit, _longest(params.grammar, limit) + 1)  # plus the end token


@lru_cache(maxsize=256)
def _longest(spec: GrammarSpec, limit: int) -> int:
    """Return the length in bytes of a grammar's longest text, an upper bound of tokens; at most
    `limit`."""
    try:
        automaton = compile_spec(spec).automaton
    except GrammarError:  # raised again by the call
        return limit
    return limit if automaton is None else automaton.longest(limit)


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
    for i in range(len(text)):
        forced += bool(grammar.compressed.singular[state])
        state = automaton.step(state, text[i : i + 1])
    return text.decode(errors="replace"), forced


def _with_builtin_method(node: Node) -> Node:
    """Return `node` with a built-in choice method, because a user's method may be slow."""
    if not isinstance(node.op, Select):
        return node
    needs_unconditional = wants_unconditional(node.op.method)
    builtin = (
        unconditional_likelihood_normalized if needs_unconditional else token_length_normalized
    )
    return replace(node, op=replace(node.op, method=builtin, temperature=0.0))


def _check_calls_are_known(graph: Graph) -> None:
    if graph.stopped:
        raise ProgramError(f"{graph!r} is not the whole program", graph.stopped)
    for node in graph.nodes:
        if isinstance(node.op, Gen) and node.op.tools is not None:
            reason = "how often tools are called is not known before the run"
            raise ProgramError(f"{node.location}: {reason}", "run the program to see")
