"""The processor of images on worker threads: other calls, cancels and decode steps do not wait."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sgnb.backends.local import LocalExecutor
from sgnb.engine.engine import Engine
from sgnb.errors import Aborted, MediaError
from sgnb.events import WaitReason
from sgnb.lang.executor import Call, Result
from sgnb.sampling import SamplingParams

from .test_images import built, image, prompt
from .test_items import ROW, Content, Setting

SECONDS = 30


class Gate:
    """Processor that waits until it is opened."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.opened, self.entered = inner, threading.Event(), threading.Event()
        self.threads: list[str] = []

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.threads.append(threading.current_thread().name)
        self.entered.set()
        assert self.opened.wait(SECONDS), "the gate is never opened"
        return self.inner(*args, **options)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    model, processor = built("llava")
    with Engine(model, processor=processor, device="cpu") as engine:
        yield engine


@pytest.fixture
def gate(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    encoder = engine.items.encoder  # type: ignore[union-attr]
    gate = Gate(encoder.run_processor)
    monkeypatch.setattr(encoder, "run_processor", gate)
    yield gate
    gate.opened.set()


def send(executor: LocalExecutor, name: str, *parts: Any) -> tuple[Any, Any]:
    """Return the results of a call, and the function that cancels the call."""
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()
    params = SamplingParams(max_new_tokens=2, temperature=0, ignore_eos=True)
    call = Call("", params, "run", name, name, segments=tuple(prompt(*parts)))
    return results, executor.generate(call, results.put)


def result(results: Any) -> Result:
    found: Result = results.get(timeout=SECONDS)
    return found


def test_other_calls_run_while_an_image_is_processed(engine: Engine, gate: Gate) -> None:
    executor = LocalExecutor(engine)
    slow, _ = send(executor, "slow", "see ", image(11), " and tell")
    assert gate.entered.wait(SECONDS)
    text, _ = send(executor, "text", "no picture here")
    assert result(text).error is None and slow.empty()

    [waiting] = executor.why_waiting("run", "slow")
    assert waiting.wait.reason == WaitReason.PROCESSOR and waiting.request is None
    assert str(waiting).startswith("a request (slow): the processor of the model reads")
    assert executor.why_waiting("run", "other") == executor.why_waiting("else", "slow") == []

    gate.opened.set()
    assert result(slow).error is None
    assert executor.why_waiting("run", "slow") == []
    assert all(name.startswith("sgnb-processor") for name in gate.threads)


def test_a_call_is_cancelled_while_its_image_is_processed(engine: Engine, gate: Gate) -> None:
    executor = LocalExecutor(engine)
    results, cancel = send(executor, "slow", image(12), " and tell")
    assert gate.entered.wait(SECONDS)
    cancel()
    assert isinstance(result(results).error, Aborted)
    gate.opened.set()
    again, _ = send(executor, "again", image(12), " and tell")
    assert result(again).error is None
    assert results.empty(), "a cancelled call has one result"


def test_an_error_of_the_processor_ends_the_call(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def failing(*_: Any, **__: Any) -> Any:
        calls.append(threading.current_thread().name)
        raise ZeroDivisionError("no height")

    monkeypatch.setattr(engine.items.encoder, "run_processor", failing)  # type: ignore[union-attr]
    results, _ = send(LocalExecutor(engine), "bad", image(13), " and tell")
    error = result(results).error
    assert isinstance(error, MediaError) and "no height" in str(error)
    assert len(calls) == 1


def test_ids_follow_the_order_of_the_prompt(engine: Engine) -> None:
    executor, items = LocalExecutor(engine), engine.items
    assert items is not None
    pictures = [image(seed) for seed in range(20, 26)]
    results, _ = send(executor, "many", *pictures, " and tell")
    assert result(results).error is None
    ids = [items.find(each).first_id for each in pictures]
    assert ids == sorted(ids)


def test_evicted_rows_are_processed_beside_steps() -> None:
    setting = Setting(4 * ROW)
    cat, dog = Content("cat", 4), Content("dog", 3)
    first, second = setting.prompt(cat), setting.prompt(dog)
    for prompt_items in (first, second):
        setting.queue.ready(prompt_items, 0)
        setting.queue.run()
        assert setting.queue.ready(prompt_items, 0)
    assert not setting.queue.ready(first, 0), "its rows were evicted"

    gate = Gate(setting.encoder.process)
    setting.encoder.process = gate  # type: ignore[method-assign]
    setting.queue._may_wait = lambda: False
    assert setting.queue.run() == ([], []) and setting.queue
    assert gate.entered.wait(SECONDS)
    assert setting.queue.run() == ([], [])
    gate.opened.set()
    setting.queue._may_wait = lambda: True
    encoded: list[Any] = []
    while not encoded:
        encoded, failures = setting.queue.run()
        assert not failures
    assert setting.queue.ready(first, 0) and not setting.queue
    assert len(gate.threads) == 1 and gate.threads[0].startswith("sgnb-processor")


def test_options_that_change_while_the_processor_runs(engine: Engine, gate: Gate) -> None:
    """The rows belong to the options of the key: the processor runs again."""
    part = engine.items.encoder.processor.image_processor  # type: ignore[union-attr]
    mean, executor = part.image_mean, LocalExecutor(engine)
    results, _ = send(executor, "slow", "see ", image(31), " and tell")
    assert gate.entered.wait(SECONDS)
    try:
        part.image_mean = [0.9, 0.1, 0.5]
        gate.opened.set()
        changed = result(results)
        again, _ = send(executor, "again", "see ", image(31), " and tell")
        assert result(again).texts == changed.texts
    finally:
        part.image_mean = mean
    before = engine.items.end_id  # type: ignore[union-attr]
    restored, _ = send(executor, "restored", "see ", image(31), " and tell")
    result(restored)
    assert engine.items.end_id > before, "another item"  # type: ignore[union-attr]
