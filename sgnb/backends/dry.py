"""Runs programs without generating anything: every call is answered with a stand-in, and what it
would take is noted.

Compiles the grammars and asks the engine for tokens and for what is in its cache. The engine's
requests, cache and log stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.engine import Engine
from ..errors import RequestError
from ..events import EventLog
from ..grammar.advice import compare
from ..grammar.compiler import TokenGrammar, compile_spec
from ..grammar.report import GrammarReport, explain
from ..grammar.spec import GrammarSpec
from ..lang.executor import Call, ChoiceScore, Delta, Result, ScoreCall, Scores
from ..lang.location import Location
from ..sampling import SamplingParams
from .local import chat_template

STAND_IN = "…"
"""The text of a generation whose grammar names none."""

Tokens = NDArray[Any]


@dataclass(frozen=True, slots=True)
class DryCall:
    """One call that was not made. Tokens are those of a prompt in which earlier answers are
    stand-ins.

    cached_tokens: of the prompt, in the engine's cache now. shared_tokens: of the prompt, in the
    prompt of an earlier call of the same program. new_tokens: at most so many for each of
    `samples`; 0 for a select. scored_tokens: of the choices of a select. answer: the stand-in.
    forced: it is the grammar's only text, which takes no pass of the model.
    """

    name: str
    location: Location | None
    prompt_tokens: int
    cached_tokens: int
    shared_tokens: int
    new_tokens: int
    samples: int
    scored_tokens: int
    grammar: GrammarReport | None
    warnings: tuple[str, ...]
    answer: str
    forced: bool = False

    @property
    def computed_tokens(self) -> int:
        """Prompt and choice tokens that would go through the model."""
        if self.forced:
            return 0
        return self.prompt_tokens - max(self.cached_tokens, self.shared_tokens) + self.scored_tokens


class DryExecutor:
    """An `Executor` (see `lang.executor`) that asks an engine for no token. `calls`: what it was
    asked, in order."""

    dry = True

    def __init__(self, engine: Engine) -> None:
        self.chat, self.log = chat_template(engine), EventLog()
        self.calls: list[DryCall] = []
        self._engine = engine
        self._prompts: list[Tokens] = []
        self._reports: dict[tuple[GrammarSpec, int | None, tuple[str, ...]], GrammarReport] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sgnb-dry")

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        def work() -> None:
            try:
                answer = self._explain_call(call)
            except Exception as error:  # whatever it is, the program must not wait for ever
                sink(Result(error=error))
                return
            n = call.params.n
            sink(Result((answer,) * n, ({"finish_reason": "dry"},) * n))

        self._thread.submit(work)
        return lambda: None

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        def work() -> None:
            try:
                own = self._explain_choices(call)
            except Exception as error:  # whatever it is, the program must not wait for ever
                sink(Scores(error=error))
                return
            sink(
                Scores(
                    tuple(
                        _first_wins(i, tokens, call.unconditional) for i, tokens in enumerate(own)
                    )
                )
            )

        self._thread.submit(work)
        return lambda: None

    def flush_cache(self) -> None:
        """Nothing: a dry run leaves the engine as it is."""

    def server_info(self) -> dict[str, Any]:
        return {"model": self._engine.model_name, "dry": True}

    def close(self) -> None:
        """End the thread. Harmless when repeated."""
        self._thread.shutdown(wait=False)

    def _explain_call(self, call: Call) -> str:
        params = call.params
        tokens = self._engine.encode([call.prompt])[0]
        limit = max(0, min(params.max_new_tokens, self._engine.context_length - len(tokens)))
        grammar = self._grammar(params, limit)
        forced = self._is_forced(params, grammar)
        cached, shared = self._known(tokens, len(tokens) - 1, stays=not forced)
        answer = _stand_in(params, grammar)
        warnings = (
            *_room(len(tokens), limit, params, self._engine.context_length),
            *(grammar.warnings if grammar else ()),
        )
        figures = len(tokens), cached, shared, limit, params.n, 0
        self.calls.append(
            DryCall(call.name, call.location, *figures, grammar, warnings, answer, forced)
        )
        return answer

    def _grammar(self, params: SamplingParams, limit: int) -> GrammarReport | None:
        if params.grammar is None:
            return None
        full = params.max_new_tokens and not limit  # which has a warning of its own
        key = params.grammar, None if full else limit, params.stop
        if key not in self._reports:
            self._reports[key] = self._explain(*key)
        return self._reports[key]

    def _is_forced(self, params: SamplingParams, grammar: GrammarReport | None) -> bool:
        jumps = params.jump_forward and self._engine.options.jump_forward
        scores = params.return_logprob or params.thinking
        return grammar is not None and grammar.single and jumps and not scores

    def _explain(
        self, spec: GrammarSpec, limit: int | None, stops: tuple[str, ...]
    ) -> GrammarReport:
        tokenizer = self._engine.tokenizer
        assert tokenizer is not None, "the prompt is tokens already"
        grammar = compile_spec(spec)
        report = explain(grammar, tokenizer, limit, stops)
        if grammar.automaton is not None:
            return report
        end = TokenGrammar(grammar, tokenizer.vocabulary).matcher().completion()
        return report if end is None else replace(report, shortest=end.decode())

    def _explain_choices(self, call: ScoreCall) -> list[tuple[int, ...]]:
        """The tokens of each choice."""
        prompt, *continued = self._engine.encode(
            [call.prompt, *(call.prompt + choice for choice in call.choices)]
        )
        start = min(_common_length(np.array(prompt), np.array(tokens)) for tokens in continued)
        if start == 0:
            raise RequestError(
                f"select {call.name!r} has no text before its choices", "put some text before it"
            )
        own = [tuple(tokens[start:]) for tokens in continued]
        cached, shared = self._known(prompt[:start], start - 1)
        texts = [choice.encode() for choice in call.choices]
        warnings = [
            *_joined(prompt, start),
            *compare(texts, own, self._engine.tokenizer, scored=True),
        ]
        scored = sum(map(len, own))
        self.calls.append(
            DryCall(
                call.name,
                call.location,
                start,
                cached,
                shared,
                0,
                1,
                scored,
                None,
                tuple(warnings),
                call.choices[0],
            )
        )
        return own

    def _known(self, prompt: list[int], most: int, stays: bool = True) -> tuple[int, int]:
        """How much of a prompt is in the engine's cache, and how much was in an earlier prompt: at
        most `most`.

        stays: it will be such an earlier prompt itself.
        """
        tokens = np.array(prompt)
        shared = max((_common_length(tokens, earlier) for earlier in self._prompts), default=0)
        if stays:
            self._prompts.append(tokens)
        return min(self._engine.cached_length(prompt), most), min(shared, most)


def _stand_in(params: SamplingParams, grammar: GrammarReport | None) -> str:
    if params.max_new_tokens == 0:
        return ""
    return STAND_IN if grammar is None or grammar.shortest is None else grammar.shortest


def _room(prompt: int, limit: int, params: SamplingParams, context: int) -> tuple[str, ...]:
    if limit or not params.max_new_tokens:
        return ()
    return (
        f"the prompt has {prompt} tokens, the context holds {context}: nothing can be generated",
    )


def _joined(prompt: Sequence[int], start: int) -> list[str]:
    if start == len(prompt):
        return []
    return [
        "a choice and the end of the prompt make one token: begin the choices with the blank that ends the prompt"
    ]


def _first_wins(index: int, tokens: Sequence[int], unconditional: bool) -> ChoiceScore:
    """Scores by which every method takes the first choice."""
    alone = (None, *[0.0] * (len(tokens) - 1)) if unconditional else ()
    return ChoiceScore(tuple(tokens), (0.0 if index == 0 else -1e9,) * len(tokens), alone)


def _common_length(a: Tokens, b: Tokens) -> int:
    length = min(len(a), len(b))
    different = np.flatnonzero(a[:length] != b[:length])
    return int(different[0]) if len(different) else length
