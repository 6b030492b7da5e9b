"""Sampling parameters of requests outside an engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from sgnb.engine.request.request import Request
from sgnb.engine.request.request_state import RequestState
from sgnb.engine.request.step_builder import _adjustment, _sampling_input
from sgnb.engine.step_input import Adjustment, SamplingInput


def sampling_rows(
    requests: Sequence[Request], draws: NDArray[np.float64], banned: Collection[int] = ()
) -> SamplingInput:
    """Return the parameters of a row per request, with these draws and banned tokens."""
    for request in requests:
        RequestState(request, None, frozenset(), lambda output: None)
    rows = _sampling_input(requests)._replace(draws=draws)

    def adjustment(request: Request) -> Callable[[], Adjustment]:
        tokens = np.array(sorted(banned), np.int64)
        return lambda: _adjustment(request.state)._replace(banned=tokens)

    if banned:
        rows = rows._replace(adjustments={i: adjustment(r) for i, r in enumerate(requests)})
    return rows
