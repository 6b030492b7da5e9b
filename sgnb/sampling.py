"""Sampling parameters, shared by the language, the engine and the magics. Imports only errors and
grammars."""

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

    Filters apply in the order top_k, top_p, min_p. At most one of regex, json_schema and ebnf.
    """

    max_new_tokens: int = 128  # 0 computes the prompt only
    min_new_tokens: int = 0  # no EOS, stop token or stop string ends the text before this many
    n: int = 1  # independent samples of the same prompt
    stop: tuple[str, ...] = ()  # strings that end the text; they are cut off and may span tokens
    stop_token_ids: tuple[int, ...] = ()  # token ids that end the text, besides the model's own
    temperature: float = 1.0  # 0 is greedy
    top_p: float = 1.0
    top_k: int = -1  # -1 for all
    min_p: float = 0.0
    frequency_penalty: float = 0.0  # subtracted from output tokens' logits, times their count
    presence_penalty: float = 0.0  # subtracted from output tokens' logits
    repetition_penalty: float = 1.0  # divides (if negative, multiplies) logits of all tokens seen
    logit_bias: tuple[tuple[int, float], ...] = ()  # (token id, value) pairs added to the logits
    ignore_eos: bool = False
    # Repeats the draws whatever runs beside; None draws one. In half precision the logits are
    # rounded otherwise beside other requests, and may change a token: see docs/GPU.md.
    seed: int | None = None
    return_logprob: bool = False  # natural, of the model itself: before temperature and filters
    logprob_start_len: int = -1  # first prompt position to score; -1 for none of the prompt
    top_logprobs_num: int = 0  # alternatives per position, with return_logprob
    skip_special_tokens: bool = True  # in the text
    regex: str | None = None  # Python's `re` syntax; matches the whole text
    json_schema: str | None = None  # given as JSON text, dict, pydantic model, dataclass, TypedDict
    ebnf: str | None = None  # a grammar in Lark's or GBNF notation
    json_whitespace: int = 0  # at most this many blanks or line breaks between parts; 0 is compact
    thinking: bool | str = False  # begin with a free thinking section: True, or the mark ending it
    jump_forward: bool = True  # append text that the grammar forces without asking the model

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        stop = (self.stop,) if isinstance(self.stop, str) else self.stop
        set_(self, "stop", _tuple("stop", stop, "a string or a list of them"))
        ids = _tuple("stop_token_ids", self.stop_token_ids, "a list of token ids")
        set_(self, "stop_token_ids", ids)
        set_(self, "logit_bias", _bias(self.logit_bias))

        for name, (rule, allows) in _RULES.items():
            value = getattr(self, name)
            if value is not _DEFAULTS[name] and not allows(value):
                raise OptionError(f"{name}={value!r} is not allowed", f"{name} must be {rule}")
        most = self.max_new_tokens
        rule = f"an integer between 0 and max_new_tokens={most}"
        _check("min_new_tokens", self.min_new_tokens, rule, lambda least: least <= most)
        if not self.return_logprob and (self.top_logprobs_num or self.logprob_start_len >= 0):
            name = "top_logprobs_num" if self.top_logprobs_num else "logprob_start_len"
            raise self._no_effect(name, "return_logprob=True")
        self._check_grammar()

    def _no_effect(self, name: str, needed: str) -> OptionError:
        return OptionError(f"{name}={getattr(self, name)!r} has no effect", f"it needs {needed}")

    def _check_grammar(self) -> None:
        if self.json_schema is not None:
            object.__setattr__(self, "json_schema", schema_text(self.json_schema))
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) > 1:
            raise OptionError(f"{given[0]} and {given[1]} exclude each other", "give one of them")
        if self.json_whitespace and self.json_schema is None:
            raise self._no_effect("json_whitespace", "json_schema=...")
        if self.thinking and not given:
            raise self._no_effect("thinking", "regex=, json_schema= or ebnf=")

    @property
    def grammar(self) -> GrammarSpec | None:
        """The grammar of the text, if there is one."""
        for kind in KINDS:
            if (text := getattr(self, kind)) is not None:
                return GrammarSpec(kind, text, self.json_whitespace)
        return None

    @property
    def penalises(self) -> bool:
        """Whether a penalty applies."""
        return bool(self.frequency_penalty or self.presence_penalty or self.repetition_penalty != 1)

    @property
    def adjusts_logits(self) -> bool:
        """Whether penalties or biases change the logits."""
        return bool(self.logit_bias) or self.penalises

    @property
    def filters(self) -> bool:
        """Whether top-k, top-p or min-p leave some tokens out."""
        return self.top_k != -1 or self.top_p < 1 or self.min_p > 0

    @property
    def is_plain(self) -> bool:
        """Whether a token depends on nothing but temperature, the grammar's mask and the draw."""
        return not (self.adjusts_logits or self.filters)

    @property
    def thinking_end(self) -> str:
        """The mark after which the grammar binds; "" where it binds from the start."""
        return "</think>" if self.thinking is True else self.thinking or ""

    @classmethod
    def make(
        cls, params: SamplingParams | Mapping[str, Any] | None = None, /, **options: Any
    ) -> SamplingParams:
        """`params` (or a dict of them) updated with `options`. OptionError for an unknown name."""
        if isinstance(params, Mapping):
            options = {**params, **options}
            params = None
        if not isinstance(params, (cls, type(None))):
            message = f"sampling parameters {params!r} are not allowed"
            raise OptionError(message, "give a dict, or a SamplingParams")
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
        items = bias.items() if isinstance(bias, Mapping) else bias or ()
        pairs = tuple((int(token), float(value)) for token, value in items)
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
    "thinking": ("True, False or the mark that ends it", lambda v: v is True or _is_text(v)),
    "jump_forward": ("True or False", lambda v: isinstance(v, bool)),
}
"""The rule for each option, and its check. Defaults, which most requests keep, are not checked."""

_DEFAULTS = {f.name: f.default for f in fields(SamplingParams)}
