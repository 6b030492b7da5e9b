"""The order in which a compiled batch starts its rows."""

from __future__ import annotations

from typing import Any

import sgnb as sgl
from sgnb.lang import function

from .fake import FakeExecutor


def test_rows_that_begin_alike_begin_next_to_one_another() -> None:
    @function
    def ask(s: Any, question: str, text: str) -> None:
        s += text + "\nQ: " + question + "\nA:" + sgl.gen("answer")

    executor = FakeExecutor()
    rows = [(question, text) for question in ("who?", "why?", "how?") for text in ("b", "a", "c")]
    states = ask.compile().run_batch(rows, backend=executor)
    begun = [call.prompt[0] for call in executor.calls]
    assert begun == [*"bbbaaaccc"]
    assert [state.text()[: state.text().index("?") + 1] for state in states] == [
        f"{text}\nQ: {question}" for question, text in rows
    ]
    executor.calls.clear()
    list(ask.compile().run_batch(rows, backend=executor, generator_style=True))
    assert [call.prompt[0] for call in executor.calls] == [*"bacbacbac"]
