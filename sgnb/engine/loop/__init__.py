"""Engine thread: commands in, steps, events and results out."""

from __future__ import annotations

from .cache_methods import CacheMethods
from .engine_loop import EngineLoop
from .token_gate import TokenStepper
from .weight_guard import WeightGuard

__all__ = ["CacheMethods", "EngineLoop", "TokenStepper", "WeightGuard"]
