"""The models that ship inside the package: where their files lie. Loads nothing.

`python -m sgnb.models` prints their cards.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import ModelError, nearest

_HERE = Path(__file__).parent


def names() -> tuple[str, ...]:
    """The bundled models' names."""
    return tuple(sorted(config.parent.name for config in _HERE.glob("*/config.json")))


def path(name: str = "tiny") -> Path:
    """The folder of a bundled model, as transformers loads it. An unknown name is a ModelError."""
    if name not in names():
        raise ModelError(f"no bundled model is called {name!r}", nearest(name, names()))
    return _HERE / name
