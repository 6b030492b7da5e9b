"""Answers of a dry run on an engine, and the cost of each call.

Compiles the grammars and asks the engine for tokens and cached prefixes. The engine's requests,
cache and log remain unchanged. A simulated cache holds the tokens of earlier calls, so hit counts
match a real run if real answers resemble the stand-ins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, compress
from typing import NamedTuple, Protocol, runtime_checkable

from ..grammar.automaton.automaton import Automaton
from ..grammar.automaton.dfa import START
from ..grammar.compiler import CompiledGrammar, TokenGrammar, compile_spec
from ..grammar.grammar_report import GrammarReport, explain
from ..grammar.grammar_warnings import compare, seam
from ..grammar.spec import GrammarSpec
from ..lang.core.part_orders import remembered_order
from ..lang.executor import Call, Executor, OrderCall, Result, ScoreCall, Scores, model_name
from ..lang.graph.dry_execution import Answers, choice_score, likely_order
from ..lang.graph.estimate import SimulatedCache
from ..lang.location import Location
from ..part_order import OrderMemory, PartOrder
from ..sampling import SamplingParams
from ..segment import Segment
from .any_engine import AnyEngine

STAND_IN = "…"
"""Text of a generation without a stand-in from a grammar."""

JOINED = (
    "a choice and the end of the prompt form a single token: move the blank from the end of the"
    " prompt to the choices"
)


@runtime_checkable
class EngineExecutor(Executor, Protocol):
    """An executor over an engine in this process."""

    engine: AnyEngine

    def encode_choices(self, call: ScoreCall) -> tuple[list[int], list[list[int]], int]: ...

    def knows_unconditional(self, tokens: tuple[int, ...]) -> bool: ...

    def cached_length(self, tokens: Sequence[int]) -> int: ...


@dataclass(frozen=True, slots=True)
class DryCall:
    """A simulated call. The prompt contains stand-ins for earlier answers.

    Counts are sums over the requests: one per sample, or one per choice of a select with the choice
    as part of the prompt.
    """

    name: str
    location: Location | None  # call site in the program
    warnings: tuple[str, ...]
    answer: str  # stand-in text
    prompt_tokens: int = 0
    cached_tokens: int = 0  # prompt tokens in the engine's cache now
    shared_tokens: int = 0  # further prompt tokens cached by earlier requests of this program
    new_tokens: int = 0  # maximum per sample; 0 for a select
    samples: int = 1
    scored_tokens: int = 0  # tokens of a select's choices
    grammar: GrammarReport | None = None
    forced: bool = False  # the grammar's only text, without a forward pass
    model: str = ""  # set if the call uses another model than the run
    requests: int = 1  # samples, or choices with and without the prompt

    @property
    def computed_tokens(self) -> int:
        """Number of prompt tokens to prefill."""
        return 0 if self.forced else self.prompt_tokens - self.cached_tokens - self.shared_tokens


class _Grammar(NamedTuple):
    """A grammar's report and the sampling of its stand-in, in bytes."""

    report: GrammarReport
    automaton: Automaton | None
    forced: int  # forced bytes at the beginning
    sampled: int  # bytes before the last free byte; all bytes if an end token follows


class EngineAnswers:
    """Likely answers: the shortest text of a grammar, the first choice of a select."""

    def __init__(self, executor: EngineExecutor, main: EngineAnswers | None = None) -> None:
        """`main`: the answers of the run's model, if `executor` runs another model."""
        self.calls: list[DryCall] = [] if main is None else main.calls
        self._executor, self._engine = executor, executor.engine
        self._model = "" if main is None else model_name(executor)
        self._cache = SimulatedCache(executor.cached_length)
        self._orders = OrderMemory()
        self._scored: set[tuple[int, ...]] = set()  # choices already scored without a prompt
        self._reports: dict[tuple[GrammarSpec, int | None, tuple[str, ...]], _Grammar] = {}

    def for_backend(self, backend: Executor) -> Answers:
        if isinstance(backend, EngineExecutor):
            return EngineAnswers(backend, self)
        return RemoteAnswers(backend, self.calls)

    def generate(self, call: Call) -> Result:
        params, engine = call.effective_params, self._engine
        prompt = engine.encode([call.segments or call.prompt])[0]
        limit = max(0, min(params.max_new_tokens, engine.context_length - len(prompt)))
        grammar = self._grammar(params, limit)
        report = grammar.report if grammar else None
        text = _stand_in(params, report)
        answer = self._output_tokens(text)
        jumps = params.jump_forward and engine.options.jump_forward
        is_plain = jumps and not (params.return_logprob or params.thinking)
        forced = report is not None and report.single and is_plain

        cached = shared = 0
        if not forced:
            # Tokens forced at the beginning are prefilled with the prompt.
            head = self._within(answer, grammar.forced) if grammar and is_plain else []
            cached, shared = self._prefill(prompt, head, params.n)
            by_length = len(answer) >= limit or (params.ignore_eos and not params.stop)
            computed = self._within(answer, grammar.sampled) if grammar and jumps else answer
            self._cache.add((*prompt, *(answer[:-1] if by_length else computed)))

        warnings = _room(len(prompt), limit, params, engine.context_length)
        warnings += report.warnings if report else ()
        warnings += self._seam(params, grammar, prompt)
        dry_call = DryCall(
            name=call.name,
            location=call.location,
            prompt_tokens=len(prompt) * params.n,
            cached_tokens=cached,
            shared_tokens=shared,
            new_tokens=limit,
            samples=params.n,
            grammar=report,
            warnings=warnings,
            answer=text,
            forced=forced,
            model=self._model,
            requests=params.n,
        )
        self.calls.append(dry_call)
        return _result(text, params.n, (Segment(text, "output", tuple(answer)),))

    def order(self, call: OrderCall) -> PartOrder:
        return likely_order(self._executor, call, self._orders)

    def score(self, call: ScoreCall) -> Scores:
        prompt, continued, start = self._executor.encode_choices(call)
        choices = [tuple(tokens[start:]) for tokens in continued]
        unconditional = [
            tokens for tokens in choices if call.unconditional and self._is_new(tokens)
        ]
        self._scored.update(unconditional)
        hits = [self._request(tokens, start - 1) for tokens in continued]

        texts = [choice.encode() for choice in call.choices]
        warnings = [] if start == len(prompt) else [JOINED]
        warnings += compare(texts, choices, self._engine.tokenizer, scored=True)
        dry_call = DryCall(
            name=call.name,
            location=call.location,
            prompt_tokens=sum(map(len, continued)) + sum(map(len, unconditional)),
            cached_tokens=sum(cached for cached, _ in hits),
            shared_tokens=sum(shared for _, shared in hits),
            scored_tokens=sum(map(len, choices)),
            warnings=tuple(warnings),
            answer=call.choices[0],
            model=self._model,
            requests=len(continued) + len(unconditional),
        )
        self.calls.append(dry_call)
        return Scores(tuple(choice_score(tokens, i == 0) for i, tokens in enumerate(choices)))

    def _prefill(self, prompt: list[int], head: list[int], samples: int) -> tuple[int, int]:
        """Return the sums of `_request` over the samples of a call."""
        # Without forced tokens, the last prompt token is always computed.
        reusable = len(prompt) if head else len(prompt) - 1
        hits = [self._request([*prompt, *head], reusable) for _ in range(samples)]
        return sum(cached for cached, _ in hits), sum(shared for _, shared in hits)

    def _request(self, prompt: list[int], reusable: int) -> tuple[int, int]:
        """Return the number of hits in the engine's cache and of further hits from earlier
        requests, of at most `reusable` tokens. Adds the prompt to the simulated cache."""
        if not self._engine.options.prefix_cache:
            return 0, 0
        hits = self._cache.hits(tuple(prompt), reusable)
        self._cache.add(tuple(prompt))
        return hits

    def _seam(
        self, params: SamplingParams, grammar: _Grammar | None, prompt: Sequence[int]
    ) -> tuple[str, ...]:
        tokenizer = self._engine.tokenizer
        if grammar is None or grammar.automaton is None or params.thinking or not prompt:
            return ()
        assert tokenizer is not None and params.grammar is not None
        pieces = tokenizer.vocabulary.pieces
        return tuple(seam(grammar.automaton, params.grammar.kind, pieces[prompt[-1]], pieces))

    def _grammar(self, params: SamplingParams, limit: int) -> _Grammar | None:
        if params.grammar is None:
            return None
        is_full = params.max_new_tokens and not limit  # has a separate warning
        key = params.grammar, None if is_full else limit, params.stop
        if key not in self._reports:
            self._reports[key] = self._explain(*key)
        return self._reports[key]

    def _explain(self, spec: GrammarSpec, limit: int | None, stops: tuple[str, ...]) -> _Grammar:
        tokenizer = self._engine.tokenizer
        assert tokenizer is not None, "the prompt consists of token ids"
        grammar = compile_spec(spec)
        report = explain(grammar, tokenizer, limit, stops)
        if grammar.automaton is not None:
            text = (report.shortest or "").encode()
            return _Grammar(report, grammar.automaton, *_choices(grammar, text))
        end = TokenGrammar(grammar, tokenizer.vocabulary).matcher().completion()
        if end is None:
            return _Grammar(report, None, 0, 0)
        return _Grammar(replace(report, shortest=end.decode()), None, 0, max(0, len(end) - 1))

    def _is_new(self, tokens: tuple[int, ...]) -> bool:
        """Return whether a choice must be scored without a prompt."""
        return tokens not in self._scored and not self._executor.knows_unconditional(tokens)

    def _output_tokens(self, text: str) -> list[int]:
        tokenizer = self._engine.tokenizer
        return [] if tokenizer is None or not text else list(tokenizer.write(text.encode()))

    def _within(self, tokens: list[int], size: int) -> list[int]:
        """Return the leading tokens within `size` bytes."""
        assert self._engine.tokenizer is not None, "there is a grammar"
        ends = accumulate(map(len, self._engine.tokenizer.pieces(tokens)))
        return list(compress(tokens, (end <= size for end in ends)))


class RemoteAnswers:
    """Answers of a model without an engine in this process: calls are listed without counts."""

    def __init__(self, backend: Executor, calls: list[DryCall]) -> None:
        self.calls = calls
        self._model, self._orders = model_name(backend), OrderMemory()

    def for_backend(self, backend: Executor) -> Answers:
        return RemoteAnswers(backend, self.calls)

    def generate(self, call: Call) -> Result:
        text, params = _stand_in(call.params, None), call.params
        self._record(call, text, params.max_new_tokens, params.n)
        return _result(text, params.n)

    def order(self, call: OrderCall) -> PartOrder:
        return remembered_order(call, self._orders)

    def score(self, call: ScoreCall) -> Scores:
        self._record(call, call.choices[0], 0, 1)
        return Scores(tuple(choice_score((0,), i == 0) for i in range(len(call.choices))))

    def _record(self, call: Call | ScoreCall, answer: str, new_tokens: int, samples: int) -> None:
        warning = f"{self._model} is not an engine in this process: its prompt tokens are unknown"
        dry_call = DryCall(
            name=call.name,
            location=call.location,
            new_tokens=new_tokens,
            samples=samples,
            warnings=(warning,),
            answer=answer,
            model=self._model,
        )
        self.calls.append(dry_call)


def _result(text: str, samples: int, segments: tuple[Segment, ...] = ()) -> Result:
    meta = {"finish_reason": {"type": "dry"}}
    return Result((text,) * samples, (meta,) * samples, segments=segments)


def _choices(grammar: CompiledGrammar, text: bytes) -> tuple[int, int]:
    """Return `forced` and `sampled` of `_Grammar` for a text of a grammar with an automaton."""
    automaton, singular = grammar.automaton, grammar.compressed.singular
    assert automaton is not None
    state, chosen = START, []
    for i in range(len(text)):
        if not singular[state]:
            chosen.append(i)
        state = automaton.step(state, text[i : i + 1])
    if automaton.next_bytes(state):
        chosen.append(len(text))
    return (chosen[0], chosen[-1]) if chosen else (len(text), 0)


def _stand_in(params: SamplingParams, grammar: GrammarReport | None) -> str:
    if params.max_new_tokens == 0:
        return ""
    return STAND_IN if grammar is None or grammar.shortest is None else grammar.shortest


def _room(prompt: int, limit: int, params: SamplingParams, context: int) -> tuple[str, ...]:
    if limit or not params.max_new_tokens:
        return ()
    reason = f"the prompt has {prompt} tokens, the context holds {context}"
    return (f"{reason}: nothing can be generated",)
