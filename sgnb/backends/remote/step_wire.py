"""Messages from a host during a connection."""

from __future__ import annotations

import msgspec

from .event_wire import WireEvent
from .output_wire import WireOutput
from .wire import Reply


class WireStep(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Events since the last `WireStep`, then outputs: everything of one engine step at least."""

    lost: int  # records that the engine's log dropped before this client read them
    events: list[WireEvent]
    outputs: list[WireOutput]


FromHost = Reply | WireStep
