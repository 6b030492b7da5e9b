"""Structured generation in notebooks (`%load_ext sgnb`, then `%%sglang`) and scripts (`import sgnb
as sgl`).

Public names are imported lazily at first use, because `import sgnb` must load neither torch nor
IPython.
"""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter
from typing import Any

__version__ = "0.1.0"

_LANGUAGE = (
    "ChoicesDecision",
    "ChoicesSamplingMethod",
    "CompiledProgram",
    "Graph",
    "REGEX_BOOL",
    "REGEX_FLOAT",
    "REGEX_INT",
    "REGEX_STR",
    "Snapshot",
    "Tool",
    "ToolCall",
    "agent",
    "assistant",
    "assistant_begin",
    "assistant_end",
    "audio",
    "beam_search",
    "best_of_n",
    "data",
    "function",
    "gen",
    "gen_int",
    "gen_string",
    "global_config",
    "greedy_token_selection",
    "image",
    "judge",
    "majority_vote",
    "map_over",
    "raw",
    "retry",
    "select",
    "separate_reasoning",
    "system",
    "system_begin",
    "system_end",
    "token_length_normalized",
    "tool",
    "tree_search",
    "unconditional_likelihood_normalized",
    "unordered",
    "use_tools",
    "user",
    "user_begin",
    "user_end",
    "video",
)
_SESSION = (
    "bench",
    "bench_paper",
    "cache",
    "cancel",
    "check",
    "compare",
    "dashboard",
    "dry",
    "engines",
    "flush_cache",
    "fsm",
    "get_server_info",
    "lab",
    "load",
    "open_recording",
    "recording",
    "recordings",
    "runs",
    "set_default_backend",
    "tour",
    "unload",
    "why_no_hit",
    "why_slow",
    "why_waiting",
)

_ENGINES = ("attach", "serve", "share")

_API = ("Anthropic", "LiteLLM", "OpenAI", "RuntimeEndpoint", "VertexAI")

_HOME = {
    **{name: f"lang:{name}" for name in _LANGUAGE},
    **{name: f"magics.session:SESSION.{name}" for name in _SESSION},
    **{name: f"magics.session:SESSION.engines.{name}" for name in _ENGINES},
    **{name: f"backends.api:{name}" for name in _API},
    "Engine": "backends:Engine",
    "Workload": "benchmark:Workload",
    "SamplingParams": "sampling:SamplingParams",
    "SgnbError": "errors:SgnbError",
    "doctor": "magics.doctor:check",
    "read_documents": "grammar.documents:read_documents",
    "load_ipython_extension": "magics:load_ipython_extension",
}
"""Public name -> module:attribute."""

_FORMER = {
    "open_trace": "open_recording",
    "stop": "cancel",
    "trace": "recording",
    "traces": "recordings",
}
"""Former name -> name. The former name works with a warning."""

_NOT_YET = {
    "Runtime": "an engine runs in this process, without a server: sgnb.Engine(model_path=...)",
    "ServerArgs": "an engine takes its options by name: sgnb.Engine(model_path=..., ...)",
}
"""Names of SGLang that sgnb does not implement -> the nearest alternative."""

__all__ = [*sorted(_HOME), "errors"]


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module(".errors", __name__)
    if name in _NOT_YET:
        return _not_yet(name)
    if name in _FORMER:
        new = _FORMER[name]
        import_module(".errors", __name__).renamed(f"sgnb.{name}", f"sgnb.{new}")
        return getattr(import_module(__name__), new)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, path = _HOME[name].partition(":")
    value = attrgetter(path)(import_module(f".{module}", __name__))
    if module == "lang":
        import_module(".backends", __name__)  # lets programs run on engines
    globals()[name] = value
    return value


def _not_yet(name: str) -> Any:
    """Return a stub that raises OptionError when called, because an import must not fail."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        error = import_module(".errors", __name__).OptionError
        raise error(f"sgnb.{name} does not exist yet", _NOT_YET[name])

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
