"""Events of a fleet: workers, and the reason of each routing decision. Knows no log."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass


@dataclass(frozen=True, slots=True)
class WorkerJoined:
    """An engine takes calls of the fleet."""

    worker: int  # number in the fleet, from 0
    name: str  # of the model
    engine: int  # number of the engine's joined log


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker of the fleet failed, or was not needed. Other workers continue the calls."""

    worker: int
    reason: str
    engine: int  # number of the ended engine's joined log


@dataclass(frozen=True, slots=True)
class FleetScaled:
    """The number of workers changes."""

    worker: int
    change: str
    """"start", "drain" (no more calls), "resume", "stop", or "fail" (no start, an end before
    the first token, or too many ends)."""
    reason: str


@dataclass(frozen=True, slots=True)
class CallRouted:
    """A call was sent to a worker. Times are in seconds, and estimates except for `waited`."""

    run: str
    branch: str
    name: str  # variable set by the call
    worker: int
    engine: int  # number of the worker's joined log
    tokens: int  # Prompt tokens.
    cached: int  # Prompt tokens in the worker's cache, or in earlier calls of the worker.
    wait: float  # Time until the prefill.
    work: float  # Prefill of the uncached tokens.
    others: float  # Sum of the delays of later calls.
    elsewhere: float  # Time to the first token on the least busy worker.
    waited: float = 0.0  # Measured time in the fleet before this event.
    compared: tuple[int, ...] = ()  # The workers of least cost, the cheapest first.
    compared_cached: tuple[int, ...] = ()  # Per compared worker: as `cached`.
    compared_first: tuple[float, ...] = ()  # Per compared worker: `wait` plus `work`.
    compared_others: tuple[float, ...] = ()  # Per compared worker: as `others`.


@dataclass(frozen=True, slots=True)
class CallRetried:
    """The worker of a call ended. `CallRouted` follows."""

    run: str
    branch: str
    name: str
    worker: int  # the lost worker
    tokens: int  # Received output tokens.


FLEET_KINDS: dict[str, type] = {
    cls.__name__: cls
    for cls in list(globals().values())
    if isinstance(cls, type) and is_dataclass(cls)
}
