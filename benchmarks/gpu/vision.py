"""Images on a GPU: time of the encoder with transformers' attention and with sgnb's, many questions
about few images with and without the prefix cache, and the first token of an image seen before.

Models have the sizes of LLaVA-1.5-7B and Qwen2.5-VL-7B and random weights. `--toy` runs small ones,
also on a CPU. `python -m benchmarks.gpu.vision --help` lists the options.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tests.torchvision_stand_in  # noqa: F401  before transformers

# isort: split
import numpy as np
import torch
from transformers import CONFIG_MAPPING, AutoModelForMultimodalLM
from transformers.initialization import no_init_weights

from sgnb import media
from sgnb.engine.engine import Engine
from sgnb.engine.items import EngineItem
from sgnb.engine.model.tower_attention import tower_attentions
from sgnb.segment import Segment
from tests.multimodal_models.builder import set_ids
from tests.multimodal_models.processors import build_processor, processor_class
from tests.multimodal_models.vocabulary import tokenizer_for

from .ours import await_kernels

NUM_IMAGES, NUM_QUESTIONS = 24, 16
QUESTION, ANSWER = 25, 32
"""Tokens."""

SIDES = {"llava": 336, "qwen2_5_vl": 448}
"""Edge of the images in pixels."""

TOKENS: dict[str, dict[str, str | None]] = {
    "llava": {"image_token": "<image>"},
    "qwen2_5_vl": {
        "image_token": "<|image_pad|>", "video_token": "<|video_pad|>",
        "vision_start_token": "<|vision_start|>", "vision_end_token": "<|vision_end|>",
    },
}  # fmt: skip
"""Special tokens of the original tokenizers, which SGLang searches for."""

CONFIGS: dict[str, dict[str, Any]] = {
    "llava": {
        "vision_config": {
            "model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096,
            "num_hidden_layers": 24, "num_attention_heads": 16, "image_size": 336,
            "patch_size": 14, "projection_dim": 768,
        },
        "text_config": {
            "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
            "vocab_size": 32064, "max_position_embeddings": 4096,
        },
    },
    "qwen2_5_vl": {
        "vision_config": {
            "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
            "out_hidden_size": 3584, "patch_size": 14, "window_size": 112,
            "fullatt_block_indexes": [7, 15, 23, 31],
        },
        "text_config": {
            "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
            "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
            "max_position_embeddings": 32768,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]
            },
        },
    },
}  # fmt: skip
"""Settings of config.json by model type, for bfloat16."""

TOYS: dict[str, dict[str, Any]] = {
    "llava": {
        "vision_config": {
            "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 2,
        },
        "text_config": {
            "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 4,
        },
    },
    "qwen2_5_vl": {
        "vision_config": {
            "depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2,
            "out_hidden_size": 64, "fullatt_block_indexes": [1],
        },
        "text_config": {
            "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]
            },
        },
    },
}  # fmt: skip
"""Changes for small models."""


def config_and_processor(family: str, toy: bool = False) -> tuple[Any, Any]:
    """Return the configuration of a model and the processor, with equal ids of special tokens."""
    tokenizer = tokenizer_for(processor_class(family), TOKENS[family])
    processor: Any = build_processor(family, tokenizer, None)
    if family == "llava":
        side = SIDES[family]
        processor.patch_size, processor.num_additional_image_tokens = 14, 1
        processor.vision_feature_select_strategy = "default"
        processor.image_processor.size = {"shortest_edge": side}
        processor.image_processor.crop_size = {"height": side, "width": side}

    changes = TOYS[family] if toy else {}
    settings = {part: own | changes.get(part, {}) for part, own in CONFIGS[family].items()}
    config = CONFIG_MAPPING[family](**settings)
    set_ids(config, family, processor, tokenizer)
    return config, processor


def random_vision_model(family: str, device: str, toy: bool = False) -> tuple[Any, Any]:
    """Return a model with random weights in bfloat16 and its processor."""
    config, processor = config_and_processor(family, toy)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device), no_init_weights():
            model = AutoModelForMultimodalLM.from_config(config, dtype=torch.bfloat16).eval()
    finally:
        torch.set_default_dtype(before)
    generator = torch.Generator(device).manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.02, generator=generator)
            elif parameter.numel():
                parameter.fill_(1)
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    return model, processor


def random_images(side: int, count: int, seed: int) -> list[media.Image]:
    rng = np.random.default_rng(seed)
    return [media.Image(rng.integers(0, 256, (side, side, 3), np.uint8)) for _ in range(count)]


def seconds(work: Any) -> float:
    """Return the duration of a call, with the GPU idle before and after."""
    synchronize()
    began = time.perf_counter()
    work()
    synchronize()
    return time.perf_counter() - began


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def figures(times: list[float]) -> str:
    least, middle, most = (1e3 * pick(times) for pick in (min, statistics.median, max))
    return f"{middle:.1f} median ({least:.1f} to {most:.1f}, {len(times)} runs)"


def show(line: str) -> None:
    print(f"  {line}", flush=True)


def encoder_times(engine: Engine, model: Any, images: list[media.Image], turns: int) -> None:
    """Print the least time to encode all images, with both attentions in turns."""
    encoder: Any = engine.items.encoder  # type: ignore[union-attr]
    processed = [encoder.process(image) for image in images]

    def encode() -> None:
        pairs = zip(images, processed, strict=True)
        items = [EngineItem(image, 0, output) for image, output in pairs]
        encoder.encode(items)

    attentions = list(tower_attentions(model))
    variants = {module.config._attn_implementation for module in attentions} | {"sdpa"}
    times: dict[str, list[float]] = {name: [] for name in sorted(variants)}
    for _ in range(turns):
        for name in times:
            with attention_of(attentions, name):
                encode()
                times[name].append(seconds(encode))
    for name, found in times.items():
        show(f"encode {len(images)} images in ms, attention {name}: {figures(found)}")


@contextmanager
def attention_of(attentions: list[Any], name: str) -> Iterator[None]:
    """Set the attention of encoders meanwhile."""
    before = [module.config._attn_implementation for module in attentions]
    for module in attentions:
        module.config._attn_implementation_internal = name
    yield
    for module, own in zip(attentions, before, strict=True):
        module.config._attn_implementation_internal = own


def prompts(
    engine: Engine, images: list[media.Image], questions: int, seed: int
) -> list[list[int]]:
    """Return shuffled prompts: an image and a random question."""
    rng = np.random.default_rng(seed)
    heads = engine.encode([[Segment("", "media", item=image)] for image in images])
    found = [
        [*head, *rng.integers(1000, 2000, QUESTION).tolist()]
        for head in heads
        for _ in range(questions)
    ]
    rng.shuffle(found)  # type: ignore[arg-type]
    return found


def answer(engine: Engine, asked: list[list[int]], new: int) -> None:
    engine.generate(asked, temperature=0, max_new_tokens=new, ignore_eos=True)


def throughput(engine: Engine, side: int, toy: bool, turns: int) -> float:
    """Return the least time of all questions, from empty caches."""
    count, questions = (3, 4) if toy else (NUM_IMAGES, NUM_QUESTIONS)
    times = []
    for turn in range(turns + 1):  # the first turn warms up
        images = random_images(side, count, turn)
        engine.flush_cache()
        times.append(seconds(lambda: answer(engine, prompts(engine, images, questions, 7), ANSWER)))  # noqa: B023
    return min(times[1:])


def first_token(engine: Engine, side: int) -> list[float]:
    """Return times to the first token of new questions about an image seen before, in a new object
    with equal pixels."""
    kept = random_images(side, 1, 99)
    answer(engine, prompts(engine, kept, 1, 0), 1)
    return [
        seconds(lambda: answer(engine, prompts(engine, random_images(side, 1, 99), 1, seed), 1))  # noqa: B023
        for seed in range(1, 12)
    ]


def measure(family: str, device: str, toy: bool, turns: int) -> None:
    """Print all figures of a model."""
    side = SIDES[family]
    began = time.perf_counter()
    model, processor = random_vision_model(family, device, toy)
    times = {}
    for cached in (True, False):
        with Engine(
            model, processor=processor, tokenizer=processor.tokenizer, device=device,
            prefix_cache=cached, max_total_tokens=8192 if toy else None,
        ) as engine:  # fmt: skip
            await_kernels(engine)
            show(f"loaded after {time.perf_counter() - began:.0f} s")
            show(f"takes {sorted(engine.modalities)}, refuses {engine.refused_modalities}")
            if cached:
                images = random_images(side, 3 if toy else NUM_IMAGES, 5)
                encoder_times(engine, model, images, turns)
            times[cached] = throughput(engine, side, toy, turns if cached else 1)
            show(f"questions, prefix cache {cached}: {times[cached]:.2f} s")
            if cached:
                waits = first_token(engine, side)
                show(f"same image again, first token in ms: {figures(waits)}")
    show(f"the prefix cache is {times[False] / times[True]:.2f} times as fast")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=CONFIGS, default=list(CONFIGS))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--turns", type=int, default=3, help="repetitions")
    parser.add_argument("--toy", action="store_true", help="small models")
    options = parser.parse_args()
    for family in options.models:
        print(f"{family}{' (toy)' if options.toy else ''}", flush=True)
        measure(family, options.device, options.toy, options.turns)


if __name__ == "__main__":
    main()
