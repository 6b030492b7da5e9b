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


def host_mask(lives: Mapping[int, RequestState], columns: int, device: torch.device) -> Mask | None:
    """The masks of rows whose grammars bind, by row, for logits with so many columns; None without
    a row.

    A row may come out with no token at all; `explain` says why. Waits for no device.
    """
    if not lives:
        return None
    host = torch.zeros(len(lives), columns, dtype=torch.bool, pin_memory=device.type == "cuda")
    for line, live in zip(host.numpy(), lives.values(), strict=True):
        _fill(line, live)
    return Mask(to_device(list(lives), device), host.to(device, non_blocking=True))


def explain(live: RequestState) -> GrammarError:
    """Why the mask of a request left no token."""
    assert live.constraint is not None
    try:
        live.constraint.allowed_tokens()
    except GrammarError as error:
        return error
    return GrammarError(
        f"the grammar allows only tokens that stop the text, after {bytes(live.constraint.data[-40:])!r}, "
        "and it may not end there",
        "leave out stop_token_ids or min_new_tokens, or let the grammar end there",
    )


def _fill(line: NDArray[np.bool_], live: RequestState) -> None:
    """One row: the grammar's tokens, and the ends of sequence where the text may end."""
    assert live.constraint is not None
    try:
        allowed = live.constraint.allowed_tokens()
    except (
        GrammarError
    ):  # the row has no token: its request fails when the step is read, the others go on
        return
    size = min(len(line), len(allowed))
    line[:size] = allowed[:size]
    line[list(live.stop_tokens)] = live.constraint.may_end and not live.banned
