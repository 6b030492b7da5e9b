"""Blocks in files, shared by processes and kept after the end of a process. Knows no requests.

`FOLDER/v1/FINGERPRINT/XX/KEY.safetensors` holds one block: a header of fixed length, then the
content. `KEY.state` holds the states of recurrent layers at the end of the block, in the same form.
A write creates a temporary file and renames it, without fsync: CRC-32 detects torn files. The files
hold token ids in clear text, so only the user may read them.
"""

from __future__ import annotations

import errno
import os
import warnings
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path

import numpy as np

from ....errors import SgnbWarning, printable
from ..radix import Ints
from .blocks import BLOCK, Block, Bytes, CopyChange
from .durable_pins import DurablePins
from .folder import (
    FORMAT,
    MEASURED,
    SUFFIX,
    open_folder,
    open_safely,
    path_of,
    remove_files,
    seconds_text,
    touch,
)
from .item_records import ItemRecords
from .janitor import PAUSE_SECONDS, Janitor

STATE_SUFFIX = ".state"

HEADER_BYTES = 4096
"""Bytes before the content: the length of the header, and JSON with 64 token ids of at most 11
digits."""


class DiskBlocks:
    """`BlockStore` in a folder. Processes share the folder and never wait for each other.

    Args:
        folder: None for the folder `kv` of sgnb's cache folder.
        fingerprint: Identity of the model, hexadecimal.
        unit_bytes: Bytes per token.
        limit_bytes: Upper bound of all files in the folder. A second process may exceed the
            bound by 5 %, or by two blocks.

    Attributes:
        records: Facts about images, videos and sounds in the same folder.

    Raises:
        OptionError: The folder cannot be created, or other users or programs could write to it.
    """

    name = "disk"

    def __init__(
        self, folder: str | Path | None, fingerprint: str, unit_bytes: int, limit_bytes: int
    ) -> None:
        root = open_folder(folder)
        self._fingerprint, self._suffix = fingerprint, SUFFIX
        self._levels = [str(root / FORMAT), str(root / FORMAT / fingerprint)]
        self._shape = (BLOCK, unit_bytes)
        self._file_bytes = HEADER_BYTES + BLOCK * unit_bytes
        self.changes: deque[CopyChange] = deque()
        self._janitor = Janitor(
            root, fingerprint, limit_bytes, self._file_bytes, read_seconds, self._evicted
        )
        self.records = ItemRecords(root / FORMAT / fingerprint, self._janitor)
        self.pins = DurablePins(root, fingerprint, limit_bytes)
        self._reported: set[str] = set()

    def for_states(self, unit_bytes: int) -> DiskBlocks:
        """Return a store for states in the same folder, with the same bound."""
        store = copy(self)
        store._suffix, store._reported = STATE_SUFFIX, set()
        store.changes = deque()
        store._shape = (BLOCK, unit_bytes)
        store._file_bytes = HEADER_BYTES + BLOCK * unit_bytes
        self._janitor.expect(store._file_bytes)
        return store

    def holds(self, key: bytes) -> bool:
        with suppress(OSError):
            return os.lstat(self._path(key)).st_size == self._file_bytes
        return False

    def seconds(self, key: bytes) -> float:
        return read_seconds(self._path(key))

    @contextmanager
    def open(
        self, key: bytes, parent: bytes, tokens: Ints, spare: Callable[[], Bytes]
    ) -> Iterator[Bytes | None]:
        data = spare()
        yield data if self._read(key, parent, tokens, data) else None

    def _read(self, key: bytes, parent: bytes, tokens: Ints, data: Bytes) -> bool:
        """Read a block to `data`, undefined after a miss. Returns whether the block is valid."""
        assert data.shape == self._shape and data.flags.c_contiguous
        path = self._path(key)
        try:
            with open(path, "rb", opener=open_safely) as file:
                status = os.fstat(file.fileno())
                header = file.read(HEADER_BYTES)
                size = file.readinto(data.data.cast("B"))

            complete = size == data.size and status.st_size == self._file_bytes
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno != errno.ELOOP:
                self._report("unreadable", f"{path} cannot be read: {error.strerror}")
                return False

            complete = False

        if not complete or not self._is_valid(header, key, parent, tokens, data):
            with suppress(OSError):
                os.unlink(path)
            self.changes.append(CopyChange(key, "damaged"))
            reason = "is damaged, or belongs to another prompt or model"
            self._report("damaged", f"{path} {reason}. sgnb deletes it and computes the block")
            return False

        touch(path, status.st_mtime)
        return True

    def write(self, block: Block) -> bool:
        path = self._path(block.key)
        if self.holds(block.key):
            with suppress(OSError):
                touch(path, os.lstat(path).st_mtime)

            return True
        try:
            saved = self._save(path, block)
        except FileNotFoundError:  # `forget` in another process
            return False
        except OSError as error:
            self.changes.append(CopyChange(block.key, "full", str(error.strerror)))
            reason = f"cannot be written: {error.strerror}"
            self._report("full", f"{path} {reason}. sgnb tries again after {PAUSE_SECONDS:.0f} s")
            return False
        self.changes.append(CopyChange(block.key, "stored" if saved else "bound"))
        return saved

    @property
    def file_bytes(self) -> int:
        """Size of the file of a block."""
        return self._file_bytes

    def reserve(self, key: bytes, parent: bytes, seconds: float) -> None:
        """Files need no memory."""

    def flush(self) -> None:
        remove_files(Path(self._levels[-1]))

    def mark(self, keys: Sequence[bytes], cached: bool) -> None:
        """Files are kept for later engines."""

    def lacks(self, count: int) -> bool:
        return False

    def grow(self, count: int) -> None:
        """Files need no memory."""

    def relieve(self) -> None:
        """The janitor keeps space of the disk free at each scan."""

    def close(self) -> None:
        pass

    def _evicted(self, path: str) -> None:
        """Record an evicted file of this model."""
        folder, name = os.path.split(path)
        if os.path.dirname(folder) == self._levels[-1] and name.endswith(self._suffix):
            with suppress(ValueError):
                key = bytes.fromhex(name.removesuffix(self._suffix))
                self.changes.append(CopyChange(key, "room"))

    def _path(self, key: bytes) -> str:
        return path_of(self._levels[-1], key.hex(), self._suffix)

    def _save(self, path: str, block: Block) -> bool:
        data = np.ascontiguousarray(block.data)
        seconds, crc = seconds_text(block.seconds), f"{zlib.crc32(data.data):08x}"
        header = self._header(block.key, block.parent, block.tokens, seconds, crc)
        return self._janitor.save(path, self._levels, header, data.data.cast("B"))

    def _header(self, key: bytes, parent: bytes, tokens: Ints, seconds: str, crc: str) -> bytes:
        """Return the header: equal blocks have equal headers, byte by byte."""
        rows, unit_bytes = self._shape
        ids = " ".join(map(str, tokens.tolist()))
        text = (
            f'{{"__metadata__":{{"format":"sgnb-kv-{FORMAT}","fingerprint":"{self._fingerprint}",'
            f'"key":"{key.hex()}","parent":"{parent.hex()}","tokens":"{ids}",'
            f'"seconds":"{seconds}","crc32":"{crc}"}},"data":{{"dtype":"U8",'
            f'"shape":[{rows},{unit_bytes}],"data_offsets":[0,{rows * unit_bytes}]}}}}'
        )
        length = HEADER_BYTES - 8
        return length.to_bytes(8, "little") + text.encode().ljust(length)

    def _is_valid(
        self, header: bytes, key: bytes, parent: bytes, tokens: Ints, data: Bytes
    ) -> bool:
        measured = MEASURED.search(header)
        if measured is None:
            return False

        seconds, crc = (each.decode() for each in measured.groups())
        return header == self._header(key, parent, tokens, seconds, crc) and int(
            crc, 16
        ) == zlib.crc32(data.data)

    def _report(self, kind: str, message: str) -> None:
        """Warn once per kind."""
        if kind not in self._reported:
            self._reported.add(kind)
            warnings.warn(printable(message), SgnbWarning, stacklevel=3)


def read_seconds(path: str) -> float:
    """Return the compute time in the header of a file; 0 if unreadable."""
    with suppress(OSError), open(path, "rb", opener=open_safely) as file:
        measured = MEASURED.search(file.read(HEADER_BYTES))
        return 0.0 if measured is None else float(measured[1])

    return 0.0
