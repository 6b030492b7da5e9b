"""The kernel that decodes packed matrices writes the numbers of the reference. Run by
`test_decode_kernel` in triton's interpreter."""

from __future__ import annotations

import torch

from sgnb.engine.fusion.decode_kernel import decode
from sgnb.engine.quantization.packed import PackedWeight, stack

from .test_packed import MATRICES, random_packed


def check(packed: PackedWeight, dtype: torch.dtype) -> None:
    assert torch.equal(decode(packed, dtype), packed.reference(dtype)), (packed.kind, dtype)


def check_all_codes(device: str = "cpu") -> None:
    """Every byte of FP8 except for NaN, and every code of MXFP4 with the smallest exponents."""
    codes = torch.arange(256, dtype=torch.uint8, device=device)
    numbers = codes[(codes & 127) != 127].view(torch.float8_e4m3fn)[None]
    ones = torch.ones(1, 1, device=device)
    check(PackedWeight("fp8", numbers, ones, None, None, (1, numbers.shape[1])), torch.float32)
    scales = torch.tensor([[0], [1], [127], [254]], dtype=torch.uint8, device=device)
    values = torch.arange(16, dtype=torch.uint8, device=device).repeat(4, 1) * 17
    check(PackedWeight("mxfp4", values, scales, None, None, (1, 32)), torch.float32)
    nan = torch.full((1, 2), 127, dtype=torch.uint8, device=device).view(torch.float8_e4m3fn)
    packed = PackedWeight("fp8", nan, ones, None, None, (1, 2))
    assert bool(decode(packed, torch.float32).isnan().all())


if __name__ == "__main__":
    for make in MATRICES.values():
        for dtype in (torch.float32, torch.float16):
            check(make(), dtype)
    check(random_packed("int4", 17, 530, zeros=True), torch.float32)  # several tiles
    experts = [random_packed("int4", order=True, zeros=True, seed=i) for i in range(3)]
    check(stack(experts), torch.float32)
    for columns in (40, 72):  # fewer than a tile, in one group
        for high, zeros in ((1, True), (3, False)):
            values = torch.randint(256, (7, columns // 2), dtype=torch.uint8)
            scales = torch.rand(-(-7 // high), 1)
            points = torch.randint(16, scales.shape, dtype=torch.uint8) if zeros else None
            packed = PackedWeight("int4", values, scales, points, None, (high, columns))
            check(packed, torch.float32)
    check_all_codes()
    print("all agree")
