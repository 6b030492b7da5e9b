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
_shared_models: list[_SharedModel] = []


class ModelSetup(NamedTuple):
    """Settings that must be equal for all engines on a model."""

    device: torch.device
    dtype: torch.dtype
    fuse: bool
    deterministic: bool
    compile: bool
    rope_length: int | None  # see `rope.fixed_length`


class PreparedModel(Protocol):
    """Result of the preparation of a model."""

    def release(self) -> None:
        """Restore the model."""


class _SharedModel:
    def __init__(self, model: nn.Module, setup: ModelSetup) -> None:
        self.model, self.setup = model, setup
        self.modules = frozenset(model.modules())
        self.uses: weakref.WeakSet[ModelUse] = weakref.WeakSet()
        self.prepared: Any = None  # None during preparation by the first engine


class ModelUse:
    """Use of a model by one engine, until `release` or garbage collection."""

    def __init__(self, shared: _SharedModel) -> None:
        self._shared = shared
        shared.uses.add(self)

    @property
    def prepared(self) -> Any:
        """Result of the first engine's preparation; None until the first engine sets the result."""
        return self._shared.prepared

    @prepared.setter
    def prepared(self, value: PreparedModel) -> None:
        self._shared.prepared = value

    def release(self) -> None:
        """End the use. Idempotent."""
        self._shared.uses.discard(self)
        _restore_unused()

    def __del__(self) -> None:
        self.release()


def share_model(name: str, model: nn.Module, setup: ModelSetup) -> ModelUse:
    """Begin a use of the model, alone or shared with engines of the same setup.

    Raises:
        ModelError: Another engine uses the model with a different setup, is still loading the
            model, or uses a model with shared modules.
    """
    _restore_unused()
    try:
        with _lock:
            return _share(name, model, setup)
    finally:
        _restore_unused()


def _share(name: str, model: nn.Module, setup: ModelSetup) -> ModelUse:
    hint = "close that engine first"
    modules = frozenset(model.modules())
    for shared in _shared_models:
        if not shared.uses or shared.modules.isdisjoint(modules):
            continue
        if shared.model is not model:
            family = type(shared.model).__name__
            raise ModelError(f"{name} shares modules with {family}, which an engine uses", hint)
        if shared.modules != modules:
            raise ModelError(f"{name} has other modules than an engine that uses the model", hint)
        if shared.prepared is None:
            raise ModelError(f"{name} is being loaded by another engine", "wait for that load")

        for field, theirs, ours in zip(ModelSetup._fields, shared.setup, setup, strict=True):
            if theirs != ours:
                message = f"{name} is in use by an engine with {field}={theirs}, not {ours}"
                raise ModelError(message, f"{hint}, or give both the same options")
        return ModelUse(shared)

    _shared_models.append(_SharedModel(model, setup))
    return ModelUse(_shared_models[-1])


def _restore_unused() -> None:
    """Restore unused models. Never blocks: finalizers of engines may run here while a thread inside
    the lock waits for the same engine. The lock's holder calls this function afterwards."""
    while any(not shared.uses for shared in _shared_models) and _lock.acquire(blocking=False):
        try:
            for shared in [shared for shared in _shared_models if not shared.uses]:
                _shared_models.remove(shared)
                if shared.prepared is not None:
                    shared.prepared.release()
        finally:
            _lock.release()
