"""`load(replicas=n)`: a fleet is the current backend, until another load or `unload`."""

from __future__ import annotations

import pytest

import sgnb
from sgnb.errors import OptionError
from sgnb.magics.session import Session


def test_a_fleet_is_the_backend_of_programs(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session()
    options = {"replicas": 2, "on": "threads", "device": "cpu", "max_total_tokens": 4096}
    fleet = session.load("tiny", **options)
    assert session.load("tiny", **options) is fleet
    assert session.engines.backend().executor is fleet

    @sgnb.function
    def line(s: sgnb.State) -> None:
        s += "The harbour " + sgnb.gen("text", max_tokens=4, temperature=0)

    assert line.run()["text"]
    session.cache.show()
    shown = capsys.readouterr().out
    assert "The harbour" in shown, "the tree of the worker"
    assert shown.count("radix tree") == shown.count("pool of 4096") == 2, "a tree per worker"
    with pytest.raises(OptionError, match="a shared engine has no replicas"):
        session.load("tiny", shared=True, replicas=2)
    with pytest.raises(OptionError, match="on='nowhere' is not allowed"):
        session.load("tiny", replicas=2, on="nowhere")
    assert "*" not in str(session.engines), "the fleet is current, and no engine"
    for options in ({"shared": True}, {"replicas": 2}):
        with pytest.raises(OptionError, match="tokenizer= needs an engine in this process"):
            session.load("tiny", tokenizer=object(), **options)
    with pytest.raises(OptionError, match="replicas=True is not allowed"):
        session.load("tiny", replicas=True)
    assert fleet._end.alive, "a wrong option ends nothing"
    session.unload()
    assert not fleet._end.alive
