"""Fingerprints of models: equal for equal weights, different for each change."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.engine.model import fingerprint as module
from sgnb.engine.model.decoder import load_decoder
from sgnb.engine.model.fingerprint import CHUNK_WORDS, fingerprint, sum_chunks
from sgnb.models import path

from ..random_models import FAMILIES, random_model

ROOT = Path(__file__).parent.parent.parent


def slow_sums(tensor: torch.Tensor) -> list[int]:
    """`sum_chunks` with Python's integers; the rest of the words comes first."""
    copy = tensor.clone(memory_format=torch.contiguous_format)
    data = copy.view(torch.uint8).numpy().tobytes()
    words = np.frombuffer(data + bytes(-len(data) % 4), np.int32).tolist()
    factors = module._factors(torch.device("cpu")).tolist()
    chunks = [words[at : at + CHUNK_WORDS] for at in range(0, len(words), CHUNK_WORDS)]
    if not chunks or len(chunks[-1]) == CHUNK_WORDS:
        chunks.append([])
    sums = [sum(map(int.__mul__, chunk, factors)) for chunk in [chunks[-1], *chunks[:-1]]]
    return [(each + 2**63) % 2**64 - 2**63 for each in sums]


def test_the_factors_are_distinct() -> None:
    factors = module._factors(torch.device("cpu"))
    assert len(factors.unique()) == CHUNK_WORDS and factors.min() > 0 and factors.max() <= 2**31


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int8, torch.bool, torch.float8_e4m3fn]
)
@pytest.mark.parametrize("size", [0, 1, 5, 4 * CHUNK_WORDS, 9 * CHUNK_WORDS + 3])
def test_sums_agree_with_integers(dtype: torch.dtype, size: int) -> None:
    rng = np.random.default_rng(size)
    numbers = rng.integers(0, 256, size * dtype.itemsize).tolist()
    data = torch.tensor(numbers, dtype=torch.uint8)
    tensor = data.bool() if dtype == torch.bool else data.view(dtype)
    for part in (tensor, tensor[1:], tensor[::2]):
        assert sum_chunks(part).tolist() == slow_sums(part)


words = st.integers(-(2**31), 2**31 - 1)
places = st.integers(0, 2 * CHUNK_WORDS + 99)


@settings(max_examples=300)
@given(words, words, places, places)
def test_a_change_and_a_swap_of_words_are_found(a: int, b: int, i: int, j: int) -> None:
    tensor = torch.zeros(2 * CHUNK_WORDS + 100, dtype=torch.int32)
    before = sum_chunks(tensor)
    tensor[i] = a
    changed = sum_chunks(tensor)
    assert torch.equal(before, changed) == (a == 0)
    if i != j:
        tensor[j] = b
        pair = sum_chunks(tensor)
        tensor[[i, j]] = tensor[[j, i]]
        assert torch.equal(pair, sum_chunks(tensor)) == (a == b)


@torch.no_grad()
def swap(model: Any, rows: int) -> None:
    """Exchange two neighbouring groups of rows."""
    weight = model.model.embed_tokens.weight
    weight[: 2 * rows] = weight[: 2 * rows].roll(rows, 0)


def set_config(name: str, value: object) -> Callable[[Any], object]:
    return lambda model: setattr(model.config, name, value)


def set_rotary(name: str, value: object) -> Callable[[Any], object]:
    return lambda model: setattr(model.model.rotary_emb, name, value)


@torch.no_grad()
def flip_sign_of_zero(model: Any) -> None:
    weight = model.model.norm.weight
    weight[3] = 0.0
    before = fingerprint(model)
    weight[3] = -0.0
    assert fingerprint(model) != before


CHANGES: dict[str, Callable[[Any], object]] = {
    "two rows swapped": lambda model: swap(model, 1),
    "two chunks swapped": lambda model: swap(model, 32),
    "one number": lambda model: model.lm_head.weight.data[5, 7].add_(1e-3),
    "by data": lambda model: model.model.norm.weight.data.mul_(2),
    "sign of zero": flip_sign_of_zero,
    "dtype": lambda model: model.bfloat16(),
    "layers swapped": lambda model: model.model.layers.insert(0, model.model.layers.pop(1)),
    "eps": set_config("rms_norm_eps", 1e-5),
    "window": set_config("sliding_window", 77),
    "rope": set_config("rope_parameters", {"rope_theta": 5e5, "rope_type": "default"}),
    "scaling": set_rotary("attention_scaling", 1.25),
    "factors": lambda model: model.model.rotary_emb.inv_freq.mul_(2),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_found(change: str) -> None:
    model = random_model("llama", hidden_size=256, num_attention_heads=8)
    before = fingerprint(model)
    assert fingerprint(model) == before
    CHANGES[change](model)
    assert fingerprint(model) != before


def test_facts_and_version_are_part(monkeypatch: Any) -> None:
    model = random_model("llama")
    prints = {fingerprint(model, *facts) for facts in ((), (1,), ("1",), (1, 1))}
    monkeypatch.setattr(module.transformers, "__version__", "0")
    assert len(prints | {fingerprint(model)}) == 5


def test_names_and_paths_are_not_part(tmp_path: Path) -> None:
    model = random_model("llama")
    before = fingerprint(model)
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert fingerprint(loaded) == before
    model.config._name_or_path = "elsewhere"
    assert fingerprint(model) == before


@pytest.mark.parametrize("family", FAMILIES)
def test_an_engine_does_not_change_the_fingerprint(family: str) -> None:
    """Also fused and merged weights, and one run."""
    model = random_model(family)
    before = fingerprint(model)
    decoder = load_decoder(model, "cpu")
    facts = decoder.dtype, decoder.shapes, decoder.states
    loaded = fingerprint(decoder.model)
    assert fingerprint(decoder.model, *facts) == fingerprint(decoder.model, *facts)
    decoder.release()
    assert loaded == before == fingerprint(model)


@pytest.mark.slow
def test_another_process_has_the_same_fingerprint() -> None:
    code = (
        "from sgnb.models import path\n"
        "from sgnb.engine.model.decoder import load_decoder\n"
        "from sgnb.engine.model.fingerprint import fingerprint\n"
        "decoder = load_decoder(path(), 'cpu')\n"
        "print(fingerprint(decoder.model, decoder.dtype, decoder.shapes, decoder.states))\n"
    )
    run = [sys.executable, "-c", code]
    other = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True)
    decoder = load_decoder(path(), "cpu")
    here = fingerprint(decoder.model, decoder.dtype, decoder.shapes, decoder.states)
    decoder.release()
    assert other.stdout.strip() == here and len(here) == 64
