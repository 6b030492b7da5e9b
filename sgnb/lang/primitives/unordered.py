"""Primitive: parts of a prompt whose order is irrelevant. Returns an expression without side
effects."""

from __future__ import annotations

from typing import Any

from ...errors import OptionError, ProgramError, shown
from ..ir import MediaExpr, Part, PartSet, Text, UnreadMedia, noun_of, parts
from ..location import caller


def unordered(*items: Any, separator: str | Text = "\n\n", name: str | None = None) -> PartSet:
    """Append parts in the order with the longest cached prefix.

    Use for documents, examples or tools whose order does not matter: the model then computes fewer
    tokens. The text of each part is unchanged, and the answer is exact for the chosen order.

    Args:
        items: Texts, or expressions of texts, images, videos and sounds.
        separator: Text between the parts.
        name: Variable of the order: a list of the indices of the parts, in the order of the text.

    Returns:
        The expression, to be appended to a state.

    Raises:
        OptionError: An argument is invalid.
        ProgramError: A part has a generation or a role.

    Example:
        s += user(unordered(*documents, name="order") + "\\n\\n" + question)
        s += assistant(gen("answer"))
        first = documents[s["order"][0]]
    """
    if name is not None and not (isinstance(name, str) and name):
        message = f"{caller()}: name={shown(name)} is not a name"
        raise OptionError(message, "a name is a non-empty string")
    if not isinstance(separator, str | Text):
        message = f"{caller()}: separator={shown(separator)} is not a text"
        raise OptionError(message, 'give a string, such as separator="\\n"')
    for item in items:
        if isinstance(item, list | tuple):
            message = f"{caller()}: a part of unordered() is {shown(item)}"
            raise OptionError(message, "give each part as an argument: unordered(*documents)")

    return PartSet(
        parts=tuple(tuple(map(_checked, parts(item))) for item in items),
        separator=separator if isinstance(separator, Text) else Text(separator),
        name=name,
        location=caller(),
    )


def _checked(node: Any) -> Part:
    if isinstance(node, Text | MediaExpr | UnreadMedia):
        return node
    message = f"{caller()}: unordered() has a part with {noun_of(node)}"
    raise ProgramError(message, "a part holds texts and images; append other expressions after it")
