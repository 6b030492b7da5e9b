"""SGLang's path of the language's functions: `sgnb.lang.api.gen` is `sgnb.gen`."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Return the name of the package `sgnb`."""
    return getattr(import_module(__name__.partition(".")[0]), name)
