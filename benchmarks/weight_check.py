"""Cost of the comparison of weights before each batch of requests, and of a change.

An engine on a transformers model compares version counters, addresses and samples of the weights
whenever requests are submitted. Measured on the CPU: the bundled model, and a Llama with the number
of layers of the 8B model and narrow random weights, whose 291 weights take as long to compare as
those of the large model, except for cache misses.
"""

from __future__ import annotations

import statistics
import warnings
from functools import partial
from typing import Any

from .common import Report, alternate, seconds

REQUESTS = 20
CHECKS = 200
ROUNDS = 5
BAR = 0.02
LAYERS_8B = {
    "vocab_size": 1000, "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 32,
    "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 512,
}  # fmt: skip


def run() -> Report:
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    from sgnb import models

    measured = {
        "the bundled model": AutoModelForCausalLM.from_pretrained(models.path("tiny")),
        "32 layers, 291 weights": LlamaForCausalLM(LlamaConfig(**LAYERS_8B)),
    }
    rows, shares = [], []
    for name, model in measured.items():
        check, request, change = measure(model)
        shares.append(check / request)
        rows.append(
            (
                name,
                f"{1e6 * check:.0f}",
                f"{1e3 * request:.1f}",
                f"{check / request:.2%}",
                f"{1e3 * change:.1f}",
            )
        )
    return Report(
        "Comparison of weights that the user can change (CPU)",
        (
            "model",
            "a comparison, µs",
            "a request of 64 tokens in and 1 out, ms",
            "share",
            "a change of all weights, ms",
        ),
        rows,
        bar=f"a comparison takes at most {BAR:.0%} of the shortest useful request",
        met=max(shares) <= BAR,
    )


def measure(model: Any) -> tuple[float, float, float]:
    """Seconds of a comparison, of a request (with its comparison), and of taking over a change."""
    import sgnb

    state = {name: weight.clone() for name, weight in model.state_dict().items()}
    with sgnb.Engine(model, device="cpu", prefix_cache=False) as engine:
        request = partial(engine.generate, list(range(5, 69)), max_new_tokens=1)
        times = alternate(
            {
                "check": lambda: [engine.check_weights() for _ in range(CHECKS)],
                "request": lambda: [request() for _ in range(REQUESTS)],
            },
            ROUNDS,
        )
        changes = []
        for _ in range(ROUNDS):
            model.load_state_dict(state)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                changes.append(seconds(engine.check_weights))
    check, one = (statistics.median(times[name]) for name in ("check", "request"))
    return check / CHECKS, one / REQUESTS, statistics.median(changes)
