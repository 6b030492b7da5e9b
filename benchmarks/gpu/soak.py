"""`python -m benchmarks.gpu.soak --minutes 10`: random programs under memory pressure, with checks
all the while.

Programs run in several threads on a small random model whose pool is much too small for them. Every
few seconds: no error; free + cached + in flight = the pool; a fixed probe gives the same tokens as
at the beginning, alone and under load; the GPU's memory has not grown since the warm-up. Now and
then the programs rest, and nothing may be left over.
"""

from __future__ import annotations

import argparse
import gc
import random
import threading
import time
import traceback
import weakref
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from sgnb.errors import OptionError

from ..common import Report, tokens
from .memory_cycle import memory
from .shapes import LLAMA_8B

SHAPE = replace(
    LLAMA_8B,
    hidden=512,
    intermediate=1376,
    layers=4,
    heads=8,
    kv_heads=2,
    head_dim=64,
    positions=4096,
)
GROWTH_MB = 50
PROBE_PROMPT, PROBE_NEW = 150, 48


@dataclass
class Sizes:
    """pool, longest_prompt, longest_output: tokens. rest: seconds from one rest of all programs to
    the next."""

    threads: int = 12
    pool: int = 12_000
    longest_prompt: int = 3000
    longest_output: int = 200
    interval: float = 3.0
    rest: float = 45.0
    warm_up: float = 60.0


TOY_SIZES = Sizes(
    threads=4, pool=360, longest_prompt=160, longest_output=60, interval=0.5, rest=2.0, warm_up=2.0
)


@dataclass
class Findings:
    """What was seen. faults: what must not be."""

    programs: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    probes: int = 0
    rests: int = 0
    growth_mb: float = 0.0
    stats: dict[str, Any] = field(default_factory=dict)
    retractions: int = 0

    def line(self, seconds: float) -> str:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(self.programs.items()))
        stats = self.stats
        return (
            f"SOAK {'FAILED' if self.faults else 'ok'}: {seconds:.0f} s, {self.programs.total()} "
            f"programs ({counts}), {stats['requests']} requests, {stats['steps']} steps, "
            f"{stats['output_tokens']} output tokens, {self.retractions} retractions, "
            f"{self.probes} probes the same, {self.rests} rests, memory {self.growth_mb:+.0f} MB, "
            f"faults: {self.faults or 'none'}"
        )


class Gate:
    """Lets programs in, or waits until none is inside."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._inside = 0
        self._open = True
        self.closing = False

    def enter(self) -> bool:
        """Wait until programs may run; False when they may never again."""
        with self._change:
            self._change.wait_for(lambda: self._open or self.closing)
            self._inside += not self.closing
            return not self.closing

    def leave(self) -> None:
        with self._change:
            self._inside -= 1
            self._change.notify_all()

    def shut(self, timeout: float = 180) -> bool:
        """Let no one in and wait until nobody is inside; False when somebody stays longer than
        `timeout` seconds."""
        with self._change:
            self._open = False
            return self._change.wait_for(lambda: self._inside == 0, timeout)

    def open(self) -> None:
        with self._change:
            self._open = True
            self._change.notify_all()

    def close(self) -> None:
        with self._change:
            self.closing = True
            self._change.notify_all()


class Soak:
    """One run. seed: of the programs; the model's weights are always the same."""

    def __init__(self, engine: Any, sizes: Sizes, seed: int = 0) -> None:
        from .soak_programs import Programs

        self._engine, self._sizes, self._seed = engine, sizes, seed
        self._programs = Programs(engine, sizes.longest_prompt, sizes.longest_output)
        self._gate = Gate()
        self._lock = threading.Lock()
        self.findings = Findings()
        length = min(PROBE_PROMPT, sizes.pool // 4)
        self._probe = tokens(random.Random(1), length, engine.vocab_size)
        self._others = weakref.WeakSet(_requests())
        self._expected = self._ask()
        self._base: float | None = None
        self._seen = 0

    def run(self, seconds: float) -> Findings:
        began = time.perf_counter()
        workers = [
            threading.Thread(target=self._work, args=(i,), daemon=True)
            for i in range(self._sizes.threads)
        ]
        for worker in workers:
            worker.start()
        rested = began
        while (now := time.perf_counter()) - began < seconds and not self._engine.closed:
            time.sleep(self._sizes.interval)
            self._check("under load")
            if now - rested > self._sizes.rest:
                self._rest(now - began)
                rested = time.perf_counter()
        self._rest(time.perf_counter() - began)
        self._gate.close()
        for worker in workers:
            worker.join(60)
        return self.findings

    def _work(self, number: int) -> None:
        rng = random.Random(1000 * self._seed + number)
        while self._gate.enter():
            try:
                kind = self._programs.run(rng)
                with self._lock:
                    self.findings.programs[kind] += 1
            except Exception as error:
                traceback.print_exc()
                self._fault(f"{type(error).__name__}: {error}")
                time.sleep(0.5)
            finally:
                self._gate.leave()

    def _fault(self, text: str) -> None:
        """At most twenty are kept."""
        print("fault:", text, flush=True)
        with self._lock:
            if len(self.findings.faults) < 20:
                self.findings.faults.append(text[:300])

    def _ask(self) -> list[int]:
        output = self._engine.generate(
            self._probe, temperature=0, max_new_tokens=PROBE_NEW, ignore_eos=True
        )
        ids: list[int] = output.token_ids
        return ids

    def _check(self, when: str) -> None:
        """The probe and the pool."""
        try:
            found = self._ask()
            self.findings.stats = stats = self._engine.stats()
        except Exception as error:
            self._fault(f"{when}: {type(error).__name__}: {error}")
            return
        if found == self._expected:
            self.findings.probes += 1
        else:
            place = next(
                i for i, (a, b) in enumerate(zip(found, self._expected, strict=False)) if a != b
            )
            self._fault(f"{when}: the probe differs from token {place} on")
        if stats["free"] + stats["cached"] + stats["in_flight"] != stats["pool_tokens"]:
            self._fault(f"{when}: the pool does not add up: {stats}")
        self._count_retractions()

    def _rest(self, elapsed: float) -> None:
        """All programs end, and nothing may be left; then they go on."""
        if not self._gate.shut():
            self._fault("a program did not end within three minutes")
        self._settle()
        stats = self._engine.stats()
        left = {name: stats[name] for name in ("waiting", "running", "in_flight") if stats[name]}
        if left:
            self._fault(f"at rest: left over: {left}")
        alive = self._live_requests()
        if alive:
            self._fault(f"at rest: {alive} requests are still in memory")
        self._engine.flush_cache()
        self._check("at rest")
        if self._engine.flush_cache() == 0:
            self._fault("at rest: the probe left nothing in the cache")
        self._weigh(elapsed)
        self.findings.rests += 1
        print(f"{elapsed:.0f} s: {self.findings.programs.total()} programs, {memory()}", flush=True)
        self._gate.open()

    def _settle(self) -> None:
        """Streams that were left are aborted by commands on the way; an engine one step ahead reads
        its last one."""
        for _ in range(100):
            stats = self._engine.stats()
            if not (stats["running"] or stats["waiting"]):
                break
            time.sleep(0.05)

    def _live_requests(self) -> int:
        """Requests in memory that came since the beginning. The engine's thread may hold the last
        one a moment."""
        for _ in range(4):
            alive = sum(request not in self._others for request in _requests())
            if not alive:
                break
            time.sleep(0.2)
        return alive

    def _weigh(self, elapsed: float) -> None:
        """What torch keeps for later is not in use: it is given back first."""
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        now = memory()
        used = now.used or now.host
        if elapsed < self._sizes.warm_up:
            return
        if self._base is None:
            self._base = used
        self.findings.growth_mb = used - self._base
        if now.used and self.findings.growth_mb > GROWTH_MB:
            self._fault(f"the GPU's memory has grown by {self.findings.growth_mb:.0f} MB")

    def _count_retractions(self) -> None:
        from sgnb.events import RequestRetracted

        read = self._engine.log.read(self._seen)
        if read.records:
            self._seen = read.records[-1].seq
        self.findings.retractions += sum(
            isinstance(record.event, RequestRetracted) for record in read.records
        )


def _requests() -> list[Any]:
    """All request objects of this process."""
    from sgnb.engine.request.request import Request

    gc.collect()
    return [thing for thing in gc.get_objects() if type(thing) is Request]


def soak(seconds: float, sizes: Sizes, seed: int = 0, **options: Any) -> tuple[Findings, float]:
    """Make the model and the engine, and run. Float32 unless said: equal tokens are then a fair
    demand.

    options: of the engine, put over those of the soak. Returns the findings and the seconds it ran.
    """
    import torch
    from transformers import AutoTokenizer

    import sgnb
    from sgnb import models

    from .model import random_model

    tokenizer = AutoTokenizer.from_pretrained(models.path("tiny"))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = random_model(replace(SHAPE, vocab=len(tokenizer)), device, "float32", scale=0.08)
    settings: dict[str, Any] = {
        "dtype": "float32",
        "max_total_tokens": sizes.pool,
        "max_step_tokens": 1024,
    }
    with sgnb.Engine(model, tokenizer=tokenizer, device=device, **(settings | options)) as engine:
        began = time.perf_counter()
        findings = Soak(engine, sizes, seed).run(seconds)
        return findings, time.perf_counter() - began


def run() -> Report:
    """A minute of it."""
    findings, seconds = soak(60, Sizes(rest=15.0, warm_up=20.0))
    report = Report(
        "Soak", ("seconds", "programs", "requests", "steps", "probes the same", "faults")
    )
    stats = findings.stats
    report.rows.append(
        (f"{seconds:.0f}", findings.programs.total(), stats["requests"], stats["steps"],
         findings.probes, "; ".join(findings.faults) or "none")
    )  # fmt: skip
    report.bar, report.met = "no fault", not findings.faults
    growth = f"{findings.growth_mb:+.0f} MB"
    report.note = f"{findings.retractions} retractions; memory {growth} after the warm-up."
    return report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--toy", action="store_true", help="few threads and a small pool")
    parser.add_argument(
        "--deterministic", action="store_true", help="the engine's option, in bfloat16"
    )
    arguments = parser.parse_args()
    options: dict[str, Any] = (
        {"deterministic": True, "dtype": "bfloat16"} if arguments.deterministic else {}
    )
    sizes = TOY_SIZES if arguments.toy else Sizes()
    try:
        findings, seconds = soak(arguments.minutes * 60, sizes, arguments.seed, **options)
    except OptionError as error:
        parser.error(str(error))
    print(findings.line(seconds), flush=True)
    return int(bool(findings.faults))


if __name__ == "__main__":
    raise SystemExit(main())
