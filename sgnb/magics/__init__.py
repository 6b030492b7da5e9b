"""What a notebook sees: `%%sglang`, `%sglang`, and the session shared with their Python twins.

Importing this imports no IPython: `load_ipython_extension` runs inside it.
"""

from __future__ import annotations

from typing import Any

__all__ = ["load_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext sgnb`: give IPython's `shell` the magics. Harmless when repeated: the session and
    its engines stay."""
    from .complete import completer
    from .magic import SglangMagics
    from .session import SESSION

    if "sglang" in shell.magics_manager.magics["cell"]:
        return
    SglangMagics(shell).register()
    for magic in ("%%sglang", "%sglang"):
        shell.set_hook("complete_command", completer(SESSION), str_key=magic)
