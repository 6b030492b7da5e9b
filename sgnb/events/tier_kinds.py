"""Events of the cache tiers: copies of blocks in host memory and on disk, and reasons against a
load. Knows no log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass


@dataclass(frozen=True, slots=True)
class TiersStarted:
    """The engine keeps copies of cached prefixes."""

    host_bytes: int  # bound of the copies in host memory; 0 without them
    disk_bytes: int  # bound of the files; 0 without a disk cache
    block: int  # tokens of a block
    min_tokens: int  # shortest prefix with copies


@dataclass(frozen=True, slots=True)
class BlocksNamed:
    """Numbers of consecutive blocks of a prompt, before the first use: first .. first + count - 1.
    Each block follows the block before; the first block follows `parent`."""

    first: int
    count: int
    parent: int  # 0: the first block is the start of the prompt
    tokens: Sequence[int]  # token ids of all blocks, of equal lengths


@dataclass(frozen=True, slots=True)
class CopiesChanged:
    """Copies of blocks were stored, or are absent for a reason."""

    store: str  # "host" or "disk"
    state: str
    """"stored"; a dropped copy: "room", "memory" (of the machine), "damaged", "gone" (deleted by
    another program), "flush" or "weights" (changes); a refused copy: "full" (error of the storage),
    "bound" (no room), "busy" (too many copies at once) or "not finite"."""
    blocks: tuple[int, ...]
    message: str = ""  # error of the storage


@dataclass(frozen=True, slots=True)
class PrefixNotLoaded:
    """Stored tokens of a prompt without a load, or with a cancelled load."""

    request: int  # 0 for a prefetch
    store: str
    reason: str
    """"compute" (computing is faster), "head" (computed while the tokens behind are loaded),
    "memory" (no free slots), "pool" (behind the largest load), "cancelled" (running requests need
    the memory), "flush", "weights" (changes), "closed" (the engine) or "other weights" (the copies
    belong to these)."""
    tokens: int
    seconds: float = 0.0  # estimated time of the load
    compute_seconds: float = 0.0  # estimated time of computing
    fingerprint: str = ""  # of different weights


TIER_KINDS: dict[str, type] = {
    cls.__name__: cls
    for cls in list(globals().values())
    if isinstance(cls, type) and is_dataclass(cls)
}
