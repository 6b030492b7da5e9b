"""Compares the kernel that moves rows with PyTorch's operations. Run as a program: in triton's
interpreter."""

from __future__ import annotations

import torch

from sgnb.engine.cache.packed_rows import PackedRows
from sgnb.engine.cache.row_kernel import BLOCK_WORDS, move_rows, row_table

SHAPES = [(7, 2, 6), (7, 1, 2), (7, 3, 2 * BLOCK_WORDS - 10)]
IDS = [5, 0, 3]
PADDING = 8


def main() -> None:
    tensors = [torch.randn(shape).bfloat16() for shape in SHAPES]
    tensors.append(torch.randn(7, 5))
    size = sum(tensor[0].nbytes for tensor in tensors) + PADDING
    ids = torch.tensor(IDS)
    slow, fast = (torch.full((len(IDS), size), 9, dtype=torch.uint8) for _ in range(2))
    rows = PackedRows(tensors)
    rows.copy(ids.int().numpy(), slow)
    move_rows(row_table(tensors), ids, fast, restore=False)
    assert torch.equal(slow, fast) and (fast[:, -PADDING:] == 9).all()

    changed = torch.randint(0, 127, slow.shape, dtype=torch.uint8)
    other = [tensor.clone() for tensor in tensors]
    rows.restore(ids.int().numpy(), changed)
    move_rows(row_table(other), ids, changed, restore=True)
    for one, two in zip(tensors, other, strict=True):
        assert torch.equal(one.view(torch.uint8), two.view(torch.uint8))
    print(len(tensors), "tensors agree")


if __name__ == "__main__":
    main()
