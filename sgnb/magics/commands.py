"""Commands of `%sglang`: a method per command, over the session and the notebook's variables.
Parses nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any, get_origin

from ..benchmark import OPPONENTS, Workload
from ..errors import OptionError, nearest
from ..lang import Run
from ..lang.batches.rows import is_frame, is_program
from ..lang.batches.states import States
from .answer_checks import named_expectation, read_rows
from .cell_program import evaluate_rows, evaluated, variable
from .doctor import check
from .magic_options import CellLine, LineCall
from .run_views import Views
from .session import Session

_DTYPES = {"int": int, "float": float, "bool": bool, "str": str}

CLOSE = 0.6
"""Similarity from which a name is taken for a misspelled variable, as in `difflib`."""

_EXPRESSION = re.compile(r"([A-Za-z_]\w*)(?:\.[A-Za-z_]\w*|\[[\w\"']+\]|\(\))+\Z")

_MOST_WORDS = {"ls": 0, "compare": 2, "rerun": 1}
"""Arguments of the actions of `%sglang runs`."""


class Commands:
    """Executes parsed commands.

    Args:
        session: Engines, runs and cache.
        namespace: Variables of the notebook.
    """

    def __init__(self, namespace: dict[str, Any], session: Session) -> None:
        self.namespace, self.session = namespace, session

    def load(self, call: LineCall) -> None:
        self.session.load(call.argument, **call.options)

    def engine(self, call: LineCall) -> Any:
        engines = self.session.engines
        if call.action != "ls":
            return getattr(engines, call.action)(call.argument)
        if call.argument:
            message = f"%sglang engine ls takes no {call.argument!r}"
            raise OptionError(message, "use, unload and info do")
        return engines.ls()

    def attach(self, call: LineCall) -> None:
        self.session.engines.attach(call.argument, **call.options)

    def share(self, call: LineCall) -> None:
        self.session.engines.share(call.argument)

    def serve(self, call: LineCall) -> Any:
        return self.session.engines.serve(call.argument, **call.options)

    def cache(self, call: LineCall) -> Any:
        cache, say = self.session.cache, self.session.say
        is_node = call.argument.isdecimal()
        target: Any = int(call.argument) if is_node else call.argument or None
        if target is not None and call.action not in ("pin", "unpin", "evict", "forget"):
            message = f"%sglang cache {call.action} takes no {call.argument!r}"
            raise OptionError(message, "pin, unpin, evict and forget do")

        if call.options and call.action != "pin":
            raise OptionError(f"%sglang cache {call.action} takes no --durable", "pin does")

        match call.action:
            case "flush":
                say(f"freed {cache.flush():,} tokens")
            case "pin":
                say(f"{cache.pin(target, **call.options):,} tokens are pinned")
            case "restore":
                say(f"{cache.restore_pins():,} tokens were loaded and pinned")
            case "unpin":
                num_pins = cache.unpin(target)
                if target is not None and not num_pins:
                    hint = "%sglang cache pins lists the pins"
                    raise OptionError(f"%sglang cache unpin {target}: no such pin", hint)
                say(f"undone: {num_pins} pin" + "s" * (num_pins != 1))
            case "evict":
                say(cache.evict(target).line())
            case "forget":
                say(f"deleted {cache.forget(call.argument) / 2**20:.1f} MiB")
            case action:
                return getattr(cache, action)()
        return None

    def fsm(self, call: LineCall) -> Any:
        """Show a grammar. The argument may be a dtype, or a variable with a pattern, a schema, a
        grammar or choices. A name that resembles a variable, and an expression, are questioned."""
        name = call.argument
        value = _DTYPES.get(name, self.namespace.get(name, name))
        kinds = (str, dict, type, list, tuple, re.Pattern)
        is_grammar = isinstance(value, kinds) or get_origin(value) is not None
        known = [n for n, v in self.namespace.items() if isinstance(v, kinds) and n[:1] != "_"]

        part = _EXPRESSION.match(name)
        if part is not None and part[1] in self.namespace:
            hint = f"x = {name}, then %sglang fsm x; for the pattern write ({name})"
            raise OptionError(f"{name} is an expression, not a variable", hint)

        known += _DTYPES
        if value is name and name.isidentifier() and get_close_matches(name, known, 1, CLOSE):
            hint = f"{nearest(name, known)}; for the pattern write ({name})"
            raise OptionError(f"{name} is no variable with a pattern or a schema", hint)
        if value is name and name.isidentifier():
            self.session.say(f"no variable is called {name}: shown as a regex with this text")
        return self.session.fsm(value if is_grammar else call.argument, **call.options)

    def dashboard(self, call: LineCall) -> None:
        self.session.dashboard()

    def recording(self, call: LineCall) -> Any:
        recordings = self.session.recordings
        if call.argument == "on":
            recordings.on()
            self.session.say("recording; %sglang recording off ends it and shows it")
            return None
        recording = (
            recordings.off() if call.argument == "off" else recordings(call.argument or "last")
        )
        if not call.options.get("export"):
            return recording
        self.session.say(f"written: {recording.save(call.options['export'])}")
        return None

    def tour(self, call: LineCall) -> Any:
        return self.session.tour(call.argument or "last")

    def bench(self, call: LineCall) -> Any:
        options = dict(call.options)
        if options.pop("paper", False):
            return self._bench_paper(call.argument, options)
        if not call.argument:
            raise OptionError("%sglang bench needs a program", "%sglang bench PROGRAM, or --paper")
        program = self._program(call)
        out, over = options.pop("out", ""), options.pop("over", "")
        if over:
            options["rows"] = evaluate_rows(over, self.namespace)
        if "vs" in options:
            options["vs"] = [self._opponent(name) for name in _split(options["vs"])]
        return self._report(partial(self.session.bench, program, **options), out)

    def check(self, call: LineCall) -> Any:
        program, options = self._program(call), dict(call.options)
        out, over = options.pop("out", ""), options.pop("over", "")
        for name, value in {"over": over, "expect": options.get("expect")}.items():
            if not value:
                usage = f"%sglang check {call.argument} --over ROWS --expect COLUMN_OR_FUNCTION"
                raise OptionError(f"%sglang check needs --{name}", usage)

        rows = evaluate_rows(over, self.namespace)
        options["over"] = rows if isinstance(rows, Mapping) or is_frame(rows) else list(rows)
        columns = {name for row in read_rows(program, options["over"]) for name in row}
        options["expect"] = named_expectation(options["expect"], columns, self.namespace)
        return self._report(partial(self.session.check, program, **options), out)

    def lab(self, call: LineCall) -> Any:
        program, options = self._program(call), call.options
        rows = evaluate_rows(options["over"], self.namespace) if "over" in options else None
        grid = None
        if "grid" in options:
            grid = evaluated("--grid", options["grid"], self.namespace)
        lab = self.session.lab(program, rows, grid)
        if "out" in options:
            self.namespace[options["out"]] = lab
        return lab

    def runs(self, call: LineCall) -> Any:
        runs, words = self.session.runs, call.argument.split()
        if len(words) > _MOST_WORDS[call.action]:
            message = f"%sglang runs {call.action}: {words[-1]!r} is not expected"
            raise OptionError(message, "compare takes two runs, rerun takes a variable")
        if call.action == "compare":
            return runs.compare(*words)
        return self._rerun(*words) if call.action == "rerun" else runs()

    def _rerun(self, name: str = "s") -> None:
        """Run the failed rows of a batch again, with views, and set the variable."""
        states = variable(self.namespace, name, "batch", lambda value: isinstance(value, States))
        failed = states.failed
        if not failed:
            self.session.say(f"no row of {name} has failed")
            return
        line = CellLine(out=name)
        views = Views(self.session.engines.backend(), line, self.session, bind=self._bind(name))

        runs: list[Run] = []
        try:
            self.namespace[name] = views.show(states.rerun, runs)
        except BaseException as error:
            self.namespace[name] = getattr(error, "states", states)
            raise

        remaining = len(self.namespace[name].failed)
        count = f"{len(failed)} row" + "s" * (len(failed) != 1)
        self.session.say(f"{count} of {name} ran again, {remaining} failed")

    def _bind(self, name: str) -> Callable[[Any], None]:
        return lambda value: self.namespace.update({name: value})

    def cancel(self, call: LineCall) -> None:
        runs = self.session.cancel(call.argument or "all")
        self.session.say(f"cancelled {', '.join(runs)}" if runs else "no run was active")

    def doctor(self, call: LineCall) -> Any:
        return check()

    def _bench_paper(self, argument: str, options: dict[str, Any]) -> Any:
        if unused := options.keys() - {"repeats", "clock", "out"}:
            message = f"--{min(unused)} has no effect with --paper"
            raise OptionError(message, "the workloads define the value")
        out = options.pop("out", "")
        return self._report(partial(self.session.bench_paper, *_split(argument), **options), out)

    def _program(self, call: LineCall) -> Any:
        """Return the program that the argument names."""
        return variable(
            self.namespace,
            call.argument,
            "program",
            lambda value: isinstance(value, Workload) or is_program(value),
        )

    def _opponent(self, name: str) -> Any:
        """Return the program of a variable, unless the name is a library."""
        value = self.namespace.get(name)
        return value if name not in OPPONENTS and is_program(value) else name

    def _report(self, measure: Callable[[], Any], out: str) -> Any:
        """Return the report and bind it to `out`. An interrupt prints and binds a partial one."""
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
                self.namespace[out] = report
        return report


def _split(names: str) -> list[str]:
    """Split names at commas."""
    return [name.strip() for name in names.split(",") if name.strip()]
