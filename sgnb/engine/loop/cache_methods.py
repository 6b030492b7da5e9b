"""The methods of `Engine` for its cache."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch

from ...errors import OptionError, shown
from ...events import EventLog
from ...sampling import read_option, scalar
from ..cache import manual
from ..cache.handover import (
    AnyPrefix,
    CachedPrefix,
    adopt_prefix,
    check_transport,
    export_prefix,
)
from ..cache.manager import CacheManager
from ..cache.manual import EvictionReport
from ..cache.part_extents import CachedPrompt, PartsPrompt
from ..cache.radix import RadixNode
from ..cache.tree_events import EngineSnapshot, tree_events
from ..model.fingerprint import ModelFingerprint
from ..request import arguments
from ..request.input_processor import InputProcessor, Prompt
from .durable_pinning import list_pins, pin_durably, restorable, unpin
from .engine_loop import EngineLoop
from .weight_guard import WeightGuard

T = TypeVar("T")

_log = logging.getLogger(__name__)

POLL_SECONDS = 0.005


class CacheMethods:
    """Reading, pinning, loading and eviction of cached prefixes."""

    log: EventLog
    options: Any
    model_name: str
    device: Any
    dtype: Any
    vocab_size: int
    _loop: EngineLoop
    _cache: CacheManager
    _input_processor: InputProcessor
    _weight_guard: WeightGuard
    _fingerprint: ModelFingerprint

    def flush_cache(self, namespace: str | None = None) -> int:
        """Evict every cached prefix that no running request uses and no pin keeps.

        Args:
            namespace: part of the cache to flush; None for all, rows of images included.

        Returns:
            The number of freed tokens; 0 on the engine's thread, for example in a finalizer, where
            the flush happens after the step. Raises OptionError if `namespace` is no string.
        """
        namespace = arguments.optional_string("namespace", namespace)
        return self._loop.call(lambda: self._loop.flush(namespace), at_once=False) or 0

    def pin(
        self,
        what: int | Prompt,
        owner: str = "user",
        namespace: str = "",
        durable: bool = False,
    ) -> int:
        """Pin the cached prefix of a prompt, or a tree node with all ancestors, until `unpin`.

        Pinned tokens survive eviction and `flush_cache`. The oldest pins yield if a request could
        otherwise never run.

        Args:
            what: Node id or prompt.
            owner: Label for `unpin`.
            namespace: Cache namespace of the prompt.
            durable: Write the prefix to the `disk_cache` at once, and keep the files there until
                `unpin`: new processes list the pin, and load the prefix. Durable pins use at most
                half of the disk cache.

        Returns:
            The number of pinned tokens from the root on.

        Raises:
            OptionError: No node has this id; or `durable` without a disk cache, below 256 cached
                tokens, or above the limit.
        """
        self.log.home.check()
        owner = arguments.string("owner", owner)
        namespace = arguments.string("namespace", namespace)
        target: Any = read_option("what", what, "the id of a node, or a prompt", scalar)
        if isinstance(target, int):
            target = arguments.number("what", target)
        else:
            [target] = self._input_processor.tokens([target])

        durable = arguments.switch("durable", durable)

        def keep(node: RadixNode) -> None:
            if durable:
                pin_durably(self._loop.tiers.tiers, node, owner)

        def pin() -> int:
            self._loop.tiers.note_change()
            return manual.pin(self._cache.tree, target, owner, namespace, keep)

        return self._loop.call(pin)

    def unpin(self, node: int | None = None, owner: str | None = None) -> int:
        """Remove the pins of a node, of an owner, or all pins, durable pins of this model included.
        Returns the number of pins."""
        node = arguments.optional_number("node", node)
        owner = arguments.optional_string("owner", owner)
        return self._loop.call(lambda: unpin(self._loop.tiers.tiers, self._cache.tree, node, owner))

    def pins(self) -> list[dict[str, Any]]:
        """Return node, owner and tokens from the root of each pin, oldest first. "durable" is the
        number of tokens on the disk of a durable pin, otherwise 0; the node is None if the pin is
        on the disk only, see `restore_pins`."""
        return self._loop.call(lambda: list_pins(self._loop.tiers.tiers, self._cache.tree))

    def restore_pins(self) -> int:
        """Load the durable pins of earlier processes from the disk, and pin them in memory.

        Waits for the loads. A prefix stays on the disk if computing is faster than loading, or if
        the prefix needs more than half of the memory.

        Returns:
            The number of restored tokens.
        """
        self.log.home.check()
        pins = self._loop.call(lambda: restorable(self._loop.tiers.tiers, self._cache.tree))
        restored = 0
        for tokens, owner in pins:
            # A load omits the last token of a prompt, which a request computes.
            prompt = np.append(tokens, tokens[-1:])
            self._loop.call(partial(self._loop.tiers.prefetch, prompt))
            cached = partial(self._cache.tree.peek, tokens)
            while self._loop.call(cached).length < len(tokens) and self._loop.tiers:
                time.sleep(POLL_SECONDS)
            if self._loop.call(cached).length:
                restored += self.pin(tokens.tolist(), owner)
        return restored

    def evict(self, node: int) -> EvictionReport:
        """Evict unused, unpinned tokens of a tree `node` (an id) and of all descendants. Raises
        OptionError for an unknown id."""
        node = arguments.number("node", node)
        return self._loop.call(lambda: manual.evict(self._cache, node))

    def tree(self) -> list[dict[str, Any]]:
        """Return the radix tree as plain data, parents first: id, parent, tokens, locks, tick, and
        checkpoint (True if recurrent states are kept at the node's end)."""
        return self._loop.call(lambda: manual.tree_nodes(self._cache))

    def snapshot(self) -> EngineSnapshot:
        """Return the present state as events, for a reader of the log that starts late or missed
        records. The reader continues with later records."""

        def read() -> EngineSnapshot:
            events = [*self._loop.journal.names(), *tree_events(self._cache)]
            return EngineSnapshot(self.log.last, self.log.now(), events)

        return self._loop.call(read)

    def export_prefix(
        self, prompt: Prompt, namespace: str = "", transport: str = "memory"
    ) -> CachedPrefix:
        """Copy the keys and values of the cached prefix of `prompt`, for `adopt_prefix` of another
        engine with the same weights and options.

        Engines compare fingerprints of their weights. The first call reads all weights, unless
        host_cache or disk_cache have read the weights.

        Args:
            prompt: Text, segments or token ids.
            namespace: Cache namespace of the prompt.
            transport: "memory": copy to host memory. "cuda": copy within the memory of the GPU.

        Raises:
            OptionError: The model has recurrent layers, several GPUs share the model, or the
                transport is not possible.
        """
        namespace = arguments.string("namespace", namespace)
        transport = arguments.string("transport", transport)
        device = torch.device(self.device)
        check_transport(transport, ("memory", "cuda"))
        if transport == "cuda" and device.type != "cuda":
            message = f"a prefix on {device} is not in the memory of a GPU"
            raise OptionError(message, 'use transport="memory"')
        (tokens,) = self._input_processor.tokens([prompt])
        items = np.flatnonzero(tokens >= self.vocab_size)  # ids of items differ between engines
        text = tokens[: items[0]] if len(items) else tokens
        self._prepare_layout()

        def export() -> CachedPrefix:
            return export_prefix(self._cache, text, namespace, device, self._layout())

        prefix = self._loop.call(export)
        return prefix if transport == "cuda" else replace(prefix, content=prefix.content.cpu())

    def adopt_prefix(self, prefix: AnyPrefix, namespace: str = "") -> int:
        """Insert the prefix of another engine into the cache.

        Args:
            prefix: Result of `export_prefix` of an engine with the same weights, in this process or
                in a host process.
            namespace: Cache namespace for the prefix.

        Returns:
            The number of new cached tokens; 0 without room.

        Raises:
            OptionError: The engines differ in weights, dtype or storage format, several GPUs share
                the model, or `prefix` is no result of `export_prefix`.
        """
        namespace = arguments.string("namespace", namespace)
        if not isinstance(getattr(prefix, "tokens", None), np.ndarray):
            raise OptionError(f"{shown(prefix)} is no prefix", "give the result of export_prefix")
        self._prepare_layout()
        device, tokens = torch.device(self.device), prefix.tokens
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < self.vocab_size:
            message = f"a prefix has token ids from {tokens.min()} to {tokens.max()}"
            raise OptionError(message, f"the vocabulary has {self.vocab_size:,} tokens")
        # Content of another process arrives here, not between two steps.
        received = CachedPrefix(tokens, prefix.content, prefix.layout)

        def adopt() -> int:
            layout = self._layout()
            self._loop.journal.name(tokens)
            self._loop.tiers.note_change()
            return adopt_prefix(self._cache, received, namespace, device, layout)

        return self._loop.call(adopt)

    def _prepare_layout(self) -> None:
        """Compare the weights and compute the fingerprint on this thread, next to the steps."""
        if self.options.tensor_parallel > 1:  # each rank has the keys and values of its heads
            raise OptionError(
                "a prefix of a model on several GPUs cannot be handed over",
                "let the other engine compute the prefix",
            )
        self._loop.check_open()
        self._weight_guard.check(always=True, stacklevel=4)
        self._fingerprint.get()

    def _layout(self) -> tuple[str, ...]:
        """Return the identity of the cached keys and values. Call on the engine's thread: another
        thread may change the weights after `_prepare_layout`."""
        fingerprint = self._fingerprint.get()  # before the comparison: both see the same weights
        self._weight_guard.check_unchanged()
        return fingerprint[:16], str(self.dtype), self.options.kv_dtype

    def cached_length(self, prompt: Prompt) -> int:
        """Return the number of leading tokens of `prompt` in the cache, without side effects."""
        self.log.home.check()
        (tokens,) = self._input_processor.tokens([prompt])
        return self._loop.call(lambda: self._cache.cached_length(tokens))

    def find_part_order(
        self,
        find: Callable[[CachedPrompt], T],
        prompt: PartsPrompt,
        default: T,
        then: Callable[[T], object],
    ) -> None:
        """Search an order of a prompt's parts in the cache, between two steps.

        Args:
            find: Returns the order, for measurements of the cache.
            prompt: The prompt with the parts.
            default: The result after an error, which is only logged.
            then: Receives the result, on the engine's thread.
        """

        def search() -> None:
            result = default
            try:
                stored = self._loop.tiers.stored_keys()
                result = find(CachedPrompt(self._cache.tree, prompt, stored))
            except Exception:
                _log.exception("the search for an order of parts failed")
            then(result)

        self._loop.run_soon(search)

    def prefetch(self, prompt: Prompt) -> int:
        """Load the stored prefix of a prompt from `host_cache` or `disk_cache`, before a request
        needs the prefix. Does not wait for the load.

        Args:
            prompt: Text, segments or token ids.

        Returns:
            The number of tokens on the way; 0 if nothing is stored, or computing is faster.
        """
        (tokens,) = self._input_processor.tokens([prompt])

        def prefetch() -> int:
            self._loop.journal.name(tokens)
            return self._loop.tiers.prefetch(tokens)

        return self._loop.call(prefetch, at_once=False) or 0
