"""Files of the cache on disk, each with a checksum: a damaged file reads as absent.

Knows no content. `SGNB_CACHE` names the folder, else the user's cache folder holds it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

MAX_FILES = 1024
"""Files of one kind; the oldest are evicted."""

_CHECKSUM = 32  # bytes


def cache_folder() -> Path:
    """Return the folder of all cache files; without a home folder, a path that holds no files."""
    user = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "sgnb")
    try:
        return Path(os.environ.get("SGNB_CACHE") or user).expanduser()
    except RuntimeError:  # a user id without an account, as in some containers
        return Path(os.devnull)


class CacheFile:
    """The file of one key: a checksum over key and content, then the content."""

    def __init__(self, kind: str, *key: object) -> None:
        """Name the file without a look at the disk.

        Args:
            kind: the subfolder.
            key: values whose `repr` determines the content, a format version among them.
        """
        self._key = hashlib.sha256(repr(key).encode())
        self.path = cache_folder() / kind / self._key.hexdigest()[:40]

    def read(self) -> bytes | None:
        """Return the content; None for an absent, damaged or foreign file."""
        try:
            stored = self.path.read_bytes()
        except OSError:
            return None
        content = stored[_CHECKSUM:]
        return content if stored[:_CHECKSUM] == self._checksum(content) else None

    def write(self, content: bytes) -> None:
        """Replace the file at once and evict the oldest of its kind. A full disk is no error."""
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, draft = tempfile.mkstemp(dir=self.path.parent, suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(self._checksum(content) + content)
                os.replace(draft, self.path)
            except BaseException:
                Path(draft).unlink(missing_ok=True)
                raise

            files = sorted(self.path.parent.iterdir(), key=lambda file: file.stat().st_mtime)
            for oldest in files[:-MAX_FILES]:
                oldest.unlink(missing_ok=True)

    def _checksum(self, content: bytes) -> bytes:
        key = self._key.digest()
        return hashlib.blake2b(content, digest_size=_CHECKSUM, key=key).digest()
