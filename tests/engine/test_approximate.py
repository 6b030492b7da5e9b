"""Requests on approximate keys and values: memory, privacy, and comparison with exact runs."""

from __future__ import annotations

import queue
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from sgnb.engine import Engine, Output
from sgnb.engine.cache.sequence import CacheScope
from sgnb.engine.model.key_rotation import KeyRotation
from sgnb.engine.request.approximation import MAX_ROTATION_ERROR, Approximation, divergence
from sgnb.errors import EngineError, OptionError
from sgnb.events import AnswerSpliced, AnswerVerified, RequestQueued, RequestRetracted, StepRan
from sgnb.sampling import SamplingParams
from sgnb.sequences import common_length

from ..random_models import VOCAB, random_model

POOL = 4096
LONG = {"max_position_embeddings": 2048}


def prompts(seed: int, edit: int = 40, rest: int = 300) -> tuple[list[int], list[int]]:
    """Return two prompts that differ by an edit of another length."""
    rng = random.Random(seed)
    draw: Callable[[int], list[int]] = lambda n: [rng.randrange(3, VOCAB) for _ in range(n)]  # noqa: E731
    head, tail = draw(edit), draw(rest)
    return [*head, *draw(5), *tail], [*head, *draw(9), *tail]


@pytest.fixture
def engine() -> Iterator[Engine]:
    with make() as engine:
        yield engine


def make(layers: int = 1, **options: Any) -> Engine:
    options = {"max_total_tokens": POOL, "approximate_seconds": 0} | options
    model = random_model("llama", num_hidden_layers=layers, **LONG)
    return Engine(model, **options)


def ask(engine: Engine, prompt: list[int], approximate: bool = True, **params: Any) -> Output:
    params = {"max_tokens": 8, "temperature": 0, "ignore_eos": True} | params
    output: Output = engine.generate(prompt, approximate=approximate, **params)
    return output


def record(output: Output) -> Approximation:
    assert output.approximate is not None
    return output.approximate


def check_memory(engine: Engine, pool: int = POOL) -> None:
    stats = engine.stats()
    assert stats["free"] + stats["cached"] + stats["in_flight"] == pool
    assert stats["in_flight"] == 0
    assert all(node["locks"] == 0 for node in engine.tree())


def events(engine: Engine, kind: type) -> list[Any]:
    return [r.event for r in engine.log.read().records if type(r.event) is kind]


def test_one_layer_answers_exactly(engine: Engine) -> None:
    """Keys and values of one layer do not depend on other tokens: only the rotation could err."""
    old, new = prompts(1)
    with make() as other:
        exact = ask(other, new, False).token_ids
    ask(engine, old, False)
    output = ask(engine, new)
    approximation = record(output)
    assert output.token_ids == exact
    assert output.meta_info["approximate"] is approximation
    assert approximation.prompt_tokens == len(new) == 349
    assert approximation.reused_tokens == 300 - 32 - 32
    assert approximation.computed_tokens == 9 + 32 + 32
    assert approximation.wait(30) is True and approximation.status == "same"
    result = approximation.result
    assert result is not None and result.same_tokens == 8 and result.mean_kl < 1e-4
    assert str(approximation).startswith("approximate: computed 73 of 349 tokens; verified ")
    assert str(approximation).endswith("8 of 8 tokens the same, mean KL 0.000, keys off by 0.0 %")
    [spliced], [verified] = events(engine, AnswerSpliced), events(engine, AnswerVerified)
    assert (spliced.computed, spliced.reused, spliced.prompt_tokens) == (73, 236, 349)
    assert (verified.status, verified.same_tokens, verified.tokens) == ("same", 8, 8)
    check_memory(engine)


@pytest.mark.parametrize("family", ["mistral", "gemma2", "glm4", "phi", "qwen3_moe", "cohere"])
def test_one_layer_of_other_families(family: str) -> None:
    """Sliding windows, other pairs of dimensions, partial rotation, experts."""
    old, new = prompts(1)
    with Engine(
        random_model(family, num_hidden_layers=1, **LONG),
        max_total_tokens=POOL,
        approximate_seconds=0,
    ) as engine:
        exact = ask(engine, new, False).token_ids
        engine.flush_cache()
        ask(engine, old, False)
        output = ask(engine, new)
        assert output.token_ids == exact
        assert record(output).wait(30) is True
        result = record(output).result
        assert result is not None and result.mean_kl < 1e-4 and result.key_error < 1e-4


@pytest.mark.parametrize(
    "options", [{"max_step_tokens": 48, "max_running_requests": 8}, {"overlap": True}]
)
def test_the_parts_of_a_prompt_in_several_steps(options: dict[str, Any]) -> None:
    old, new = prompts(1)
    with make(**options) as engine:
        ask(engine, old, False)
        assert record(ask(engine, new)).wait(30) is True
        check_memory(engine)


def test_copies_are_private_until_the_exact_run(engine: Engine) -> None:
    old, new = prompts(2)
    ask(engine, old, False)
    before = engine.tree()
    engine._loop.tiers.splices.verifier._idle_since = time.perf_counter() + 1000
    outputs: queue.SimpleQueue[Output] = queue.SimpleQueue()
    inside: list[int] = []

    def take(output: Output) -> None:
        engine._loop.tiers.splices.verifier._idle_since = time.perf_counter() + 1000
        inside.append(engine._cache.cached_length(new))
        outputs.put(output)

    params = SamplingParams(max_new_tokens=4, temperature=0, approximate=True)
    engine.submit([new], [params], [take])
    output = outputs.get(timeout=30)
    assert inside == [40]
    size = sum(len(node["tokens"]) for node in engine.tree())
    assert size == sum(len(node["tokens"]) for node in before)
    assert record(output).status == "pending"

    engine._loop.call(lambda: setattr(engine._loop.tiers.splices.verifier, "_idle_since", 0.0))
    assert record(output).wait(30) is True
    assert engine.cached_length([*new, *output.token_ids]) >= len(new)
    check_memory(engine)


def test_off_is_exact_and_without_traces() -> None:
    old, new = prompts(3)
    with make(layers=2) as engine:
        ask(engine, old, False)
        output = ask(engine, new, False)
        assert output.approximate is None and "approximate" not in output.meta_info
        assert engine._loop.tiers.splices._rotation is None
        assert not events(engine, AnswerSpliced)
        exact = output.token_ids
    with make(layers=2, prefix_cache=False) as engine:
        assert ask(engine, new, False).token_ids == exact
        assert ask(engine, new).approximate is None  # nothing is cached


def test_short_prefills_are_exact() -> None:
    old, new = prompts(4)
    with make(approximate_seconds=100.0) as engine:
        ask(engine, old, False)
        assert ask(engine, new).approximate is None
    with make() as engine:
        ask(engine, old, False)
        for params in ({"max_tokens": 0}, {"return_logprob": True, "logprob_start_len": 0}):
            assert ask(engine, new, **params).approximate is None
        assert ask(engine, old).approximate is None  # cached as a whole


def test_an_option_without_sense_is_refused() -> None:
    with pytest.raises(OptionError, match="approximate_seconds=-1 is not allowed"):
        make(approximate_seconds=-1)
    with pytest.raises(OptionError, match="approximate='yes please' is not allowed"):
        SamplingParams(approximate="yes please")  # type: ignore[arg-type]


def test_wrong_rotations_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rotate = KeyRotation.rotate
    with make() as engine:
        for seed in range(6):
            old, new = prompts(seed)
            ask(engine, old, False)
            wrong = (1, -1, 2, 3, 5, 37)[seed]
            monkeypatch.setattr(KeyRotation, "rotate", lambda s, c, n, w=wrong: rotate(s, c, n + w))
            output = ask(engine, new)
            monkeypatch.setattr(KeyRotation, "rotate", rotate)
            approximation = record(output)
            assert approximation.wait(30) is False and approximation.status == "differs"
            result = approximation.result
            assert result is not None
            assert result.rotation_error > MAX_ROTATION_ERROR
            if result.same_tokens < 8:
                words = (
                    f"differs from token {result.same_tokens + 1}; exact answer: {result.text!r}"
                )
                assert str(approximation).endswith(words)


def test_a_different_answer_comes_with_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = prompts(5)
    with make(layers=2) as engine:
        exact = ask(engine, new, False).token_ids
        engine.flush_cache()
        ask(engine, old, False)
        monkeypatch.setattr(KeyRotation, "rotate", lambda self, content, shift: content.zero_())
        output = ask(engine, new)
        assert output.token_ids != exact
        assert record(output).wait(30) is False
        same = common_length(exact, output.token_ids)
        result = record(output).result
        assert result is not None and result.same_tokens == same
        assert ask(engine, new, False).token_ids == exact
        check_memory(engine)


@pytest.mark.parametrize("params", [
    {"temperature": 1.0, "seed": 3}, {"temperature": 0.9}, {"temperature": 1.0, "top_k": 4},
    {"repetition_penalty": 1.3}, {"min_tokens": 4, "ignore_eos": False},
    {"return_logprob": True}, {"recorded_alternatives": 3}, {"n": 3, "temperature": 1.0},
])  # fmt: skip
def test_other_ways_to_choose_tokens(params: dict[str, Any], engine: Engine) -> None:
    old, new = prompts(6)
    ask(engine, old, False)
    outputs: Any = ask(engine, new, **params)
    for output in outputs if isinstance(outputs, list) else [outputs]:
        assert record(output).wait(30) is True, output.approximate
    check_memory(engine)


def test_a_closed_engine_leaves_unverified_answers() -> None:
    old, new = prompts(7)
    engine = make()
    ask(engine, old, False)
    output = ask(engine, new)
    engine.close()
    assert record(output).wait(5) is None and record(output).status == "unverified"
    assert str(record(output)).endswith("unverified: the engine was closed")
    with pytest.raises(EngineError):
        ask(engine, new)


def test_changed_weights_leave_unverified_answers() -> None:
    old, new = prompts(7)
    model = random_model("llama", **LONG)
    with Engine(model, max_total_tokens=POOL, approximate_seconds=0) as engine:
        ask(engine, old, False)
        output = ask(engine, new)
        with torch.no_grad():
            model.lm_head.weight.mul_(2.0)
        with pytest.warns(UserWarning, match="changed"):
            ask(engine, old, False)
        assert record(output).wait(5) is None and record(output).reason == "the weights changed"
        check_memory(engine)


def test_a_stopped_answer_is_unverified(engine: Engine) -> None:
    old, new = prompts(8)
    ask(engine, old, False)
    next(engine.generate(new, max_tokens=200, approximate=True, stream=True))
    outputs: queue.SimpleQueue[Output] = queue.SimpleQueue()
    params = SamplingParams(max_new_tokens=500, ignore_eos=True, approximate=True)
    [id] = engine.submit([new], [params], [outputs.put])
    engine.abort(id)
    output = outputs.get(timeout=30)
    if output.approximate is not None:  # otherwise the request never started
        assert record(output).wait(30) is None
        assert record(output).reason == "the answer was not completed"
    check_memory(engine)


@pytest.mark.slow
def test_other_requests_come_before_a_comparison() -> None:
    rng = random.Random(0)
    with make(max_step_tokens=64, max_running_requests=8, max_total_tokens=16384) as engine:
        old, new = prompts(9, rest=1500)
        ask(engine, old, False)
        output = ask(engine, new)
        checks, stopped = engine._loop.tiers.splices.verifier, 0
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            running = engine._loop.call(lambda: checks._running is not None)
            if record(output).status != "pending":
                break
            if running and stopped < 5:
                ask(engine, [rng.randrange(3, VOCAB) for _ in range(8)], False, max_tokens=2)
                stopped += not engine._loop.call(lambda: checks._running is not None)
        assert stopped
        assert record(output).wait(60) is True
        check_memory(engine, 16384)


def test_a_comparison_has_short_steps() -> None:
    """A request that arrives meanwhile waits for a step only."""
    with make(max_step_tokens=2048, max_total_tokens=16384) as engine:
        old, new = prompts(9, rest=1500)
        ask(engine, old, False)
        assert record(ask(engine, new)).wait(60) is True
        [number] = [e.request for e in events(engine, RequestQueued) if e.purpose == "verify"]
        steps = [row for step in events(engine, StepRan) for row in step.extended]
        lengths = [length for request, _, length in steps if request == number]
        assert max(lengths) == 256 and len(lengths) == 6
        assert max(length for request, _, length in steps if request != number) > 1000


def test_a_retracted_request_is_computed_exactly() -> None:
    """A pool too small for all answers: retracted requests start again without a splice."""
    rng = random.Random(1)
    with make(max_total_tokens=900) as engine:
        old, new = prompts(10, rest=250)
        ask(engine, old, False)
        outputs: queue.SimpleQueue[Output] = queue.SimpleQueue()
        others = [[rng.randrange(3, VOCAB) for _ in range(20)] for _ in range(5)]
        params = SamplingParams(max_new_tokens=150, temperature=0, ignore_eos=True)
        approximate = SamplingParams(
            max_new_tokens=150, temperature=0, ignore_eos=True, approximate=True
        )
        engine.submit([new, *others], [approximate] + [params] * 5, [outputs.put] * 6)
        found = [outputs.get(timeout=60) for _ in range(6)]
        records = [output.approximate for output in found if output.approximate]
        assert records and events(engine, RequestRetracted)
        assert all(record.wait(60) is True for record in records)
        check_memory(engine, 900)


def test_a_private_request_finds_no_donor(engine: Engine) -> None:
    old, new = prompts(11)
    ask(engine, old, False)
    outputs: queue.SimpleQueue[Output] = queue.SimpleQueue()
    params = SamplingParams(max_new_tokens=4, approximate=True)
    for scope in (CacheScope(None), CacheScope("other")):
        engine.submit([new], [params], [outputs.put], cache_scopes=[scope])
        assert outputs.get(timeout=30).approximate is None


def test_a_failed_copy_ends_only_its_request(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = prompts(12)
    ask(engine, old, False)

    def fail(self: KeyRotation, content: torch.Tensor, shift: int) -> None:
        raise ValueError("no such keys")

    monkeypatch.setattr(KeyRotation, "rotate", fail)
    with pytest.raises(EngineError, match="no such keys"):
        ask(engine, new)
    assert ask(engine, new, False).finish_reason == "length"
    check_memory(engine)


def test_a_failed_comparison_is_said(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = prompts(13)
    ask(engine, old, False)

    def fail(*args: Any) -> None:
        raise ValueError("no request")

    monkeypatch.setattr(engine._loop.tiers.splices.verifier, "make", fail)
    approximation = record(ask(engine, new))
    assert approximation.wait(30) is None
    assert approximation.reason == "the comparison failed: no request"


def test_random_requests_keep_the_memory_and_the_exact_answers() -> None:
    """Approximate requests next to exact ones never change an exact answer."""
    rng = random.Random(5)
    texts = [prompt for seed in range(4) for prompt in prompts(seed, rest=150)]
    with make(layers=2) as engine:
        exact = [ask(engine, text, False).token_ids for text in texts]
    with make(layers=2, max_total_tokens=1200) as engine:
        outputs: queue.SimpleQueue[tuple[int, bool, Output]] = queue.SimpleQueue()
        records = []
        for _ in range(25):
            chosen = [(rng.randrange(8), rng.random() < 0.5) for _ in range(rng.randint(1, 4))]
            for i, approximate in chosen:
                params = SamplingParams(
                    max_new_tokens=8, temperature=0, ignore_eos=True, approximate=approximate
                )
                put = lambda output, i=i, a=approximate: outputs.put((i, a, output))  # noqa: E731
                ids = engine.submit([texts[i]], [params], [put])
                if rng.random() < 0.1:
                    engine.abort(ids)
            for _ in chosen:
                i, approximate, output = outputs.get(timeout=60)
                if output.approximate is not None:
                    assert approximate
                    records.append(output.approximate)
                elif output.finish_reason == "length":
                    assert output.token_ids == exact[i]
            if rng.random() < 0.2:
                engine.flush_cache()
        assert records
        for approximation in records:
            approximation.wait(60)
            assert approximation.status != "pending"
        check_memory(engine, 1200)


def test_divergence() -> None:
    half = [(1, -0.6931471805599453), (2, -0.6931471805599453)]
    assert divergence(half, half) == pytest.approx(0, abs=1e-6)
    skewed = [(1, -0.10536051565782628), (2, -2.302585092994046)]  # 0.9 and 0.1
    assert divergence(half, skewed) == pytest.approx(0.5108, abs=1e-3)
    other = [(3, -0.6931471805599453), (4, -0.6931471805599453)]
    assert divergence(skewed, other) > 0.3
