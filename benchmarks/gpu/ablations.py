"""`python -m benchmarks.gpu.ablations`: the same programs with one technique off at a time, on a
GPU or on a CPU.

On a GPU a Llama of 8B's shape with random weights, on a CPU the bundled model. Each figure is how
many times longer a program takes without the technique: what it is worth where it applies, about 1
where it does not.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..common import Report, number_of_times
from .playing import measure
from .results import Results
from .shapes import LLAMA_8B
from .workloads import Kind, chat, few_shot, json_records, plain, tree_of_thought

ALL_ON = "all on"
AGAIN = "all on, again"
DETERMINISTIC = "deterministic mode"
OPTIONS: dict[str, dict[str, Any]] = {
    ALL_ON: {},
    "no prefix cache": {"prefix_cache": False},
    "first come, first served": {"schedule_policy": "fcfs"},
    "no fork attention": {"fork_attention": False},
    "no jump-forward": {"jump_forward": False},
    "no overlap": {"overlap": False},
    "no CUDA graphs": {"cuda_graphs": False},
    "unfused modules": {"fuse": False},
    DETERMINISTIC: {"deterministic": True},
    AGAIN: {},
}
"""What is off -> options of the engine. Deterministic mode is no technique: its figure is its
price."""

GPU_ONLY = ("no overlap", "no CUDA graphs", DETERMINISTIC)
NOISE = {True: 0.05, False: 0.1}
"""What counts as no loss, on a GPU and on a CPU, where others work beside."""


class Program(NamedTuple):
    """Workload of an ablation.

    Attributes:
        gpu, cpu: Sizes of the workload.
        pool: Tokens of a small private pool on a GPU and on a CPU; None for a large pool.
        gains: Techniques with an expected gain.
    """

    maker: Any
    gpu: dict[str, Any]
    cpu: dict[str, Any]
    gains: tuple[str, ...] = ()
    pool: tuple[int, int] | None = None

    def kind(self, gpu: bool) -> Kind:
        return Kind(self.maker, self.gpu if gpu else self.cpu, {})


PROGRAMS: dict[str, Program] = {
    "one request": Program(
        plain,
        {"requests": 1, "prompt": 16, "new": 128},
        {"requests": 1, "prompt": 16, "new": 48},
        ("no CUDA graphs", "unfused modules", "no overlap"),
    ),
    "batch, nothing shared": Program(
        plain,
        {"requests": 128, "prompt": 256, "new": 64},
        {"requests": 16, "prompt": 64, "new": 16},
    ),
    "few-shot": Program(
        few_shot,
        {"prefixes": 16, "prefix": 800, "questions": 320, "question": 60},
        {"prefixes": 6, "prefix": 200, "questions": 48, "question": 20},
        ("no prefix cache",),
    ),
    "few-shot, small pool": Program(
        few_shot,
        {"prefixes": 16, "prefix": 800, "questions": 320, "question": 60},
        {"prefixes": 6, "prefix": 200, "questions": 48, "question": 20},
        ("no prefix cache", "first come, first served"),
        (4_000, 800),
    ),
    "forks": Program(
        tree_of_thought,
        {"roots": 2, "prompt": 4000, "branches": (64, 1), "new": 48},
        {"roots": 1, "prompt": 700, "branches": (32, 1), "new": 12},
        ("no prefix cache", "no fork attention"),
    ),
    "chat": Program(
        chat,
        {"sessions": 32, "turns": 4, "message": 256, "new": 32},
        {"sessions": 6, "turns": 4, "message": 60, "new": 6},
        ("no prefix cache",),
    ),
    "JSON": Program(
        json_records,
        {"requests": 8, "prompt": 64, "new": 256},
        {"requests": 4, "prompt": 16, "new": 200},
        ("no jump-forward",),
    ),
}  # fmt: skip


def run() -> Report:
    return measure_all(list(OPTIONS), list(PROGRAMS))


def measure_all(
    options: Sequence[str],
    programs: Sequence[str],
    results: Results | None = None,
    repetitions: int = 3,
) -> Report:
    """Measure, and print each figure as it comes. The first and the last of `OPTIONS` should be
    among the options."""
    import torch

    from .ours import no_compiled_grammars

    gpu = torch.cuda.is_available()
    results = results or Results()
    source, tokenizer = _model(gpu)
    for option in options:
        if gpu or option not in GPU_ONLY:
            for pool in dict.fromkeys(PROGRAMS[name].pool for name in programs):
                group = [name for name in programs if PROGRAMS[name].pool == pool]
                with no_compiled_grammars():  # all options have the same schemas
                    _measure_group(results, option, group, source, tokenizer, gpu, repetitions)
    return make_table(results, gpu)


def _model(gpu: bool) -> tuple[Any, Any]:
    if not gpu:
        return "tiny", None
    from .model import random_model
    from .serving import make_tokenizer

    return random_model(LLAMA_8B, "cuda"), make_tokenizer(toy=False)


def _measure_group(
    results: Results,
    option: str,
    programs: Sequence[str],
    source: Any,
    tokenizer: Any,
    gpu: bool,
    repetitions: int,
) -> None:
    """Programs that want the same pool, on one engine."""
    from .ours import SgnbServer, await_kernels, sgnb

    pool = PROGRAMS[programs[0]].pool
    settings = dict(OPTIONS[option]) | ({"max_total_tokens": pool[not gpu]} if pool else {})
    with sgnb.Engine(source, tokenizer=tokenizer, **settings) as engine:
        await_kernels(engine)
        for name in programs:
            try:
                server = SgnbServer(engine)
                result = measure(
                    server, PROGRAMS[name].kind(gpu), engine.vocab_size, repetitions=repetitions
                )
            except Exception as error:
                print(f"{option}: {name}: failed: {type(error).__name__}: {error}", flush=True)
                continue
            results.add(option, sgnb.__version__, name, result)
            print(f"{option}: {name}: {result['seconds']} s", flush=True)


def make_table(results: Results, gpu: bool) -> Report:
    """Pure: seconds of every option over those of both runs with all on."""
    names = [
        name for name in PROGRAMS if name in results.systems.get(ALL_ON, {}).get("results", {})
    ]
    options = [option for option in OPTIONS if option in results.systems and option != ALL_ON]
    noise = NOISE[gpu]
    report = Report(
        f"Ablations ({'GPU' if gpu else 'CPU'}): times as long as with all on",
        ("program", "all on, s", *options),
        bar="a technique gains where it must, and loses no more than noise "
        f"({noise:.0%}) where it does not apply",
        note="The last column is the second run with all on over the first: the noise.",
    )
    good = []
    for name in names:
        base = _seconds(results, (ALL_ON, AGAIN), name)
        first = _seconds(results, (ALL_ON,), name)
        ratios = {
            option: _ratio(_seconds(results, (option,), name), first if option == AGAIN else base)
            for option in options
        }
        report.rows.append(
            (name, f"{base:.3f}", *(number_of_times(ratio) for ratio in ratios.values()))
        )
        for option, ratio in ratios.items():
            if ratio is not None and option not in (AGAIN, DETERMINISTIC):
                good.append(ratio > 1 if option in PROGRAMS[name].gains else ratio >= 1 - noise)
    report.met = all(good) if good else None
    return report


def _seconds(results: Results, options: Sequence[str], name: str) -> float | None:
    """The median of a program's runs with any of the options."""
    entries = [
        results.systems[option]["results"].get(name)
        for option in options
        if option in results.systems
    ]
    runs = [second for entry in entries if entry for second in entry["seconds"]]
    return statistics.median(runs) if runs else None


def _ratio(seconds: float | None, base: float | None) -> float | None:
    return seconds / base if seconds and base else None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.ablations", description=__doc__)
    parser.add_argument(
        "--only", help="what is off, with semicolons between: " + "; ".join(OPTIONS)
    )
    parser.add_argument("--programs", help="with semicolons between: " + "; ".join(PROGRAMS))
    parser.add_argument("--out", help="JSON file for the figures")
    parser.add_argument("--measured", nargs="*", default=[], help="JSON files of earlier runs")
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    options = arguments.only.split(";") if arguments.only else list(OPTIONS)
    programs = arguments.programs.split(";") if arguments.programs else list(PROGRAMS)
    for word, known in [(w, OPTIONS) for w in options] + [(w, PROGRAMS) for w in programs]:
        if word not in known:
            parser.error(f"no {word!r}; there are {'; '.join(known)}")
    results = Results(arguments.out)
    results.read(arguments.measured)
    print(measure_all(options, programs, results, arguments.repetitions).markdown(), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
