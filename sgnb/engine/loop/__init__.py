"""Engine thread: commands in, steps, events and results out."""

from __future__ import annotations

from .engine_loop import EngineLoop
from .weight_guard import WeightGuard

__all__ = ["EngineLoop", "WeightGuard"]
