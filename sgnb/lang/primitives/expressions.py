"""Primitives: generations and selections. Each function returns an expression without side effects.

Arguments are checked at the line of the call. `SamplingParams` defines sampling arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from inspect import signature
from typing import Any

from ...errors import OptionError, nearest, shown
from ...sampling import (
    SHORT_NAMES,
    SamplingParams,
    read_option,
    scalar,
    text,
    with_long_names,
)
from ..chat.reasoning import reasoning_of
from ..chat.tools import ToolUse, tool_use
from ..core.choices import ChoicesSamplingMethod, token_length_normalized
from ..core.choices import choices_method as method_of
from ..core.timers import checked_timeout
from ..executor import executor_of
from ..ir import (
    ChoicesMethod,
    Concat,
    Gen,
    Select,
    parts,
)
from ..location import caller, warn_once
from .config import global_config
from .constraint_options import resolve_constraints

AnyChoicesMethod = ChoicesMethod | ChoicesSamplingMethod


def gen(
    name: str | None = None,
    max_tokens: int | None = None,
    min_tokens: int | None = None,
    n: int | None = None,
    stop: str | Iterable[str] | None = None,
    stop_token_ids: Iterable[int] | None = None,
    stop_regex: str | Iterable[str] | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    top_k: int | None = None,
    min_p: float | None = None,
    frequency_penalty: float | None = None,
    presence_penalty: float | None = None,
    ignore_eos: bool | None = None,
    return_logprob: bool | None = None,
    logprob_start_len: int | None = None,
    top_logprobs_num: int | None = None,
    return_text_in_logprobs: bool | None = None,
    dtype: type | str | None = None,
    choices: Iterable[str] | None = None,
    choices_method: AnyChoicesMethod | str | None = None,
    regex: str | None = None,
    json_schema: Any = None,
    repetition_penalty: float | None = None,
    seed: int | None = None,
    logit_bias: Any = None,
    ebnf: str | None = None,
    json_whitespace: int | None = None,
    json_strict: bool | None = None,
    thinking: bool | str | None = None,
    jump_forward: bool | None = None,
    backend: Any = None,
    tools: Iterable[Any] | None = None,
    tool_choice: str = "auto",
    parallel_tool_calls: bool = False,
    timeout: float | None = None,
    documents: Mapping[str, Any] | None = None,
    **unknown: Any,
) -> Gen | Select:
    r"""Generate text and store the text in the variable `name`.

    Arguments that are None use the defaults of the run. `SamplingParams` describes the arguments
    without a description below; the names of `max_tokens` and `min_tokens` are `max_new_tokens` and
    `min_new_tokens` in `SamplingParams`.

    Args:
        name: Variable of the text; gen_0, gen_1 and so on if None.
        max_tokens: Maximum number of generated tokens. With tools, the limit of the text and of
            each call; on a service the limit of the whole answer.
        n: Number of samples. With n > 1 the variable is a list, and the first sample is appended.
        stop: String or strings that end the text and are removed from the text.
        temperature: 0 is greedy.
        dtype: int, float, bool or str: constrain the text to a literal of this type. The value
            remains a string. int and float also stop at a blank or line break.
        choices: Strings to select from instead of generating text, see `select`.
        choices_method: Scoring method for `choices`.
        backend: Engine or executor that generates the text instead of the run's backend. A list of
            backends is asked in order, see `run`.
        tools: Functions or `Tool` objects that the model may call. The variable is a `ToolCall`, or
            the text if the model answers in text. Declare the tools with `use_tools`.
        tool_choice: "auto", "required" (a call), or the name of the tool to call.
        parallel_tool_calls: Allow several calls. The variable is then a list of calls, or the text.
        timeout: Seconds from the call to the end of the text, including the time in the engine's
            queue. After the timeout the call stops, the variable holds the partial text with the
            finish reason "abort", and the branch ends with `TimedOut`.
        documents: Schemas by URI for the `$ref`s of `json_schema`. Nothing is fetched;
            `read_documents` reads a folder.

    Returns:
        The expression, to be appended to a state.

    Raises:
        OptionError: An argument is unknown or invalid. Arguments without effect warn.
        GrammarError: A regex or schema is invalid.

    Example:
        s += "Name: " + sgl.gen("name", max_tokens=8, stop="\n")
    """
    options = _given_options(locals(), unknown)
    if choices is not None and tools is None:
        return _select_with(options, name, choices, choices_method, backend, timeout)
    if choices_method is not None:
        method_of(choices_method)
        warn_once(f"choices_method={choices_method!r} has no effect without choices", caller())
    if not global_config.skip_special_tokens_in_output:
        options["skip_special_tokens"] = False

    others = {"choices": choices, "backend": backend, **options}
    return Gen(
        name=_checked_name(name),
        options=_options(options),
        location=caller(),
        backend=None if backend is None else executor_of(backend),
        tools=_tool_use(tools, tool_choice, parallel_tool_calls, others),
        timeout=checked_timeout(timeout),
    )


_OF_TOOLS = {"tools", "tool_choice", "parallel_tool_calls"}
_OWN = {"name", "choices", "choices_method", "backend", "timeout"} | _OF_TOOLS
_OPTIONS = set(signature(gen).parameters) - _OWN - {"unknown"}


def _given_options(arguments: Mapping[str, Any], unknown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options among `arguments` of `gen` that are not None.

    `unknown`: may contain names of `SamplingParams`, for example `max_new_tokens`.
    """
    options = {
        key: scalar(value)
        for key, value in arguments.items()
        if value is not None and key in _OPTIONS
    }
    for key, value in unknown.items():
        if key not in SHORT_NAMES.values():
            raise OptionError(f"gen has no argument {key!r}", nearest(key, _OPTIONS | _OWN))
        options = with_long_names({**options, key: value})
    return options


def _select_with(
    options: Mapping[str, Any],
    name: str | None,
    choices: Iterable[str],
    choices_method: AnyChoicesMethod | str | None,
    backend: Any,
    timeout: float | None,
) -> Select:
    """Return the `select` for a `gen` with choices. Options without effect warn."""
    for key in options.keys() - {"temperature", "seed"}:
        option = f"{key}={options[key]!r} has no effect with choices"
        warn_once(f"{option}: choices are scored, not sampled", caller())
    temperature, seed = options.get("temperature"), options.get("seed")
    return select(name, choices, temperature, choices_method, seed, backend, timeout)


def _tool_use(
    tools: Iterable[Any] | None, choice: str, parallel: bool, others: Mapping[str, Any]
) -> ToolUse | None:
    """Return the checked tools of a generation; None without tools. `others`: other arguments."""
    if tools is None:
        if choice != "auto" or parallel:
            option = "parallel_tool_calls" if parallel else f"tool_choice={choice!r}"
            warn_once(f"{option} has no effect without tools", caller())
        return None

    for key in ("choices", "dtype", "regex", "json_schema", "ebnf", "n", "backend"):
        if others.get(key) is not None:
            message = f"{key}={others[key]!r} and tools exclude each other"
            raise OptionError(message, "give one of them")
    return tool_use(tools, choice, parallel)


def gen_int(
    name: str | None = None,
    max_tokens: int | None = None,
    n: int | None = None,
    stop: str | Iterable[str] | None = None,
    **options: Any,
) -> Gen | Select:
    """Generate an integer: `gen(name, max_tokens, n=n, stop=stop, dtype=int, ...)`."""
    return gen(name, max_tokens, n=n, stop=stop, dtype=int, **options)


def gen_string(
    name: str | None = None,
    max_tokens: int | None = None,
    n: int | None = None,
    stop: str | Iterable[str] | None = None,
    **options: Any,
) -> Gen | Select:
    """Generate a double-quoted string: `gen(name, max_tokens, n=n, stop=stop, dtype=str, ...)`."""
    return gen(name, max_tokens, n=n, stop=stop, dtype=str, **options)


def select(
    name: str | None = None,
    choices: Iterable[str] | None = None,
    temperature: float | None = None,
    choices_method: AnyChoicesMethod | str | None = None,
    seed: int | None = None,
    backend: Any = None,
    timeout: float | None = None,
) -> Select:
    """Append the best of several choices and store the choice in the variable `name`.

    Args:
        name: Variable of the choice; gen_0, gen_1 and so on if None.
        choices: Distinct, non-empty strings.
        temperature: 0 selects the best score. Above 0 a choice is sampled with weights exp(score /
            temperature).
        choices_method: Scoring function, a `ChoicesSamplingMethod`, or a method's name. Default:
            `token_length_normalized`.
        seed: Makes the sample reproducible.
        backend: Engine or executor that scores the choices instead of the run's backend.
        timeout: Seconds, as in `gen`. After the timeout the variable has no value.

    Returns:
        The expression, to be appended to a state.

    Raises:
        OptionError: An argument is invalid.

    Example:
        s += "The capital of France is " + sgl.select("city", ["Paris", "Rome"])
    """
    if isinstance(choices, str):
        raise OptionError(f"choices={choices!r} is one string", "give a list of strings")
    if not isinstance(choices, Iterable):
        raise OptionError(f"choices={shown(choices)} is no list", "give a list of strings")
    choices = tuple(map(scalar, choices))
    if not choices:
        raise OptionError("choices=[] leaves nothing to select", "give one choice or more")

    temperature, seed = 0.0 if temperature is None else scalar(temperature), scalar(seed)
    _options({"temperature": temperature} | ({} if seed is None else {"seed": seed}))
    method = token_length_normalized if choices_method is None else method_of(choices_method)
    if temperature and hasattr(method, "requires_unconditional_logprobs"):
        option = f"temperature={temperature!r} has no effect"
        warn_once(f"{option}: a ChoicesSamplingMethod decides by itself", caller())
    executor = None if backend is None else executor_of(backend)
    return Select(
        name=_checked_name(name),
        choices=choices,
        method=method,
        temperature=temperature,
        seed=seed,
        location=caller(),
        backend=executor,
        timeout=checked_timeout(timeout),
    )


def separate_reasoning(expr: Any = None, model_type: str | None = None) -> Concat:
    """Separate leading reasoning from the answer of generations.

    Only the answer is appended and stored in the generation's variable NAME. The variable
    NAME_reasoning_content holds the reasoning.

    Args:
        expr: Expression with generations.
        model_type: SGLang's name of the model family, which determines the reasoning markers.
            Default: <think> and </think>.

    Raises:
        OptionError: `model_type` is unknown.
    """
    reasoning = reasoning_of(model_type)
    nodes = () if expr is None else parts(expr)
    replaced = [replace(n, reasoning=reasoning) if isinstance(n, Gen) else n for n in nodes]
    return Concat(tuple(replaced))


def _checked_name(name: Any) -> str | None:
    if name is None:
        return None
    if isinstance(name, str) and name:  # raises TraceError for a placeholder
        return read_option("name", name, "a string", text)
    raise OptionError(f"name={name!r} is not a name", "a name is a non-empty string")


def _options(arguments: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Check the options and return them under `SamplingParams` names, in hashable form."""
    if "dtype" in arguments or not _SCALARS.issuperset(map(type, arguments.values())):
        return _checked_options(arguments)
    return _scalar_options(*arguments.items(), *map(type, arguments.values()))


_SCALARS = {str, int, float, bool}


@lru_cache(maxsize=1024)
def _scalar_options(*items: Any) -> tuple[tuple[str, Any], ...]:
    """Return the checked options of the pairs in `items`. The types after the pairs distinguish
    equal values such as 1 and True."""
    return _checked_options(dict(items[: len(items) // 2]))


def _checked_options(arguments: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    resolved = resolve_constraints(arguments).items()
    options = tuple((SHORT_NAMES.get(key, key), _hashable(value)) for key, value in resolved)
    try:
        _check(**dict(options))
    except OptionError as error:
        raise OptionError(_as_typed(error.message), _as_typed(error.hint)) from None
    return options


def _as_typed(text: str) -> str:
    for typed, internal in SHORT_NAMES.items():
        text = text.replace(internal, typed)
    return text


def _hashable(value: Any) -> Any:
    value = scalar(value)
    if isinstance(value, dict):
        value = value.items()
    if isinstance(value, str | int | float) or not isinstance(value, Iterable):
        return value
    return tuple(_hashable(item) for item in value)


@lru_cache(maxsize=1024, typed=True)
def _check(**options: Any) -> None:
    """Raise OptionError for values out of range. Missing options come from the run, so a
    `min_new_tokens` alone may exceed the default maximum."""
    minimum = options.get("min_new_tokens")
    if isinstance(minimum, int):
        options.setdefault("max_new_tokens", max(minimum, 0))
    SamplingParams.make(**options)
