"""The folder of a disk cache: layout, safety checks, and a list of the stored models."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ....cache_file import cache_folder
from ....errors import OptionError, shown

FORMAT = "v1"
"""Folder of the present format. Other versions have other names."""

SUFFIX = ".safetensors"

MEASURED = re.compile(rb'"seconds":"(\d{1,4}\.\d{6})","crc32":"([0-9a-f]{8})"')
"""Part of the header of each file: the saved compute time, and the checksum of the content."""

MAX_SECONDS = 9999.0

TOUCH_SECONDS = 3600.0
"""A use sets the time of a file at most once per hour."""

NO_WAIT = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags that refuse symbolic links, and do not wait for the writer of a pipe."""

PINS = "pins"
"""Folder of durable pins, with a folder per model; see `durable_pins`."""

TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# Disk cache of sgnb: computed prompts.\n"
"""Content of CACHEDIR.TAG: backups skip the folder, and sgnb deletes files of no other folder."""


class StoredModel(NamedTuple):
    """Blocks of a model in a folder."""

    fingerprint: str
    blocks: int
    bytes: int
    last_use: float  # seconds since 1970, exact to an hour


class CachedFile(NamedTuple):
    """A file below a folder."""

    path: str
    bytes: int
    time: float  # last use


def stored_models(folder: str | Path | None = None) -> list[StoredModel]:
    """Return the models with blocks in a folder, the last used first.

    Args:
        folder: None for the folder `kv` of sgnb's cache folder.
    """
    root = locate(folder)
    models = []
    for name in filter(str.isascii, _names(root / FORMAT) if _is_tagged(root) else ()):
        files = [each for each in walk(str(root / FORMAT / name)) if not each.path.endswith(".tmp")]
        blocks = sum(each.path.endswith(SUFFIX) for each in files)
        if blocks:
            size, last = sum(each.bytes for each in files), max(each.time for each in files)
            models.append(StoredModel(name, blocks, size, last))

    return sorted(models, key=lambda model: -model.last_use)


def forget(folder: str | Path | None = None, fingerprint: str | None = None) -> int:
    """Delete the blocks of a model (default: all files of the cache). Returns the deleted bytes.

    Args:
        folder: None for the folder `kv` of sgnb's cache folder.
        fingerprint: A fingerprint of `stored_models`.

    Raises:
        OptionError: The folder has no blocks of the model.
    """
    root = locate(folder)
    is_cache = _is_tagged(root)
    if fingerprint is None:
        names = [name for name in _names(root) if is_format(name) or name == PINS]
        return sum(remove_files(root / name) for name in names) if is_cache else 0
    if not is_cache or fingerprint not in _names(root / FORMAT):
        stored = ", ".join(model.fingerprint for model in stored_models(root)) or "no model"
        message = f"fingerprint={shown(fingerprint)} is not a model in {shown(str(root))}"
        raise OptionError(message, f"stored: {stored}")

    size = remove_files(root / PINS / fingerprint)
    return size + remove_files(root / FORMAT / fingerprint)


def open_folder(folder: str | Path | None) -> Path:
    """Create the folder if absent, and return the absolute path.

    Raises:
        OptionError: The folder cannot be created, or is unsafe.
    """
    root = locate(folder)
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            root.mkdir(0o700)
        _check(root)
        with suppress(FileExistsError):
            handle = os.open(root / "CACHEDIR.TAG", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(handle, "wb") as file:
                file.write(TAG)
    except OSError as error:
        raise _refusal(root, f"{error.strerror}", "give a folder that you may write to") from None

    return root


def path_of(folder: str | Path, name: str, suffix: str) -> str:
    """Return the path of a file in the folder of a model. name: hexadecimal key."""
    return f"{folder}/{name[:2]}/{name}{suffix}"


def seconds_text(seconds: float) -> str:
    """Return the saved compute time as in the headers of files, see `MEASURED`."""
    return f"{min(max(seconds, 0.0), MAX_SECONDS):.6f}"


def walk(folder: str) -> Iterator[CachedFile]:
    """Yield all files below a folder; symbolic links are files. Absent folders are empty."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from walk(entry.path)
                continue

            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                yield CachedFile(entry.path, status.st_size, status.st_mtime)


def open_safely(path: str, flags: int) -> int:
    """Opener that refuses symbolic links."""
    return os.open(path, flags | NO_WAIT)


def replace_file(path: str, levels: Iterable[str | Path], *parts: bytes | memoryview) -> None:
    """Write a file with mode 0600 at once, in a folder below `levels`, which are created."""
    folder = os.path.dirname(path)
    for level in (*levels, folder):
        with suppress(FileExistsError):
            os.mkdir(level, 0o700)

    handle, draft = tempfile.mkstemp(".tmp", dir=folder)  # with mode 0600
    try:
        with open(handle, "wb") as file:
            file.writelines(parts)
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def touch(path: str, last: float) -> None:
    """Set the time of the last use, at most once per hour."""
    if time.time() - last > TOUCH_SECONDS:
        with suppress(OSError):
            os.utime(path)


def is_format(name: str) -> bool:
    """Return True for the folder name of any format."""
    return name[:1] == "v" and name[1:].isdecimal()


def remove_files(folder: Path) -> int:
    """Remove a folder below the root. Returns the bytes of the files."""
    size = sum(file.bytes for file in walk(str(folder)))
    shutil.rmtree(folder, ignore_errors=True)
    return size


def locate(folder: str | Path | None) -> Path:
    """Return the absolute path of a folder. folder: None for sgnb's own."""
    return cache_folder() / "kv" if folder is None else Path(folder).expanduser().absolute()


def _names(folder: Path) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)
    return []


def _is_tagged(root: Path) -> bool:
    with suppress(OSError):
        # Another process may be about to write the tag.
        return not root.is_symlink() and (root / "CACHEDIR.TAG").read_bytes() in (b"", TAG)
    return False


def _check(root: Path) -> None:
    """Raise OptionError unless the folder is empty or a disk cache, and closed to other users."""
    status = root.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise _refusal(root, "it is a symbolic link", "give the path that the link points to")

    if not stat.S_ISDIR(status.st_mode):
        raise _refusal(root, "it is not a folder", "give a folder")
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        raise _refusal(root, f"user {status.st_uid} owns it", "give a folder of your own")

    if os.name == "posix" and status.st_mode & 0o022:
        raise _refusal(root, "other users may write to it", f"run chmod 700 {root}")
    if _names(root) and not _is_tagged(root):
        raise _refusal(root, "it has other files, without sgnb's tag", "give an empty folder")


def _refusal(root: Path, reason: str, hint: str) -> OptionError:
    return OptionError(f"{shown(str(root))} is not a valid folder for blocks: {reason}", hint)
