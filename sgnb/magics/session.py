"""What the magics and their Python twins share: engines, runs, the cache, and what runs in the
background. `SESSION` is the one session of this process. Knows no shell.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import lang
from ..benchmark import ROUNDS as ROUNDS_OF_BENCH
from ..benchmark import TECHNIQUES, Workload
from ..benchmark.paper import NAMES, workloads
from ..benchmark.runner import Clock
from ..benchmark.stats import rounds_needed
from ..benchmark.work import Same
from ..benchmark.workload import ONE_ROW
from ..errors import OptionError, nearest, shown
from ..events import RequestQueued, TokensNamed
from ..lang.executor import Executor, executor_of
from ..lang.runnable import Runnable
from ..viz import ABLATIONS, VIEWS, Display, Trace
from ..viz.state.cache_miss import difference, lookups
from ..viz.state.tokens import Vocabulary
from .bench import BenchReport, benchmark, claims
from .compare import ROUNDS, CompareReport, compare
from .dry import DryReport, dry_run
from .engines import BUNDLED, Engines
from .fsm import FsmReport, fsm
from .runs import Background, Runs
from .table import Facts, Table
from .traces import Traces
from .why import WhyReport

if TYPE_CHECKING:
    from ..engine import Engine
    from ..engine.cache.manual import Evicted


class Session:
    """`say` prints one line for a person."""

    def __init__(self, say: Callable[[str], None] = print) -> None:
        self.say = say
        self.engines = Engines(lambda executor: self.runs.running(executor), say)
        self.runs = Runs(self.engines.name_of)
        self.traces = Traces(lambda: self.engines.backend().emitter)
        self.cache = Cache(self.engines)
        self.dashboard = EngineView(self.engines, VIEWS)
        self._background: dict[str, Background] = {}

    def load(self, model: Any = BUNDLED, name: str = "", **options: Any) -> Engine:
        """Load a model and make its engine current.

        model: a folder, a hub id, or "tiny", the bundled one. name: the engine's, by default the
        last part of the path; an engine that has it already is closed first, but the same model
        with the same options stays as it is. options: see `EngineOptions`.

        Raises ModelError, OptionError.
        """
        return self.engines.load(model, name, **options)

    def unload(self, name: str = "") -> None:
        """Close the engine `name`, by default the current one, and give its memory back."""
        self.engines.unload(name)

    def flush_cache(self, backend: Any = None) -> int:
        """Forget cached prefixes that no run uses, those of the engine or executor `backend`, by
        default of the current one. Returns the tokens freed."""
        return self.cache.flush() if backend is None else executor_of(backend).flush_cache()

    def get_server_info(self, backend: Any = None) -> dict[str, Any]:
        """What the engine or executor `backend`, by default the current one, says about itself: its
        model, its limits, its counts."""
        executor = self.engines.backend().executor if backend is None else executor_of(backend)
        return executor.server_info()

    def stop(self, run: str = "all") -> list[str]:
        """Stop the run of the id `run`, or all, at the next token. Returns the ids of those that
        were running."""
        return self.runs.stop(run)

    def trace(self, run: str = "last") -> Trace:
        """What a run did, of the last one or of that id: its views without an engine, its text, a
        file (`save`: .html, .jsonl, or .json for Perfetto). `traces.on()` records all runs."""
        return self.traces(run)

    def open_trace(self, path: str | Path) -> Trace:
        """Read the trace that was saved at `path` as .jsonl. It needs no engine."""
        return Trace.open(path)

    def fsm(self, pattern_or_schema: Any, tokens: bool = False) -> FsmReport:
        """The automaton of a constraint, before anything runs.

        pattern_or_schema: a regex, or a JSON schema as JSON text, a dict or a type. tokens: with
        the tokens that may follow where there is a choice, by the current engine.

        Raises GrammarError.
        """
        tokenizer = self.engines.get().engine.tokenizer if tokens else None
        if tokens and tokenizer is None:
            hint = "leave it out, or load another model"
            raise OptionError("tokens=True needs an engine with a tokenizer", hint)
        return fsm(pattern_or_schema, tokenizer)

    def dry(self, program: Any, /, *args: Any, **kwargs: Any) -> DryReport:
        """What running a program so would ask of the current engine. Generates nothing."""
        if isinstance(program, Runnable):
            return dry_run(program, self.engines.get().engine, args, kwargs)
        if not hasattr(program, "dry"):
            hint = "give what @sgnb.function made, or a cell's name"
            raise OptionError(f"{program!r} is no program", hint)
        report: DryReport = program.dry(*args, **kwargs)
        return report

    def compare(
        self,
        program: Any,
        /,
        *args: Any,
        vs: Sequence[str] = tuple(ABLATIONS),
        over: Any = None,
        rounds: int = ROUNDS,
        **kwargs: Any,
    ) -> CompareReport:
        """A program beside itself without a technique, on the current engine: `%%sglang --vs`.

        vs: "nocache" (no prefix cache), "nojump" (no jump-forward), "nofork" (no fork-aware
        attention). over: a batch, as `run_batch` takes it. rounds: measured runs of each. The runs
        begin with what the cache holds of the program's prompts, in turns, after one that is not
        measured, and leave the cache as it is. Code of the program that does things, such as a
        tool, does them in every run. A program that it starts by `run` is not part of it.
        """
        for name in vs:
            if name not in ABLATIONS:
                raise OptionError(f"there is no variant {name!r}", nearest(name, ABLATIONS))

        def work(executor: Executor) -> Any:
            if over is None:
                return program.run(*args, backend=executor, **kwargs)
            return program.run_batch(over, backend=executor, **kwargs)

        report = compare(self.engines.get(), work, vs, rounds)
        self.traces.keep(report.rows[0]["run"], report.feed)
        return report

    def bench(
        self,
        program: Any,
        rows: Any = ONE_ROW,
        against: Sequence[Any] | None = None,
        repeats: int = ROUNDS_OF_BENCH,
        *,
        same: Same = "text",
        clock: Clock = "wall",
        **defaults: Any,
    ) -> BenchReport:
        """Measure a program over rows on the current engine, many times in turns: `%sglang bench`.

        rows: a batch, as `run_batch` takes it; one run is all of them. against: by default the
        program without each technique, "nocache" (no prefix cache), "fcfs" (first come, first
        served), "nojump" (no jump-forward), "nofork" (no fork-aware attention), "nooverlap" (steps
        one after another), "text" (what the model made is sent as text); "itself"; libraries that
        are installed, "transformers", "guidance", "outlines"; the address of an SGLang or
        OpenAI-compatible server; another program. repeats: measured rounds. same: "text", or
        "tokens" where as many tokens are enough. clock: "cpu" for the processor time of this
        process, on a machine that others use too. defaults: sampling, as to `run_batch`.

        Instead of a program and rows, a `sgnb.Workload`. Each run begins with an empty part of the
        cache of its own. What is other work is not compared, and samples without a seed are an
        OptionError. A program that it starts by `run` is not part of it: that runs as the
        notebook's own do. See docs/BENCHMARKS.md.
        """
        workload = program
        if not isinstance(program, Workload):
            name = getattr(program, "__name__", "program")
            workload = Workload(name, program, rows, same=same, defaults=defaults)
        elif rows is not ONE_ROW or defaults or same not in ("text", workload.same):
            hint = "give sgnb.Workload its rows, defaults and same"
            raise OptionError(f"{workload.name} is a workload, which says itself what is run", hint)
        opponents = workload.opponents if against is None else against
        if against is None and not opponents:
            opponents = tuple(TECHNIQUES)
        return benchmark(self.engines.get(), workload, opponents, repeats, clock)

    def bench_paper(self, *names: str, repeats: int | None = None, clock: Clock = "wall") -> Table:
        """Measure workloads of the SGLang paper, made small, each beside itself without what it is
        to show: `%sglang bench --paper`. A row for each claim.

        names: by default all; `sgnb.benchmark.paper.NAMES` lists them. repeats: measured rounds, by
        default as few as give an interval. An interrupt has the rows so far as its `report`.
        """
        loaded, rounds = self.engines.get(), rounds_needed() if repeats is None else repeats
        reports: list[BenchReport] = []
        try:
            for one in workloads(names or NAMES):
                reports.append(benchmark(loaded, one, one.opponents, rounds, clock))
        except BaseException as error:
            if (so_far := getattr(error, "report", None)) is not None:
                reports.append(so_far)
            if reports:
                error.report = claims(reports)  # type: ignore[attr-defined]
            raise
        return claims(reports)

    def why_no_hit(self, prompt: Any, other: Any = None) -> WhyReport:
        """Why a program's calls found no more in the cache, read off its engine's log: `prompt` is
        its state. With an `other` prompt, where the two part; each a text, token ids or a state,
        as the current engine reads them.

        The log is bounded: of a program long ago it may have no request any more.
        """
        if other is None:
            if not isinstance(prompt, lang.ProgramState):
                hint = "give a program's state, or two prompts to compare"
                raise OptionError(f"{shown(prompt)} is no state of a program", hint)
            branch, run = prompt._branch.id, prompt.program.run
            found = lookups(run.executor.log.read().records, run.id, branch)
            for other in run.others.backends:
                of_other = lookups(other.log.read().records, run.id, branch)
                found += [replace(one, model=run.others.title(other)) for one in of_other]
            return WhyReport(found)
        here, there = self._tokens(prompt), self._tokens(other)
        return WhyReport(difference=difference(here, there, self._vocabulary({*here, *there})))

    def _tokens(self, prompt: Any) -> list[int]:
        if isinstance(prompt, lang.ProgramState):
            return prompt.token_ids()
        if isinstance(prompt, str):
            return self.engines.get().engine.encode([prompt])[0]
        return [int(token) for token in prompt]

    def _vocabulary(self, tokens: set[int]) -> Vocabulary:
        vocabulary, tokenizer = Vocabulary(), self.engines.get().engine.tokenizer
        if tokenizer is not None:
            ids = tuple(tokens)
            pieces = (piece.decode("latin-1") for piece in tokenizer.pieces(list(ids)))
            vocabulary.learn(TokensNamed(ids, tuple(pieces)))
        return vocabulary

    def set_default_backend(self, backend: Any) -> None:
        """What runs programs without a backend: an `Engine` (it becomes current) or an executor."""
        engine = sys.modules.get("sgnb.engine.engine")
        if engine is not None and isinstance(backend, engine.Engine):
            self.engines.adopt(backend)
        elif backend is None:
            lang.set_default_executor(None)
        else:
            self.engines.adopt_remote(executor_of(backend))

    def in_background(self, name: str, background: Background) -> None:
        """Remember what runs in the background under a program's name."""
        self._background[name] = background

    def replace(self, name: str) -> None:
        """Stop what still runs in the background under `name`, because it is about to run again."""
        old = self._background.pop(name, None)
        if old is not None and old.status == "running":
            old.stop()
            self.say(f"{old.run.id} of {name} was still running and is stopped")


class EngineView:
    """Views of all that the current engine does: calling it opens them, in a notebook live until
    the next call, in a terminal or as a picture once."""

    def __init__(self, engines: Engines, views: Sequence[str]) -> None:
        self._engines, self._views = engines, views
        self._shown: Display | None = None

    def __call__(self) -> None:
        if self._shown is not None:
            self._shown.close()
        loaded = self._engines.backend()
        self._shown = Display(loaded.emitter, self._views, act=loaded.act)
        self._shown.open()
        if not self._shown.live:
            self._shown.close()


class Cache:
    """The radix tree of the current engine."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self.show = EngineView(engines, ("tree", "time"))

    def stats(self) -> Facts:
        """Hit rate, counts and memory, in tokens."""
        return Facts(self._engines.get().engine.stats())

    def flush(self) -> int:
        """Forget every cached prefix that no run uses and nobody has pinned. Returns the tokens
        freed."""
        return self._engines.get().engine.flush_cache()

    def pin(self, what: int | str | lang.ProgramState) -> int:
        """Keep from eviction, until `unpin`, what is cached of a run's prompts, by the run's id or
        its state, or a node of the tree by its number. Returns how many tokens are pinned now.

        The log is bounded: of a run long ago it may have no prompt any more; OptionError then.
        """
        engine = self._engines.get().engine
        if isinstance(what, int):
            engine.pin(what)
        else:
            run = what if isinstance(what, str) else what.run_id
            events = [record.event for record in engine.log.read().records]
            queued = [e for e in events if isinstance(e, RequestQueued) and e.run == run]
            if not queued:
                hint = "sgnb.runs() lists the runs; a node's number stands in the tree's view"
                raise OptionError(f"the log has no prompt of run {run!r}", hint)
            for event in queued:
                engine.pin(event.prompt, run, event.namespace)
        pinned: int = engine.stats()["pinned"]
        return pinned

    def unpin(self, what: int | str | lang.ProgramState | None = None) -> int:
        """Undo the pins of `what`, a run or a node as `pin` takes it, or all. Returns how many
        those were."""
        engine = self._engines.get().engine
        if what is None or isinstance(what, int):
            return engine.unpin(what)
        return engine.unpin(owner=what if isinstance(what, str) else what.run_id)

    def pins(self) -> Table:
        """What is pinned: node, by whom, and its tokens from the root on."""
        return Table(self._engines.get().engine.pins(), "nothing is pinned")

    def evict(self, node: int) -> Evicted:
        """Free what no run uses and nobody has pinned of a node of the tree, by its number, and of
        all below it."""
        return self._engines.get().engine.evict(node)

    def __repr__(self) -> str:
        return repr(self.stats())


SESSION = Session()
