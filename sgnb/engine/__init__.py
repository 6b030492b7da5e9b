"""The engine: runs a decoder in this process with a radix-tree KV cache. Knows no programs, no notebooks, no views.

`Engine` is looked up when first used: the radix tree and the scheduler need no torch.
"""

from typing import Any

__all__ = ["Engine", "Output"]


def __getattr__(name: str) -> Any:
    if name == "Engine":
        from .engine import Engine

        return Engine
    if name == "Output":
        from .output import Output

        return Output
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
