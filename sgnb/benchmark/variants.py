"""A program without a technique of the engine's: how it is run so, and why it may not differ.

All run on one engine: techniques that belong to requests are left out by how these share
(`backends.local.Apart`), those of the whole engine are switched between runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..events import RequestAdmitted, RequestQueued
from ..viz import ABLATIONS as COMPARED
from .work import Work

if TYPE_CHECKING:
    from ..backends.local import Apart
    from ..engine import Engine


class Seen(NamedTuple):
    """What a run of the program as it is showed: whether it used a technique at all."""

    engine: Engine
    counts: dict[str, int]  # differences of `Engine.stats`
    work: Work
    overtaken: bool  # some request began before one that came earlier


@dataclass(frozen=True)
class Ablation:
    """A technique that a variant does without."""

    technique: str  # "the prefix cache": with it, without it
    unused: Callable[[Seen], str]  # why leaving it out changes nothing; "" if it may
    count: str = ""  # of the engine's counts, what the technique saves beside time,
    measure: str = ""  # and what that is
    switched: dict[str, Any] = field(default_factory=dict)  # options of the whole engine


def _never(count: str, why: str) -> Callable[[Seen], str]:
    return lambda seen: "" if seen.counts[count] else why


def _no_order(seen: Seen) -> str:
    if seen.engine.options.schedule_policy == "fcfs":
        return "the engine was loaded with schedule_policy='fcfs'"
    return "" if seen.overtaken else "every request began in the order in which they came"


def _no_overlap(seen: Seen) -> str:
    if seen.engine.options.overlap:
        return ""
    return "the engine overlaps no steps, on a CPU unless it is loaded with overlap=True"


def _only_text(seen: Seen) -> str:
    made = any(s.kind == "output" and s.tokens for call in seen.work.calls for s in call.segments)
    return "" if made else "no prompt of it holds tokens that the model made"


ABLATIONS = {
    "nocache": Ablation(
        COMPARED["nocache"].technique,
        _never("cached_tokens", "nothing of its prompts was found in the cache"),
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
        COMPARED["nojump"].technique,
        _never("jumped_tokens", "no token of it was forced by a grammar"),
        "steps",
        "forward passes",
    ),
    "nofork": Ablation(
        COMPARED["nofork"].technique,
        _never("cascade_steps", "none of its steps read a prefix once for several"),
    ),
    "nooverlap": Ablation("overlapped steps", _no_overlap, switched={"overlap": False}),
    "text": Ablation(
        "the model's own tokens in prompts (text is sent instead)",
        _only_text,
        "computed_tokens",
        "tokens computed",
    ),
}


def apart(variant: str, namespace: str) -> Apart:
    """How the requests of a variant, or of the program as it is, share a part of the cache of
    their own. A call without a seed gets one by its place: the same in every run."""
    from ..backends.local import Apart
    from ..engine.cache.sequence import Sharing

    sharing = Sharing(None if variant == "nocache" else namespace, variant != "nofork")
    return Apart(sharing, jump_forward=variant != "nojump", seeded=True)


@contextmanager
def switched(engine: Engine, variant: str) -> Iterator[None]:
    """Without what the variant does without of the whole engine."""
    options = ABLATIONS[variant].switched if variant in ABLATIONS else {}
    before = {name: getattr(engine.options, name) for name in options}
    if options:
        engine.switch(**options)
    try:
        yield
    finally:
        if options:
            engine.switch(**before)


def was_overtaken(engine: Engine, after: int) -> bool:
    """Whether, after that record of the log, a request began before one that came earlier. True
    where the log has forgotten some of it."""
    records, lost = engine.log.read(after)
    came = [r.event.request for r in records if isinstance(r.event, RequestQueued)]
    began = [r.event.request for r in records if isinstance(r.event, RequestAdmitted)]
    began = list(dict.fromkeys(began))
    return bool(lost) or began != [id for id in came if id in set(began)]
