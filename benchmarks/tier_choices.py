"""The choice of the engine between loading a stored prefix, computing it, and both at once: is the
chosen way within 15 % of the better one of loading and computing?

Random cases on two models: the bundled model, and a model with four times the bytes and fewer
operations per token. The stores are host memory, the disk, a disk slowed tenfold, and a disk about
as slow as computing. A case has a cached length, a tail, and other requests that decode meanwhile.
Each case runs once with the choice of the engine, then several turns of loading, of computing, and
of the chosen way, forced. A case is repeated while its turns lie on both sides of the bar: a busy
machine takes longer, but decides the same.
"""

from __future__ import annotations

import math
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from sgnb.benchmark.stats import in_turn, paired_ratios
from sgnb.engine import Engine
from sgnb.engine.cache.tiers import copies, load_plan
from sgnb.engine.cache.tiers.blocks import BLOCK
from sgnb.engine.cache.tiers.disk import DiskBlocks
from sgnb.engine.cache.tiers.load_plan import LoadPlanner
from sgnb.engine.cache.tiers.tier_costs import TierCosts
from sgnb.sampling import SamplingParams

from .common import Report, median_ratio, tokens

CASES = 200
LEAST_TURNS, MOST_TURNS = 2, 9
LENGTHS, TAILS, MOST_AROUND = (256, 1000), (1, 100), 2
WARM_UP = 3
"""Cases before the first counted case, and again after a change of the disk: the engine learns the
machine."""

SLOWER = 10
MOST_LOSS, LEAST_RIGHT = 1.15, 0.95
VOCAB = 1000
WIDE = {
    "vocab_size": VOCAB, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
    "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 64,
    "max_position_embeddings": 8192,
}  # fmt: skip
SINGLE = ("load", "compute")
STORES = ("host", "disk", f"disk, {SLOWER} times slower", "disk as slow as computing")


class Case(NamedTuple):
    """Measured case."""

    tokens: int
    chosen: str  # "load", "compute" or "both"
    times: dict[str, list[float]]  # seconds of each turn, by way

    @property
    def ratio(self) -> float:
        """Seconds of loading over seconds of computing."""
        return median_ratio(self.times["load"], self.times["compute"])

    @property
    def gain(self) -> float:
        """Seconds of the chosen way over seconds of the better one of loading and computing."""
        return max(median_ratio(self.times[self.chosen], self.times[way]) for way in SINGLE)

    @property
    def loss(self) -> float:
        return max(1.0, self.gain)

    @property
    def turns(self) -> int:
        return len(self.times["load"])

    @property
    def is_clear(self) -> bool:
        """True if all turns agree whether the loss is below the bar."""
        ratios = (paired_ratios(self.times[self.chosen], self.times[way]) for way in SINGLE)
        return all(len({ratio > MOST_LOSS for ratio in each}) == 1 for each in ratios)


class SlowDisk:
    """Lets reads of files take longer, per byte, one after another like one disk."""

    def __init__(self) -> None:
        self.seconds_per_byte = 0.0
        self._lock, self._read = threading.Lock(), DiskBlocks._read

    @contextmanager
    def installed(self) -> Iterator[SlowDisk]:
        def read(store: Any, key: bytes, parent: bytes, ids: Any, data: Any) -> bool:
            if self.seconds_per_byte:
                with self._lock:
                    time.sleep(self.seconds_per_byte * data.nbytes)
            return self._read(store, key, parent, ids, data)

        DiskBlocks._read = read  # type: ignore[method-assign]
        try:
            yield self
        finally:
            DiskBlocks._read = self._read  # type: ignore[method-assign]


class Bench:
    """An engine with one store, whose choice can be forced."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self.engine, self.rng = engine, random.Random(seed)
        self.tiers: Any = engine._loop.tiers.tiers
        self._plans = {
            "free": self.tiers._planner.plan, "compute": lambda *args: None,
            "load": self._load, "both": self._both,
        }  # fmt: skip

    def store(self, prompt: list[int]) -> None:
        """Compute a prompt, and wait for its copy."""
        self.engine.generate(prompt, max_tokens=1, temperature=0)
        keys = self.tiers.prefixes.read(self._array(prompt)).keys[1 : len(prompt) // BLOCK + 1]
        store = self.tiers.prefixes.stores.blocks[0]
        end = time.monotonic() + 30
        while not all(map(store.holds, keys)):
            self.engine._loop.call(self.tiers.copies.write_idle)
            assert time.monotonic() < end, "the prompt was not copied"
            time.sleep(0.01)

    def seconds(self, prompt: list[int], around: int, way: str) -> tuple[float, str]:
        """Return the seconds to the first token, and the way. way: "free" for the engine's."""
        plans: list[Any] = []

        def plan(*args: Any) -> Any:
            plans.append(self._plans[way](*args))
            return plans[-1]

        self.tiers._planner.plan = plan
        self.engine._loop.call(self.engine._cache.flush)
        others = self._start(around)
        began = time.perf_counter()
        try:
            self.engine.generate(prompt, max_tokens=1, temperature=0)
        finally:
            seconds = time.perf_counter() - began
            self.engine.abort(others)
        [plan_used] = [each for each in plans if each is not None] or [None]
        taken = "compute" if plan_used is None else "both" if plan_used.meeting else "load"
        return seconds, taken

    def case(self) -> Case:
        rng = self.rng
        length, tail = rng.randint(*LENGTHS), rng.randint(*TAILS)
        around = rng.randint(0, MOST_AROUND)
        prefix = tokens(rng, length, VOCAB)
        self.store(prefix)
        prompt = prefix + tokens(rng, tail, VOCAB)
        _, chosen = self.seconds(prompt, around, "free")
        case = Case(length, chosen, {way: [] for way in sorted({*SINGLE, chosen})})
        while case.turns < LEAST_TURNS or (case.turns < MOST_TURNS and not case.is_clear):
            for way in in_turn(list(case.times), case.turns):
                seconds, taken = self.seconds(prompt, around, way)
                assert taken == way, f"{way} of {length} tokens was not possible"
                case.times[way].append(seconds)
        return case

    def _load(self, *args: Any) -> Any:
        """Plan as if loads took no time."""
        planner, costs = self.tiers._planner, self.tiers.costs
        planner._costs = _NoTime()
        try:
            plan = LoadPlanner.plan(planner, *args[:4])
        finally:
            planner._costs = costs
        return plan

    def _both(self, *args: Any) -> Any:
        """Plan as if both at once always were the fastest way."""
        bound, load_plan.MOST_OF_BOTH = load_plan.MOST_OF_BOTH, math.inf
        try:
            return LoadPlanner.plan(self.tiers._planner, *args)
        finally:
            load_plan.MOST_OF_BOTH = bound

    def _start(self, count: int) -> list[int]:
        """Start requests that decode until they are aborted."""
        if not count:
            return []
        params = [SamplingParams(max_new_tokens=2000, ignore_eos=True)] * count
        prompts = [tokens(self.rng, 30, VOCAB) for _ in range(count)]
        ids = self.engine.submit(prompts, params, [lambda output: None] * count)
        while self.engine.stats()["running"] < count:
            time.sleep(0.001)
        return ids

    @staticmethod
    def _array(ids: list[int]) -> Any:
        import numpy as np

        return np.array(ids, np.int32)


class _NoTime(TierCosts):
    """Costs with which each load pays."""

    knows_steps = True

    def compute_seconds(self, begin: int, end: int) -> float:
        return float(end - begin)

    def load_seconds(self, store: str, num_bytes: int) -> float:
        return 0.0


def wide_model() -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**WIDE)).eval()


def measure(model: str, store: str, count: int) -> list[Case]:
    """Return the cases of one model and one store."""
    source: Any = "tiny" if model == "bundled" else wide_model()
    slow = SlowDisk()
    with tempfile.TemporaryDirectory() as folder, slow.installed():
        options: dict[str, Any] = {"disk_cache": f"{folder}/kv"}
        if store == "host":
            options = {"disk_cache": False, "host_cache": 4}
        with Engine(source, max_total_tokens=8192, **options) as engine:
            bench = Bench(engine, seed=STORES.index(store))
            cases = [bench.case() for _ in range(WARM_UP)]
            unit_bytes = bench.tiers._transfer.unit_bytes
            if store == STORES[2]:
                size = LENGTHS[1] * unit_bytes
                slow.seconds_per_byte = (
                    (SLOWER - 1) * bench.tiers.costs.load_seconds("disk", size) / size
                )
            elif store == STORES[3]:
                slow.seconds_per_byte = statistics.median(map(saved_seconds, cases)) / unit_bytes
            for _ in range(WARM_UP if slow.seconds_per_byte else 0):
                bench.case()
            return [bench.case() for _ in range(count)]


def saved_seconds(case: Case) -> float:
    """Return the seconds per token that loading saves."""
    load, compute = (statistics.median(case.times[way]) for way in SINGLE)
    return max(0.0, compute - load) / case.tokens


def run() -> Report:
    report = Report(
        f"Loading or computing a stored prefix, {CASES} random cases",
        (
            "model", "store", "cases", "loads chosen", "both chosen", "load over compute, median",
            "within 15 %", "most", "both over the better way, median", "repeated",
        ),
        bar=f"the chosen way takes at most {MOST_LOSS} of the better one in {LEAST_RIGHT:.0%}",
    )  # fmt: skip
    pairs = [(model, store) for model in ("bundled", "wide") for store in STORES]
    right, patched = 0, copies.DISK_SECONDS
    copies.DISK_SECONDS = 0.0  # all prefixes are copied at the first use
    try:
        for i, (model, store) in enumerate(pairs):
            count = CASES * (i + 1) // len(pairs) - CASES * i // len(pairs)
            cases = measure(model, store, count)
            good = sum(case.loss <= MOST_LOSS for case in cases)
            right += good
            ratio = statistics.median(case.ratio for case in cases)
            loads = sum(case.chosen == "load" for case in cases)
            both = [case.gain for case in cases if case.chosen == "both"]
            gain = f"{statistics.median(both):.2f}" if both else ""
            worst = f"{max(case.loss for case in cases):.2f}"
            repeated = sum(case.turns > LEAST_TURNS for case in cases)
            report.rows.append(
                (model, store, count, loads, len(both), f"{ratio:.2f}", good, worst, gain, repeated)
            )
            print(report.rows[-1], flush=True)
    finally:
        copies.DISK_SECONDS = patched
    report.met = right >= LEAST_RIGHT * CASES
    report.note = (
        f"{right} of {CASES}. Median ratios of {LEAST_TURNS} turns of each way; of up to"
        f" {MOST_TURNS} turns in repeated cases, where the turns lie on both sides of {MOST_LOSS}."
    )
    return report
