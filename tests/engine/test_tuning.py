"""Launches of the attention kernels fit the shared memory of a GPU."""

import pytest

from sgnb.engine.attention.tuning import TUNINGS, Geometry, tuning_of

SHARED_MEMORY = 227 * 1024  # bytes of a CTA, H100 and H200


@pytest.mark.parametrize(("itemsize", "dim"), TUNINGS)
def test_tiles_fit_shared_memory(itemsize: int, dim: int) -> None:
    """Queries of a tile, keys and values of each stage, and for FP8 their converted numbers."""
    for launch in TUNINGS[itemsize, dim][:3]:
        size = max(itemsize, 2) * launch.block_m + 2 * launch.stages * launch.block_n * itemsize
        size += 2 * 2 * launch.block_n if itemsize == 1 else 0
        assert size * dim <= SHARED_MEMORY


def test_wide_heads_have_a_tuning() -> None:
    torch = pytest.importorskip("torch")
    for dim, expected in ((72, 128), (257, 512), (576, 512)):
        tuning = tuning_of(Geometry(2, 3, dim, 64), torch.bfloat16)
        assert tuning.extend == TUNINGS[2, expected].extend
    geometry = Geometry(2, 3, 128, 64)
    assert tuning_of(geometry, torch.float16, "fp8") == TUNINGS[1, 128]
    assert tuning_of(geometry, torch.float32, "fp8") == TUNINGS[4, 128]
