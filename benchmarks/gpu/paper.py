"""The workloads of arXiv 2312.07104 at full size, on an 8B shape with random weights: each with and
without the technique. Without a GPU a toy size tests the code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

import sgnb
from sgnb.benchmark.paper import FULL, SMALL, workloads

from ..claims import claimed
from ..common import Report
from .model import random_model
from .ours import await_kernels
from .serving import make_tokenizer
from .shapes import LLAMA_8B, TOY


def run() -> Report:
    gpu = torch.cuda.is_available()
    tokenizer = make_tokenizer(toy=not gpu)
    shape = LLAMA_8B if gpu else replace(TOY, vocab=len(tokenizer))
    device, dtype = ("cuda", "bfloat16") if gpu else ("cpu", "float32")
    model = random_model(shape, device, dtype)

    def engine_with(options: Mapping[str, Any]) -> sgnb.Engine:
        engine = sgnb.Engine(model, tokenizer=tokenizer, **options)
        await_kernels(engine)
        return engine

    # Without a technique half precision rounds otherwise, and random weights then write other text.
    made = [replace(one, same="tokens") for one in workloads(scale=FULL if gpu else SMALL)]
    title = "Workloads of the paper, random weights"
    return claimed(title, made, engine_with, "wall" if gpu else "cpu")
