"""Structured generation in the notebook. `%load_ext sgnb`, then `%%sglang`; or `import sgnb as sgl`
in a script.

The public names are looked up when first used, so that importing sgnb imports neither torch nor
IPython.
"""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter
from typing import Any

__version__ = "0.1.0"

_LANGUAGE = (
    "assistant",
    "assistant_begin",
    "assistant_end",
    "data",
    "function",
    "gen",
    "gen_int",
    "gen_string",
    "greedy_token_selection",
    "raw",
    "select",
    "system",
    "system_begin",
    "system_end",
    "token_length_normalized",
    "unconditional_likelihood_normalized",
    "user",
    "user_begin",
    "user_end",
)
_SESSION = (
    "cache",
    "dry",
    "engines",
    "flush_cache",
    "fsm",
    "get_server_info",
    "load",
    "runs",
    "set_default_backend",
    "stop",
    "unload",
)

_HOME = {
    **{name: f"lang:{name}" for name in _LANGUAGE},
    **{name: f"magics.session:SESSION.{name}" for name in _SESSION},
    "Engine": "engine:Engine",
    "SamplingParams": "sampling:SamplingParams",
    "doctor": "magics.doctor:check",
    "load_ipython_extension": "magics:load_ipython_extension",
    "verify_jump_forward": "engine:verify_jump_forward",
}
"""Public name -> module:attribute."""

__all__ = [*sorted(_HOME), "errors"]


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module(".errors", __name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, path = _HOME[name].partition(":")
    value = attrgetter(path)(import_module(f".{module}", __name__))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
