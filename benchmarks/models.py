"""Every causal model type of the installed transformers, small with random weights in drawn shapes,
against transformers' own `generate`: exact, refused, or wrong. `python -m benchmarks.models --help`
lists options for some types, parallel processes and the list of exact types.

Greedy tokens of prompts that cross every window and rope boundary: cold, from the cache, in chunks,
and with a pool so small that requests are retracted. Each model runs in a process of its own, with
a time limit.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import resource
import sys
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import logging

from sgnb.engine.engine import Engine
from sgnb.errors import ModelError

from .common import Report
from .gpu.models import TOLERANCES, gaps_below, own_logits, too_far
from .model_settings import VOCAB, Settings
from .model_shapes import DRAWS, FOUR_DRAWS, num_draws, small_config

NEW = 8
SECONDS = 120
"""Time limit for each half of a model's process: the model with its own tokens, and the engines."""

EXACT_BAR = 145

EXACT_LIST = Path(__file__).with_name("exact_models.txt")
"""Model types that are exact in every shape, one per line. A test keeps them exact."""

MEMORY = 8 << 30
"""Most bytes of a model's process."""

VARIANTS = ("llama", "longrope"), ("phi3", "longrope"), ("llama", "dynamic"), ("qwen2", "yarn")
"""Model types with rotary factors in addition."""

ENGINES: dict[str, dict[str, Any]] = {
    "cold and cached": {},
    "in chunks, small pool": {
        "max_step_tokens": 9, "max_running_requests": 6, "max_total_tokens": 72
    },
}  # fmt: skip

VERDICTS = "fails", "wrong", "refused", "not built", "exact"
"""Verdicts, the worst first."""


class Result(NamedTuple):
    verdict: str  # of VERDICTS
    why: str = ""


class Task(NamedTuple):
    """One small model."""

    name: str
    draw: int = 0
    rope: str = ""

    @property
    def title(self) -> str:
        return f"{self.name} ({self.rope})" if self.rope else self.name


def listed_types() -> list[str]:
    """Return the types of the committed list that this transformers has."""
    return [name for name in EXACT_LIST.read_text().split() if name in CONFIG_MAPPING]


def run() -> list[Report]:
    return run_types(sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES), len(os.sched_getaffinity(0)))


def run_types(names: list[str], jobs: int) -> list[Report]:
    """Try every shape of the model types, in `jobs` processes at a time."""
    return tables(try_types(names, jobs))


def try_types(names: list[str], jobs: int) -> dict[str, Result]:
    """Return the worst result of each model type's shapes."""
    tasks = [Task(name, draw) for name in names for draw in range(num_draws(name))]
    tasks += [Task(name, 0, rope) for name, rope in VARIANTS if name in names]
    results: dict[str, Result] = {}
    with ThreadPoolExecutor(jobs) as pool:
        for task, result in zip(tasks, pool.map(try_model, tasks), strict=True):
            print(task.title, task.draw, *result, file=sys.stderr, flush=True)
            shape = result._replace(why=result.why and f"shape {task.draw}: {result.why}")
            before = results.get(task.title, shape)
            worst = min(before, shape, key=lambda each: VERDICTS.index(each.verdict))
            results[task.title] = worst
    return results


def tables(results: dict[str, Result]) -> list[Report]:
    counts = Counter(result.verdict for result in results.values())
    exact = exact_types(results)
    bad = counts["wrong"] + counts["fails"]
    summary = Report(
        "Causal model types",
        ("verdict", "model types"),
        [(verdict, str(count)) for verdict, count in counts.most_common()],
        bar=f"{DRAWS} drawn shapes per type ({DRAWS + 1} of Qwen3.5 and Gemma 4), no two sizes "
        f"equal by chance; none wrong, none that loads and fails; at least {EXACT_BAR} exact",
        met=bad == 0 and counts["exact"] >= EXACT_BAR and set(FOUR_DRAWS) & results.keys() <= exact,
        note=f"transformers {transformers.__version__}",
    )
    rows = [(name, *result) for name, result in results.items() if result.verdict != "exact"]
    return [summary, Report("All but the exact types", ("model", "verdict", "why"), rows),
            Report("Exact types", ("models",), [(", ".join(sorted(exact)),)])]  # fmt: skip


def exact_types(results: dict[str, Result]) -> set[str]:
    return {name for name, result in results.items() if result.verdict == "exact"}


def try_model(task: Task) -> Result:
    """Compare one model with transformers, in a new process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(task, theirs))
    process.start()
    theirs.close()
    try:
        for verdict in ("not built", "fails"):
            if not ours.poll(SECONDS):
                return Result(verdict, f"no answer in {SECONDS} s")
            if (found := ours.recv()) is not None:
                return Result(*found)
        raise AssertionError("the second answer is a result")
    except EOFError:
        return Result("fails", "its process died")
    finally:
        process.kill()
        process.join()


def small_model(
    name: str, draw: int = 0, rope: Settings | None = None, sizes: Settings | None = None
) -> PreTrainedModel:
    """Return a model of `small_config` with random weights, wide enough for tokens to depend on the
    whole context."""
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(
        small_config(name, draw, rope, sizes), dtype=torch.float32, attn_implementation="eager"
    )
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.dim() > 1 and "norm" not in key:
                parameter.mul_(4.0)
    return model.eval()


def rope_of(name: str, kind: str) -> Settings | None:
    """Return rotary factors of a kind for the first shape of a model type."""
    if not kind:
        return None
    config = small_config(name)
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rope: Settings = {"rope_type": kind, "rope_theta": 10000.0, "factor": 4.0}
    if kind == "longrope":
        rope |= {f"{side}_factor": [base + i for i in range(dim // 2)]
                 for side, base in (("short", 1.0), ("long", 3.0))}  # fmt: skip
    if kind != "dynamic":
        rope["original_max_position_embeddings"] = original = 32 if kind == "yarn" else 48
        rope["factor"] = config.max_position_embeddings / original
    return rope


def _work(task: Task, answer: Connection) -> None:
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    try:
        model = small_model(task.name, task.draw, rope_of(task.name, task.rope))
        with torch.inference_mode():
            model(torch.tensor([prompts()[0]]), use_cache=False)
    except Exception as error:
        answer.send(("not built", _line(error)))
        return
    answer.send(None)  # it is built
    answer.send(tuple(compare(model)))


def compare(model: PreTrainedModel) -> Result:
    """The model through engines of every kind against its own tokens for `prompts`."""
    turns = {}
    for kind, options in ENGINES.items():
        try:
            engine = Engine(model, device="cpu", **options)
        except ModelError as error:
            return Result("refused", error.message)
        except Exception as error:
            return Result("fails", f"at load: {_line(error)}")
        try:
            turns[kind] = _two_turns(engine)
        except Exception as error:
            return Result("fails", f"{kind}: {_line(error)}")
    expected = [own_tokens(model, prompt) for prompt in prompts()]
    for kind, two_turns in turns.items():
        for turn, outputs in enumerate(two_turns, 1):
            right = sum(
                tokens is None or tokens == own or is_rounding(model, prompt, tokens)
                for prompt, tokens, own in zip(prompts(), outputs, expected, strict=True)
            )
            if right < len(expected):
                return Result("wrong", f"{kind}, turn {turn}: {right} of {len(expected)} right")
    return Result("exact")


def _two_turns(engine: Engine) -> list[list[list[int] | None]]:
    """Return the engine's tokens for `prompts`, cold and from the cache, and close the engine; None
    for a prompt that the context cannot hold."""
    turns = []
    with engine:
        fits = [len(prompt) + NEW <= engine.context_length for prompt in prompts()]
        held = [prompt for prompt, fit in zip(prompts(), fits, strict=True) if fit]
        for _ in range(2):
            outputs = iter(
                engine.generate(held, temperature=0, max_new_tokens=NEW, ignore_eos=True)
            )
            turns.append([next(outputs).token_ids if fit else None for fit in fits])
    return turns


def is_rounding(model: PreTrainedModel, prompt: list[int], tokens: list[int]) -> bool:
    """Return whether the model's logits for each token are within rounding of the largest."""
    gaps = gaps_below(own_logits(model, prompt, tokens), tokens)
    return too_far(gaps, TOLERANCES["float32"]) == 0


def prompts() -> list[list[int]]:
    """Shorter and longer than windows and rope boundaries; some share a beginning."""
    rng = random.Random(0)

    def draw(length: int) -> list[int]:
        return [rng.randrange(3, VOCAB) for _ in range(length)]

    shared = draw(30)
    return [draw(5), draw(1), draw(23), shared + draw(4), shared + draw(9), draw(52), shared]


def own_tokens(model: PreTrainedModel, prompt: list[int]) -> list[int]:
    ids = torch.tensor([prompt])
    out: Any = model.generate(  # type: ignore[operator]
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, do_sample=False,
        eos_token_id=None,
    )  # fmt: skip
    tokens: list[int] = out[0, len(prompt) :].tolist()
    return tokens


def _line(error: BaseException) -> str:
    said = (str(error).strip() or "no message").splitlines()[0]
    return f"{type(error).__name__}: {said}"[:160]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
    parser.add_argument("--only", help="model types, with commas between; all without it")
    parser.add_argument("--jobs", type=int, default=1, help="models at a time")
    parser.add_argument(
        "--write-list", action="store_true", help=f"write the exact types to {EXACT_LIST.name}"
    )
    arguments = parser.parse_args()
    names = sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    results = try_types(arguments.only.split(",") if arguments.only else names, arguments.jobs)
    reports = tables(results)
    for report in reports:
        print(report.markdown(), flush=True)
    if arguments.write_list:
        EXACT_LIST.write_text("\n".join(sorted(exact_types(results) & set(names))) + "\n")
    return int(reports[0].met is False)


if __name__ == "__main__":
    raise SystemExit(main())
