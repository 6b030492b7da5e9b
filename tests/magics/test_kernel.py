"""`%%sglang` in a Jupyter kernel: a real interrupt, the views' outputs, the end of a background
run's views."""

from __future__ import annotations

import queue
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

LONG = "s += 'A story.'\ns += gen('story', max_tokens=3000, ignore_eos=True)\n"


class Kernel:
    """`run(cell)` gives the messages of a cell; `start` and `finish` are its two halves."""

    def __init__(self, client: Any, manager: Any) -> None:
        self.client, self.manager = client, manager

    def start(self, code: str) -> str:
        return str(self.client.execute(code))

    def finish(self, cell: str, seconds: float = 200) -> list[dict[str, Any]]:
        messages = []
        deadline = time.monotonic() + seconds
        while True:
            message = self.client.get_iopub_msg(timeout=max(0.1, deadline - time.monotonic()))
            if message["parent_header"].get("msg_id") == cell:
                messages.append(message)
                if message["content"].get("execution_state") == "idle":
                    return messages

    def run(self, code: str) -> list[dict[str, Any]]:
        return self.finish(self.start(code))

    def value(self, expression: str) -> str:
        contents = [
            m["content"] for m in self.run(f"print({expression})") if m["msg_type"] == "stream"
        ]
        return "".join(c["text"] for c in contents).strip()


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    manager, client = start_new_kernel(startup_timeout=200)
    kernel = Kernel(client, manager)
    kernel.run("%load_ext sgnb")
    kernel.run("%sglang load tiny")
    yield kernel
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def kinds(messages: list[dict[str, Any]]) -> list[str]:
    return [message["msg_type"] for message in messages]


def test_interrupt(kernel: Kernel) -> None:
    cell = kernel.start("%%sglang --show text\n" + LONG)
    for _ in range(5):
        wait_for(kernel, "comm_msg")
    kernel.manager.interrupt_kernel()
    messages = kernel.finish(cell)
    error = next(m["content"] for m in messages if m["msg_type"] == "error")
    assert error["ename"] == "KeyboardInterrupt"
    assert error["traceback"] == ["KeyboardInterrupt", "stopped; the partial text is s.text()"]
    assert int(kernel.value("len(s.text())")) > len("A story.")
    assert kernel.value("__import__('sgnb').runs()[-1]['status']") == "interrupted"
    messages = kernel.run(
        "%%sglang --show none -o after\ns += 'One'\ns += gen('a', max_tokens=2)\n"
    )
    assert "error" not in kinds(messages)


def test_views_are_widgets_and_a_twin(kernel: Kernel) -> None:
    messages = kernel.run("%%sglang\ns += 'The capital of Japan is'\ns += gen('a', max_tokens=4)\n")
    bundles = [m["content"]["data"] for m in messages if m["msg_type"] == "display_data"]
    assert sum("application/vnd.jupyter.widget-view+json" in bundle for bundle in bundles) == 1
    assert any("image/svg+xml" in bundle for bundle in bundles)
    assert "update_display_data" in kinds(messages)
    assert "execute_result" not in kinds(messages)


@pytest.mark.slow
def test_the_twin_is_refreshed_while_the_run_goes_on(kernel: Kernel) -> None:
    kernel.run(
        "import sgnb.viz.live.display as display; "
        "usual, display.STATIC_SECONDS = display.STATIC_SECONDS, 0.1"
    )
    messages = kernel.run(
        "%%sglang --show text\ns += 'A story.'\ns += gen('a', max_tokens=800, ignore_eos=True)\n"
    )
    kernel.run("display.STATIC_SECONDS = usual")
    twins = [
        m["content"]["data"]["text/plain"]
        for m in messages
        if m["msg_type"] == "update_display_data"
    ]
    assert len(twins) >= 3
    assert all(" · running\n" in twin for twin in twins[:-1]) and " · done\n" in twins[-1]
    counts = [int(re.findall(r"(\d+) new token", twin)[0]) for twin in twins]
    assert counts == sorted(counts) and counts[0] < counts[-1] == 800


def test_a_background_runs_views_close_on_the_main_thread(kernel: Kernel) -> None:
    body = "s += 'One two'\ns += gen('a', max_tokens=40, ignore_eos=True)\n"
    messages = kernel.run("%%sglang --bg -o later --show text\n" + body)
    assert "execute_result" in kinds(messages)
    wait_for(kernel, "update_display_data")
    assert kernel.value("later.text()[:7]") == "One two"


def test_error_in_a_body(kernel: Kernel) -> None:
    messages = kernel.run("%%sglang\ns += 'x'\n1 / 0\n")
    error = next(m["content"] for m in messages if m["msg_type"] == "error")
    assert error["ename"] == "ZeroDivisionError"
    assert error["traceback"][0] == "ZeroDivisionError: division by zero"
    assert error["traceback"][1].endswith(", line 3")
    assert "/tmp" not in "".join(error["traceback"])


def test_a_load_shows_one_line_that_changes(kernel: Kernel) -> None:
    messages = kernel.run("%sglang load tiny --as other")
    shown = [m for m in messages if m["msg_type"].endswith("display_data")]
    assert [m["msg_type"] for m in shown[:2]] == ["display_data", "update_display_data"]
    assert len({m["content"]["transient"]["display_id"] for m in shown}) == 1
    lines = [m["content"]["data"]["text/plain"] for m in shown]
    assert lines[0].startswith("loading other: ")
    assert any("reading weights" in line for line in lines)
    assert any("sizing" in line for line in lines)
    assert lines[-1].startswith("loaded other in ") and "stream" not in kinds(messages)
    kernel.run("%sglang engine unload other")
    messages = kernel.run("%sglang load /nowhere")
    assert messages[-3]["content"]["data"] == {"text/plain": ""}, "the error says it"


USES = [
    "engine.generate('Once', max_new_tokens=6, ignore_eos=True)",
    "engine.generate(['One', 'Two', 'Three'], n=2, max_new_tokens=4, ignore_eos=True)",
    "list(engine.generate('A', stream=True, max_new_tokens=6, ignore_eos=True))",
    "engine.generate('Is it?', regex='yes|no|maybe')",
    "[engine.stats() for _ in range(20)]",
    "[engine.closed or engine.flush_cache() for _ in range(20)]",
]
REPEATED = """
for _ in range(6):
    try:
        {}
    except KeyboardInterrupt:
        hits += 1
"""
PROGRAMS = [
    "%%sglang --show none\ns += 'One'\ns += gen('a', max_tokens=6, ignore_eos=True)",
    "%%sglang --show none\ns += 'Sky: ' + select('b', ['blue', 'green'])",
]


ONLY_IN_CELLS = """
import os, signal
import sgnb
def raise_in_cells(number, frame):
    running = []
    while frame is not None:
        running.append(frame.f_code)
        frame = frame.f_back
    in_cell = any(f"ipykernel_{os.getpid()}" in code.co_filename for code in running)
    if in_cell and raise_in_cells.__code__ not in running:
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, raise_in_cells)
kernel = get_ipython().kernel
kernel.pre_handler_hook = kernel.post_handler_hook = lambda: None
"""


@pytest.mark.slow
def test_interrupts_at_random_moments(kernel: Kernel) -> None:
    """300 of them; the engine goes on each time, and in the end it closes and its memory is
    free.

    The handler raises only while a cell runs, and not inside itself: an interrupt between two cells
    ends the kernel (ipykernel 7.4, issue 666), and the handler's code belongs to a cell.
    """
    kernel.run(ONLY_IN_CELLS)
    kernel.run("engine = sgnb.Engine('tiny'); hits = 0")
    rng, ended = random.Random(0), 0
    for i in range(100):
        repeated = i % 2 == 0
        code = REPEATED.format(rng.choice(USES)) if repeated else rng.choice(PROGRAMS)
        cell = kernel.start(code)
        wait_for(kernel, "execute_input")
        for _ in range(5 if repeated else 1):
            time.sleep(rng.random() * 0.03)
            kernel.manager.interrupt_kernel()
        errors = [m["content"] for m in kernel.finish(cell) if m["msg_type"] == "error"]
        assert {error["ename"] for error in errors} <= {"KeyboardInterrupt"}, errors
        ended += bool(errors)
    assert int(kernel.value("hits")) + ended > 60
    kernel.run(
        "import gc, time, weakref\n"
        "deadline = time.monotonic() + 60\n"
        "while engine.stats()['in_flight'] and time.monotonic() < deadline: time.sleep(0.01)\n"
        "state = engine.stats()\n"
        "text = engine.generate('Once', max_new_tokens=4, ignore_eos=True).text\n"
        "pool = weakref.ref(engine._loop._runner._attention.kv)\n"
        "engine.close()\n"
        "gc.collect()\n"
    )
    assert kernel.value("state['in_flight'], state['running'], state['waiting']") == "0 0 0"
    assert kernel.value("len(text) > 0, engine.closed, pool()") == "True True None"
    messages = kernel.run(
        "%%sglang --show none -o after\ns += 'One'\ns += gen('a', max_tokens=2)\n"
    )
    assert "error" not in kinds(messages), "the session's engine goes on too"


def wait_for(kernel: Kernel, kind: str, seconds: float = 200) -> None:
    """Read messages until one of that kind comes."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if kernel.client.get_iopub_msg(timeout=0.5)["msg_type"] == kind:
                return
        except queue.Empty:
            continue
    raise AssertionError(f"no {kind} came")


def test_a_run_can_be_traced_saved_and_opened_again(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run(
        "%%sglang\ns += 'The capital of Spain is'\ns += gen('a', max_tokens=4, ignore_eos=True)\n"
    )
    messages = kernel.run("%sglang recording")
    (shown,) = [m["content"]["data"] for m in messages if m["msg_type"] == "execute_result"]
    assert "application/vnd.jupyter.widget-view+json" in shown and "4 new" in shown["text/plain"]
    for suffix in ("jsonl", "html", "json"):
        kernel.run(f"%sglang recording --export {tmp_path}/run.{suffix}")
        assert (tmp_path / f"run.{suffix}").stat().st_size > 500
    opened = kernel.value(f"__import__('sgnb').open_recording('{tmp_path}/run.jsonl').text()")
    assert "The capital of Spain is" in opened

    kernel.run("%sglang recording on")
    kernel.run("%%sglang --show none\ns += 'One, two,'\ns += gen('a', max_tokens=4)\n")
    messages = kernel.run("%sglang recording off")
    (shown,) = [m["content"]["data"] for m in messages if m["msg_type"] == "execute_result"]
    assert "One, two," in shown["text/plain"]
    assert "error" in kinds(kernel.run("%sglang recording off")), "it is off already"
