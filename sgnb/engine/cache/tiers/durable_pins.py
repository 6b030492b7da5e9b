"""Durable pins: prefixes on the disk that the janitor never evicts, for all processes.

`FOLDER/pins/FINGERPRINT/NAME.json` is the mark of a pin: the owner, the token ids, and the names of
the files with the blocks. A mark is written before the blocks, as a whole.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any

from ....errors import OptionError, printable
from .blocks import BLOCK
from .folder import FORMAT, PINS, SUFFIX, locate, open_safely, path_of, replace_file

SHARE = 2
"""Pins may use the limit of the disk cache divided by this number."""

MAX_BYTES = 64 * 2**20
"""Largest mark."""

MARK = "sgnb-pin-1"


@dataclass(frozen=True, slots=True)
class DurablePin:
    """A pinned prefix on the disk.

    Attributes:
        owner: See `Engine.pin`.
        tokens: Token ids of full blocks.
        names: Names of the files of the blocks, without suffix.
        file_bytes: Size of the file of a block.
        state_bytes: Size of the file of the recurrent states at the end.
    """

    owner: str
    tokens: tuple[int, ...]
    names: tuple[str, ...]
    file_bytes: int
    state_bytes: int = 0

    def file_sizes(self) -> dict[str, int]:
        """Return the sizes of the files by name."""
        sizes = dict.fromkeys(self.names, self.file_bytes)
        sizes[self.names[-1]] += self.state_bytes
        return sizes


class DurablePins:
    """Durable pins of a model.

    Args:
        root: The folder of the disk cache.
        fingerprint: The model.
        limit_bytes: Upper bound of all files in the folder.
    """

    def __init__(self, root: Path, fingerprint: str, limit_bytes: int) -> None:
        self._root, self._folder = root, root / PINS / fingerprint
        self._blocks = root / FORMAT / fingerprint
        self._room = limit_bytes // SHARE

    def all(self) -> list[DurablePin]:
        """Return the pins, the oldest first."""
        return [pin for _, pin in _read_all(self._folder)]

    def add(self, pin: DurablePin) -> None:
        """Write the mark of a pin. The files of the pin count as used now.

        Raises:
            OptionError: All pins together would use more than half of the disk cache, or the mark
                cannot be written.
        """
        sizes = _file_sizes(self._root)
        used = sum(sizes.values())
        total = sum((sizes | pin.file_sizes()).values())
        if total > self._room:
            message = (
                f"a durable pin of {len(pin.tokens):,} tokens needs {_mib(total - used)} more on"
                f" the disk, and pins may use {_mib(self._room)}, half of the disk cache:"
                f" {_mib(used)} are in use"
            )
            raise OptionError(message, "undo a durable pin, or give a larger disk_cache")

        content = {
            "format": MARK,
            "owner": pin.owner,
            "file_bytes": pin.file_bytes,
            "state_bytes": pin.state_bytes,
            "names": pin.names,
            "tokens": pin.tokens,
        }
        path = self._folder / _mark_name(pin)
        try:
            replace_file(str(path), [self._folder.parent], json.dumps(content).encode())
        except OSError as error:
            message = f"the durable pin cannot be written to {path}: {error.strerror}"
            hint = "load the model with another disk_cache"
            raise OptionError(printable(message), hint) from None

        for name in pin.names:
            with suppress(OSError):  # not written yet
                os.utime(self._path(name))

    def remove(self, chosen: Callable[[DurablePin], bool]) -> list[DurablePin]:
        """Delete the marks of pins. The files stay until the janitor needs room. Returns the
        pins."""
        removed = []
        for path, pin in _read_all(self._folder):
            if chosen(pin):
                with suppress(OSError):
                    os.unlink(path)
                removed.append(pin)
        return removed

    def num_stored(self, pin: DurablePin) -> int:
        """Return the number of leading tokens of a pin on the disk."""
        count = 0
        for name in pin.names:
            if not os.path.lexists(self._path(name)):
                break
            count += 1
        return count * (len(pin.tokens) // max(1, len(pin.names)))

    def _path(self, name: str) -> str:
        return path_of(self._blocks, name, SUFFIX)


def pinned_names(root: Path) -> frozenset[str]:
    """Return the names of the files that pins of all models protect."""
    return frozenset(_file_sizes(root))


def pinned_tokens(folder: str | Path | None = None) -> dict[str, int]:
    """Return the number of tokens that durable pins protect, by fingerprint.

    Args:
        folder: None for the folder `kv` of sgnb's cache folder.
    """
    counts = {}
    for path in _folders(locate(folder)):
        pins = [pin for _, pin in _read_all(path)]
        names = {name for pin in pins for name in pin.names}
        per_block = max((len(pin.tokens) // max(1, len(pin.names)) for pin in pins), default=0)
        counts[path.name] = len(names) * per_block
    return counts


def _file_sizes(root: Path) -> dict[str, int]:
    """Return the sizes of the protected files by name."""
    pins = [pin for folder in _folders(root) for _, pin in _read_all(folder)]
    sizes: dict[str, int] = {}
    for pin in pins:
        for name, size in pin.file_sizes().items():
            sizes[name] = max(size, sizes.get(name, 0))
    return sizes


def _folders(root: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(path for path in (root / PINS).iterdir() if path.is_dir())
    return []


def _read_all(folder: Path) -> Iterator[tuple[Path, DurablePin]]:
    """Yield the marks in a folder, the oldest first. Damaged marks protect nothing."""
    paths: list[Path] = []
    with suppress(OSError):
        paths = [path for path in folder.iterdir() if path.suffix == ".json"]
    for path in sorted(paths, key=lambda path: (_last_change(path), path.name)):
        with suppress(OSError, ValueError, RecursionError):  # RecursionError: nested JSON
            yield path, _read(path)


def _last_change(path: Path) -> float:
    with suppress(OSError):  # another process undid the pin
        return os.lstat(path).st_mtime
    return 0.0


def _read(path: Path) -> DurablePin:
    """Return the pin of a mark.

    Raises:
        OSError: The file cannot be read.
        ValueError, RecursionError: The file is damaged.
    """
    with open(path, "rb", opener=open_safely) as file:
        content: Any = json.loads(file.read(MAX_BYTES))
    if not isinstance(content, dict) or content.get("format") != MARK:
        raise ValueError("not a mark")
    fields: list[Any] = [content.get(field.name) for field in fields_of(DurablePin)]
    owner, tokens, names, size, state_size = fields
    if not (isinstance(owner, str) and _is_count(size) and _is_count(state_size)):
        raise ValueError("not an owner and a size")
    if not (_is_list(names, _is_name) and _is_list(tokens, _is_count) and names):
        raise ValueError("not names and tokens")
    if len(tokens) != BLOCK * len(names) or max(tokens) >= 2**31:
        raise ValueError("not the tokens of full blocks")
    return DurablePin(owner, tuple(tokens), tuple(names), size, state_size)


def _is_list(value: Any, is_item: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(is_item, value))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**40


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 32 and not value.strip("0123456789abcdef")


def _mark_name(pin: DurablePin) -> str:
    content = f"{pin.owner}\0{pin.names[-1]}".encode()
    return f"{hashlib.blake2b(content, digest_size=16).hexdigest()}.json"


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
