"""Construction of the cache tiers for options and model."""

from __future__ import annotations

import os
import shutil
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from ....cache_file import cache_folder
from ....errors import ModelError, OptionError, SgnbWarning, printable
from ....events import TiersStarted
from ..kv_cache import KVCache
from ..manager import CacheManager
from ..radix import Ints
from ..state_pool import StatePool
from .blocks import BLOCK, root_key
from .copies import MIN_TOKENS
from .copy_commands import CopyRanks
from .other_weights import find_other_weights
from .payloads import Payloads, make_payloads
from .rank_transfer import group_fingerprint
from .stored_prefixes import Stores
from .stored_prompt import ItemSpan
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
    states: StatePool | None,
    model: torch.nn.Module,
    weights: WeightComparison | None,
    identity: Callable[[], str],
    free_bytes: Callable[[], int],
    ranks: CopyRanks | None,
    *,
    find_items: Callable[[Ints], Sequence[ItemSpan]],
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
        states: States of recurrent layers, in the memory of the device, or None.
        model: The model, held by a weak reference.
        weights: Comparison of weights that the user can change.
        identity: Returns the fingerprint of the present keys and values in this process.
        free_bytes: Returns the free host memory.
        ranks: All ranks of a tensor-parallel model; None for a single process.
        find_items: Returns the images, videos and sounds of a prompt.
        emit: Receives events.

    Raises:
        OptionError: The folder of the disk cache is not private.
        LostRankError: A rank ended.
    """
    disk = disk_location(disk_cache)
    if disk is None and host_cache is None:
        return None

    host_bytes = None
    if host_cache is not None:  # a store has a list of all arenas
        machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        host_bytes = min(int(host_cache * GIB), machine_bytes)
    payloads = make_payloads(cache, kv, states, ranks, host_bytes, disk is not None)
    sizes = [size for size in (host_bytes, None if disk is None else disk[1]) if size is not None]
    fault = _find_fault(cache, model, min(sizes), payloads)
    if fault:
        message = f"{name!r} runs without host_cache and disk_cache: {fault}; load without them"
        warnings.warn(printable(message), SgnbWarning, stacklevel=7)
        return None

    find_model, modules = weakref.ref(model), [weakref.ref(each) for each in model.modules()]

    def open_stores() -> Stores:
        fingerprint = identity() if ranks is None else group_fingerprint(identity(), ranks)
        root = root_key(fingerprint)
        return payloads.open_stores(root, fingerprint, host_bytes, disk, free_bytes)

    def is_current(thorough: bool) -> bool:
        alive = find_model()
        with suppress(ModelError):  # a replaced module
            changed = weights is not None and weights.find_change(thorough) is not None
            present = (module for find in modules if (module := find()) is not None)
            return alive is not None and not changed and not _has_foreign_hooks(present)
        return False

    emit(_started(host_bytes, disk))
    return CacheTiers(
        cache,
        payloads.tokens,
        open_stores,
        states=payloads.states,
        find_items=find_items,
        is_current=is_current,
        find_other_weights=partial(find_other_weights, disk),
        emit=emit,
    )


def _started(host_bytes: int | None, disk: tuple[Path, int] | None) -> TiersStarted:
    return TiersStarted(
        host_bytes=host_bytes or 0,
        disk_bytes=0 if disk is None else disk[1],
        block=BLOCK,
        min_tokens=MIN_TOKENS,
    )


def _find_fault(cache: CacheManager, model: torch.nn.Module, size: int, payloads: Payloads) -> str:
    """Return the reason why the cache of a model cannot be copied, or "". size: of the smallest
    store in bytes."""
    if not cache.prefix_cache:
        return "prefix_cache=False"
    if _has_foreign_hooks(model.modules()):
        return "modules have forward hooks, which are not part of the model's identity"

    least = payloads.least_bytes
    if size < least:
        return f"a prefix of {MIN_TOKENS} tokens needs {least / 2**30:.3g} GiB"
    return payloads.find_fault()


def _has_foreign_hooks(modules: Iterable[torch.nn.Module]) -> bool:
    """Return whether functions of the user run inside the model. Hooks of sgnb pass arguments, and
    hooks of transformers record outputs."""
    hooked = [each for each in modules if each._forward_hooks or each._forward_pre_hooks]
    return any(
        str(getattr(hook, "__module__", "")).split(".")[0] not in ("sgnb", "transformers")
        for module in hooked
        for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
    )


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
