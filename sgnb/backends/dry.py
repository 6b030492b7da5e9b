"""Runs programs without generating: every call gets a stand-in, and what it would take is noted.

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
from ..events import EventLog
from ..grammar.advice import compare
from ..grammar.compiler import TokenGrammar, compile_spec
from ..grammar.report import GrammarReport, explain
from ..grammar.spec import GrammarSpec
from ..lang.executor import Call, ChoiceScore, Delta, Result, ScoreCall, Scores
from ..lang.location import Location
from ..sampling import SamplingParams
from ..segment import Segment
from .local import chat_template, encode_choices, marks

STAND_IN = "…"
"""The text of a generation whose grammar names none."""

JOINED = (
    "a choice and the end of the prompt make one token: begin the choices with the blank that ends"
    " the prompt"
)

Tokens = NDArray[Any]


@dataclass(frozen=True, slots=True)
class DryCall:
    """One call that was not made. Its prompt holds stand-ins for earlier answers."""

    name: str
    place: Location | None  # where in the program it stands
    prompt_tokens: int
    cached_tokens: int  # prompt tokens in the engine's cache now
    shared_tokens: int  # prompt tokens in the prompt of an earlier call of the same program
    new_tokens: int  # at most, for each sample; 0 for a select
    samples: int
    scored_tokens: int  # of the choices of a select
    grammar: GrammarReport | None
    warnings: tuple[str, ...]
    answer: str  # the stand-in
    forced: bool = False  # the grammar's only text, which takes no forward pass

    @property
    def computed_tokens(self) -> int:
        """Prompt and choice tokens that would go through the model."""
        if self.forced:
            return 0
        return self.prompt_tokens - max(self.cached_tokens, self.shared_tokens) + self.scored_tokens


class DryExecutor:
    """An `Executor` (see `lang.executor`) that asks an engine for no token."""

    dry = True

    def __init__(self, engine: Engine) -> None:
        self.chat, self.marks, self.log = chat_template(engine), marks(engine), EventLog()
        self.calls: list[DryCall] = []  # in the order in which they were asked for
        self._engine = engine
        self._prompts: list[Tokens] = []
        self._reports: dict[tuple[GrammarSpec, int | None, tuple[str, ...]], GrammarReport] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sgnb-dry")

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        def answer() -> Result:
            n, text = call.params.n, self._explain_call(call)
            return Result((text,) * n, ({"finish_reason": {"type": "dry"}},) * n)

        return self._answer(answer, Result, sink)

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        def answer() -> Scores:
            own = enumerate(self._explain_choices(call))
            return Scores(tuple(_first_wins(i, tokens, call.unconditional) for i, tokens in own))

        return self._answer(answer, Scores, sink)

    def _answer(
        self, answer: Callable[[], Any], kind: Callable[..., Any], sink: Callable[[Any], None]
    ) -> Callable[[], None]:
        """Give `sink` the answer, or its error as a `kind`, on the executor's thread."""

        def work() -> None:
            try:
                made = answer()
            except Exception as error:  # whatever it is, the program must not wait for ever
                made = kind(error=error)
            sink(made)

        self._thread.submit(work)
        return lambda: None

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        return self._engine.encode([segments])[0]

    def flush_cache(self) -> int:
        """Nothing: a dry run leaves the engine as it is."""
        return 0

    def server_info(self) -> dict[str, Any]:
        return {"model": self._engine.model_name, "dry": True}

    def close(self) -> None:
        """End the thread. Harmless when repeated."""
        self._thread.shutdown(wait=False)

    def _explain_call(self, call: Call) -> str:
        params = call.params
        tokens = self._engine.encode([call.segments or call.prompt])[0]
        limit = max(0, min(params.max_new_tokens, self._engine.context_length - len(tokens)))
        grammar = self._grammar(params, limit)
        forced = self._is_forced(params, grammar)
        cached, shared = self._known(tokens, len(tokens) - 1, stays=not forced)
        answer = _stand_in(params, grammar)
        warnings = _room(len(tokens), limit, params, self._engine.context_length)
        warnings += grammar.warnings if grammar else ()
        figures = len(tokens), cached, shared, limit, params.n, 0
        dry = DryCall(call.name, call.location, *figures, grammar, warnings, answer, forced)
        self.calls.append(dry)
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
        prompt, continued, start = encode_choices(self._engine, call)
        own = [tuple(tokens[start:]) for tokens in continued]
        cached, shared = self._known(prompt[:start], start - 1)
        texts = [choice.encode() for choice in call.choices]
        warnings = [] if start == len(prompt) else [JOINED]
        warnings += compare(texts, own, self._engine.tokenizer, scored=True)
        figures = start, cached, shared, 0, 1, sum(map(len, own))
        stand_in = call.choices[0]
        dry = DryCall(call.name, call.location, *figures, None, tuple(warnings), stand_in)
        self.calls.append(dry)
        return own

    def _known(self, prompt: list[int], most: int, stays: bool = True) -> tuple[int, int]:
        """The lengths of the prefixes in the engine's cache and in an earlier prompt, at most
        `most`. stays: the prompt becomes such an earlier one."""
        tokens = np.array(prompt)
        shared = max((_prefix_length(tokens, earlier) for earlier in self._prompts), default=0)
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
    what = f"the prompt has {prompt} tokens, the context holds {context}"
    return (f"{what}: nothing can be generated",)


def _first_wins(index: int, tokens: Sequence[int], unconditional: bool) -> ChoiceScore:
    """Scores by which every method takes the first choice."""
    alone = (None, *[0.0] * (len(tokens) - 1)) if unconditional else ()
    return ChoiceScore(tuple(tokens), (0.0 if index == 0 else -1e9,) * len(tokens), alone)


def _prefix_length(a: Tokens, b: Tokens) -> int:
    """The length of the longest common prefix."""
    length = min(len(a), len(b))
    different = np.flatnonzero(a[:length] != b[:length])
    return int(different[0]) if len(different) else length
