"""The primitives: `gen` and its kin, `select` and the roles. Each returns an expression and changes
nothing.

Arguments are checked here, at the line that wrote them; what an argument means is `SamplingParams`'
business.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from inspect import signature
from typing import Any

from ..errors import OptionError, ProgramError, nearest, shown
from ..sampling import SamplingParams, scalar
from ..segment import Kind
from .chat import ROLES
from .choices import ChoicesMethod, token_length_normalized
from .choices import choices_method as method_of
from .constraint import normalize
from .ir import Concat, ExpressionError, Gen, RoleBegin, RoleEnd, Select, Text, parts
from .location import caller

_RENAMED = {"max_tokens": "max_new_tokens", "min_tokens": "min_new_tokens"}


def gen(
    name: str | None = None,
    max_tokens: int | None = None,
    min_tokens: int | None = None,
    n: int | None = None,
    stop: str | Iterable[str] | None = None,
    stop_token_ids: Iterable[int] | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    top_k: int | None = None,
    min_p: float | None = None,
    frequency_penalty: float | None = None,
    presence_penalty: float | None = None,
    repetition_penalty: float | None = None,
    ignore_eos: bool | None = None,
    seed: int | None = None,
    logit_bias: Any = None,
    return_logprob: bool | None = None,
    logprob_start_len: int | None = None,
    top_logprobs_num: int | None = None,
    choices: Iterable[str] | None = None,
    choices_method: ChoicesMethod | str | None = None,
    dtype: type | str | None = None,
    regex: str | None = None,
    json_schema: Any = None,
    ebnf: str | None = None,
    json_whitespace: int | None = None,
    thinking: bool | str | None = None,
    jump_forward: bool | None = None,
    **unknown: Any,
) -> Gen | Select:
    """Text from the model, kept under `name` (gen_0, gen_1 ... when left out).

    What is None comes from the run. With `n` > 1 the variable is a list and its first text is
    appended. `choices` makes it a select. The other arguments are those of `SamplingParams`.

    dtype: int, float, bool or str: the text is constrained to such a literal; the variable stays
    text. An int or float also stops at a blank or a line break.

    A wrong or unknown argument, or one that would have no effect, is an OptionError; a regex or a
    schema that cannot be read is a GrammarError.
    """
    given = {key: value for key, value in locals().items() if key in _OPTIONS and value is not None}
    if unknown:
        key = next(iter(unknown))
        raise OptionError(f"gen has no argument {key!r}", nearest(key, _OPTIONS | _OWN))
    if choices is not None:
        _refuse_ignored(given)
        method = token_length_normalized if choices_method is None else choices_method
        return select(name, choices, given.get("temperature", 0.0), method, given.get("seed"))
    if choices_method is not None:
        message = f"choices_method={choices_method!r} has no effect without choices"
        raise OptionError(message, "give choices=[...] too")
    return Gen(_checked_name(name), _options(given), caller())


_OWN = {"name", "choices", "choices_method"}
_OPTIONS = set(signature(gen).parameters) - _OWN - {"unknown"}


def gen_int(name: str | None = None, max_tokens: int | None = None, **options: Any) -> Gen | Select:
    """`gen` of a whole number: `gen(..., dtype=int)`."""
    return gen(name, max_tokens, dtype=int, **options)


def gen_string(
    name: str | None = None, max_tokens: int | None = None, **options: Any
) -> Gen | Select:
    """`gen` of words in double quotes: `gen(..., dtype=str)`."""
    return gen(name, max_tokens, dtype=str, **options)


def select(
    name: str | None,
    choices: Iterable[str],
    temperature: float = 0.0,
    choices_method: ChoicesMethod | str = token_length_normalized,
    seed: int | None = None,
) -> Select:
    """The best of `choices` after the text so far, kept under `name` and appended.

    `choices_method` scores them. With a temperature one is drawn, with weights exp(score /
    temperature), the same one each time for the same `seed`.
    """
    if isinstance(choices, str):
        raise OptionError(f"choices={choices!r} is one string", "give a list of strings")
    if not isinstance(choices, Iterable):
        raise OptionError(f"choices={shown(choices)} is no list", "give a list of strings")
    choices = tuple(choices)
    if not choices:
        raise OptionError("choices=[] leaves nothing to select", "give one choice or more")
    for choice in choices:
        if not isinstance(choice, str) or not choice:
            hint = "choices are non-empty strings"
            raise OptionError(f"choice {choice!r} cannot be scored", hint)
        if choices.count(choice) > 1:
            raise OptionError(f"choice {choice!r} is there twice", "each choice once")
    _options({"temperature": temperature} | ({} if seed is None else {"seed": seed}))
    method = method_of(choices_method)
    return Select(_checked_name(name), choices, method, temperature, seed, caller())


def data(text: str) -> Text:
    """`text` as plain text wherever it stands, special tokens written in it too: for what a tool or
    a file brought. Arguments, contents of roles and what a model wrote are so already."""
    return _text(text, "data")


def raw(text: str) -> Text:
    """`text` as the tokenizer reads it wherever it stands, special tokens written in it included:
    for marks that a program means, inside a role too."""
    return _text(text, "raw")


def _text(text: Any, kind: Kind) -> Text:
    if not isinstance(text, str):
        message = f"{caller()}: {text!r} is no text"
        raise ExpressionError(message, f"give a string: {kind}(str(value))")
    return Text(text, kind)


def system(expr: Any = "") -> Concat:
    """`expr` as the system prompt."""
    return role("system", expr)


def user(expr: Any = "") -> Concat:
    """`expr` as the user's message."""
    return role("user", expr)


def assistant(expr: Any = "") -> Concat:
    """`expr` as the assistant's message: generations in it also stop at the template's stops."""
    return role("assistant", expr)


def role(name: str, expr: Any) -> Concat:
    """`expr` between the marks of the role `name`."""
    if name not in ROLES:
        raise ProgramError(f"{caller()}: there is no role {name!r}", nearest(name, ROLES))
    return Concat((RoleBegin(name), *parts(expr), RoleEnd(name)))


def system_begin() -> RoleBegin:
    return RoleBegin("system")


def system_end() -> RoleEnd:
    return RoleEnd("system")


def user_begin() -> RoleBegin:
    return RoleBegin("user")


def user_end() -> RoleEnd:
    return RoleEnd("user")


def assistant_begin() -> RoleBegin:
    return RoleBegin("assistant")


def assistant_end() -> RoleEnd:
    return RoleEnd("assistant")


def _checked_name(name: Any) -> str | None:
    if name is None or (isinstance(name, str) and name):
        return name
    raise OptionError(f"name={name!r} is not a name", "a name is a non-empty string")


def _refuse_ignored(given: dict[str, Any]) -> None:
    for key, value in given.items():
        if key not in ("temperature", "seed"):
            message = f"{key}={value!r} has no effect on a choice"
            raise OptionError(message, f"leave out {key} or choices")


def _options(given: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The given options under their `SamplingParams` names, checked and hashable."""
    known = {_RENAMED.get(key, key): value for key, value in normalize(given).items()}
    options = tuple((key, _hashable(value)) for key, value in known.items())
    try:
        _check(**dict(options))
    except OptionError as error:
        raise OptionError(_as_typed(error.message), _as_typed(error.hint)) from None
    return options


def _as_typed(text: str) -> str:
    for typed, known in _RENAMED.items():
        text = text.replace(known, typed)
    return text


def _hashable(value: Any) -> Any:
    value = scalar(value)
    if isinstance(value, dict):
        value = value.items()
    if isinstance(value, str) or not isinstance(value, Iterable):
        return value
    return tuple(_hashable(item) for item in value)


@lru_cache(maxsize=1024, typed=True)
def _check(**options: Any) -> None:
    """Refuse values out of range. What is left out comes from the run, so that a lone minimum may
    exceed the usual maximum."""
    least = options.get("min_new_tokens")
    if isinstance(least, int):
        options.setdefault("max_new_tokens", max(least, 0))
    SamplingParams.make(**options)
