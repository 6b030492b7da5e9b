"""Reasons why a request is not running."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class WaitReason(StrEnum):
    """Reason why a request is not running."""

    STEP_BUDGET = "step_budget"
    RUNNING_LIMIT = "running_limit"
    MEMORY = "memory"
    STATES = "states"
    SAME_PREFIX = "same_prefix"
    GRAMMAR = "grammar"
    MASK = "mask"
    PROCESSOR = "processor"
    ENCODER = "encoder"
    LOAD = "load"
    NEXT_STEP = "next_step"
    PAUSED = "paused"


_SENTENCES = {
    WaitReason.STEP_BUDGET: "running requests use all {available:,} tokens of a step",
    WaitReason.RUNNING_LIMIT: "{needed:,} requests would run, and the limit is {available:,}",
    WaitReason.MEMORY: "{needed:,} tokens of KV cache must be free, and {available:,} "
    "are available",
    WaitReason.STATES: "{needed:,} recurrent states must be free, and {available:,} are available",
    WaitReason.SAME_PREFIX: "another request computes the next tokens of the same prompt prefix",
    WaitReason.GRAMMAR: "the grammar is compiling",
    WaitReason.MASK: "the grammar computes the tokens that may come next",
    WaitReason.PROCESSOR: "the processor of the model reads the images, videos or sounds",
    WaitReason.ENCODER: "the images, videos or sounds of the prompt are being encoded",
    WaitReason.LOAD: "stored blocks of the prompt are being loaded",
    WaitReason.PAUSED: "the run is paused after a token",
    WaitReason.NEXT_STEP: "the request is queued for the next step",
}


class Wait(NamedTuple):
    """Reason of a wait, with figures in the unit of the reason: tokens, requests or states."""

    reason: WaitReason
    needed: int = 0
    available: int = 0

    def __str__(self) -> str:
        return _SENTENCES[self.reason].format(needed=self.needed, available=self.available)


class WaitingRequest(NamedTuple):
    """A request that is not running. `str()` is a sentence with the figures."""

    request: int | None  # id, as in events; None before the engine receives the request
    branch: str
    name: str  # variable set by the generation
    wait: Wait

    def __str__(self) -> str:
        number = "a request" if self.request is None else f"request {self.request}"
        return f"{number} ({self.name or self.branch}): {self.wait}"
