"""Notebook interface: `%%sglang`, `%sglang`, and the session shared with the equivalent Python
functions.

Importing the package does not import IPython; `load_ipython_extension` runs inside IPython.
"""

from __future__ import annotations

from typing import Any

__all__ = ["load_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:
    """Register the magics with IPython (`%load_ext sgnb`). Idempotent: session and engines stay.

    Args:
        shell: IPython's interactive shell.
    """
    from .complete import completer
    from .complete_calls import program_matcher
    from .magic import SglangMagics
    from .report import cell_label, show_warnings
    from .session import SESSION

    if "sglang" in shell.magics_manager.magics["cell"]:
        return
    SglangMagics(shell).register()
    show_warnings(cell_label(shell))
    for magic in ("%%sglang", "%sglang"):
        shell.set_hook("complete_command", completer(SESSION), str_key=magic)
    shell.Completer.custom_matchers.append(program_matcher(shell.user_ns))
