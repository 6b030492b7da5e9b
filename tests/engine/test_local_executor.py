"""The language's executor over an engine: generations and scores reach their callbacks, once,
whatever happens."""

from __future__ import annotations

import gc
import queue
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

import sgnb
from sgnb.backends import executor_of, mail, template_reader
from sgnb.backends.local import CallOverrides, LocalExecutor
from sgnb.backends.template_reader import chat_template
from sgnb.engine.cache.sequence import CacheScope
from sgnb.engine.device import background
from sgnb.engine.engine import Engine
from sgnb.errors import Aborted, EngineError, RequestError
from sgnb.events import RequestQueued, StepRan
from sgnb.lang import assistant, function, gen, user
from sgnb.lang.chat import PLAIN
from sgnb.lang.executor import Call, Delta, Result, ScoreCall, Scores
from sgnb.sampling import SamplingParams

from ..byte_tokenizers import TEXT, byte_level, pieces
from ..interrupts import interrupt_in
from ..random_models import random_model
from .test_engine import wait_until

GREEDY: dict[str, Any] = {"temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(random_model(vocab_size=400), tokenizer=byte_level()) as engine:
        yield engine


@pytest.fixture
def executor(engine: Engine) -> Iterator[LocalExecutor]:
    executor = LocalExecutor(engine)
    yield executor
    executor.close()


def call(prompt: str = "The", stream: bool = False, **params: Any) -> Call:
    return Call(
        prompt,
        SamplingParams(**{**GREEDY, "max_new_tokens": 8, **params}),
        "run",
        "0",
        "answer",
        stream,
    )


def score_call(prompt: str, *choices: str, unconditional: bool = False) -> ScoreCall:
    return ScoreCall(prompt, choices, unconditional, "run", "0", "pick")


class OnOutput:
    """Keeps what it is given; `end` waits for the last item and makes sure that it is the last."""

    def __init__(self) -> None:
        self.items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.deltas: list[str] = []

    def __call__(self, item: Any) -> None:
        self.items.put(item)

    def end(self) -> Any:
        while isinstance(item := self.items.get(timeout=60), Delta):
            self.deltas.append(item.text)
        time.sleep(0.02)
        assert self.items.empty()
        return item


def generate(executor: LocalExecutor, call: Call) -> Result:
    on_output = OnOutput()
    executor.generate(call, on_output)
    result: Result = on_output.end()
    return result


def score(executor: LocalExecutor, call: ScoreCall) -> Scores:
    on_output = OnOutput()
    executor.score(call, on_output)
    scores: Scores = on_output.end()
    return scores


def reference(tokens: list[int], start: int, model: PreTrainedModel | None = None) -> list[float]:
    """transformers' log-probabilities of the tokens from `start` on."""
    model = model or random_model(vocab_size=400)
    with torch.no_grad():
        logprobs = model(torch.tensor([tokens]), use_cache=False).logits[0].double().log_softmax(-1)
    return [logprobs[i - 1, tokens[i]].item() for i in range(start, len(tokens))]


def test_generate(executor: LocalExecutor, engine: Engine) -> None:
    expected = engine.generate("The", max_new_tokens=8, **GREEDY)
    result = generate(executor, call())
    assert result.error is None and result.texts == (expected.text,)
    assert result.meta[0]["token_ids"] == expected.token_ids and result.meta[0][
        "finish_reason"
    ] == {"type": "length", "length": 8}
    [queued] = [
        e
        for e in (r.event for r in executor.log.read().records)
        if isinstance(e, RequestQueued) and e.run
    ]
    assert (queued.run, queued.branch, queued.name, queued.purpose) == (
        "run",
        "0",
        "answer",
        "generate",
    )


def test_streamed_text_is_the_text(executor: LocalExecutor) -> None:
    on_output = OnOutput()
    executor.generate(call(stream=True, temperature=1.0, seed=1, max_new_tokens=30), on_output)
    result = on_output.end()
    assert "".join(on_output.deltas) == result.texts[0]
    assert len(on_output.deltas) > 3 and all(on_output.deltas)


def test_several_samples(executor: LocalExecutor, engine: Engine) -> None:
    params: dict[str, Any] = {"n": 3, "seed": 5, "temperature": 1.0}
    expected = [o.text for o in engine.generate("The", max_new_tokens=8, ignore_eos=True, **params)]
    on_output = OnOutput()
    executor.generate(call(stream=True, **params), on_output)
    result = on_output.end()
    assert list(result.texts) == expected and len(result.meta) == 3
    assert "".join(on_output.deltas) == expected[0], "the first sample is streamed"


@pytest.mark.parametrize(
    "choices",
    [(" dog", " fox", " question"), (" a", " ab", " abc"), (" dog", " dog"), ("", " dog")],
)
def test_scores_are_the_models(
    executor: LocalExecutor, engine: Engine, choices: tuple[str, ...]
) -> None:
    prompt = "The quick brown"
    result = score(executor, score_call(prompt, *choices))
    assert result.error is None and len(result.choices) == len(choices)
    [start] = map(len, engine.encode([prompt]))
    for choice, found in zip(choices, result.choices, strict=True):
        [tokens] = engine.encode([prompt + choice])
        assert list(found.tokens) == tokens[start:] and found.unconditional == ()
        assert list(found.logprobs) == pytest.approx(reference(tokens, start), abs=2e-4)
    assert result.meta["prompt_tokens"] > 0


def test_choices_that_merge_with_the_prompts_end(executor: LocalExecutor, engine: Engine) -> None:
    """Every choice is scored from the first token that any of them changes."""
    [tokens] = engine.encode([TEXT[0][:60]])
    assert engine.tokenizer is not None
    long = max(tokens, key=lambda t: len(engine.tokenizer.piece(t)))
    before, piece = (
        engine.tokenizer.decode(tokens[: tokens.index(long)]),
        engine.tokenizer.piece(long).decode(),
    )
    prompt, choices = before + piece[:-1], (piece[-1], "x", "zz")
    whole = engine.encode([prompt + c for c in choices])
    [cut] = engine.encode([prompt])
    start = min(
        next((i for i, (a, b) in enumerate(zip(cut, w, strict=False)) if a != b), len(cut))
        for w in whole
    )
    assert start < len(cut), "nothing merges over the end of the prompt"
    result = score(executor, score_call(prompt, *choices, unconditional=True))
    for tokens, found in zip(whole, result.choices, strict=True):
        assert list(found.tokens) == tokens[start:]
        assert list(found.logprobs) == pytest.approx(reference(tokens, start), abs=2e-4)


def test_scores_without_the_prompt(executor: LocalExecutor) -> None:
    result = score(executor, score_call("The quick brown", " x", " question", unconditional=True))
    for found in result.choices:
        first, *rest = found.unconditional
        assert first is None and len(found.unconditional) == len(found.tokens) == len(
            found.logprobs
        )
        assert rest == pytest.approx(reference(list(found.tokens), 1), abs=2e-4)


def test_scoring_shares_the_prompt(executor: LocalExecutor, engine: Engine) -> None:
    prompt = "die Füchse springen über die Hunde, naïve café façade. " * 2
    [tokens] = engine.encode([prompt])
    generate(executor, call(prompt, max_new_tokens=1))
    before = engine.stats()["computed_tokens"]
    result = score(
        executor, score_call(prompt, *(f" {word}" for word in ("so", "what", "dog", "fox")))
    )
    assert engine.stats()["computed_tokens"] - before <= sum(
        len(c.tokens) + 1 for c in result.choices
    )
    assert result.meta["cached_tokens"] >= 4 * (len(tokens) - 2)


def test_a_select_shares_what_nothing_has_cached() -> None:
    """By counts: the prompt is computed once, all choices after it in one step, and what a choice
    is worth without a prompt once for all programs."""
    with Engine(random_model(vocab_size=400), tokenizer=byte_level()) as engine:
        executor = LocalExecutor(engine)
        prompt = "die Füchse springen über die Hunde, naïve café façade. " * 2
        choices = " so long", " what is it", " dog house", " fox hole", " quick one"
        [tokens] = engine.encode([prompt])
        first = score(executor, score_call(prompt, *choices))
        own = sum(len(choice.tokens) for choice in first.choices)
        # The last token of the prompt gives the first one of a choice.
        assert engine.stats()["computed_tokens"] <= len(tokens) + own + len(choices)
        ran = [r.event for r in executor.log.read().records if isinstance(r.event, StepRan)]
        assert [len(step.sampled) for step in ran] == [1, len(choices) - 1]

        before = engine.stats()["computed_tokens"]
        with_alone = score(executor, score_call(prompt, *choices, unconditional=True))
        alone = engine.stats()["computed_tokens"] - before - own - len(choices)
        assert own - len(choices) <= alone <= own
        before = engine.stats()["computed_tokens"]
        again = score(executor, score_call(prompt, *choices, unconditional=True))
        assert engine.stats()["computed_tokens"] - before <= own + len(choices)
        for choice, same in zip(with_alone.choices, again.choices, strict=True):
            assert choice.unconditional == same.unconditional
            assert len(choice.unconditional) == len(choice.tokens) == len(choice.texts)
            assert "".join(choice.texts).strip() in " ".join(choices)
        executor.flush_cache()
        before = engine.stats()["computed_tokens"]
        score(executor, score_call(prompt, *choices, unconditional=True))
        computed = engine.stats()["computed_tokens"] - before
        assert computed <= len(tokens) + 2 * own + len(choices)
        executor.close()


def test_an_engine_is_a_backend(engine: Engine) -> None:
    @function
    def program(s: Any) -> None:
        s += "The" + gen("a", max_tokens=4, temperature=0)

    expected = engine.generate("The", max_new_tokens=4, temperature=0).text
    assert program.run(backend=engine)["a"] == expected
    [state] = program.run_batch([{}], backend=engine)
    assert state["a"] == expected
    assert executor_of(engine) is state.program.executor
    assert sgnb.get_server_info(engine)["model_path"] == engine.model_name
    assert sgnb.flush_cache(engine) > 0


def test_every_piece_of_a_stream_brings_its_tokens(engine: Engine) -> None:
    @function
    def program(s: Any) -> None:
        s += "The" + gen("a") + "; " + gen("b", top_logprobs_num=2)

    options: dict[str, Any] = {**GREEDY, "max_new_tokens": 12, "return_logprob": True}
    state = program.run(stream=True, backend=engine, **options)
    pieces = list(state.text_iter(return_meta_data=True))
    assert "".join(text for text, _ in pieces) == state.text()
    ids = {state.get_meta_info(name)["id"]: name for name in "ab"}
    rows: dict[str, list[Any]] = {"a": [], "b": []}
    for text, meta in pieces:
        assert bool(meta) == (text not in ("The", "; "))
        if meta:
            rows[ids[meta["id"]]] += meta["piece_token_logprobs"]
    for name, found in rows.items():
        final = state.get_meta_info(name)["output_token_logprobs"]
        assert len(final) == 12 and found == final[: len(found)] and len(found) > 6


def test_one_program_over_two_models(engine: Engine) -> None:
    """The other model reads the roles of its own template, and text where it made no tokens."""
    chatty = byte_level.__wrapped__()
    chatty.chat_template = "{% for m in messages %}[{{ m.role }}]{{ m.content }}[end]{% endfor %}"
    with Engine(random_model(vocab_size=400), tokenizer=chatty) as other:

        @function
        def program(s: Any) -> None:
            s += user("Hi") + assistant(gen("a", max_tokens=4))
            s += user("So?") + assistant(gen("b", max_tokens=4, backend=other))
            s += user("Oh") + assistant(gen("c", max_tokens=4))

        prompts: list[Call] = []
        for executor in (executor_of(engine), executor_of(other)):
            generate = executor.generate

            def noted(call: Call, sink: Any, generate: Any = generate) -> Any:
                prompts.append(call)
                return generate(call, sink)

            executor.generate = noted  # type: ignore[method-assign]
        s = program.run(backend=engine)
        s.sync()
        del executor_of(engine).generate
    a, b, c = prompts
    assert a.prompt == "USER: Hi\nASSISTANT: "
    assert b.prompt == f"[user]Hi[end][assistant]{s['a']}[end][user]So?[end][assistant]"
    assert all(segment.kind != "output" for segment in b.segments)
    assert c.prompt.endswith(f"ASSISTANT: {s['b']}\nUSER: Oh\nASSISTANT: ")
    assert [x.text for x in c.segments if x.kind == "output"] == [s["a"]]


def test_nothing_before_the_choices(executor: LocalExecutor) -> None:
    with Engine(random_model(vocab_size=400), tokenizer=no_bos()) as engine:
        bare = LocalExecutor(engine)
        assert isinstance(score(bare, score_call("", "a", "b")).error, RequestError)
        assert isinstance(generate(bare, call("")).error, RequestError)
        bare.close()


def no_bos() -> Any:
    tokenizer = byte_level.__wrapped__()
    tokenizer.bos_token = None
    return tokenizer


def test_a_tokenizer_that_adds_a_beginning() -> None:
    """It is text enough for choices to stand alone."""
    model = random_model(vocab_size=512)
    with Engine(model, tokenizer=pieces()) as other:
        executor = LocalExecutor(other)
        result = score(executor, score_call("The ", "die", "fast", unconditional=True))
        assert score(executor, score_call("", "die", "fast")).error is None
        executor.close()
        whole = other.encode(["The die", "The fast"])
    for tokens, found in zip(whole, result.choices, strict=True):
        assert tokens[0] == 1 and tokens[-len(found.tokens) :] == list(found.tokens)
        start = len(tokens) - len(found.tokens)
        expected = reference(tokens, start, random_model(vocab_size=512))
        assert list(found.logprobs) == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("stream", [False, True])
def test_cancel(executor: LocalExecutor, stream: bool) -> None:
    on_output, scores = OnOutput(), OnOutput()
    before = executor.engine.stats()["requests"]
    cancel = executor.generate(call(stream=stream, max_new_tokens=200, n=2), on_output)
    wait_until(lambda: executor.engine.stats()["requests"] == before + 2)
    cancel_scores = executor.score(score_call("The quick " * 15, " a", " b"), scores)
    cancel()
    cancel_scores()
    result = on_output.end()
    assert isinstance(result.error, Aborted) and len(result.texts) == 2
    assert isinstance(scores.end().error, (Aborted, type(None)))
    cancel()
    assert generate(executor, call()).error is None


@pytest.mark.parametrize(("prompt", "params", "kind"), [
    ("word " * 300, {}, RequestError),
    ("The", {"logit_bias": {4000: 1.0}}, RequestError),
])  # fmt: skip
def test_errors_come_through_the_sink(
    executor: LocalExecutor, prompt: str, params: dict[str, Any], kind: type
) -> None:
    result = generate(executor, call(prompt, **params))
    assert isinstance(result.error, kind) and result.texts == ()


def test_scoring_errors_come_through_the_sink(executor: LocalExecutor) -> None:
    assert isinstance(score(executor, score_call("word " * 300, "a")).error, RequestError)


def test_a_closed_engine() -> None:
    engine = Engine(random_model(vocab_size=400), tokenizer=byte_level())
    executor = LocalExecutor(engine)
    running, waiting = OnOutput(), OnOutput()
    executor.generate(call(max_new_tokens=200), running)
    engine.close()
    executor.generate(call(), waiting)
    scores = score(executor, score_call("The", " a"))
    for end in (running.end(), waiting.end(), scores):
        assert isinstance(end.error, EngineError)
    executor.close()


def test_a_failing_pass(
    executor: LocalExecutor, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine._loop._runner, "run", lambda batch: 1 / 0)
    assert isinstance(generate(executor, call()).error, EngineError)
    assert isinstance(score(executor, score_call("The", " a")).error, EngineError)


def test_a_sink_that_fails_does_not_stop_the_others(
    executor: LocalExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    executor.generate(call(), lambda item: 1 / 0)  # type: ignore[arg-type, return-value]
    assert generate(executor, call()).error is None
    assert "ZeroDivisionError" in caplog.text


def test_a_dropped_executor_lets_go_of_its_thread(engine: Engine) -> None:
    executor = LocalExecutor(engine)
    assert generate(executor, call()).error is None
    threads = [t for t in threading.enumerate() if t.name == "sgnb-programs"]
    gone = weakref.ref(executor)
    del executor
    gc.collect()
    assert gone() is None
    deadline = time.monotonic() + 60
    while all(t.is_alive() for t in threads):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_rest_of_an_executor(executor: LocalExecutor, engine: Engine) -> None:
    info = executor.server_info()
    assert info["context_length"] == 256 and info["free"] + info["cached"] == engine.pool_tokens
    executor.flush_cache()
    assert engine.tree() == []


def test_chat_templates(engine: Engine) -> None:
    assert chat_template(engine) is PLAIN

    def with_template(template: str) -> Engine:
        tokenizer = byte_level.__wrapped__()
        tokenizer.chat_template = template
        return Engine(random_model(vocab_size=400), tokenizer=tokenizer)

    with with_template(
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}[end]{% endfor %}"
    ) as good:
        assert chat_template(good).roles["user"] == ("[user]", "[end]")
        assert chat_template(good).stop == ("[end]",)
    with with_template(
        "{% for m in messages %}{{ m.role | upper }}: {{ m.content }}\n{% endfor %}"
    ) as bare:
        assert chat_template(bare).stop == ("\nUSER:",)
    last = "{% if loop.last and m.role == 'assistant' %}<think>\n\n</think>\n\n{% endif %}"
    with (
        with_template(
            "{% for m in messages %}[{{ m.role }}]" + last + "{{ m.content }}[end]{% endfor %}"
        ) as thinks,
        pytest.warns(UserWarning, match="before a conversation's last answer"),
    ):
        assert chat_template(thinks).last_answer == "<think>\n\n</think>\n\n"
    with (
        with_template("{{ messages[0].content }}") as poor,
        pytest.warns(UserWarning, match="cannot be parsed"),
    ):
        assert chat_template(poor) is PLAIN


def test_an_answer_ends_where_the_template_ends_it() -> None:
    """Whatever the model's own end token is."""
    tokenizer = byte_level.__wrapped__()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|turn|>"]})
    tokenizer.chat_template = (
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}<|turn|>\n{% endfor %}"
    )
    turn = tokenizer.convert_tokens_to_ids("<|turn|>")
    with Engine(random_model(vocab_size=401), tokenizer=tokenizer) as engine:
        assert turn not in engine.eos_token_ids
        assert chat_template(engine).stop_token_ids == (turn,)

        @function
        def program(s: Any) -> None:
            s += user("Hi") + assistant(gen("a", max_tokens=8, logit_bias={turn: 100.0}))

        s = program.run(backend=engine)
        assert s["a"] == ""
        assert s.get_meta_info("a")["finish_reason"] == {"type": "stop", "matched": turn}


ENDLESS = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}\
{% endfor %}{% endfor %}{% endfor %}"


def test_an_endless_chat_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_reader, "TEMPLATE_SECONDS", 0.2)
    monkeypatch.setattr(background, "STOP_SECONDS", 0.05)
    tokenizer = byte_level.__wrapped__()
    tokenizer.chat_template = ENDLESS
    with Engine(random_model(vocab_size=400), tokenizer=tokenizer) as engine:
        with pytest.warns(UserWarning, match="rendering takes more than"):
            assert chat_template(engine) is PLAIN
        monkeypatch.setattr(template_reader, "TEMPLATE_SECONDS", 60)
        interrupt_in(0.2)
        with pytest.raises(KeyboardInterrupt):
            chat_template(engine)
    assert not [thread for thread in threading.enumerate() if thread.name == "sgnb-template"]


@pytest.mark.parametrize("together", [1, 2, 512])
def test_results_and_calls_in_bursts(
    executor: LocalExecutor, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    """None is lost where a burst ends, and one refused call refuses no other."""
    monkeypatch.setattr(mail, "MAX_BATCHED_CALLS", together)

    @function
    def chain(s: Any, i: int) -> None:
        s += f"{i}:" if i else "long " * 2000
        for level in range(3):
            s += gen(f"a{level}", max_tokens=2, temperature=0, ignore_eos=True)

    bad, *good = chain.run_batch([(i,) for i in range(40)], backend=executor)
    assert isinstance(bad.error(), RequestError)
    assert all(state.error() is None and "a2" in state for state in good)


def test_a_closed_executor_says_so(engine: Engine) -> None:
    executor = LocalExecutor(engine)
    executor.close()

    @function
    def ask(s: Any) -> None:
        s += "a" + gen("a")

    with pytest.raises(EngineError, match="closed"):
        ask.run(backend=executor)["a"]


def test_an_engine_that_closes_ends_what_runs_on_it() -> None:
    model = random_model(vocab_size=400, max_position_embeddings=1 << 20)
    with Engine(model, tokenizer=byte_level(), device="cpu") as engine:
        executor = LocalExecutor(engine)

        @function
        def ask(s: Any) -> None:
            s += "a" + gen("a", max_tokens=100_000, ignore_eos=True) + gen("b")

        state = ask.run(backend=executor)
    assert isinstance(state.error(), EngineError | Aborted)
    assert "b" not in state._branch.variables
    executor.close()


def test_calls_apart_share_within_their_namespace_or_with_nobody(
    executor: LocalExecutor, engine: Engine
) -> None:
    prompt = "die Füchse springen über die Hunde, naïve café façade. " * 2
    [tokens] = engine.encode([prompt])
    engine.flush_cache()

    def cached(overrides: CallOverrides, text: str = prompt) -> int:
        found = generate(executor.with_overrides(overrides), call(text, max_new_tokens=2)).meta[0]
        return int(found["cached_tokens"])

    most = len(tokens) - 1
    assert [cached(CallOverrides(CacheScope("mine"))) for _ in range(2)] == [0, most]
    assert [cached(CallOverrides(CacheScope(None))) for _ in range(2)] == [0, 0]
    assert [cached(CallOverrides()) for _ in range(2)] == [0, most]
    assert engine.flush_cache("mine") == len(tokens) + 1
    assert [cached(CallOverrides(CacheScope("mine"))) for _ in range(2)] == [0, most]

    filled = executor.with_overrides(CallOverrides(CacheScope("filled")))
    filled.fill_cache([tokens[:9], tokens[:12]])
    assert cached(CallOverrides(CacheScope("filled"))) == 12


def test_what_is_remembered_of_choices_does_not_help_who_is_apart(executor: LocalExecutor) -> None:
    one = executor.with_overrides(CallOverrides(CacheScope("one")))
    found = score(one, score_call("The", " dog", " fox", unconditional=True))
    tokens = found.choices[0].tokens
    assert one.knows_unconditional(tokens)
    assert not executor.with_overrides(CallOverrides()).knows_unconditional(tokens)


def test_samples_of_seeded_calls_depend_on_their_place(executor: LocalExecutor) -> None:
    asked = call(temperature=1, max_new_tokens=12)
    elsewhere = replace(asked, branch="0.1")
    seeded = executor.with_overrides(CallOverrides(seeded=True))
    texts = [generate(seeded, one).texts for one in (asked, asked, elsewhere)]
    assert texts[0] == texts[1] != texts[2]
    assert generate(executor, asked).texts != generate(executor, asked).texts
