"""The host process: loads a model, serves clients, and ends with its owner or when idle.

The starter writes a `HostConfig` as a line of JSON to the standard input, and reads lines of JSON
from the standard output: stages of the load, then the record of the host or a failure.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from threading import Timer
from typing import Any

from ...codec import build, parse
from ...errors import SgnbError
from .registry import HostConfig
from .wire import failure_of

CLOSE_SECONDS = 10.0
"""Time in which the engine closes; afterwards the process ends anyway."""

POLL_SECONDS = 0.5

FAILED = 3
"""Exit status after a failed load."""


def main() -> None:
    """Run a host process; see the module."""
    # The pipe is for messages: libraries print to the log instead.
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")

    def tell(**message: Any) -> None:
        with suppress(OSError, ValueError):  # the starter is gone
            output.write(json.dumps(message) + "\n")

    line = sys.stdin.buffer.readline()
    config = build(HostConfig, parse(line))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        serve(config, tell, output.close)
        os._exit(0)  # the exit of an interpreter with torch takes seconds
    except SgnbError as error:
        failure = failure_of(error)
        tell(failure=[failure.kind, failure.message, failure.hint])
        sys.exit(FAILED)


def serve(config: HostConfig, tell: Any, hang_up: Any) -> None:
    """Load the engine and serve clients until the end.

    Args:
        config: Settings.
        tell: Sends a message to the starter.
        hang_up: Called after the last message.
    """
    from ...engine import Engine
    from ...engine.device.load_stages import announced_to
    from .lifetime import SharedEngine

    options = parse(config.options)
    with announced_to(lambda stage: tell(stage=stage)):
        engine = Engine(config.model, **options)
    shared = SharedEngine(engine, options, config.name, "host")
    try:
        tell(ready=asdict(shared.record))
        hang_up()
        wait(config, shared.host)
    finally:
        end = Timer(CLOSE_SECONDS, os._exit, (0,))
        end.daemon = True
        end.start()
        shared.close()
        engine.close()


def wait(config: HostConfig, host: Any) -> None:
    """Return when the owner ends, when no client was there for `idle_seconds`, or when the engine
    stops. host: the `EngineHost`."""
    while not host.engine.closed:
        if config.owned:
            ready, _, _ = select.select([sys.stdin], [], [], POLL_SECONDS)
            if ready and not os.read(sys.stdin.fileno(), 4096):
                return
            continue
        time.sleep(min(POLL_SECONDS, config.idle_seconds))
        idle = host.idle_since
        if idle is not None and time.monotonic() - idle > config.idle_seconds:
            return
