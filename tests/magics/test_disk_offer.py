"""The offer of the disk cache: once per kernel, with the exact command, after a slow prefix."""

from __future__ import annotations

import shlex
from types import SimpleNamespace
from typing import Any

import pytest

from sgnb import events
from sgnb.events import EventLog, Record
from sgnb.magics.command_options import LOAD_OPTIONS
from sgnb.magics.disk_offer import DiskOffer
from sgnb.magics.loaded_engine import LoadedEngine
from sgnb.viz import Trees
from sgnb.viz.state.run_state import RunState
from tests.viz.make_log import Program, WordEngine


def run(seconds: float = 1.5, tokens: int = 300, namespace: str = "") -> RunState:
    """A run whose first token came `seconds` after the admission."""
    log = EventLog()
    program = Program(WordEngine(log), "r1")
    program.branch("0")
    prompt = tuple(range(tokens))
    place = 1, "r1", "0", "answer", "generate", prompt
    log.emit(events.RequestQueued(*place, namespace=namespace))
    log.emit(events.RequestAdmitted(1, 0))
    program.engine.step((), (events.Sampled(1, 7, -0.5),))
    state, late = RunState("r1", Trees()), 0.0
    for number, record in enumerate(log.read().records):
        late = seconds if isinstance(record.event, events.StepRan) else late
        state.apply(Record(number, late, record.event))
    return state


def loaded(model: str = "tiny", name: str = "", **options: Any) -> LoadedEngine:
    made = LoadedEngine.__new__(LoadedEngine)
    made.name, made.model, made.options = name or model.split("/")[-1], model, options
    tree = Trees()[0]
    tree.engine = events.EngineStarted("tiny", "cpu", "float32", "torch", 4096, 2048, 8)
    emitter: Any = SimpleNamespace(tree=tree)
    made.emitter = emitter
    return made


def test_the_offer_is_made_once() -> None:
    offer = DiskOffer()
    assert offer(loaded(), run()) == (
        "300 prompt tokens took 1.5 s to compute; %sglang load tiny --disk-cache on keeps such"
        " prefixes in files (not encrypted), also for the next kernel."
    )
    assert offer(loaded(), run()) == ""


@pytest.mark.parametrize("case", [run(0.9), run(tokens=200), run(namespace="mine")], ids="abc")
def test_no_offer_for_fast_short_or_private_prompts(case: RunState) -> None:
    offer = DiskOffer()
    assert offer(loaded(), case) == ""
    assert offer(loaded(), run()), "nothing was offered before"


REFUSED = [
    {"disk_cache": False},
    {"disk_cache": "/tmp/kv"},
    {"disk_cache": True},
    {"prefix_cache": False},
]


@pytest.mark.parametrize("options", REFUSED, ids=lambda options: "-".join(map(str, options)))
def test_no_offer_where_the_user_chose_or_the_model_cannot(options: dict[str, Any]) -> None:
    assert DiskOffer()(loaded(**options), run()) == ""


def test_no_offer_with_the_variable_a_disk_cache_or_an_own_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = loaded()
    made.emitter.tree.tiers = events.TiersStarted(0, 1 << 30, 64, 256)
    assert DiskOffer()(made, run()) == ""
    made.emitter.tree.tiers = events.TiersStarted(1 << 30, 0, 64, 256)
    assert DiskOffer()(made, run()), "host memory does not survive the kernel"
    adopted = loaded()
    adopted.options = None
    assert DiskOffer()(adopted, run()) == ""
    monkeypatch.setenv("SGNB_DISK_CACHE", "off")
    assert DiskOffer()(loaded(), run()) == ""


COMMANDS = [
    (loaded("Qwen/Qwen3-0.6B"), "%sglang load Qwen/Qwen3-0.6B --disk-cache on"),
    (
        loaded("tiny", "other", max_total_tokens=4096, overlap=False, host_cache=0.5),
        "%sglang load tiny --as other --max-total-tokens 4096 --overlap off --host-cache 0.5"
        " --disk-cache on",
    ),
    (
        loaded("/models/my model", dtype="float32"),
        "sgnb.load('/models/my model', dtype='float32', disk_cache=True)",
    ),
    (
        loaded("tiny", schedule_policy="fcfs", disk_cache=None, host_cache=None),
        "sgnb.load('tiny', schedule_policy='fcfs', disk_cache=True)",
    ),
]


@pytest.mark.parametrize(("made", "command"), COMMANDS, ids=["plain", "options", "blank", "python"])
def test_the_command_loads_the_same_engine(made: LoadedEngine, command: str) -> None:
    sentence = DiskOffer()(made, run())
    assert f"; {command} keeps" in sentence
    known = {name for option in LOAD_OPTIONS for name in option.flags}
    if command.startswith("%"):
        assert {word for word in shlex.split(command) if word.startswith("--")} <= known
