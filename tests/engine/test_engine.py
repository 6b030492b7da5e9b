"""The engine as its user meets it: results, streams, stops, aborts, failures, two threads, little
memory."""

from __future__ import annotations

import _thread
import asyncio
import gc
import itertools
import queue
import re
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from sgnb.engine import assembly
from sgnb.engine.attention.split import SplitAttention
from sgnb.engine.attention.torch_backend import TorchAttention
from sgnb.engine.cache.kv_cache import KVCache
from sgnb.engine.device import memory
from sgnb.engine.device.memory import freeze_heap, release_device_memory
from sgnb.engine.engine import Engine
from sgnb.engine.loop import engine_loop
from sgnb.engine.request import request_factory
from sgnb.engine.request.output import Output
from sgnb.engine.request.request import Request
from sgnb.engine.runner import ModelRunner
from sgnb.errors import Aborted, EngineError, GrammarError, ModelError, OptionError
from sgnb.events import RequestFinished, RequestRetracted, StepRan
from sgnb.sampling import SamplingParams

from ..byte_tokenizers import byte_level
from ..interrupts import interrupt_in
from ..random_models import greedy, random_model

MakeEngine = Callable[..., Engine]
PROMPT = list(range(10, 30))
GREEDY: dict[str, Any] = {"temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def shared() -> Iterator[Engine]:
    """An engine without a tokenizer, for tests that leave it as it was."""
    with Engine(random_model()) as engine:
        yield engine


@pytest.fixture(scope="module")
def text() -> Iterator[Engine]:
    """An engine whose model and tokenizer agree on 400 tokens."""
    with Engine(random_model(vocab_size=400), tokenizer=byte_level()) as engine:
        yield engine


def whole(engine: Engine, state: dict[str, Any] | None = None) -> bool:
    """free + cached + in flight = the pool, with nothing running."""
    state = state or engine.stats()
    return (
        state["free"] + state["cached"] == engine.pool_tokens
        and not state["running"] + state["waiting"] + state["in_flight"]
    )


def test_one_and_many(shared: Engine) -> None:
    [expected] = greedy("llama", [PROMPT], 6)
    one = shared.generate(PROMPT, max_new_tokens=6, **GREEDY)
    assert isinstance(one, Output) and one.token_ids == expected
    many = shared.generate([PROMPT, PROMPT[:5]], {"max_new_tokens": 6, **GREEDY})
    assert [len(o.token_ids) for o in many] == [6, 6] and many[0].token_ids == expected
    each = shared.generate(
        [PROMPT, PROMPT], [{"max_new_tokens": 2}, SamplingParams(max_new_tokens=4)], **GREEDY
    )
    assert [len(o.token_ids) for o in each] == [2, 4]
    assert (one.text, one.finish_reason, one.prompt_tokens) == ("", "length", 20)
    assert shared.generate([]) == []


def test_other_sequences_of_ids(shared: Engine) -> None:
    [expected] = greedy("llama", [PROMPT], 3)
    for prompt in (tuple(PROMPT), torch.tensor(PROMPT).numpy()):
        assert shared.generate(prompt, max_new_tokens=3, **GREEDY).token_ids == expected
    many = shared.generate(torch.tensor([PROMPT, PROMPT]).numpy(), max_new_tokens=3, **GREEDY)
    assert [o.token_ids for o in many] == [expected] * 2


def test_text_in_text_out(text: Engine) -> None:
    out = text.generate("The quick 🦊", max_new_tokens=12, **GREEDY)
    [ids] = text.encode(["The quick 🦊"])
    assert out.prompt_tokens == len(ids)
    assert text.generate(ids, max_new_tokens=12, **GREEDY).token_ids == out.token_ids
    assert text.tokenizer is not None and out.text == text.tokenizer.decode(out.token_ids)
    assert [o.text for o in text.generate(["The quick 🦊", ids], max_new_tokens=12, **GREEDY)] == [
        out.text
    ] * 2


def test_a_pinned_prefix_outlives_flush_and_pressure() -> None:
    with Engine(random_model(), max_total_tokens=64) as engine:
        engine.generate(PROMPT, max_new_tokens=1, **GREEDY)
        assert engine.pin(PROMPT) == len(PROMPT)
        (pin,) = engine.pins()
        assert pin == {"node": pin["node"], "owner": "user", "tokens": len(PROMPT), "durable": 0}
        engine.flush_cache()
        engine.generate([[i] * 30 for i in range(5)], max_new_tokens=1, **GREEDY)
        assert engine.stats()["pinned"] == len(PROMPT)
        assert engine.cached_length([*PROMPT, 1]) == len(PROMPT), "nothing evicted it"

        evicted = engine.evict(pin["node"])
        assert (evicted.freed, evicted.pinned, evicted.in_use) == (0, len(PROMPT), 0)
        assert "20 stay: pinned" in evicted.line()
        assert engine.unpin(owner="run1") == 0 and engine.unpin(pin["node"]) == 1
        evicted = engine.evict(pin["node"])
        assert evicted.freed == 20 and evicted.bytes == 20 * engine.token_bytes > 0
        assert engine.cached_length(PROMPT) == 0 and whole(engine)
        with pytest.raises(OptionError, match=r"has no node"):
            engine.pin(pin["node"])
        assert engine.pin([1, 2, 3]) == 0 and not engine.pins(), "none of it is cached"


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_is_the_text_in_parts(text: Engine, seed: int) -> None:
    options = {"max_new_tokens": 30, "seed": seed, "temperature": 1.5, "ignore_eos": True}
    whole_output = text.generate("die Füchse", **options)
    parts = list(text.generate("die Füchse", stream=True, **options))
    assert "".join(part.delta for part in parts) == parts[-1].text == whole_output.text
    for before, after in itertools.pairwise(parts):
        assert (
            after.text.startswith(before.text)
            and after.token_ids[: len(before.token_ids)] == before.token_ids
        )
    assert [part.finish_reason for part in parts] == [None] * (len(parts) - 1) + ["length"]
    assert all("\ufffd" not in part.text or "\ufffd" in whole_output.text for part in parts)


def test_a_stream_that_nobody_reads_to_the_end(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(config={"vocab_size": 400}, tokenizer=byte_level())
    slow_down(engine, monkeypatch)
    for part in engine.generate("The", stream=True, max_new_tokens=200, **GREEDY):
        assert part.token_ids and not part.finish_reason
        break
    wait_until(lambda: whole(engine))
    [finished] = [
        r.event for r in engine.log.read().records if isinstance(r.event, RequestFinished)
    ]
    assert finished.reason == "abort"


def test_async(text: Engine) -> None:
    async def everything() -> None:
        one, many = await asyncio.gather(
            text.agenerate("The", max_new_tokens=8, **GREEDY),
            text.agenerate(["The", "dog"], max_new_tokens=8, **GREEDY),
        )
        assert one == many[0] or one.text == many[0].text
        parts = [
            part
            async for part in await text.agenerate("The", stream=True, max_new_tokens=8, **GREEDY)
        ]
        assert "".join(p.delta for p in parts) == one.text

    asyncio.run(everything())


def test_async_cancelled_and_its_event_loop_closed(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's thread hears of the abort when nobody can be told any more."""
    engine = make_engine()
    slow_down(engine, monkeypatch)

    async def consume(stream: bool) -> None:
        async for _ in await engine.agenerate(PROMPT, stream=stream, max_new_tokens=200, **GREEDY):
            pass

    for stream in (False, True):
        with pytest.raises(asyncio.TimeoutError):
            asyncio.run(asyncio.wait_for(consume(stream), 0.05))
    assert len(engine.generate(PROMPT, max_new_tokens=2, **GREEDY).token_ids) == 2


def test_abort_keeps_what_there_is(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine()
    slow_down(engine, monkeypatch)
    results: queue.SimpleQueue[Output] = queue.SimpleQueue()
    params = [SamplingParams(max_new_tokens=200, **GREEDY)]
    [running] = engine.submit([PROMPT], params, [results.put], stream=True)
    [other] = engine.submit([PROMPT[::-1]], params, [lambda output: None])
    wait_until(lambda: engine.stats()["output_tokens"] > 6)
    engine.abort(running)
    engine.abort([other, 999])
    while (output := results.get(timeout=60)).finish_reason is None:
        pass
    assert output.finish_reason == "abort" and isinstance(output.error, Aborted)
    assert (
        output.token_ids == greedy("llama", [PROMPT], 30)[0][: len(output.token_ids)]
        and output.token_ids
    )
    wait_until(lambda: whole(engine))
    assert engine.generate(PROMPT, max_new_tokens=1).cached_tokens == len(PROMPT) - 1


def test_an_aborted_call_raises(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine()
    slow_down(engine, monkeypatch)
    threading.Timer(0.1, lambda: engine.abort([1])).start()
    with pytest.raises(Aborted, match="stopped before it finished"):
        engine.generate(PROMPT, max_new_tokens=200, **GREEDY)


def test_interrupt(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The requests end, the cache stays, the next call works."""
    engine = make_engine()
    slow_down(engine, monkeypatch)
    for stream in (False, True):
        timer = threading.Timer(0.3, _thread.interrupt_main)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            for _ in engine.generate(PROMPT, max_new_tokens=230, stream=stream, **GREEDY):  # type: ignore[misc]
                pass
        timer.join()
        wait_until(lambda: whole(engine))
        out = engine.generate(PROMPT, max_new_tokens=2, **GREEDY)
        assert len(out.token_ids) == 2 and out.cached_tokens == len(PROMPT) - 1


def test_closed(make_engine: MakeEngine) -> None:
    engine = make_engine()
    assert not engine.closed and "closed" not in repr(engine)
    engine.close()
    engine.close()
    assert engine.closed and repr(engine).endswith("closed>")
    uses: list[Callable[[], Any]] = [
        lambda: engine.generate(PROMPT),
        engine.stats,
        engine.flush_cache,
        engine.tree,
    ]
    for use in uses:
        with pytest.raises(EngineError, match=r"the engine is closed(.|\n)*new Engine"):
            use()
    engine.abort(1)
    with pytest.raises(EngineError):
        asyncio.run(engine.agenerate(PROMPT))


@pytest.mark.slow
def test_closing_ends_what_runs(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine()
    slow_down(engine, monkeypatch)
    errors = in_thread(lambda: engine.generate([PROMPT, PROMPT], max_new_tokens=200, **GREEDY))
    wait_until(lambda: engine.stats()["running"] == 2)
    engine.close()
    assert isinstance(errors.get(timeout=60), EngineError)


@pytest.mark.parametrize("close", [True, False])
def test_a_dropped_engine_lets_go_of_thread_and_model(close: bool) -> None:
    model = random_model()
    gone, attention = weakref.ref(model), model.config._attn_implementation
    before = {t for t in threading.enumerate() if t.name == "sgnb-engine"}
    engine = Engine(model)
    engine.generate(PROMPT, max_new_tokens=1)
    engine.stats()
    if close:
        engine.close()
        assert model.config._attn_implementation == attention, "the model is left as it was found"
        del model
    else:
        del engine, model
    wait_until(lambda: gc.collect() >= 0 and gone() is None)
    assert {t for t in threading.enumerate() if t.name == "sgnb-engine"} <= before


def unfreeze(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unfreeze the objects that the tests have frozen, and let `freeze_heap` look again."""
    monkeypatch.setattr(memory, "_frozen_by_user", threading.Event())
    gc.unfreeze()


@pytest.mark.slow
@pytest.mark.parametrize("fuse", [True, False])
def test_a_closed_engine_holds_nothing(fuse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the pool at its end, nor the model once its owner drops it too. Frozen, as on a GPU;
    collected once."""
    model = random_model()
    engine = Engine(model, fuse=fuse, overlap=True)
    pool = weakref.ref(engine._loop._runner._attention.kv)
    unfreeze(monkeypatch)
    freeze_heap()
    engine.generate([PROMPT, [5, 6], [5, 7]], max_new_tokens=4)
    engine.close()
    assert gc.get_freeze_count() == 0
    assert pool() is None
    left = [weakref.ref(model), *map(weakref.ref, model.parameters())]
    del engine, model
    gc.collect()
    assert [one() for one in left if one() is not None] == []
    gc.freeze()  # as it was when the tests began


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> weakref.WeakSet[Request]:
    """Those in memory, of all engines made by the test."""
    alive: weakref.WeakSet[Request] = weakref.WeakSet()

    def make(*args: Any) -> Request:
        request = Request(*args)
        alive.add(request)
        return request

    monkeypatch.setattr(request_factory, "Request", make)
    return alive


def test_the_attention_of_a_gpu_keeps_no_requests(
    make_engine: MakeEngine, requests: weakref.WeakSet[Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    def switching(name: str, kv: KVCache, heads: Any, **options: Any) -> SplitAttention:
        return SplitAttention(TorchAttention(kv, fork_attention=True), "there is no GPU")

    monkeypatch.setattr(assembly, "make_backend", switching)
    engine = make_engine(overlap=True, device="cpu")
    engine.generate([PROMPT, [5, 6], [5, 7]], max_new_tokens=4)
    wait_until(lambda: gc.collect() >= 0 and not requests)
    monkeypatch.setattr(TorchAttention, "attend", lambda *args: 1 / 0)
    with pytest.raises(EngineError, match="ZeroDivisionError"):
        engine.generate([PROMPT, [5, 6]], max_new_tokens=4)
    wait_until(lambda: gc.collect() >= 0 and not requests)


def test_a_grammar_that_failed_keeps_no_requests(
    text: Engine, requests: weakref.WeakSet[Request]
) -> None:
    """Its error is kept, for whoever asks for the same."""
    for _ in range(3):
        with pytest.raises(GrammarError, match=r"\( without its \)") as caught:
            text.generate(PROMPT, regex="a(b")
        frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert caught.value.__cause__ is None and "begin" not in frames
        del caught
    wait_until(lambda: gc.collect() >= 0 and not requests)


def test_threads_share_an_engine(shared: Engine) -> None:
    prompts = [[10 + i, 40, 50, 60 + i] for i in range(6)]
    expected = greedy("llama", prompts, 8)
    found = [
        in_thread(lambda p=p: shared.generate(p, max_new_tokens=8, **GREEDY).token_ids)
        for p in prompts
    ]
    assert [f.get(timeout=60) for f in found] == expected


def test_a_failing_forward_pass_fails_its_requests_only(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine()
    run = ModelRunner.run

    def sometimes(self: Any, batch: Any) -> Any:
        if any(77 in request.tokens for request in batch.requests):
            raise RuntimeError("no kernel today")
        return run(self, batch)

    monkeypatch.setattr(ModelRunner, "run", sometimes)
    with pytest.raises(
        EngineError, match="the forward pass failed: RuntimeError: no kernel today"
    ) as failed:
        engine.generate([77, 78, 79], max_new_tokens=3)
    assert isinstance(failed.value.__cause__, RuntimeError)
    assert whole(engine)
    assert (
        engine.generate(PROMPT, max_new_tokens=4, **GREEDY).token_ids
        == greedy("llama", [PROMPT], 4)[0]
    )
    assert [
        r.event.reason for r in engine.log.read().records if isinstance(r.event, RequestFinished)
    ] == [
        "error",
        "length",
    ]


SCORED = {"return_logprob": True, "logprob_start_len": 0}


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0},
        {"temperature": 1},
        {"regex": "[a-z]{5}"},
        SCORED,
        SCORED | {"max_new_tokens": 0},
    ],
    ids=str,
)
def test_nan_is_an_error_of_its_requests(options: dict[str, Any]) -> None:
    model = random_model(vocab_size=400)
    model.lm_head.weight.data.fill_(torch.nan)
    with Engine(model, tokenizer=byte_level()) as engine:
        for _ in range(2):
            with pytest.raises(EngineError, match=r"logits are NaN or infinite\n.*bfloat16"):
                engine.generate(PROMPT, **{"max_new_tokens": 8} | options)
            assert whole(engine)


@pytest.mark.slow
def test_an_error_that_is_kept_does_not_keep_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the last error of a notebook is."""
    model = random_model()
    gone = weakref.ref(model)
    engine = Engine(model)
    model.lm_head.forward = lambda x: 1 / 0  # type: ignore[assignment]
    with pytest.raises(EngineError) as kept:
        engine.generate(PROMPT)
    engine.close()
    del engine, model
    wait_until(lambda: gc.collect() >= 0 and gone() is None)
    assert isinstance(kept.value.__cause__, ZeroDivisionError)


@pytest.mark.slow
@pytest.mark.parametrize("begins", [True, False])
def test_an_interrupt_as_the_thread_starts_leaves_none(
    begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if thread.name != "sgnb-engine" or begins:
            start(thread)
        if thread.name == "sgnb-engine":
            raise KeyboardInterrupt

    def engines() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "sgnb-engine"]

    before = engines()
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    pools = len(memory.pools)
    with pytest.raises(KeyboardInterrupt):
        Engine(random_model())
    assert len(memory.pools) <= pools
    wait_until(lambda: set(engines()) <= set(before))


@pytest.mark.slow
def test_without_a_thread_the_model_is_left_as_it_was_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    model = random_model()
    before = model.config._attn_implementation
    monkeypatch.setattr(threading.Thread, "start", none_left)
    with pytest.raises(RuntimeError, match="new thread"):
        Engine(model)
    assert model.config._attn_implementation == before and "forward" not in vars(
        model.model.layers[0]
    )


def test_an_interrupted_close_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, go_on, released = Engine(random_model()), threading.Event(), threading.Event()

    def slow() -> None:
        interrupt_in(0.1)
        assert go_on.wait(60)
        released.set()

    monkeypatch.setattr(engine_loop, "release_device_memory", slow)
    with pytest.raises(KeyboardInterrupt):
        engine.close()
    assert not released.is_set()
    go_on.set()
    engine.close()
    assert released.is_set()


@pytest.mark.parametrize(
    "options, error", [({"max_total_tokens": 10**14}, OptionError), ({}, KeyboardInterrupt)]
)
def test_a_load_that_fails_does_not_keep_what_it_made(
    options: dict[str, Any], error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[Any]] = []
    load_decoder = assembly.load_decoder

    def load(*arguments: Any) -> Any:
        decoder = load_decoder(*arguments)
        made.append(weakref.ref(decoder.model))
        return decoder

    def interrupted(decoder: Any, attention: Any, *rest: Any, **more: Any) -> Any:
        made.append(weakref.ref(attention))
        raise KeyboardInterrupt

    monkeypatch.setattr(assembly, "load_decoder", load)
    monkeypatch.setattr(assembly, "ModelRunner", interrupted)
    with pytest.raises(error) as kept:
        Engine("tiny", **options)
    assert [ref() for ref in made] == [None] * (1 if options else 2)
    assert kept.value.__traceback__ is not None


def test_a_loop_that_cannot_start_keeps_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever keeps the error keeps none of the engine's parts."""
    made: list[weakref.ref[Any]] = []
    cache, start = KVCache.__init__, threading.Thread.start

    def make(self: KVCache, *arguments: Any) -> None:
        made.append(weakref.ref(self))
        cache(self, *arguments)

    def refuse(self: threading.Thread) -> None:
        if self.name == "sgnb-engine":
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(KVCache, "__init__", make)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start") as kept:
        Engine(random_model(), device="cpu", max_total_tokens=100)
    gc.collect()
    assert made and [ref() for ref in made] == [None] * len(made)
    assert kept.value.__traceback__ is not None


def test_a_request_whose_end_fails_is_told(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nobody else."""

    def broken(self: Any) -> str:
        raise ValueError("the decoder broke")

    engine = make_engine("llama", {"vocab_size": 400}, tokenizer=byte_level())
    with monkeypatch.context() as patched:
        patched.setattr("sgnb.engine.request.detokenizer.Detokenizer.finish", broken)
        with pytest.raises(EngineError, match="the decoder broke"):
            engine.generate("The quick", max_new_tokens=3, **GREEDY)
    assert engine.generate("The quick", max_new_tokens=3, **GREEDY).text and whole(engine)


def test_a_step_in_flight_of_a_request_that_failed_is_not_cached(make_engine: MakeEngine) -> None:
    """Its token was never read: the tree holds as many slots as tokens."""
    engine = make_engine(overlap=True, device="cpu")
    runner = engine._loop._runner
    logits, steps = runner._logits, itertools.count(1)

    def spoil(*arguments: Any) -> torch.Tensor:
        made: torch.Tensor = logits(*arguments)
        return made.fill_(torch.nan) if next(steps) >= 3 else made

    runner._logits = spoil
    with pytest.raises(EngineError, match="NaN"):
        engine.generate(PROMPT, max_new_tokens=8, **GREEDY)
    runner._logits = logits
    assert engine.stats()["in_flight"] == 0
    cached = [token for node in engine.tree() for token in node["tokens"]]
    more = [*cached, 9, 9, 9]
    assert (
        engine.generate(more, max_new_tokens=4, **GREEDY).token_ids == greedy("llama", [more], 4)[0]
    )


@pytest.mark.slow
def test_a_refused_device_leaves_the_heap_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the engine that serves beside it."""
    unfreeze(monkeypatch)
    freeze_heap()
    with pytest.raises(ModelError, match="cuda:99"):
        Engine("tiny", device="cuda:99")
    assert gc.get_freeze_count() > 0
    release_device_memory()
    assert gc.get_freeze_count() == 0
    gc.freeze()  # as it was when the tests began


@pytest.mark.slow
def test_a_heap_that_was_frozen_before_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.freeze()
    with Engine("tiny"):
        pass
    assert gc.get_freeze_count() > 0
    unfreeze(monkeypatch)
    with Engine("tiny"):
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0
    gc.freeze()  # as it was when the tests began


@pytest.mark.parametrize(
    "place", ["sgnb.engine.model.loading.read_checkpoint", "sgnb.engine.sizing.KVCache.__init__"]
)
def test_a_load_after_the_gpu_was_lost_says_what_to_do(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **more: Any) -> Any:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(
        OptionError, match="needs a GPU"
    ):  # an older error that is being handled is not this one's
        try:
            fail()
        except RuntimeError:
            Engine("tiny", device="cpu", attention="triton")
    monkeypatch.setattr(place, fail)
    with pytest.raises(
        ModelError, match=r"(?s)cannot be loaded: CUDA error: an illegal.*hint: restart the kernel"
    ):
        Engine("tiny")


@pytest.mark.parametrize("place", ["schedule", "complete", "finish"])
def test_an_error_in_the_scheduler_ends_the_engine_for_everybody(
    place: str, make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine()
    release = threading.Event()
    original = getattr(engine._scheduler, place)

    def broken(*args: Any) -> Any:
        if release.is_set():
            raise IndexError("lost a node")
        time.sleep(0.005)
        return original(*args)

    monkeypatch.setattr(engine._scheduler, place, broken)
    errors = [
        in_thread(lambda: engine.generate([PROMPT, [5]], max_new_tokens=100, **GREEDY))
        for _ in range(3)
    ]
    wait_until(lambda: engine.stats()["running"] == 6)
    release.set()
    for error in errors:
        failure = error.get(timeout=60)
        assert isinstance(
            failure, EngineError
        ) and "the engine ended on IndexError: lost a node" in str(failure)
        assert isinstance(failure.__cause__, IndexError)
    assert engine.closed
    with pytest.raises(EngineError, match="lost a node"):
        engine.stats()


def test_an_error_in_the_text_ends_its_request(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(config={"vocab_size": 400}, tokenizer=byte_level())
    with monkeypatch.context() as patched:
        patched.setattr(
            "sgnb.engine.request.detokenizer.Detokenizer.push", lambda self, tokens: 1 / 0
        )
        results = [
            in_thread(lambda: engine.generate("The", max_new_tokens=50, stop="xyz", **GREEDY))
            for _ in range(2)
        ]
        assert all(isinstance(r.get(timeout=60), EngineError) for r in results)
    assert engine.generate("The", max_new_tokens=3, **GREEDY).text and whole(engine)


def test_a_listener_that_fails_fails_alone(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(config={"vocab_size": 400}, tokenizer=byte_level())
    slow_down(engine, monkeypatch)
    ready = threading.Event()

    def listener(output: Output) -> None:
        if ready.is_set():
            raise ValueError("no")

    engine.submit([[5]], [SamplingParams(max_new_tokens=200, **GREEDY)], [listener], stream=True)
    other = in_thread(lambda: engine.generate("The", max_new_tokens=200, **GREEDY))
    wait_until(lambda: engine.stats()["running"] == 2)
    ready.set()
    assert len(other.get(timeout=60).token_ids) == 200
    wait_until(lambda: whole(engine))


@pytest.mark.slow
def test_little_memory(make_engine: MakeEngine) -> None:
    """Forty requests in a pool for two or three of them."""
    engine = make_engine(max_total_tokens=64, max_step_tokens=16, max_running_requests=8)
    prompts = [[3 + i % 7] * (1 + i % 5) + [50 + i] for i in range(40)]
    outputs = engine.generate(prompts, max_new_tokens=20, **GREEDY)
    assert [o.token_ids for o in outputs] == greedy("llama", prompts, 20)
    events = [r.event for r in engine.log.read().records]
    steps = [e for e in events if isinstance(e, StepRan)]
    assert all(s.free + s.cached + s.in_flight == 64 for s in steps)
    assert any(isinstance(e, RequestRetracted) for e in events)
    assert whole(engine)


def test_prompt_scores_survive_retraction(make_engine: MakeEngine) -> None:
    options = {
        "max_new_tokens": 20,
        "return_logprob": True,
        "logprob_start_len": 0,
        "top_logprobs_num": 2,
        **GREEDY,
    }
    prompts = [[3 + i, 5 + i, 8 + i] for i in range(6)]
    expected = make_engine().generate(prompts, **options)
    engine = make_engine(max_total_tokens=40, max_step_tokens=16, max_running_requests=8)
    found = engine.generate(prompts, **options)
    assert any(isinstance(r.event, RequestRetracted) for r in engine.log.read().records)
    for a, b in zip(found, expected, strict=True):
        assert a.token_ids == b.token_ids
        assert (
            a.prompt_logprobs == pytest.approx(b.prompt_logprobs, abs=1e-4)
            and len(a.prompt_logprobs) == 2
        )
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4) and len(a.logprobs) == 20
        assert [len(x) for x in (a.prompt_top_logprobs, a.top_logprobs)] == [2, 20]


def test_sampled_tokens_survive_retraction(make_engine: MakeEngine) -> None:
    """A seeded request goes on with its own random numbers."""
    prompts = [[3 + i, 5 + i, 8 + i] for i in range(6)]
    params = [
        {"max_new_tokens": 20, "seed": i, "temperature": 0.7, "ignore_eos": True} for i in range(6)
    ]
    expected = [
        make_engine().generate(p, s).token_ids for p, s in zip(prompts, params, strict=True)
    ]
    engine = make_engine(max_total_tokens=40, max_step_tokens=16, max_running_requests=8)
    assert [o.token_ids for o in engine.generate(prompts, params)] == expected


def test_cache_and_counts(make_engine: MakeEngine) -> None:
    engine = make_engine()
    for turn in range(2):
        assert engine.generate(PROMPT, max_new_tokens=5, **GREEDY).cached_tokens == turn * (
            len(PROMPT) - 1
        )
    stats = engine.stats()
    assert (
        stats["prompt_tokens"] == 40
        and stats["cached_tokens"] == 19
        and stats["hit_rate"] == 19 / 40
    )
    assert stats["output_tokens"] == 10 and stats["requests"] == stats["finished"] == 2
    assert stats["computed_tokens"] == 20 + 4 + 1 + 4 and stats["steps"] == 10
    assert stats["cached"] == 24 == sum(len(node["tokens"]) for node in engine.tree())
    assert engine.flush_cache() == 24 and engine.tree() == [] and whole(engine)
    assert engine.generate(PROMPT, max_new_tokens=1).cached_tokens == 0


def test_flush_while_running(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine()
    engine.generate([60] * 10, max_new_tokens=1)
    slow_down(engine, monkeypatch)
    result = in_thread(lambda: engine.generate(PROMPT, max_new_tokens=40, **GREEDY).token_ids)
    wait_until(lambda: engine.stats()["running"] == 1)
    assert engine.flush_cache() == 10
    assert result.get(timeout=60) == greedy("llama", [PROMPT], 40)[0]
    assert whole(engine)


def test_no_new_tokens(shared: Engine) -> None:
    out = shared.generate([91, 92, 93, 94], max_new_tokens=0)
    assert (out.token_ids, out.finish_reason) == ([], "length")
    assert shared.generate([91, 92, 93, 94], max_new_tokens=1).cached_tokens == 3


def test_prompt_as_long_as_the_context(make_engine: MakeEngine) -> None:
    engine = make_engine(context_length=30, max_total_tokens=40)
    assert len(engine.generate([5] * 29, max_new_tokens=100, **GREEDY).token_ids) == 1
    assert engine.generate([5] * 30, max_new_tokens=0).finish_reason == "length"
    assert len(engine.generate([5] * 10, max_new_tokens=100, **GREEDY).token_ids) == 20


def test_end_of_sequence(text: Engine) -> None:
    """Token 2 is the model's, 1 the tokenizer's; both end the text, and neither is in it."""
    for eos in (1, 2):
        options: dict[str, Any] = {
            "temperature": 0,
            "logit_bias": {eos: 100.0},
            "max_new_tokens": 6,
        }
        out = text.generate("The", **options)
        assert (out.token_ids, out.text, out.finish_reason, out.stopped_by) == (
            [eos],
            "",
            "stop",
            eos,
        )
        out = text.generate("The", ignore_eos=True, **options)
        assert out.token_ids == [eos] * 6 and out.finish_reason == "length"
        out = text.generate("The", min_new_tokens=3, **options)
        assert len(out.token_ids) == 4 and eos not in out.token_ids[:3] and out.token_ids[3] == eos


def test_stop_token_ids(shared: Engine) -> None:
    [tokens] = greedy("llama", [PROMPT], 10)
    stop = tokens[5]
    out = shared.generate(PROMPT, max_new_tokens=10, stop_token_ids=[stop], **GREEDY)
    first = tokens.index(stop)
    assert out.token_ids == tokens[: first + 1] and (out.finish_reason, out.stopped_by) == (
        "stop",
        stop,
    )


@pytest.mark.parametrize("stream", [False, True])
def test_stop_strings(text: Engine, stream: bool) -> None:
    options: dict[str, Any] = {
        "max_new_tokens": 40,
        "seed": 4,
        "temperature": 2.0,
        "ignore_eos": True,
    }
    full = text.generate("The", **options)
    for start, length in ((0, 1), (7, 3), (15, 6)):
        stop = full.text[start : start + length]
        result = text.generate("The", stop=["never there", stop], stream=stream, **options)
        out = list(result)[-1] if stream else result
        assert out.text == full.text[: full.text.index(stop)]
        assert (out.finish_reason, out.stopped_by) == ("stop", stop)
        assert len(out.token_ids) < 40
    late = text.generate("The", stop=full.text[0], min_new_tokens=30, **options)
    assert len(late.token_ids) >= 30 and late.text.startswith(full.text[:10])


def test_logprobs(shared: Engine) -> None:
    out = shared.generate(
        PROMPT, max_new_tokens=4, return_logprob=True, top_logprobs_num=2, **GREEDY
    )
    assert [
        len(out.logprobs),
        len(out.top_logprobs),
        len(out.prompt_logprobs),
        len(out.prompt_top_logprobs),
    ] == [
        4,
        4,
        0,
        0,
    ]
    assert [top[0] for top in out.top_logprobs] == [
        pytest.approx((t, lp)) for t, lp in zip(out.token_ids, out.logprobs, strict=True)
    ]
    assert out.meta_info["output_token_logprobs"] == [
        (value, token, None) for token, value in zip(out.token_ids, out.logprobs, strict=True)
    ]
    scored = shared.generate(PROMPT, max_new_tokens=0, return_logprob=True, logprob_start_len=15)
    assert len(scored.prompt_logprobs) == 5 and all(lp <= 0 for lp in scored.prompt_logprobs)
    assert (
        shared.generate(
            PROMPT, max_new_tokens=0, return_logprob=True, logprob_start_len=20
        ).prompt_logprobs
        == []
    )
    plain = shared.generate(PROMPT, max_new_tokens=2)
    assert plain.logprobs == [] and "output_token_logprobs" not in plain.meta_info


def test_an_output_is_what_sglangs_engine_returns(text: Engine) -> None:
    out = text.generate(
        "The", max_new_tokens=3, return_logprob=True, logprob_start_len=0, top_logprobs_num=2,
        return_text_in_logprobs=True, **GREEDY,
    )  # fmt: skip
    assert set(out) == {"text", "output_ids", "meta_info"} and out["text"] == out.text
    assert out["output_ids"] == out.token_ids and out.get("nothing") is None
    meta = out["meta_info"]
    assert meta["finish_reason"] == {"type": "length", "length": 3}
    assert (meta["prompt_tokens"], meta["completion_tokens"]) == (out.prompt_tokens, 3)
    assert meta["id"] and 0 < meta["e2e_latency"] < 60 and meta["cached_tokens"] >= 0
    [prompt] = text.encode(["The"])
    rows = meta["input_token_logprobs"]
    assert [token for _, token, _ in rows] == prompt
    assert rows[0][0] is None and [value for value, _, _ in rows[1:]] == out.prompt_logprobs
    assert meta["input_top_logprobs"][0] is None
    assert len(meta["input_top_logprobs"]) == len(rows)
    for row, top in zip(meta["output_token_logprobs"], meta["output_top_logprobs"], strict=True):
        value, token, piece = row
        assert piece == text.tokenizer.text(token)  # type: ignore[union-attr]
        assert len(top) == 2 and top[0] == (pytest.approx(value), token, piece)
    ends = text.generate("The", max_new_tokens=40, stop=out.text[0], **GREEDY)
    assert ends.meta_info["finish_reason"] == {"type": "stop", "matched": out.text[0]}


def test_no_new_tokens_but_what_may_come_next(shared: Engine) -> None:
    options: dict[str, Any] = {"return_logprob": True, "top_logprobs_num": 3}
    one = shared.generate(PROMPT, max_new_tokens=1, **options, **GREEDY)
    out = shared.generate(PROMPT, max_new_tokens=0, **options, **GREEDY)
    assert (out.text, out.token_ids, out.finish_reason) == ("", [], "length")
    meta, expected = out.meta_info, one.meta_info
    assert meta["completion_tokens"] == 0 and len(meta["output_top_logprobs"][0]) == 3
    for key in ("output_token_logprobs", "output_top_logprobs"):
        assert str(meta[key])[:8] == str(expected[key])[:8]
    assert [t for _, t, _ in meta["output_top_logprobs"][0]] == [
        t for _, t, _ in expected["output_top_logprobs"][0]
    ]
    full = shared.generate([5] * shared.context_length, max_new_tokens=0, **options)
    assert full.meta_info["output_top_logprobs"] == []


def test_shutdown_and_model_path() -> None:
    engine = Engine(model_path=random_model())
    engine.shutdown()
    assert engine.closed


def test_a_regex_ends_the_text(text: Engine) -> None:
    options: dict[str, Any] = {"max_new_tokens": 40, "temperature": 1.0, "seed": 1}
    full = text.generate("The", **options, ignore_eos=True).text
    pattern = re.escape(full[10]) + "|" + re.escape(full[14:17])
    place = re.search(pattern, full).start()  # type: ignore[union-attr]
    out = text.generate("The", **options, ignore_eos=True, stop_regex=pattern)
    assert (out.text, out.finish_reason, out.stopped_by) == (full[:place], "stop", pattern)
    parts = list(text.generate("The", **options, ignore_eos=True, stop_regex=pattern, stream=True))
    assert "".join(part.delta for part in parts) == full[:place]
    both = text.generate("The", **options, ignore_eos=True, stop_regex=[pattern], stop=full[:2])
    assert (both.text, both.stopped_by) == ("", full[:2])
    with pytest.raises(GrammarError, match="look-ahead"):
        text.generate("The", stop_regex="(?=a)b")


def test_logprobs_are_the_models_own(shared: Engine) -> None:
    """Before temperature, filters, penalties and bias."""
    base = shared.generate(
        PROMPT, max_new_tokens=1, return_logprob=True, top_logprobs_num=97, **GREEDY
    )
    own = dict(base.top_logprobs[0])
    for options in (
        {"temperature": 3.0},
        {"top_k": 2},
        {"logit_bias": {40: 50.0}},
        {"repetition_penalty": 1.5},
    ):
        out = shared.generate(
            PROMPT, max_new_tokens=1, return_logprob=True, ignore_eos=True, seed=1, **options
        )
        assert out.logprobs[0] == pytest.approx(own[out.token_ids[0]], abs=1e-4)


def test_seeds(shared: Engine) -> None:
    options: dict[str, Any] = {"max_new_tokens": 12, "temperature": 1.5, "ignore_eos": True}
    alone = shared.generate(PROMPT, seed=3, **options).token_ids
    crowd = shared.generate(
        [[7], PROMPT, [9] * 30, PROMPT], [{}, {"seed": 3}, {"top_p": 0.5}, {"seed": 4}], **options
    )
    assert crowd[1].token_ids == alone != crowd[3].token_ids
    samples = shared.generate(PROMPT, n=4, seed=3, **options)
    assert [o.token_ids for o in samples] == [
        o.token_ids for o in shared.generate(PROMPT, n=4, seed=3, **options)
    ]
    assert samples[0].token_ids == alone and len({tuple(o.token_ids) for o in samples}) == 4
    unseeded = [tuple(o.token_ids) for o in shared.generate([PROMPT, PROMPT], n=2, **options)]
    assert len(set(unseeded)) == 4


def slow_down(engine: Engine, monkeypatch: pytest.MonkeyPatch, seconds: float = 0.005) -> None:
    """Every step of the engine takes at least so long."""
    schedule = engine._scheduler.schedule

    def slow() -> Any:
        time.sleep(seconds)
        return schedule()

    monkeypatch.setattr(engine._scheduler, "schedule", slow)


def in_thread(function: Callable[[], Any]) -> queue.SimpleQueue[Any]:
    """Run `function` in a thread; the queue gets its result or its error."""
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def work() -> None:
        try:
            results.put(function())
        except Exception as error:
            results.put(error)

    threading.Thread(target=work, daemon=True).start()
    return results


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)
