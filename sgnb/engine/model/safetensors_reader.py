"""Stretches of files to tensors on a device, at the speed of the disk or the page cache. Knows no
models.

Several threads read pieces into pinned buffers, which the GPU copies while the threads read on: no
more than these is ever in host memory. On a CPU the pieces are read to where they belong.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

import torch
from torch import Tensor

from .checkpoint import Entry

THREADS = 8
PIECE_BYTES = 16 << 20
BUFFERS = 2
SMALL_BYTES = 1 << 30
REDRAW_SECONDS = 0.2


class ReadCancelled(Exception):
    """The reader was told to stop."""


class Reader:
    """Reads tensors to `device`; `progress.add` is told of each piece. Thread-safe; close it."""

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
        """The tensor in the file's dtype. On a GPU the last copies may be pending on the current
        stream.

        Raises OSError, and ReadCancelled after `cancel`.
        """
        target = torch.empty(entry.shape, dtype=entry.dtype, device=self._device)
        flat = target.view(-1).view(torch.uint8)
        size = self._piece_bytes
        pieces = [
            self._pool.submit(self._piece, entry.file, entry.start + at, flat[at : at + size])
            for at in range(0, entry.size, size)
        ]
        for piece in pieces:
            piece.result()
        return target

    def cancel(self) -> None:
        """Let every read that is going on, or comes, raise."""
        self._cancelled = True

    def check(self) -> None:
        """Raise ReadCancelled after `cancel`."""
        if self._cancelled:
            raise ReadCancelled("the reading was interrupted")

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _choose_device(self) -> None:
        """Else this thread would open the first GPU too, when it pins memory."""
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

    def _next_buffer(self) -> tuple[Tensor, Any]:
        """This thread's pinned buffers in turn, each with the event after which it may be
        overwritten."""
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
    """How far a load is, as one line that is drawn over itself: only for more than `SMALL_BYTES`.

    `add` may be called from any thread; `draw` and `finish` write, and are for the thread that
    waits, whose cell the line belongs to. Where a line cannot be drawn over (a file), only the last
    one is written.
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
        """Count the time from now."""
        self._begin = time.perf_counter()

    def add(self, count: int) -> None:
        with self._lock:
            self.done += count

    def draw(self) -> None:
        if self._shown and self._redraws:
            self._write(self.line(time.perf_counter() - self._begin), "\r")

    def finish(self) -> None:
        """The last line: what was read, in what time."""
        if self._shown:
            seconds, done = time.perf_counter() - self._begin, self.done / 1e9
            rate = f"{done / max(seconds, 1e-9):.1f} GB/s"
            self._write(f"read {self._name}: {done:.1f} GB in {seconds:.1f} s, {rate}", "\n")

    def line(self, seconds: float) -> str:
        """The line after `seconds`; the time left is what the rate so far promises."""
        done, total = self.done / 1e9, self._total / 1e9
        rate = done / max(seconds, 1e-9)
        left = f", {(total - done) / rate:.0f} s left" if rate > 0 else ""
        return f"reading {self._name}: {done:.1f} of {total:.1f} GB, {rate:.1f} GB/s{left}"

    def _write(self, line: str, end: str) -> None:
        start = "\r" if self._redraws and end == "\n" else ""
        self._stream.write(f"{start}{line:<{self._width}}{end}")
        self._stream.flush()
        self._width = len(line)
