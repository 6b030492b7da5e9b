"""`python -m benchmarks.gpu.overhead`: what of a run is not the model's work.

Three tables' worth in one: the radix tree, the scheduler and the events as a share of a run without
any reuse, and a step of the scheduler with 100,000 cached sequences; the GPU's idle time between
decode steps and between their kernels, from a profiler's trace; and a decode step of 64 rows under
a regex against one without.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..common import Report, tokens
from .bookkeeping import Stopwatch, schedule_milliseconds
from .gaps import Idle, idle_share
from .shapes import LLAMA_8B, TOY

PARTS = ("share", "scheduler", "idle", "constrained")
FREE, MASKED, FORCED = "free", "under a regex", "under a regex that forces text"
REGEXES = {MASKED: r"[a-z ]{0,4000}", FORCED: r"([a-z]{1,9} ){0,600}"}
"""Some thousand states, so long that hardly a row comes to its end. The second forces a space after
nine letters."""


def run() -> Report:
    return measure_parts(PARTS)


def measure_parts(parts: Sequence[str], trace: str | None = None, **options: Any) -> Report:
    """trace: a folder for the profiler's traces. options: of the engine."""
    import torch

    report = Report(
        "Where the time goes",
        ("measure", "value", "bar", "met"),
        bar="the column `bar`",
    )
    if set(parts) - {"scheduler"}:
        with _engine(**options) as (engine, gpu):
            for name, function in (
                ("share", lambda: _share(report, engine, gpu)),
                ("idle", lambda: _idle(report, engine, trace)),
                ("constrained", lambda: _constrained(report, engine, gpu)),
            ):
                if name in parts and (gpu or name != "idle"):
                    function()
    if "scheduler" in parts:
        times = schedule_milliseconds()
        _add(report, "schedule() with 100,000 cached sequences, median", times.median, "ms", 1.0)
        _add(
            report,
            "schedule() with 100,000 cached sequences, worst of 200 steps",
            times.worst,
            "ms",
            None,
        )
    verdicts = [row[-1] for row in report.rows if row[-1]]
    if verdicts and torch.cuda.is_available():  # the bars are a GPU's
        report.met = all(verdict == "yes" for verdict in verdicts)
    return report


def _add(report: Report, name: str, value: float, unit: str, bar: float | None) -> None:
    """A row. bar: the most that is allowed."""
    shown = f"{value:.3%}" if unit == "%" else f"{value:.3f} {unit}"
    most = "" if bar is None else f"{bar:.1%}" if unit == "%" else f"{bar:g} {unit}"
    report.rows.append((name, shown, most, "" if bar is None else "yes" if value <= bar else "NO"))
    print(*report.rows[-1], flush=True)


@contextmanager
def _engine(**options: Any) -> Iterator[tuple[Any, bool]]:
    """An engine of 8B's shape with the large vocabulary on a GPU, of toy size on a CPU; and whether
    there is a GPU."""
    import torch

    import sgnb

    from .model import random_model
    from .ours import await_kernels
    from .serving import make_tokenizer

    gpu = torch.cuda.is_available()
    tokenizer = make_tokenizer(toy=not gpu)
    shape = LLAMA_8B if gpu else replace(TOY, vocab=len(tokenizer))
    model = random_model(shape, "cuda" if gpu else "cpu", "bfloat16" if gpu else "float32")
    with sgnb.Engine(model, tokenizer=tokenizer, **options) as engine:
        await_kernels(engine)
        yield engine, gpu


def _share(report: Report, engine: Any, gpu: bool) -> None:
    """Return requests without a common prefix, for a run without cache gains."""
    requests, prompt, new = (128, 512, 128) if gpu else (8, 32, 16)
    rng = random.Random(0)

    def go() -> float:
        prompts = [tokens(rng, prompt, engine.vocab_size) for _ in range(requests)]
        engine.flush_cache()
        began = time.perf_counter()
        engine.generate(prompts, temperature=0, max_new_tokens=new, ignore_eos=True)
        return time.perf_counter() - began

    go()
    go()
    with Stopwatch(engine) as watch:
        took = go()
    for name in ("tree and scheduler", "events"):
        _add(report, f"{name}: share of a run without reuse", watch.seconds[name] / took, "%", None)
    total = sum(watch.seconds.values()) / took
    _add(report, f"tree, scheduler and events, {requests} requests", total, "%", 0.003)


def _idle(report: Report, engine: Any, trace: str | None) -> None:
    for rows in (1, 64):
        idle = _traced(engine, rows, Path(trace) if trace else None)
        _add(report, f"GPU idle between decode steps, batch {rows}", idle.between, "%", 0.03)
        _add(
            report, f"GPU idle between the kernels of a step, batch {rows}", idle.within, "%", None
        )
        _add(report, f"GPU idle in all, batch {rows}", sum(idle), "%", None)


def _traced(engine: Any, rows: int, folder: Path | None, steps: int = 50) -> Idle:
    """Idle time in the middle of about `steps` decode steps of so many rows."""
    from torch.profiler import ProfilerActivity, profile

    rng = random.Random(rows)
    prompts = [tokens(rng, 128, engine.vocab_size) for _ in range(rows)]
    _decode(engine, prompts, 64, lambda count: None)
    reached = {number: threading.Event() for number in (30, 40 + steps)}

    def watch(count: int) -> None:
        for number, event in reached.items():
            if count >= number:
                event.set()

    worker = threading.Thread(target=_decode, args=(engine, prompts, 400, watch))
    worker.start()
    _await(reached[30])
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        _await(reached[40 + steps])
    worker.join()
    with tempfile.TemporaryDirectory() as spare:
        path = (folder or Path(spare)) / f"decode_{rows}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(str(path))
        return idle_share(path)


def _await(event: threading.Event) -> None:
    if not event.wait(60):
        raise TimeoutError("the engine made no tokens for a minute")


def _decode(engine: Any, prompts: list[list[int]], new: int, watch: Callable[[int], None]) -> None:
    """Generate; `watch` is told how many tokens the first row has, as they come."""
    from sgnb import SamplingParams

    done = threading.Semaphore(0)
    counts = [0]

    def first(output: Any) -> None:
        counts[0] = max(counts[0], len(output.token_ids))
        watch(counts[0])
        if output.finish_reason:
            done.release()

    def other(output: Any) -> None:
        if output.finish_reason:
            done.release()

    params = SamplingParams(temperature=0, max_new_tokens=new, ignore_eos=True)
    on_outputs = [first] + [other] * (len(prompts) - 1)
    # Only the first streams: it alone is to be watched.
    engine.submit(prompts[:1], [params], on_outputs[:1], stream=True)
    if len(prompts) > 1:
        engine.submit(prompts[1:], [params] * (len(prompts) - 1), on_outputs[1:])
    for _ in prompts:
        if not done.acquire(timeout=120):
            raise TimeoutError("the engine did not finish within two minutes")


def _constrained(report: Report, engine: Any, gpu: bool) -> None:
    """64 rows in turns: free, and with every row under a regex. The prompts are in the cache, so
    steps are decodes.

    Forced text makes fewer steps of more rows: there the time of a token is what can be compared.
    """
    rows, new, rounds = (64, 256, 5) if gpu else (4, 16, 2)
    rng = random.Random(1)
    prompts = [tokens(rng, 32, engine.vocab_size) for _ in range(rows)]
    options: dict[str, Any] = {"temperature": 0, "max_new_tokens": new}
    steps: dict[str, list[float]] = {name: [] for name in (FREE, *REGEXES)}
    each: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(rounds + 2):
        for name in steps:
            extra = {"regex": REGEXES[name]} if name in REGEXES else {"ignore_eos": True}
            before = engine.stats()["steps"]
            began = time.perf_counter()
            outputs = engine.generate(prompts, options | extra)
            took = time.perf_counter() - began
            made = sum(len(output.token_ids) for output in outputs)
            assert made > 0.95 * rows * new, f"{name}: rows came to their ends too early"
            if turn >= 2:
                steps[name].append(took / (engine.stats()["steps"] - before) * 1000)
                each[name].append(took / made)
    for name, times in steps.items():
        _add(report, f"step of {rows} rows, {name}", statistics.median(times), "ms", None)
    _add(report, "what a regex costs a step", _cost(steps, MASKED), "%", 0.03)
    _add(report, "what a regex that forces text costs a token", _cost(each, FORCED), "%", None)


def _cost(times: dict[str, list[float]], name: str) -> float:
    """The median over the turns."""
    return statistics.median(
        bound / free - 1 for bound, free in zip(times[name], times[FREE], strict=True)
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.overhead", description=__doc__)
    parser.add_argument("--only", help="parts, with commas between: " + ", ".join(PARTS))
    parser.add_argument("--trace", help="folder for the profiler's traces")
    arguments = parser.parse_args()
    parts = arguments.only.split(",") if arguments.only else list(PARTS)
    for part in parts:
        if part not in PARTS:
            parser.error(f"no part {part!r}; there are {', '.join(PARTS)}")
    print(measure_parts(parts, arguments.trace).markdown(), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
