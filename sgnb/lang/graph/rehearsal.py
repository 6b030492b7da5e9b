"""Rehearses a graph: runs it with stand-ins that are as long as answers may be, and notes the
requests that its calls would make. Asks no model, and an executor for tokens only."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple

from ...errors import GrammarError, ProgramError
from ...events import EventLog
from ...grammar.automaton.automaton import START
from ...grammar.compiler import compile_spec
from ...grammar.spec import GrammarSpec
from ...sampling import SamplingParams
from ...segment import Segment
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
from .tokens import common_tokens

SLACK = 8
"""A text of n generated tokens that a program appends again is taken for n + n / SLACK: in another
place the tokenizer may cut it otherwise."""

_UNITS = " the", " a", "a", "\U0001f9ee"
_REPEATED = 64
"""Stand-ins repeat the unit that gives a token each time, or few more."""


class Requested(NamedTuple):
    """One request of a call."""

    prompt: tuple[int, ...]  # token ids; below 0 those that a model is to write
    reusable: int  # leading tokens that may come from the cache
    new: int  # tokens, at most
    again: int = 0  # of the reusable, those that it may compute beside others that do
    made: tuple[int, ...] = ()  # the new tokens, where later prompts go on from them
    forced: int = 0  # of the new tokens, about those that its grammar leaves no choice about


class Rehearsed(NamedTuple):
    """A call, and its requests; none where another executor takes it."""

    node: Node
    requests: tuple[Requested, ...]


class Rehearsal:
    """A graph made ready to be rehearsed on an executor, any number of times, from any thread.
    Keeps no executor from being let go. ProgramError for one whose calls nobody knows."""

    def __init__(self, graph: Graph, executor: Executor) -> None:
        own = graph.called.run
        assert own is not None
        _check_known(graph)
        self._own = own
        self._asking = [node for node in graph.nodes if isinstance(node.what, Gen | Select)]
        self._asked: list[tuple[Requested, ...]] = []
        self._lock = threading.Lock()  # of `_asked`
        self._executor = weakref.ref(executor)
        self._here = StandIn(executor, self._asked)
        nodes = tuple(replace(node, what=self._rehearsed(node.what)) for node in graph.nodes)
        self._plan = Plan(replace(graph, nodes=nodes))

    def run(
        self,
        arguments: Mapping[str, Any],
        defaults: SamplingParams | Mapping[str, Any] | None = None,
        held: Snapshot | None = None,
    ) -> list[Rehearsed]:
        """The calls of a run with these arguments, in the order of their nodes. `defaults` and
        `held` are those of `Run`. Raises what the program would, such as an ExpressionError."""
        own = self._own
        with self._lock:
            self._asked.clear()
            self._here.written = 0
            run = Run(
                self._here,
                defaults=defaults,
                marks=own.marks,
                keep_tokens=own.keep_tokens,
                held=held,
                traced=True,
            )
            state = run.state()
            state.program.know(dict(arguments))
            self._plan.run(state, arguments, self._stand_in)
            state.raise_error()
            return list(map(Rehearsed, self._asking, self._asked))

    def _stand_in(self, backend: Any) -> StandIn:
        """For an executor, by default the run's own."""
        if backend is None or executor_of(backend) is self._executor():
            return self._here
        return StandIn(executor_of(backend), self._asked, counts=False)

    def _rehearsed(self, what: Any) -> Any:
        """What a node is in place of `what`: on a stand-in, and chosen by no code of the user's."""
        if isinstance(what, Gen | Select) and what.backend is not None:
            what = replace(what, backend=self._stand_in(what.backend))
        if isinstance(what, Select):
            alone = wants_unconditional(what.method)
            method = unconditional_likelihood_normalized if alone else token_length_normalized
            return replace(what, method=method, temperature=0.0)
        return what


class StandIn:
    """An `Executor` that answers at once, on the caller's thread: to a generation with texts of as
    many tokens as it may have, no two of them alike, and to a select with its longest choice."""

    dry = True

    def __init__(
        self, executor: Executor, asked: list[tuple[Requested, ...]], counts: bool = True
    ) -> None:
        """executor: that it stands for. asked: where each call's requests are put, if they count
        there, and else an empty tuple."""
        self.chat, self.marks, self.log = executor.chat, executor.marks, EventLog(0)
        self.tokenizer_id = executor.tokenizer_id
        self._executor = weakref.ref(executor)
        self._asked, self._counts = asked, counts
        self.written = 0  # tokens
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
        self._note([request._replace(made=made), *[request] * (params.n - 1)])
        texts = tuple([self._text(f"{self.written}.{i}", new) for i in range(params.n)])
        sink(Result(texts, ({},) * params.n, segments=(Segment(texts[0], "output", made),)))
        return lambda: None

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        before = call.segments or (Segment(call.prompt),)
        prompt = self._tokens(call)
        after = [tuple(self.encode([*before, Segment(c, call.kind)])) for c in call.choices]
        start = min(common_tokens(prompt, tokens) for tokens in after)
        own = [tokens[start:] for tokens in after]
        requests = [self._request(tokens, max(0, start - 1), 0) for tokens in after]
        requests += [Requested(tokens, 0, 0) for tokens in own if call.unconditional]
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
        """Nothing."""
        return 0

    def server_info(self) -> dict[str, Any]:
        return {}

    def _note(self, requests: list[Requested]) -> None:
        self._asked.append(tuple(requests) if self._counts else ())

    def _request(
        self, prompt: tuple[int, ...], reusable: int, new: int, forced: int = 0
    ) -> Requested:
        return Requested(prompt, reusable, new, min(self._again, reusable), forced=forced)

    def _forced(self, params: SamplingParams) -> int:
        """Of a shortest text the tokens, as many as its share of bytes without a choice."""
        grammar = params.grammar
        if grammar is None or params.thinking or params.return_logprob or not params.jump_forward:
            return 0
        text, forced = _shortest(grammar)
        return len(self.encode([Segment(text)])) * forced // max(1, len(text.encode()))

    def _tokens(self, call: Call | ScoreCall) -> tuple[int, ...]:
        return tuple(self.encode(call.segments or (Segment(call.prompt),)))

    def _text(self, name: str, tokens: int) -> str:
        return f" {name}{self._unit * (tokens + -(-tokens // SLACK))}" if tokens else ""


def new_tokens(params: SamplingParams, room: float) -> int:
    """The most that a generation may write, where the context has `room` for so many."""
    most = int(max(0, min(params.max_new_tokens, room)))
    if params.grammar is None or params.thinking:
        return most
    return min(most, _longest(params.grammar, most) + 1)  # with a token that ends it


@lru_cache(maxsize=256)
def _longest(spec: GrammarSpec, most: int) -> int:
    """Bytes of a grammar's longest text, which has no more tokens; `most` where it is longer or
    nobody knows."""
    try:
        automaton = compile_spec(spec).automaton
    except GrammarError:  # which the call will raise
        return most
    return most if automaton is None else automaton.longest(most)


@lru_cache(maxsize=256)
def _shortest(spec: GrammarSpec) -> tuple[str, int]:
    """A grammar's shortest text, and how many of its bytes are forced; nothing where nobody
    knows."""
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
        if isinstance(node.what, Gen) and node.what.tools is not None:
            what = "how often tools are called is not known before the run"
            raise ProgramError(f"{node.location}: {what}", "run the program to see")


def _score(tokens: tuple[int, ...], logprob: float) -> ChoiceScore:
    """Of a choice whose every token has this log-probability, and 0 without the prompt."""
    alone = (None, *(0.0,) * (len(tokens) - 1))
    return ChoiceScore(tokens, (logprob,) * len(tokens), alone)
