"""Parallel reader of file ranges into device tensors at disk or page-cache speed. Knows no models.

Threads read into pinned buffers while the GPU copies: host memory holds only the buffers. On a CPU,
threads read directly into the destination.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

import torch
from torch import Tensor

from .checkpoint import Entry
from .tensor_part import TensorPart

THREADS = 8
PIECE_BYTES = 16 << 20
BUFFERS = 2
SMALL_BYTES = 1 << 30
REDRAW_SECONDS = 0.2


class ReadCancellation(Exception):
    """The reader was cancelled."""


class TensorReader:
    """Reader of tensors to `device`; reports each piece to `progress.add`. Thread-safe. Close after
    use."""

    def __init__(
        self,
        device: torch.device,
        progress: Progress | None = None,
        *,
        threads: int = THREADS,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        self._device, self._progress, self._piece_bytes = device, progress, piece_bytes
        count = min(threads, os.cpu_count() or threads)
        self._pool = ThreadPoolExecutor(
            count, thread_name_prefix="sgnb-read", initializer=self._choose_device
        )
        self._own = threading.local()
        self._cancelled = False

    def read(self, entry: Entry) -> Tensor:
        """Return the tensor in the file's dtype. On a GPU, copies may be pending on the current
        stream.

        Raises OSError, and ReadCancellation after `cancel`.
        """
        target = torch.empty(entry.shape, dtype=entry.dtype, device=self._device)
        flat = target.view(-1).view(torch.uint8)
        for piece in self._pieces(entry.file, entry.start, flat):
            piece.result()
        return target

    def _pieces(self, file: Path, start: int, target: Tensor) -> list[Future[None]]:
        """Begin to read consecutive bytes."""
        size = self._piece_bytes
        return [
            self._pool.submit(self._piece, file, start + at, target[at : at + size])
            for at in range(0, len(target), size)
        ]

    def read_part(self, entry: Entry, part: TensorPart) -> Tensor:
        """Return a part of a tensor; see `read`. The tensor is seen as rows with byte ranges: long
        ranges are read alone, short ranges with the bytes in between, in blocks of rows."""
        target = torch.empty(part.shape(entry.shape), dtype=entry.dtype, device=self._device)
        rows = math.prod(entry.shape[: part.dim])
        row_bytes = entry.size // rows

        unit = row_bytes // entry.shape[part.dim]
        ranges = [(begin * unit, end * unit) for begin, end in part.ranges]
        targets = target.view(-1).view(torch.uint8).view(rows, -1)

        if rows == 1 or row_bytes > self._piece_bytes:
            pieces = []
            for row, row_target in enumerate(targets):
                at, start = 0, entry.start + row * row_bytes
                for begin, end in ranges:
                    columns = row_target[at : at + end - begin]
                    pieces += self._pieces(entry.file, start + begin, columns)
                    at += end - begin
        else:
            count = self._piece_bytes // row_bytes
            pieces = [
                self._pool.submit(
                    self._block, entry.file, entry.start + row * row_bytes, row_bytes, ranges,
                    targets[row : row + count],
                )
                for row in range(0, rows, count)
            ]  # fmt: skip

        for piece in pieces:
            piece.result()
        return target

    def cancel(self) -> None:
        """Make running and future reads raise ReadCancellation."""
        self._cancelled = True

    def check(self) -> None:
        """Raise ReadCancellation after `cancel`."""
        if self._cancelled:
            raise ReadCancellation("the reading was interrupted")

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _choose_device(self) -> None:
        """Select the device: pinning memory would otherwise open a context on the first GPU."""
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)

    def _piece(self, file: Path, start: int, target: Tensor) -> None:
        self.check()
        if target.is_cuda:
            buffer, event = self._next_buffer()
            event.synchronize()
            _read_into(file, start, buffer[: len(target)])
            target.copy_(buffer[: len(target)], non_blocking=True)
            event.record(torch.cuda.current_stream(self._device))
        else:
            _read_into(file, start, target)
        if self._progress is not None:
            self._progress.add(len(target))

    def _block(
        self,
        file: Path,
        start: int,
        row_bytes: int,
        ranges: list[tuple[int, int]],
        target: Tensor,
    ) -> None:
        """Read whole rows, and copy the ranges of each row to `target`, [rows, bytes]."""
        self.check()
        size = len(target) * row_bytes
        if target.is_cuda:
            buffer, event = self._next_buffer()
            event.synchronize()
            _read_into(file, start, buffer[:size])
            block = buffer[:size].to(target.device, non_blocking=True)
            event.record(torch.cuda.current_stream(self._device))
        else:
            block = torch.empty(size, dtype=torch.uint8)
            _read_into(file, start, block)
        columns = [block.view(-1, row_bytes)[:, begin:end] for begin, end in ranges]
        torch.cat(columns, 1, out=target)
        if self._progress is not None:
            self._progress.add(size)

    def _next_buffer(self) -> tuple[Tensor, Any]:
        """Return this thread's next pinned buffer with the event that permits overwriting."""
        own = self._own
        if not hasattr(own, "buffers"):
            memory = torch.empty(BUFFERS, self._piece_bytes, dtype=torch.uint8, pin_memory=True)
            own.buffers = itertools.cycle([(buffer, torch.cuda.Event()) for buffer in memory])
        buffer, event = next(own.buffers)
        return buffer, event


def _read_into(file: Path, start: int, target: Tensor) -> None:
    bytes_: Any = target.numpy()
    view = memoryview(bytes_)
    with open(file, "rb", buffering=0) as stream:
        stream.seek(start)
        while len(view):
            count = stream.readinto(view)
            if not count:
                raise OSError(f"{file} became shorter while it was read")
            view = view[count:]


class Progress:
    """Progress line of a load larger than `SMALL_BYTES`.

    Any thread may call `add`; only the waiting thread calls `draw` and `finish`, because the line
    belongs to the thread's notebook cell. A file receives only the last line.
    """

    def __init__(self, name: str, total: int, stream: TextIO) -> None:
        self.done = 0
        self._name, self._total, self._stream = name, total, stream
        self._lock = threading.Lock()
        self.begin()
        self._shown = total > SMALL_BYTES
        self._redraws = stream.isatty() or type(stream).__module__.startswith("ipykernel")
        self._width = 0

    def begin(self) -> None:
        """Start the clock."""
        self._begin = time.perf_counter()

    def add(self, count: int) -> None:
        with self._lock:
            self.done += count

    def draw(self) -> None:
        if self._shown and self._redraws:
            self._write(self.line(time.perf_counter() - self._begin), "\r")

    def finish(self) -> None:
        """Write the last line: bytes read and time."""
        if self._shown:
            seconds, done = time.perf_counter() - self._begin, self.done / 1e9
            rate = f"{done / max(seconds, 1e-9):.1f} GB/s"
            self._write(f"read {self._name}: {done:.1f} GB in {seconds:.1f} s, {rate}", "\n")

    def line(self, seconds: float) -> str:
        """Return the line after `seconds`, with the time left at the average rate."""
        done, total = self.done / 1e9, self._total / 1e9
        rate = done / max(seconds, 1e-9)
        left = f", {(total - done) / rate:.0f} s left" if rate > 0 else ""
        return f"reading {self._name}: {done:.1f} of {total:.1f} GB, {rate:.1f} GB/s{left}"

    def _write(self, line: str, end: str) -> None:
        start = "\r" if self._redraws and end == "\n" else ""
        self._stream.write(f"{start}{line:<{self._width}}{end}")
        self._stream.flush()
        self._width = len(line)
