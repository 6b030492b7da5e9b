"""Construction of the cache tiers for options and model."""

from __future__ import annotations

import hashlib
import os
import shutil
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import torch

from ....cache_file import cache_folder
from ....errors import ModelError, OptionError, SgnbWarning, printable
from ..kv_cache import KVCache
from ..manager import CacheManager
from .block_transfer import BlockTransfer
from .blocks import BlockStore, Bytes
from .copies import MIN_TOKENS
from .disk import DiskBlocks
from .host import HostBlocks
from .tiers import CacheTiers

GIB = 2**30


class WeightComparison(Protocol):
    """See `model.weight_monitor.WeightMonitor`."""

    def find_change(self, compare_numbers: bool) -> str | None:
        """Return the name of a changed weight, or None."""


DISK_BYTES = 32 * GIB
"""Largest default size of the disk cache."""

VARIABLE = "SGNB_DISK_CACHE"
"""Environment variable with the default of the option `disk_cache`."""


def make_tiers(
    name: str,
    host_cache: float | None,
    disk_cache: bool | float | str | None,
    cache: CacheManager,
    kv: KVCache,
    model: torch.nn.Module,
    weights: WeightComparison | None,
    fingerprint: Callable[..., str],
    *,
    dtype: torch.dtype,
    vocab_size: int,
    emit: Callable[[Any], None],
) -> CacheTiers | None:
    """Return the cache tiers of an engine; None without tiers. A model whose cache cannot be copied
    runs without tiers, with a warning.

    Args:
        name: Name of the model, for messages.
        host_cache: See `EngineOptions`.
        disk_cache: See `EngineOptions`.
        cache: Owner of the slots.
        kv: Keys and values, in the memory of the device.
        model: The model, held by a weak reference.
        weights: Comparison of weights that the user can change.
        fingerprint: Returns the identity of the model with its current weights, for the model and
            further facts.
        dtype: Type of keys and values.
        vocab_size: Number of text tokens.
        emit: Receives events.

    Raises:
        OptionError: The folder of the disk cache is not private.
    """
    disk = disk_location(disk_cache)
    if disk is None and host_cache is None:
        return None

    transfer, unit_bytes = BlockTransfer(cache.slots, kv.device), kv.unit_bytes
    sizes = [] if host_cache is None else [int(host_cache * GIB)]
    sizes += [] if disk is None else [disk[1]]
    fault = _find_fault(cache, model, min(sizes), unit_bytes) or transfer.find_fault()
    if fault:
        message = f"{name!r} runs without host_cache and disk_cache: {fault}; load without them"
        warnings.warn(printable(message), SgnbWarning, stacklevel=7)
        return None

    find_model, facts = weakref.ref(model), (kv.shapes, dtype)

    def open_stores() -> tuple[bytes, Sequence[BlockStore]]:
        identity = fingerprint(find_model(), *facts)
        stores: list[BlockStore] = []
        if host_cache is not None:
            stores.append(HostBlocks(int(host_cache * GIB), unit_bytes, kv.device.type == "cuda"))

        if disk is not None:
            stores.append(DiskBlocks(disk[0], identity, unit_bytes, disk[1]))
        return hashlib.blake2b(identity.encode(), digest_size=16).digest(), stores

    def is_current(thorough: bool) -> bool:
        alive = find_model()
        with suppress(ModelError):  # a replaced module
            changed = weights is not None and weights.find_change(thorough) is not None
            return alive is not None and not changed and not _has_hooks(alive)
        return False

    def is_finite(content: Bytes) -> bool:
        return bool(torch.from_numpy(content).view(dtype).isfinite().all())

    return CacheTiers(
        cache,
        transfer,
        open_stores,
        vocab_size=vocab_size,
        is_finite=is_finite,
        is_current=is_current,
        emit=emit,
    )


def _find_fault(cache: CacheManager, model: torch.nn.Module, size: int, unit_bytes: int) -> str:
    """Return the reason why the cache of a model cannot be copied, or "". size: of the smallest
    store in bytes."""
    if cache.checkpoints is not None:
        return "states of recurrent layers are not stored"
    if not cache.prefix_cache:
        return "prefix_cache=False"
    if _has_hooks(model):
        return "modules have forward hooks, which are not part of the model's identity"

    least = MIN_TOKENS * unit_bytes
    return f"a prefix of {MIN_TOKENS} tokens needs {least / 2**30:.3g} GiB" if size < least else ""


def _has_hooks(model: torch.nn.Module) -> bool:
    """Return whether functions of the user run inside the model."""
    return any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def disk_location(option: bool | float | str | None) -> tuple[Path, int] | None:
    """Return folder and size in bytes of the disk cache; None without a disk cache.

    Args:
        option: See `EngineOptions.disk_cache`.

    Raises:
        OptionError: The environment variable is no valid option.
    """
    if option is None:
        option = _from_environment(os.environ.get(VARIABLE, ""))

    if option is False or option is None:
        return None
    folder = Path(option).expanduser() if isinstance(option, str) else cache_folder() / "kv"
    if isinstance(option, (int, float)) and option is not True:
        return folder, int(option * GIB)

    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return folder, min(DISK_BYTES, shutil.disk_usage(existing).free // 4)


def _from_environment(text: str) -> bool | float | str | None:
    if text.lower() in ("", "0", "off", "false"):
        return None
    if text.lower() in ("1", "on", "true"):
        return True

    if text.startswith(("/", "~")):
        return text
    try:
        size = float(text)
    except ValueError:
        size = 0.0

    if not 0 < size < 2**53:
        hint = "give on, off, a number of GiB, or an absolute path"
        raise OptionError(f"{VARIABLE}={text!r} is not valid", hint)
    return size
