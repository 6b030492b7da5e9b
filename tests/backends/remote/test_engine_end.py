"""A fatal error of an engine reaches the clients of its host with the reason, and at once."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from sgnb.backends.fleet.fleet_executor import FleetExecutor
from sgnb.backends.remote.engine_host import EngineHost
from sgnb.backends.remote.registry import tokenizer_source
from sgnb.backends.remote.remote_engine import RemoteEngine
from sgnb.engine import Engine
from sgnb.errors import EngineError
from sgnb.events import CallRetried, WorkerLost

from ..fleets import events
from ..test_fleet_growth import OPTIONS, tale
from .conftest import dial, wait_until

TOKEN = "secret"


def test_a_fatal_error_is_the_reason_of_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call on the host continues on the other worker, and the event names the error."""
    path = str(tmp_path / "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    with Engine("tiny", **OPTIONS) as local, Engine("tiny", **OPTIONS) as engine:
        host = EngineHost(engine, listener, TOKEN, tokenizer_source("tiny"))
        with RemoteEngine(dial(path), TOKEN, "test") as remote:
            assert remote.failure is None
            with FleetExecutor([remote, local]) as fleet:
                before = tale.run(0, backend=fleet)["text"]

                def broken(*_: Any) -> Any:
                    raise IndexError("lost a node")

                monkeypatch.setattr(engine._scheduler, "schedule", broken)
                states = [tale.run(number, backend=fleet) for number in range(4)]
                assert all(state["text"] for state in states)
                assert states[0]["text"] == before
                wait_until(lambda: remote.closed)
                (lost,) = events(fleet, WorkerLost)
                assert lost.reason == "the engine ended on IndexError: lost a node"
                assert events(fleet, CallRetried)
            assert remote.failure is not None
            with pytest.raises(EngineError, match="the engine ended on IndexError: lost a node"):
                remote.stats()
        host.close()
