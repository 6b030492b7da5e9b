"""Grammars in the engine: every text obeys, whatever the tokenizer, the limits, the neighbours and
the memory."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jsonschema
import pytest

from benchmarks.jump_forward import compare
from sgnb.engine.engine import Engine
from sgnb.engine.request.search_schedule import SearchSchedule
from sgnb.errors import Aborted, EngineError, GrammarError, RequestError
from sgnb.events import GrammarReady, Jumped, RequestFinished, StepRan
from sgnb.grammar import compiler

from ..byte_tokenizers import byte_level, pieces
from ..random_models import random_model

PROMPT = "The answer is "
PATTERNS = [
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    r'\{"name":"[a-z]{1,12}","age":[0-9]{1,3}\}',
    r"(yes|no|maybe, but not today)",
    r"(🦊🐶|🦊🐱|Größe|naïve){1,3} end",
    r"[\w ]{0,20}\.",
    r"(?i:true|false)(, (?i:true|false)){2}",
]


def engine_of(tokenizer: Any, **options: Any) -> Engine:
    return Engine(random_model(vocab_size=len(tokenizer)), tokenizer=tokenizer, **options)


@pytest.fixture(scope="module", params=["byte_level", "pieces"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with engine_of({"byte_level": byte_level, "pieces": pieces}[request.param]()) as engine:
        yield engine


@pytest.fixture(scope="module")
def bytes_engine() -> Iterator[Engine]:
    with engine_of(byte_level()) as engine:
        yield engine


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("jump", [True, False])
def test_text_obeys(engine: Engine, pattern: str, jump: bool) -> None:
    outputs = engine.generate(
        [PROMPT] * 8, regex=pattern, max_new_tokens=200, jump_forward=jump, seed=7
    )
    for out in outputs:
        assert re.fullmatch(pattern, out.text), out.text
        assert out.finish_reason == "stop"
        pieces_ = engine.tokenizer.vocabulary.pieces
        assert b"".join(pieces_[t] for t in out.token_ids).decode() == out.text


@pytest.mark.parametrize("limit", [*range(1, 30), 45, 60])
def test_text_ends_in_time(bytes_engine: Engine, limit: int) -> None:
    pattern = r'\{"a":"[a-z ]{3,}"(,"b":\[[0-9]+(,[0-9]+)*\])?\}'
    try:
        outputs = bytes_engine.generate([PROMPT] * 6, regex=pattern, max_new_tokens=limit, seed=3)
    except RequestError as error:
        assert "shortest" in error.message and limit < 12
        return
    assert limit >= 4
    for out in outputs:
        assert re.fullmatch(pattern, out.text) and len(out.token_ids) <= limit
        assert out.finish_reason in ("stop", "length")


def test_jumps_save_passes(bytes_engine: Engine) -> None:
    options = {
        "regex": r'\{"first name":"[a-c]","last name":"[a-c]","age":[1-3]\}',
        "max_new_tokens": 100,
        "seed": 1,
    }
    counts = {}
    for jump in (True, False):
        before = bytes_engine.stats()
        out = bytes_engine.generate("A person: ", **options, jump_forward=jump)
        after = bytes_engine.stats()
        counts[jump] = after["steps"] - before["steps"]
        assert after["jumped_tokens"] - before["jumped_tokens"] == out.meta_info["jumped_tokens"]
        assert (out.meta_info["jumped_tokens"] > 0) == jump
    assert counts[True] <= 4 and counts[True] < 0.4 * counts[False]


def test_jumps_put_aside_no_more_than_they_bring_in(engine: Engine) -> None:
    """A random model does not cut as its tokenizer would."""
    mark = engine.log.last
    pattern = r"([a-z]{1,5} ){4}((the answer|their fox|what) is [a-z]{3,6}, ){4}"
    outputs = engine.generate([PROMPT] * 24, regex=pattern, max_new_tokens=200, seed=3)
    jumps = [
        record.event for record in engine.log.read(mark).records if isinstance(record.event, Jumped)
    ]
    assert len(jumps) > 80 and any(jump.dropped for jump in jumps)
    assert all(
        jump.dropped <= max(1, min(len(jump.tokens) - jump.dropped, len(jump.data)))
        for jump in jumps
    )
    pieces_ = engine.tokenizer.vocabulary.pieces
    for out in outputs:
        data = b"".join(pieces_[token] for token in out.token_ids)
        assert data.decode() == out.text and re.fullmatch(pattern, out.text)


def test_a_text_without_choice_takes_no_pass(bytes_engine: Engine) -> None:
    before = bytes_engine.stats()["steps"]
    out = bytes_engine.generate("x", regex="nothing to choose", max_new_tokens=50)
    assert (out.text, out.finish_reason) == ("nothing to choose", "stop")
    assert bytes_engine.stats()["steps"] == before
    assert bytes_engine.generate("x", regex="", max_new_tokens=5).text == ""


def scored(engine: Engine, prompt: list[int], tokens: list[int]) -> list[float]:
    """The oracle of log-probabilities: the same tokens as a prompt."""
    given = engine.generate(
        prompt + tokens, max_new_tokens=0, return_logprob=True, logprob_start_len=len(prompt)
    )
    return given.prompt_logprobs


@pytest.mark.parametrize("start", [-1, 2])
@pytest.mark.parametrize("limit", [24, 60])
@pytest.mark.parametrize("pattern", [*PATTERNS, "always the same"])
def test_logprobs_of_jumped_tokens(
    bytes_engine: Engine, pattern: str, limit: int, start: int
) -> None:
    [prompt] = bytes_engine.encode([PROMPT])
    out = bytes_engine.generate(
        prompt, regex=pattern, max_new_tokens=limit, seed=5, return_logprob=True,
        logprob_start_len=start, top_logprobs_num=2,
    )  # fmt: skip
    assert re.fullmatch(pattern, out.text)
    assert out.logprobs == pytest.approx(scored(bytes_engine, prompt, out.token_ids), abs=1e-4)
    assert all(
        pair[0][1] >= value - 1e-4
        for pair, value in zip(out.top_logprobs, out.logprobs, strict=True)
    )
    assert len(out.prompt_logprobs) == (len(prompt) - start if start >= 0 else 0)


def test_what_the_mask_did(bytes_engine: Engine) -> None:
    out = bytes_engine.generate(
        "x", regex="[ab]{3}(zz)?", max_new_tokens=9, seed=2, return_logprob=True
    )
    rows = out.meta_info["grammar"]
    assert [row["token"] for row in rows] == out.token_ids
    shown = rows if out.stopped_by is None else rows[:-1]
    assert "".join(row["text"] for row in shown) == out.text
    state = rows[0]["states"][0]
    for row, logprob in zip(rows, out.logprobs, strict=True):
        assert row["states"][0] == state
        state = row["states"][1]
        if row["kind"] == "sampled":
            assert row["allowed"] >= 1 and row["probability"] == pytest.approx(
                2.718281828459045**logprob, rel=1e-3
            )
            assert row["probability"] <= row["masked_probability"] <= 1 + 1e-6
            assert row["removed"] == pytest.approx(
                1 - row["probability"] / row["masked_probability"], abs=1e-6
            )
            assert (
                row["removed"] > 0.5
            )  # a random model gives most of its probability to the forbidden tokens
        else:
            assert row["probability"] is None


def test_events(bytes_engine: Engine) -> None:
    mark = bytes_engine.log.last
    out = bytes_engine.generate("x", regex=r"id: [0-9]{3} \(new\)", max_new_tokens=30, seed=1)
    events = [record.event for record in bytes_engine.log.read(mark).records]
    [ready] = [e for e in events if isinstance(e, GrammarReady)]
    assert ready.grammar == "regex" and ready.states > 5
    jumps = [e for e in events if isinstance(e, Jumped)]
    assert [j.data for j in jumps] == ["id: ", " (new)"] and all(
        j.reason == "forced" for j in jumps
    )
    steps = [e for e in events if isinstance(e, StepRan)]
    sampled = [s.token for step in steps for s in step.sampled]
    masked = [m for step in steps for m in step.masked]
    assert len(sampled) == len(masked) and all(m.kept <= 0 and m.allowed > 0 for m in masked)
    tokens: list[int] = []
    for event in events:
        if isinstance(event, Jumped):
            tokens = tokens[: len(tokens) - event.dropped] + list(event.tokens)
        elif isinstance(event, StepRan):
            tokens += [s.token for s in event.sampled]
    assert tokens == out.token_ids
    [finished] = [e for e in events if isinstance(e, RequestFinished)]
    assert finished.output_tokens == len(out.token_ids)


def test_a_stop_token_that_leaves_nothing_fails_alone(bytes_engine: Engine) -> None:
    [[line_break]] = bytes_engine.encode(["\n"])
    [other, bad] = bytes_engine_outputs(
        bytes_engine,
        [{}, {"regex": "[ab]\n[ab]", "stop_token_ids": [line_break], "jump_forward": False}],
    )
    assert isinstance(bad.error, GrammarError) and "stop_token_ids" in str(bad.error)
    assert other.error is None and len(other.token_ids) == 8


def test_a_matcher_that_gives_up_fails_alone(
    bytes_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_up(self: Any, token: int) -> None:
        raise GrammarError("the limit of the library is reached")

    monkeypatch.setattr(
        "sgnb.grammar.llguidance_backend.cfg_matcher.LlguidanceMatcher.accept_token", give_up
    )
    [other, bad] = bytes_engine_outputs(bytes_engine, [{}, {"ebnf": 'root ::= [a-c] root | "."'}])
    assert isinstance(bad.error, GrammarError) and other.error is None and len(other.token_ids) == 8


def test_a_closed_engine_says_so() -> None:
    engine = engine_of(byte_level())
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        engine.generate("x", regex="a")


def test_scores_of_a_stream_may_lag_behind(bytes_engine: Engine) -> None:
    parts = list(
        bytes_engine.generate(
            "x", regex=PATTERNS[1], max_new_tokens=60, stream=True, return_logprob=True
        )
    )
    assert all(
        len(p.meta_info["output_token_logprobs"]) <= len(p.token_ids) for p in parts if p.logprobs
    )
    assert len(parts[-1].logprobs) == len(parts[-1].token_ids)


def test_stop_string_inside_forced_text(bytes_engine: Engine) -> None:
    options: dict[str, Any] = {
        "regex": "[a-f]{2}, the end of it, really",
        "max_new_tokens": 60,
        "seed": 4,
    }
    whole = bytes_engine.generate("x", **options)
    cut = bytes_engine.generate("x", **options, stop=["end"])
    assert (cut.finish_reason, cut.stopped_by) == ("stop", "end")
    assert whole.text.startswith(cut.text) and cut.text.endswith(", the ")
    scored_too = bytes_engine.generate("x", **options, stop=["end"], return_logprob=True)
    assert scored_too.text == cut.text and len(scored_too.logprobs) == len(scored_too.token_ids)


def test_streams_grow(bytes_engine: Engine) -> None:
    options: dict[str, Any] = {
        "regex": r"(🦊|é){2}: [0-9]{2}, naïve [a-z]{3}",
        "max_new_tokens": 80,
        "seed": 6,
    }
    parts = list(bytes_engine.generate("x", **options, stream=True))
    assert (
        "".join(part.delta for part in parts)
        == parts[-1].text
        == bytes_engine.generate("x", **options).text
    )
    assert len(parts) > 3 and not any("\ufffd" in part.delta for part in parts)


def test_neighbours_memory_and_chunks_change_nothing() -> None:
    """The texts of a crowd in too little memory, with retractions and short steps, are those of
    each alone."""
    patterns = PATTERNS * 4
    prompts = [f"{PROMPT} number {i % 5} of this kind: " for i in range(len(patterns))]
    params = [{"regex": p, "max_new_tokens": 40, "temperature": 0, "return_logprob": i % 3 == 0}
              for i, p in enumerate(patterns)]  # fmt: skip
    with engine_of(byte_level()) as roomy:
        alone = [roomy.generate(p, q) for p, q in zip(prompts, params, strict=True)]
    for options in (
        {"max_total_tokens": 260, "max_step_tokens": 24, "max_running_requests": 8},
        {"prefix_cache": False},
    ):
        with engine_of(byte_level(), **options) as crowded:
            together = crowded.generate(prompts, params)
            state = crowded.stats()
            assert (
                state["free"] + state["cached"] == crowded.pool_tokens and state["in_flight"] == 0
            )
        assert [o.token_ids for o in together] == [o.token_ids for o in alone]
        for one, other in zip(together, alone, strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-3)


def bytes_engine_outputs(engine: Engine, options: list[dict[str, Any]]) -> list[Any]:
    """What each of the requests, which run together, ended with, errors included."""
    results: dict[int, Any] = {}
    done = threading.Semaphore(0)

    def take(index: int, output: Any) -> None:
        results[index] = output
        done.release()

    params = [bytes_engine_params(p) for p in options]
    engine.submit(["x"] * len(params), params, [partial(take, i) for i in range(len(params))])
    for _ in params:
        assert done.acquire(timeout=60)
    return [results[i] for i in range(len(params))]


def test_a_bad_grammar_fails_alone(bytes_engine: Engine) -> None:
    good, bad = ({"regex": "[a-z]{3}"}, {"json_schema": {"type": "string", "contentSchema": {}}})
    results = bytes_engine_outputs(bytes_engine, [good, bad, {}, good])
    errors = [o.error for o in results if o.error]
    assert (
        len(errors) == 1
        and isinstance(errors[0], GrammarError)
        and "contentSchema" in str(errors[0])
    )
    assert sorted(o.finish_reason for o in results) == ["error", "length", "stop", "stop"]


def bytes_engine_params(options: dict[str, Any]) -> Any:
    from sgnb.sampling import SamplingParams

    return SamplingParams.make(options, max_new_tokens=8, ignore_eos=True)


def test_abort_while_compiling(bytes_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    released, results = threading.Event(), []
    real: Callable[..., Any] = compiler.compile_spec

    def slow(spec: Any) -> Any:
        released.wait(60)
        return real(spec)

    monkeypatch.setattr(compiler, "compile_spec", slow)
    done = threading.Event()
    [number] = bytes_engine.submit(
        ["x"],
        [bytes_engine_params({"regex": "compiled late"})],
        [lambda o: (results.append(o), done.set())],
    )
    other = bytes_engine.generate(
        "y", max_new_tokens=4, ignore_eos=True
    )  # the engine goes on meanwhile
    assert len(other.token_ids) == 4
    bytes_engine.abort(number)
    assert done.wait(60) and isinstance(results[0].error, Aborted)
    released.set()
    assert (
        bytes_engine.generate("x", regex="compiled late", max_new_tokens=20).text == "compiled late"
    )


def test_thinking_is_free_until_its_mark(bytes_engine: Engine) -> None:
    out = bytes_engine.generate("x", regex="[0-9]{2}", thinking="e", max_new_tokens=300, seed=1)
    assert re.fullmatch("[0-9]{2}", out.text) and out.reasoning and "e" not in out.reasoning
    assert out.meta_info["reasoning"] == out.reasoning
    kinds = [record.kind for record in out.records]
    assert kinds[0] == "free" and kinds[-1] in ("sampled", "jumped") and kinds == sorted(kinds)


@pytest.mark.parametrize("limit", [1, 7, 8, 9, 20])
def test_thinking_ends_in_time(bytes_engine: Engine, limit: int) -> None:
    options: dict[str, Any] = {"regex": "[0-9]{2}", "thinking": "@@@@", "seed": 1}
    if limit < 7:
        with pytest.raises(RequestError, match="shortest"):
            bytes_engine.generate("x", **options, max_new_tokens=limit)
        return
    mark = bytes_engine.log.last
    out = bytes_engine.generate("x", **options, max_new_tokens=limit, return_logprob=True)
    assert re.fullmatch("[0-9]{2}", out.text) and len(out.token_ids) == limit == len(out.logprobs)
    jumps = [
        record.event
        for record in bytes_engine.log.read(mark).records
        if isinstance(record.event, Jumped)
    ]
    assert (
        jumps[0].data == "@@@@"
        and sum(len(j.tokens) for j in jumps) == out.meta_info["jumped_tokens"]
    )


def test_the_end_of_thinking_is_not_padded_by_who_shares_the_tokenizer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own `encode` pads while another thread has it padding."""
    shared = byte_level()
    monkeypatch.setattr(shared, "encode", lambda text, **options: [0] * 64)
    options: dict[str, Any] = {"regex": "[0-9]{2}", "thinking": "@@@@", "seed": 1}
    with Engine(random_model(vocab_size=400), tokenizer=shared) as engine:
        out = engine.generate("x", max_new_tokens=12, **options)
    assert out.error is None and re.fullmatch("[0-9]{2}", out.text)


@pytest.mark.parametrize("limit", [5, 20, 60])
def test_thinking_before_a_grammar_of_the_library(bytes_engine: Engine, limit: int) -> None:
    out = bytes_engine.generate(
        "x", ebnf='root ::= "a" | "b"', thinking="@@", max_new_tokens=limit, seed=1
    )
    assert out.text in ("a", "b") and len(out.token_ids) <= limit


@pytest.mark.parametrize(("limit", "least"), [(16, 20), (24, 5), (40, 5), (64, 20)])
def test_a_recursive_text_lands(bytes_engine: Engine, limit: int, least: int) -> None:
    """It is tried, and not promised: with little room, an object that begins late does not end in
    time."""
    node = {
        "type": "object",
        "properties": {"v": {"type": "boolean"}, "n": {"$ref": "#/$defs/n"}},
        "required": ["v"],
    }
    schema = {"$ref": "#/$defs/n", "$defs": {"n": node}}
    outs = bytes_engine.generate(
        "x", json_schema=schema, json_whitespace=0, max_new_tokens=limit, seed=1, n=20
    )
    assert all(len(out.token_ids) <= limit for out in outs)
    ended = [
        out for out in outs if out.text.endswith("}") and out.text.count("{") == out.text.count("}")
    ]
    assert len(ended) >= least and all("v" in json.loads(out.text) for out in ended)


def test_a_vocabulary_without_the_bytes() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(
        models.WordLevel({"</s>": 0, "<unk>": 1, "yes": 2, "no": 3, "may": 4}, unk_token="<unk>")
    )
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="</s>", unk_token="<unk>")
    with engine_of(tokenizer) as engine:
        assert engine.generate("yes", regex="yes|no", max_new_tokens=3).text in ("yes", "no")
        with pytest.raises(GrammarError, match="no token starts"):
            engine.generate("yes", regex="maybe", max_new_tokens=3)
        assert engine.generate("yes", regex="no", max_new_tokens=3).text == "no"


def test_without_a_tokenizer() -> None:
    with Engine(random_model()) as engine, pytest.raises(RequestError, match="tokenizer"):
        engine.generate([5, 6], regex="a")


def test_schemas_and_grammars(bytes_engine: Engine) -> None:
    name = {"type": "string", "maxLength": 8}
    tags = {"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 3}
    properties = {"name": name, "tags": tags}
    schema = {"type": "object", "properties": properties, "required": ["name", "tags"]}
    for out in bytes_engine.generate(["x"] * 5, json_schema=schema, max_new_tokens=200, seed=1):
        value = json.loads(out.text)
        assert (
            list(value) == ["name", "tags"]
            and len(value["name"]) <= 8
            and set(value["tags"]) <= {"x", "y"}
        )
    tree = {
        "$ref": "#/$defs/t",
        "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}, "maxItems": 2}},
    }
    for out in bytes_engine.generate(["x"] * 5, json_schema=tree, max_new_tokens=2000, seed=1):
        assert isinstance(json.loads(out.text), list)
    lark = 'start: "(" start? ")"'
    for out in bytes_engine.generate(["x"] * 5, ebnf=lark, max_new_tokens=2000, seed=1):
        half = len(out.text) // 2
        assert out.text == "(" * half + ")" * half and half


def test_jumping_and_stepping_texts_obey_the_grammar(bytes_engine: Engine) -> None:
    prompts = [f"{PROMPT}{i}" for i in range(12)]
    comparison = compare(bytes_engine, prompts, regex=PATTERNS[1], max_new_tokens=80)
    assert comparison.jumping_passes < comparison.stepping_passes
    for difference in comparison.differences:
        assert re.fullmatch(PATTERNS[1], difference.jumping.text) and re.fullmatch(
            PATTERNS[1], difference.stepping.text
        )
        assert (
            difference.jumping.text[: difference.position]
            == difference.stepping.text[: difference.position]
        )
    assert not compare(bytes_engine, ["x"], regex="[a-c]", max_new_tokens=3).differences


OPEN: dict[str, Any] = {
    "anyOf": [
        {"type": "array", "items": {"$ref": "#"}},
        {
            "type": "object",
            "properties": {"x": {"$ref": "#"}, "a_long_name": {"type": "string", "minLength": 3}},
            "required": ["a_long_name"],
        },
        {"type": "string"},
    ]
}


@pytest.mark.parametrize("limit", [4, 24, 40, 80])
def test_texts_of_the_library_end_in_time(engine: Engine, limit: int) -> None:
    schema = {"type": "array", "items": OPEN, "minItems": 1}
    schema["items"] = json.loads(json.dumps(OPEN).replace('"#"', '"#/items"'))
    outputs = engine.generate([PROMPT] * 12, json_schema=schema, max_new_tokens=limit, seed=3)
    for out in outputs:
        jsonschema.validate(json.loads(out.text), schema)
        assert len(out.token_ids) <= limit


def test_what_cannot_end_in_time_is_refused_with_the_library_too(bytes_engine: Engine) -> None:
    schema = {"type": "object", "properties": {"x": OPEN, "abc": {}}, "required": ["abc"]}
    schema = json.loads(json.dumps(schema).replace('"#"', '"#/properties/x"'))
    with pytest.raises(RequestError, match=r"shortest text needs 10 tokens, and the limit is 6"):
        bytes_engine.generate(PROMPT, json_schema=schema, max_new_tokens=6)
    with pytest.raises(RequestError, match=r"shortest text needs \d+ tokens, and the limit is 2"):
        bytes_engine.generate(PROMPT, ebnf='root ::= "(" root ")" | "123456"', max_new_tokens=2)


@pytest.mark.parametrize("size", [10**5, 10**9])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 0},
        {"type": "array", "items": {"type": "integer"}, "minItems": 0},
        {"properties": {"a": {"type": "string", "minLength": 0}}, "required": ["a"]},
    ],
    ids=["string", "array", "property"],
)
def test_texts_of_any_size_that_cannot_end_are_refused(
    bytes_engine: Engine, schema: dict[str, Any], size: int
) -> None:
    text = json.dumps(schema).replace(": 0", f": {size}")
    with pytest.raises(RequestError, match=r"shortest text needs [0-9,]+ tokens or more"):
        bytes_engine.generate(PROMPT, json_schema=text, max_new_tokens=50)


@pytest.mark.parametrize("limit", [60, 100, 150, 250])
def test_large_required_parts_below_openings_end_in_time(bytes_engine: Engine, limit: int) -> None:
    """Each opened object requires a text of 40 bytes, and no shortest text is known. The model
    prefers to open further objects."""
    patterns = [{"pattern": "x.{9}y"}, {"pattern": "(foo|bar).{9}z"}, {"pattern": "[a-m]{3}.*0"}]
    patterns += [{"pattern": f"[^a]{{{size}}}$"} for size in (3, 4)]
    schema = {
        "type": "object",
        "properties": {"b": {"$ref": "#"}, "a": {"type": "string", "allOf": patterns}},
        "required": ["a"],
    }
    assert bytes_engine.tokenizer is not None
    [bias] = bytes_engine.tokenizer.encode_alone("b")
    output = bytes_engine.generate(
        PROMPT, json_schema=schema, max_new_tokens=limit, logit_bias={bias: 90.0}
    )
    jsonschema.validate(json.loads(output.text), schema)


def test_searches_for_completions_become_denser() -> None:
    schedule = SearchSchedule(1000)
    assert schedule.is_due(1000)
    schedule.failed(1000, at_start=True)
    assert schedule.is_due(999) and not schedule.is_due(1000)
    schedule.failed(999, at_start=False)
    assert not schedule.is_due(984) and schedule.is_due(983)

    schedule.found(900, 100)
    assert schedule.is_due(700) and not schedule.is_due(701)
    schedule.opened(890)
    schedule.opened(880)
    assert not schedule.is_due(880)
    schedule.opened(820)  # 3 openings may need 400 tokens
    assert schedule.is_due(820)
    schedule.found(240, 110)
    assert schedule.is_due(252)
