"""Random programs with equal, similar and nearly equal images on engines with too little memory,
against an engine without a prefix cache.

`python -m benchmarks.fuzz_images --programs 2000 --seed 0`. Images differ in one pixel, have the
same bytes in another size, come from files with a palette or a rotation flag, or are equal.
Programs fork before and behind images, and run on several threads.
"""

from __future__ import annotations

import argparse
import io
import itertools
import math
import random
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import tests.torchvision_stand_in  # noqa: F401  before transformers

# isort: split
import numpy as np
import PIL.Image
import torch
import transformers

import sgnb
import tests.multimodal_models as small_models
from sgnb.engine.engine import Engine

from .common import Report
from .fuzz_engine import count_events, wait_until_whole
from .multimodal import template

TYPES = "llava", "qwen2_5_vl", "qwen3_vl", "idefics3"
"""Plain positions, positions on three axes, rows for several layers (deepstack), and tiles."""

PROGRAMS = 2_000
CASES = 60
"""Programs that each type's are drawn from."""

THREADS = 4
"""Threads that run programs on one engine."""

ROUND = 40
"""Programs of an engine: its log holds the events of all of them."""

NOISE = 1e-4
"""Relative noise of the logits; programs whose answer changes with the noise are left out."""

TIGHT: list[dict[str, Any]] = [
    {"max_total_tokens": 360, "max_step_tokens": 23, "encoder_cache": 1e-9},
    {"max_total_tokens": 420, "max_step_tokens": 64, "eviction_policy": "lfu", "overlap": True},
]
"""Engines: rows are dropped at once, and prompts run in short steps; the other reuses rows."""

Play = list[Any]
"""A program as data: texts, ("image", number), ("gen", options), ("fork", plays)."""


def _file(image: PIL.Image.Image, name: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, name, **options)
    return buffer.getvalue()


def sources() -> list[Any]:
    """Return images as users give them, and their neighbours."""
    rng = np.random.default_rng(0)
    base = rng.integers(0, 256, (6, 8, 3), np.uint8).repeat(12, 0).repeat(12, 1)  # 72 x 96
    pixel = base.copy()
    pixel[-1, -1, 0] ^= 128
    reshaped = base.reshape(96, 72, 3)
    few = PIL.Image.fromarray(base).quantize(8)
    other = few.copy()
    palette = list(few.getpalette() or [])
    palette[:3] = [255 - value for value in palette[:3]]
    other.putpalette(palette)
    turned = PIL.Image.Exif()
    turned[0x0112] = 6
    upright = PIL.Image.fromarray(base)
    return [
        base, base.copy(), _file(upright, "PNG"), pixel, reshaped, np.rot90(base).copy(),
        _file(few, "PNG"), _file(other, "PNG"), _file(upright, "PNG", exif=turned),
        255 - base, _file(upright.convert("RGBA"), "PNG"),
    ]  # fmt: skip


def draw(rng: random.Random, depth: int, seeds: Any, count: int) -> Play:
    """Draw a program with at most `depth` nested forks."""
    play: Play = []
    for _ in range(rng.randrange(1, 3)):
        play.append(rng.choice(["see ", "the answer ", "17 + 4 ", "what is it? "]))
        if rng.random() < 0.6:
            play.append(("image", rng.randrange(count)))
        if rng.random() < 0.7:
            temperature = rng.choice([0, 0, 0.8])
            length = rng.choice([1, 3, 5, 5, 40])
            options = {"max_tokens": length, "ignore_eos": True}
            play.append(("gen", {**options, "temperature": temperature, "seed": next(seeds)}))
    if depth and rng.random() < 0.6:
        plays = [draw(rng, depth - 1, seeds, count) for _ in range(rng.randrange(2, 4))]
        play.append(("fork", plays))
    play.append(("gen", {"max_tokens": 3, "temperature": 0, "ignore_eos": True}))
    return play


def play_on(s: Any, play: Play, images: Sequence[Any], names: Any) -> list[Any]:
    """Run a program on a state. Returns the states of all forks."""
    states = []
    for step in play:
        if isinstance(step, str):
            s += step
        elif step[0] == "image":
            s += sgnb.image(images[step[1]])
        elif step[0] == "gen":
            s += sgnb.gen(next(names), **step[1])
        else:
            for fork, inner in zip(s.fork(len(step[1])), step[1], strict=True):
                states += [fork, *play_on(fork, inner, images, names)]
    return states


@sgnb.function
def program(s: Any, play: Play, images: Sequence[Any]) -> Any:
    """Run a program given as data."""
    names = (f"v{i}" for i in itertools.count())
    return [fork.token_ids() for fork in play_on(s, play, images, names)]


def answer(engine: Engine, play: Play, images: Sequence[Any]) -> Any:
    """Return the tokens of a program and of its forks, without the tokens of images: engines
    number images in the order of first use."""
    state = program.run(play, images, backend=engine)
    return [
        [token for token in ids if token < engine.vocab_size]
        for ids in (state.token_ids(), *state.program.value)
    ]


def make_engine(kind: str, noise: float = 0, **options: Any) -> Engine:
    model, processor = small_models.multimodal_model(kind)
    processor.chat_template = template(processor)
    head = model.get_output_embeddings().weight
    with torch.no_grad():
        head *= 1 + noise * torch.randn(head.shape, generator=torch.Generator().manual_seed(0))
    return Engine(
        model, tokenizer=processor.tokenizer, processor=processor, device="cpu",
        max_running_requests=6, context_length=350, **options,
    )  # fmt: skip


def drawn(kind: str, images: Sequence[Any], count: int, seed: int) -> list[tuple[Play, Any]]:
    """Return programs with the answers of an engine without a prefix cache."""
    rng = random.Random(f"{kind} {seed}")
    seeds = iter(rng.randrange(2**32) for _ in itertools.count())
    plays = [draw(rng, 2, seeds, len(images)) for _ in range(count)]
    with make_engine(kind, prefix_cache=False) as fresh:
        pairs = [(play, answer(fresh, play, images)) for play in plays]
    with make_engine(kind, NOISE, prefix_cache=False) as noisy:
        kept = [(play, got) for play, got in pairs if answer(noisy, play, images) == got]
    assert len(kept) > count / 3, "too few programs without near ties"
    return kept


def work(kind: str, options: dict[str, Any], count: int, seed: int) -> tuple[Counter[str], int]:
    """Run `count` programs on an engine. Returns counts of events, and the number of wrong
    answers."""
    images = sources()
    pool = drawn(kind, images, min(CASES, max(8, count)), seed)

    def run(number: int) -> int:
        rng, wrong = random.Random(number), 0
        for _ in range(math.ceil(count / THREADS)):
            play, expected = rng.choice(pool)
            wrong += answer(engine, play, images) != expected
            if rng.random() < 0.02:
                engine.flush_cache()
        return wrong

    with make_engine(kind, **options) as engine, ThreadPoolExecutor(THREADS) as threads:
        wrong = sum(threads.map(run, range(seed * THREADS, (seed + 1) * THREADS)))
        wait_until_whole(engine)
        counts = count_events(engine)
        counts.update({name: engine.stats()[name] for name in ("encoded_items", "encoder_hits")})
    return counts, wrong


def campaign(programs: int, seed: int) -> Report:
    """Run the programs of all types on all engines."""
    columns = "model", "engine", "programs", "cached tokens", "preempted", "encoded", "wrong", "s"
    report = Report("Random programs with similar images", columns)
    rounds = math.ceil(programs / (len(TYPES) * len(TIGHT) * ROUND))
    each = math.ceil(programs / (len(TYPES) * len(TIGHT) * rounds))
    total = 0
    for kind, (number, options) in itertools.product(TYPES, enumerate(TIGHT, 1)):
        began, counts, wrong = time.perf_counter(), Counter[str](), 0
        for part in range(rounds):
            more, failed = work(kind, options, each, (seed * rounds + part) * 100 + number)
            counts.update(more)
            wrong += failed
            print(
                f"{kind}, engine {number}: {(part + 1) * each} programs, {wrong} wrong", flush=True
            )
        total += wrong
        cells = counts["cached"], counts["RequestRetracted"], counts["encoded_items"], wrong
        seconds = time.perf_counter() - began
        count = rounds * each
        report.rows.append((kind, number, count, *(f"{n:,}" for n in cells), f"{seconds:.0f}"))
    report.bar = "each program as on a fresh engine"
    report.met = total == 0
    report.note = f"{rounds * each * len(report.rows):,} programs, {total} wrong; seed {seed}."
    return report


def run() -> Report:
    """Run all programs."""
    return campaign(PROGRAMS, 0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz_images", description=__doc__)
    parser.add_argument("--programs", type=int, default=PROGRAMS)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    report = campaign(arguments.programs, arguments.seed)
    print(report.markdown(), flush=True)
    return int(not report.met)


if __name__ == "__main__":
    raise SystemExit(main())
