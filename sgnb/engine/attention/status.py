"""Active attention kernels of an engine, for display."""

from __future__ import annotations

import weakref
from typing import Any

from ...events import AttentionSwitched, EventLog
from .protocol import AttentionBackend


class AttentionStatus:
    """Active attention kernels, for display."""

    def __init__(self, log: EventLog) -> None:
        self.name = ""  # "torch", "triton" or, once they are compiled, "flashinfer"
        self._log = log
        self._backend: Any = lambda: None  # weak: a backend refers to the KV cache

    @property
    def compiling(self) -> bool:
        """True if faster kernels are compiling, or will compile after a first step."""
        return bool(getattr(self._backend(), "compiling", False))

    def watch(self, backend: AttentionBackend) -> None:
        self.name, self._backend = backend.name, weakref.ref(backend)

    def switched(self, before: str, after: str, seconds: float) -> None:
        self.name = after
        self._log.emit(AttentionSwitched(before, after, round(seconds, 3)))
