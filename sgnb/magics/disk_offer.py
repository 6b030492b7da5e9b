"""Offer of the disk cache, once per kernel. Pure except for the environment."""

from __future__ import annotations

import os
import re
from typing import Any

from ..viz.state.metrics import duration
from ..viz.state.run_state import RunState
from ..viz.state.tree import TreeState
from .command_options import LOAD_OPTIONS
from .loaded_engine import LoadedEngine, RemoteBackend

OFFER_SECONDS = 1.0
"""Shortest prefill before an offer."""

_FLAGS = frozenset(flag for option in LOAD_OPTIONS for flag in option.flags)
"""Options of `%sglang load`. Python has further options."""


class DiskOffer:
    """Offer for at most one run of a kernel."""

    def __init__(self) -> None:
        self._offered = False

    def __call__(self, loaded: LoadedEngine | RemoteBackend, run: RunState) -> str:
        """Return the offer as a sentence, or ""."""
        from ..engine.cache.tiers.copies import MIN_TOKENS

        if self._offered or not isinstance(loaded, LoadedEngine) or loaded.options is None:
            return ""
        if not _is_possible(loaded.options, loaded.emitter.tree):
            return ""

        bars = (bar for lane in run.lanes for bar in lane.bars)
        slowest = max(
            (bar for bar in bars if bar.computed >= MIN_TOKENS and not bar.namespace),
            key=lambda bar: bar.prefill_seconds,
            default=None,
        )
        if slowest is None or slowest.prefill_seconds < OFFER_SECONDS:
            return ""

        self._offered = True
        return (
            f"{slowest.computed:,} prompt tokens took {duration(slowest.prefill_seconds)} to"
            f" compute; {_command(loaded)} keeps such prefixes in files (not encrypted), also for"
            " the next kernel."
        )


def _is_possible(options: dict[str, Any], tree: TreeState) -> bool:
    """Return whether a disk cache is possible, and absent by default."""
    from ..engine.cache.tiers.setup import VARIABLE

    chosen = options.get("disk_cache") is not None or os.environ.get(VARIABLE)
    has_disk = tree.tiers is not None and tree.tiers.disk_bytes > 0
    return not (chosen or has_disk) and options.get("prefix_cache", True)


def _command(loaded: LoadedEngine) -> str:
    """Return the command for a reload of the engine with a disk cache."""
    options = {name: value for name, value in (loaded.options or {}).items() if value is not None}
    if loaded.name != re.split(r"[\\/]", loaded.model)[-1]:
        options = {"name": loaded.name} | options

    flags = ["--as" if name == "name" else f"--{name.replace('_', '-')}" for name in options]
    words = [loaded.model]
    for flag, value in zip(flags, options.values(), strict=True):
        shown = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
        words += [flag, shown]

    if _FLAGS.issuperset(flags) and all(re.fullmatch(r"[\w./:~-]+", word) for word in words):
        return " ".join(["%sglang load", *words, "--disk-cache on"])
    arguments = [f"{loaded.model!r}", *(f"{name}={value!r}" for name, value in options.items())]
    return f"sgnb.load({', '.join([*arguments, 'disk_cache=True'])})"
