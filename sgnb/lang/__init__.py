"""The language: programs that append text and generations to a state.

    @function
    def capital(s, country):
        s += user(f"What is the capital of {country}?")
        s += assistant(gen("answer", max_tokens=16))

Imports no engine, notebook or view. Backends implement the interface in `executor.py`.
"""

from . import ir
from .batches.saved import SavedState
from .chat.tools import Tool, ToolCall
from .compiled import CompiledProgram
from .core.choices import (
    ChoicesDecision,
    ChoicesSamplingMethod,
    greedy_token_selection,
    needs_unconditional,
    token_length_normalized,
    unconditional_likelihood_normalized,
)
from .core.fallback import fallback as _fallback
from .core.fork_group import ForkGroup
from .core.run import Run, watch
from .core.snapshot import Snapshot
from .core.state import ProgramState
from .decorator import SglFunction, function
from .executor import register_fallback as _register_fallback
from .graph.graph import Graph
from .ir import REGEX_BOOL, REGEX_FLOAT, REGEX_INT, REGEX_STR
from .location import name_cells
from .primitives.agents import agent
from .primitives.config import global_config, set_default_executor
from .primitives.expressions import (
    gen,
    gen_int,
    gen_string,
    select,
    separate_reasoning,
)
from .primitives.media_inputs import audio, image, video
from .primitives.patterns import (
    beam_search,
    best_of_n,
    judge,
    majority_vote,
    map_over,
    retry,
    tree_search,
)
from .primitives.roles import (
    assistant,
    assistant_begin,
    assistant_end,
    data,
    raw,
    system,
    system_begin,
    system_end,
    tool,
    use_tools,
    user,
    user_begin,
    user_end,
)
from .primitives.unordered import unordered

set_default_backend = set_default_executor
ir.SglFunction = SglFunction  # SGLang's path
_register_fallback(_fallback)

__all__ = [
    "REGEX_BOOL",
    "REGEX_FLOAT",
    "REGEX_INT",
    "REGEX_STR",
    "ChoicesDecision",
    "ChoicesSamplingMethod",
    "CompiledProgram",
    "ForkGroup",
    "Graph",
    "ProgramState",
    "Run",
    "SavedState",
    "SglFunction",
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
    "name_cells",
    "needs_unconditional",
    "raw",
    "retry",
    "select",
    "separate_reasoning",
    "set_default_backend",
    "set_default_executor",
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
    "watch",
]
