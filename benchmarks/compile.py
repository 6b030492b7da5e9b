"""What `compile=True` is worth: tokens a second with layers fused, compiled and neither, and the
seconds of compiling.

On a CPU the bundled model, on a GPU a Llama of 8B's shape with random weights; beside it a GPT-2,
of which the fusion pass knows nothing, on a GPU the product for the logits. Nothing that
torch.compile made before is found on the disk.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, GPT2Config

import sgnb
from sgnb import models

from .common import Report, seconds, tokens
from .gpu.model import random_model
from .gpu.ours import await_kernels
from .gpu.shapes import LLAMA_8B

AGAIN = "fused, again"
VARIANTS: dict[str, dict[str, Any]] = {
    "fused (the default)": {},
    "compiled": {"compile": True},
    "neither": {"fuse": False},
    AGAIN: {},
}
GPU_ROUNDS, CPU_ROUNDS = 2, 5
"""Engines of each kind."""


class Work(NamedTuple):
    """counts: whether prompt tokens are counted, else new ones."""

    name: str
    requests: int
    prompt: int
    new: int
    counts_prompt: bool = False

    def tokens_a_second(self, engine: sgnb.Engine) -> float:
        rng = random.Random(0)
        prompts = [tokens(rng, self.prompt, engine.vocab_size) for _ in range(self.requests)]
        engine.flush_cache()
        took = seconds(
            lambda: engine.generate(
                prompts, temperature=0, max_new_tokens=self.new, ignore_eos=True
            )
        )
        return self.requests * (self.prompt if self.counts_prompt else self.new) / took


CPU = (
    Work("1 request", 1, 32, 64),
    Work("16 requests", 16, 32, 32),
    Work("prompts", 2, 900, 1, counts_prompt=True),
)
GPU = (
    Work("1 request", 1, 32, 64),
    Work("64 requests", 64, 32, 64),
    Work("prompts", 16, 900, 1, counts_prompt=True),
)


def run() -> Report:
    gpu = torch.cuda.is_available()
    works, rounds = (GPU, GPU_ROUNDS) if gpu else (CPU, CPU_ROUNDS)
    report = Report(
        f"Layers through torch.compile ({'GPU' if gpu else 'CPU'}), tokens a second",
        ("model", "layers", *(work.name for work in works), "load, s", "load again, s"),
        note=f"Medians of {rounds} engines each, made in turn, each round in another order. The "
        "last line is the first once more: what differs between those two is noise. Load: the "
        "first one, and the median of the others, in the same process.",
    )
    with _nothing_compiled():
        for name in ("Llama", "GPT-2"):
            report.rows += _measure(name, _make_model(name, gpu), works, rounds)
    return report


def _measure(name: str, model: Any, works: tuple[Work, ...], rounds: int) -> list[tuple[Any, ...]]:
    loads: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    speeds: dict[str, list[list[float]]] = {variant: [] for variant in VARIANTS}
    variants = list(VARIANTS.items())
    for _ in range(rounds):
        for variant, options in variants:
            made: list[sgnb.Engine] = []
            loads[variant].append(
                seconds(
                    lambda made=made, options=options: made.append(sgnb.Engine(model, **options))
                )
            )
            with made[0] as engine:
                await_kernels(engine)
                for work in works:  # graphs are captured, pages touched
                    work.tokens_a_second(engine)
                speeds[variant].append([work.tokens_a_second(engine) for work in works])
        variants.append(variants.pop(0))
    return [
        (
            name,
            variant,
            *(f"{statistics.median(column):,.0f}" for column in zip(*speeds[variant], strict=True)),
            f"{loads[variant][0]:.1f}",
            f"{statistics.median(loads[variant][1:]):.1f}",
        )
        for variant in VARIANTS
    ]


def _make_model(name: str, gpu: bool) -> Any:
    """Return a transformers model, shared by all engines in turn."""
    if name == "Llama":
        if gpu:
            return random_model(LLAMA_8B, "cuda")
        return AutoModelForCausalLM.from_pretrained(models.path("tiny"), dtype=torch.float32).eval()
    shape: dict[str, Any] = (
        {"n_embd": 1600, "n_layer": 48, "n_head": 25}
        if gpu
        else {"n_embd": 320, "n_layer": 5, "n_head": 8}
    )
    config = GPT2Config(**shape, n_positions=1024, vocab_size=50257 if gpu else 4096)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    return model.to("cuda", torch.bfloat16) if gpu else model


@contextmanager
def _nothing_compiled() -> Iterator[None]:
    """Inside, torch compiles into a folder of its own."""
    name = "TORCHINDUCTOR_CACHE_DIR"
    before = os.environ.get(name)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ[name] = folder
        try:
            yield
        finally:
            del os.environ[name]
            if before is not None:
                os.environ[name] = before
