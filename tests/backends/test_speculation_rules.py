"""Speculation changes what is asked, not what is answered: any program on any model whose text is a
function of the text so far."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sgnb as sgl
from sgnb.backends.api import ApiExecutor
from sgnb.backends.api.endpoint import CompletionRequest, CompletionResponse, Sample, Tokens
from sgnb.backends.api.transport import Secrets
from sgnb.lang.chat import PLAIN
from sgnb.lang.executor import ChoiceScore, ScoreCall

ALPHABET = "ab:\n"
END = ""


class Model:
    """An `Endpoint` that writes a character at a time, each a function of the text before: it keeps
    to a `script` while the text does, and rambles elsewhere. A character is a token."""

    model, chat = "letters", PLAIN
    is_chat = continues = samples = scores = declares_tools = native_tools = False
    media_tokens: Mapping[str, str] = MappingProxyType({})
    enforces: frozenset[str] = frozenset()
    secrets = Secrets(())

    def __init__(self, script: str) -> None:
        self.script = script
        self.asked: list[CompletionRequest] = []

    def next(self, text: str) -> str:
        if self.script.startswith(text):
            return self.script[len(text) : len(text) + 1] or END
        return random.Random(text[-4:]).choice([*ALPHABET, END])

    def check(self, params: Any, location: Any) -> None:
        """It takes everything."""

    async def complete(
        self, request: CompletionRequest, on_text: Callable[[str], None]
    ) -> CompletionResponse:
        self.asked.append(request)
        text, finish = "", "length"
        while len(text) < request.params.max_new_tokens:
            letter = self.next(request.prompt + text)
            if letter == END:
                finish = "stop"
                break
            text += letter
            if request.stream:
                on_text(letter)
            if any(text.endswith(stop) for stop in request.params.stop):
                finish = "stop"
                break
        sample = Sample(text, finish)
        return CompletionResponse((sample,), Tokens(len(request.prompt), 0, len(text)))

    async def score(self, call: ScoreCall) -> tuple[tuple[ChoiceScore, ...], Tokens] | None:
        return None

    async def info(self) -> dict[str, Any]:
        return {}

    async def flush_cache(self) -> None:
        """It has none."""

    async def close(self) -> None:
        """It has nothing to close."""


TEXT = st.text(ALPHABET, max_size=6)
STOPS = st.lists(st.text(ALPHABET, min_size=1, max_size=2), max_size=2, unique=True)
FIELD = st.tuples(TEXT, TEXT, STOPS, st.integers(1, 24))
"""A constant, what the script has after it, the generation's stops and limit."""


@pytest.fixture(scope="module")
def make():  # type: ignore[no-untyped-def]
    model = Model("")
    executor = ApiExecutor(model)

    def one(script: str) -> ApiExecutor:
        model.script, model.asked = script, []
        return executor

    yield one
    executor.close()


@pytest.mark.slow
@given(
    fields=st.lists(FIELD, min_size=1, max_size=4),
    after=TEXT,
    tokens=st.integers(1, 40),
    stream=st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_the_text_is_the_same(make, fields, after, tokens, stream) -> None:  # type: ignore[no-untyped-def]
    def program(s):  # type: ignore[no-untyped-def]
        stop = ""
        for i, (constant, _, stops, limit) in enumerate(fields):
            s += stop + constant + sgl.gen(f"field{i}", stop=stops, max_tokens=limit)
            stop = stops[0] if stops else ""

    pieces = (constant + value + "".join(stops[:1]) for constant, value, stops, _ in fields)
    model = make("".join(pieces) + after)
    alone = sgl.function(program).run(backend=model, temperature=0)
    expected = alone.text()
    model.endpoint.asked.clear()
    state = sgl.function(program, num_api_spec_tokens=tokens).run(
        backend=model, temperature=0, stream=stream
    )
    for i in range(len(fields)):
        assert state[f"field{i}"] == alone[f"field{i}"]
        if stream:
            assert "".join(state.text_iter(f"field{i}")) == state[f"field{i}"]
    assert state.text() == expected
