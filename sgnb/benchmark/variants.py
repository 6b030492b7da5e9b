"""Ablations: the program without one technique of the engine. Runs no measurement.

All variants run on one engine. Techniques per request are disabled by options of the request
(`backends.local.CallOverrides`), engine-wide techniques by switches between runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..events import RequestAdmitted, RequestQueued
from .work import Work

if TYPE_CHECKING:
    from ..backends.local import CallOverrides
    from ..engine import Engine


class TechniqueUsage(NamedTuple):
    """Observed use of techniques in a run of the unmodified program."""

    engine: Engine
    counts: dict[str, int]  # differences of `Engine.stats`
    work: Work
    overtaken: bool  # some request began before an earlier request


@dataclass(frozen=True)
class Ablation:
    """A technique to disable."""

    technique: str  # name after "with" or "without": "the prefix cache"
    unused: Callable[[TechniqueUsage], str]  # reason for the absence of an effect, or ""
    count: str = ""  # engine counter reduced by the technique
    measure: str = ""  # display name of the counter
    switched: dict[str, Any] = field(default_factory=dict)  # engine options during the run


def _never(count: str, why: str) -> Callable[[TechniqueUsage], str]:
    return lambda usage: "" if usage.counts[count] else why


def _no_order(usage: TechniqueUsage) -> str:
    if usage.engine.options.schedule_policy == "fcfs":
        return "the engine was loaded with schedule_policy='fcfs'"
    return "" if usage.overtaken else "all requests started in the order of arrival"


def _no_overlap(usage: TechniqueUsage) -> str:
    if usage.engine.options.overlap:
        return ""
    return "the engine does not overlap steps; on a CPU load with overlap=True"


def _only_text(usage: TechniqueUsage) -> str:
    has_output = any(
        s.kind == "output" and s.tokens for call in usage.work.calls for s in call.segments
    )
    return "" if has_output else "no prompt contains generated tokens"


ABLATIONS = {
    "nocache": Ablation(
        "the prefix cache",
        _never("cached_tokens", "no prompt token was found in the cache"),
        "computed_tokens",
        "tokens computed",
    ),
    "fcfs": Ablation(
        "cache-aware scheduling",
        _no_order,
        "computed_tokens",
        "tokens computed",
        {"schedule_policy": "fcfs"},
    ),
    "nojump": Ablation(
        "jump-forward",
        _never("jumped_tokens", "no token was forced by a grammar"),
        "steps",
        "forward passes",
    ),
    "nofork": Ablation(
        "fork-aware attention",
        _never("cascade_steps", "no step read a prefix once for several requests"),
    ),
    "nooverlap": Ablation("overlapped steps", _no_overlap, switched={"overlap": False}),
    "text": Ablation(
        "the model's own tokens in prompts (text is sent instead)",
        _only_text,
        "computed_tokens",
        "tokens computed",
    ),
}

PER_REQUEST = ("nocache", "nojump", "nofork")
"""Ablations by options of requests, for `--vs`. The others change the engine or the prompts."""


def overrides_for(variant: str, namespace: str) -> CallOverrides:
    """Return options for requests in a private part of the cache. Calls without a seed get a seed
    from the call's position, equal in every run.

    Args:
        variant: Ablation, or "" for the unmodified program.
        namespace: Cache namespace of the run.
    """
    from ..backends.local import CallOverrides
    from ..engine.cache.sequence import CacheScope

    scope = CacheScope(None if variant == "nocache" else namespace, variant != "nofork")
    return CallOverrides(scope, jump_forward=variant != "nojump", seeded=True)


@contextmanager
def switched(engine: Engine, variant: str) -> Iterator[None]:
    """Switch the engine options of an ablation inside a context.

    Args:
        engine: Engine to switch.
        variant: Ablation; others change nothing.
    """
    options = ABLATIONS[variant].switched if variant in ABLATIONS else {}
    previous = {name: getattr(engine.options, name) for name in options}
    if options:
        engine.switch(**options)
    try:
        yield
    finally:
        if options:
            engine.switch(**previous)


def was_overtaken(engine: Engine, after: int) -> bool:
    """Return True if a request began before an earlier request, or if the log has dropped records.

    Args:
        engine: Engine with the log.
        after: Sequence number of the last record before the run.
    """
    records, lost = engine.log.read(after)
    came = [r.event.request for r in records if isinstance(r.event, RequestQueued)]
    began = [r.event.request for r in records if isinstance(r.event, RequestAdmitted)]
    began = list(dict.fromkeys(began))
    return bool(lost) or began != [id for id in came if id in set(began)]
