"""Sampling parameters, shared by the language, the engine and the magics.

Imports only errors and grammar specs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from operator import index
from typing import Any, TypeVar

from .errors import OptionError, nearest, shown
from .grammar.documents import bundle
from .grammar.spec import KINDS, SURROGATE_HINT, GrammarSpec, pattern_text, schema_text

T = TypeVar("T")


_grammar_spec = lru_cache(maxsize=64)(GrammarSpec)
"""A spec reads its whole text once, and each request asks for its spec several times."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Sampling parameters of a single request. Names and defaults follow SGLang.

    Filters apply in the order top_k, top_p, min_p. At most one of regex, json_schema and ebnf may
    be set.

    Raises:
        OptionError: a value is out of range, two options exclude each other, or an option has no
            effect.
    """

    # 0 computes the prompt only (prefill). With return_logprob, this scores the next token.
    max_new_tokens: int = 128
    min_new_tokens: int = 0  # no EOS, stop token or stop string ends the text earlier
    n: int = 1  # independent samples of the same prompt
    stop: tuple[str, ...] = ()  # strings that end the text; removed from the text, may span tokens
    # ids that end the text, in addition to the model's EOS ids
    stop_token_ids: tuple[int, ...] = ()
    stop_regex: tuple[str, ...] = ()  # regexes; the text ends before the first match of any
    temperature: float = 1.0  # 0 is greedy
    top_p: float = 1.0  # keep the likeliest tokens up to this cumulative probability
    top_k: int = -1  # keep this many of the likeliest tokens; -1 keeps all
    min_p: float = 0.0  # minimum probability, relative to the likeliest token
    frequency_penalty: float = 0.0  # subtracted from output tokens' logits, times their count
    presence_penalty: float = 0.0  # subtracted from output tokens' logits
    # divides logits of prompt and output tokens (multiplies if negative)
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()  # (token id, value) pairs added to the logits
    ignore_eos: bool = False  # ignore the model's EOS tokens
    # Makes the draws reproducible for any batch composition; None picks a random seed. In half
    # precision, rounding of the logits depends on the batch and may change a token: see
    # docs/GPU.md.
    seed: int | None = None
    return_logprob: bool = False  # natural logarithm, before temperature and filters
    logprob_start_len: int = -1  # first prompt position to score; -1: no prompt tokens
    top_logprobs_num: int = 0  # alternatives per position; needs return_logprob
    # Most likely tokens in the event `Alternatives` of each sampled token, for the views. Unlike
    # `return_logprob`, recording scores no forced token and therefore never changes the output.
    recorded_alternatives: int = 0
    return_text_in_logprobs: bool = False  # add token texts to the ids in `meta_info`
    skip_special_tokens: bool = True  # omit special tokens from the text
    regex: str | None = None  # syntax of Python's `re`; matches the whole text
    json_schema: str | None = None  # from JSON text, dict, pydantic model, dataclass, TypedDict
    ebnf: str | None = None  # grammar in Lark or GBNF notation
    # Whitespace between JSON tokens. None: ", " and ": ". 0: none (compact). n: at most n blanks or
    # line breaks at each position.
    json_whitespace: int | None = None
    # False: follow the JSON Schema specification, which also allows unlisted names, items and
    # types.
    json_strict: bool = True
    # One blank may come before the text of the grammar and is not part of `Output.text`: most
    # tokens for numbers and words begin with a blank.
    leading_blank: bool = False
    # start with an unconstrained thinking section: True, or its end mark
    thinking: bool | str = False
    jump_forward: bool = True  # append text forced by the grammar without a decode step
    # Reuse keys and values of a similar cached prompt at other positions: see docs/CACHE.md.
    approximate: bool = False

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        for name, (rule, read) in _RULES.items():
            value = getattr(self, name)
            if value is None:  # not set by the caller
                set_(self, name, _DEFAULTS[name])
            elif value is not _DEFAULTS[name]:
                set_(self, name, read_option(name, value, rule, read))

        if self.min_new_tokens > (limit := self.max_new_tokens):
            rule = f"an integer between 0 and max_new_tokens={shown(limit)}"
            raise _refusal("min_new_tokens", self.min_new_tokens, rule)
        self._check_grammar()

    def _no_effect(self, name: str, needed: str) -> OptionError:
        return OptionError(
            f"{name}={shown(getattr(self, name))} has no effect", f"it needs {needed}"
        )

    @property
    def ignored(self) -> str:
        """Describe the first option without effect in this combination, or return ""."""
        if not self.return_logprob:
            for name in ("top_logprobs_num", "logprob_start_len", "return_text_in_logprobs"):
                if (value := getattr(self, name)) != _DEFAULTS[name]:
                    return f"{name}={value!r} has no effect without return_logprob=True"
        return ""

    @property
    def num_alternatives(self) -> int:
        """Number of most likely tokens to compute for each sampled token."""
        returned = self.top_logprobs_num if self.return_logprob else 0
        return max(returned, self.recorded_alternatives)

    @property
    def scores_next(self) -> bool:
        """True if the request asks for log-probabilities of the next token instead of text."""
        return self.max_new_tokens == 0 and self.return_logprob and self.grammar is None

    def _check_grammar(self) -> None:
        if self.json_schema is not None:
            object.__setattr__(self, "json_schema", schema_text(self.json_schema))
        kinds = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(kinds) > 1:
            raise OptionError(f"{kinds[0]} and {kinds[1]} exclude each other", "give one of them")
        if kinds:
            GrammarSpec(kinds[0], getattr(self, kinds[0]))  # raises GrammarError
        if self.json_whitespace is not None and self.json_schema is None:
            raise self._no_effect("json_whitespace", "json_schema=...")
        if not self.json_strict and self.json_schema is None:
            raise self._no_effect("json_strict", "json_schema=...")

        if self.leading_blank and not kinds:
            raise self._no_effect("leading_blank", "regex=, json_schema= or ebnf=")
        if self.leading_blank and (self.thinking or self.ebnf is not None):
            other = "thinking" if self.thinking else "ebnf"
            raise OptionError(f"leading_blank and {other} exclude each other", "give one of them")
        if self.thinking and not kinds:
            raise self._no_effect("thinking", "regex=, json_schema= or ebnf=")

    @property
    def grammar(self) -> GrammarSpec | None:
        """Grammar of the text, or None."""
        for kind in KINDS:
            if (text := getattr(self, kind)) is not None:
                options = self.json_whitespace, self.json_strict, self.leading_blank
                return _grammar_spec(kind, text, *options)
        return None

    @property
    def penalises(self) -> bool:
        """True if a penalty applies."""
        return bool(self.frequency_penalty or self.presence_penalty or self.repetition_penalty != 1)

    @property
    def adjusts_logits(self) -> bool:
        """True if penalties or biases change the logits."""
        return bool(self.logit_bias) or self.penalises

    @property
    def filters(self) -> bool:
        """True if top_k, top_p or min_p filter tokens."""
        return self.top_k != -1 or self.top_p < 1 or self.min_p > 0

    @property
    def is_plain(self) -> bool:
        """True if a token depends only on temperature, the grammar's mask and the random draw."""
        return not (self.adjusts_logits or self.filters)

    @property
    def thinking_end(self) -> str:
        """Mark that ends the thinking section and activates the grammar; "" without a thinking
        section."""
        return "</think>" if self.thinking is True else self.thinking or ""

    @classmethod
    def make(
        cls, params: SamplingParams | Mapping[str, Any] | None = None, /, **options: Any
    ) -> SamplingParams:
        """Return `params` updated with `options`.

        Args:
            params: parameters or a dict of options; None for the defaults.
            options: options by name; None values are ignored. `documents` are schemas by URI that
                `json_schema` refers to.

        Raises:
            OptionError: an option is unknown or has an invalid value.
        """
        if (
            (params is None or (type(params) is dict and not params))
            and not options
            and cls is SamplingParams
        ):
            return _shared_defaults()
        rule, names = "a dict, or a SamplingParams", cls.names()
        if isinstance(params, Mapping):
            values = read_option("sampling_params", params, rule, dict)
            params, options = None, {**values, **options}
        if params is not None and type(params) is not cls:  # a subclass may override any field
            params = read_option("sampling_params", params, rule, cls._copy)

        if (documents := options.pop("documents", None)) is not None:
            if options.get("json_schema") is None:
                raise OptionError("documents has no effect", "it needs json_schema=...")
            options["json_schema"] = bundle(options["json_schema"], documents)
        options = with_long_names(options)
        for name in options:
            if type(name) is not str or name not in names:
                hint = nearest(name if type(name) is str else "", names)
                raise OptionError(f"unknown sampling option {shown(name)}", hint)

        options = {name: value for name, value in options.items() if value is not None}
        return replace(params, **options) if isinstance(params, cls) else cls(**options)

    @classmethod
    def _copy(cls, params: Any) -> SamplingParams:
        """Return the fields of a subclass's instance as a plain SamplingParams."""
        if not isinstance(params, cls):
            raise TypeError
        return cls(**{name: getattr(params, name) for name in cls.names()})

    @classmethod
    @lru_cache
    def names(cls) -> tuple[str, ...]:
        return tuple(f.name for f in fields(cls))


@lru_cache
def _shared_defaults() -> SamplingParams:
    return SamplingParams()


def _refusal(name: str, value: Any, rule: str) -> OptionError:
    return OptionError(f"{name}={shown(value)} is not allowed", f"{name} must be {rule}")


SHORT_NAMES = {"max_tokens": "max_new_tokens", "min_tokens": "min_new_tokens"}
"""Short name of an option -> name in `SamplingParams`. Each function accepts both names."""


def with_long_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options under their names in `SamplingParams`.

    Raises:
        OptionError: Both names of an option have a value.
    """
    named: dict[str, Any] = {}
    for name, value in options.items():
        long = SHORT_NAMES.get(name, name) if type(name) is str else name
        if long != name and value is not None and options.get(long) is not None:
            message = f"{name}={shown(value)} and {long}={shown(options[long])} exclude each other"
            raise OptionError(message, f"pass {name} only")
        if named.get(long) is None:
            named[long] = value
    return named


def read_option(name: str, value: Any, rule: str, read: Callable[[Any], T]) -> T:
    """Return `read(value)`, a value of a plain Python type.

    Raises:
        OptionError: `read` raised, perhaps in a method of the value's class.
    """
    try:
        return read(value)
    except UnicodeEncodeError as error:
        half = f"half of a surrogate pair, {error.object[error.start]!r}"
        raise OptionError(f"{name}={shown(value)} contains {half}", SURROGATE_HINT) from None
    except Exception:
        raise _refusal(name, value, rule) from None


def scalar(value: Any) -> Any:
    """Convert a scalar of numpy or torch, or an instance of a str subclass, to the builtin type.

    Args:
        value: any object; non-scalars are returned unchanged.
    """
    if isinstance(value, str):
        return str.__str__(value)
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def integer(low: int, high: int | None = None) -> Callable[[Any], int]:
    """Return a reader of integers from `low` to `high`. Booleans are refused."""

    def read(value: Any) -> int:
        value = scalar(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError
        number = index(value)  # a subclass may override comparisons
        if number < low or (high is not None and number > high):
            raise ValueError
        return number

    return read


def optional(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """Return a reader of None and of the values of `read`."""
    return lambda value: None if value is None else read(value)


def _number(low: float, high: float) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        value = scalar(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError
        number = index(value) if isinstance(value, int) else float.__float__(value)
        if not low <= number <= high:
            raise ValueError
        return float(number)

    return read


def _top_k(value: Any) -> int:
    if not (count := integer(-1, (1 << 31) - 1)(value)):
        raise ValueError
    return count


def _above_0(high: float) -> Callable[[Any], float]:
    return _number(math.nextafter(0.0, 1.0), high)


def switch(value: Any) -> bool:
    """Return a boolean of Python, numpy or torch as `bool`. Raises TypeError otherwise."""
    value = scalar(value)
    if type(value) is not bool:
        raise TypeError
    return value


def text(value: Any) -> str:
    """Return a string as a plain `str`. Raises TypeError for a value of another type, and
    UnicodeEncodeError for half of a surrogate pair: UTF-8 has no encoding for the half."""
    if not isinstance(value, str):
        raise TypeError
    str.encode(value)
    return str.__str__(value)


def _nonempty_text(value: Any) -> str:
    """Return a string that is not empty; see `text`."""
    if string := text(value):
        return string
    raise ValueError


def _stops(value: Any) -> tuple[str, ...]:
    strings = (value,) if isinstance(value, str) else () if value is None else value
    return tuple(_nonempty_text(string) for string in strings)


def _token_ids(value: Any) -> tuple[int, ...]:
    return () if value is None else tuple(_token(item) for item in value)


def _bias(value: Any) -> tuple[tuple[int, float], ...]:
    """Accept a mapping or pairs. Keys may be strings, because JSON keys are."""
    pairs = value.items() if isinstance(value, Mapping) else () if value is None else value
    return tuple((_token(int(i) if isinstance(i, str) else i), _added(v)) for i, v in pairs)


def _added(value: Any) -> float:
    value = scalar(value)
    return -math.inf if value == -math.inf else _number(-1e6, 1e6)(value)


_token = integer(0)

_RULES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "max_new_tokens": ("an integer of 0 or more", integer(0)),
    "min_new_tokens": ("an integer of 0 or more", integer(0)),
    "n": ("an integer of 1 or more, at most 65536", integer(1, 1 << 16)),
    "stop": ("a string or a list of them, none empty", _stops),
    "stop_token_ids": ("a list of token ids", _token_ids),
    "stop_regex": ("a regex or a list of them, none empty", _stops),
    "temperature": ("0 (greedy) or more, at most 1e6", _number(0, 1e6)),
    "top_p": ("above 0 and at most 1", _above_0(1)),
    "top_k": (
        "-1 (all) or an integer of 1 or more, below 2**31",
        _top_k,
    ),
    "min_p": ("between 0 and 1", _number(0, 1)),
    "frequency_penalty": ("between -2 and 2", _number(-2, 2)),
    "presence_penalty": ("between -2 and 2", _number(-2, 2)),
    "repetition_penalty": ("between 0.01 and 100", _number(0.01, 100)),
    "logit_bias": ("{id: number}, each number -inf or between -1e6 and 1e6", _bias),
    "ignore_eos": ("True or False", switch),
    "seed": ("None or an integer of 0 or more", optional(integer(0))),
    "return_logprob": ("True or False", switch),
    "logprob_start_len": ("-1 or a prompt position", integer(-1)),
    "top_logprobs_num": ("0 or more, at most 1024", integer(0, 1024)),
    "recorded_alternatives": ("0 or more, at most 1024", integer(0, 1024)),
    "return_text_in_logprobs": ("True or False", switch),
    "skip_special_tokens": ("True or False", switch),
    "regex": ("a string or a pattern of re.compile", pattern_text),
    "ebnf": ("a string", text),
    "json_whitespace": ("None or between 0 and 32", integer(0, 32)),
    "json_strict": ("True or False", switch),
    "leading_blank": ("True or False", switch),
    "thinking": (
        "True, False or the text that ends the thinking section",
        lambda v: _nonempty_text(v) if isinstance(v, str) else switch(v),
    ),
    "jump_forward": ("True or False", switch),
    "approximate": ("True or False", switch),
}
"""Option -> (rule for the error message, converter). Values equal to the default skip the
converter."""

_DEFAULTS = {f.name: f.default for f in fields(SamplingParams)}
