"""The engine on an NVIDIA GPU: the CPU's tokens, and the memory back."""

from __future__ import annotations

import gc
import re

import pytest
import torch

from sgnb.engine.attention import torch_backend
from sgnb.engine.engine import Engine

from ..byte_tokenizers import byte_level
from ..random_models import greedy, random_model
from .test_parity import NEW_TOKENS, PROMPTS, TIGHT

pytestmark = pytest.mark.gpu

POOL = {"max_total_tokens": 2048}
"""Small, so that several tests can use one GPU at a time: by default a pool takes all of it."""


@pytest.mark.parametrize(
    "family", ["llama", "gemma2", "gemma3_text", "gpt_oss", "deepseek_v3", "mixtral"]
)
def test_greedy_tokens_equal_those_on_the_cpu(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_backend, "SHARED_READS_SAVED", 8)
    monkeypatch.setattr(torch_backend, "SHARED_TOKENS", 1)
    expected = greedy(family, PROMPTS, NEW_TOKENS)
    for options in (POOL, TIGHT):
        with Engine(random_model(family), device="cuda", dtype="float32", **options) as engine:
            for _ in range(2):
                outputs = engine.generate(
                    PROMPTS, temperature=0, max_new_tokens=NEW_TOKENS, ignore_eos=True
                )
                assert [o.token_ids for o in outputs] == expected


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("attention", ["triton", "auto"])
def test_the_second_gpu(attention: str) -> None:
    tokens = []
    for device in ("cuda:0", "cuda:1"):
        with Engine(
            random_model(), device=device, dtype="bfloat16", attention=attention, **POOL
        ) as engine:
            assert engine.device == device
            for _ in range(2):
                outputs = engine.generate(
                    PROMPTS, temperature=0, max_new_tokens=NEW_TOKENS, ignore_eos=True
                )
            tokens.append([output.token_ids for output in outputs])
    assert tokens[0] == tokens[1]


def test_a_model_that_waits_for_the_device_runs_kernel_by_kernel() -> None:
    model = random_model()
    mlp = model.model.layers[0].mlp
    own, waited = mlp.forward, [0]

    def forward(x: torch.Tensor) -> torch.Tensor:
        waited[0] += bool(x.isfinite().all())  # which no stream can answer while it is captured
        result: torch.Tensor = own(x)
        return result

    mlp.forward = forward
    with Engine(model, device="cuda", dtype="float32", **POOL) as engine:
        expected = greedy("llama", PROMPTS, NEW_TOKENS)
        for count in (1, len(PROMPTS), 2, len(PROMPTS), len(PROMPTS)):
            outputs = engine.generate(
                PROMPTS[:count], temperature=0, max_new_tokens=NEW_TOKENS, ignore_eos=True
            )
            assert [o.token_ids for o in outputs] == expected[:count]
    assert waited[0] > 0
    assert torch.rand(1, device="cuda") < 1, (
        "a capture that CUDA gave up leaves the generator to the user"
    )


def test_few_graphs_and_captures_without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs go while the device may still run them, and come again."""
    monkeypatch.setattr("sgnb.engine.graphs.MOST_GRAPHS", 2)
    model = random_model()
    mlp = model.model.layers[0].mlp
    own, captures = mlp.forward, [0]

    def forward(x: torch.Tensor) -> torch.Tensor:
        captures[0] += torch.cuda.is_current_stream_capturing()
        if torch.cuda.is_current_stream_capturing() and captures[0] % 3 == 0:
            raise torch.OutOfMemoryError("as if there were none left")
        result: torch.Tensor = own(x)
        return result

    mlp.forward = forward
    prompts = [PROMPTS[i % len(PROMPTS)] for i in range(20)]
    expected = greedy("llama", PROMPTS, NEW_TOKENS)
    with Engine(model, device="cuda", dtype="float32", **POOL) as engine:
        for count in (1, 2, 4, 8, 16, 20, 1, 2, 4, 8, 16, 20, 1, 1):
            outputs = engine.generate(
                prompts[:count], temperature=0, max_new_tokens=NEW_TOKENS, ignore_eos=True
            )
            assert [o.token_ids for o in outputs] == [
                expected[i % len(PROMPTS)] for i in range(count)
            ]
        graphs = engine._loop._runner._graphs
        assert graphs is not None and len(graphs._graphs) <= 2
    assert captures[0] > 5


def test_constrained_texts_equal_those_on_the_cpu() -> None:
    patterns = [
        r'\{"name":"[a-z]{1,12}","age":[0-9]{1,3}\}',
        r"(🦊🐶|🦊🐱|Größe|naïve){1,3} end",
        r"[\w ]{0,20}\.",
    ]
    params = [
        {
            "regex": pattern,
            "max_new_tokens": 80,
            "temperature": 0,
            "jump_forward": jump,
            "return_logprob": True,
        }
        for pattern in patterns
        for jump in (True, False)
    ]
    outputs = {}
    for device in ("cpu", "cuda"):
        model = random_model(vocab_size=400)
        with Engine(
            model, tokenizer=byte_level(), device=device, dtype="float32", **POOL
        ) as engine:
            outputs[device] = engine.generate(["The answer is "] * len(params), params)
    for param, cpu, cuda in zip(params, outputs["cpu"], outputs["cuda"], strict=True):
        assert re.fullmatch(param["regex"], cuda.text)
        assert cuda.token_ids == cpu.token_ids
        assert cuda.logprobs == pytest.approx(cpu.logprobs, abs=1e-3)


def test_closing_returns_the_memory() -> None:
    """The first engine also fetches what CUDA keeps for good; after the second there must be no
    more."""
    left = []
    for _ in range(2):
        engine = Engine(
            random_model("llama", hidden_size=768, intermediate_size=2048),
            device="cuda",
            max_total_tokens=100_000,
        )
        used = torch.cuda.memory_allocated()
        engine.generate(PROMPTS, max_new_tokens=4)
        engine.close()
        del engine
        gc.collect()
        left.append((torch.cuda.memory_allocated(), torch.cuda.memory_reserved()))
        assert used - left[0][0] > 50 << 20, "the engine was too small for this test"
    assert left[1] == left[0]
    assert left[0][1] < 200 << 20
