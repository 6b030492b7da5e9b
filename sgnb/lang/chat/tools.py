"""Tools: Python functions that a model may call.

A `Tool` is a function with the JSON schema of its arguments, a `ToolCall` what the model wrote. How
calls look in a model's text is `tool_format.py`'s business; here they are written step by step,
each under a grammar.
"""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable, Generator, Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import to_json

from ...errors import OptionError, ProgramError, nearest, shown
from ...sampling import SamplingParams
from ...segment import Segment
from ..location import Location, add_location, caller

if TYPE_CHECKING:
    from .tool_format import ToolFormat

OnError = Literal["user", "model"]
ON_ERROR = get_args(OnError)

MAX_CALLS = 16
"""Calls in one turn at most: a model that repeats itself would not end."""

BETWEEN_CALLS_TOKENS = 64
"""Room for the marks between two calls, one token for each byte if need be."""

_NO_VALUE = inspect.Parameter.empty


class Tool:
    """A function that a model may call. Its type hints and defaults become the JSON schema of its
    arguments, its docstring describes it: what stands in its "Args:", or after ":param name:",
    describes an argument."""

    def __init__(
        self, func: Callable[..., Any], name: str | None = None, description: str | None = None
    ) -> None:
        """name, description: those of the function where left out. OptionError for a function
        whose arguments a schema cannot say."""
        if not callable(func):
            raise _no_function(func)
        self.func = func
        self.name = str(name or getattr(func, "__name__", ""))
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", self.name):
            hint = "give one of letters, digits, _ and -: Tool(func, name=...)"
            raise OptionError(f"a tool cannot be named {self.name!r}", hint)
        doc = inspect.getdoc(func) or ""
        self.description = _summary(doc) if description is None else description
        self._arguments = _arguments_model(func, self.name, doc)
        self.is_async = inspect.iscoroutinefunction(func)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The tool as chat templates take it: {"type": "function", "function": {...}}."""
        function = {"name": self.name, "description": self.description}
        return {"type": "function", "function": function | {"parameters": self.parameters()}}

    def parameters(self, definitions: str = "#/$defs") -> dict[str, Any]:
        """The JSON schema of the arguments, an object; shared parts lie under `definitions`."""
        template = definitions + "/{model}"
        return dict(_without_titles(self._arguments.model_json_schema(ref_template=template)))

    def __call__(self, arguments: dict[str, Any]) -> Any:
        """What the function returns for these `arguments`, JSON values; of an `async def` a
        coroutine. They are validated and become the types of the hints: pydantic's ValidationError
        if they cannot."""
        values = self._arguments.model_validate(arguments)
        fields = type(values).model_fields
        given = {str(fields[name].alias): getattr(values, name) for name in values.model_fields_set}
        return self.func(**given)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"


@dataclass(frozen=True)
class ToolCall:
    """A call that a model wrote. Calling it runs the tool."""

    name: str
    arguments: dict[str, Any]  # JSON values
    tool: Tool = field(repr=False)
    id: str = field(default="", repr=False)  # "" where the model's format has none
    text: str = field(default="", repr=False)  # what the model wrote before it, and the call

    def __call__(self, on_error: OnError = "user") -> Any:
        """What the tool returns; of an `async def` tool a coroutine.

        on_error: what the tool raises, or its arguments' validation, is raised here ("user"), with
        the line of the program, or is returned as text for the model to read ("model").
        """
        if on_error not in ON_ERROR:
            raise OptionError(f"on_error={on_error!r} is not known", nearest(on_error, ON_ERROR))
        return self.run(on_error, caller())

    def run(self, on_error: OnError, location: Location) -> Any:
        """As calling it does; `location` is the program's line."""

        def failed(error: Exception) -> str:
            if on_error == "model":
                return error_text(error)
            add_location(error, f"tool {self.name!r}", location)
            raise error

        async def awaited(result: Any) -> Any:
            try:
                return await result
            except Exception as error:
                return failed(error)

        try:
            result = self.tool(self.arguments)
        except Exception as error:
            return failed(error)
        return awaited(result) if inspect.isawaitable(result) else result

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class ToolUse:
    """What one generation may call, and whether it must."""

    tools: tuple[Tool, ...]
    optional: bool  # it may answer in text
    parallel: bool  # and may call several times

    def write(
        self, params: SamplingParams, form: ToolFormat, marks: re.Pattern[str] | None
    ) -> Generator[
        Segment | SamplingParams, tuple[str, dict[str, Any]], tuple[Any, dict[str, Any]]
    ]:
        """The steps of the generation: yields text to append, and parameters to generate with, for
        which it is sent the text and its meta information. Returns the variable's value and its
        meta information.

        The text before a call is free and ends at the mark that opens one; each call is a text of
        the JSON schema of all of them.
        """
        params, said = replace(params, n=1), ""
        if self.optional:
            mark = form.mark(marks)
            free = replace(
                params,
                stop=(*params.stop, mark),
                skip_special_tokens=params.skip_special_tokens
                and not (marks and marks.fullmatch(mark)),
            )
            said, meta = yield free
            if meta.get("stopped_by") != mark:
                return said, meta
        yield Segment(form.open)
        calls: list[ToolCall] = []
        no_stops: dict[str, Any] = {"stop": (), "stop_token_ids": (), "stop_regex": ()}
        bound = replace(params, **no_stops, min_new_tokens=0, ignore_eos=False)
        of_call = replace(
            bound, json_schema=calls_schema(self.tools, form), json_whitespace=form.whitespace
        )
        while True:
            text, meta = yield of_call
            calls.append(self._parse(text, said if not calls else "", form))
            if not self.parallel or form.separator is None or len(calls) == MAX_CALLS:
                yield Segment(form.close)
                break
            same = form.close if form.separator.startswith(form.close) else ""  # read as marks
            yield Segment(same)
            end, going_on = form.close.removeprefix(same), form.separator.removeprefix(same)
            either = f"{re.escape(end)}|{re.escape(going_on)}"
            between = replace(bound, regex=either, max_new_tokens=BETWEEN_CALLS_TOKENS)
            if (yield between)[0] != going_on:
                break
        return (calls if self.parallel else calls[0]), meta

    def _parse(self, text: str, said: str, form: ToolFormat) -> ToolCall:
        try:
            written = json.loads(text)
        except (ValueError, RecursionError):
            hint = "raise max_tokens: a recursive schema may be cut by it"
            raise ProgramError(f"the call {shown(text)} is not whole", hint) from None
        name, call_id = written[form.name_key], str(written.get(form.id_key, ""))
        tool = next(tool for tool in self.tools if tool.name == name)
        return ToolCall(name, written[form.arguments_key], tool, call_id, said + form.open + text)


def tool_use(tools: Any, choice: str, parallel: bool) -> ToolUse:
    """Checks the arguments of `gen`. OptionError."""
    known = as_tools(tools)
    names = [tool.name for tool in known]
    if choice not in ("auto", "required"):
        if choice not in names:
            hint = nearest(str(choice), ["auto", "required", *names])
            raise OptionError(f"tool_choice={choice!r} is not known", hint)
        known = tuple(tool for tool in known if tool.name == choice)
    return ToolUse(known, choice == "auto", parallel)


def as_tools(tools: Any) -> tuple[Tool, ...]:
    """Functions and `Tool`s as tools. OptionError."""
    if callable(tools) or not isinstance(tools, Iterable):
        raise OptionError(f"tools={shown(tools)} is no list", "give a list of functions")
    known = tuple(tool if isinstance(tool, Tool) else _tool(tool) for tool in tools)
    names = [tool.name for tool in known]
    if not known:
        raise OptionError("tools=[] leaves nothing to call", "give one function or more")
    if repeated := next((name for name in names if names.count(name) > 1), None):
        hint = "each name once: Tool(func, name=...)"
        raise OptionError(f"two tools are named {repeated!r}", hint)
    return known


def _no_function(tool: Any) -> OptionError:
    message = f"{caller()}: the tool {shown(tool)} is no function"
    return OptionError(message, "give a function, or a Tool of one")


@lru_cache(maxsize=256)
def _cached_tool(func: Callable[..., Any]) -> Tool:
    return Tool(func)


def _tool(func: Any) -> Tool:
    if not callable(func):
        raise _no_function(func)
    return _cached_tool(func) if isinstance(func, Hashable) else Tool(func)


def result_text(value: Any) -> str:
    """What a tool returned, as the model reads it: text as it is, all else as JSON."""
    if inspect.iscoroutine(value):
        value.close()
        message = f"{caller()}: the result of an async tool was not awaited"
        raise ProgramError(message, "await it, in a program that is an async def")
    if isinstance(value, str):
        return value
    try:
        return to_json(value, fallback=str).decode()
    except ValueError:  # bytes that are no UTF-8, or a list in itself
        return str(value)


def error_text(error: Exception) -> str:
    """What a tool raised, as the model reads it."""
    if isinstance(error, ValidationError):
        places = [(".".join(map(str, e["loc"])), e["msg"]) for e in error.errors()]
        return "Error: " + "; ".join(f"{place}: {what}" for place, what in places)
    return f"Error: {type(error).__name__}: {error}"


@lru_cache(maxsize=256)
def calls_schema(tools: tuple[Tool, ...], form: ToolFormat) -> str:
    """The JSON schema of one call of any of `tools`, as JSON text."""
    cases = []
    for tool in tools:
        own = {form.name_key: {"const": tool.name}, form.arguments_key: _at(tool)}
        properties = {key: own.get(key, written) for key, written in form.members()}
        cases.append(
            {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            }
        )
    definitions = {tool.name: tool.parameters(f"#/$defs/{tool.name}/$defs") for tool in tools}
    return json.dumps({"anyOf": cases, "$defs": definitions}, ensure_ascii=False)


def _at(tool: Tool) -> dict[str, str]:
    return {"$ref": f"#/$defs/{tool.name}"}


def _arguments_model(func: Callable[..., Any], name: str, doc: str) -> type[BaseModel]:
    """The arguments of `func` as a model. Fields have made-up names, the arguments' are aliases: a
    model's own words, such as `copy`, are arguments like others."""
    try:
        signature = inspect.signature(func)
    except ValueError as error:  # of a function written in C
        message = f"the tool {name} does not say its arguments: {error}"
        raise OptionError(message, f"write one that calls it: def {name}(...)") from error
    try:
        hints = typing.get_type_hints(func, include_extras=True)
    except Exception as error:  # whatever evaluating an annotation raises
        message = f"the type hints of the tool {name} cannot be read: {error}"
        raise OptionError(message, "import what they name") from error
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(signature.parameters.values()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            message = f"the tool {name} takes {parameter}, which a schema cannot say"
            raise OptionError(message, "give each argument a name of its own")
        if parameter.name not in hints:
            message = f"the argument {parameter.name!r} of the tool {name} has no type hint"
            raise OptionError(message, f"write {parameter.name}: str, or whatever it is")
        default = ... if parameter.default is _NO_VALUE else parameter.default
        about = _about(parameter.name, doc)
        fields[f"argument_{number}"] = (
            hints[parameter.name],
            Field(default, alias=parameter.name, description=about),
        )
    try:
        model: type[BaseModel] = create_model(name, __config__=_STRICT, **fields)
        model.model_json_schema()
    except Exception as error:  # pydantic's own kinds of error
        message = f"the arguments of the tool {name} have no JSON schema: {error}"
        raise OptionError(message, "use types that JSON can write") from error
    return model


_STRICT = ConfigDict(extra="forbid")
_SECTION = re.compile(r"\n\s*(?:(?:Args|Arguments|Parameters|Returns|Raises)\s*:|:\w+[^:\n]*:)")


def _summary(doc: str) -> str:
    """The docstring before its sections."""
    return _SECTION.split("\n" + doc, maxsplit=1)[0].strip()


def _about(argument: str, doc: str) -> str | None:
    """What the docstring says of an argument, on its line."""
    line = rf"^\s*(?::param\s+(?:\w+\s+)?)?{re.escape(argument)}\s*(?:\([^)]*\))?\s*:\s*(\S.*)$"
    found = re.search(line, doc, re.MULTILINE)
    return found[1].strip() if found else None


def _without_titles(schema: Any) -> Any:
    """Without the titles that pydantic makes of names: the model reads the names already."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    # An argument may be called so: then it is a schema.
    kept = {k: value for k, value in schema.items() if k != "title" or isinstance(value, dict)}
    return {
        key: value if key in ("default", "const", "enum") else _without_titles(value)
        for key, value in kept.items()
    }
