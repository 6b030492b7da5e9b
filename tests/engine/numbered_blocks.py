"""Blocks for tests of block stores: key, parent, tokens and content follow from a number."""

from __future__ import annotations

import hashlib

import numpy as np

from sgnb.engine.cache.tiers.blocks import BLOCK, Block, BlockStore


def make_block(number: int, unit_bytes: int = 3, seconds: float = 1.0) -> Block:
    """Return a block. The content differs from all others in each row."""
    key, parent = (hashlib.blake2b(f"{n}".encode(), digest_size=16).digest() for n in (number, -1))
    tokens = np.arange(number, number + BLOCK, dtype=np.int32)
    return Block(key, parent, tokens, seconds, content(number, unit_bytes))


def content(number: int, unit_bytes: int) -> np.ndarray:
    seed = np.frombuffer(hashlib.shake_128(f"{number}".encode()).digest(4 * BLOCK), np.uint8)
    rows = np.resize(seed, (BLOCK, unit_bytes))
    return rows + np.arange(BLOCK, dtype=np.uint8)[:, None]


def read(store: BlockStore, block: Block) -> bool:
    """Read a block and compare the content. Returns False for a miss."""
    spare = np.zeros_like(block.data)
    with store.open(block.key, block.parent, block.tokens, lambda: spare) as content:
        assert content is None or (content == block.data).all(), "wrong content"
        return content is not None
