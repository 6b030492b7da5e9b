"""The primitives: `gen` and its kin, `select` and the roles. Each returns an expression and changes
nothing.

Arguments are checked here, at the line that wrote them; what an argument means is `SamplingParams`'
business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from inspect import signature
from typing import Any

from ...errors import OptionError, ProgramError, nearest, shown
from ...sampling import SamplingParams, scalar
from ...segment import Kind
from ..chat.reasoning import reasoning_of
from ..chat.tools import ToolCall, as_tools, result_text, tool_use
from ..core.choices import ChoicesSamplingMethod, token_length_normalized
from ..core.choices import choices_method as method_of
from ..core.timers import checked_timeout
from ..executor import executor_of
from ..ir import (
    ChoicesMethod,
    Concat,
    ExpressionError,
    Gen,
    RoleBegin,
    RoleEnd,
    Select,
    Text,
    ToolResults,
    UseTools,
    parts,
    role,
)
from ..location import caller, warn_once
from .config import global_config
from .constraint import resolve_constraints

AnyChoicesMethod = ChoicesMethod | ChoicesSamplingMethod

_RENAMED = {"max_tokens": "max_new_tokens", "min_tokens": "min_new_tokens"}


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
    """Text from the model, kept under `name` (gen_0, gen_1 ... when left out).

    What is None comes from the run. With `n` > 1 the variable is a list and its first text is
    appended. `choices` and `choices_method` make it a `select`. `backend`, an engine or an
    executor, is asked instead of the run's. The other arguments are those of `SamplingParams`,
    where `max_tokens` and `min_tokens` are called `max_new_tokens` and `min_new_tokens`.

    dtype: int, float, bool or str: the text is constrained to such a literal; the variable stays
    text. An int or float also stops at a blank or a line break.

    tools: functions that the model may call: the variable is a `ToolCall`, or text where it
    answered so. tool_choice: "auto"; "required", a call; a tool's name, a call of it. With
    parallel_tool_calls the variable is a list of calls, or text. `max_tokens` bounds the text and
    each call. Tell the model of the tools with `use_tools`.

    timeout: seconds from the call to the end of the answer, waiting in the engine's queue included.
    Then the call is stopped: the variable has the partial text, the finish reason is "abort", and
    the branch ends with a `TimedOut` error.

    documents: schemas by URI, to which `$ref`s of `json_schema` may refer. Nothing is fetched; see
    `read_documents` for a folder.

    A wrong or unknown argument is an OptionError, one without effect a warning; a regex or a schema
    that cannot be read is a GrammarError.
    """
    own = locals().items()
    given = {key: scalar(value) for key, value in own if value is not None and key in _OPTIONS}
    if unknown:
        key = next(iter(unknown))
        raise OptionError(f"gen has no argument {key!r}", nearest(key, _OPTIONS | _OWN))
    if choices is not None and tools is None:
        for key in given.keys() - {"temperature", "seed"}:
            what = f"{key}={given[key]!r} has no effect beside choices"
            warn_once(f"{what}, which are scored and not sampled", caller())
        temperature, seed = given.get("temperature"), given.get("seed")
        return select(name, choices, temperature, choices_method, seed, backend, timeout)
    if choices_method is not None:
        method_of(choices_method)
        warn_once(f"choices_method={choices_method!r} has no effect without choices", caller())
    if not global_config.skip_special_tokens_in_output:
        given["skip_special_tokens"] = False
    executor = None if backend is None else executor_of(backend)
    if tools is None:
        if tool_choice != "auto" or parallel_tool_calls:
            what = "parallel_tool_calls" if parallel_tool_calls else f"tool_choice={tool_choice!r}"
            warn_once(f"{what} has no effect without tools", caller())
        return Gen(
            _checked_name(name),
            _options(given),
            caller(),
            executor,
            timeout=checked_timeout(timeout),
        )
    others = {"choices": choices, "backend": backend, **given}
    for key in ("choices", "dtype", "regex", "json_schema", "ebnf", "n", "backend"):
        if others.get(key) is not None:
            message = f"{key}={others[key]!r} and tools exclude each other"
            raise OptionError(message, "give one of them")
    use = tool_use(tools, tool_choice, parallel_tool_calls)
    limit = checked_timeout(timeout)
    return Gen(_checked_name(name), _options(given), caller(), tools=use, timeout=limit)


_OF_TOOLS = {"tools", "tool_choice", "parallel_tool_calls"}
_OWN = {"name", "choices", "choices_method", "backend", "timeout"} | _OF_TOOLS
_OPTIONS = set(signature(gen).parameters) - _OWN - {"unknown"}


def gen_int(
    name: str | None = None,
    max_tokens: int | None = None,
    n: int | None = None,
    stop: str | Iterable[str] | None = None,
    **options: Any,
) -> Gen | Select:
    """A whole number: `gen(name, max_tokens, n=n, stop=stop, dtype=int, ...)`."""
    return gen(name, max_tokens, n=n, stop=stop, dtype=int, **options)


def gen_string(
    name: str | None = None,
    max_tokens: int | None = None,
    n: int | None = None,
    stop: str | Iterable[str] | None = None,
    **options: Any,
) -> Gen | Select:
    """Words in double quotes: `gen(name, max_tokens, n=n, stop=stop, dtype=str, ...)`."""
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
    """The best of `choices` after the text so far, kept under `name` and appended.

    `choices_method` scores them, `token_length_normalized` where it is left out. With a temperature
    above 0 one is drawn, with weights exp(score / temperature), the same one each time for the same
    `seed`. `backend`, an engine or an executor, is asked instead of the run's. `timeout` is in
    seconds, as in `gen`; after a timeout a select has no value.
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
        what = f"temperature={temperature!r} has no effect"
        warn_once(f"{what}: a ChoicesSamplingMethod decides by itself", caller())
    executor = None if backend is None else executor_of(backend)
    own = _checked_name(name), choices, method, temperature, seed, caller()
    return Select(*own, backend=executor, timeout=checked_timeout(timeout))


def separate_reasoning(expr: Any = None, model_type: str | None = None) -> Concat:
    """`expr`, whose generations begin with reasoning: the answer alone is appended and becomes the
    variable, and `NAME_reasoning_content` has the reasoning.

    model_type: SGLang's name of the kind of model, which says what marks the reasoning; <think> and
    </think> by default.
    """
    reasoning = reasoning_of(model_type)
    nodes = () if expr is None else parts(expr)
    told_apart = [replace(n, reasoning=reasoning) if isinstance(n, Gen) else n for n in nodes]
    return Concat(tuple(told_apart))


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


def system(expr: Any = None) -> Concat:
    """`expr` as the system prompt."""
    return role("system", expr)


def user(expr: Any = None) -> Concat:
    """`expr` as the user's message."""
    return role("user", expr)


def assistant(expr: Any = None) -> Concat:
    """`expr` as the assistant's message: generations in it also stop at the template's stops."""
    return role("assistant", expr)


def use_tools(tools: Iterable[Any]) -> UseTools:
    """Tells the model of `tools`, functions or `Tool`s, where the conversation begins: as its own
    chat template does, else in the system prompt. Comes before the first role."""
    return UseTools(as_tools(tools))


def tool(call: ToolCall | Iterable[ToolCall], result: Any) -> ToolResults:
    """What `call` returned, its `result`, in the tool role; for a list of calls a list of results.
    Text stands as it is and all else as JSON; special tokens written in it are plain text."""
    if isinstance(call, ToolCall):
        return ToolResults((call,), (result_text(result),))
    calls = tuple(call) if isinstance(call, (list, tuple)) else ()
    if not calls or not all(isinstance(one, ToolCall) for one in calls):
        raise ProgramError(f"{caller()}: {call!r} is no call", 'give s["..."] of gen(tools=...)')
    if not isinstance(result, (list, tuple)) or len(result) != len(calls):
        what = f"{len(calls)} calls need a list of as many results"
        raise ProgramError(f"{caller()}: {what}", "give [call() for call in calls]")
    return ToolResults(calls, tuple(map(result_text, result)))


def system_begin() -> RoleBegin:
    """Opens the system's turn, up to `system_end`."""
    return RoleBegin("system")


def system_end() -> RoleEnd:
    """Closes what `system_begin` opened."""
    return RoleEnd("system")


def user_begin() -> RoleBegin:
    """Opens the user's turn, up to `user_end`."""
    return RoleBegin("user")


def user_end() -> RoleEnd:
    """Closes what `user_begin` opened."""
    return RoleEnd("user")


def assistant_begin() -> RoleBegin:
    """Opens the assistant's turn, up to `assistant_end`: generations in it also stop at the
    template's stops."""
    return RoleBegin("assistant")


def assistant_end() -> RoleEnd:
    """Closes what `assistant_begin` opened."""
    return RoleEnd("assistant")


def _checked_name(name: Any) -> str | None:
    if name is None or (isinstance(name, str) and name):
        return name
    raise OptionError(f"name={name!r} is not a name", "a name is a non-empty string")


def _options(given: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The given options under their `SamplingParams` names, checked and hashable."""
    known = {_RENAMED.get(key, key): value for key, value in resolve_constraints(given).items()}
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
    if isinstance(value, str | int | float) or not isinstance(value, Iterable):
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
