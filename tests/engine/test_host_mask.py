"""Masks from grammars that the host walks: which rows, which tokens, and why there are none."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from sgnb.engine.loop.step_output import explain
from sgnb.engine.request.step_builder import _row_mask
from sgnb.engine.sampling.host_mask import host_mask
from sgnb.engine.sampling.torch_sampler import TokenMask
from sgnb.errors import GrammarError

CPU = torch.device("cpu")


class Grammar:
    """A constraint that allows the given tokens of a vocabulary of six."""

    data = b"so far"

    def __init__(self, tokens: list[int], may_end: bool = False) -> None:
        self.tokens, self.may_end = tokens, may_end

    def allowed_tokens(self) -> np.ndarray:
        if not self.tokens and not self.may_end:
            raise GrammarError("no token can follow", "hint")
        return np.isin(np.arange(6), self.tokens)


def state(tokens: list[int], may_end: bool = False, banned: tuple[int, ...] = ()) -> Any:
    return SimpleNamespace(
        constraint=Grammar(tokens, may_end), stop_tokens={5}, banned=frozenset(banned)
    )


def masks(states: dict[int, Any], columns: int) -> TokenMask | None:
    return host_mask({row: partial(_row_mask, each) for row, each in states.items()}, columns, CPU)


def test_masks_have_the_columns_of_the_logits() -> None:
    """Columns beyond the vocabulary are forbidden, and logits may have fewer."""
    mask = masks({2: state([0, 3]), 7: state([1])}, 8)
    assert mask is not None and mask.rows.tolist() == [2, 7] and mask.allowed.dtype == torch.bool
    assert mask.allowed.nonzero().tolist() == [[0, 0], [0, 3], [1, 1]]
    mask = masks({0: state([0, 3])}, 6)
    assert mask is not None and mask.allowed.tolist() == [[True, False, False, True, False, False]]
    assert masks({}, 8) is None


def test_ends_of_sequence() -> None:
    """Allowed where the text may end and the request may stop, whatever the grammar says about
    their bytes."""
    states = [
        state([0], may_end=True),
        state([0, 5]),
        state([0], may_end=True, banned=(5,)),
        state([], may_end=True),
    ]
    mask = masks(dict(enumerate(states)), 6)
    assert mask is not None
    assert [np.flatnonzero(row).tolist() for row in mask.allowed] == [[0, 5], [0], [0], [5]]


def test_rows_without_a_token() -> None:
    """One grammar that cannot go on keeps nobody else from it; why it cannot is told when it is
    asked."""
    stuck, stopped = state([]), state([5])
    mask = masks({0: stuck, 1: state([2]), 2: stopped}, 6)
    assert mask is not None and mask.allowed.sum(1).tolist() == [0, 1, 0]
    assert "no token can follow" in str(explain(stuck))
    assert "only stop tokens" in str(explain(stopped)) and "so far" in str(explain(stopped))
