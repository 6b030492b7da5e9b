"""Routing policies of several engines, in a simulation of the calls and of the engines' caches.

The environment variable MOONCAKE_TRACE names Mooncake's `conversation_trace.jsonl`; without it, the
calls are a synthetic trace of its shape.
"""

from __future__ import annotations

from .report import run

__all__ = ["run"]
