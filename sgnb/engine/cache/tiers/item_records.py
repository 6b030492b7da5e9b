"""Facts about images, videos and sounds in files, next to the blocks of a model.

With the facts, a prompt whose blocks are stored needs neither the processor nor the encoders. A
file is a line of JSON with a checksum, then the facts. Knows no contents of facts.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from pathlib import Path

from .folder import MEASURED, open_safely, path_of, seconds_text, touch
from .janitor import Janitor

SUFFIX = ".item"

MAX_BYTES = 1 << 24
"""Largest file that is read."""


class ItemRecords:
    """Files of facts by the digest of an item. On any thread. Absent and damaged files read alike.

    Args:
        folder: Folder of the model.
        janitor: Keeps the bound of all files.
    """

    def __init__(self, folder: Path, janitor: Janitor) -> None:
        self._folder, self._janitor = folder, janitor

    def read(self, key: bytes) -> bytes | None:
        """Return the facts of an item; None without a valid file. Deletes damaged files."""
        path = self._path(key)
        try:
            with open(path, "rb", opener=open_safely) as file:
                last = os.fstat(file.fileno()).st_mtime
                header, _, facts = file.read(MAX_BYTES).partition(b"\n")
        except OSError:
            return None

        measured = MEASURED.search(header)
        if measured is None or header != _header(key, measured[1].decode(), facts):
            with suppress(OSError):
                os.unlink(path)
            return None
        touch(path, last)
        return facts

    def write(self, key: bytes, seconds: float, facts: bytes) -> bool:
        """Store the facts of an item. Returns whether the file exists afterwards.

        Args:
            key: Digest of the item.
            seconds: Time of the processor that the facts save.
            facts: At most 16 MB.
        """
        path = self._path(key)
        if os.path.exists(path):
            return True

        content = _header(key, seconds_text(seconds), facts) + b"\n" + facts
        if len(content) > MAX_BYTES:
            return False
        with suppress(OSError):  # the prompt is computed again
            return self._janitor.save(path, (self._folder.parent, self._folder), content)
        return False

    def _path(self, key: bytes) -> str:
        return path_of(self._folder, key.hex(), SUFFIX)


def _header(key: bytes, seconds: str, facts: bytes) -> bytes:
    text = f'{{"key":"{key.hex()}","seconds":"{seconds}","crc32":"{zlib.crc32(facts):08x}"}}'
    return text.encode()
