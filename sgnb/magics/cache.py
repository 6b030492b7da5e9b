"""Cache and live views of the current engine: `sgnb.cache`, `sgnb.dashboard`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.getipython import get_ipython

from .. import lang
from ..errors import OptionError
from ..events import RequestQueued
from ..sampling import integer, read_option, text
from ..viz import Display
from .engines import Engines
from .fleets import FleetStats
from .table import Facts, Table

if TYPE_CHECKING:
    from ..engine.cache.manual import EvictionReport


KEPT_DIGITS = 12
"""Shown digits of a model's fingerprint."""

MAX_LIVE = 8
"""Maximum number of live views of an engine. A further view ends the oldest."""


class EngineView:
    """Live views of the current engine. A call opens the views: live in a notebook until the cell
    runs again, once in a terminal or as a picture."""

    def __init__(self, engines: Engines, views: Sequence[str]) -> None:
        self._engines, self._views = engines, views
        self._shown: dict[str, Display] = {}  # by cell, the oldest first

    def __call__(self) -> None:
        loaded = self._engines.backend()
        display = Display(loaded.emitter, self._views, act=loaded.act)
        if display.live:
            cell = _cell_id() or display.uid
            replaced = [self._shown.pop(cell)] if cell in self._shown else []
            while len(self._shown) >= MAX_LIVE:
                replaced.append(self._shown.pop(next(iter(self._shown))))
            for old in replaced:
                old.close()
            self._shown[cell] = display

        display.open()
        if not display.live:
            display.close()


def _cell_id() -> str:
    """Return the id of the running cell, or "" if the front end sends no ids."""
    kernel = getattr(get_ipython(), "kernel", None)
    parent = kernel.get_parent("shell") if kernel is not None else {}
    return str(parent.get("metadata", {}).get("cellId", ""))


class Cache:
    """Radix tree of the current engine."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self.show = EngineView(engines, ("tree", "time"))

    def stats(self) -> Facts:
        """Return hit rate, counters and memory, in tokens. The figures of a fleet are sums, shown
        with a column per worker."""
        fleet = self._engines.fleet
        if fleet is not None:
            return FleetStats(fleet.stats())
        return Facts(self._engines.get().engine.stats())

    def flush(self) -> int:
        """Evict all unpinned prefixes without a running request, on all workers of a fleet. Returns
        the number of freed tokens."""
        fleet = self._engines.fleet
        return self._engines.get().engine.flush_cache() if fleet is None else fleet.flush_cache()

    def pin(self, target: int | str | lang.ProgramState, durable: bool = False) -> int:
        """Pin cached tokens against eviction, until `unpin`.

        The log is bounded and may have dropped the prompts of old runs.

        Args:
            target: Run id or program state, to pin the cached prompts of the run, or number of a
                tree node.
            durable: Keep the prefixes on the disk, too, for later processes: see `Engine.pin`.
                Prompts of a run below 256 tokens are pinned in memory only.

        Returns:
            Total number of pinned tokens.

        Raises:
            OptionError: The log has no prompt of the run; or `durable` without a disk cache, or
                above half of its size.
        """
        from ..engine.cache.tiers.copies import MIN_TOKENS

        engine, run = self._engines.get().engine, _node_or_run(target)
        if isinstance(run, int):
            engine.pin(run, durable=durable)
        else:
            events = [record.event for record in engine.log.read().records]
            queued = [e for e in events if isinstance(e, RequestQueued) and e.run == run]
            if not queued:
                hint = "sgnb.runs() lists the runs; the view of the tree shows the numbers of nodes"
                raise OptionError(f"the log has no prompt of run {run!r}", hint)
            if durable and max(len(event.prompt) for event in queued) < MIN_TOKENS:
                message = f"no prompt of run {run!r} has {MIN_TOKENS} tokens"
                raise OptionError(message, "durable pins are for longer prompts")
            for event in queued:
                is_durable = durable and len(event.prompt) >= MIN_TOKENS
                engine.pin(event.prompt, run, event.namespace, is_durable)
        pinned: int = engine.stats()["pinned"]
        return pinned

    def unpin(self, target: int | str | lang.ProgramState | None = None) -> int:
        """Remove pins.

        Args:
            target: Run id, program state or node number, as in `pin`; None for all pins.

        Returns:
            Number of removed pins.
        """
        engine = self._engines.get().engine
        node_or_run = None if target is None else _node_or_run(target)
        if isinstance(node_or_run, str):
            return engine.unpin(owner=node_or_run)
        return engine.unpin(node_or_run)

    def pins(self) -> Table:
        """Return a table of pins: node, owner, the tokens from the root, and the tokens on the disk
        of a durable pin."""
        return Table(self._engines.get().engine.pins(), "nothing is pinned")

    def restore_pins(self) -> int:
        """Load the durable pins of earlier processes from the disk, and pin them in memory. Returns
        the number of restored tokens."""
        return self._engines.get().engine.restore_pins()

    def stored(self, folder: str | Path | None = None) -> Table:
        """Return a table of the models with prefixes on the disk: tokens, tokens of durable pins,
        size and last use.

        Args:
            folder: Folder of `disk_cache`; by default the folder of the current engine, or sgnb's
                own.
        """
        from ..engine.cache.tiers.blocks import BLOCK
        from ..engine.cache.tiers.durable_pins import pinned_tokens
        from ..engine.cache.tiers.folder import stored_models

        folder = self._folder() if folder is None else folder
        pinned = pinned_tokens(folder)
        rows = [
            {
                "model": model.fingerprint[:KEPT_DIGITS],
                "tokens": model.blocks * BLOCK,
                "pinned": pinned.get(model.fingerprint, 0),
                "MiB": round(model.bytes / 2**20, 1),
                "last use": time.strftime("%Y-%m-%d %H:%M", time.localtime(model.last_use)),
            }
            for model in stored_models(folder)
        ]
        return Table(rows, "nothing is stored on the disk")

    def forget(self, model: str = "all", folder: str | Path | None = None) -> int:
        """Delete prefixes on the disk.

        Args:
            model: Model as in `stored`, or "all".
            folder: Folder of `disk_cache`, as in `stored`.

        Returns:
            Deleted bytes.

        Raises:
            OptionError: The folder has no such model.
        """
        from ..engine.cache.tiers.folder import forget, stored_models

        folder = self._folder() if folder is None else folder
        if model == "all":
            return forget(folder)
        known = [each.fingerprint for each in stored_models(folder)]
        found = [each for each in known if each[:KEPT_DIGITS] == model]
        return forget(folder, found[0] if found else model)

    def _folder(self) -> Path | None:
        """Return the folder of the current engine's disk cache; None for sgnb's own."""
        from ..engine.cache.tiers.setup import disk_location

        loaded = self._engines.loaded
        location = disk_location(None if loaded is None else loaded.engine.options.disk_cache)
        return None if location is None else location[0]

    def evict(self, node: int) -> EvictionReport:
        """Evict a node's subtree, except tokens of running requests and pinned tokens.

        Args:
            node: Number of a tree node.
        """
        return self._engines.get().engine.evict(node)

    def __repr__(self) -> str:
        return repr(self.stats())


def _node_or_run(target: Any) -> int | str:
    """Return the number of a node, or the id of a run."""
    if isinstance(target, lang.ProgramState):
        return target.run_id
    rule = "the number of a node, the id of a run or its state"
    if isinstance(target, str):
        return read_option("target", target, rule, text)
    return read_option("target", target, rule, integer(0))
