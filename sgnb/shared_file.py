"""Files without a name, mapped by several processes."""

from __future__ import annotations

import os
import tempfile


def unnamed_file(name: str) -> int:
    """Return the descriptor of a new file in memory, or on disk if the system has no memfd.

    Args:
        name: Name for debuggers.
    """
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def reserve(file: int, begin: int, size: int) -> None:
    """Take the pages of a part of a shared file, and extend the file if necessary. A write to
    pages without memory would end the process by SIGBUS.

    Raises:
        OSError: The memory or the disk is full.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, begin, size)
    elif os.fstat(file).st_size < begin + size:  # macOS
        os.ftruncate(file, begin + size)
