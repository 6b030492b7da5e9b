"""FP8 keys and values: rounding, attention on the CPU, engines, stored prefixes, refusals."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sgnb.engine import Engine, attention
from sgnb.engine.attention import check_backend, torch_backend
from sgnb.engine.attention.torch_backend import TorchAttention
from sgnb.engine.cache.fp8 import dequantize, quantize
from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.cache.tiers.payloads import _finite_check
from sgnb.engine.request.step_builder import attention_input
from sgnb.errors import OptionError

from ..random_models import VOCAB, random_model
from .interpreter import interpreted, needs_triton, quick_and_whole, run_check
from .test_attention import OPTIONS, SLOTS, blocks_error, blocks_step, each, random_batch, reference

CPU = torch.device("cpu")
GREEDY: Any = {"temperature": 0, "max_new_tokens": 8, "ignore_eos": True}


@given(
    st.integers(0, 2**32), st.integers(-120, 120), st.sampled_from([torch.float32, torch.bfloat16])
)
def test_rounding(seed: int, exponent: int, dtype: torch.dtype) -> None:
    """Half a unit of three bits of mantissa, and nothing above the largest number; a head alone is
    rounded as among others."""
    generator = torch.Generator().manual_seed(seed)
    numbers = (torch.randn(3, 2, 16, generator=generator) * 2.0**exponent).to(dtype)
    stored, scales = quantize(numbers)
    assert scales.shape == (3, 2) and stored.float().abs().max() <= 448
    wide = stored.double() * scales.double()[..., None]
    largest = numbers.abs().amax(-1, keepdim=True).double()
    error = (wide - numbers.double()).abs()
    least = largest * 2.0**-10 / 448 + 1e-33
    assert (error <= numbers.double().abs() / 16 + least).all()
    assert torch.equal(dequantize(stored, scales, dtype), wide.to(dtype))
    alone, scale = quantize(numbers[1, 1])
    assert torch.equal(alone.float(), stored[1, 1].float()) and scale == scales[1, 1]


def test_zeros_and_numbers_that_are_not_finite() -> None:
    numbers = torch.zeros(3, 4)
    numbers[1, 2], numbers[2, 0] = torch.nan, torch.inf
    read = dequantize(*quantize(numbers), torch.float32)
    assert torch.equal(read[0], numbers[0]) and read[1, 2].isnan() and not read[2, 0].isfinite()


def fp8_pool(kv_heads: int = 2, value_dim: int = 5, slots: int = SLOTS) -> KVCache:
    kv = KVCache({0: LayerShape(kv_heads, 8, value_dim)}, slots, torch.float32, CPU, "fp8")
    for rows in kv.rows(0):
        rows.write((0, slots), torch.randn(slots, *rows.numbers.shape[1:]))
    return kv


@pytest.mark.parametrize("kind", sorted(OPTIONS))
def test_attention_over_the_dequantized_cache(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_backend, "SHARED_READS_SAVED", 4)
    monkeypatch.setattr(torch_backend, "SHARED_TOKENS", 1)
    monkeypatch.setattr(torch_backend, "LONG_CHUNK", 4)
    torch.manual_seed(0)
    for seed in range(6):
        batch = random_batch(random.Random(seed), 0.5)
        backend = TorchAttention(fp8_pool())
        shapes = (4, 8), (2, 8), (2, 5)
        q, k, v = (torch.randn(batch.num_tokens, *shape) for shape in shapes)
        backend.plan(attention_input(batch))
        backend.store(0, k, v)
        out = backend.attend(0, q, OPTIONS[kind])
        keys, values = backend.kv.rows(0)
        for span in each(batch):
            slots = torch.from_numpy(span.request.slots[: span.end]).long()
            new = dequantize(*quantize(k[span.rows]), torch.float32)
            assert torch.equal(keys.read(slots[span.start :]), new)
            parts = q[span.rows].transpose(0, 1), keys.read(slots), values.read(slots)
            expected = reference(*parts, OPTIONS[kind])
            torch.testing.assert_close(out[span.rows].double(), expected, atol=2e-5, rtol=1e-4)
    step = blocks_step(random.Random(kind), 400)
    assert blocks_error(TorchAttention(fp8_pool(slots=400)), step, 4, OPTIONS[kind]) < 2e-5


@needs_triton
@quick_and_whole
def test_triton_attention_over_the_dequantized_cache_in_the_interpreter(part: str) -> None:
    assert interpreted("fp8_attention_check", part) == ["all", "agree"]


@needs_triton
@pytest.mark.slow
def test_the_kernels_compile_for_a_gpu() -> None:
    assert run_check("sm90_check", "fp8") == ["all", "compiled"]


def test_slots_are_copied_with_their_scales() -> None:
    shapes = {0: LayerShape(2, 8, 5), 3: LayerShape(1, 3, 7)}
    kv = KVCache(shapes, 10, torch.bfloat16, CPU, "fp8")
    for layer in shapes:
        for rows in kv.rows(layer):
            rows.write((0, 10), torch.randn(10, *rows.numbers.shape[1:]))
    assert kv.unit_bytes == 2 * 13 + 10 + 2 * 2 * (2 + 1)
    before = [rows.read((0, 10)) for layer in shapes for rows in kv.rows(layer)]
    ids = np.array([7, 2], np.int32)
    content = torch.zeros(2, kv.unit_bytes, dtype=torch.uint8)
    kv.copy(ids, content)
    kv.restore(np.array([0, 1], np.int32), content)
    after = [rows.read((0, 10)) for layer in shapes for rows in kv.rows(layer)]
    for old, new in zip(before, after, strict=True):
        assert torch.equal(new[:2], old[[7, 2]]) and torch.equal(new[2:], old[2:])

    assert sum(size for size, _ in kv.columns) == kv.unit_bytes
    check = _finite_check(kv.columns)
    assert check(content).all()
    for rows in kv.rows(3):
        for part, place in ((rows.numbers, (7, 0, 2)), (rows.scales, (2, 0))):
            assert part is not None
            old, part[place] = part[place].clone(), torch.nan
            kv.copy(ids, content)
            assert check(content).tolist() == [place[0] != 7, place[0] != 2]
            part[place] = old


def test_tokens_do_not_depend_on_cache_and_batch() -> None:
    model = random_model("llama")
    rng = random.Random(0)
    shared = [rng.randrange(3, VOCAB) for _ in range(60)]
    prompts = [[*shared, *(rng.randrange(3, VOCAB) for _ in range(n))] for n in (1, 9, 30, 4)]
    with Engine(model, prefix_cache=False, kv_dtype="fp8") as engine:
        alone = [engine.generate(prompt, GREEDY).token_ids for prompt in prompts]
    tight: Any = {"max_step_tokens": 16, "max_running_requests": 3, "max_total_tokens": 160}
    for options in ({}, tight, {"fork_attention": False}):
        with Engine(model, kv_dtype="fp8", **options) as engine:
            for _ in range(2):
                outputs = engine.generate(prompts, GREEDY)
                assert [output.token_ids for output in outputs] == alone
            assert engine.stats()["cached_tokens"] > 0


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("nothing was stored")


def test_stored_prefixes_have_one_format(tmp_path: Path) -> None:
    """A restart finds the prefix with its scales; an engine with another format does not."""
    model = random_model("llama", max_position_embeddings=1024)
    prompt = [random.Random(1).randrange(3, VOCAB) for _ in range(400)]
    options: Any = {"device": "cpu", "max_total_tokens": 2048, "disk_cache": str(tmp_path)}
    answers = []
    for kv_dtype, found in (("fp8", False), ("fp8", True), ("auto", False), ("auto", True)):
        with Engine(model, kv_dtype=kv_dtype, **options) as engine:
            engine.prefetch(prompt)
            output = engine.generate(prompt, GREEDY)
            answers.append(output.token_ids)
            assert (output.cached_tokens >= 256) == found, (kv_dtype, found)
            assert (engine.stats()["loaded_tokens"] > 0) == found
            if not found:
                engine.pin(prompt, durable=True)
                wait_for(lambda: engine.stats()["stored_blocks"] >= 6)
    assert answers[0] == answers[1] and answers[2] == answers[3]


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match=r"(?s)unknown kv_dtype 'fp9'.*'fp8'"):
        Engine("tiny", kv_dtype="fp9")
    with Engine(random_model("llama"), kv_dtype="fp8") as engine:
        with pytest.raises(OptionError, match="kv_dtype='fp8' would round rotated keys"):
            engine.generate([5, 6, 7], max_tokens=1, approximate=True)
        assert engine.generate([5, 6, 7], max_tokens=1).finish_reason == "length"
    with pytest.raises(OptionError, match="has no effect: the model has no attention layers"):
        kv = KVCache({}, 1, torch.float32, CPU, "fp8")
        attention.make_backend("auto", kv, {}, fork_attention=True)

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    with pytest.raises(OptionError, match=r"8\.9 \(Ada, Hopper\) or later; cuda:0 has 8\.0"):
        check_backend("auto", torch.device("cuda", 0), False, "fp8")
    check_backend("auto", torch.device("cuda", 0), False)
