"""Nothing that one request does may harm another: whatever it asks for, whatever its logits are,
whatever its tokenizer, listener or finalizer raises, the others get a fresh engine's tokens."""

from __future__ import annotations

import itertools
import queue
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizer

from sgnb.engine.cache.manager import CacheManager
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.device import memory
from sgnb.engine.engine import Engine
from sgnb.engine.loop import EngineLoop
from sgnb.engine.model import shared_model
from sgnb.engine.request import step_builder
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.collect import numbered_callbacks
from sgnb.engine.request.output import Output
from sgnb.engine.request.request import Request
from sgnb.engine.request.request_state import RequestState
from sgnb.engine.scheduler import Scheduler
from sgnb.engine.step_input import Adjustment
from sgnb.errors import EngineError, RequestError, SgnbError
from sgnb.events import RequestFinished
from sgnb.grammar.compiler import GrammarCompiler
from sgnb.sampling import SamplingParams

from ..byte_tokenizers import byte_level
from ..interrupts import LOCKS, in_time, interrupted_at
from ..random_models import greedy, random_model
from .test_engine import slow_down, wait_until, whole

MakeEngine = Callable[..., Engine]
GREEDY: dict[str, Any] = {"temperature": 0, "ignore_eos": True}
POISON = 77
INNOCENT = [[10 + i, 20, 30 + i, *range(40, 41 + 3 * i)] for i in range(8)]


def poisoned_model() -> Any:
    """A model that gives NaN after the token POISON."""
    model = random_model()
    model.model.embed_tokens.weight.data[POISON] = torch.nan
    return model


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("overlap", [True, False])
def test_a_request_with_nan_fails_alone(prefix_cache: bool, overlap: bool) -> None:
    """Beside it, after it in its slots, and below the same prefix."""
    expected = greedy("llama", INNOCENT, 6)
    shared = [*INNOCENT[0], *INNOCENT[7]]
    with Engine(
        poisoned_model(), prefix_cache=prefix_cache, overlap=overlap, max_step_tokens=16,
        max_running_requests=8, max_total_tokens=400,
    ) as engine:  # fmt: skip
        errors: list[EngineError] = []
        for length in (1, 2, 30):  # slot 0 is the first one's; long ones come in chunks
            prompt = [*shared, *[POISON] * length]
            for options in ({}, {"return_logprob": True, "logprob_start_len": 0}):
                with pytest.raises(EngineError, match="logits are NaN or infinite") as error:
                    engine.generate(prompt, max_new_tokens=3, **GREEDY, **options)
                errors.append(error.value)
            outputs = engine.generate(INNOCENT, max_new_tokens=6, **GREEDY)
            assert [output.token_ids for output in outputs] == expected
        assert len(set(map(id, errors))) == 6, "one error for each request"
        assert not any(POISON in node["tokens"] for node in engine.tree())
        assert whole(engine)


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("options", [{}, {"return_logprob": True, "logprob_start_len": 2}], ids=str)
def test_a_request_with_nan_spoils_no_prefix_that_others_share_meanwhile(
    prefix_cache: bool, overlap: bool, options: dict[str, Any]
) -> None:
    """Attention gives what is masked a weight of 0, and 0 times NaN is NaN: the keys and values of
    the prefix are spoilt too, and others take them from the cache before the logits are read."""
    prefix = INNOCENT[0]
    prompts = [[*prefix, POISON], prefix, [*prefix, POISON, 5], prefix[:3], [*prefix, 6], prefix]
    innocent = [i for i, prompt in enumerate(prompts) if POISON not in prompt]
    params = [SamplingParams.make(GREEDY | {"max_new_tokens": 6} | options)] * len(prompts)
    with Engine(random_model()) as engine:
        expected = engine.generate([prompts[i] for i in innocent], params[: len(innocent)])
    with Engine(
        poisoned_model(), prefix_cache=prefix_cache, overlap=overlap, max_step_tokens=16,
        max_running_requests=3, max_total_tokens=60,
    ) as engine:  # fmt: skip
        for _ in range(4):
            ends: queue.SimpleQueue[tuple[int, Output]] = queue.SimpleQueue()
            engine.submit(prompts, params, numbered_callbacks(ends.put, len(prompts)))
            outputs = dict(ends.get(timeout=30) for _ in prompts)
            for i, wanted in zip(innocent, expected, strict=True):
                assert outputs[i].error is None, i
                assert outputs[i].token_ids == wanted.token_ids
                for name in ("logprobs", "prompt_logprobs"):
                    assert getattr(outputs[i], name) == pytest.approx(
                        getattr(wanted, name), abs=1e-4
                    )
            assert all("logits are NaN" in str(outputs[i].error) for i in (0, 2))
        assert not any(POISON in node["tokens"] for node in engine.tree())
        assert whole(engine)


@pytest.mark.parametrize("options", [{}, {"return_logprob": True, "logprob_start_len": 0}], ids=str)
def test_a_request_for_no_token_with_nan_leaves_nothing(options: dict[str, Any]) -> None:
    """Beside others in its step, and when its last token alone is not in the cache."""
    with Engine(poisoned_model(), max_step_tokens=16) as engine:
        for prompt in ([*INNOCENT[7], POISON], [*INNOCENT[7], POISON, 5, 6]):
            engine.generate(INNOCENT[7], max_new_tokens=0)
            params = [SamplingParams.make({"max_new_tokens": 0} | o) for o in (options, {}, {})]
            ends: queue.SimpleQueue[tuple[int, Output]] = queue.SimpleQueue()
            engine.submit([prompt, *INNOCENT[:2]], params, numbered_callbacks(ends.put, 3))
            errors = dict(ends.get(timeout=30) for _ in range(3))
            assert "logits are NaN" in str(errors[0].error)
            assert errors[1].error is errors[2].error is None
            assert not any(POISON in node["tokens"] for node in engine.tree())
            assert whole(engine)


def test_a_step_that_was_spoilt_once_is_not_cached(make_engine: MakeEngine) -> None:
    """Keys and values of all chunks of the prompt, the last one's logits alone are read."""
    engine = make_engine(max_step_tokens=8, max_running_requests=4)
    attention: Any = engine._loop._runner._attention
    store, spoil = attention.store, threading.Event()

    def spoiling(layer: int, k: torch.Tensor, v: torch.Tensor) -> None:
        store(layer, k, v * torch.nan if spoil.is_set() else v)

    attention.store = spoiling
    prompt = list(range(10, 40))
    spoil.set()
    with pytest.raises(EngineError, match="logits are NaN"):
        engine.generate(prompt, max_new_tokens=3, **GREEDY)
    for options in ({}, {"return_logprob": True, "logprob_start_len": 5}):
        with pytest.raises(EngineError, match="logits are NaN"):
            engine.generate(prompt[:20], max_new_tokens=0, **options)
    spoil.clear()
    for end in (30, 20, 25):
        [tokens] = greedy("llama", [prompt[:end]], 3)
        assert engine.generate(prompt[:end], max_new_tokens=3, **GREEDY).token_ids == tokens
    assert whole(engine)


def raising_for_poison(module: torch.nn.Module, inputs: Any, output: Any) -> None:
    """A forward hook of the embedding."""
    if (inputs[0] == POISON).any():
        raise ValueError(f"no row for {POISON}")


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("at", ["prefill", "decode", "logits"])
def test_a_request_that_makes_the_forward_pass_raise_fails_alone(
    at: str, overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others of its steps get the tokens that they would have had, each run once more."""
    expected = greedy("llama", INNOCENT, 6)
    guilty = [*INNOCENT[0], POISON] if at == "prefill" else INNOCENT[0]
    bias = {POISON: 1e6} if at == "decode" else {5: -1.0}
    model = random_model()
    adjustment, runs = step_builder._adjustment, 0

    def failing(state: RequestState) -> Adjustment:
        if at == "logits" and state.request.num_output_tokens >= 2:
            raise ValueError(f"no row for {POISON}")
        return adjustment(state)

    monkeypatch.setattr(step_builder, "_adjustment", failing)
    if at != "logits":
        model.model.embed_tokens.register_forward_hook(raising_for_poison)
    with Engine(model, overlap=overlap, max_running_requests=16) as engine:
        run = engine._loop._runner.run

        def counted(batch: Batch) -> Any:
            nonlocal runs
            runs += 1
            return run(batch)

        monkeypatch.setattr(engine._loop._runner, "run", counted)
        ends: queue.SimpleQueue[tuple[int, Output]] = queue.SimpleQueue()
        prompts = [*INNOCENT[:4], guilty, *INNOCENT[4:]]
        params = [SamplingParams.make({"max_new_tokens": 6, **GREEDY}) for _ in prompts]
        params[4] = SamplingParams.make({"max_new_tokens": 6, "logit_bias": bias, **GREEDY})
        engine.submit(prompts, params, numbered_callbacks(ends.put, len(prompts)))
        outputs = dict(ends.get(timeout=30) for _ in prompts)
        error = outputs.pop(4).error
        assert isinstance(error, EngineError) and isinstance(error.__cause__, ValueError)
        assert f"the forward pass failed: ValueError: no row for {POISON}" in str(error)
        assert [outputs[i].token_ids for i in sorted(outputs)] == expected
        assert all(output.error is None for output in outputs.values())
        assert runs <= 6 + 3 + len(prompts), "the step that failed, and each request alone"
        assert whole(engine)
        again = engine.generate(INNOCENT, max_new_tokens=6, **GREEDY)
        assert [output.token_ids for output in again] == expected


@pytest.mark.parametrize("overlap", [True, False])
def test_a_step_that_fails_once_loses_no_request(overlap: bool) -> None:
    """Also with samples, grammars, log-probabilities, and chunks of long prompts."""
    options: list[dict[str, Any]] = [
        {"temperature": 1.0, "seed": 3}, {"regex": "[a-f]{3}xyz[a-f]{3}", **GREEDY},
        {"return_logprob": True, "logprob_start_len": 0, **GREEDY},
        {"frequency_penalty": 1.0, **GREEDY}, {"temperature": 2.0, "top_p": 0.9, "seed": 4},
    ]  # fmt: skip
    texts = ["one", "two", "three " * 9, "four", "five " * 7]
    asked = [SamplingParams.make({"max_new_tokens": 12, **option}) for option in options]
    found = []
    for fails_every in (0, 1, 3):
        with Engine(
            random_model(vocab_size=400), tokenizer=byte_level(), overlap=overlap,
            max_step_tokens=24, max_running_requests=8,
        ) as engine:  # fmt: skip
            run, count = engine._loop._runner.run, itertools.count(1)

            def failing(
                batch: Batch, run: Any = run, count: Any = count, every: int = fails_every
            ) -> Any:
                if every and len(batch) > 1 and next(count) % every == 0:
                    raise RuntimeError("not this time")
                return run(batch)

            engine._loop._runner.run = failing
            outputs = engine.generate(texts, asked)
            scores = [np.round(o.prompt_logprobs + o.logprobs, 3).tolist() for o in outputs]
            found.append(([(o.text, o.token_ids) for o in outputs], scores))
            assert whole(engine)
    assert found[1:] == found[:1] * 2


@pytest.mark.parametrize("options", [{}, {"top_k": 5}, {"top_p": 0.9}, {"min_p": 0.1}], ids=str)
@pytest.mark.parametrize("temperature", [0.001, 0.5, 2.0])
def test_huge_logits_are_sampled_as_what_they_are(
    options: dict[str, Any], temperature: float, make_engine: MakeEngine
) -> None:
    engine = make_engine()
    logits = torch.full((97,), -3e38)
    logits[40] = 3e38
    engine._loop._runner._logits = lambda ids, positions, keep, *more: logits.repeat(len(keep), 1)
    output = engine.generate([5], max_new_tokens=3, temperature=temperature, **options)
    assert output.token_ids == [40, 40, 40]


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("temperature", [0, 1])
def test_infinite_logits_are_an_error(
    value: float, temperature: float, make_engine: MakeEngine
) -> None:
    engine = make_engine()
    logits = torch.full((97,), -torch.inf)
    logits[40] = value
    engine._loop._runner._logits = lambda ids, positions, keep, *more: logits.repeat(len(keep), 1)
    with pytest.raises(EngineError, match="logits are NaN or infinite"):
        engine.generate([5], max_new_tokens=3, temperature=temperature)


@pytest.mark.parametrize("temperature", [0, 1])
def test_a_request_that_bans_everything_is_told(temperature: float) -> None:
    everything = dict.fromkeys(range(400), -np.inf)
    options: dict[str, Any] = {"temperature": temperature, "max_new_tokens": 3}
    with Engine(random_model(vocab_size=400), tokenizer=byte_level()) as engine:
        with pytest.raises(RequestError, match=r"(?s)forbid all.*hint: remove tokens from"):
            engine.generate("The", logit_bias=everything, **options)
        with pytest.raises(SgnbError, match=r"(?s)logit_bias forbid all.*grammar allows"):
            engine.generate("The", logit_bias=everything, regex="[a-z]{2}", **options)
        assert engine.generate("The", **options).token_ids and whole(engine)


class Words(PreTrainedTokenizer):
    """Written in Python, for 50 ids; others are an error."""

    vocab_size = 50

    def get_vocab(self) -> dict[str, int]:
        return {f"w{i}": i for i in range(50)}

    def _tokenize(self, text: str, **more: Any) -> list[str]:
        return text.split()

    def _convert_token_to_id(self, token: str) -> int:
        return int(token[1:])

    def _convert_id_to_token(self, index: int) -> str:
        return ["w" + str(i) for i in range(50)][index]

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return " ".join(tokens)


@pytest.mark.parametrize("stream", [True, False])
def test_an_id_that_a_tokenizer_in_python_does_not_have(stream: bool) -> None:
    with Engine(random_model(), tokenizer=Words()) as engine:
        options: dict[str, Any] = {"max_new_tokens": 3, **GREEDY}
        for bias, text in (({60: 1e3}, ""), ({7: 1e3}, "w7 w7 w7")):
            output = engine.generate("w1 w2", logit_bias=bias, stream=stream, **options)
            assert (list(output)[-1] if stream else output).text.strip() == text
        assert engine.tokenizer is not None
        assert engine.tokenizer.pieces([60, 7]) == [b"<60>", b"w7"]
        assert whole(engine)


def test_a_tokenizer_that_names_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The events have numbers in place of names."""
    with Engine(random_model(vocab_size=400), tokenizer=byte_level()) as engine:
        monkeypatch.setattr(type(engine.tokenizer), "_bytes", lambda *arguments: 1 / 0)
        assert engine.generate([5], max_new_tokens=2, **GREEDY).token_ids and not engine.closed


class Finalized:
    """Calls `function` when it is dropped, and keeps what that gives or raises."""

    def __init__(self, function: Callable[[], Any], results: queue.SimpleQueue[Any]) -> None:
        self.function, self.results = function, results

    def __del__(self) -> None:
        try:
            self.results.put(self.function())
        except SgnbError as error:
            self.results.put(error)


def test_a_finalizer_on_the_engines_thread_does_not_wait_for_it(make_engine: MakeEngine) -> None:
    engine = make_engine()
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def dropped_there(function: Callable[[], Any]) -> Any:
        kept = [Finalized(function, results)]
        engine.submit(
            [[5, 6, 7]], [SamplingParams(max_new_tokens=2)], [lambda output: kept.clear()]
        )
        return results.get(timeout=30)

    assert dropped_there(engine.stats)["pool_tokens"] == engine.pool_tokens
    assert dropped_there(engine.tree)[0]["tokens"][:2] == (5, 6)
    assert dropped_there(lambda: engine.cached_length([5, 6, 7])) == 2
    assert dropped_there(engine.flush_cache) == 0
    assert engine.stats()["cached"] == 0, "it happened after the step"
    refused = dropped_there(lambda: engine.generate([5]))
    assert isinstance(refused, EngineError) and "own thread" in str(refused)
    assert dropped_there(engine.close) is None
    wait_until(lambda: engine._loop._ended)


def test_seeds_are_not_drawn_from_the_users_random(make_engine: MakeEngine) -> None:
    engine = make_engine()
    outputs = set()
    for _ in range(3):
        random.seed(1)
        before = random.getstate()
        outputs.add(tuple(engine.generate([5], max_new_tokens=8, temperature=2.0).token_ids))
        assert random.getstate() == before
    assert len(outputs) == 3


def test_an_interrupt_in_a_threads_methods_loses_no_engine(make_engine: MakeEngine) -> None:
    """Inside `is_alive` it makes a thread that runs look dead, on Python 3.11 and 3.12."""
    engine = make_engine()
    expected = engine.generate([5, 6], max_new_tokens=2, **GREEDY).token_ids

    def use() -> None:
        assert not engine.closed and engine.stats()
        engine.generate([5, 6], max_new_tokens=2, **GREEDY)

    number = 1
    while interrupted_at(number, use):
        assert not engine.closed
        number += 1
    assert engine.generate([5, 6], max_new_tokens=2, **GREEDY).token_ids == expected
    wait_until(lambda: whole(engine))


@pytest.mark.slow
def test_an_interrupt_where_threads_meet_stops_no_engine() -> None:
    """In the methods of `threading` and of futures it would leave a lock taken that the engine's
    thread waits for."""
    engine = Engine("tiny")
    where = [*LOCKS, EngineLoop.call, EngineLoop.submit, EngineLoop.abort, EngineLoop._send]
    where.append(GrammarCompiler.compile)
    lengths = itertools.count(1)  # a grammar per call, so that each is compiled

    def use() -> None:
        assert engine.stats()
        engine.flush_cache()
        engine.generate("a", regex=f"a|b{{{next(lengths)}}}", max_new_tokens=2, **GREEDY)

    number = 1
    while in_time(lambda n=number: interrupted_at(n, use, where, calls=True)):  # type: ignore[misc]
        assert in_time(engine.stats)
        in_time(use)
        number += 1
    assert number > 20
    in_time(engine.close)


@pytest.mark.slow
def test_an_interrupt_at_any_line_of_an_engines_beginning_leaks_nothing() -> None:
    """From its parts to the end of `__init__`: no thread, no memory and no use of the model."""
    model = random_model()
    attention = model.config._attn_implementation
    pools, number, interrupted = len(memory.pools), 1, True
    functions = [Engine.__init__, Engine._assemble, EngineLoop.__init__, EngineLoop.start]
    others = set(threading.enumerate())  # of engines that other tests keep
    while interrupted:
        kept: list[Engine] = []
        interrupted = interrupted_at(number, lambda k=kept: k.append(Engine(model)), functions)  # type: ignore[misc]
        assert bool(kept) == (not interrupted)
        for engine in kept:
            engine.close()
        began = set(threading.enumerate()) - others
        alive = [t for t in began if t.name == "sgnb-engine" and t.is_alive()]
        assert not alive, f"line {number}"
        assert len(memory.pools) == pools, f"line {number}"
        assert model.config._attn_implementation == attention, f"line {number}"
        assert all(use.model is not model for use in shared_model._shared_models), f"line {number}"
        number += 1
    assert number > 30


def test_a_close_that_was_interrupted_can_be_repeated() -> None:
    number, interrupted = 1, True
    while interrupted:
        engine = Engine(random_model())
        interrupted = interrupted_at(number, engine.close)
        engine.close()
        assert engine.closed and engine._loop._ended
        assert not hasattr(engine._loop, "_runner"), "its memory is free"
        number += 1


@pytest.mark.parametrize("begun", [True, False])
def test_a_stream_that_is_dropped_ends_its_request(
    begun: bool, make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(config={"vocab_size": 400}, tokenizer=byte_level())
    slow_down(engine, monkeypatch)
    stream = engine.generate("The", stream=True, max_new_tokens=250, **GREEDY)
    if begun:
        next(stream)
    del stream
    wait_until(lambda: whole(engine))
    [end] = [r.event for r in engine.log.read().records if isinstance(r.event, RequestFinished)]
    assert end.reason == "abort" and end.output_tokens < 250


class Compared(Request):
    """Counts how often requests are compared."""

    count = 0

    def __eq__(self, other: object) -> bool:
        Compared.count += 1
        return self is other

    __hash__ = object.__hash__


def test_ending_requests_that_wait_is_linear() -> None:
    scheduler = Scheduler(CacheManager(SlotAllocator(100)), context_length=100)
    waiting = [Compared(i, [5], SamplingParams(), 10) for i in range(1000)]
    for request in waiting:
        scheduler.add(request)
    for request in reversed(waiting):
        scheduler.finish(request)
    assert not scheduler.has_work and Compared.count == 0
