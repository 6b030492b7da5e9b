"""Place of the end of an unfinished JSON text, for error messages."""

from __future__ import annotations

import json
import re

_TOKEN = re.compile(r'(?s)"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\],:]')


def json_place(text: str) -> str:
    """Return the path of the value at the end of a text, such as `$.items[2].name`.

    Args:
        text: beginning of a JSON text.
    """
    path: list[str | int | None] = []  # per open structure: current name, or index in an array
    name = None

    for token in _TOKEN.findall(text):
        if token == "{":
            path.append(None)
        elif token == "[":
            path.append(0)
        elif token in "}]" and path:
            path.pop()
        elif token == "," and path:
            current = path[-1]
            path[-1] = current + 1 if isinstance(current, int) else None
        elif token == ":" and path:
            path[-1] = name
        elif token.startswith('"'):
            name = token

    return "$" + "".join(map(_step, path))


def _step(step: str | int | None) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if step is None:
        return ""
    try:
        name = json.loads(step)
    except ValueError:
        name = step
    return f".{name}" if name.isidentifier() else f"[{step}]"
