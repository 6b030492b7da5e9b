"""The engine on an NVIDIA GPU against transformers: log-probabilities in float32 and bf16, and greedy tokens of mixed
batches whatever is switched on: sharing, chunks, retraction, overlap, CUDA graphs, each attention backend."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch import Tensor

from sgnb.engine.attention import torch_backend
from sgnb.engine.engine import Engine
from sgnb.errors import OptionError
from sgnb.events import AttentionSwitched, RequestRetracted

from ..random_models import VOCAB, greedy, random_model, reference_model
from .test_parity import PROMPTS, TIGHT

pytestmark = pytest.mark.gpu

DEVICE = "cuda"
FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "gemma", "gemma2", "gemma3_text", "mixtral", "qwen3_moe", "gpt_oss",
            "deepseek_v3")  # fmt: skip
VARIED = ("llama", "gemma2", "gpt_oss", "deepseek_v3")
"""Of these every variant is run: plain, window and soft cap, sinks and experts, latent attention."""

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
WARM_SECONDS = 60
"""FlashInfer's kernels are not waited for longer: compiling them takes minutes."""


def make_engine(family: str, dtype: str = "float32", config: dict[str, Any] | None = None, **options: Any) -> Engine:
    return Engine(random_model(family, **(config or {})), device=DEVICE, dtype=dtype, **options)


def engine_logprobs(engine: Engine, prompts: list[list[int]]) -> Tensor:
    """float64[positions, vocab]: of all tokens of the prompts but their first ones, with every token's probability."""
    outputs = engine.generate(
        prompts, max_new_tokens=0, return_logprob=True, logprob_start_len=0, top_logprobs_num=VOCAB
    )
    rows = [dict(row) for output in outputs for row in output.prompt_top_logprobs]
    assert len(rows) == sum(len(prompt) - 1 for prompt in prompts)
    return torch.tensor([[row[token] for token in range(VOCAB)] for row in rows], dtype=torch.float64)


def reference_logprobs(model: Any, prompts: list[list[int]]) -> Tensor:
    """The same by transformers."""
    device = next(model.parameters()).device
    with torch.inference_mode():
        logits = [model(torch.tensor([p], device=device), use_cache=False).logits[0, :-1] for p in prompts]
    return torch.cat(logits).double().log_softmax(-1).cpu()


def error(found: Tensor, exact: Tensor) -> float:
    """The median over the positions of |found - exact| / |exact|: where an expert is chosen by a hair, one rounding
    makes another row of it, and the mean would tell of nothing else."""
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
    theirs = error(reference_logprobs(random_model(family).to(DEVICE, torch.bfloat16), SCORED), exact)
    with make_engine(family, "bfloat16") as engine:
        ours = error(engine_logprobs(engine, SCORED), exact)
    print(f"{family}: relative error {ours:.2e}, of transformers {theirs:.2e}")
    assert ours <= 1.5 * theirs


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_tokens(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mixed batch, twice: cold, and with a cache to hit, by when the decode steps are replayed graphs."""
    monkeypatch.setattr(torch_backend, "SHARED_READS_SAVED", 8)
    expected = greedy(family, PROMPTS, NEW_TOKENS)
    wrong = {}
    for name, options in (EVERYWHERE | (VARIANTS if family in VARIED else {})).items():
        with make_engine(family, **options) as engine:
            for turn in ("cold", "cached"):
                outputs = engine.generate(PROMPTS, temperature=0, max_new_tokens=NEW_TOKENS, ignore_eos=True)
                found = [output.token_ids for output in outputs]
                if found != expected:
                    wrong[name, turn] = [i for i, pair in enumerate(zip(found, expected, strict=True)) if len(set(map(
                        tuple, pair))) > 1]  # fmt: skip
            if "max_total_tokens" in options:
                assert any(isinstance(r.event, RequestRetracted) for r in engine.log.read().records), name
    assert not wrong, f"requests with other tokens: {wrong}"


def test_overlap_and_graphs_change_no_sample() -> None:
    """Random sampling with seeds, long enough for the batch to shrink through several sizes of graphs."""
    params = [
        {"temperature": 1.0, "seed": i, "max_new_tokens": 8 + 5 * i, "ignore_eos": True, "top_p": 0.9 if i % 3 else 1.0}
        for i in range(12)
    ]
    prompts = [PROMPTS[i % len(PROMPTS)] for i in range(12)]
    found = {}
    for overlap in (True, False):
        for graphs in (True, False):
            with make_engine("llama", overlap=overlap, cuda_graphs=graphs) as engine:
                found[overlap, graphs] = [output.token_ids for output in engine.generate(prompts, params)]
    assert len(set(map(str, found.values()))) == 1


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_flashinfer_agrees_with_triton(family: str) -> None:
    """In bf16, with heads that it has kernels for; gemma2 has a window and a soft cap."""
    pytest.importorskip("flashinfer", reason="FlashInfer is not installed")
    config = {"head_dim": 64, "query_pre_attn_scalar": 64} if family == "gemma2" else {"head_dim": 64}
    exact = reference_logprobs(random_model(family, **config), SCORED)
    try:
        engine = make_engine(family, "bfloat16", config, attention="flashinfer")
    except OptionError as refused:
        pytest.skip(str(refused))
    with engine:
        wait_for_flashinfer(engine)
        flashinfer = engine_logprobs(engine, SCORED)
        outputs = engine.generate(PROMPTS, temperature=0, max_new_tokens=NEW_TOKENS, ignore_eos=True)
        follow = [prompt + output.token_ids for prompt, output in zip(PROMPTS, outputs, strict=True)]
    with make_engine(family, "bfloat16", config, attention="triton") as engine:
        triton = engine_logprobs(engine, SCORED)
    theirs = error(reference_logprobs(random_model(family, **config).to(DEVICE, torch.bfloat16), SCORED), exact)
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
    """Generate until its kernels serve; skips the test when that takes long."""
    began = time.perf_counter()
    while time.perf_counter() - began < WARM_SECONDS:
        engine.generate([5, 6, 7], temperature=0, max_new_tokens=2, ignore_eos=True)
        if any(isinstance(record.event, AttentionSwitched) for record in engine.log.read().records):
            return
        time.sleep(0.2)
    pytest.skip(f"FlashInfer's kernels were not compiled within {WARM_SECONDS} s")
