"""The animated picture of the README: a hit and a split of the radix tree, from real records."""

from __future__ import annotations

from typing import Any

import pytest
from PIL import Image

pytest.importorskip("playwright", reason="the tool paints in a browser")

from tools.animation import MAX_BYTES, OUT, frames, record


def test_the_frames_show_a_hit_and_a_split(shell: Any) -> None:
    shots = list(frames(record()))
    kinds = [shot.caption.partition(":")[0] for shot in shots]
    assert kinds[:3] == ["The cache is empty", "Insert", "Insert"]
    assert kinds.index("Split") < kinds.index("Hit") and kinds.count("Hit") == 2
    assert len({shot.svg for shot in shots}) == len(shots)
    assert all(shot.svg.startswith("<svg") for shot in shots)


def test_the_file_is_small_and_animated() -> None:
    assert OUT.stat().st_size <= MAX_BYTES
    with Image.open(OUT) as picture:
        assert picture.is_animated and picture.n_frames >= 8  # type: ignore[attr-defined]
