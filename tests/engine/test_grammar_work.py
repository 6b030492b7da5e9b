"""Slow grammars next to other requests: a late mask delays and fails its own request alone."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sgnb.engine.engine import Engine
from sgnb.engine.loop import grammar_work
from sgnb.engine.loop.grammar_work import PATIENCE, WAITING, GrammarWork
from sgnb.errors import Aborted, GrammarError, OptionError
from sgnb.events import RequestWaits
from sgnb.grammar.llguidance_backend.cfg_matcher import LlguidanceMatcher

SCHEMA = json.dumps(
    {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"enum": ["yes", "no"]}}}
)
WAIT = 60


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine("tiny", device="cpu") as engine:
        yield engine


class Gate:
    """Masks that wait until `open`, for grammars in use on a mask thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, spin: bool = False) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        prepare = LlguidanceMatcher.prepare

        def slow(matcher: LlguidanceMatcher) -> None:
            self.reached.set()
            if spin:
                while not self.open.is_set():
                    pass
            assert self.open.wait(WAIT)
            prepare(matcher)

        monkeypatch.setattr(LlguidanceMatcher, "prepare", slow)


def in_background(engine: Engine, **options: Any) -> tuple[threading.Thread, list[Any]]:
    results: list[Any] = []

    def call() -> None:
        try:
            results.append(engine.generate("Say: ", **options))
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    return thread, results


def test_the_text_is_the_text_of_masks_on_the_engine_thread(engine: Engine) -> None:
    """Same seed, same text: batches, jumps and drafts do not depend on when a mask is ready."""
    prompts = ["One: ", "Two: ", "Three: "]
    options: dict[str, Any] = {"json_schema": SCHEMA, "max_new_tokens": 40, "seed": 3}
    alone = [engine.generate(prompt, **options) for prompt in prompts]
    together = engine.generate(prompts, **options)
    assert [out.text for out in together] == [out.text for out in alone]
    assert all(json.loads(out.text) is not None for out in together)


def test_other_requests_run_while_a_mask_is_computed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    thread, results = in_background(engine, json_schema=SCHEMA, max_new_tokens=20)
    assert gate.reached.wait(WAIT)
    free = engine.generate("Free: ", max_new_tokens=30, ignore_eos=True)
    assert len(free.token_ids) == 30 and not results
    gate.open.set()
    thread.join(WAIT)
    assert json.loads(results[0].text) is not None


def test_a_late_mask_is_reported_once_per_wait(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request leaves the steps in the middle of its text."""
    engine.generate("Warm: ", json_schema=SCHEMA, max_new_tokens=20)
    mark = engine.log.last
    gate = Gate(monkeypatch)
    gate.open.set()
    prepare = LlguidanceMatcher.prepare
    calls = []

    def second_is_slow(matcher: LlguidanceMatcher) -> None:
        calls.append(1)
        if len(calls) == 2:
            time.sleep(0.3)
        prepare(matcher)

    monkeypatch.setattr(LlguidanceMatcher, "prepare", second_is_slow)
    thread, results = in_background(
        engine, json_schema=SCHEMA, max_new_tokens=20, jump_forward=False
    )
    engine.generate("Free: ", max_new_tokens=150, ignore_eos=True)
    thread.join(WAIT)
    assert json.loads(results[0].text) is not None
    events = [record.event for record in engine.log.read(mark).records]
    waits = [e for e in events if isinstance(e, RequestWaits) and e.reason == "mask"]
    assert 1 <= len(waits) <= len(calls)


def test_an_abort_does_not_wait_for_the_mask(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    thread, results = in_background(engine, json_schema=SCHEMA, max_new_tokens=20)
    assert gate.reached.wait(WAIT)
    engine.abort(1)
    thread.join(WAIT)
    assert not thread.is_alive() and isinstance(results[0], Aborted)
    gate.open.set()
    assert json.loads(engine.generate("x", json_schema=SCHEMA, max_new_tokens=20).text) is not None


def test_a_request_over_budget_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, spin=True)
    with Engine("tiny", device="cpu", grammar_budget_ms=100) as engine:
        thread, results = in_background(engine, json_schema=SCHEMA, max_new_tokens=20)
        assert gate.reached.wait(WAIT)
        thread.join(WAIT)
        [error] = results
        gate.open.set()
        assert isinstance(error, GrammarError)
        assert "json_schema is not done after 0.1 s of computing at $" in error.message
        assert "grammar_budget_ms" in str(error)
        assert engine.generate("Free: ", max_new_tokens=5).token_ids


def test_an_error_of_the_work_fails_its_request(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(matcher: LlguidanceMatcher) -> None:
        raise GrammarError("the mask is broken", "repair the mask")

    monkeypatch.setattr(LlguidanceMatcher, "prepare", broken)
    with pytest.raises(GrammarError, match="the mask is broken"):
        engine.generate("Say: ", json_schema=SCHEMA, max_new_tokens=20)
    assert engine.generate("Free: ", max_new_tokens=5).token_ids


def test_close_with_work_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    engine = Engine("tiny", device="cpu")
    thread, results = in_background(engine, json_schema=SCHEMA, max_new_tokens=20)
    assert gate.reached.wait(WAIT)
    engine.close()
    thread.join(WAIT)
    assert isinstance(results[0], Exception)
    gate.open.set()


def test_steps_wait_a_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone up to PATIENCE after the start; next to others at most the share of past steps."""
    now = [100.0]
    monkeypatch.setattr(grammar_work.time, "perf_counter", lambda: now[0])
    work = GrammarWork(1.0, lambda id: None)
    work._due.add(1)
    work._deadline = now[0] + PATIENCE
    work._credited_at = now[0]
    assert work.patience(alone=True) == pytest.approx(PATIENCE)
    assert work.patience(alone=False) == 0
    now[0] += 0.01
    work.stepped()
    work._due.add(2)
    work._deadline = now[0] + PATIENCE
    assert work.patience(alone=False) == pytest.approx(0.01 * WAITING)
    work.waited(0.0004)
    assert work.patience(alone=False) == pytest.approx(0.01 * WAITING - 0.0004)
    now[0] += 100
    work.stepped()
    work._due.add(3)
    work._deadline = now[0] + PATIENCE
    assert work.patience(alone=False) == pytest.approx(PATIENCE)
    now[0] += PATIENCE
    assert work.patience(alone=True) == work.patience(alone=False) == 0


@pytest.mark.parametrize("value", [0, -1, "1", 1.5])
def test_odd_budgets(value: Any) -> None:
    with pytest.raises(OptionError, match="grammar_budget_ms"):
        Engine("tiny", device="cpu", grammar_budget_ms=value)
