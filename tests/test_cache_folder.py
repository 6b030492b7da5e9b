"""Tests keep grammars and proofs in a folder of their own, and so does what they start."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from sgnb.cache_file import cache_folder

ASK = "from sgnb.cache_file import cache_folder; print(cache_folder())"


def test_the_users_cache_is_left_alone() -> None:
    started = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True)
    assert Path(started.stdout.strip()) == cache_folder()
    assert cache_folder().is_relative_to(tempfile.gettempdir())
