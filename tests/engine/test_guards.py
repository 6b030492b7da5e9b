"""No argument, closed event loop or forked child harms the engine or hangs."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import queue
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pytest
import torch

import sgnb
from sgnb.backends import LocalExecutor
from sgnb.engine.cache.radix import RadixTree
from sgnb.engine.cache.sequence import CacheScope
from sgnb.engine.engine import Engine
from sgnb.engine.request.collect import numbered_callbacks
from sgnb.engine.request.output import Output
from sgnb.engine.request.request import Request
from sgnb.engine.request.request_state import Origin
from sgnb.engine.scheduler import Scheduler
from sgnb.errors import EngineError, OptionError, RequestError, SgnbError
from sgnb.events import RequestFinished
from sgnb.lang.executor import Call
from sgnb.sampling import SamplingParams
from sgnb.viz import Emitter

from ..byte_tokenizers import byte_level
from ..random_models import greedy, random_model
from .test_engine import slow_down, wait_until, whole

GREEDY: dict[str, Any] = {"temperature": 0, "ignore_eos": True}
PROMPT = list(range(10, 17))


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(random_model(vocab_size=400), tokenizer=byte_level()) as engine:
        yield engine


class Hostile(str):
    """A string whose methods cannot be trusted."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("hostile")


class HostileList(list):
    """A list that cannot be read."""

    def __iter__(self) -> Any:
        raise RuntimeError("hostile")


class Impostor(SamplingParams):
    """Options that change after the check."""

    __slots__ = ()

    @property
    def max_new_tokens(self) -> int:  # type: ignore[override]
        raise RuntimeError("hostile")


ODD_NAME: dict[Any, Any] = {1: 1}
CALLS: dict[str, Callable[[Engine], Any]] = {
    "abort of a list in a list": lambda e: e.abort([[1]]),
    "abort of a text": lambda e: e.abort("one"),
    "abort of a number": lambda e: e.abort(1.5),
    "a namespace to flush": lambda e: e.flush_cache([1]),
    "a namespace to pin in": lambda e: e.pin(PROMPT, namespace={}),
    "an owner": lambda e: e.pin(PROMPT, ["me"]),
    "an owner to unpin": lambda e: e.unpin(owner=3),
    "a node to unpin": lambda e: e.unpin(node=[1]),
    "a node to evict": lambda e: e.evict(float("nan")),
    "a node below 0": lambda e: e.evict(-1),
    "a policy": lambda e: e.switch(schedule_policy=["lpm"]),
    "overlap": lambda e: e.switch(overlap="yes"),
    "stream": lambda e: e.generate(PROMPT, stream=np.ones(2)),
    "a hostile option name": lambda e: e.generate(PROMPT, {Hostile("n"): 1}),
    "an option name that is a number": lambda e: e.generate(PROMPT, ODD_NAME),
    "params": lambda e: submit(e, params=[{"n": 1}]),
    "a subclass of params": lambda e: submit(e, params=[object.__new__(Impostor)]),
    "no function": lambda e: submit(e, on_outputs=[None]),
    "too few functions": lambda e: submit(e, on_outputs=[]),
    "a namespace": lambda e: submit(e, cache_scopes=[CacheScope(namespace=[1])]),
    "a hostile namespace": lambda e: submit(e, cache_scopes=[CacheScope(namespace=Hostile("a"))]),
    "a fork": lambda e: submit(e, cache_scopes=[CacheScope(forked="all")]),
    "an origin": lambda e: submit(e, origins=[Origin(name=5)]),
    "a text of prompts": lambda e: submit(e, prompts="ab"),
    "segments": lambda e: e.encode([[3]]),
    "a text to encode": lambda e: e.encode("ab"),
    "a hostile list of params": lambda e: e.generate(PROMPT, HostileList([{}])),
    "the tokens of an object": lambda e: e.cached_length(object()),
}


def submit(engine: Engine, **changes: Any) -> list[int]:
    arguments: dict[str, Any] = {
        "prompts": [PROMPT], "params": [SamplingParams(max_new_tokens=2)],
        "on_outputs": [lambda output: None],
    }  # fmt: skip
    return engine.submit(**(arguments | changes))


@pytest.mark.parametrize("name", CALLS)
def test_an_odd_argument_is_refused_in_the_call(name: str, engine: Engine) -> None:
    with pytest.raises((OptionError, RequestError)) as refusal:
        CALLS[name](engine)
    assert refusal.value.hint
    assert engine.generate(PROMPT, max_new_tokens=2, **GREEDY).token_ids and whole(engine)


def test_scalars_of_numpy_and_torch_are_numbers(engine: Engine) -> None:
    engine.generate(PROMPT, max_new_tokens=1, **GREEDY)
    node = engine.tree()[0]["id"]
    for kind in (np.int64, np.array, torch.tensor):
        assert engine.pin(kind(node)) and engine.unpin(kind(node)) == 1
        engine.abort(kind(10**6))
    engine.abort(np.array([10**6, 10**7]))
    engine.abort(engine.generate(PROMPT, max_new_tokens=1, **GREEDY).id)


def test_a_text_of_a_subclass_is_its_text(engine: Engine) -> None:
    options: dict[str, Any] = {"max_new_tokens": 4, **GREEDY}
    plain = engine.generate("The quick", regex="[a-z]+", **options)
    hostile = engine.generate(Hostile("The quick"), regex=Hostile("[a-z]+"), **options)
    assert hostile.token_ids == plain.token_ids


def run_all(engine: Engine, prompts: list[list[int]]) -> dict[int, Output]:
    """The outputs of requests that are submitted together."""
    ends: queue.SimpleQueue[tuple[int, Output]] = queue.SimpleQueue()
    params = [SamplingParams.make({"max_new_tokens": 5, **GREEDY})] * len(prompts)
    engine.submit(prompts, params, numbered_callbacks(ends.put, len(prompts)))
    return dict(ends.get(timeout=30) for _ in prompts)


@pytest.mark.parametrize("failing", [(Scheduler, "_start"), (RadixTree, "peek")], ids=str)
def test_a_request_that_cannot_be_scheduled_fails_alone(
    failing: tuple[type, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same choice of a step may have started more requests before the failure."""
    prompts = [[10 + i, 20, 30 + i, *range(40, 41 + 3 * i)] for i in range(6)]
    expected = greedy("llama", prompts, 5)
    method = getattr(*failing)

    def fail(self: Any, wanted: Any, *rest: Any) -> Any:
        tokens = wanted.tokens if isinstance(wanted, Request) else wanted
        if tokens.tolist() == prompts[3]:
            raise ValueError("no such tokens")
        return method(self, wanted, *rest)

    monkeypatch.setattr(*failing, fail)
    with Engine(random_model()) as engine:
        outputs = run_all(engine, prompts)
        error = outputs.pop(3).error
        assert isinstance(error, EngineError) and isinstance(error.__cause__, ValueError)
        assert [outputs[i].token_ids for i in sorted(outputs)] == expected[:3] + expected[4:]
        assert whole(engine)


def test_a_command_that_fails_ends_no_other_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with Engine(random_model()) as engine:
        monkeypatch.setattr(engine._scheduler, "add", lambda *arguments: 1 / 0)
        with pytest.raises(EngineError, match="ZeroDivisionError"):
            engine.generate(PROMPT, max_new_tokens=5)
        monkeypatch.undo()
        [expected] = greedy("llama", [PROMPT], 5)
        assert engine.generate(PROMPT, max_new_tokens=5, **GREEDY).token_ids == expected


def test_what_a_caller_asks_for_raises_in_the_caller(engine: Engine) -> None:
    """A BaseException too: without the error the caller would wait for ever."""

    def leave() -> None:
        raise SystemExit("left")

    with pytest.raises(SystemExit):
        engine._loop.call(leave)
    assert not engine.closed


def raising(output: Output) -> None:
    raise KeyboardInterrupt("in a listener")


def test_a_call_that_is_no_call_is_refused(engine: Engine) -> None:
    executor = LocalExecutor(engine)
    call = Call("The", SamplingParams(max_new_tokens=3), "r", "0", "a")
    heard: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for wrong in (lambda: executor.generate({}, print), lambda: executor.generate(call, None),
                  lambda: executor.score(call, print),
                  lambda: executor.with_overrides(None)):  # fmt: skip
        with pytest.raises(OptionError):
            wrong()
    executor.generate(call, raising)
    executor.generate(call, heard.put)
    assert heard.get(timeout=30).error is None
    executor.close()


@pytest.mark.parametrize("stream", [False, True])
def test_closing_an_event_loop_aborts_its_requests(
    stream: bool, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_down(engine, monkeypatch)
    last = engine.log.last
    loop = asyncio.new_event_loop()
    begun = asyncio.Event()

    async def ask() -> Any:
        if not stream:
            return await engine.agenerate(PROMPT, max_new_tokens=200, **GREEDY)
        async for _ in await engine.agenerate(PROMPT, stream=True, max_new_tokens=200, **GREEDY):
            begun.set()

    task = loop.create_task(ask())
    loop.run_until_complete(begun.wait() if stream else asyncio.sleep(0.05))
    loop.close()
    wait_until(lambda: whole(engine))
    ends = [r.event for r in engine.log.read(last).records if isinstance(r.event, RequestFinished)]
    assert [end.reason for end in ends] == ["abort"]
    assert not task.done()
    task._log_destroy_pending = False  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_closing_an_event_loop_stops_its_programs(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_down(engine, monkeypatch)

    @sgnb.function
    async def endless(s: Any) -> None:
        s += "The" + sgnb.gen("a", max_tokens=100, ignore_eos=True)
        s += sgnb.gen("b", max_tokens=100, ignore_eos=True)

    loop = asyncio.new_event_loop()
    task = loop.create_task(endless.arun(backend=engine))
    loop.run_until_complete(asyncio.sleep(0.05))
    last = engine.log.last
    loop.close()
    wait_until(lambda: whole(engine))
    ends = [r.event for r in engine.log.read(last).records if isinstance(r.event, RequestFinished)]
    assert [end.reason for end in ends] == ["abort"]
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def test_a_finished_call_leaves_no_timer_behind(engine: Engine) -> None:
    async def ask() -> int:
        await engine.agenerate(PROMPT, max_new_tokens=1)
        loop: Any = asyncio.get_running_loop()
        return sum(not timer.cancelled() for timer in loop._scheduled)

    assert asyncio.run(ask()) == 0


@sgnb.function
def program(s: Any, text: str = "The") -> None:
    s += text + sgnb.gen("a", max_tokens=3, ignore_eos=True)


def in_child(connection: Connection, uses: dict[str, Callable[[], Any]]) -> None:
    """Send for each use the name of the error, and whether the hint says to spawn."""
    for name, use in uses.items():
        try:
            use()
            connection.send((name, "no error", False))
        except SgnbError as error:
            connection.send((name, type(error).__name__, "spawn" in error.hint))
    connection.send(None)
    connection.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_child_is_told_to_spawn() -> None:
    """Closing and the finalizers at exit do not wait for the parent's threads."""
    with Engine(random_model(vocab_size=400), tokenizer=byte_level()) as engine:
        state = program.run(backend=engine)
        assert state["a"]
        emitter = Emitter(engine.log)
        stream = engine.generate("The", stream=True, max_new_tokens=50, **GREEDY)
        uses: dict[str, Callable[[], Any]] = {
            "generate": lambda: engine.generate("The"),
            "agenerate": lambda: asyncio.run(engine.agenerate("The")),
            "stream": lambda: list(stream),
            "submit": lambda: submit(engine),
            "stats": engine.stats, "tree": engine.tree, "flush": engine.flush_cache,
            "encode": lambda: engine.encode(["The"]),
            "cached": lambda: engine.cached_length(PROMPT),
            "run": lambda: program.run(backend=engine)["a"],
            "arun": lambda: asyncio.run(program.arun(backend=engine)),
            "stream of a run": lambda: program.run(backend=engine, stream=True).text(),
            "batch": lambda: program.run_batch([("a",), ("b",)], backend=engine),
            "compiled": lambda: program.compile().run(backend=engine)["a"],
            "append": lambda: state.program.append(state.program.root, "x"),
            "view": emitter.feed, "log": engine.log.read, "another engine": Engine,
        }  # fmt: skip
        fork = multiprocessing.get_context("fork")
        mine, theirs = fork.Pipe()

        def child() -> None:
            in_child(theirs, uses)
            assert state["a"], "what is finished can be read"
            engine.close()
            emitter.close()
            weakref.finalize._exitfunc()  # type: ignore[attr-defined]

        process = fork.Process(target=child)
        process.start()
        told = {}
        while (answer := mine.recv() if mine.poll(60) else ("timeout", "", False)) is not None:
            assert answer[0] != "timeout"
            told[answer[0]] = answer[1:]
        process.join(60)
        assert told == dict.fromkeys(uses, ("EngineError", True))
        assert process.exitcode == 0
        assert len(list(stream)[-1].token_ids) == 50, "the parent goes on"
        emitter.close()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_ends_by_itself() -> None:
    """Finalizers of an open engine run at `sys.exit`."""
    code = (
        "import os, sys, sgnb\n"
        "engine = sgnb.Engine('tiny', max_total_tokens=300)\n"
        "child = os.fork()\n"
        "if not child: sys.exit(3)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120
    )
    assert run.stdout.split() == ["3"], run.stderr
