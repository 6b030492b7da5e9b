"""`load(replicas=n)`: a fleet is the current backend, until another load or `unload`."""

from __future__ import annotations

from typing import Any

import pytest

import sgnb
from sgnb.backends.fleet import fleet_executor
from sgnb.errors import OptionError
from sgnb.magics.fleets import SessionFleet
from sgnb.magics.session import Session
from sgnb.segment import Segment


def test_a_fleet_is_the_backend_of_programs(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session()
    options = {"replicas": 2, "on": "threads", "device": "cpu", "max_total_tokens": 4096}
    fleet = session.load("tiny", **options)
    assert session.load("tiny", **options) is fleet
    assert "tiny is loaded already: 2 workers" in capsys.readouterr().out
    assert session.engines.backend().executor is fleet

    @sgnb.function
    def line(s: sgnb.State) -> None:
        s += "The harbour " + sgnb.gen("text", max_tokens=4, temperature=0)

    assert line.run()["text"]
    session.cache.show()
    shown = capsys.readouterr().out
    assert "The harbour" in shown, "the tree of the worker"
    assert shown.count("radix tree") == shown.count("pool of 4096") == 2, "a tree per worker"
    stats = session.cache.stats()
    assert stats["prompt_tokens"] == sum(c["prompt_tokens"] for c in fleet.stats().values()) > 0
    assert repr(stats).split("\n")[0].split() == [
        "figure", "worker", "0", "worker", "1", "total",
    ]  # fmt: skip
    dry = session.dry(line)
    assert [call.name for call in dry.calls] == ["text"]
    assert dry.calls[0].prompt_tokens == len(fleet.encode([Segment("The harbour ")]))
    cached = stats["cached"]
    assert session.cache.flush() == cached > 0
    assert session.cache.stats()["cached"] == 0
    with pytest.raises(OptionError, match="a shared engine has no replicas"):
        session.load("tiny", shared=True, replicas=2)
    with pytest.raises(OptionError, match="on='nowhere' is not allowed"):
        session.load("tiny", replicas=2, on="nowhere")
    (row,) = (row for row in session.engines.ls() if row["current"])
    assert (row["current"], row["replicas"]) == ("*", "2 workers, threads")
    for options in ({"shared": True}, {"replicas": 2}):
        with pytest.raises(OptionError, match="tokenizer= needs an engine in this process"):
            session.load("tiny", tokenizer=object(), **options)
    with pytest.raises(OptionError, match="replicas=True is not allowed"):
        session.load("tiny", replicas=True)
    assert fleet._end.alive, "a wrong option ends nothing"
    assert not fleet.closed
    session.unload()
    assert (fleet.closed, fleet.state) == (True, "closed")


class FakeFleet:
    """A fleet without engines. The end is interrupted if `interrupted`."""

    state, log = "2 workers", None

    def __init__(self) -> None:
        self.closed = self.interrupted = False

    def close(self) -> None:
        self.closed = True
        if self.interrupted:
            raise KeyboardInterrupt


@pytest.fixture
def fleets(monkeypatch: pytest.MonkeyPatch) -> SessionFleet:
    monkeypatch.setattr(fleet_executor.FleetExecutor, "load", lambda model, **options: FakeFleet())
    return SessionFleet(lambda executor: [], lambda text: None)


def test_a_fleet_without_workers_is_loaded_again(fleets: SessionFleet) -> None:
    first: Any = fleets.load("tiny", 2, "", {})
    assert fleets.load("tiny", 2, "", {}) is first
    first.closed = True
    assert fleets.load("tiny", 2, "", {}) is not first


def test_an_interrupted_end_forgets_the_fleet(fleets: SessionFleet) -> None:
    fleet: Any = fleets.load("tiny", 2, "", {})
    fleet.interrupted = True
    with pytest.raises(KeyboardInterrupt):
        fleets.close("a test")
    assert fleets.executor is None
