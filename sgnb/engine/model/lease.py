"""Who runs a model: engines on one transformers model share what the first of them made of it, and
the last gives it back as it was found. Knows nothing of what is made."""

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
    """What engines that share a model must agree in."""

    device: torch.device
    dtype: torch.dtype
    fuse: bool
    deterministic: bool
    compile: bool
    rope_length: int | None  # see `rope.fixed_length`


class Made(Protocol):
    def release(self) -> None:
        """Leave the model as it was found."""


class _Use:
    def __init__(self, model: nn.Module, setup: Setup) -> None:
        self.model, self.setup = model, setup
        self.modules = frozenset(model.modules())
        self.leases: weakref.WeakSet[Lease] = weakref.WeakSet()
        self.made: Any = None  # None while the first engine makes it


class Lease:
    """One engine's use of a model. It ends with `release`, or when it is no longer held."""

    def __init__(self, use: _Use) -> None:
        self._use = use
        use.leases.add(self)

    @property
    def made(self) -> Any:
        """What the first engine made of the model; None for that engine, until it says so."""
        return self._use.made

    @made.setter
    def made(self, value: Made) -> None:
        self._use.made = value

    def release(self) -> None:
        """Harmless when repeated."""
        self._use.leases.discard(self)
        _give_back()

    def __del__(self) -> None:
        self.release()


def lease(name: str, model: nn.Module, setup: Setup) -> Lease:
    """Take the model into use, alone or beside the engines that have it with the same setup.

    Raises ModelError where another engine has it with a different setup, is still loading it, or
    has a model that shares modules with it.
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
    """Release what no engine uses any more. Never waits: an engine's thread may be here while
    another thread, inside the lock, waits for that engine to end (its finalizer can run anywhere).
    Whoever has the lock comes here after it."""
    while any(not use.leases for use in _uses) and _lock.acquire(blocking=False):
        try:
            for use in [use for use in _uses if not use.leases]:
                _uses.remove(use)
                if use.made is not None:
                    use.made.release()
        finally:
            _lock.release()
