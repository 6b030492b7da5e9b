"""Dry run: execute a program with stand-in answers and record the cost of each call.

Compiles the grammars and asks the engine for tokens and cached prefixes. The engine's requests,
cache and log remain unchanged. A separate radix tree simulates the cache entries of the calls, so
hit counts match a real run if real answers resemble the stand-ins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate, compress
from typing import Any, NamedTuple, cast

import numpy as np

from ..engine.cache.radix import RadixTree
from ..engine.engine import Engine
from ..events import EventLog
from ..grammar.automaton.automaton import Automaton
from ..grammar.automaton.dfa import START
from ..grammar.compiler import CompiledGrammar, TokenGrammar, compile_spec
from ..grammar.grammar_report import GrammarReport, explain
from ..grammar.grammar_warnings import compare, seam
from ..grammar.spec import GrammarSpec
from ..lang.executor import (
    Call,
    ChoiceScore,
    Delta,
    Executor,
    Result,
    ScoreCall,
    Scores,
    model_name,
)
from ..lang.location import Location
from ..sampling import SamplingParams
from ..segment import Segment
from .local import LocalExecutor, chat_template, encode_choices, executor_of, special_tokens

STAND_IN = "…"
"""Text of a generation without a stand-in from a grammar."""

JOINED = (
    "a choice and the end of the prompt make one token: begin the choices with the blank that ends"
    " the prompt"
)


@dataclass(frozen=True, slots=True)
class DryCall:
    """A simulated call. The prompt contains stand-ins for earlier answers.

    Counts are sums over the requests: one per sample, or one per choice of a select with the choice
    as part of the prompt.
    """

    name: str
    location: Location | None  # call site in the program
    prompt_tokens: int
    cached_tokens: int  # prompt tokens in the engine's cache now
    shared_tokens: int  # further prompt tokens cached by earlier requests of this program
    new_tokens: int  # maximum per sample; 0 for a select
    samples: int
    scored_tokens: int  # tokens of a select's choices
    grammar: GrammarReport | None
    warnings: tuple[str, ...]
    answer: str  # stand-in text
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


class DryExecutor:
    """An `Executor` (see `lang.executor`) that generates no tokens on its engine."""

    dry = True

    def __init__(self, engine: Engine, of: DryExecutor | None = None) -> None:
        """`of`: the run's dry executor, if this executor handles another model of the run."""
        self.chat, self.special_tokens, self.log = (
            chat_template(engine),
            special_tokens(engine),
            EventLog(),
        )
        # In call order, including calls to other models.
        self.calls: list[DryCall] = [] if of is None else of.calls
        self._model = "" if of is None else model_name(executor_of(engine))
        self._others: dict[int, Executor] = {}  # stand-ins by the id of the replaced executor's log
        self._engine = engine
        self._tree = RadixTree(lambda event: None)
        self._scored: set[tuple[int, ...]] = set()  # choices already scored without a prompt
        self._reports: dict[tuple[GrammarSpec, int | None, tuple[str, ...]], _Grammar] = {}
        self._thread: ThreadPoolExecutor = (
            ThreadPoolExecutor(1, thread_name_prefix="sgnb-dry") if of is None else of._thread
        )

    def stand_in(self, backend: Executor) -> Executor:
        """Return the stand-in for another model's executor `backend`."""
        if isinstance(backend, LocalExecutor) and backend.engine is self._engine:
            return self
        made = self._others.get(id(backend.log))
        if made is None:
            if isinstance(backend, LocalExecutor):
                made = DryExecutor(backend.engine, self)
            else:
                made = cast(Executor, _Unknown(backend, self))
            self._others[id(backend.log)] = made
        return made

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        def answer() -> Result:
            n, text = call.params.n, self._explain_call(call)
            made = Segment(text, "output", tuple(self._output_tokens(text)))
            meta = {"finish_reason": {"type": "dry"}}
            return Result((text,) * n, (meta,) * n, segments=(made,))

        return self._answer(answer, Result, sink)

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        def answer() -> Scores:
            own = enumerate(self._explain_choices(call))
            return Scores(tuple(_first_wins(i, tokens, call.unconditional) for i, tokens in own))

        return self._answer(answer, Scores, sink)

    def _answer(
        self, answer: Callable[[], Any], kind: Callable[..., Any], sink: Callable[[Any], None]
    ) -> Callable[[], None]:
        """Pass the answer, or its error as a `kind`, to `sink` on the executor's thread."""

        def work() -> None:
            try:
                made = answer()
            except Exception as error:  # deliver any error; otherwise the program waits forever
                made = kind(error=error)
            sink(made)

        self._thread.submit(work)
        return lambda: None

    @property
    def tokenizer_id(self) -> str:
        return "" if self._engine.tokenizer is None else self._engine.tokenizer.fingerprint

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        return self._engine.encode([segments])[0]

    def flush_cache(self) -> int:
        """Return 0: a dry run leaves the engine's cache unchanged."""
        return 0

    def server_info(self) -> dict[str, Any]:
        return {"model": self._engine.model_name, "dry": True}

    def close(self) -> None:
        """End the thread. Idempotent."""
        self._thread.shutdown(wait=False)

    def _explain_call(self, call: Call) -> str:
        params = call.params
        tokens = self._engine.encode([call.segments or call.prompt])[0]
        limit = max(0, min(params.max_new_tokens, self._engine.context_length - len(tokens)))
        found = self._grammar(params, limit)
        grammar = found.report if found else None
        jumps = params.jump_forward and self._engine.options.jump_forward
        plain = jumps and not (params.return_logprob or params.thinking)
        forced = grammar is not None and grammar.single and plain
        answer = _stand_in(params, grammar)
        made = self._output_tokens(answer)
        # Tokens forced at the beginning are prefilled with the prompt. Without forced tokens,
        # the last prompt token is always computed.
        head = self._within(made, found.forced) if found and plain else []
        reusable = len(tokens) if head else len(tokens) - 1
        cached = shared = 0
        for _ in range(0 if forced else params.n):
            counts = self._request([*tokens, *head], reusable)
            cached, shared = cached + counts[0], shared + counts[1]
        if not forced:
            by_length = len(made) >= limit or (params.ignore_eos and not params.stop)
            read = self._within(made, found.sampled) if found and jumps else made
            self._keep([*tokens, *(made[:-1] if by_length else read)])
        warnings = _room(len(tokens), limit, params, self._engine.context_length)
        warnings += grammar.warnings if grammar else ()
        warnings += self._seam(params, found, tokens)
        figures = len(tokens) * params.n, cached, shared, limit, params.n, 0
        own = grammar, warnings, answer, forced, self._model, params.n
        self.calls.append(DryCall(call.name, call.location, *figures, *own))
        return answer

    def _seam(
        self, params: SamplingParams, found: _Grammar | None, prompt: Sequence[int]
    ) -> tuple[str, ...]:
        tokenizer = self._engine.tokenizer
        if found is None or found.automaton is None or params.thinking or not prompt:
            return ()
        assert tokenizer is not None and params.grammar is not None
        pieces = tokenizer.vocabulary.pieces
        return tuple(seam(found.automaton, params.grammar.kind, pieces[prompt[-1]], pieces))

    def _grammar(self, params: SamplingParams, limit: int) -> _Grammar | None:
        if params.grammar is None:
            return None
        full = params.max_new_tokens and not limit  # has a separate warning
        key = params.grammar, None if full else limit, params.stop
        if key not in self._reports:
            self._reports[key] = self._explain(*key)
        return self._reports[key]

    def _explain(self, spec: GrammarSpec, limit: int | None, stops: tuple[str, ...]) -> _Grammar:
        tokenizer = self._engine.tokenizer
        assert tokenizer is not None, "the prompt is tokens already"
        grammar = compile_spec(spec)
        report = explain(grammar, tokenizer, limit, stops)
        if grammar.automaton is not None:
            return _Grammar(
                report, grammar.automaton, *_choices(grammar, (report.shortest or "").encode())
            )
        end = TokenGrammar(grammar, tokenizer.vocabulary).matcher().completion()
        if end is None:
            return _Grammar(report, None, 0, 0)
        return _Grammar(replace(report, shortest=end.decode()), None, 0, max(0, len(end) - 1))

    def _explain_choices(self, call: ScoreCall) -> list[tuple[int, ...]]:
        """Return the tokens of each choice."""
        prompt, continued, start = encode_choices(self._engine, call)
        own = [tuple(tokens[start:]) for tokens in continued]
        alone = [tokens for tokens in own if call.unconditional and not self._is_known(tokens)]
        self._scored.update(alone)
        found = [self._request(tokens, start - 1) for tokens in continued]
        cached, shared = (sum(counts) for counts in zip(*found, strict=True))
        prompts = sum(map(len, continued)) + sum(map(len, alone))
        texts = [choice.encode() for choice in call.choices]
        warnings = [] if start == len(prompt) else [JOINED]
        warnings += compare(texts, own, self._engine.tokenizer, scored=True)
        figures = prompts, cached, shared, 0, 1, sum(map(len, own))
        requests = len(continued) + len(alone)
        answer = None, tuple(warnings), call.choices[0], False, self._model, requests
        self.calls.append(DryCall(call.name, call.location, *figures, *answer))
        return own

    def _is_known(self, tokens: tuple[int, ...]) -> bool:
        """Return whether the log-probabilities of a choice without a prompt are known."""
        executor = executor_of(self._engine)
        return tokens in self._scored or executor.knows_unconditional(tokens)

    def _request(self, prompt: list[int], reusable: int) -> tuple[int, int]:
        """Return the number of hits in the engine's cache and of further hits from earlier
        requests, of at most `reusable` tokens. Adds the prompt to the simulated cache."""
        if not self._engine.options.prefix_cache:
            return 0, 0
        cached = min(self._engine.cached_length(prompt), reusable)
        shared = min(self._tree.peek(np.array(prompt, np.int32)).length, reusable)
        self._keep(prompt)
        return cached, max(0, shared - cached)

    def _keep(self, computed: list[int]) -> None:
        """Insert the tokens into the simulated cache, with dummy slots."""
        tokens = np.array(computed, np.int32)
        self._tree.insert(tokens, tokens)

    def _output_tokens(self, text: str) -> list[int]:
        tokenizer = self._engine.tokenizer
        return [] if tokenizer is None or not text else list(tokenizer.write(text.encode()))

    def _within(self, tokens: list[int], size: int) -> list[int]:
        """Return the leading tokens within `size` bytes."""
        assert self._engine.tokenizer is not None, "there is a grammar"
        ends = accumulate(map(len, self._engine.tokenizer.pieces(tokens)))
        return list(compress(tokens, (end <= size for end in ends)))


class _Unknown:
    """Stand-in for a model without an engine in this process: calls are listed without counts."""

    def __init__(self, backend: Executor, of: DryExecutor) -> None:
        self._backend, self._of = backend, of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        def answer() -> Result:
            text = self._note(call, _stand_in(call.params, None), call.params.n)
            meta = {"finish_reason": {"type": "dry"}}
            return Result((text,) * call.params.n, (meta,) * call.params.n)

        return self._of._answer(answer, Result, sink)

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        def answer() -> Scores:
            self._note(call, call.choices[0], 1)
            own = range(len(call.choices))
            return Scores(tuple(_first_wins(i, (0,), call.unconditional) for i in own))

        return self._of._answer(answer, Scores, sink)

    def _note(self, call: Call | ScoreCall, answer: str, samples: int) -> str:
        new = call.params.max_new_tokens if isinstance(call, Call) else 0
        model = model_name(self._backend)
        warnings = (f"{model} is no engine here: what its prompt takes is not known",)
        figures = 0, 0, 0, new, samples, 0
        own = None, warnings, answer, False, model
        self._of.calls.append(DryCall(call.name, call.location, *figures, *own))
        return answer


def _choices(grammar: CompiledGrammar, text: bytes) -> tuple[int, int]:
    """Return `forced` and `sampled` of `_Grammar` for a text of a grammar with an automaton."""
    automaton, singular = grammar.automaton, grammar.compressed.singular
    assert automaton is not None
    state, chosen = START, []
    for at in range(len(text)):
        if not singular[state]:
            chosen.append(at)
        state = automaton.step(state, text[at : at + 1])
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
    what = f"the prompt has {prompt} tokens, the context holds {context}"
    return (f"{what}: nothing can be generated",)


def _first_wins(index: int, tokens: Sequence[int], unconditional: bool) -> ChoiceScore:
    """Return scores that select the first choice with every choice method."""
    alone = (None, *[0.0] * (len(tokens) - 1)) if unconditional else ()
    return ChoiceScore(tuple(tokens), (0.0 if index == 0 else -1e9,) * len(tokens), alone)
