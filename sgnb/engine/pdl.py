"""Programmatic dependent launch (PDL): a kernel's programs take their places while the kernel before it ends.

For GPUs from Hopper on. A kernel with a constexpr `PDL` calls `await_previous` before it reads or writes anything: then
whatever ran before on the stream has ended. Needs triton.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

HOPPER = (9, 0)

ROWS = 1
"""Steps of up to so many rows gain: 2.4 % of Llama-8B's on an H200. In larger ones programs that come early find places
on some processors only, and kernels with about as many programs as there are places then wait for these: a quarter was
lost at 4 rows, and 1.3 % at 256."""


def pdl(device: torch.device, rows: int) -> dict[str, Any]:
    """Arguments for launching a kernel that has `PDL` in a step of so many rows."""
    if rows <= ROWS and _is_possible(device):
        return {"PDL": True, "launch_pdl": True}
    return {"PDL": False}


@cache
def _is_possible(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= HOPPER


@triton.jit
def await_previous(PDL: tl.constexpr) -> None:
    """Let the next kernel come as soon as all programs of this one have their places, and wait for the one before.

    Every program must come here: the next kernel relies on it that when this one has ended, so has the one before.
    """
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
