"""`async def` programs: reads are awaited, and one event loop runs thousands."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

from sgnb.errors import ProgramError
from sgnb.events import RunFinished
from sgnb.lang import function, gen

NEVER = 1e6


@function
async def three(s: Any, begin: str) -> str:
    s += begin + gen("a")
    s += " " + (await s["a"]) + gen("b")
    forks = s.fork(2)
    forks += gen("c")
    forks.join()
    c: list[str] = await s["c"]
    s += " ".join(c)
    return await s.text()


def test_reads_are_awaited(make: Any) -> None:
    executor = make(lambda call: call.name)
    state = asyncio.run(three.arun("<", backend=executor))
    assert state.ret_value == state.text() == "<a abc c"
    assert asyncio.run(three("<", backend=executor)).text() == "<a abc c"


def test_hundreds_at_once_on_one_thread(make: Any) -> None:
    executor = make("x", together=500)
    before = threading.active_count()
    threads = []

    async def all_of_them() -> list[Any]:
        tasks = [asyncio.create_task(three.arun(f"{i}", backend=executor)) for i in range(500)]
        while executor.most_running < 500:
            threads.append(threading.active_count())
            await asyncio.sleep(0.01)
        return await asyncio.gather(*tasks)

    states = asyncio.run(all_of_them())
    assert states[499]["b"] == "x" and executor.most_running >= 500
    assert max(threads) <= before + 1  # the executor's


def test_without_an_event_loop_it_gets_one(make: Any) -> None:
    executor = make(lambda call: call.name)
    assert three.run("<", backend=executor)["b"] == "b"
    states = three.run_batch([(f"{i}",) for i in range(20)], backend=executor)
    assert [state.ret_value for state in states] == [f"{i}a abc c" for i in range(20)]


def test_run_inside_an_event_loop(make: Any) -> None:
    """As in a notebook's cell."""
    executor = make(lambda call: call.name)

    async def cell() -> str:
        return three.run("<", backend=executor).text()

    assert asyncio.run(cell()) == "<a abc c"


def test_an_error_and_a_cancelled_task(make: Any) -> None:
    @function
    async def broken(s: Any, name: str = "b") -> None:
        s += gen("a")
        await s[name]

    executor = make("x")
    with pytest.raises(ProgramError, match="nothing sets the variable 'b'"):
        asyncio.run(broken.arun(backend=executor))
    with pytest.raises(ProgramError, match="nothing sets the variable 'b'"):
        broken.run(backend=executor)
    bad, _ = broken.run_batch([{}, {"name": "a"}], backend=executor)
    with pytest.raises(ProgramError):
        bad["a name"]

    slow = make("x", delay=NEVER)

    async def cancelled() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(three.arun("<", backend=slow), 0.05)
        while slow.running or not slow.events(RunFinished):
            await asyncio.sleep(0.01)

    asyncio.run(cancelled())
    assert slow.events(RunFinished)[0].status == "interrupted"


def test_programs_inside_an_async_program(make: Any) -> None:
    executor = make("x", together=4)

    @function
    async def inner(s: Any, i: int) -> None:
        s += f"{i}" + gen("a")

    @function
    async def part(s: Any, text: str) -> str:
        s += text + gen("part")
        return await s["part"]

    @function
    async def outer(s: Any) -> str:
        states = await asyncio.gather(*(inner(i, backend=executor) for i in range(4)))
        return "".join(state.text() for state in states) + await part(s, "!")

    assert asyncio.run(outer.arun(backend=executor)).ret_value == "0x1x2x3xx"


def test_tasks_of_a_program_read_what_it_has_appended(make: Any) -> None:
    executor = make(lambda call: call.name)

    @function
    async def program(s: Any) -> Any:
        s += "Twice:"
        group = s.fork(2)
        group += gen("a")
        await asyncio.wait_for(group[0].sync(), 5)
        values = asyncio.gather(*(branch["a"] for branch in group))
        texts = asyncio.gather(*(branch.text() for branch in group))
        return await values, await texts, [m async for m in group[0].text_async_iter()]

    async def main() -> Any:
        return await asyncio.wait_for(program.arun(backend=executor), 5)

    twice = ["Twice:a", "Twice:a"]
    assert asyncio.run(main()).ret_value == (["a", "a"], twice, twice[:1])


def test_what_was_not_awaited_says_so(make: Any) -> None:
    executor = make("x")

    @function
    async def inner(s: Any) -> None:
        s += gen("a")

    @function
    def outer(s: Any) -> None:
        inner(s)

    with pytest.raises(ProgramError, match=r"test_async\.py:\d+: inner is an async def"):
        outer.run(backend=executor)

    @function
    async def forgets(s: Any) -> None:
        s += gen("a")
        read = s["a"]
        try:
            s += read
        finally:
            read.close()

    with pytest.raises(ProgramError, match="await it first"):
        forgets.run(backend=executor)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("text", [str, "{}".format, "%s".__mod__, "{:>9}".format])
def test_a_text_does_not_hold_what_was_not_awaited(make: Any, text: Any) -> None:
    @function
    async def forgets(s: Any) -> None:
        s += gen("a")
        s += text(s["a"])

    with pytest.raises(ProgramError, match=r"test_async\.py:\d+: a text cannot hold <a value"):
        forgets.run(backend=make("x"))
    gc.collect()  # nothing else is said


def test_a_read_can_be_a_task(make: Any) -> None:
    @function
    async def program(s: Any) -> Any:
        s += gen("a")
        task = asyncio.create_task(s["a"])
        stopped = asyncio.create_task(s["a"])
        stopped.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopped
        return await task

    assert asyncio.run(program.arun(backend=make("x"))).ret_value == "x"


def test_a_task_that_reads_a_name_which_nothing_sets_does_not_wait_for_one(make: Any) -> None:
    @function
    async def program(s: Any) -> None:
        s += gen("answer")
        await asyncio.gather(s["answr"], s["answer"])

    async def main() -> None:
        await asyncio.wait_for(program.arun(backend=make()), 5)

    with pytest.raises(KeyError, match="did you mean 'answer'"):
        asyncio.run(main())
