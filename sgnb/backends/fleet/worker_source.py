"""Engines of a fleet's workers, which start and end while the fleet runs."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any, NamedTuple, Protocol

import torch

from ...engine import Engine
from ...engine.options import EngineOptions
from ...errors import EngineError
from ..any_engine import AnyEngine
from ..remote.lifetime import start_child
from .scaling import Scaler


class WorkerSource(Protocol):
    """Start and end of engines. All methods may wait, and are called on several threads."""

    def start(self, worker: int) -> AnyEngine:
        """Start an engine for the worker of this number."""
        ...

    def stop(self, engine: AnyEngine) -> None:
        """End an engine, or release what an ended engine has left."""
        ...

    def close(self) -> None:
        """End all engines, also of starts in progress. Idempotent."""
        ...


class Scaling(NamedTuple):
    """Workers that start and end while the fleet runs."""

    source: WorkerSource
    scaler: Scaler


class LocalSource:
    """Engines in processes or threads of this machine.

    Args:
        model: As in `Engine`.
        options: Options of each engine.
        on: "processes" or "threads".
    """

    def __init__(self, model: str, options: dict[str, Any], on: str) -> None:
        self._model, self._options, self._on = model, options, on
        self._engines: set[AnyEngine] = set()
        self._guard, self._closed = threading.Lock(), False

    def start(self, worker: int) -> AnyEngine:
        """See `WorkerSource`."""
        options = self._options | worker_device(self._options, worker)
        in_process = self._on == "processes"
        engine = start_child(self._model, options) if in_process else Engine(self._model, **options)
        with self._guard:
            if not self._closed:
                self._engines.add(engine)
                return engine
        engine.close()
        raise EngineError("the fleet is closed", "load it again")

    def stop(self, engine: AnyEngine) -> None:
        """See `WorkerSource`."""
        engine.close()
        with self._guard:
            self._engines.discard(engine)

    def close(self) -> None:
        """See `WorkerSource`."""
        with self._guard:
            self._closed = True
            engines, self._engines = self._engines, set()
        with ExitStack() as closing:  # an interrupt of one end leaves no other engine open
            for engine in engines:
                closing.callback(engine.close)


def worker_device(options: dict[str, Any], worker: int) -> dict[str, str]:
    """Return the first GPU of a worker on a machine with several GPUs, as an option."""
    gpus, ranks = torch.cuda.device_count(), EngineOptions.make(options).tensor_parallel
    if gpus < 2 or options.get("device") not in (None, "auto", "cuda"):
        return {}
    return {"device": f"cuda:{worker % max(gpus // ranks, 1) * ranks}"}
