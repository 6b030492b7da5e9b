"""Deliveries of an executor: the results of a step arrive, and the calls leave, together."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from sgnb.backends.mail import Mail


class Step:
    """A step of an engine, which runs functions at the end."""

    def __init__(self) -> None:
        self.functions: list[Callable[[], object]] = []

    def end(self) -> None:
        functions, self.functions = self.functions, []
        for function in functions:
            function()


class Sent:
    """The calls that the executor sent together."""

    def __init__(self) -> None:
        self.together: list[list[str]] = []
        self.arrived = threading.Semaphore(0)

    def submit(self, calls: list[SentCall]) -> None:
        self.together.append([call.name for call in calls])
        self.arrived.release()


class SentCall:
    def __init__(self, executor: Sent, name: str) -> None:
        self.executor, self.name = executor, name


def test_results_of_a_step_are_delivered_and_answered_together() -> None:
    step, sent = Step(), Sent()
    mail = Mail(lambda function: step.functions.append(function))
    for name in "abc":
        mail.put_result(lambda name=name: mail.send(SentCall(sent, name)))  # type: ignore[misc]
    assert len(step.functions) == 1
    assert not sent.arrived.acquire(timeout=0.05), "delivered before the end of the step"
    step.end()
    assert sent.arrived.acquire(timeout=5)
    assert sent.together == [["a", "b", "c"]]

    mail.put_result(lambda: mail.send(SentCall(sent, "d")))
    step.end()
    assert sent.arrived.acquire(timeout=5)
    assert sent.together == [["a", "b", "c"], ["d"]]
    mail.close()


def test_a_failing_delivery_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    step, done = Step(), threading.Event()
    mail = Mail(lambda function: step.functions.append(function))

    def fail() -> None:
        raise ValueError("a sink failed")

    mail.put_result(fail)
    mail.put_result(done.set)
    step.end()
    assert done.wait(5)
    assert "a sink failed" in caplog.text
    mail.close()


def test_results_after_the_end_of_the_engine_arrive_at_once() -> None:
    arrived = threading.Event()
    mail = Mail(lambda function: function())
    mail.put_result(arrived.set)
    assert arrived.wait(5)
    mail.close()
