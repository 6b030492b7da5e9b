"""Grammars that the host walks: which tokens each row may choose. Knows no sampler and no other way
to a mask."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import GrammarError
from ..device.transfer import to_device
from ..request.request_state import RequestState
from .torch_sampler import Mask


def host_mask(
    states: Mapping[int, RequestState], columns: int, device: torch.device
) -> Mask | None:
    """The masks of rows whose grammars bind, by row, for logits with `columns` columns; None
    without a row.

    A row may come out with no token at all; `explain` says why. Waits for no device.
    """
    if not states:
        return None
    host = torch.zeros(len(states), columns, dtype=torch.bool, pin_memory=device.type == "cuda")
    for line, state in zip(host.numpy(), states.values(), strict=True):
        assert state.constraint is not None
        try:
            allowed = state.constraint.allowed_tokens()
        except BaseException:  # no token: the request fails when the step is read, the others go on
            continue
        _fill(line, state, allowed, state.constraint.may_end)
    return Mask(to_device(list(states), device), host.to(device, non_blocking=True))


def tail_mask(
    state: RequestState, first: int, count: int, columns: int, device: torch.device
) -> Mask:
    """The masks of `count` tokens of the constraint's tail from `first` on, a row for each."""
    constraint = state.constraint
    assert constraint is not None
    host = torch.zeros(count, columns, dtype=torch.bool, pin_memory=device.type == "cuda")
    for line, index in zip(host.numpy(), range(first, first + count), strict=True):
        _fill(line, state, constraint.allowed_in_tail(index), constraint.tail[index].may_end)
    return Mask(torch.arange(count, device=device), host.to(device, non_blocking=True))


def explain(state: RequestState) -> BaseException:
    """Why the mask of a request left no token, or none that has a probability."""
    assert state.constraint is not None
    try:
        allowed = state.constraint.allowed_tokens()
    except BaseException as error:
        return error
    ends = [token for token in state.stop_tokens if token < len(allowed)]
    if np.delete(allowed, ends).any():
        return GrammarError(
            "no token that the grammar allows is left by the model and by logit_bias",
            "let logit_bias spare what the grammar needs",
        )
    return GrammarError(
        "the grammar allows only tokens that stop the text, after "
        f"{bytes(state.constraint.data[-40:])!r}, and it may not end there",
        "leave out stop_token_ids or min_new_tokens, or let the grammar end there",
    )


def _fill(
    line: NDArray[np.bool_], state: RequestState, allowed: NDArray[np.bool_], may_end: bool
) -> None:
    """One row: the grammar's tokens, and the ends of sequence where the text may end."""
    size = min(len(line), len(allowed))
    line[:size] = allowed[:size]
    line[list(state.stop_tokens)] = may_end and not state.banned
