"""Programs defined by cells, and the execution of a cell with views. Parses no options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from functools import partial
from inspect import Signature
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from .. import lang
from ..errors import OptionError, nearest, shown
from ..lang import ProgramState, Run, SglFunction, Snapshot
from ..lang.batches.rows import Rows, is_frame
from ..lang.chat import tools
from ..lang.code import Code
from ..lang.core import choices
from ..lang.primitives import agents, expressions, media_inputs, patterns, roles, unordered
from ..lang.source import parse
from ..viz import Display
from ..viz.live.display import in_kernel
from .body import CELL_LINES_BEFORE_BODY, compile_body
from .compare import ROUNDS, CompareReport, compare
from .dry_report import DryReport, dry_run
from .loaded_engine import LoadedEngine, RemoteBackend
from .magic_options import CellLine
from .report import CellLabel, short_lines
from .run_views import Views
from .runs import BackgroundRun, BackgroundState
from .session import Session


def _exported(*modules: Any) -> dict[str, Any]:
    """Return the public names of the language that are defined in `modules`."""
    homes = {module.__name__ for module in modules}
    values = {name: getattr(lang, name) for name in lang.__all__}
    return {k: value for k, value in values.items() if getattr(value, "__module__", "") in homes}


PRIMITIVES = _exported(expressions, roles, choices)
PRIMITIVES.pop("needs_unconditional")
"""Names of the language in a cell, not valid as program names."""

PATTERNS = _exported(patterns, agents, tools, media_inputs, unordered)
"""Further names of the language in a cell. Notebook variables take precedence."""


class CellProgram:
    """`SglFunction` with engine, sampling options and views from the cell's line."""

    def __init__(
        self, program: SglFunction, line: CellLine, session: Session, cell: str = ""
    ) -> None:
        """cell: Name of the program, or id of the notebook's cell; "" if unknown."""
        self._program, self._line, self._session, self._cell = program, line, session, cell
        self.__name__: str = program.func.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run with views, or as a subprogram if the first argument is a state.

        Args:
            args: Positional arguments of the program.
            kwargs: Keyword arguments of the program.
        """
        if args and isinstance(args[0], ProgramState):
            return self._program(*args, **kwargs)
        return self.views().show(lambda: self.run(*args, **kwargs), [])

    def run(self, *args: Any, **kwargs: Any) -> ProgramState:
        """Run the program without views, as `sgnb.function(...).run` does."""
        return self._program.run(*args, **self._defaults(kwargs))

    def run_batch(self, batch: Any, **kwargs: Any) -> Any:
        """Run the program over a batch without views, as `sgnb.function(...).run_batch` does."""
        return self._program.run_batch(batch, **self._defaults(kwargs))

    async def arun(self, *args: Any, **kwargs: Any) -> ProgramState:
        """Run the program without blocking the event loop."""
        return await self._program.arun(*args, **self._defaults(kwargs))

    def dry(self, *args: Any, **kwargs: Any) -> DryReport:
        """Return the tokens, grammars and warnings of a run, without generating."""
        kwargs = {**dict(self._line.sampling), **kwargs}
        engine = self._session.engines.any_engine(self._line.model)
        return dry_run(self._program, engine, args, kwargs)

    def bind(self, **kwargs: Any) -> CellProgram:
        """Return the program with fixed arguments."""
        bound = self._program.bind(**kwargs)
        return CellProgram(bound, self._line, self._session, self._cell)

    def views(self, **options: Any) -> Views:
        """Return the views of the next run. `options`: further arguments of `Views`."""
        return Views(self.backend(), self._line, self._session, self._cell, **options)

    @property
    def signature(self) -> Signature:
        """The parameters of the program."""
        return self._program.signature

    def engine(self) -> LoadedEngine:
        """Return the current engine; load or reload it if needed."""
        return self._session.engines.get(self._line.model)

    def backend(self) -> LoadedEngine | RemoteBackend:
        """Return the current backend; load or reload it if needed."""
        return self._session.engines.backend(self._line.model)

    def _defaults(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        backend = {} if "backend" in kwargs else {"backend": self.backend().executor}
        return {**dict(self._line.sampling), **backend, **kwargs}

    def __repr__(self) -> str:
        return repr(self._program)


class CellRun:
    """The execution of one `%%sglang` cell."""

    def __init__(
        self, shell: InteractiveShell, session: Session, line: CellLine, label: CellLabel
    ) -> None:
        self.namespace: dict[str, Any] = shell.user_ns
        self.shell, self.session, self.line, self.label = shell, session, line, label

    def execute(self, text: str, body: str) -> Any:
        """Define the program and run the program with the options of the line. Returns the value of
        the cell.

        Args:
            text: The line after `%%sglang`.
            body: The lines below.
        """
        line, lines = self.line, len(body.splitlines()) + CELL_LINES_BEFORE_BODY
        if isinstance(line.until, int) and line.until > lines:
            message = f"--until {line.until}: the cell has {lines} lines"
            raise OptionError(message, "give a line with an append or a call")
        program = self._define(text, body)
        if line.dry:
            return self._dry(program)
        if line.name:
            self.session.replace(line.name)
            self.namespace[line.name] = program
        if line.defines_only:
            return None
        if line.vs:
            return self._compare(program)
        return self._run_in_background(program) if line.in_background else self._run(program)

    def _define(self, text: str, body: str) -> CellProgram:
        line = self.line
        if line.name in PRIMITIVES:
            message = f"{line.name!r} is a primitive of the language"
            raise OptionError(message, "give the program another name")

        cell = f"%%sglang {text}\n{body}"
        # The shell's execution count may already belong to the next cell.
        result = self.shell.displayhook.exec_result
        number = result.execution_count if result else self.shell.execution_count
        file = self.shell.compile.cache(cell, number, raw_code=cell.rstrip("\n"))

        name = line.name or f"cell_{number}"
        names = {*self.namespace, line.name}
        words = {k: value for k, value in PATTERNS.items() if k not in names} | PRIMITIVES
        function = compile_body(body, name, line.params, file, self.namespace, words)
        if not parse(body).body:
            self.session.say("the body has no statements: the program does nothing")
        code = Code(function, cell, body, 1 + CELL_LINES_BEFORE_BODY)
        compiled = SglFunction(function, special_tokens=line.special_tokens, code=code)
        cell_id = getattr(result.info, "cell_id", "") if result else ""
        return CellProgram(compiled, line, self.session, line.name or cell_id or "")

    def _work(self, program: CellProgram) -> Callable[..., Any]:
        """Return a function that starts the run; its arguments are further options of the run."""
        line, options = self.line, self._continue_from()
        if not line.over:
            return partial(program.run, **line.arguments(), **options)
        batch = evaluate_rows(line.over, self.namespace)
        options |= {"save": line.save or None, "as_frame": line.frame}
        return partial(program.run_batch, batch, **options)

    def _continue_from(self) -> dict[str, Any]:
        """Return the argument of `run` for `--from`."""
        source = self.line.source
        if not source:
            return {}
        kinds = (ProgramState, Snapshot)
        state = variable(self.namespace, source, "state", lambda value: isinstance(value, kinds))
        return {"continue_from": state}

    def _dry(self, program: CellProgram) -> DryReport:
        """Predict a run. Binds no name, and stops no run of the same name."""
        line = self.line
        if not line.over:
            return program.dry(**line.arguments(), **self._continue_from())
        batch = evaluate_rows(line.over, self.namespace)
        first = next(iter(Rows(batch, [param.name for param in line.params])), None)
        if first is None:
            raise OptionError(f"--over {line.over} is empty", "a dry run takes the first row")
        args, kwargs = first
        return program.dry(*args, **kwargs)

    def _run(self, program: CellProgram) -> Any:
        line = self.line
        runs: list[Run] = []
        try:
            value = program.views(bind=self._bind).show(self._work(program), runs)
        except BaseException as error:
            self._bind_partial(error, runs)
            raise
        self._bind(value)
        if line.over and isinstance(value, Sized) and not len(value):
            self.session.say(f"--over {line.over} has no rows: no program ran")

        if line.over and runs and runs[0].status == "error":
            states = value if isinstance(value, list) else runs[0].states
            self._print_failed_rows(runs[0], states)
        return None if line.show or line.quiet else value

    def _bind(self, value: Any) -> None:
        """Set the variable of the cell's value."""
        self.namespace[self.line.out] = value

    def _bind_partial(self, error: BaseException, runs: list[Run]) -> None:
        """Bind the states of an unfinished run, and add notes about them to the error."""
        line = self.line
        # A batch error also has the rows read from a file.
        states = getattr(error, "states", None) or (runs[0].states if runs else [])
        if states:
            self.namespace[line.out] = states if line.over else states[0]
        if line.over and runs and any(error is s.program.root.error for s in runs[0].states):
            error.add_note(
                f"all {len(runs[0].states)} rows failed; this is the error of the first row"
            )
        if states and isinstance(error, KeyboardInterrupt):
            state = f"{line.out}[i]" if line.over else line.out
            error.add_note(f"stopped; the partial text is {state}.text()")

    def _compare(self, program: CellProgram) -> CompareReport | None:
        line, loaded, work = self.line, program.engine(), self._work(program)
        display = Display(
            loaded.emitter, () if line.quiet else line.show, static=line.static, keep=line.keep
        )
        rounds = ROUNDS if line.rounds is None else line.rounds
        report = compare(
            loaded,
            lambda executor: work(backend=executor),
            line.vs,
            rounds,
            line.timeout,
            display,
        )
        self.session.recordings.keep(report.rows[0]["run"], report.feed)
        self.namespace[line.out] = report
        return None if line.show or line.quiet else report

    def _print_failed_rows(self, run: Run, states: Sequence[Any]) -> None:
        """Print the number of failed rows and the first error, and mark the run as read."""
        failed = [row for row, state in enumerate(states) if state.error() is not None]
        block = short_lines(states[failed[0]].error(), self.label)
        head = f"{len(failed)} of {len(states)} rows failed; first {self.line.out}[{failed[0]}]:"
        print("\n".join([head, *block]), file=sys.stderr)
        run.mark_read()

    def _run_in_background(self, program: CellProgram) -> BackgroundRun:
        """Run on a background thread. Terminals show no views."""
        line, work = self.line, self._work(program)
        views = program.views(steers=True, bind=self._bind) if in_kernel() else None
        kind = BackgroundRun if line.over else BackgroundState
        ended = views.closer() if views else lambda value: None
        background = kind(work, line.timeout, ended, line.begin)
        if views:
            views.open(background.run)
        self.namespace[line.out] = background
        if line.name:
            self.session.in_background(line.name, background)
        return background


def variable(
    namespace: Mapping[str, Any], name: str, kind: str, is_kind: Callable[[Any], bool]
) -> Any:
    """Return the value of a notebook variable.

    Args:
        namespace: Variables of the notebook.
        name: Name of the variable.
        kind: Name of the required kind, for the error.
        is_kind: Returns whether a value is of the kind. The hint names variables of the kind.

    Raises:
        OptionError: The variable is missing, or the value is of another kind.
    """
    if name in namespace and is_kind(namespace[name]):
        return namespace[name]
    known = [k for k, value in namespace.items() if k[:1] != "_" and is_kind(value)]
    hint = nearest(name, known) if known else f"no variable is a {kind} yet"
    found = f"{name}={shown(namespace[name])} is not a {kind}" if name in namespace else ""
    raise OptionError(found or f"no {kind} is called {name!r}", hint)


def evaluated(option: str, expression: str, namespace: dict[str, Any]) -> Any:
    """Return the value of an option's Python expression.

    Raises:
        OptionError: The expression fails.
    """
    try:
        return eval(expression, namespace)
    except Exception as error:
        message = f"{option} {expression} cannot be evaluated"
        raise OptionError(message, "give a Python expression") from error


def evaluate_rows(expression: str, namespace: dict[str, Any]) -> Any:
    """Evaluate `--over` as a batch. A scalar becomes a row with one argument.

    Args:
        expression: Python expression.
        namespace: Variables of the notebook.

    Raises:
        OptionError: The expression fails, or the value is not a batch.
    """
    value = evaluated("--over", expression, namespace)
    if is_frame(value) or isinstance(value, Mapping):
        return value
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        message = f"--over {expression} is of type {type(value).__name__}, which is not a batch"
        hint = "give a list of dicts, tuples or scalars, a dict of lists, or a data frame"
        raise OptionError(message, hint)
    batch = (row if isinstance(row, (Mapping, tuple, list)) else (row,) for row in value)
    return list(batch) if isinstance(value, Sized) else batch
