"""What an engine can be told when it is made, checked before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ..errors import OptionError, nearest
from .attention import BACKENDS
from .radix import EVICTION_POLICIES
from .scheduler import SCHEDULE_POLICIES

DTYPES = {
    "auto": "auto",
    "float32": "float32",
    "fp32": "float32",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
    "float16": "float16",
    "fp16": "float16",
}
"""What may be written for a dtype -> torch's name of it."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The switches of an engine; each technique can be turned off, to see what it is worth.

    device: "auto", "cpu", "cuda". dtype: "auto", "float32", "bfloat16", "float16". attention: "auto" or "torch".
    context_length: positions a request may use; None for what the model was made for.
    max_total_tokens: size of the KV pool in tokens; None to fit the memory.
    max_step_tokens: tokens of one forward pass; longer prompts are computed in chunks.
    max_running_requests: requests in one forward pass.
    prefix_cache: keep computed prefixes in the radix tree. fork_attention: read a prefix that requests of one step
    share once. jump_forward: append what a grammar forces without asking the model.
    fuse: use faster twins of the model's modules where they agree.
    schedule_policy: "lpm" (longest cached prefix first, aged) or "fcfs".
    max_overtaking: a waiting request is overtaken only by those that arrive within so many steps after it.
    eviction_policy: "lru", "lfu", "fifo" or "slru".
    """

    device: str = "auto"
    dtype: str = "auto"
    attention: str = "auto"
    context_length: int | None = None
    max_total_tokens: int | None = None
    max_step_tokens: int = 2048
    max_running_requests: int = 256
    prefix_cache: bool = True
    fork_attention: bool = True
    jump_forward: bool = True
    fuse: bool = True
    schedule_policy: str = "lpm"
    max_overtaking: int = 1024
    eviction_policy: str = "lru"

    def __post_init__(self) -> None:
        for name in ("context_length", "max_total_tokens", "max_step_tokens", "max_running_requests", "max_overtaking"):
            value = getattr(self, name)
            optional = name in ("context_length", "max_total_tokens")
            if not (optional and value is None) and (
                not isinstance(value, int) or isinstance(value, bool) or value < 1
            ):
                raise OptionError(
                    f"{name}={value!r} is not allowed", f"{name} must be {'None or ' if optional else ''}1 or more"
                )
        for name in ("prefix_cache", "fork_attention", "jump_forward", "fuse"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"{name}={getattr(self, name)!r} is not allowed", f"{name} must be True or False")
        for name, known in (
            ("dtype", DTYPES),
            ("attention", BACKENDS),
            ("schedule_policy", SCHEDULE_POLICIES),
            ("eviction_policy", EVICTION_POLICIES),
        ):
            if getattr(self, name) not in known:
                raise OptionError(f"unknown {name} {getattr(self, name)!r}", nearest(str(getattr(self, name)), known))
        if self.max_step_tokens < self.max_running_requests:
            raise OptionError(
                f"max_step_tokens={self.max_step_tokens} is less than max_running_requests={self.max_running_requests}",
                "every running request needs a token in each step: raise the one or lower the other",
            )

    @classmethod
    def make(cls, options: dict[str, Any]) -> EngineOptions:
        """An unknown name is an OptionError that gives the nearest."""
        known = [f.name for f in fields(cls)]
        for name in options:
            if name not in known:
                raise OptionError(f"unknown engine option {name!r}", nearest(name, known))
        return cls(**options)
