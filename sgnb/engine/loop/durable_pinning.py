"""Pins of an engine in memory and on the disk. On the engine's thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...errors import OptionError
from ..cache import manual
from ..cache.radix import Ints, RadixNode, RadixTree
from ..cache.tiers.blocks import BLOCK, BlockStore
from ..cache.tiers.copies import MIN_TOKENS
from ..cache.tiers.disk import DiskBlocks
from ..cache.tiers.durable_pins import DurablePin
from ..cache.tiers.tiers import CacheTiers


def pin_durably(tiers: CacheTiers | None, node: RadixNode, owner: str) -> None:
    """Copy a prefix to the disk, and protect the copy from eviction by all processes.

    Raises:
        OptionError: There is no disk cache, the prefix is not stored, or all pins together need
            more than half of the disk cache.
    """
    disk = _disk_of(tiers)
    if tiers is None or disk is None:
        raise OptionError("durable=True needs a disk cache", "load the model with disk_cache=True")
    prefix = _stored_prefix(tiers, node)
    if prefix is None:
        message = (
            f"a durable pin needs a cached text of {MIN_TOKENS} tokens, and states of recurrent"
            f" layers at a block end; {node.end:,} tokens are cached"
        )
        hint = "pin a longer prompt, after a request that computed the prompt"
        if tiers.copies.has_states and node.end >= MIN_TOKENS:
            hint = "load the model with host_cache, which keeps states at block ends, and ask again"
        raise OptionError(message, hint)

    disk.pins.add(_mark(tiers, prefix, owner))
    tiers.copies.copy_now(prefix.node)


def unpin(
    tiers: CacheTiers | None, tree: RadixTree, node: int | None = None, owner: str | None = None
) -> int:
    """Undo the pins of a node, of an owner, or all pins, in memory and on the disk. Returns the
    number of undone pins."""
    rows = [
        row
        for row in list_pins(tiers, tree)
        if node in (None, row["node"]) and owner in (None, row["owner"])
    ]
    disk = _disk_of(tiers)
    if disk is not None and tiers is not None:
        marks = [_mark_of(tiers, tree, row) for row in rows if row["node"] is not None]
        disk.pins.remove(lambda pin: pin in marks or (node is None and owner in (None, pin.owner)))
    manual.unpin(tree, node, owner)
    return len(rows)


def list_pins(tiers: CacheTiers | None, tree: RadixTree) -> list[dict[str, Any]]:
    """Return a row per pin, see `Engine.pins`."""
    rows = [{**row, "durable": 0} for row in manual.pins(tree)]
    disk = _disk_of(tiers)
    if disk is None or tiers is None:
        return rows

    marks = [_mark_of(tiers, tree, row) for row in rows]
    for pin in disk.pins.all():
        same = [row for row, mark in zip(rows, marks, strict=False) if mark == pin]
        if not same:
            same = [{"node": None, "owner": pin.owner, "tokens": len(pin.tokens), "durable": 0}]
            rows += same
        for row in same:
            row["durable"] = disk.pins.num_stored(pin)
    return rows


def restorable(tiers: CacheTiers | None, tree: RadixTree) -> list[tuple[Ints, str]]:
    """Return tokens and owner of each durable pin that is not pinned in memory."""
    disk = _disk_of(tiers)
    if disk is None or tiers is None:
        return []
    present = [_mark_of(tiers, tree, row) for row in manual.pins(tree)]
    return [
        (np.array(pin.tokens, np.int32), pin.owner) for pin in disk.pins.all() if pin not in present
    ]


class _StoredPrefix(NamedTuple):
    """A prefix of text that the disk can hold."""

    node: RadixNode
    tokens: Ints  # of full blocks
    keys: Sequence[bytes]  # of the blocks


def _disk_of(tiers: CacheTiers | None) -> DiskBlocks | None:
    """Return the disk cache, or None."""
    return None if tiers is None else _first_disk(tiers.prefixes.stores.blocks)


def _first_disk(stores: Sequence[BlockStore]) -> DiskBlocks | None:
    return next((store for store in stores if isinstance(store, DiskBlocks)), None)


def _stored_prefix(tiers: CacheTiers, node: RadixNode) -> _StoredPrefix | None:
    """Return the longest prefix before the first image that the disk can hold; None below the
    smallest stored size."""
    for above in reversed(node.path()):
        path = above.path()
        if path[0].key[0] != "":  # a private namespace
            return None
        prompt = tiers.prefixes.read(np.concatenate([each.tokens for each in path]))
        end = min((span.begin for span in prompt.spans), default=above.end) // BLOCK * BLOCK
        if end >= MIN_TOKENS and tiers.copies.can_copy(above, end):
            return _StoredPrefix(above, prompt.tokens[:end], prompt.keys[1 : end // BLOCK + 1])
    return None


def _mark(tiers: CacheTiers, prefix: _StoredPrefix, owner: str) -> DurablePin:
    disk, states = _disk_of(tiers), _first_disk(tiers.prefixes.stores.states)
    assert disk is not None
    return DurablePin(
        owner=owner,
        tokens=tuple(prefix.tokens.tolist()),
        names=tuple(key.hex() for key in prefix.keys),
        file_bytes=disk.file_bytes,
        state_bytes=0 if states is None else states.file_bytes,
    )


def _mark_of(tiers: CacheTiers, tree: RadixTree, row: dict[str, Any]) -> DurablePin | None:
    """Return the mark that a pin in memory would have, or None."""
    node = tree.pins.get((row["node"], row["owner"]))
    prefix = None if node is None else _stored_prefix(tiers, node)
    return None if prefix is None else _mark(tiers, prefix, row["owner"])
