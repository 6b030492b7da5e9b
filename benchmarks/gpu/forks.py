"""`python -m benchmarks.gpu.forks`: a decode step of branches of one prompt, with their prefix read once and without.

The time of a whole step, from the end of one to the end of the next: on a GPU that is the GPU's, as the host runs a
step ahead, unless the host takes longer. Both times are sgnb's; `benchmarks.attention_gpu` compares a layer with
FlashInfer.
"""

from __future__ import annotations

import argparse
import random
import statistics
from typing import Any, NamedTuple

from ..common import Report, tokens
from .ours import await_kernels, sgnb
from .shapes import LLAMA_8B, TOY

BAR = 1.5


class Case(NamedTuple):
    """branches of a prompt of so many tokens. Without a GPU: toy_branches, toy_prompt."""

    branches: int
    prompt: int
    toy_branches: int
    toy_prompt: int
    barred: bool = False


CASES = (Case(64, 4000, 8, 200, True), Case(256, 1000, 16, 100), Case(1024, 1000, 24, 100), Case(1, 4000, 1, 100))
NEW, TOY_NEW = 96, 12


def run() -> Report:
    import torch

    from .model import random_model

    gpu = torch.cuda.is_available()
    shape, device, dtype = (LLAMA_8B, "cuda", "bfloat16") if gpu else (TOY, "cpu", "float32")
    model = random_model(shape, device, dtype)
    columns = ("branches", "tokens of the prompt", "apart, ms a step", "read once, ms a step", "times faster")
    apart, once = _milliseconds(model, False, gpu), _milliseconds(model, True, gpu)
    report = Report("Decode steps of branches of one prompt", columns)
    for case, slow, fast in zip(CASES, apart, once, strict=True):
        branches, prompt = (case.branches, case.prompt) if gpu else (case.toy_branches, case.toy_prompt)
        report.rows.append((branches, prompt, f"{slow:.2f}", f"{fast:.2f}", f"{slow / fast:.2f}"))
        if case.barred and gpu:
            report.bar, report.met = f"{BAR} times for {branches} branches of {prompt:,} tokens", slow / fast >= BAR
    return report


def _milliseconds(model: Any, fork_attention: bool, gpu: bool) -> list[float]:
    """The median step of each case."""
    rng = random.Random(0)
    with sgnb.Engine(model, tokenizer=None, fork_attention=fork_attention) as engine:
        await_kernels(engine)
        return [_step(engine, case, rng, gpu) for case in CASES]


def _step(engine: Any, case: Case, rng: random.Random, gpu: bool) -> float:
    branches, prompt, new = (
        (case.branches, case.prompt, NEW) if gpu else (case.toy_branches, case.toy_prompt, TOY_NEW)
    )
    common = tokens(rng, prompt, engine.vocab_size)
    prompts = [common + tokens(rng, 1, engine.vocab_size) for _ in range(branches)]
    times: list[float] = []
    for _ in range(3):  # the first ones make the graphs
        seen = engine.log.last
        engine.generate(prompts, temperature=0, max_new_tokens=new, ignore_eos=True)
        times = [step.seconds for step in _steps(engine, seen) if len(step.extended) == branches]
    return 1000 * statistics.median(times)


def _steps(engine: Any, after: int) -> list[Any]:
    """The steps of decodes since that record of the log."""
    events = [record.event for record in engine.log.read(after).records]
    steps = [event for event in events if isinstance(event, sgnb.events.StepRan)]
    return [step for step in steps if all(chunk.length == 1 for chunk in step.extended)]


def main() -> int:
    argparse.ArgumentParser(prog="python -m benchmarks.gpu.forks", description=__doc__).parse_args()
    print(run().markdown(), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
