"""Collective operations of all ranks: NCCL between GPUs, gloo on a CPU.

The process groups are separate from torch's default group: the default group belongs to the user.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ...errors import ModelError

TIMEOUT = timedelta(minutes=5)
"""Maximum wait for all ranks in an operation. Exceeded only if a rank hangs: an ended rank is
reported at once."""

POLL_SECONDS = 0.02
"""Time between two looks for the other ranks. Torch's own wait would hold back an interrupt."""

_ASYNC_ERRORS = "TORCH_NCCL_ASYNC_ERROR_HANDLING"


class PeerLostError(RuntimeError):
    """A collective operation failed because another rank ended or hangs."""


class RankGroup:
    """Process group of `size` ranks. All ranks call the methods in the same order.

    Operations on a GPU are asynchronous, on the current stream. Implements `fusion.Ranks`.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        store: str,
        device: torch.device,
        nccl: bool,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        """Wait for all ranks.

        Args:
            rank: Number of this process, from 0.
            size: Number of ranks.
            store: File for the addresses of the ranks, in a folder of this user alone.
            device: Device of the tensors.
            nccl: Use NCCL; requires a GPU per rank.
            check: Raises the error of a lost rank. Called again and again until all ranks are here.
        """
        self.rank, self.size, self._device = rank, size, device
        files = dist.FileStore(store, size)
        files.set(f"here/{rank}", "")
        everyone = [f"here/{each}" for each in range(size)]
        while not files.check(everyone):
            check()
            time.sleep(POLL_SECONDS)

        self._group: Any = (_nccl if nccl else _gloo)(files, rank, size)

        self._sum, self._largest, self._smallest = (
            _reduction(op) for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN)
        )

        self._from_first = dist.BroadcastOptions()
        self._from_first.rootRank = self._from_first.rootTensor = 0
        self.smallest(0)  # connects all ranks

    def reduce(self, x: Tensor) -> Tensor:
        """Replace `x`, contiguous, by the sum of all ranks; return `x`."""
        self._run("allreduce", x, self._sum)
        return x

    def broadcast(self, x: Tensor) -> None:
        """Replace `x`, contiguous, by the tensor of rank 0."""
        self._run("broadcast", x, self._from_first)

    def largest(self, value: float) -> float:
        return float(self._scalar(value, torch.float64, self._largest))

    def smallest(self, value: int) -> int:
        return int(self._scalar(value, torch.int64, self._smallest))

    def abort(self) -> None:
        """End the wait of operations for a lost rank. Call from any thread."""
        group = self._group
        if group is not None:
            group.abort()

    def close(self) -> None:
        """Release the connections. The group is unusable afterwards."""
        self._group = None

    def _scalar(self, value: float, dtype: torch.dtype, options: Any) -> float:
        tensor = torch.tensor([value], dtype=dtype, device=self._device)
        self._run("allreduce", tensor, options)
        return tensor.item()

    def _run(self, operation: str, x: Tensor, options: Any) -> None:
        try:
            getattr(self._group, operation)([x], options).wait()
        except RuntimeError as error:
            raise PeerLostError(str(error)) from error


def _reduction(op: Any) -> Any:
    options = dist.AllreduceOptions()
    options.reduceOp = op
    return options


def _gloo(store: Any, rank: int, size: int) -> Any:
    """Return a group on the loopback interface, closed to remote machines."""
    gloo: Any = dist.ProcessGroupGloo
    options = gloo._Options()
    options._devices = [gloo.create_device(hostname="127.0.0.1")]
    options._timeout = TIMEOUT
    return gloo(store, rank, size, options)


def _nccl(store: Any, rank: int, size: int) -> Any:
    """Return a group with failures that abort operations only: the process may be the notebook's
    kernel."""
    before = os.environ.get(_ASYNC_ERRORS)
    os.environ[_ASYNC_ERRORS] = "2"
    try:
        nccl: Any = dist.ProcessGroupNCCL
        options = nccl.Options()
        options._timeout = TIMEOUT
        return nccl(store, rank, size, options)
    finally:
        if before is None:
            del os.environ[_ASYNC_ERRORS]
        else:
            os.environ[_ASYNC_ERRORS] = before


def rank_devices(first: torch.device, size: int) -> list[str]:
    """Return the device of each rank: the CPU for all, or consecutive GPUs from `first` on.

    Raises:
        ModelError: There are too few GPUs.
    """
    if first.type == "cpu":
        return ["cpu"] * size
    count, begin = torch.cuda.device_count(), first.index or 0
    if begin + size > count:
        raise ModelError(
            f"tensor_parallel={size} needs {size} GPUs from {first} on; torch finds {count} in all",
            "load with a smaller tensor_parallel",
        )
    return [f"cuda:{begin + rank}" for rank in range(size)]
