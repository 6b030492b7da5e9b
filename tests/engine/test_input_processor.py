"""Prompts as lists, which are read the fast way, against the same prompts as tuples, which are
not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sgnb.engine.request.input_processor import InputProcessor
from sgnb.errors import RequestError

VOCAB = 1000
PROCESSOR = InputProcessor("model", None, VOCAB, 64, 64)


def taken(prompt: Any) -> Any:
    """The tokens, or the error's words."""
    try:
        (tokens,) = PROCESSOR.tokens([prompt])
    except RequestError as error:
        return str(error).splitlines()[0].rpartition(" is ")[2]
    assert tokens.dtype == np.int32
    return tokens.tolist()


@pytest.mark.parametrize(
    "prompt",
    [
        [0, 1, VOCAB - 1],
        [np.int64(5), 7],
        [True, 2],
        [3.7, 2],
        [],
        [5, VOCAB],
        [5, -1],
        [5, 2**31],
        [5, 2**40],
        [-(2**70), 3],
        ["a", 3],
        [[1], [2]],
        [None],
        [np.array([1, 2]), np.array([3, 4])],
    ],
)
def test_lists_are_read_as_other_sequences(prompt: list[Any]) -> None:
    assert taken(prompt) == taken(tuple(prompt))


@pytest.mark.parametrize("number", [3.7, 3.0, "3", np.float32(3)])
def test_what_is_no_integer_is_no_token(number: Any) -> None:
    for prompt in ([number, 2], (number, 2), np.array([3.0, 2.0])):
        assert taken(prompt) == "not a prompt"


def test_a_list_may_change_afterwards() -> None:
    prompt = [1, 2, 3]
    (tokens,) = PROCESSOR.tokens([prompt])
    prompt[0] = 9
    assert tokens.tolist() == [1, 2, 3]
