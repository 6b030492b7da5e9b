"""Shared use of a transformers model by several engines: the first engine prepares the model, the
last engine restores the model. Knows nothing about the preparation."""

from __future__ import annotations

import threading
import weakref
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn

from ...errors import ModelError

_lock = threading.Lock()
_uses: list[_Use] = []


class Setup(NamedTuple):
    """Settings that must be equal for all engines on a model."""

    device: torch.device
    dtype: torch.dtype
    fuse: bool
    deterministic: bool
    compile: bool
    rope_length: int | None  # see `rope.fixed_length`


class PreparedModel(Protocol):
    def release(self) -> None:
        """Restore the model."""


class _Use:
    def __init__(self, model: nn.Module, setup: Setup) -> None:
        self.model, self.setup = model, setup
        self.modules = frozenset(model.modules())
        self.leases: weakref.WeakSet[Lease] = weakref.WeakSet()
        self.made: Any = None  # None during preparation by the first engine


class Lease:
    """Use of a model by one engine, until `release` or garbage collection."""

    def __init__(self, use: _Use) -> None:
        self._use = use
        use.leases.add(self)

    @property
    def made(self) -> Any:
        """Result of the first engine's preparation; None until the first engine sets the result."""
        return self._use.made

    @made.setter
    def made(self, value: PreparedModel) -> None:
        self._use.made = value

    def release(self) -> None:
        """End the use. Idempotent."""
        self._use.leases.discard(self)
        _give_back()

    def __del__(self) -> None:
        self.release()


def lease(name: str, model: nn.Module, setup: Setup) -> Lease:
    """Lease the model, alone or shared with engines of the same setup.

    Raises:
        ModelError: Another engine uses the model with a different setup, is still loading the
            model, or uses a model with shared modules.
    """
    _give_back()
    try:
        with _lock:
            return _lease(name, model, setup)
    finally:
        _give_back()


def _lease(name: str, model: nn.Module, setup: Setup) -> Lease:
    hint = "close that engine first"
    modules = frozenset(model.modules())
    for use in _uses:
        if not use.leases or use.modules.isdisjoint(modules):
            continue
        if use.model is not model:
            said = f"{name} shares modules with {type(use.model).__name__}, which an engine uses"
            raise ModelError(said, hint)
        if use.modules != modules:
            said = f"{name} has other modules now than when an engine took it into use"
            raise ModelError(said, hint)
        if use.made is None:
            raise ModelError(f"{name} is being loaded by another engine", "wait for it")
        for field, theirs, ours in zip(Setup._fields, use.setup, setup, strict=True):
            if theirs != ours:
                said = f"{name} is in use by an engine with {field}={theirs}, not {ours}"
                raise ModelError(said, f"{hint}, or give both the same options")
        return Lease(use)
    _uses.append(_Use(model, setup))
    return Lease(_uses[-1])


def _give_back() -> None:
    """Restore unused models. Never blocks: finalizers of engines may run here while a thread inside
    the lock waits for the same engine. The lock's holder calls this function afterwards."""
    while any(not use.leases for use in _uses) and _lock.acquire(blocking=False):
        try:
            for use in [use for use in _uses if not use.leases]:
                _uses.remove(use)
                if use.made is not None:
                    use.made.release()
        finally:
            _lock.release()
