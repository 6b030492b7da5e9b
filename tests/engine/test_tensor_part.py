"""Parts of tensors read from safetensors files."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from sgnb.engine.model.checkpoint import read_checkpoint
from sgnb.engine.model.safetensors_reader import TensorReader
from sgnb.engine.model.tensor_part import TensorPart


@given(data=st.data())
def test_a_part_is_the_slice_of_the_whole(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    draw = data.draw
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    dtype = draw(st.sampled_from([torch.float32, torch.bfloat16, torch.uint8]))
    dim = draw(st.integers(-len(shape), -1))
    bounds = sorted(draw(st.sets(st.integers(0, shape[dim]), min_size=2, max_size=4)))
    ranges = tuple(zip(bounds[::2], bounds[1::2], strict=False))
    folder = tmp_path_factory.mktemp("part")
    whole = torch.arange(2, 2 + math.prod(shape)).reshape(shape).to(dtype)
    save_file({"before": torch.ones(3), "w": whole}, folder / "model.safetensors")

    reader = TensorReader(torch.device("cpu"), threads=2, piece_bytes=draw(st.integers(1, 40)))
    entry = read_checkpoint(folder).entries["w"]
    part = TensorPart(dim, ranges)
    found = reader.read_part(entry, part)
    reader.close()
    expected = torch.cat([whole.narrow(dim, low, high - low) for low, high in ranges], dim)
    assert found.dtype == dtype and torch.equal(found, expected)
    assert part.shape(shape) == tuple(expected.shape) and part.size == expected.shape[dim]
