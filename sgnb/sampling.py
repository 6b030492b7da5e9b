"""The words for sampling that the language, the engine and the magics share. Imports only errors
and grammars."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from .errors import OptionError, nearest
from .grammar.spec import KINDS, GrammarSpec, schema_text


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How one request is sampled. Names and defaults are SGLang's.

    max_new_tokens: at most so many new tokens; 0 computes the prompt only.
    min_new_tokens: end of sequence, stop tokens and stop strings are ignored before this many.
    n: independent samples of the same prompt.
    stop: strings that end the text; they are cut off and may span tokens.
    stop_token_ids: token ids that end the text, besides the model's own.
    temperature: 0 is greedy.
    top_k: -1 for all; top_p, min_p: probability thresholds; applied in that order.
    frequency_penalty, presence_penalty: subtracted from the logits of tokens already put out.
    repetition_penalty: divides (or multiplies, below zero) the logits of tokens seen, prompt
    included. logit_bias: (token id, value) pairs added to the logits.
    seed: makes the request's samples repeatable whatever runs beside it; None draws one.
    return_logprob: natural log-probabilities of the model itself, before temperature and filters.
    logprob_start_len: first prompt position to score; -1 for none of the prompt.
    top_logprobs_num: so many alternatives per position, with return_logprob.
    skip_special_tokens: leave them out of the text.
    regex, json_schema, ebnf: what the text must be, one of them: a pattern in Python's `re` syntax
    that matches the whole text; a schema (JSON text, dict, pydantic model, dataclass, TypedDict); a
    grammar in Lark's or GBNF notation. json_whitespace: with json_schema, at most so many blanks or
    line breaks between the parts; 0 is compact. thinking: the text begins with a thinking section
    that the grammar does not bind; True for the section mark of most models, or the mark that ends
    it.
    jump_forward: append text that the grammar forces without asking the model.
    """

    max_new_tokens: int = 128
    min_new_tokens: int = 0
    n: int = 1
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    ignore_eos: bool = False
    seed: int | None = None
    return_logprob: bool = False
    logprob_start_len: int = -1
    top_logprobs_num: int = 0
    skip_special_tokens: bool = True
    regex: str | None = None
    json_schema: str | None = None
    ebnf: str | None = None
    json_whitespace: int = 0
    thinking: bool | str = False
    jump_forward: bool = True

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        stop = (
            (self.stop,)
            if isinstance(self.stop, str)
            else _tuple("stop", self.stop, "a string or a list of them")
        )
        set_(self, "stop", stop)
        set_(
            self,
            "stop_token_ids",
            _tuple("stop_token_ids", self.stop_token_ids, "a list of token ids"),
        )
        set_(self, "logit_bias", _bias(self.logit_bias))
        for name, (rule, allows) in _RULES.items():
            value = getattr(self, name)
            if value is not _DEFAULTS[name] and not allows(value):
                raise OptionError(f"{name}={value!r} is not allowed", f"{name} must be {rule}")
        if self.min_new_tokens > self.max_new_tokens:
            raise OptionError(
                f"min_new_tokens={self.min_new_tokens} is not allowed",
                f"min_new_tokens must be an integer between 0 and max_new_tokens={self.max_new_tokens}",
            )
        if not self.return_logprob and (self.top_logprobs_num or self.logprob_start_len >= 0):
            name = "top_logprobs_num" if self.top_logprobs_num else "logprob_start_len"
            raise OptionError(
                f"{name}={getattr(self, name)!r} has no effect", "it needs return_logprob=True"
            )

        self._check_grammar()

    def _check_grammar(self) -> None:
        if self.json_schema is not None:
            object.__setattr__(self, "json_schema", schema_text(self.json_schema))
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) > 1:
            raise OptionError(f"{given[0]} and {given[1]} exclude each other", "give one of them")
        if self.json_whitespace and self.json_schema is None:
            raise OptionError(
                f"json_whitespace={self.json_whitespace} has no effect", "it needs json_schema=..."
            )
        if self.thinking and not given:
            raise OptionError(
                f"thinking={self.thinking!r} has no effect",
                "it needs regex=, json_schema= or ebnf=",
            )

    @property
    def grammar(self) -> GrammarSpec | None:
        """What the text must be, if anything."""
        for kind in KINDS:
            if (text := getattr(self, kind)) is not None:
                return GrammarSpec(kind, text, self.json_whitespace)
        return None

    @property
    def penalises(self) -> bool:
        """Whether the output so far changes what is likely next."""
        return bool(self.frequency_penalty or self.presence_penalty or self.repetition_penalty != 1)

    @property
    def thinking_end(self) -> str:
        """The mark after which the grammar binds; "" when it binds from the start."""
        return "</think>" if self.thinking is True else self.thinking or ""

    @classmethod
    def make(
        cls, params: SamplingParams | Mapping[str, Any] | None = None, /, **options: Any
    ) -> SamplingParams:
        """Params (or a dict of them) with `options` put over them. An unknown name is an
        OptionError."""
        if isinstance(params, Mapping):
            options = {**params, **options}
            params = None
        if not isinstance(params, (cls, type(None))):
            raise OptionError(
                f"sampling parameters {params!r} are not allowed",
                "give a dict, or a SamplingParams",
            )
        known = cls.names()
        for name in options:
            if name not in known:
                raise OptionError(f"unknown sampling option {name!r}", nearest(name, known))
        return replace(params, **options) if params is not None else cls(**options)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(f.name for f in fields(cls))


def _tuple(name: str, value: Any, rule: str) -> tuple[Any, ...]:
    _check(name, value, rule, lambda v: v is None or isinstance(v, Iterable))
    return tuple(value or ())


def _bias(bias: Any) -> tuple[tuple[int, float], ...]:
    try:
        pairs = tuple(
            (int(k), float(v))
            for k, v in (bias.items() if isinstance(bias, Mapping) else bias or ())
        )
    except (TypeError, ValueError):
        pairs = ((0, math.nan),)
    rule = "token ids with numbers: {id: number}"
    _check("logit_bias", bias, rule, lambda _: not any(math.isnan(value) for _, value in pairs))
    return pairs


def _check(name: str, value: Any, rule: str, ok: Any) -> None:
    if not ok(value):
        raise OptionError(f"{name}={value!r} is not allowed", f"{name} must be {rule}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


_Allows = Callable[[Any], bool]

_RULES: dict[str, tuple[str, _Allows]] = {
    "max_new_tokens": ("an integer of 0 or more", lambda v: _is_int(v) and v >= 0),
    "min_new_tokens": ("an integer of 0 or more", lambda v: _is_int(v) and v >= 0),
    "n": ("an integer of 1 or more", lambda v: _is_int(v) and v >= 1),
    "stop": ("one or more non-empty strings", lambda v: all(isinstance(s, str) and s for s in v)),
    "stop_token_ids": ("token ids", lambda v: all(_is_int(i) and i >= 0 for i in v)),
    "temperature": ("0 (greedy) or more", lambda v: _is_number(v) and v >= 0),
    "top_p": ("above 0 and at most 1", lambda v: _is_number(v) and 0 < v <= 1),
    "top_k": ("-1 (all) or an integer of 1 or more", lambda v: _is_int(v) and (v == -1 or v >= 1)),
    "min_p": ("between 0 and 1", lambda v: _is_number(v) and 0 <= v <= 1),
    "frequency_penalty": ("between -2 and 2", lambda v: _is_number(v) and -2 <= v <= 2),
    "presence_penalty": ("between -2 and 2", lambda v: _is_number(v) and -2 <= v <= 2),
    "repetition_penalty": ("above 0", lambda v: _is_number(v) and v > 0),
    "seed": ("None or an integer of 0 or more", lambda v: v is None or (_is_int(v) and v >= 0)),
    "logprob_start_len": ("-1 or a prompt position", lambda v: _is_int(v) and v >= -1),
    "top_logprobs_num": ("0 or more", lambda v: _is_int(v) and v >= 0),
    "regex": ("a string", lambda v: isinstance(v, str)),
    "ebnf": ("a string", lambda v: isinstance(v, str)),
    "json_whitespace": ("between 0 and 32", lambda v: _is_int(v) and 0 <= v <= 32),
    "thinking": (
        "True, False or the mark that ends it",
        lambda v: isinstance(v, bool) or _is_text(v),
    ),
    "jump_forward": ("True or False", lambda v: isinstance(v, bool)),
}
"""What each option must be, and whether a value is. The default is not asked about: most requests
have little else."""

_DEFAULTS = {f.name: f.default for f in fields(SamplingParams)}
