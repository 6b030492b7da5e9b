"""Completion inside the call of a program: `answer.run(` and Tab show the program's parameters.

IPython lists the parameters of a call among all names, in the order of the alphabet.
"""

from __future__ import annotations

import re
from inspect import Parameter, signature
from typing import Any, NamedTuple

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

from ..lang.primitives.program_method import BoundProgramMethod
from ..lang.runnable import Runnable

_TOKEN = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|\w+|[=!<>]=|\S")
_OPENING, _CLOSING = "([{", ")]}"
_NONE = SimpleMatcherResult(completions=[])


class UnfinishedCall(NamedTuple):
    """A call with the cursor at the beginning of an argument."""

    name: str  # variable of the program
    method: str  # "" for a call of the program itself
    keywords: set[str]  # arguments before the cursor
    num_positional: int = 0  # arguments before the cursor, without keywords


def unfinished_call(text: str) -> UnfinishedCall | None:
    """Return the innermost unclosed call of `text`, if the next character begins an argument
    of the call."""
    tokens = _TOKEN.findall(text)
    if not tokens or tokens[-1] not in ("(", ","):
        return None

    depth, num_commas, keywords = 0, 0, set[str]()
    for i in range(len(tokens) - 1, -1, -1):
        token = tokens[i]
        if token in _CLOSING:
            depth += 1
        elif token in _OPENING:
            depth -= 1
        elif token == "=" and depth == 0 and i and tokens[i - 1].isidentifier():
            keywords.add(tokens[i - 1])
        num_commas += token == "," and depth == 0
        if depth < 0:
            num_positional = num_commas - len(keywords)
            return _called(tokens[:i], keywords, num_positional) if token == "(" else None
    return None


def _called(tokens: list[str], keywords: set[str], num_positional: int) -> UnfinishedCall | None:
    """Return the call of a variable, or of a method of a variable, at the end of `tokens`."""
    match tokens:
        case [*before, name, ".", method] if name.isidentifier() and method.isidentifier():
            call = UnfinishedCall(name, method, keywords, num_positional)
        case [*before, name] if name.isidentifier():
            call = UnfinishedCall(name, "", keywords, num_positional)
        case _:
            return None
    return None if before[-1:] == ["."] else call


def parameters_of(call: UnfinishedCall, namespace: dict[str, Any]) -> list[str]:
    """Return the parameters that the call has not given yet, the program's parameters first.
    Empty for a call of anything else than a program."""
    program = namespace.get(call.name)
    if not isinstance(program, Runnable):
        return []

    method = getattr(program, call.method or "run", None)
    if not isinstance(method, BoundProgramMethod):
        return []

    parameters = signature(method).parameters.values()
    by_position = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    given = [p.name for p in parameters if p.kind in by_position][: call.num_positional]
    kinds = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
    names = [p.name for p in parameters if p.kind in kinds]
    return [name for name in names if name not in call.keywords and name not in given]


def program_matcher(namespace: dict[str, Any]) -> Any:
    """Return a matcher for IPython's completer.

    Args:
        namespace: Variables of the notebook.
    """

    @context_matcher()
    def program_parameters(context: CompletionContext) -> SimpleMatcherResult:
        lines = context.full_text.splitlines()[: context.cursor_line]
        call = unfinished_call("\n".join([*lines, context.text_until_cursor]))
        names = [] if call is None else parameters_of(call, namespace)
        if not names:
            return _NONE

        return SimpleMatcherResult(
            completions=[SimpleCompletion(f"{name}=", type="param") for name in names],
            matched_fragment="",
            ordered=True,
            suppress=True,  # of all other names, as long as no letter is typed
        )

    return program_parameters
