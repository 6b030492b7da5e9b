"""Session behind the magics and the Python functions: engines, runs, cache and background programs.

`SESSION` is the only session of a process. Knows no shell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import lang
from ..benchmark import ROUNDS as ROUNDS_OF_BENCH
from ..benchmark import TECHNIQUES, Workload
from ..benchmark.measurement import Clock
from ..benchmark.paper import NAMES, workloads
from ..benchmark.stats import rounds_needed
from ..benchmark.variants import PER_REQUEST
from ..benchmark.work import Same
from ..benchmark.workload import ONE_ROW
from ..errors import OptionError, nearest, renamed, shown
from ..events import LogReader, TokensNamed, WaitingRequest
from ..lang.executor import Executor, executor_of
from ..lang.runnable import Runnable
from ..viz import VIEWS, Recording
from ..viz.state.cache_miss import difference, lookups
from ..viz.state.time_parts import TimeParts
from ..viz.state.token_table import TokenTable
from .answer_checks import Checks
from .bench import BenchReport, benchmark, claims
from .cache import Cache, EngineView
from .compare import ROUNDS, CompareReport, compare
from .disk_offer import DiskOffer
from .dry_report import DryReport, dry_run
from .edits import Edits
from .engine_hosts import is_engine
from .engines import BUNDLED, Engines
from .fsm import FsmReport, fsm
from .lab_view import Labs
from .recordings import AnyRun, Recordings
from .runs import BackgroundRun, Runs
from .table import Table
from .tour import Tour
from .why import SlowReport, WhyReport

if TYPE_CHECKING:
    from ..backends.any_engine import AnyEngine
    from ..backends.fleet.fleet_executor import FleetExecutor


class Session:
    """Session of a process. `say` prints a line for the user."""

    def __init__(self, say: Callable[[str], None] = print) -> None:
        self.say = say
        self.engines = Engines(lambda executor: self.runs.running(executor), say)
        self.edits = Edits()
        self.disk_offer = DiskOffer()
        self.recordings = Recordings(lambda: self.engines.backend().emitter)
        self.runs = Runs(self.engines.name_of, self.recordings)
        self.cache = Cache(self.engines)
        self.check = Checks(self.engines, self.recordings)
        self.lab = Labs(self.engines)
        self.dashboard = EngineView(self.engines, VIEWS)
        self._background: dict[str, BackgroundRun] = {}

    def load(
        self, model: Any = BUNDLED, name: str = "", **options: Any
    ) -> AnyEngine | FleetExecutor:
        """Load a model and make the engine current.

        An existing engine with the same name is closed first. The same model with equal options is
        not loaded again.

        Args:
            model: Folder, hub id, or "tiny" for the bundled model.
            name: Name of the engine; by default the last part of the path.
            options: Engine options; see `EngineOptions`. `shared=True` loads the model in a
                process for several notebooks, and `replicas=4` loads four engines as one backend;
                see `Engines.load`.

        Raises:
            ModelError: The model cannot be loaded.
            OptionError: An option is invalid.
        """
        return self.engines.load(model, name, **options)

    def unload(self, name: str = "") -> None:
        """Close the engine `name`, by default the current engine, and free the memory."""
        self.engines.unload(name)

    def flush_cache(self, backend: Any = None) -> int:
        """Evict all unused cached prefixes and return the number of freed tokens.

        Args:
            backend: Engine or executor; by default the current backend.
        """
        return self.cache.flush() if backend is None else executor_of(backend).flush_cache()

    def get_server_info(self, backend: Any = None) -> dict[str, Any]:
        """Return model, limits and counters of a backend.

        Args:
            backend: Engine or executor; by default the current backend.
        """
        executor = self.engines.backend().executor if backend is None else executor_of(backend)
        return executor.server_info()

    def cancel(self, run: str = "all") -> list[str]:
        """Cancel a run at the next token, and return the ids of the cancelled runs.

        Args:
            run: Id of a run, or "all".
        """
        return self.runs.cancel(run)

    def recording(self, run: AnyRun = "last") -> Recording:
        """Return the recording of a run: views without an engine, text, or a file with `save`.

        `recordings.on()` records all runs.

        Args:
            run: Id of a run, "last", a run, or a state or the states of its programs.
        """
        return self.recordings(run)

    def tour(self, run: AnyRun = "last") -> Tour:
        """Show the views of a run in steps, each with a sentence and a picture: `%sglang tour`.

        Args:
            run: A run, as in `recording`.
        """
        return Tour(self.recordings(run))

    def open_recording(self, path: str | Path) -> Recording:
        """Read a saved recording; needs no engine.

        Args:
            path: File with the suffix .jsonl.
        """
        return Recording.open(path)

    def fsm(self, pattern_or_schema: Any, tokens: bool = False, documents: Any = None) -> FsmReport:
        """Compile a constraint and show the automaton, before any run.

        Args:
            pattern_or_schema: Regex, JSON schema as JSON text, a dict or a type, GBNF with "::=",
                Lark with a rule "start:", a dtype such as `int`, or a list of choices.
            tokens: Count the allowed tokens per state, with the current engine's tokenizer.
            documents: Other schemas that the schema refers to, as a dict from URI to schema, or a
                folder; see `read_documents`.

        Raises:
            GrammarError: The constraint is invalid.
        """
        tokenizer = self.engines.any_engine().tokenizer if tokens else None
        if tokens and tokenizer is None:
            hint = "omit the option, or load another model"
            raise OptionError("tokens=True needs an engine with a tokenizer", hint)
        return fsm(pattern_or_schema, tokenizer, documents)

    def dry(self, program: Any, /, *args: Any, **kwargs: Any) -> DryReport:
        """Predict the calls of a program on the current engine, without generating.

        Args:
            program: Program to analyze.
            args: Positional arguments of the program.
            kwargs: Keyword arguments of the program.
        """
        if isinstance(program, Runnable):
            return dry_run(program, self.engines.any_engine(), args, kwargs)
        if not hasattr(program, "dry"):
            hint = "give a function with @sgnb.function, or the name of a cell"
            raise OptionError(f"{program!r} is not a program", hint)
        report: DryReport = program.dry(*args, **kwargs)
        return report

    def compare(
        self,
        program: Any,
        /,
        *args: Any,
        vs: Sequence[str] = tuple(PER_REQUEST),
        over: Any = None,
        rounds: int = ROUNDS,
        **kwargs: Any,
    ) -> CompareReport:
        """Compare a program with ablations on the current engine: `%%sglang --vs`.

        The runs take turns after a warm-up run. Each run starts with the prompt prefixes from the
        cache, and the cache stays unchanged. Side effects of the program, such as tool calls,
        happen in every run. Programs started with `run` inside the program are not measured.

        Args:
            program: Program to compare.
            args: Positional arguments of the program.
            vs: Ablations: "nocache" (no prefix cache), "nojump" (no jump-forward), "nofork" (no
                fork-aware attention).
            over: Rows of a batch, as in `run_batch`, or None.
            rounds: Measured runs per variant.
            kwargs: Keyword arguments of the program.
        """
        for name in vs:
            if name not in PER_REQUEST:
                raise OptionError(f"{name!r} is not a variant", nearest(name, PER_REQUEST))

        def work(executor: Executor) -> Any:
            if over is None:
                return program.run(*args, backend=executor, **kwargs)
            return program.run_batch(over, backend=executor, **kwargs)

        report = compare(self.engines.get(), work, vs, rounds)
        self.recordings.keep(report.rows[0]["run"], report.feed)
        return report

    def bench(
        self,
        program: Any,
        rows: Any = ONE_ROW,
        vs: Sequence[Any] | None = None,
        repeats: int = ROUNDS_OF_BENCH,
        *,
        against: Sequence[Any] | None = None,
        same: Same = "text",
        clock: Clock = "wall",
        **defaults: Any,
    ) -> BenchReport:
        """Measure a program over rows on the current engine, in paired rounds: `%sglang bench`.

        Each run starts with an empty, private cache namespace. Opponents with different work are
        excluded. Programs started with `run` inside the program use the notebook's cache and are
        not measured. See docs/BENCHMARKS.md.

        Args:
            program: Program to measure, or a `sgnb.Workload` (then `rows` is not used).
            rows: Rows of a batch, as in `run_batch`; each run covers all rows.
            vs: Opponents; by default all ablations. Ablations are "nocache" (no prefix cache),
                "fcfs" (first come, first served), "nojump" (no jump-forward), "nofork" (no
                fork-aware attention). Further ablations are "nooverlap" (sequential steps) and
                "text" (generated text is sent as text). Other opponents are "itself", installed
                libraries ("transformers", "guidance", "outlines"), the address of an SGLang or
                OpenAI-compatible server, or another program.
            repeats: Number of measured rounds.
            same: "text" requires equal text; "tokens" requires only equal numbers of tokens.
            clock: "wall", or "cpu" for the processor time of this process on a shared machine.
            against: Former name of `vs`.
            defaults: Sampling parameters, as in `run_batch`.

        Raises:
            OptionError: An argument is invalid, or sampled calls have no seed.
        """
        workload = program
        if not isinstance(program, Workload):
            name = getattr(program, "__name__", "program")
            workload = Workload(name, program, rows, same=same, defaults=defaults)
        elif rows is not ONE_ROW or defaults or same not in ("text", workload.same):
            hint = "give sgnb.Workload its rows, defaults and same"
            raise OptionError(f"{workload.name} is a workload with its own rows and options", hint)

        if against is not None:
            renamed("bench(against=)", "bench(vs=)")
            if vs is not None:
                raise OptionError("vs= and against= exclude each other", "pass vs only")
            vs = against
        opponents = workload.opponents if vs is None else vs
        if vs is None and not opponents:
            opponents = tuple(TECHNIQUES)

        return benchmark(self.engines.get(), workload, opponents, repeats, clock)

    def bench_paper(self, *names: str, repeats: int | None = None, clock: Clock = "wall") -> Table:
        """Measure small versions of the SGLang paper's workloads against ablations: `%sglang bench
        --paper`.

        An interrupt carries the finished rows as attribute `report`.

        Args:
            names: Workload names, by default all; see `sgnb.benchmark.paper.NAMES`.
            repeats: Number of measured rounds; by default the minimum for a confidence interval.
            clock: "wall", or "cpu" for processor time.

        Returns:
            A table with a row per claim.
        """
        loaded, rounds = self.engines.get(), rounds_needed() if repeats is None else repeats
        reports: list[BenchReport] = []
        try:
            for workload in workloads(names or NAMES):
                reports.append(benchmark(loaded, workload, workload.opponents, rounds, clock))
        except BaseException as error:
            if (so_far := getattr(error, "report", None)) is not None:
                reports.append(so_far)
            if reports:
                error.report = claims(reports)  # type: ignore[attr-defined]
            raise
        return claims(reports)

    def why_no_hit(self, prompt: Any, other: Any = None) -> WhyReport:
        """Explain cache misses of a program from the engine's log, or compare two prompts.

        The log is bounded and may have dropped the requests of old programs.

        Args:
            prompt: State of a program. With `other`, a text, token ids or a state.
            other: Second prompt for a comparison, or None.
        """
        if other is None:
            if not isinstance(prompt, lang.ProgramState):
                hint = "give a program's state, or two prompts to compare"
                raise OptionError(f"{shown(prompt)} is not a state of a program", hint)
            branch, run = prompt._branch.id, prompt.program.run
            entries = lookups(run.executor.log.read().records, run.id, branch)
            for other in run.others.backends:
                of_other = lookups(other.log.read().records, run.id, branch)
                entries += [replace(lookup, model=run.others.title(other)) for lookup in of_other]
            return WhyReport(entries)
        here, there = self._tokens(prompt), self._tokens(other)
        return WhyReport(difference=difference(here, there, self._vocabulary({*here, *there})))

    def why_waiting(self, state: lang.ProgramState) -> list[WaitingRequest]:
        """Return the requests of a program that are not running, with the reasons.

        The reasons are the step budget, the limit of running requests, memory, another request
        that computes the same prefix, a compiling grammar, or a program without admission.

        Args:
            state: State of a program. Requests of its forks are included.

        Returns:
            The waiting requests in the order of submission; empty if all requests run. `print`
            shows a sentence with figures for each request.

        Raises:
            OptionError: `state` is not a state of a program.
        """
        _check_state(state)
        run, waiting = state.program.run, []
        for executor in (run.executor, *run.others.backends):
            if hasattr(executor, "why_waiting"):  # an engine of this process
                waiting += executor.why_waiting(run.id, state._branch.id)
        return waiting

    def why_slow(self, state: lang.ProgramState) -> SlowReport:
        """Explain the time of a program: decode, prefill, grammar, encoder, waiting, service, tools
        and Python.

        Args:
            state: State of a program. Forks are included.

        Returns:
            The seconds by activity. The sum is the time of the program. `print` shows a sentence.

        Raises:
            OptionError: `state` is not a state of a program, or the log has dropped the beginning.
        """
        _check_state(state)
        log, branch, run = state.program.executor.log, state._branch.id, state.program.run.id

        parts = TimeParts(run, branch)
        for record in LogReader(log).read().records:
            parts.apply(record)

        if not parts.complete:
            hint = "ask right after the run; long runs keep their times in the view"
            raise OptionError(f"the log no longer has the beginning of {run}", hint)
        parts.advance(log.now())
        return SlowReport(parts)

    def _tokens(self, prompt: Any) -> list[int]:
        if isinstance(prompt, lang.ProgramState):
            return prompt.token_ids()
        if isinstance(prompt, str):
            return self.engines.get().engine.encode([prompt])[0]
        return [int(token) for token in prompt]

    def _vocabulary(self, tokens: set[int]) -> TokenTable:
        engine = self.engines.get().engine
        vocabulary, tokenizer = TokenTable(), engine.tokenizer
        for name in engine.items.names(tokens) if engine.items is not None else ():
            vocabulary.learn(name)
        if tokenizer is not None:
            ids = tuple(token for token in tokens if vocabulary.media.item(token) is None)
            pieces = (piece.decode("latin-1") for piece in tokenizer.pieces(list(ids)))
            vocabulary.learn(TokensNamed(ids, tuple(pieces)))
        return vocabulary

    def set_default_backend(self, backend: Any) -> None:
        """Set the default backend for programs.

        Args:
            backend: `Engine` (becomes the current engine) or executor.
        """
        if is_engine(backend):
            self.engines.adopt(backend)
        elif backend is None:
            lang.set_default_executor(None)
        else:
            self.engines.adopt_remote(executor_of(backend))

    def in_background(self, name: str, background: BackgroundRun) -> None:
        """Register a background run under the name of the program."""
        self._background[name] = background

    def replace(self, name: str) -> None:
        """Stop a background run of the program `name` before a new run."""
        old = self._background.pop(name, None)
        if old is not None and old.status == "running":
            old.cancel()
            self.say(f"{old.run.id} of {name} was still running and is cancelled")


def _check_state(state: Any) -> None:
    if not isinstance(state, lang.ProgramState):
        raise OptionError(f"{shown(state)} is not a state of a program", "give a program's state")


SESSION = Session()
