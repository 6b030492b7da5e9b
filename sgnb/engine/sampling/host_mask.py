"""Token masks of grammars that the host follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from ..device.transfer import to_device
from ..step_input import RowMask
from .torch_sampler import TokenMask


def host_mask(
    masks: Mapping[int, Callable[[], RowMask]], columns: int, device: torch.device
) -> TokenMask | None:
    """Return the masks of rows as a tensor, or None without rows. Does not wait for the device.

    Args:
        masks: Function that computes the mask, by row. A row whose function raises allows no token:
            its request fails when the step is read, other requests continue.
        columns: Columns of the logits. Tokens outside the vocabulary are forbidden.
        device: Device of the result.
    """
    if not masks:
        return None
    host = torch.zeros(len(masks), columns, dtype=torch.bool, pin_memory=device.type == "cuda")
    for line, row_mask in zip(host.numpy(), masks.values(), strict=True):
        try:
            allowed, stop_tokens, may_end = row_mask()
        except BaseException:
            continue
        size = min(columns, len(allowed))
        line[:size] = allowed[:size]
        line[stop_tokens] = may_end
    return TokenMask(to_device(list(masks), device), host.to(device, non_blocking=True))
