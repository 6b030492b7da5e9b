"""Janitor of a disk cache: keeps the total of all files below a bound. Knows no block contents.

A scan counts all files and gives the process a share of the bound to write. The share grows with
each file that the process itself deletes. Therefore processes need no agreement: each further
process exceeds the bound by at most one share, and by a second share that moved during a scan.
"""

from __future__ import annotations

import heapq
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import FileLock

from .durable_pins import pinned_names
from .folder import FORMAT, CachedFile, is_format, replace_file, walk

SHARES = 40
"""Number of shares of the bound: a process scans after writes of one share."""

CANDIDATES = 512
"""Oldest files of which the least valuable are evicted."""

DELETIONS = 16
"""Deletions per write, at most."""

RESERVE_BYTES = 2 << 30
"""Bytes of the disk that stay free for others."""

PAUSE_SECONDS = 60.0
"""Pause of writes after an error, such as a full disk."""

STALE_SECONDS = 600.0
"""Age from which a temporary file has no writer."""

UNUSED_SECONDS = 86_400.0
"""Age from which files of other models are evicted first: such weights may no longer exist."""

AGING_SECONDS = 3600.0
"""Files of a lower age compare by saved time only."""


class Janitor:
    """Room for files in a folder that all processes share.

    Args:
        root: The folder.
        fingerprint: The model that this process writes.
        limit_bytes: Bound of all files.
        file_bytes: Largest size of a file.
        seconds: Returns the compute time that a file saves.
        evicted: Receives the path of each evicted file.
    """

    def __init__(
        self,
        root: Path,
        fingerprint: str,
        limit_bytes: int,
        file_bytes: int,
        seconds: Callable[[str], float],
        evicted: Callable[[str], None] = lambda path: None,
    ) -> None:
        self._root, self._fingerprint, self._seconds = root, fingerprint, seconds
        self._evicted = evicted
        self._limit = limit_bytes
        self._share = max(file_bytes, limit_bytes // SHARES)
        self._lock = threading.Lock()
        self._room = 0  # bytes to write before the next scan
        self._victims: list[CachedFile] = []  # the next to evict is the last
        self._fault: tuple[Any, Any] = None, None  # errno and message of the last error
        self._resume = 0.0  # of writes after an error, in monotonic time

    def expect(self, file_bytes: int) -> None:
        """Prepare for files of a further size."""
        self._share = max(self._share, file_bytes)

    def reserve(self, size: int) -> bool:
        """Reserve room for a file; evicts files and scans if needed. Returns False if there is no
        room, another process scans, or the folder is gone."""
        deletions, scanned = 0, size > self._limit
        with self._lock:
            while self._room < size:
                if self._victims and deletions < DELETIONS:
                    victim = self._victims.pop()
                    freed = _delete(victim)
                    self._room += freed
                    if freed:
                        self._evicted(victim.path)

                    deletions += freed > 0
                elif self._victims or scanned or not self._scan():
                    return False
                else:
                    scanned = True

            self._room -= size
        return True

    def save(self, path: str, levels: Iterable[str | Path], *parts: bytes | memoryview) -> bool:
        """Write a file within the bound, see `replace_file`. Returns False without room.

        Raises:
            OSError: The file cannot be written. Further files raise the same error for
                `PAUSE_SECONDS`, except after FileNotFoundError: another process deleted a folder.
        """
        if time.monotonic() < self._resume:
            raise OSError(*self._fault)
        size = sum(map(len, parts))
        if not self.reserve(size):
            return False
        try:
            replace_file(path, levels, *parts)
        except OSError as error:
            with self._lock:
                self._room += size
            if not isinstance(error, FileNotFoundError):
                self._fault = error.errno, error.strerror
                self._resume = time.monotonic() + PAUSE_SECONDS
            raise
        return True

    def _scan(self) -> bool:
        """Count the files, and choose the next victims. Returns False if another process scans, or
        the folder is gone."""
        if not self._root.is_dir():  # the lock would create the folder without the tag
            return False
        try:
            with FileLock(self._root / "janitor.lock", timeout=0, mode=0o600):
                files = list(self._list_files())
        except (OSError, NotImplementedError):  # held, or the file system has no locks
            return False

        reserve = min(RESERVE_BYTES, self._limit)
        free = shutil.disk_usage(self._root).free - reserve
        self._room = min(self._share, self._limit - sum(file.bytes for file in files), free)
        missing, victims = self._share - self._room, []
        pinned = pinned_names(self._root)
        for file in self._rank(file for file in files if _may_go(file, pinned)):
            if missing <= 0:
                break
            victims.append(file)
            missing -= file.bytes

        self._victims = victims[::-1]
        return True

    def _list_files(self) -> Iterator[CachedFile]:
        """Yield the files of all formats, after the removal of stale temporary files."""
        for name in filter(is_format, os.listdir(self._root)):
            for file in walk(str(self._root / name)):
                stale = file.path.endswith(".tmp") and time.time() - file.time > STALE_SECONDS
                if not (stale and _delete(file)):
                    yield file

    def _rank(self, files: Iterable[CachedFile]) -> list[CachedFile]:
        """Return the oldest candidates, the first to evict first: other formats, then other models
        after a day without use, then the least saved time per byte and age."""
        now = time.time()
        present = os.path.join(self._root, FORMAT, "")
        own = os.path.join(present, self._fingerprint, "")

        def group(file: CachedFile) -> int:
            if not file.path.startswith(present):
                return 0
            return 1 if now - file.time > UNUSED_SECONDS and not file.path.startswith(own) else 2

        def value(file: CachedFile) -> float:
            age = max(0.0, now - file.time)
            return self._seconds(file.path) / max(1, file.bytes) / (age + AGING_SECONDS)

        oldest = heapq.nsmallest(CANDIDATES, ((group(file), file.time, file) for file in files))
        ranked = sorted(
            (number, last if number < 2 else value(file), file) for number, last, file in oldest
        )
        return [file for *_, file in ranked]


def _may_go(file: CachedFile, pinned: Collection[str]) -> bool:
    """Return whether a file may be evicted. pinned: names without suffix."""
    name = os.path.basename(file.path).partition(".")[0]
    return not file.path.endswith(".tmp") and name not in pinned


def _delete(file: CachedFile) -> int:
    """Delete a file unless it was used or deleted since the scan. Returns the freed bytes."""
    with suppress(OSError):
        if os.lstat(file.path).st_mtime == file.time:
            os.unlink(file.path)
            return file.bytes

    return 0
