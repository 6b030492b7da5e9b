"""Grammars on a step's logits: which tokens each row may choose, and what the mask took away."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import GrammarError
from .live import Live


class Masks(NamedTuple):
    """By row. `left`: how many tokens the grammar left, and the natural logarithm of their probability. `errors`: rows
    that may choose nothing, and why; what is sampled there has no meaning."""

    left: dict[int, tuple[int, float]]
    errors: dict[int, GrammarError]


def mask(lives: list[Live], logits: Tensor, logprobs: Tensor) -> Masks:
    """Set to -inf, in place, the logits that the rows' grammars forbid.

    lives[i] belongs to row i of logits and logprobs, float [rows, vocab].
    """
    rows = [i for i, live in enumerate(lives) if live.constraint is not None and live.constraint.binds]
    if not rows:
        return Masks({}, {})
    errors: dict[int, GrammarError] = {}
    allowed = np.zeros((len(rows), logits.shape[1]), np.bool_)
    for line, row in zip(allowed, rows, strict=True):
        try:
            _fill(line, lives[row])
        except GrammarError as error:
            errors[row] = error
            line[0] = True
    forbidden = torch.from_numpy(~allowed).to(logits.device)
    index = torch.tensor(rows, device=logits.device)
    logits[index] = logits[index].masked_fill_(forbidden, -torch.inf)
    kept = logprobs[index].masked_fill_(forbidden, -torch.inf).logsumexp(-1).tolist()
    counts = allowed.sum(1).tolist()
    return Masks(dict(zip(rows, zip(counts, kept, strict=True), strict=True)), errors)


def _fill(line: NDArray[np.bool_], live: Live) -> None:
    """One row: the grammar's tokens, and the ends of sequence where the text may end."""
    assert live.constraint is not None
    allowed = live.constraint.allowed()
    size = min(len(line), len(allowed))
    line[:size] = allowed[:size]
    line[list(live.stop_tokens)] = live.constraint.may_end and not live.banned
    if not line.any():
        raise GrammarError(
            f"the grammar allows only tokens that stop the text, after {bytes(live.constraint.data[-40:])!r}, "
            "and it may not end there",
            "leave out stop_token_ids or min_new_tokens, or let the grammar end there",
        )
