"""Programs on a fleet of engines in this process: equal results, losses of workers, ends."""

from __future__ import annotations

import gc
import os
import queue
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sgnb as sgl
from sgnb.backends.fleet.fleet_call import FleetCall, grouped
from sgnb.backends.fleet.fleet_executor import FleetExecutor
from sgnb.backends.fleet.tree_feed import prompt_keys
from sgnb.backends.fleet.worker_source import worker_device
from sgnb.backends.remote.registry import find_hosts, is_alive
from sgnb.errors import EngineError, OptionError
from sgnb.events import CallRetried, CallRouted, WorkerJoined, WorkerLost
from sgnb.lang.executor import Call, Delta, Result
from sgnb.sampling import SamplingParams
from sgnb.segment import Segment

from .fleets import events, one_thread

__all__ = ["one_thread"]


@pytest.fixture(scope="module")
def fleet() -> Iterator[FleetExecutor]:
    with FleetExecutor.load("tiny", replicas=2, on="threads") as fleet:
        yield fleet


@sgl.function
def story(s: Any, topic: str) -> None:
    s += f"Once there was a {topic}. " * 12
    forks = s.fork(3)
    for number, fork in enumerate(forks):
        fork += f"Part {number}:" + sgl.gen("part", max_tokens=12, temperature=0)
    forks.join()
    s += " ".join(fork["part"] for fork in forks)
    s += sgl.select("end", choices=["good", "bad"])


def test_workers_with_several_ranks_share_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 5)
    devices = [worker_device({"tp_size": 2}, number)["device"] for number in range(3)]
    assert devices == ["cuda:0", "cuda:2", "cuda:0"]
    assert [worker_device({}, number)["device"] for number in (0, 4, 5)] == [
        "cuda:0", "cuda:4", "cuda:0",
    ]  # fmt: skip
    assert worker_device({"device": "cuda:3"}, 1) == {}


def test_programs_give_the_results_of_one_engine(fleet: FleetExecutor) -> None:
    topics = [{"topic": topic} for topic in ("cat", "dog", "house", "tree")]
    before = len(events(fleet, CallRouted))
    states = story.run_batch(topics, backend=fleet)
    with sgl.Engine("tiny") as engine:
        alone = story.run_batch(topics, backend=engine)
    assert [state.text() for state in states] == [state.text() for state in alone]
    routed = events(fleet, CallRouted)[before:]
    assert len(routed) == 4 * (3 + 1)
    assert {event.worker for event in routed} == {0, 1}
    assert all(sorted(event.compared) == [0, 1] and event.waited >= 0 for event in routed)
    forks: dict[str, set[int]] = {}
    for event in routed:
        if event.name == "part":
            forks.setdefault(event.branch.rpartition(".")[0], set()).add(event.worker)
    assert len(forks) == 4
    assert all(len(workers) == 1 for workers in forks.values()), "branches were separated"


def test_the_index_equals_the_trees_of_the_engines(fleet: FleetExecutor) -> None:
    story.run_batch([{"topic": "bird"}, {"topic": "fish"}], backend=fleet)
    dispatcher = fleet._dispatcher
    done = threading.Event()
    fleet._commands.put(lambda: (dispatcher.route(), done.set())[0])
    assert done.wait(20)
    held = []
    for number, executor in fleet._executors.items():
        nodes = {node["id"]: node for node in executor.engine.tree()}
        keys: set[bytes] = set()
        for node in nodes.values():
            path: tuple[int, ...] = ()
            while node:
                path, node = node["tokens"] + path, nodes.get(node["parent"], {})
            tokens = np.array(path, np.int32)
            keys.update(prompt_keys(fleet.tokenizer_id, "", tokens, executor.engine.vocab_size))
        assert dispatcher.router.index.cached(number) == keys
        held.append(len(keys))
    assert all(held)
    assert not dispatcher._groups
    assert not any(worker.calls for worker in dispatcher.workers.values())


@sgl.function
def tale(s: Any, number: int) -> None:
    s += f"Tale {number}: " + sgl.gen("text", max_tokens=60, temperature=0.8, ignore_eos=True)


@pytest.mark.parametrize("stream", [pytest.param(False, marks=pytest.mark.slow), True])
def test_calls_of_a_lost_worker_continue(stream: bool) -> None:
    with FleetExecutor.load("tiny", replicas=2, on="threads") as fleet:
        assert [event.worker for event in events(fleet, WorkerJoined)] == [0, 1]
        engine = fleet._executors[0].engine
        states = [tale.run(number, backend=fleet, stream=True) for number in range(6)]
        if stream:
            for state in states:
                next(state.text_iter("text"))
        engine.close()
        texts = ["".join(state.text_iter("text")) for state in states]
        assert [state["text"] for state in states] == texts  # nothing was repeated
        assert all(state.get_meta_info("text")["completion_tokens"] == 60 for state in states)
        (lost,) = events(fleet, WorkerLost)
        assert (lost.worker, lost.reason) == (0, "the engine is closed")
        retried = events(fleet, CallRetried)
        assert retried
        if stream:
            assert any(event.tokens for event in retried)


@sgl.function
def long_fork(s: Any) -> None:
    s += "A tale: "
    forks = s.fork(2)
    for fork in forks:
        fork += sgl.gen("part", max_tokens=100, ignore_eos=True)
    forks.join()


def test_a_lost_fork_leaves_no_state() -> None:
    with FleetExecutor.load("tiny", replicas=2, on="threads") as fleet:
        state = long_fork.run(backend=fleet, stream=True)
        deadline = time.monotonic() + 20
        while not (routed := events(fleet, CallRouted)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        fleet._executors[routed[0].worker].engine.close()
        state.sync()
        assert events(fleet, CallRetried)
        done = threading.Event()
        fleet._commands.put(done.set)
        assert done.wait(20)
        assert not fleet._dispatcher._groups
        assert not fleet._dispatcher._forks


@pytest.mark.slow
def test_a_killed_process_loses_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGNB_HOSTS", str(tmp_path))
    options = {"device": "cpu", "dtype": "float32", "max_total_tokens": 8192}
    try:
        with FleetExecutor.load("tiny", replicas=2, on="processes", **options) as fleet:
            story.run_batch([{"topic": "cat"}, {"topic": "dog"}], backend=fleet)
            states = [tale.run(number, backend=fleet, stream=True) for number in range(6)]
            for state in states:
                next(state.text_iter("text"))
            os.kill(find_hosts()[0].pid, signal.SIGKILL)
            texts = ["".join(state.text_iter("text")) for state in states]
            assert [state["text"] for state in states] == texts
            assert all(state.get_meta_info("text")["completion_tokens"] == 60 for state in states)
            (lost,) = events(fleet, WorkerLost)
            assert lost.reason.endswith("was lost: the process was killed by SIGKILL")
            assert events(fleet, CallRetried)
            deadline = time.monotonic() + 60
            while len(events(fleet, WorkerJoined)) < 3:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            pids = [host.pid for host in find_hosts() if is_alive(host.pid)]
        assert len(pids) == 2
        deadline = time.monotonic() + 60
        while any(map(is_alive, pids)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        for host in find_hosts():
            os.kill(host.pid, signal.SIGKILL)


def test_the_last_worker_ends() -> None:
    with sgl.Engine("tiny") as engine, FleetExecutor([engine]) as fleet:
        engine.close()
        state = tale.run(0, backend=fleet)
        with pytest.raises(EngineError, match="have ended; worker 0: the engine is closed"):
            state["text"]
    with pytest.raises(EngineError, match="the fleet is closed"):
        tale.run(0, backend=fleet)["text"]


def test_a_close_ends_each_call() -> None:
    """Running calls, calls without a worker, and calls still in the queue of the fleet's thread."""
    fleet = FleetExecutor.load("tiny", replicas=1, on="threads")
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def sink(message: Any) -> None:
        if isinstance(message, Result):
            results.put(message.error)

    params = SamplingParams(max_new_tokens=4000, ignore_eos=True)
    started = threading.Event()
    fleet.generate(
        Call("Once", params, "run", "0", "x", stream=True), lambda m: (started.set(), sink(m))[0]
    )
    assert started.wait(20)
    resume = threading.Event()
    fleet._commands.put(resume.wait)
    for number in range(1, 4):
        fleet.generate(Call("Once", params, "run", str(number), "x"), sink)
    threading.Timer(0.2, resume.set).start()
    fleet.close()
    errors = [results.get(timeout=20) for _ in range(4)]
    assert all(isinstance(error, EngineError) for error in errors), errors
    with pytest.raises(EngineError, match="the fleet is closed"):
        fleet.generate(Call("Once", params, "run", "4", "x"), sink)


METHODS: dict[str, tuple[Any, ...]] = {
    "flush_cache": (),
    "stats": (),
    "server_info": (),
    "cached_length": ([1, 2],),
    "why_waiting": ("run", "0"),
}


def test_methods_of_a_closed_fleet_raise() -> None:
    """The engines of the fleet still run. Ended engines have no cache to flush."""
    with sgl.Engine("tiny") as engine:
        with FleetExecutor([engine]) as fleet:
            results = {name: getattr(fleet, name)(*args) for name, args in METHODS.items()}
        assert results["flush_cache"] == results["cached_length"] == 0
        for name, args in METHODS.items():
            with pytest.raises(EngineError, match="the fleet is closed"):
                getattr(fleet, name)(*args)
        assert not engine.closed
        with FleetExecutor([engine]) as fleet:
            engine.close()
            assert fleet.flush_cache() == fleet.cached_length([1, 2]) == 0


def test_a_dropped_fleet_closes_its_engines() -> None:
    fleet = FleetExecutor.load("tiny", replicas=1, on="threads")
    engine = fleet._executors[0].engine
    del fleet
    gc.collect()
    deadline = time.monotonic() + 20
    while not engine.closed:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_prompts_are_read_by_a_running_worker() -> None:
    with FleetExecutor.load("tiny", replicas=2, on="threads") as fleet:
        first = fleet._executors[0]
        first.engine.close()
        first.encode = None  # type: ignore[method-assign, assignment]
        tale.run(0, backend=fleet)["text"]


def test_a_cancelled_call_ends(fleet: FleetExecutor) -> None:
    results: list[Any] = []
    done = threading.Event()

    def sink(message: Any) -> None:
        if not isinstance(message, Delta):
            results.append(message)
            done.set()

    params = SamplingParams(max_new_tokens=500, ignore_eos=True)
    cancel = fleet.generate(Call("Once", params, "run", "0", "x", stream=True), sink)
    time.sleep(0.05)
    cancel()
    assert done.wait(20)
    (result,) = results
    assert type(result.error).__name__ == "Aborted"


def test_bad_calls_and_options(fleet: FleetExecutor) -> None:
    for replicas in (0, True, "2"):
        with pytest.raises(OptionError, match="replicas"):
            FleetExecutor.load("tiny", replicas=replicas)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="empty"):
        FleetExecutor([])


def call(branch: str, tokens: list[int]) -> FleetCall:
    made = FleetCall(Call("", SamplingParams(), "run", branch, "x"), lambda message: None)
    made.tokens, made.keys = tokens, [tuple(tokens[:64])] if len(tokens) >= 64 else []
    return made


def test_branches_of_a_parent_are_one_group() -> None:
    shared = [1] * 70
    calls = [call("0.0", [*shared, 2]), call("0.1", [*shared, 3, 3]), call("1", shared)]
    single, fork = grouped(calls, 100)
    assert single.calls == [calls[2]]
    assert fork.calls == calls[:2]
    routed = fork.routed
    assert (routed.tokens, routed.own_tokens, len(routed.keys)) == (70, 3, 1)
    assert [len(group.calls) for group in grouped(calls[:2], 2)] == [1, 1]


def test_branches_share_the_prompt_of_the_first(fleet: FleetExecutor) -> None:
    """Later branches of a fork find the shared prompt in the first."""
    before = len(events(fleet, CallRouted))
    story.run(topic="river", backend=fleet)["end"]
    parts = [event for event in events(fleet, CallRouted)[before:] if event.name == "part"]
    prompts = [len(fleet.encode([Segment("Once there was a river. " * 12)]))] * 3
    assert sum(event.cached == 0 for event in parts) == 1
    for event, shared in zip(parts, prompts, strict=True):
        assert event.cached in (0, *range(shared // 64 * 64, shared + 3))
        assert event.tokens > shared
