"""The engine on an NVIDIA GPU against transformers: log-probabilities in float32 and bf16, and
greedy tokens of mixed batches whatever is switched on: sharing, chunks, retraction, overlap, CUDA
graphs, each attention backend, grammars; and deterministic mode bit for bit."""

from __future__ import annotations

import json
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sgnb.engine.attention import torch_backend
from sgnb.engine.engine import Engine
from sgnb.errors import OptionError
from sgnb.events import RequestRetracted

from ..byte_tokenizers import byte_level
from ..random_models import VOCAB, greedy, random_model, reference_model
from .test_parity import PROMPTS, TIGHT

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

DEVICE = "cuda"
FAMILIES = (
    "llama", "qwen2", "qwen3", "mistral", "gemma", "gemma2", "gemma3_text", "mixtral", "qwen3_moe",
    "gpt_oss", "deepseek_v3",
)  # fmt: skip
VARIED = ("llama", "gemma2", "gpt_oss", "deepseek_v3")
"""Of these every variant is run: plain, window and soft cap, sinks and experts, latent
attention."""

POOL = 8192
"""Tokens of an engine's pool, so that several tests can use one GPU at a time: by default a pool
takes all of it."""

NEW_TOKENS = 16
SMALL = TIGHT | {"max_total_tokens": 72}
EVERYWHERE: dict[str, dict[str, Any]] = {"default": {}, "chunks and retraction": SMALL}
VARIANTS: dict[str, dict[str, Any]] = {
    "torch": {"attention": "torch"},
    "triton": {"attention": "triton"},
    "triton, chunks and retraction": {"attention": "triton"} | SMALL,
    "no overlap": {"overlap": False},
    "no graphs": {"cuda_graphs": False},
    "neither, chunks and retraction": {"overlap": False, "cuda_graphs": False} | SMALL,
    "no fork attention": {"fork_attention": False},
    "unfused": {"fuse": False},
}
SCORED = [PROMPTS[2], PROMPTS[3], PROMPTS[5], PROMPTS[6]]
WARM_SECONDS = 150
"""FlashInfer's kernels are not waited for longer: compiling them takes a minute with 16 cores."""

WIDE = {"head_dim": 64, "hidden_size": 192, "intermediate_size": 512}
PROBE_LENGTH, PROBE_CACHED, OTHERS = 100, 60, 33


def make_engine(
    family: str, dtype: str = "float32", config: dict[str, Any] | None = None, **options: Any
) -> Engine:
    options = {"max_total_tokens": POOL, "precompile": False} | options
    return Engine(random_model(family, **(config or {})), device=DEVICE, dtype=dtype, **options)


def engine_logprobs(engine: Engine, prompts: list[list[int]]) -> Tensor:
    """float64[positions, vocab]: of all tokens of the prompts but their first ones, with every
    token's probability."""
    outputs = engine.generate(
        prompts, max_new_tokens=0, return_logprob=True, logprob_start_len=0, top_logprobs_num=VOCAB
    )
    rows = [dict(row) for output in outputs for row in output.prompt_top_logprobs]
    assert len(rows) == sum(len(prompt) - 1 for prompt in prompts)
    return torch.tensor(
        [[row[token] for token in range(VOCAB)] for row in rows], dtype=torch.float64
    )


def reference_logprobs(model: Any, prompts: list[list[int]]) -> Tensor:
    """The same by transformers."""
    device = next(model.parameters()).device
    with torch.inference_mode():
        logits = [
            model(torch.tensor([p], device=device), use_cache=False).logits[0, :-1] for p in prompts
        ]
    return torch.cat(logits).double().log_softmax(-1).cpu()


def error(found: Tensor, exact: Tensor) -> float:
    """The median over the positions of |found - exact| / |exact|: where an expert is chosen by a
    hair, one rounding makes another row of it, and the mean would tell of nothing else."""
    return float(((found - exact).norm(dim=-1) / exact.norm(dim=-1)).median())


@pytest.mark.parametrize("family", FAMILIES)
def test_float32_log_probabilities(family: str) -> None:
    with make_engine(family) as engine:
        found = engine_logprobs(engine, SCORED)
        again = engine_logprobs(engine, SCORED)
    expected = reference_logprobs(reference_model(family), SCORED)
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(again, expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_bf16_log_probabilities_are_as_near_as_those_of_transformers(family: str) -> None:
    exact = reference_logprobs(reference_model(family), SCORED)
    theirs = error(
        reference_logprobs(random_model(family).to(DEVICE, torch.bfloat16), SCORED), exact
    )
    with make_engine(family, "bfloat16") as engine:
        ours = error(engine_logprobs(engine, SCORED), exact)
    print(f"{family}: relative error {ours:.2e}, of transformers {theirs:.2e}")
    assert ours <= 1.5 * theirs


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_tokens(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mixed batch, twice: cold, and with a cache to hit, by when the decode steps are replayed
    graphs."""
    monkeypatch.setattr(torch_backend, "SHARED_READS_SAVED", 8)
    monkeypatch.setattr(torch_backend, "SHARED_TOKENS", 1)
    expected = greedy(family, PROMPTS, NEW_TOKENS)
    wrong = {}
    for name, options in (EVERYWHERE | (VARIANTS if family in VARIED else {})).items():
        with make_engine(family, **options) as engine:
            for turn in ("cold", "cached"):
                outputs = engine.generate(
                    PROMPTS, temperature=0, max_new_tokens=NEW_TOKENS, ignore_eos=True
                )
                found = [output.token_ids for output in outputs]
                if found != expected:
                    pairs = enumerate(zip(found, expected, strict=True))
                    wrong[name, turn] = [i for i, (a, b) in pairs if tuple(a) != tuple(b)]
            if "max_total_tokens" in options:
                assert any(
                    isinstance(r.event, RequestRetracted) for r in engine.log.read().records
                ), name
    assert not wrong, f"requests with other tokens: {wrong}"


def test_overlap_and_graphs_change_no_sample() -> None:
    """Random sampling with seeds, long enough for the batch to shrink through several sizes of
    graphs."""
    params = [
        {
            "temperature": 1.0,
            "seed": i,
            "max_new_tokens": 8 + 5 * i,
            "ignore_eos": True,
            "top_p": 0.9 if i % 3 else 1.0,
        }
        for i in range(12)
    ]
    prompts = [PROMPTS[i % len(PROMPTS)] for i in range(12)]
    found = {}
    for overlap in (True, False):
        for graphs in (True, False):
            with make_engine("llama", overlap=overlap, cuda_graphs=graphs) as engine:
                found[overlap, graphs] = [
                    output.token_ids for output in engine.generate(prompts, params)
                ]
    assert len(set(map(str, found.values()))) == 1


def draw(rng: random.Random, length: int) -> list[int]:
    return [rng.randrange(3, VOCAB) for _ in range(length)]


@pytest.mark.parametrize("family", ["llama", "qwen2", "mixtral", "qwen3_moe"])
def test_deterministic_mode_keeps_every_bit(family: str) -> None:
    """Tokens and log-probabilities of a probe: alone and among others, cached, in part and not, in
    chunks and at once.

    Of the others every third shares a part of the probe's prompt, and all end at different steps.
    """
    rng = random.Random(0)
    probe = draw(rng, PROBE_LENGTH)
    others = [(probe[:40] if i % 3 == 0 else []) + draw(rng, 1 + 3 * i) for i in range(OTHERS)]
    greedily = {
        "temperature": 0,
        "max_new_tokens": NEW_TOKENS,
        "ignore_eos": True,
        "return_logprob": True,
    }
    beside = [
        {"temperature": i % 2, "seed": i, "max_new_tokens": 4 + i, "ignore_eos": True}
        for i in range(OTHERS)
    ]
    found: dict[tuple[str, ...], tuple[list[int], list[float]]] = {}
    for steps, options in {
        "whole": {},
        "chunks": {"max_step_tokens": 48, "max_running_requests": 40},
    }.items():
        with make_engine(family, "bfloat16", WIDE, deterministic=True, **options) as engine:
            for company, count in (("alone", 0), ("among others", OTHERS)):
                half = count // 2
                prompts = [*others[:half], probe, *others[half:count]]
                params = [*beside[:half], greedily, *beside[half:count]]
                for cached in ("not cached", "cached", "cached in part"):
                    if cached != "cached":
                        engine.flush_cache()
                    if cached == "cached in part":
                        engine.generate(probe[:PROBE_CACHED], temperature=0, max_new_tokens=1)
                    output = engine.generate(prompts, params)[half]
                    if cached == "cached":
                        assert output.cached_tokens == PROBE_LENGTH - 1
                    elif not count:
                        assert (output.cached_tokens >= PROBE_CACHED - 1) == (
                            cached == "cached in part"
                        )
                    found[steps, company, cached] = output.token_ids, output.logprobs
    tokens, logprobs = found["whole", "alone", "not cached"]
    assert len(tokens) == len(logprobs) == NEW_TOKENS
    assert [name for name, bits in found.items() if bits != (tokens, logprobs)] == []


PERSON = r'\{"first name":"[a-z]{1,9}","last name":"[a-z]{1,9}","age":[0-9]{1,3}\}'
COLOURS = ["red", "green", "blue"]
COLOUR = {
    "type": "object",
    "required": ["colour", "depth"],
    "properties": {
        "colour": {"enum": COLOURS},
        "depth": {"type": "integer", "minimum": 0, "maximum": 99},
    },
}
CONSTRAINED: list[dict[str, Any]] = [
    {"regex": PERSON, "temperature": 1},
    {"regex": PERSON, "temperature": 0, "return_logprob": True},
    {"regex": PERSON, "temperature": 1, "jump_forward": False},
    {"regex": "(yes|no), (never|always)", "temperature": 1},
    {"json_schema": COLOUR, "temperature": 1},
]
FREE: list[dict[str, Any]] = [
    {"temperature": 0, "ignore_eos": True},
    {"temperature": 1, "ignore_eos": True},
    {"temperature": 1, "return_logprob": True, "stop": ["e", "a"]},
]
FILTERED: list[dict[str, Any]] = [
    {"regex": PERSON, "temperature": 1, "top_p": 0.9},
    {"temperature": 1, "top_p": 0.9, "top_k": 50},
]


@pytest.mark.parametrize("more", [[], FILTERED], ids=["chosen in the graph", "chosen after it"])
def test_constrained_rows_among_free_ones(
    more: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With jumps, a step ahead and in graphs; twice, to meet graphs and a cache that are there.
    Then without."""
    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))
    rows = [
        row | {"seed": i, "max_new_tokens": 90}
        for i, row in enumerate(3 * (CONSTRAINED + FREE + more))
    ]
    prompts = [
        ("The answer is ", "x", "The answer is not ", "zzzz")[i % 4] for i in range(len(rows))
    ]
    found = []
    for fast in (True, False):
        model = random_model(vocab_size=400)
        with Engine(
            model, tokenizer=byte_level(), device=DEVICE, dtype="float32", max_total_tokens=POOL,
            overlap=fast, cuda_graphs=fast,
        ) as engine:  # fmt: skip
            for _ in range(2 if fast else 1):
                found.append(engine.generate(prompts, rows))
            assert engine.stats()["jumped_tokens"] > 0
    for run in found:
        for row, output in zip(rows, run, strict=True):
            if "regex" in row:
                assert re.fullmatch(row["regex"], output.text), output.text
            elif "json_schema" in row:
                value = json.loads(output.text)
                assert value["colour"] in COLOURS and 0 <= value["depth"] <= 99
    seen = [[(o.text, o.token_ids, o.finish_reason, o.stopped_by) for o in run] for run in found]
    assert seen[0] == seen[2], "cold"
    assert seen[1] == seen[2], "cached"
    for run in found[:2]:
        for output, plain in zip(run, found[2], strict=True):
            assert output.logprobs == pytest.approx(plain.logprobs, abs=1e-3)


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_flashinfer_agrees_with_triton(family: str) -> None:
    """In bf16, with heads for which other tests compile its kernels too; gemma2 has a window and a
    soft cap."""
    pytest.importorskip("flashinfer", reason="FlashInfer is not installed")
    config = (
        {"head_dim": 128, "query_pre_attn_scalar": 128} if family == "gemma2" else {"head_dim": 128}
    )
    exact = reference_logprobs(random_model(family, **config), SCORED)
    try:
        engine = make_engine(family, "bfloat16", config, attention="flashinfer")
    except OptionError as refused:
        pytest.skip(str(refused))
    with engine:
        wait_for_flashinfer(engine)
        flashinfer = engine_logprobs(engine, SCORED)
        outputs = engine.generate(
            PROMPTS, temperature=0, max_new_tokens=NEW_TOKENS, ignore_eos=True
        )
        follow = [
            prompt + output.token_ids for prompt, output in zip(PROMPTS, outputs, strict=True)
        ]
    with make_engine(family, "bfloat16", config, attention="triton") as engine:
        triton = engine_logprobs(engine, SCORED)
    theirs = error(
        reference_logprobs(random_model(family, **config).to(DEVICE, torch.bfloat16), SCORED), exact
    )
    assert error(flashinfer, exact) <= 1.5 * theirs
    assert error(flashinfer, triton) <= 2 * theirs
    # Each greedy token is, to bf16's precision, the likeliest one.
    model = random_model(family, **config)
    for prompt, tokens in zip(PROMPTS, follow, strict=True):
        logprobs = reference_logprobs(model, [tokens])[len(prompt) - 1 :]
        chosen = logprobs.gather(1, torch.tensor(tokens[len(prompt) :])[:, None])[:, 0]
        lost = logprobs.amax(-1) - chosen
        assert float(lost.median()) == 0, "greedy tokens are not the likeliest ones"
        assert float(lost.max()) < 0.5


def wait_for_flashinfer(engine: Engine) -> None:
    """Generate until its kernels serve; skips the test when that takes long, and fails it when they
    never will."""
    began = time.perf_counter()
    while engine.stats()["compiling"]:
        if time.perf_counter() - began > WARM_SECONDS:
            pytest.skip(f"FlashInfer's kernels were not compiled within {WARM_SECONDS} s")
        engine.generate([5, 6, 7], temperature=0, max_new_tokens=2, ignore_eos=True)
        time.sleep(0.2)
    assert engine.stats()["attention"] == "flashinfer"
