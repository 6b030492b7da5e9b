"""How a held-out question is put to the model: sgnb programs that take a `case` and a `stop` and give the answer."""

from __future__ import annotations

from typing import Any

import sgnb as sgl

MAX_NEW_TOKENS = 160


@sgl.function
def complete(s: Any, case: Any, stop: str) -> str:
    """The likeliest continuation, or the likeliest choice where the case has some."""
    s += case.prompt
    if case.choices:
        s += sgl.select("answer", [f" {choice}" for choice in case.choices])
    else:
        s += sgl.gen("answer", max_tokens=MAX_NEW_TOKENS, stop=stop or None)
    return str(s["answer"])
