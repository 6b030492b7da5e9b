"""Batches inside programs of batches: bounded threads, no deadlock, results of flat batches."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from contextvars import ContextVar
from itertools import chain
from typing import Any

import pytest

from sgnb.lang import function, gen, pool
from sgnb.lang.core import program as program_module
from sgnb.lang.core.waits import Waits

from ..interrupts import in_time
from .test_interrupts import NEVER, check, interrupt_soon


@function
def leaf(s: Any, name: str, executor: Any) -> str:
    s += f"{name}: " + gen("a")
    return str(s["a"])


@function
def batch_of(s: Any, name: str, widths: tuple[int, ...], executor: Any) -> list[str]:
    """Leaves under `name`, in as many levels of batches as there are `widths`."""
    width, *inner = widths
    names = [f"{name}.{i}" for i in range(width)]
    if not inner:
        return [
            t.ret_value for t in leaf.run_batch([(n, executor) for n in names], backend=executor)
        ]
    rows = [(n, tuple(inner), executor) for n in names]
    answers = [state.ret_value for state in batch_of.run_batch(rows, backend=executor)]
    s += gen("sum")
    return list(chain.from_iterable(answers))


def run_nested(executor: Any, *widths: int, **options: Any) -> list[str]:
    rows = [("top", widths, executor)]
    [state] = batch_of.run_batch(rows, backend=executor, **options)
    return list(state.ret_value)


def test_threads_and_results(make: Any) -> None:
    executor, counts = make(delay=0.05), []
    generate = executor.generate

    def counted(call: Any, sink: Any) -> Any:
        counts.append(threading.active_count())
        return generate(call, sink)

    executor.generate = counted
    before = threading.active_count()
    nested = run_nested(executor, 9, 8, 7)
    names = [f"top.{i}.{j}.{k}" for i in range(9) for j in range(8) for k in range(7)]
    flat = leaf.run_batch([(name, executor) for name in names], backend=make())
    assert nested == [state["a"] for state in flat]
    assert max(counts) - before <= pool.MAX_WORKERS


def test_waiting_workers_do_not_poll(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_module, "WORKER_WAIT_SECONDS", 60.0, raising=False)
    executor, waits, wait = make(delay=0.4), [], Waits.wait

    def counted(*arguments: Any) -> bool:
        if threading.current_thread() is not threading.main_thread():
            waits.append(arguments)
        return wait(*arguments)

    monkeypatch.setattr(Waits, "wait", counted)
    run_nested(executor, 3, 4)
    reads, batches = 3 * 4 + 3 + 1, 1 + 3
    assert len(waits) <= reads + 2 * batches


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_few_workers(make: Any, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(pool, "MAX_WORKERS", limit)
    executor = make(delay=0.001)
    answers = in_time(lambda: run_nested(executor, 4, 3, 5, num_threads=1))
    assert len(set(answers)) > 1 and len(answers) == 60


@function
def recursive(s: Any, depth: int, executor: Any) -> int:
    s += gen("a")
    if depth == 0:
        return len(s["a"])
    [inner] = recursive.run_batch([(depth - 1, executor)], backend=executor)
    return 1 + int(inner.ret_value)


def test_deep_recursion_gets_new_stacks(fake: Any) -> None:
    [state] = in_time(lambda: recursive.run_batch([(150, fake)], backend=fake))
    assert state.ret_value == 150 + len(state["a"])


def test_the_consumer_of_a_stream_takes_part_in_later_programs(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "MAX_WORKERS", 1)
    executor = make()
    events = [threading.Event() for _ in range(5)]

    @function
    def waits_for_the_consumer(s: Any, i: int) -> None:
        if i:
            assert events[i - 1].wait(60)
        s += gen("a")

    @function
    def consumer(s: Any) -> int:
        rows = [(i,) for i in range(len(events))]
        stream = waits_for_the_consumer.run_batch(rows, backend=executor, generator_style=True)
        return sum(bool(state["a"]) and events[i].set() is None for i, state in enumerate(stream))

    [state] = in_time(lambda: consumer.run_batch([()], backend=executor))
    assert state.ret_value == len(events)


def test_an_event_loop_in_a_worker(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "MAX_WORKERS", 1)
    executor = make()

    @function
    async def awaited(s: Any, n: int) -> str:
        s += f"{n}" + gen("a")
        return str(await s["a"])

    @function
    def runs_a_loop(s: Any, n: int) -> str:
        async def outer() -> str:
            [state] = sync.run_batch([(n,)], backend=executor)
            return str(state.ret_value)

        return asyncio.run(outer())

    @function
    def sync(s: Any, n: int) -> str:
        return asyncio.run(awaited.arun(n, backend=executor)).ret_value

    @function
    async def outermost(s: Any, n: int) -> list[str]:
        rows = [(n + i,) for i in range(2)]
        return [state.ret_value for state in runs_a_loop.run_batch(rows, backend=executor)]

    states = in_time(lambda: outermost.run_batch([(10,), (20,), (30,)], backend=executor))
    flat = awaited.run_batch([(10,), (11,), (20,), (21,), (30,), (31,)], backend=executor)
    nested = [answer for state in states for answer in state.ret_value]
    assert nested == [state.ret_value for state in flat]


def test_inner_programs_that_need_each_other(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "MAX_WORKERS", 1)
    monkeypatch.setattr(pool, "STALL_SECONDS", 0.05, raising=False)
    executor = make()

    @function
    def meets(s: Any, barrier: threading.Barrier) -> None:
        barrier.wait(60)
        s += gen("a")

    @function
    def outer(s: Any) -> int:
        rows = [(threading.Barrier(3),)] * 3
        return len([t["a"] for t in meets.run_batch(rows, backend=executor, num_threads=3)])

    states = in_time(lambda: outer.run_batch([()] * 4, backend=executor))
    assert [state.ret_value for state in states] == [3] * 4


def test_streamed_programs_share_the_pool(make: Any) -> None:
    executor, counts = make(delay=0.05), []

    @function
    def counted(s: Any) -> None:
        s += gen("a")
        assert s["a"]
        counts.append(threading.active_count())

    @function
    def inner(s: Any) -> int:
        return len([t["a"] for t in counted.run_batch([()] * 11, backend=executor)])

    @function
    def outer(s: Any) -> int:
        return int(inner.run(backend=executor, stream=True).ret_value)

    before = threading.active_count()
    states = outer.run_batch([()] * 13, backend=executor)
    assert [state.ret_value for state in states] == [11] * 13
    assert max(counts) - before <= pool.MAX_WORKERS + 13


def test_an_interrupt(make: Any) -> None:
    executor = make(delay=NEVER)
    before = threading.active_count()
    interrupt_soon(executor, calls=40)
    with pytest.raises(KeyboardInterrupt) as raised:
        run_nested(executor, 5, 4, 3)
    check(executor)
    assert len(raised.value.states) == 1  # type: ignore[attr-defined]
    deadline = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_errors_belong_to_their_rows(make: Any) -> None:
    executor = make()

    @function
    def fails(s: Any, n: int) -> None:
        s += gen("a")
        if n % 3 == 1:
            raise ValueError(f"row {n}, {s['a']}")

    @function
    def outer(s: Any, n: int) -> list[str]:
        rows = [(10 * n + i,) for i in range(4)]
        errors = [state.error() for state in fails.run_batch(rows, backend=executor)]
        return ["" if error is None else str(error)[:6] for error in errors]

    states = outer.run_batch([(1,), (2,)], backend=executor)
    assert [s.ret_value for s in states] == [["row 10", "", "", "row 13"], ["", "", "row 22", ""]]


def test_context_variables_of_the_outer_program_stay_there(make: Any) -> None:
    executor, variable = make(), ContextVar("variable", default=0)

    @function
    def inner(s: Any, n: int) -> int:
        before = variable.get()
        variable.set(n)
        return before

    @function
    def outer(s: Any) -> list[int]:
        variable.set(7)
        inside = [t.ret_value for t in inner.run_batch([(i,) for i in (1, 2, 3)], backend=executor)]
        return [*inside, variable.get()]

    assert outer.run_batch([()], backend=executor)[0].ret_value == [0, 0, 0, 7]


def tree_program(executor: Any) -> Any:
    """A program of a random tree of batches: sync, async, streamed, in a stream or an iterator."""

    @function
    def node(s: Any, seed: int, depth: int) -> int:
        rng = random.Random(seed)
        s += f"{seed}" + gen("a")
        if rng.random() < 0.4:
            assert s["a"]
        return 1 + sum(
            count for _ in range(rng.randrange(3)) if depth for count in inner(rng, depth)
        )

    @function
    async def async_node(s: Any, seed: int, depth: int) -> int:
        s += gen("a")
        assert await s["a"]
        return 1 + sum(inner(random.Random(seed), depth)) if depth else 1

    def inner(rng: random.Random, depth: int) -> list[int]:
        program = rng.choice([node, node, async_node])
        rows = [(rng.randrange(1 << 30), depth - 1) for _ in range(rng.randrange(1, 5))]
        if rng.random() < 0.2:
            return [program.run(*rows[0], backend=executor, stream=True).ret_value]
        options: dict[str, Any] = {"num_threads": rng.choice([1, 2, "auto"])}
        options["generator_style"] = rng.random() < 0.4
        given = iter(rows) if rng.random() < 0.4 else rows
        return [t.ret_value for t in program.run_batch(given, backend=executor, **options)]

    return node


@pytest.mark.parametrize("limit", [1, 3, 64])
def test_random_trees(make: Any, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    rng = random.Random(limit)
    executor = make(delay=lambda call: rng.random() / 500)
    rows = [(seed, 3) for seed in range(30)]
    expected = [tree_program(executor).run(*row, backend=make()).ret_value for row in rows[:5]]
    monkeypatch.setattr(pool, "MAX_WORKERS", limit)
    states = in_time(lambda: tree_program(executor).run_batch(rows, backend=executor), seconds=120)
    counts = [state.ret_value for state in states]
    assert counts[:5] == expected and max(counts) > 50
