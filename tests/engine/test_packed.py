"""The layout of packed matrices: decoding against a loop over elements, merges, and round trips."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sgnb.engine.fusion.weights import decoded_elements
from sgnb.engine.quantization.modules import QuantizedLinear, quantize_experts
from sgnb.engine.quantization.packed import (
    E2M1,
    Kind,
    PackedWeight,
    can_cat,
    cat,
    pack_nibbles,
    stack,
    unpack_nibbles,
)


def random_packed(
    kind: Kind,
    rows: int = 20,
    columns: int = 64,
    block: tuple[int, int] = (1, 32),
    zeros: bool = False,
    order: bool = False,
    seed: int = 0,
) -> PackedWeight:
    """Return a random matrix of a kind."""
    generator = torch.Generator().manual_seed(seed)
    shape = -(-rows // block[0]), -(-columns // block[1])
    scales: Any = torch.rand(shape, generator=generator) + 0.1
    if kind == "mxfp4":
        scales = torch.randint(0, 255, shape, generator=generator, dtype=torch.uint8)
    values = torch.randint(0, 256, (rows, columns // 2), generator=generator, dtype=torch.uint8)
    if kind == "fp8":
        values = torch.randn(rows, columns, generator=generator).to(torch.float8_e4m3fn)
    points = torch.randint(0, 16, shape, generator=generator, dtype=torch.uint8)
    permutation = torch.randperm(columns, generator=generator).int()
    return PackedWeight(
        kind, values, scales, points if zeros else None, permutation if order else None, block
    )


def slow_decode(packed: PackedWeight) -> np.ndarray[Any, Any]:
    """Return the matrix by the layout's definition, element by element, in float64."""
    rows, columns = packed.shape
    matrix = np.zeros((rows, columns))
    scales = packed.scales.double().numpy()
    for n in range(rows):
        for j in range(columns):
            block = n // packed.block[0], j // packed.block[1]
            scale = 2.0 ** (scales[block] - 127) if packed.kind == "mxfp4" else scales[block]
            if packed.kind == "fp8":
                number = float(packed.values[n, j])
            else:
                code = int(packed.values[n, j // 2]) >> (4 * (j % 2)) & 15
                number = float(code)
                if packed.kind == "mxfp4":
                    number = E2M1[code % 8] * (-1 if code > 7 else 1)
                else:
                    number -= 8 if packed.zeros is None else int(packed.zeros[block])
            k = j if packed.order is None else int(packed.order[j])
            matrix[n, k] = number * scale
    return matrix


MATRICES = {
    "fp8 with a scale per row": lambda: random_packed("fp8", block=(1, 64)),
    "fp8 in blocks": lambda: random_packed("fp8", 20, 60, (16, 32)),
    "int4": lambda: random_packed("int4"),
    "int4 with zero points and an order": lambda: random_packed("int4", zeros=True, order=True),
    "int4 with a short last group": lambda: random_packed("int4", 7, 50, zeros=True),
    "mxfp4": lambda: random_packed("mxfp4"),
}


@pytest.mark.parametrize("name", MATRICES)
def test_decoding_equals_the_definition(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgnb.engine.quantization.packed.CHUNK", 300)  # several chunks
    packed = MATRICES[name]()
    expected = slow_decode(packed)
    decoded = packed.reference(torch.float32)
    torch.testing.assert_close(decoded.double(), torch.from_numpy(expected), rtol=1e-6, atol=0)
    half = packed.reference(torch.bfloat16)
    assert torch.equal(half, decoded.bfloat16())


def test_merged_matrices_are_the_matrices_below_each_other() -> None:
    order = torch.randperm(64).int()
    pairs = [
        [random_packed("fp8", 16, 64, (16, 32)), random_packed("fp8", 30, 64, (16, 32), seed=1)],
        [random_packed("fp8", 20, 64, (16, 32)), random_packed("fp8", 30, 64, (16, 32), seed=1)],
        [random_packed("fp8", 20, 64, (1, 64)), random_packed("fp8", 30, 64, (1, 64), seed=1)],
        [random_packed("int4", 4, zeros=True), random_packed("int4", 9, zeros=True, seed=1)],
        [random_packed("int4", n)._replace(order=order.clone()) for n in (4, 6)],
    ]
    for parts in pairs:
        assert can_cat(parts)
        expected = torch.cat([part.reference(torch.float32) for part in parts])
        assert torch.equal(cat(parts).reference(torch.float32), expected)
    assert cat(pairs[0]).block == (16, 32)  # whole blocks stay blocks
    assert cat(pairs[1]).block == (1, 32)


def test_matrices_of_different_layouts_stay_separate() -> None:
    base = random_packed("int4")
    others = [
        random_packed("mxfp4"),
        random_packed("int4", block=(1, 16)),
        random_packed("int4", columns=32),
        random_packed("int4", zeros=True),
        random_packed("int4", order=True),
        base._replace(scales=base.scales.half()),
    ]
    assert not any(can_cat([base, other]) for other in others)
    assert not can_cat([random_packed("int4", order=True, seed=i) for i in (1, 2)])


def test_experts_decode_one_by_one() -> None:
    parts = [random_packed("int4", order=True, zeros=True, seed=i) for i in range(3)]
    stacked = stack(parts)
    assert stacked.shape == (3, 20, 64)
    expected = torch.stack([part.reference(torch.float32) for part in parts])
    assert torch.equal(stacked.reference(torch.float32), expected)


def test_the_memory_of_decoded_weights() -> None:
    model = nn.Module()
    model.mlp = nn.Module()
    assert decoded_elements(model) == 0
    model.mlp.up = QuantizedLinear(random_packed("int4", 20, 64), None)
    model.mlp.down = QuantizedLinear(random_packed("fp8", 8, 64, (1, 64)), None)
    model.head = QuantizedLinear(random_packed("int4", 10, 64), None)
    assert decoded_elements(model) == 28 * 64

    model.experts = nn.Module()
    model.experts.down_proj = nn.Parameter(torch.empty(0))
    quantize_experts(model.experts, "down_proj", stack([random_packed("int4", 20, 64)] * 3))
    assert decoded_elements(model) == 60 * 64
    model.experts.forward = abs  # a fused forward reads the packed matrices
    assert decoded_elements(model) == 28 * 64


@given(st.data())
def test_nibbles_round_trip(data: st.DataObject) -> None:
    shape = data.draw(st.integers(1, 5)), 2 * data.draw(st.integers(1, 9))
    size = shape[0] * shape[1]
    numbers = data.draw(st.lists(st.integers(0, 15), min_size=size, max_size=size))
    codes = torch.tensor(numbers, dtype=torch.uint8).view(shape)
    packed = pack_nibbles(codes)
    assert packed.shape == (shape[0], shape[1] // 2)
    assert torch.equal(unpack_nibbles(packed), codes)
    assert int(packed[0, 0]) == int(codes[0, 0]) + 16 * int(codes[0, 1])
