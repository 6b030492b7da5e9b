"""`python -m benchmarks hybrid`: models with recurrent layers, small with random weights, on the
CPU: which are exact, what their states take, and what the cache finds of common workloads.
`python -m benchmarks.hybrid --table` puts the first table into docs/MODELS.md.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM
from transformers.cache_utils import LinearAttentionCacheLayerMixin
from transformers.initialization import no_init_weights
from transformers.utils import logging

from sgnb.engine.engine import Engine
from sgnb.engine.model.decoder import load_decoder
from sgnb.engine.model.mixer_probe import find_mixers, own_cache
from sgnb.errors import ModelError
from tests.hybrid_models import HYBRIDS, hybrid_model
from tests.random_models import VOCAB, continuations, random_model

from .common import Report, tokens
from .hit_rate import few_shot, tree_shaped

PAGE = Path(__file__).parent.parent / "docs" / "MODELS.md"
BEGIN, END = (
    "<!-- families: made by `python -m benchmarks.hybrid --table` -->",
    "<!-- families end -->",
)
NEW = 8
GREEDY: dict[str, Any] = {"temperature": 0, "ignore_eos": True}
WAYS: tuple[dict[str, Any], ...] = (
    {}, {"max_step_tokens": 9, "max_running_requests": 6, "max_total_tokens": 110, "max_states": 9},
)  # fmt: skip
"""Options that every family is tried with: the default; chunks, retraction and few states."""

EXPERTS = "num_experts", "num_local_experts", "n_routed_experts"

LONG, EVERY = 4096, (128, 256, 512, 1024, 4096)
"""Tokens of the prompt whose checkpoints are timed, and how far apart those are."""


def run() -> list[Report]:
    logging.set_verbosity_error()
    return [families(), workloads(), checkpoints()]


def families() -> Report:
    """Each against transformers' own generate, twice in each way: cold and from the cache."""
    report = Report(
        "Families with recurrent layers",
        ("model type", "attention", "state", "several tokens go on at once", "tokens"),
    )
    exact = 0
    for family in HYBRIDS:
        if family not in CONFIG_MAPPING:
            report.rows.append((family, "", "", "", "not in this transformers"))
            continue
        model = hybrid_model(family)
        try:
            mixers = find_mixers(model)
            decoder = load_decoder(model)
        except (ModelError, ValueError) as error:
            reason = str(error).partition("\n")[0].partition(": ")[2] or str(error)
            refused = f"refused: {shorten(reason, 70, placeholder=' …')}"
            report.rows.append((family, "", "", "", refused))
            continue
        attention = "yes" if decoder.shapes else "no"
        decoder.release()
        ok = is_exact(family)
        exact += ok
        several = "yes" if all(mixer.continues for mixer in mixers) else "one by one"
        row = family, attention, default_state(family), several, "exact" if ok else "WRONG"
        report.rows.append(row)
    wrong = sum(row[-1] == "WRONG" for row in report.rows)
    report.bar = "at least 10 families exact, none wrong"
    report.met = exact >= 10 and not wrong
    report.note = (
        f"{exact} exact: greedy tokens of a mixed batch equal transformers' own, in float32, cold "
        "and from the cache, in chunks, retracted and with few states. State: of one text, with "
        "the sizes that transformers' configuration has by default."
    )
    return report


def is_exact(family: str) -> bool:
    rng = random.Random(1)
    shared = tokens(rng, 50, VOCAB)
    prompts = [tokens(rng, n, VOCAB) for n in (23, 1, 60)]
    prompts += [shared + tokens(rng, n, VOCAB) for n in (1, 4, 9)]
    right = continuations(hybrid_model(family), prompts, NEW)
    for options in WAYS:
        with Engine(hybrid_model(family), **options) as engine:
            for _ in range(2):
                outputs = engine.generate(prompts, max_new_tokens=NEW, **GREEDY)
                if [output.token_ids for output in outputs] != right:
                    return False
            if not engine.stats()["cached_tokens"]:
                return False
    return True


def default_state(family: str) -> str:
    """MiB of a text's state in a model of the default configuration, which is made of tensors
    without memory."""
    config = CONFIG_MAPPING[family]()
    for name in EXPERTS:  # which have no state
        if getattr(config, name, 0):
            setattr(config, name, max(config.num_experts_per_tok, 1))
    try:
        with torch.device("meta"), torch.inference_mode(), no_init_weights():
            model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
            arguments = own_cache(model)
            model(torch.zeros(1, 4, dtype=torch.long), use_cache=True, **arguments)
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return ""
    parts = [
        tensor
        for cache in arguments.values()
        for layer in cache.layers
        if isinstance(layer, LinearAttentionCacheLayerMixin)
        for tensor in (*layer.conv_states.values(), *layer.recurrent_states.values())
        if tensor is not None
    ]
    return f"{sum(part.nbytes for part in parts) / 2**20:.2f} MiB" if parts else ""


def workloads() -> Report:
    """Hit rates beside a model with attention alone."""
    report = Report(
        "What the cache finds with recurrent layers",
        ("workload", "attention alone", "recurrent, a checkpoint every 64", "every 1,024",
         "again"),
    )  # fmt: skip
    engines = {
        "llama": {}, "qwen3_next, 64": {"checkpoint_every": 64}, "qwen3_next": {},
    }  # fmt: skip
    for title, play in WORKLOADS.items():
        rates, again = [], 0.0
        for name, options in engines.items():
            make = random_model if name == "llama" else hybrid_model
            model = make(name.partition(",")[0], max_position_embeddings=4096)
            with Engine(model, max_total_tokens=60_000, **options) as engine:
                play(engine)
                stats = engine.stats()
            rates.append(f"{stats['hit_rate']:.3f}")
            again = stats["recomputed_tokens"] / stats["prompt_tokens"]
        report.rows.append((title, *rates, f"{again:.3f}"))
    report.note = (
        "Hit rate: prompt tokens found in the cache and not computed. Again: share of prompt "
        "tokens that were found there and computed for want of a state, with one every 1,024."
    )
    return report


def at_once(prompts: list[list[int]], engine: Engine) -> None:
    engine.generate(prompts, max_new_tokens=4, **GREEDY)


def in_order(prompts: list[list[int]], engine: Engine) -> None:
    for prompt in prompts:
        engine.generate(prompt, max_new_tokens=4, **GREEDY)


def chat(engine: Engine) -> None:
    """Eight chats with one system prompt, six turns each, side by side."""
    rng = random.Random(2)
    texts = [tokens(rng, 120, VOCAB)] * 8
    for _ in range(6):
        texts = [text + tokens(rng, 25, VOCAB) for text in texts]
        outputs = engine.generate(texts, max_new_tokens=30, **GREEDY)
        texts = [text + out.token_ids for text, out in zip(texts, outputs, strict=True)]


def shuffled(prompts: list[list[int]]) -> list[list[int]]:
    random.Random(1).shuffle(prompts)
    return prompts


WORKLOADS: dict[str, Callable[[Engine], None]] = {
    "few-shot, 400 prompts at once": partial(
        at_once, shuffled(few_shot(random.Random(0), VOCAB))
    ),
    "few-shot, 400 prompts one after the other": partial(
        in_order, shuffled(few_shot(random.Random(0), VOCAB))
    ),
    "tree, 240 prompts at once": partial(at_once, shuffled(tree_shaped(random.Random(0), VOCAB))),
    "chat, 8 of six turns": chat,
}  # fmt: skip


def checkpoints() -> Report:
    """Measure a long prompt with additional checkpoints."""
    report = Report(
        f"Checkpoints of a prompt of {LONG:,} tokens",
        ("a checkpoint every", "checkpoints", "seconds", "again, at most"),
    )
    prompt = tokens(random.Random(3), LONG, VOCAB)
    model = hybrid_model("qwen3_next", max_position_embeddings=2 * LONG)
    engines = {every: Engine(model, checkpoint_every=every) for every in EVERY}
    seconds: dict[int, list[float]] = {every: [] for every in EVERY}
    for turn in range(4):
        for every, engine in engines.items():
            engine.flush_cache()
            began = time.perf_counter()
            engine.generate(prompt, max_new_tokens=1, **GREEDY)
            if turn:
                seconds[every].append(time.perf_counter() - began)
    for every, engine in engines.items():
        kept = engine.stats()["kept_states"]
        report.rows.append((every, kept, f"{statistics.median(seconds[every]):.3f}", every))
        engine.close()
    state, token = engine.state_bytes, engine.token_bytes
    report.note = f"A state has {state:,} bytes, a token's keys and values {token:,}."
    return report


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hybrid", description=__doc__)
    parser.add_argument("--table", action="store_true", help=f"write the table to {PAGE.name}")
    given = parser.parse_args()
    logging.set_verbosity_error()
    if not given.table:
        for report in run():
            print(report.markdown(), flush=True)
        return
    _, *lines = families().markdown().splitlines()
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    table = "\n".join(line for line in lines if not line.startswith("Bar"))
    PAGE.write_text(f"{head}{BEGIN}\n{table.strip()}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
