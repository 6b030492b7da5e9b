"""SGLang's path of the language's functions: `sgnb.lang.api.gen` is `sgnb.gen`."""

from typing import Any

import sgnb


def __getattr__(name: str) -> Any:
    """Return the name of the package `sgnb`."""
    return getattr(sgnb, name)
