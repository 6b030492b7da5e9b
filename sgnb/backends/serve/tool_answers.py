"""Answers with calls of a client's tools. The client runs the calls."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import lru_cache
from typing import Any

from ...engine.request.output import Output
from ...errors import GrammarError, OptionError, RequestError, shown
from ...grammar.compiler import compile_spec
from ...grammar.spec import GrammarSpec, schema_text
from ...lang.chat import ChatTemplate
from ...lang.chat.tools import Tool, ToolCall, ToolUse, tool_use
from ...sampling import SamplingParams
from ...segment import Segment
from ..any_engine import AnyEngine
from ..output_segments import made_segments
from .answer_format import finish_reason
from .bodies import ChatBody, Function

LITERAL_KEYS = ("const", "enum", "default", "examples")
"""Keys of a schema whose values are no schemas."""

NAMING_KEYS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keys of a schema whose values are schemas by name."""


class ClientTool(Tool):
    """A tool that the client declared, and runs.

    Args:
        function: Name, description and schema.

    Raises:
        OptionError: The name is invalid, or the parameters are no object.
        GrammarError: The schema is invalid, unsupported, or matches no value.
    """

    def __init__(self, function: Function) -> None:
        super().__init__(_run_by_the_client, function.name, function.description)
        parameters = function.parameters or {"additionalProperties": False}
        self._parameters = {"type": "object"} | parameters  # arguments are an object
        if (kind := self._parameters["type"]) != "object":
            message = f"the parameters of tool {function.name!r} have the type {shown(kind)}"
            raise OptionError(message, "declare an object with a property per parameter")
        try:
            _check(schema_text(self._parameters))
        except GrammarError as error:
            message = f"the parameters of tool {function.name!r}: {error.message}"
            raise GrammarError(message, error.hint) from error

    def parameters(self, definitions: str = "#/$defs") -> dict[str, Any]:
        """Return the schema, with references that begin at the parent of `definitions`."""
        moved: dict[str, Any] = _moved(self._parameters, definitions.removesuffix("/$defs"))
        return moved


def _run_by_the_client() -> None:
    """Represent the client's function, which is never called here."""


@lru_cache(maxsize=256)
def _check(schema: str) -> None:
    """Compile a schema; the error of a call would come after the free text of an answer."""
    compile_spec(GrammarSpec("json_schema", schema))


def _moved(schema: Any, root: str) -> Any:
    """Return a schema with local pointers below `root`. Anchors stay."""
    if isinstance(schema, list):
        return [_moved(item, root) for item in schema]
    if not isinstance(schema, dict):
        return schema

    moved: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str) and (value == "#" or value[:2] == "#/"):
            moved[key] = root + value[1:]
        elif key in NAMING_KEYS and isinstance(value, dict):
            moved[key] = {name: _moved(each, root) for name, each in value.items()}
        else:
            moved[key] = value if key in LITERAL_KEYS else _moved(value, root)
    return moved


def requested_tools(body: ChatBody) -> tuple[tuple[Tool, ...], ToolUse | None]:
    """Return the tools to declare, and the use in the answer; nothing for `tool_choice="none"`.

    Raises:
        OptionError: A tool is invalid or repeated, or `tool_choice` names no tool.
        GrammarError: A schema is invalid, unsupported, or matches no value.
        RequestError: Several samples or log-probabilities with tools, or a choice without tools.
    """
    if body.tool_choice == "none" or (body.tools is None and body.tool_choice == "auto"):
        return (), None
    if body.tools is None:
        raise RequestError(
            "tool_choice asks for a call, and the request has no tools", "send tools"
        )
    if body.n not in (None, 1) or body.logprobs:
        message = "an answer with tools has one sample, without log-probabilities"
        raise RequestError(message, "use n=1 and logprobs=false")
    tools = tuple(ClientTool(each.function) for each in body.tools)
    choice = body.tool_choice
    name = choice if isinstance(choice, str) else choice.function.name
    return tools, tool_use(tools, name, body.parallel_tool_calls)


class ToolAnswer:
    """An answer in steps: free text, then calls.

    Args:
        engine: The engine.
        chat: The model's template, with the declared tools.
        use: Tools of the answer.
        special_tokens: Matches special tokens.

    Attributes:
        outputs: Outputs of the steps.
        text: Text before the calls, or the whole answer.
        calls: The calls, after the end of `write`.
    """

    def __init__(
        self,
        engine: AnyEngine,
        chat: ChatTemplate,
        use: ToolUse,
        special_tokens: re.Pattern[str] | None,
    ) -> None:
        self.outputs: list[Output] = []
        self.text = ""
        self.calls: Sequence[ToolCall] = ()
        self._engine, self._form, self._use = engine, chat.tools, use
        self._special_tokens = special_tokens

    @property
    def finish_reason(self) -> str | None:
        """The finish reason in OpenAI's words."""
        return "tool_calls" if self.calls else finish_reason(self.outputs[-1])

    async def write(self, prompt: Sequence[Segment], params: SamplingParams) -> AsyncGenerator[str]:
        """Generate the answer, and yield the free text. The end of the generator ends the
        requests."""
        segments = list(prompt)
        steps = self._use.write(params, self._form, self._special_tokens)
        try:
            step = next(steps)
            while True:
                while isinstance(step, Segment):
                    segments.append(step)
                    step = next(steps)

                is_free = self._use.optional and not self.outputs
                tokens = await asyncio.to_thread(self._engine.encode, [segments])
                output = None
                stream = await self._engine.agenerate(tokens[0], step, stream=True)
                async with aclosing(stream):
                    async for output in stream:
                        if is_free and output.delta:
                            self.text += output.delta
                            yield output.delta

                assert output is not None  # a stream has a last output
                self.outputs.append(output)
                segments += made_segments(self._engine, output)
                step = steps.send((output.text, output.meta_info))
        except StopIteration as end:
            value, _meta = end.value

        if not isinstance(value, str):
            self.calls = value if isinstance(value, list) else [value]
