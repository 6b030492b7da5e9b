"""Paths of the models that ship inside the package. Loads no weights.

`python -m sgnb.models` prints the model cards.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import ModelError, nearest

_HERE = Path(__file__).parent


def names() -> tuple[str, ...]:
    """Return the names of the bundled models, sorted."""
    return tuple(sorted(config.parent.name for config in _HERE.glob("*/config.json")))


def path(name: str = "tiny") -> Path:
    """Return the folder of a bundled model in transformers' format.

    Args:
        name: name of a bundled model; see `names`.

    Raises:
        ModelError: no bundled model has this name.
    """
    if name not in names():
        raise ModelError(f"no bundled model is called {name!r}", nearest(name, names()))
    return _HERE / name
