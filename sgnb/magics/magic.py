"""`%%sglang` and `%sglang`: they parse a line, call the session, and make errors short."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_origin

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import no_var_expand

from .. import lang
from ..benchmark import OPPONENTS
from ..errors import OptionError, nearest
from ..lang import Run, SglFunction
from ..lang.batches.rows import Rows
from ..lang.chat import tools
from ..lang.code import Code
from ..lang.core import choices
from ..lang.words import agents, patterns, primitives
from .body import CELL_LINES_BEFORE_BODY, compile_body
from .doctor import check
from .options import CellLine, LineCall, cell_help, line_help
from .program import CellProgram, rows
from .report import short_lines, shorten
from .session import SESSION, Session

_HOMES = primitives.__name__, choices.__name__
_PATTERN_HOMES = patterns.__name__, agents.__name__, tools.__name__
PRIMITIVES = {
    name: word
    for name in lang.__all__
    if getattr(word := getattr(lang, name), "__module__", "") in _HOMES
    and name != "needs_unconditional"
}
"""What a body may say without import."""

PATTERNS = {
    name: word
    for name in lang.__all__
    if getattr(word := getattr(lang, name), "__module__", "") in _PATTERN_HOMES
}
"""The same, unless the notebook has a name of its own for it: these are words like any other."""


class SglangMagics:
    """Keeps nothing: what lasts is in the session and in the notebook's namespace."""

    def __init__(self, shell: InteractiveShell, session: Session = SESSION) -> None:
        self.shell, self.session = shell, session

    def register(self) -> None:
        """Give the shell the two magics, and the language the names of cells."""
        lang.name_cells(self._label)
        for kind, magic in (("cell", self.run_cell), ("line", self.run_line)):
            self.shell.magics_manager.register_function(magic, kind, "sglang")

    @no_var_expand
    def run_cell(self, line: str, body: str) -> Any:
        try:
            return self._run_cell(line, body)
        except BaseException as error:
            shorten(error, self._label)
            raise

    run_cell.__doc__ = cell_help()

    @no_var_expand
    def run_line(self, line: str) -> Any:
        try:
            return self._run_line(line)
        except BaseException as error:
            shorten(error, self._label)
            raise

    run_line.__doc__ = line_help()

    def _run_cell(self, text: str, body: str) -> Any:
        line = CellLine.parse(text)
        program = self._define(line, text, body)
        if line.dry:
            return self._dry(program, line)
        if line.name:
            self.session.replace(line.name)
            self.shell.user_ns[line.name] = program
        if line.defines_only:
            return None
        if line.vs:
            return self._compared(program, line)
        return self._in_background(program, line) if line.bg else self._in_cell(program, line)

    def _define(self, line: CellLine, text: str, body: str) -> CellProgram:
        if line.name in PRIMITIVES:
            message = f"{line.name!r} is a primitive of the language"
            raise OptionError(message, "give the program another name")
        cell = f"%%sglang {text}\n{body}"
        # The shell's own count may have moved on to the next cell already.
        running = self.shell.displayhook.exec_result
        number = running.execution_count if running else self.shell.execution_count
        file = self.shell.compile.cache(cell, number, raw_code=cell.rstrip("\n"))
        name = line.name or f"cell_{number}"
        taken = {*self.shell.user_ns, line.name}
        words = {k: word for k, word in PATTERNS.items() if k not in taken} | PRIMITIVES
        function = compile_body(body, name, line.params, file, self.shell.user_ns, words)
        code = Code(function, cell, body, 1 + CELL_LINES_BEFORE_BODY)
        program = SglFunction(function, marks=line.marks, code=code)
        return CellProgram(program, line, self.session)

    def _work(self, program: CellProgram, line: CellLine) -> Any:
        """What the line asks for, as a function that starts the run; it takes more options."""
        held = self._held(line)
        if not line.over:
            return partial(program.run, **line.arguments(), **held)
        batch = rows(line.over, self._evaluated(line.over))
        options = {"save": line.save or None, "as_frame": line.frame, **held}
        return partial(program.run_batch, batch, **options)

    def _held(self, line: CellLine) -> dict[str, Any]:
        """What `--from` asks for, as an argument of `run`."""
        if not line.source:
            return {}
        if line.source not in self.shell.user_ns:
            message = f"--from {line.source}: there is no such variable"
            raise OptionError(message, nearest(line.source, self.shell.user_ns))
        return {"continue_from": self.shell.user_ns[line.source]}

    def _evaluated(self, over: str) -> Any:
        """The value of `--over`."""
        try:
            return eval(over, self.shell.user_ns)
        except Exception as error:
            message = f"--over {over} cannot be evaluated"
            raise OptionError(message, "give a Python expression") from error

    def _dry(self, program: CellProgram, line: CellLine) -> Any:
        """Changes nothing: no name is bound, and no run of the same name is stopped."""
        if not line.over:
            return program.dry(**line.arguments(), **self._held(line))
        batch = rows(line.over, self._evaluated(line.over))
        first = next(iter(Rows(batch, [param.name for param in line.params])), None)
        if first is None:
            raise OptionError(f"--over {line.over} is empty", "a dry run takes the first row")
        args, kwargs = first
        return program.dry(*args, **kwargs)

    def _in_cell(self, program: CellProgram, line: CellLine) -> Any:
        runs: list[Run] = []
        try:
            value = program.in_cell(self._work(program, line), runs)
        except BaseException as error:
            # A batch knows the rows that a file had too.
            states = getattr(error, "states", None) or (runs[0].states if runs else [])
            if states:
                self.shell.user_ns[line.out] = states if line.over else states[0]
            if line.over and runs and any(error is s.program.root.error for s in runs[0].states):
                error.add_note(f"all {len(runs[0].states)} rows failed; this is the first's error")
            if states and isinstance(error, KeyboardInterrupt):
                state = f"{line.out}[i]" if line.over else line.out
                error.add_note(f"stopped; what it had produced: {state}.text()")
            raise
        self.shell.user_ns[line.out] = value
        if line.over and runs and runs[0].status == "error":
            self._say_failed(
                runs[0], value if isinstance(value, list) else runs[0].states, line.out
            )
        return None if line.show or line.quiet else value

    def _compared(self, program: CellProgram, line: CellLine) -> Any:
        work = self._work(program, line)
        report = program.compared(lambda executor: work(backend=executor))
        self.shell.user_ns[line.out] = report
        return None if line.show or line.quiet else report

    def _say_failed(self, run: Run, states: Sequence[Any], name: str) -> None:
        """How many rows failed, and the error of the first as a cell's own would be shown. It is
        read with that."""
        failed = [row for row, state in enumerate(states) if state.error() is not None]
        block = short_lines(states[failed[0]].error(), self._label)
        head = f"{len(failed)} of {len(states)} rows failed; first {name}[{failed[0]}]:"
        print("\n".join([head, *block]), file=sys.stderr)
        run.mark_read()

    def _in_background(self, program: CellProgram, line: CellLine) -> Any:
        background = program.in_background(self._work(program, line))
        self.shell.user_ns[line.out] = background
        if line.name:
            self.session.in_background(line.name, background)
        return background

    def _run_line(self, line: str) -> Any:
        if not line.strip():
            print(line_help())
            return None
        call = LineCall.parse(line)
        return getattr(self, f"_{call.name}")(call)

    def _load(self, call: LineCall) -> None:
        self.session.load(call.argument, **call.options)

    def _engine(self, call: LineCall) -> Any:
        engines = self.session.engines
        return engines.ls() if call.action == "ls" else getattr(engines, call.action)(call.argument)

    def _cache(self, call: LineCall) -> Any:
        cache, say = self.session.cache, self.session.say
        what: Any = int(call.argument) if call.argument.isdecimal() else call.argument or None
        if what is not None and call.action not in ("pin", "unpin", "evict"):
            message = f"%sglang cache {call.action} takes no {call.argument!r}"
            raise OptionError(message, "pin, unpin and evict do")
        if call.action == "flush":
            say(f"freed {cache.flush():,} tokens")
        elif call.action == "pin":
            say(f"{cache.pin(what):,} tokens are pinned")
        elif call.action == "unpin":
            undone = cache.unpin(what)
            say(f"undone: {undone} pin" + "s" * (undone != 1))
        elif call.action == "evict":
            say(cache.evict(what).line())
        else:
            return getattr(cache, call.action)()
        return None

    def _fsm(self, call: LineCall) -> Any:
        """A name of the notebook that holds a pattern or a schema stands for it."""
        value = self.shell.user_ns.get(call.argument, call.argument)
        named = isinstance(value, (str, dict, type)) or get_origin(value) is not None
        return self.session.fsm(value if named else call.argument, **call.options)

    def _dashboard(self, call: LineCall) -> None:
        self.session.dashboard()

    def _trace(self, call: LineCall) -> Any:
        traces = self.session.traces
        if call.argument == "on":
            traces.on()
            self.session.say("recording; %sglang trace off ends it and shows it")
            return None
        trace = traces.off() if call.argument == "off" else traces(call.argument or "last")
        if not call.options.get("export"):
            return trace
        self.session.say(f"written: {trace.save(call.options['export'])}")
        return None

    def _bench(self, call: LineCall) -> Any:
        names, options = self.shell.user_ns, dict(call.options)
        if options.pop("paper", False):
            return self._bench_paper(call.argument, options)
        if not call.argument:
            raise OptionError("%sglang bench needs a program", "%sglang bench PROGRAM, or --paper")
        if call.argument not in names:
            message = f"%sglang bench {call.argument}: there is no such program"
            raise OptionError(message, nearest(call.argument, names))
        out, over = options.pop("out", ""), options.pop("over", "")
        if over:
            options["rows"] = rows(over, self._evaluated(over))
        if "against" in options:
            options["against"] = [self._opponent(name) for name in _split(options["against"])]
        return self._reported(partial(self.session.bench, names[call.argument], **options), out)

    def _opponent(self, name: str) -> Any:
        """Any other name of the notebook that holds a program stands for it."""
        value = self.shell.user_ns.get(name)
        return value if name not in OPPONENTS and hasattr(value, "run_batch") else name

    def _bench_paper(self, argument: str, options: dict[str, Any]) -> Any:
        if unused := options.keys() - {"repeats", "clock", "out"}:
            flag = f"--{min(unused)}"
            raise OptionError(f"{flag} has no effect beside --paper", "the workloads say it")
        out = options.pop("out", "")
        return self._reported(partial(self.session.bench_paper, *_split(argument), **options), out)

    def _reported(self, measure: Callable[[], Any], out: str) -> Any:
        """The report, which is bound to `out`; said, if an interrupt left a part of one."""
        report: Any = None
        try:
            report = measure()
        except BaseException as error:
            report = getattr(error, "report", None)
            if report is not None:
                self.session.say("\n".join(getattr(report, "lines", [repr(report)])))
            raise
        finally:
            if out and report is not None:
                self.shell.user_ns[out] = report
        return report

    def _runs(self, call: LineCall) -> Any:
        return self.session.runs()

    def _stop(self, call: LineCall) -> None:
        stopped = self.session.stop(call.argument or "all")
        self.session.say(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")

    def _doctor(self, call: LineCall) -> Any:
        return check()

    def _label(self, file: str) -> str | None:
        """ "Cell In[3]" for a cell's file name."""
        label = self.shell.compile.format_code_name(file)
        return " ".join(label) if label else None


def _split(names: str) -> list[str]:
    """Names with commas."""
    return [name.strip() for name in names.split(",") if name.strip()]
