"""`python -m benchmarks gpu.hybrid`: models with recurrent layers beside transformers' own
generation, with the same modules and kernels.

Random weights, bfloat16. transformers runs one text with its own cache; sgnb the same text, and 64
at once. Install flash-linear-attention, causal-conv1d and mamba-ssm to measure with their kernels:
both sides take what transformers finds, and the table says which.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch

from sgnb.engine.engine import Engine
from sgnb.engine.model.mixer_probe import own_cache
from sgnb.events import StepRan

from ..common import Report, alternate, median_ratio, tokens

KERNELS = ("fla", "causal_conv1d", "mamba_ssm")
GREEDY: dict[str, Any] = {"temperature": 0, "ignore_eos": True}

QWEN3_NEXT: dict[str, Any] = {
    "model_type": "qwen3_next", "hidden_size": 2048, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 256, "linear_num_key_heads": 16,
    "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512, "intermediate_size": 5120, "vocab_size": 151936,
    "max_position_embeddings": 32768, "partial_rotary_factor": 0.25,
}  # fmt: skip
MAMBA2: dict[str, Any] = {
    "model_type": "mamba2", "hidden_size": 2560, "num_hidden_layers": 64, "state_size": 128,
    "expand": 2, "head_dim": 64, "num_heads": 80, "n_groups": 1, "vocab_size": 50288,
}  # fmt: skip
SHAPES = {"Qwen3-Next": QWEN3_NEXT, "Mamba2-2.7B": MAMBA2}

TOY: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 16,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
    "linear_value_head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "vocab_size": 512,
}  # fmt: skip
TOY_MAMBA2: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 2, "state_size": 16, "head_dim": 16, "num_heads": 8,
    "vocab_size": 512,
}  # fmt: skip

LENGTHS = 16

PREFILLS = 9
"""Prompts in turns, because the speed of a host changes within seconds."""

EVERY = 256, 512, 1024
"""Tokens between checkpoints, beside the default."""

LAYER_BYTES = 3.3e9
"""Of Qwen3-Next, nearly all of it experts."""


def hybrid_model(config: dict[str, Any], device: str) -> Any:
    """Return a transformers model with weights initialized by the model class. The class
    initializes the decay of recurrent layers there, and `random_model` only calls the constructor.
    """
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    settings = CONFIG_MAPPING[config["model_type"]](
        **{key: value for key, value in config.items() if key != "model_type"}
    )
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            model = AutoModelForCausalLM.from_config(settings)
    finally:
        torch.set_default_dtype(torch.float32)
    return model.eval()


def own_seconds(model: Any, prompt: list[int], new: int) -> tuple[float, float]:
    """Seconds of the prompt, and of each further token, by transformers with its cache."""
    ids = torch.tensor([prompt], device=model.device)
    arguments: dict[str, Any] = {"use_cache": True, "logits_to_keep": 1, **own_cache(model)}
    has_positions = not hasattr(model, "backbone")
    steps = []
    with torch.inference_mode():
        for i in range(1 + new):
            began = time.perf_counter()
            if has_positions:
                end = len(prompt) + i
                positions = torch.arange(end - ids.shape[1], end, device=ids.device)
                arguments["position_ids"] = positions[None]
            out = model(input_ids=ids, **arguments)
            ids = out.logits[:, -1:].argmax(-1)
            ids.item()
            steps.append(time.perf_counter() - began)
    return steps[0], statistics.median(steps[1:] or [0.0])


def our_seconds(engine: Engine, prompts: list[list[int]], new: int) -> tuple[float, float]:
    """Return the seconds until all requests have a first token, and the seconds per step."""
    engine.flush_cache()
    begin = engine.log.last
    began = time.perf_counter()
    engine.generate(prompts, max_new_tokens=1, **GREEDY)
    first = time.perf_counter() - began
    engine.flush_cache()
    engine.generate(prompts, max_new_tokens=1 + new, **GREEDY)
    events = [record.event for record in engine.log.read(begin).records]
    steps = [event.seconds for event in events if is_decode(event, len(prompts))]
    return first, statistics.median(steps)


def prefills(own: Any, engine: Engine, prompt: list[int]) -> tuple[float, float, float]:
    """Return the seconds of a prompt by transformers and by sgnb, and sgnb's relative speed."""
    times = alternate(
        {
            "transformers": partial(own_seconds, own, prompt, 0),
            "sgnb": partial(our_prefill, engine, prompt),
        },
        PREFILLS,
    )
    theirs, ours = map(statistics.median, times.values())
    ratio = median_ratio(times["transformers"], times["sgnb"])
    print(f"prefill: {theirs * 1e3:.1f} ms, {ours * 1e3:.1f}, {ratio:.2f}", flush=True)
    return theirs, ours, ratio


def measure_prompts(title: str, config: dict[str, Any], device: str, size: int) -> list[Any]:
    """Prompts alone: one of `size` tokens, and `LENGTHS` prompts of different lengths at once."""
    rng = random.Random(3)
    vocab = config["vocab_size"]
    own, model = hybrid_model(config, device), hybrid_model(config, device)
    prompts = [tokens(rng, size // LENGTHS + 3 * i, vocab) for i in range(LENGTHS)]
    with Engine(model, device=device) as engine:
        theirs, ours, ratio = prefills(own, engine, tokens(rng, size, vocab))
        many, _ = median_of(partial(our_seconds, engine, prompts, 1), 3)
    shown = [f"{each * 1e3:.1f}" for each in (theirs, ours, many)]
    return [title, *shown[:2], f"{ratio:.2f}", shown[2], ratio >= 1]


def our_prefill(engine: Engine, prompt: list[int]) -> None:
    engine.flush_cache()
    engine.generate(prompt, max_new_tokens=1, **GREEDY)


def is_decode(event: Any, requests: int) -> bool:
    return isinstance(event, StepRan) and [row.length for row in event.extended] == [1] * requests


def median_of(measure: Callable[[], tuple[float, float]], times: int) -> tuple[float, float]:
    """Of each of the two; a first time does not count."""
    measure()
    first, second = zip(*(measure() for _ in range(times)), strict=True)
    return statistics.median(first), statistics.median(second)


def computed_again(engine: Engine, prefix: int, vocab: int) -> tuple[int, int]:
    """Return the computed tokens of the second and of the third request with a cached prefix."""
    rng = random.Random(5)
    engine.flush_cache()
    shared = tokens(rng, prefix, vocab)
    counts = []
    for _ in range(3):
        before = engine.stats()["computed_tokens"]
        engine.generate(shared + tokens(rng, 40, vocab), max_new_tokens=1, **GREEDY)
        counts.append(engine.stats()["computed_tokens"] - before - 40)
    return counts[1], counts[2]


def measure(title: str, config: dict[str, Any], device: str, sizes: dict[str, int]) -> list[Any]:
    rng = random.Random(3)
    vocab, new = config["vocab_size"], sizes["new"]
    own, model = hybrid_model(config, device), hybrid_model(config, device)
    prompt = tokens(rng, sizes["prompt"], vocab)
    many = [tokens(rng, sizes["short"], vocab) for _ in range(64)]
    _, own_step = median_of(partial(own_seconds, own, prompt, new), 3)
    with Engine(model, device=device) as engine:
        _, step = median_of(partial(our_seconds, engine, [prompt], new), 3)
        print(f"a token: transformers {own_step * 1e3:.2f} ms, sgnb {step * 1e3:.2f}", flush=True)
        own_prefill, prefill, ratio = prefills(own, engine, prompt)
        prefill64, step64 = median_of(partial(our_seconds, engine, many, new), 3)
        print(f"64: {prefill64 * 1e3:.1f} ms, {step64 * 1e3:.2f} ms a step", flush=True)
        again = computed_again(engine, sizes["prefix"], vocab)
        state = engine.state_bytes / 2**20
    often = [f"{prefill * 1e3:.1f}"]
    for every in EVERY:
        with Engine(model, device=device, checkpoint_every=every) as engine:
            seconds, _ = median_of(partial(our_seconds, engine, [prompt], 1), 3)
        often.append(f"{seconds * 1e3:.1f}")
        print(f"a checkpoint every {every}: {often[-1]} ms", flush=True)
    more = 64 * own_step / step64
    return [
        title, f"{own_prefill * 1e3:.1f}", f"{prefill * 1e3:.1f}", f"{ratio:.2f}",
        f"{own_step * 1e3:.2f}",
        f"{step * 1e3:.2f}", f"{64 / step64:,.0f}", f"{more:.1f}", f"{again[0]}, {again[1]}",
        f"{state:.1f}", " ".join(often), ratio >= 1 and own_step >= step and more >= 8,
    ]  # fmt: skip


def run() -> Report:
    return main([])


def main(arguments: list[str] | None = None) -> Report:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toy", action="store_true", help="tiny shapes, on the CPU")
    parser.add_argument("--only", choices=SHAPES, help="one of the models")
    parser.add_argument("--layers", type=int, help="of Qwen3-Next; else as many as fit")
    parser.add_argument("--prompts", action="store_true", help="prompts alone")
    given = parser.parse_args(arguments)
    device = "cpu" if given.toy else "cuda"
    if given.toy:
        sizes = {"prompt": 128, "short": 16, "new": 8, "prefix": 100}
        shapes = {"Qwen3-Next": QWEN3_NEXT | TOY, "Mamba2-2.7B": MAMBA2 | TOY_MAMBA2}
    else:
        sizes = {"prompt": 4096, "short": 256, "new": 64, "prefix": 4000}
        free = torch.cuda.mem_get_info()[0]
        layers = given.layers or max(4, int(free * 0.75 / (2 * LAYER_BYTES)) // 4 * 4)
        shapes = {"Qwen3-Next": QWEN3_NEXT | {"num_hidden_layers": layers}, "Mamba2-2.7B": MAMBA2}
    rows = []
    for title, config in shapes.items():
        if given.only in (None, title):
            title = f"{title}, {config['num_hidden_layers']} layers"
            if given.prompts:
                rows.append(measure_prompts(title, config, device, sizes["prompt"]))
            else:
                rows.append(measure(title, config, device, sizes))
            gc.collect()
            if device == "cuda":
                torch.cuda.empty_cache()
    found = [name for name in KERNELS if find_spec(name) is not None]
    if given.prompts:
        report = prompts_report(rows, sizes["prompt"], found)
        print(report.markdown())
        return report
    report = Report(
        "Models with recurrent layers beside transformers, random weights in bfloat16",
        (
            "model", f"{sizes['prompt']:,} tokens of prompt, transformers, ms", "sgnb, ms",
            "sgnb's speed, of transformers'", "a token, transformers, ms", "sgnb, ms",
            "64 at once, tokens a second",
            "times transformers' one", "computed again of a cached prefix: second, third request",
            "state, MiB",
            f"prompt with a checkpoint every 4,096, {', '.join(map(str, EVERY))}, ms",
        ),
        [tuple(row[:-1]) for row in rows],
        bar="prefill and decode at least as fast as transformers, 64 at once at least 8 times",
        met=all(row[-1] for row in rows),
        note=f"Kernels of {', '.join(found) or 'torch alone'}.",
    )  # fmt: skip
    print(report.markdown())
    return report


def prompts_report(rows: list[list[Any]], size: int, found: list[str]) -> Report:
    return Report(
        "Prompts of models with recurrent layers, random weights in bfloat16",
        (
            "model", f"{size:,} tokens, transformers, ms", "sgnb, ms",
            "sgnb's speed, of transformers'", f"{LENGTHS} prompts of different lengths, sgnb, ms",
        ),
        [tuple(row[:-1]) for row in rows],
        bar="at least as fast as transformers",
        met=all(row[-1] for row in rows),
        note=f"Medians of {PREFILLS} in turns. Kernels of {', '.join(found) or 'torch alone'}.",
    )  # fmt: skip


if __name__ == "__main__":
    main()
