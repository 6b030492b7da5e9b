"""Quantization at load of the bundled model: perplexity on held-out text, size of the weights, and
processor time of a load."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from sgnb.engine import Engine
from sgnb.engine.device.memory import weight_bytes
from sgnb.engine.fusion.operations import Operations
from sgnb.engine.fusion.scaled_products import can_scale, scaled_linear
from sgnb.engine.fusion.types import Norm
from sgnb.engine.model.loading import load_module, load_tokenizer
from sgnb.engine.quantization.packed import PackedWeight
from sgnb.models import path
from training.corpus import held_out_document

from .common import Report

DOCUMENTS = 1200
MOST_FP8 = 0.005
LOADS = 5
FORMATS: tuple[str | None, ...] = (None, "fp8", "int4")
INPUTS = "fp8, FP8 inputs"
"""Line of large steps on a GPU: inputs are rounded too."""


def held_out_tokens() -> list[list[int]]:
    """Return the tokens of held-out documents of the model's training corpus."""
    rng, tokenizer = random.Random(42), load_tokenizer(str(path()))
    texts = [held_out_document(rng) for _ in range(DOCUMENTS)]
    return [tokenizer(text, add_special_tokens=False).input_ids for text in texts]


def perplexity(engine: Engine, prompts: list[list[int]]) -> tuple[float, int]:
    """Return the perplexity of the prompts' tokens, and the number of tokens."""
    outputs: Any = engine.generate(
        prompts, max_tokens=1, temperature=0, return_logprob=True, logprob_start_len=0
    )
    numbers = [number for output in outputs for number in output.prompt_logprobs]
    return math.exp(-statistics.fmean(numbers)), len(numbers)


def load_seconds() -> dict[str | None, float]:
    """Return the median processor time of a load in each format, measured in turns."""
    times: dict[str | None, list[float]] = {name: [] for name in FORMATS}
    for _ in range(LOADS):
        for name, measured in times.items():
            began = time.process_time()
            Engine("tiny", device="cpu", quantize=name).close()
            measured.append(time.process_time() - began)
    return {name: statistics.median(measured) for name, measured in times.items()}


@contextmanager
def fp8_inputs() -> Iterator[None]:
    """Multiply FP8 weights by FP8 inputs in all steps of loaded engines, as large steps on a GPU
    do."""

    def scaled_product(
        operations: Operations, x: Tensor, weight: Any, bias: Tensor | None, norm: Norm | None
    ) -> Tensor | None:
        packed = isinstance(weight, PackedWeight) and can_scale(weight)
        return scaled_linear(x, weight, bias, norm) if packed else None

    with mock.patch.object(Operations, "scaled_product", scaled_product):
        yield


def run() -> Report:
    torch.set_num_threads(1)
    report = Report(
        "Weights quantized at load, bundled model in float32 on a CPU",
        ("weights", "perplexity, held-out", "change", "layer weights, MB", "load, processor s"),
        bar=f"fp8 at most +{MOST_FP8:.1%} perplexity, with and without FP8 inputs",
    )
    prompts, loads = held_out_tokens(), load_seconds()
    dense = math.nan
    for name in FORMATS:
        with Engine("tiny", device="cpu", quantize=name) as engine:
            value, count = perplexity(engine, prompts)
        module: Any = load_module(str(path()), torch.device("cpu"), torch.float32, quantize=name)
        size = weight_bytes(module.model.layers) / 1e6
        dense = value if name is None else dense
        change = value / dense - 1
        if name == "fp8":
            with Engine("tiny", device="cpu", quantize=name) as engine, fp8_inputs():
                rounded, _ = perplexity(engine, prompts)
            report.met = max(change, rounded / dense - 1) <= MOST_FP8
        shown = "" if name is None else f"{change:+.2%}"
        label = name or "float32"
        report.rows.append((label, f"{value:.4f}", shown, f"{size:.1f}", f"{loads[name]:.2f}"))
        if name == "fp8":
            cells = f"{rounded:.4f}", f"{rounded / dense - 1:+.2%}", f"{size:.1f}", ""
            report.rows.append((INPUTS, *cells))
    report.note = f"{len(prompts):,} documents, {count:,} tokens."
    return report
