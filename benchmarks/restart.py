"""First token of a long prompt before and after a restart of the process, with `disk_cache`: a text
and a prompt with images on the bundled models, and a model with recurrent layers and random
weights. The first process is killed after five seconds without requests."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sgnb.engine import Engine
from sgnb.media import Image
from sgnb.segment import Segment

from .common import Report

TURNS = 5
TOKENS = 3800
IMAGES = 16
LEAST_GAIN = 5
IDLE_SECONDS = 5
ROOT = Path(__file__).resolve().parent.parent
PROMPT = ROOT / "docs" / "LANGUAGE.md"
GREEDY: dict[str, Any] = {"temperature": 0, "ignore_eos": True}
CODE = "import sys; from benchmarks.restart import serve; serve(*sys.argv[1:])"
LAYERS = 6
HYBRID: dict[str, Any] = {
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": LAYERS,
    "layer_types": ["linear_attention", "linear_attention", "full_attention"] * (LAYERS // 3),
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
    "linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_key_head_dim": 32,
    "linear_value_head_dim": 32, "max_position_embeddings": 8192,
}  # fmt: skip

CASES = {
    "text": f"Prompt of {TOKENS:,} tokens, bundled model",
    "images": f"Prompt with {IMAGES} images, bundled model for images",
    "recurrent": f"Prompt of {TOKENS:,} tokens, {LAYERS} layers of Qwen3-Next, random weights",
}


class Answer(NamedTuple):
    """Result of a process."""

    seconds: float  # to the first token, processor included
    loaded: int  # tokens
    prompt: int  # tokens
    tokens: list[int]  # of the answer
    encoded: int  # images


def serve(case: str, folder: str) -> None:
    """Answer a long prompt in this process, print an `Answer`, and wait for the end."""
    options: dict[str, Any] = {"disk_cache": folder, "max_total_tokens": 16384}
    if case == "recurrent":
        from tests.hybrid_models import hybrid_model

        engine = Engine(hybrid_model("qwen3_next", **HYBRID), **options)
    else:
        engine = Engine("tiny-vision" if case == "images" else "tiny", **options)

    prompts = [make_prompt(case, engine, seed, size) for seed, size in enumerate((20, 200, 600))]
    for prompt in prompts:  # other prompts, so that the process is warm
        ask(engine, prompt, 4)
    before = engine.stats()
    prompt = make_prompt(case, engine, 3, TOKENS)
    begin = time.perf_counter()
    size, _ = ask(engine, prompt, 1)
    seconds = time.perf_counter() - begin

    _, tokens = ask(engine, prompt, 24)
    stats = engine.stats()
    encoded = stats.get("encoded_items", 0) - before.get("encoded_items", 0)
    answer = Answer(seconds, stats["loaded_tokens"], size, tokens, encoded)
    print(json.dumps(answer), flush=True)
    time.sleep(600)


def make_prompt(case: str, engine: Engine, seed: int, size: int) -> Any:
    """Return a prompt of about `size` tokens, as ids or as segments."""
    rng = np.random.default_rng(seed)
    if case == "recurrent":
        return rng.integers(3, engine.vocab_size, size).tolist()
    text = PROMPT.read_text(encoding="utf-8")
    if case == "text":
        return (
            engine.encode([text])[0][-size:] if size < TOKENS else engine.encode([text])[0][:size]
        )

    prompt = [Segment(f"{seed} ")]
    for i in range(max(1, IMAGES * size // TOKENS)):
        pixels = rng.integers(0, 256, (480, 640, 3), np.uint8)
        prompt += [Segment(text[400 * i : 400 * i + 400]), Segment("", "media", item=Image(pixels))]
    return [*prompt, Segment(text[:400] + " What is shown?")]


def ask(engine: Engine, prompt: Any, count: int) -> tuple[int, list[int]]:
    """Return the number of tokens of a prompt, and the answer."""
    if isinstance(prompt[0], Segment):
        prompt = engine.encode([prompt])[0]
    output: Any = engine.generate(prompt, max_tokens=count, **GREEDY)
    return len(prompt), list(output.token_ids)


def start(case: str, folder: str, idle: float) -> Answer:
    """Run a process, and kill the process `idle` seconds after its answer."""
    command = [sys.executable, "-c", CODE, case, folder]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        answer = Answer(*json.loads(child.stdout.readline()))
        with suppress(subprocess.TimeoutExpired):
            raise RuntimeError(f"the process ended with {child.wait(idle)}")
    finally:
        child.kill()
        child.wait()
    return answer


def measure(case: str) -> Report:
    pairs = []
    for _ in range(TURNS):
        with tempfile.TemporaryDirectory() as folder:
            pairs.append((start(case, folder, IDLE_SECONDS), start(case, folder, 0.1)))

    gain = statistics.median(first.seconds / second.seconds for first, second in pairs)
    same = all(first.tokens == second.tokens for first, second in pairs)
    fewest = min(second.loaded for _, second in pairs)
    least = pairs[0][0].prompt - 128
    report = Report(
        f"{CASES[case]}, {TURNS} pairs of processes",
        ("", "measured", "at least"),
        bar="the last column, and the same 24 greedy tokens",
    )
    computed, loaded = (
        round(1000 * statistics.median(pair[i].seconds for pair in pairs)) for i in (0, 1)
    )
    report.rows = [
        ("first token computed, median, ms", computed, ""),
        ("first token after the restart, median, ms", loaded, ""),
        ("computed over loaded, median", round(gain, 1), LEAST_GAIN),
        ("tokens from the disk, fewest", fewest, least),
        ("the same answers", "yes" if same else "no", "yes"),
    ]
    report.met = gain >= LEAST_GAIN and fewest >= least and same
    if case == "images":
        encoded = sum(second.encoded for _, second in pairs)
        report.rows.append(("images encoded after the restarts", encoded, "at most 0"))
        report.met = report.met and not encoded
    return report


def run() -> list[Report]:
    return [measure(case) for case in CASES]
