"""Engine thread: commands in, steps, events and results out."""

from __future__ import annotations

from .endings import closed_error
from .engine_loop import EngineLoop

__all__ = ["EngineLoop", "closed_error"]
