"""Time on the host, per step, of the engine's whole loop: scheduler, tree, grammars, texts, events.
Without a model.

The model is replaced by tokens that are there at once, as if the device took no time; steps overlap
as on a GPU. What the attention plans and what a launch costs is not in it. Times are of the engine
thread's own processor time, with Python's garbage collector, for which all that was made before is
put aside, as an engine on a GPU does.

The last table is of a device that takes time, and of launches that do: how much of a workload it
has nothing to do.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import compress
from operator import itemgetter
from typing import NamedTuple

import torch

from sgnb.engine.cache.manager import CacheManager
from sgnb.engine.cache.slot_allocator import SlotAllocator
from sgnb.engine.device.memory import freeze_heap, release_device_memory
from sgnb.engine.loop import EngineLoop
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.request import Request
from sgnb.engine.request.request_state import RequestState
from sgnb.engine.request.tokenizer import Tokenizer
from sgnb.engine.sampling.results import StepResults, sampled_results
from sgnb.engine.sampling.torch_sampler import SamplerOutput
from sgnb.engine.scheduler import Scheduler
from sgnb.events import EventLog
from sgnb.grammar.automaton.automaton import Automaton
from sgnb.grammar.compiler import GrammarCompiler
from sgnb.sampling import SamplingParams

from .common import Report, tokens
from .gpu.model import random_model
from .gpu.ours import SgnbServer, sgnb
from .gpu.playing import play
from .gpu.serving import make_tokenizer
from .gpu.shapes import TOY
from .gpu.workloads import BASIC
from .simulated_gpu import SimulatedGpu, Times

VOCAB = 128_000
REGEX = r"([a-z]{1,9} ){0,600}"
"""Some 6,000 states, of which one in ten may be the last."""


class Player:
    """In place of a runner: chooses tokens without a model. A request with a grammar gets single
    bytes that it allows.

    seconds: what this took, by the thread's own processor time. steps: how many there were. gpu:
    where the tokens come from in their time; without one they are there at once.
    """

    stream = nullcontext()

    def __init__(self, tokenizer: Tokenizer | None, gpu: SimulatedGpu | None = None) -> None:
        self.sampler = self
        self._gpu = gpu
        self._states: dict[int, int] = {}
        self._tokenizer = tokenizer
        self.seconds, self.steps = 0.0, 0

    def acquire(self, automaton: Automaton, stop_tokens: Collection[int]) -> int:
        return 0

    def release(self, offset: int | None = None) -> None:
        pass

    def run(self, batch: Batch) -> StepResults:
        began = time.thread_time()
        requests = list(compress(batch.requests, batch.samples))
        tokens = torch.tensor([self._token(request) for request in requests])
        ones = torch.ones(len(requests))
        sampled = SamplerOutput(tokens, -ones, -ones, ones.int())
        if self._gpu is None:
            result = sampled_results(sampled)
        else:
            graph = batch.num_tokens <= ROWS and all(batch.samples)
            graph = graph and batch.num_short == len(batch)
            wait = self._gpu.launch(batch.num_tokens, graph)
            result = StepResults(sampled, wait, {})
        self.steps += 1
        self.seconds += time.thread_time() - began
        return result

    def _token(self, request: Request) -> int:
        state = request.state
        if state.grammar is None or self._tokenizer is None:
            return 7
        automaton = state.grammar.result().compiled.automaton
        assert automaton is not None and state.constraint is not None
        place = self._states.get(request.id, state.constraint.state)
        byte = automaton.next_bytes(place)[:1]
        self._states[request.id] = automaton.step(place, byte)
        (token,) = self._tokenizer.write(byte)
        return token


class Bench:
    """A loop with a player. `play` runs requests to their ends."""

    def __init__(self, tokenizer: Tokenizer | None = None, player: Player | None = None) -> None:
        self.log = EventLog()
        self.player = player or Player(tokenizer)
        scheduler = Scheduler(
            CacheManager(SlotAllocator(3_000_000), emit=self.log.emit), context_length=8192,
            max_step_tokens=8192, max_running=ROWS, emit=self.log.emit,
        )  # fmt: skip
        self._tokenizer = tokenizer
        self._loop = EngineLoop(scheduler, self.player, tokenizer, self.log, overlap=True)  # type: ignore[arg-type]
        self._loop.start()
        self._grammars = GrammarCompiler(lambda: tokenizer.vocabulary) if tokenizer else None
        self._count = 0
        freeze_heap()

    def play(self, prompts: list[list[int]], params: SamplingParams) -> tuple[float, int]:
        """Seconds of the loop's thread without the player's, and steps."""
        grammar = (
            self._grammars.compile(params.grammar) if self._grammars and params.grammar else None
        )
        if grammar is not None:
            grammar.result()
        done = threading.Semaphore(0)
        states = []
        for prompt in prompts:
            self._count += 1
            request = Request(self._count, prompt, params, params.max_new_tokens)
            states.append(
                RequestState(
                    request, self._tokenizer, frozenset(), lambda _: done.release(), grammar=grammar
                )
            )
        before = self._clock()
        self._loop.submit(states)
        for _ in prompts:
            done.acquire()
        after = self._clock()
        return after[0] - before[0], after[1] - before[1]

    def _clock(self) -> tuple[float, int]:
        now: tuple[float, int] = self._loop.call(
            lambda: (time.thread_time() - self.player.seconds, self.player.steps)
        )
        return now

    def close(self) -> None:
        self._loop.close()
        if self._grammars is not None:
            self._grammars.close()
        release_device_memory()


class Case(NamedTuple):
    name: str
    rows: int
    new: int
    regex: str | None = None


CASES = (
    Case("1 row", 1, 512),
    Case("64 rows", 64, 256),
    Case("64 rows with a regex", 64, 256, REGEX),
    Case("256 rows", 256, 128),
    Case("1,024 rows", 1024, 64),
)


WORKLOADS = ("tree of thought", "few-shot", "chat", "batch 256")
"""Of `benchmarks.gpu.workloads`, at the sizes for a GPU."""
WORKLOAD_VOCAB = 1000
ROWS = 1024
"""Requests of a step in the workloads, and rows of the largest graph."""

GAP = 0.001
"""Seconds; a longer one is told."""
LONGEST = 8
"""So many of them are named."""


def run() -> list[Report]:
    return [_loop(), _workloads(), _idle()]


def _loop() -> Report:
    columns = ("case", "us a step", "us a row and step")
    report = Report("Host time of the engine's loop", columns)
    tokenizer = Tokenizer(make_tokenizer(toy=False))
    rng = random.Random(0)
    times: dict[str, float] = {}
    for case in CASES:
        bench = Bench(tokenizer)
        params = SamplingParams(max_new_tokens=case.new, ignore_eos=True, regex=case.regex)
        for _ in range(3):
            prompts = [tokens(rng, 32, VOCAB) for _ in range(case.rows)]
            took, steps = bench.play(prompts, params)
        bench.close()
        times[case.name] = 1e6 * took / steps
        report.rows.append(
            (case.name, f"{times[case.name]:,.0f}", f"{times[case.name] / case.rows:,.1f}")
        )
    ends = 1e6 * _borders(rng) / 1024
    report.rows.append(("1,024 requests of one token begin and end", "", f"{ends:,.1f}"))
    return report


def _workloads() -> Report:
    """Submitting, the loop and reading, in all threads. What a GPU does meanwhile hides most of
    it."""
    report = Report(
        "Host time of whole workloads, with a model that takes none",
        ("workload", "requests", "steps", "processor time, s", "of it the engine's thread"),
        note="The fastest of three.",
    )
    player = Player(None)
    with _served(player) as server:
        for name in WORKLOADS:
            runs = [_play(server, player, name, seed) for seed in range(3)]
            report.rows.append((name, *min(runs, key=itemgetter(2))))
    return report


@contextmanager
def _served(player: Player) -> Iterator[SgnbServer]:
    """An engine with the player in place of its runner."""
    model = random_model(replace(TOY, vocab=WORKLOAD_VOCAB), "cpu", "float32")
    options = {"max_total_tokens": 400_000, "max_running_requests": ROWS, "max_step_tokens": 8192}
    with sgnb.Engine(
        model, tokenizer=None, device="cpu", overlap=True, context_length=8192, **options
    ) as engine:
        engine._loop.call(lambda: setattr(engine._loop, "_runner", player))
        yield SgnbServer(engine)


def _play(server: SgnbServer, player: Player, name: str, seed: int) -> tuple[int, int, str, str]:
    """Requests, steps, and seconds of all threads and of the engine's, without the player's."""
    loop, workload = server.engine._loop, BASIC[name].make(seed, WORKLOAD_VOCAB)
    server.flush()

    def clock() -> tuple[float, float, int]:
        own = player.seconds
        return time.process_time() - own, loop.call(time.thread_time) - own, player.steps

    before = clock()
    play(server, workload)
    everywhere, thread, steps = (now - then for now, then in zip(clock(), before, strict=True))
    return len(workload.calls), int(steps), f"{everywhere:.2f}", f"{thread:.2f}"


def _idle() -> Report:
    report = Report(
        "Idle time of a simulated GPU",
        (
            "workload",
            "seconds",
            "of them busy",
            "idle",
            "steps",
            f"gaps above {1000 * GAP:.0f} ms",
            "the longest, ms",
        ),
        note="The median of three, by the seconds. A gap is before a step; borders between levels "
        "are the long ones.",
    )
    gpu = SimulatedGpu()
    with _served(Player(None, gpu)) as server:
        for name in WORKLOADS:
            runs = []
            for seed in range(3):
                workload = BASIC[name].make(seed, WORKLOAD_VOCAB)
                server.flush()
                gpu.restart()
                play(server, workload)
                runs.append(gpu.times)
            report.rows.append((name, *_described(sorted(runs)[1])))
    return report


def _described(times: Times) -> tuple[str, ...]:
    long = sorted((gap for gap in times.gaps if gap > GAP), reverse=True)
    return (
        f"{times.total:.2f}",
        f"{times.busy:.2f}",
        f"{1 - times.busy / times.total:.1%}",
        f"{len(times.gaps)}",
        f"{len(long)}, {sum(long):.2f} s",
        ", ".join(f"{1000 * gap:.0f}" for gap in long[:LONGEST]),
    )


def _borders(rng: random.Random) -> float:
    """Return the seconds for starting and ending as many requests as fit, with a common cached
    prompt."""
    bench = Bench()
    prompt = tokens(rng, 1000, VOCAB)
    params = SamplingParams(max_new_tokens=2, ignore_eos=True)
    took = 0.0
    for _ in range(3):
        took, _ = bench.play([prompt + tokens(rng, 20, VOCAB) for _ in range(1024)], params)
    bench.close()
    return took
