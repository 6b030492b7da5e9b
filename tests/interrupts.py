"""What Ctrl-C does, while the main thread waits and at any line."""

from __future__ import annotations

import dis
import itertools
import queue
import signal
import sys
import threading
import types
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache
from typing import Any

from sgnb.latch import Latch


def interrupt_in(seconds: float) -> None:
    """Send the main thread a signal then: a lock that it waits for is left, as by a user's
    interrupt."""
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(seconds, signal.pthread_kill, (main, signal.SIGINT)).start()


def methods(*classes: type) -> list[Callable[..., Any]]:
    return [method for c in classes for method in vars(c).values() if callable(method)]


THREADS = methods(threading.Thread)
LOCKS = methods(threading.Condition, threading.Event, threading.Semaphore, Future, Latch)
"""Of locks and what is made of them, where it is written in Python."""


def interrupted_at(
    number: int,
    function: Callable[[], Any],
    where: Sequence[Callable[..., Any]] = THREADS,
    calls: bool = False,
) -> bool:
    """Run `function`, interrupted at that line of the functions `where`; False when it runs fewer.
    (Elsewhere a tracer would interrupt where no signal does.)

    calls: not at lines, but exactly where signals do.
    """
    count = itertools.count(1)
    codes = {function.__code__ for function in where if hasattr(function, "__code__")}

    def trace(frame: types.FrameType, event: str, argument: Any) -> Any:
        if frame.f_code not in codes:
            return None
        frame.f_trace_opcodes = calls
        here = event == "opcode" and frame.f_lasti in signalled(frame.f_code)
        if (here if calls else event == "line") and next(count) == number:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@cache
def signalled(code: types.CodeType) -> set[int]:
    """The offsets at which CPython looks for signals: at the beginning, after calls and before
    jumps back. Without those where a tracer's error would miss the call's own handler."""
    instructions = list(dis.get_instructions(code))
    handlers: Any = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]

    def handler(offset: int) -> Any:
        return next((h.target for h in handlers if h.start <= offset < h.end), None)

    jumps = {i.offset for i in instructions if i.opname.startswith("JUMP_BACKWARD")}
    return jumps | {
        after.offset
        for before, after in itertools.pairwise(instructions)
        if before.opname.startswith(("CALL", "RESUME"))
        and handler(before.offset) == handler(after.offset)
    }


def in_time(function: Callable[[], Any], seconds: float = 30) -> Any:
    """What `function` gives on a thread of its own; AssertionError where it hangs."""
    results: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()

    def work() -> None:
        future: Future[Any] = Future()
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)
        results.put(future)

    threading.Thread(target=work, daemon=True).start()
    try:
        return results.get(timeout=seconds).result()
    except queue.Empty:
        raise AssertionError(f"it hangs: no answer in {seconds:g} s") from None
