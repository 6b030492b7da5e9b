"""Search for files of a prompt for different weights, as explanation of a miss."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from .blocks import BLOCK, root_key
from .folder import FORMAT, SUFFIX, path_of
from .stored_prompt import StoredPrompt, read_prompt

COMPARED = 16
"""Maximum number of compared models."""


def find_other_weights(disk: tuple[Path, int] | None, prompt: StoredPrompt) -> tuple[str, int]:
    """Return the fingerprint with files of a prompt, and the number of stored tokens; ("", 0)
    without files. Reads no file.

    Args:
        disk: Folder and size of the disk cache; None without a disk cache.
        prompt: The prompt, without a file for the present weights.
    """
    if disk is None:
        return "", 0
    models = disk[0] / FORMAT
    names: list[str] = []
    with suppress(OSError):
        names = list(filter(str.isascii, os.listdir(models)))  # foreign names may be no text

    def has(fingerprint: str, key: bytes) -> bool:
        return os.path.lexists(path_of(models / fingerprint, key.hex(), SUFFIX))

    for fingerprint in names[:COMPARED]:
        root = root_key(fingerprint)
        if has(fingerprint, read_prompt(root, prompt.ids[:BLOCK], prompt.spans).keys[-1]):
            keys = read_prompt(root, prompt.ids, prompt.spans).keys[1:]
            count = sum(1 for _ in takewhile(lambda key: has(fingerprint, key), keys))  # noqa: B023
            return fingerprint, count * BLOCK

    return "", 0
