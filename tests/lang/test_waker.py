"""What waits on an event loop is woken from other threads, and the loop told once."""

from __future__ import annotations

import asyncio
import threading

from sgnb.lang.core.waker import Waker, running_waker


def test_a_loop_at_work_is_told_once() -> None:
    told = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        call = loop.call_soon_threadsafe
        loop.call_soon_threadsafe = lambda *work: told.append(work) or call(*work)  # type: ignore[assignment]
        waker, waiting = Waker(loop), [asyncio.Event() for _ in range(100)]
        for several in (waiting[:60], waiting[60:]):
            thread = threading.Thread(target=lambda some=several: [waker.wake(w) for w in some])
            thread.start()
            thread.join()  # the loop does nothing else meanwhile
            await asyncio.gather(*[one.wait() for one in several])

    asyncio.run(main())
    assert len(told) == 2


def test_of_each_loop_one_and_none_that_is_closed_minds() -> None:
    async def mine() -> Waker:
        assert running_waker() is running_waker()
        return running_waker()

    first, second = asyncio.run(mine()), asyncio.run(mine())
    assert first is not second
    first.wake(asyncio.Event())
