"""Option and command tables of both magics, parsed lines, and help texts. Knows no engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..benchmark.variants import PER_REQUEST
from ..errors import OptionError, nearest, renamed
from ..lang import Run
from ..viz import KEPT_VIEWS, VIEWS
from .command_options import (
    BENCH_OPTIONS,
    CHECK_OPTIONS,
    LAB_OPTIONS,
    LOAD_OPTIONS,
    MAX_TOKENS,
    SEED,
    TEMPERATURE,
)
from .line import (
    Option,
    Param,
    ablations,
    condition,
    identifier,
    integer,
    kept_views,
    number,
    option,
    pair,
    parse,
    parse_raw,
    seconds,
    split,
    text,
    unquote,
    views,
)

CELL_OPTIONS = (
    option("-m --model", "the loaded engine to use (default: the current one)", "ENGINE", text),
    option("-o --out", "variable for the value of the cell (default: s)", "VAR", identifier),
    option(
        "--over", "run a batch: dicts, tuples, scalars, columns or a data frame", "ITERABLE", text
    ),
    option(
        "--save",
        "of --over: write finished rows to a file, and skip rows in the file",
        "FILE",
        text,
    ),
    option("--frame", "of --over: a data frame with the variables instead of states"),
    option("--run", "run the program with this argument; may be repeated", "K=V", pair, many=True),
    option("--from", "continue the state in this variable", "VAR", identifier, dest="source"),
    TEMPERATURE,
    option("--top-p", "sample from the smallest set with this probability", "F", number),
    MAX_TOKENS,
    SEED,
    option(
        "--logprobs",
        "record this number of likeliest tokens per sampled token, for the views",
        "N",
        integer,
        dest="recorded_alternatives",
    ),
    option(
        "--approximate",
        "reuse keys and values of a similar cached prompt after an edit; verified when idle",
    ),
    option(
        "--vs",
        f"compare with variants without: {', '.join(PER_REQUEST)}; several with commas",
        "VARIANTS",
        ablations,
    ),
    option("--rounds", "of --vs: measured runs of each variant (default: 3)", "N", integer),
    option(
        "--show", f"the views: none, {', '.join(VIEWS)}, all; several with commas", "VIEWS", views
    ),
    option(
        "--keep",
        f"views with a picture in the saved notebook: {', '.join(KEPT_VIEWS)}",
        "VIEWS",
        kept_views,
    ),
    option("--static", "pictures instead of live views; they need no kernel"),
    option("--special-tokens", "parse special tokens in roles and arguments", former="--marks"),
    option("--dry", "generate nothing: estimate the calls, and compile their grammars"),
    option(
        "--bg", "run in the background; the value is available at once and has cancel() and wait()"
    ),
    option("--step", "pause before each append, call and token; the cell runs in the background"),
    option(
        "--until",
        'as --step, but pause only at this line of the cell, or below a probability: 5, "p<0.1"',
        "WHERE",
        condition,
    ),
    option("--timeout", "cancel the run after this time, in seconds", "S", seconds),
    option("-q --quiet", "bind the state without views"),
)

FSM_OPTIONS = (
    option("--tokens", "also the allowed tokens at each choice, for the current engine"),
    option("--documents", "a folder with other schemas that the schema refers to", "FOLDER", text),
)

TRACE_OPTIONS = (
    option("--export", "write a file: .html, .jsonl, or .json for ui.perfetto.dev", "FILE", text),
)

SAMPLING = (
    "temperature", "top_p", "max_new_tokens", "seed", "recorded_alternatives", "approximate",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Command:
    """A command of `%sglang`."""

    help: str
    actions: tuple[str, ...] = ()  # valid next words; the default is first
    takes: str = ""  # name of the argument; brackets mark an optional argument
    options: tuple[Option, ...] = ()
    raw: bool = False
    """The argument is the verbatim rest of the line, with blanks, quotes and dashes. Switches stand
    before or after the argument."""


COMMANDS = {
    "load": Command(
        "load a model: a folder, a hub id, or tiny (the bundled one)",
        takes="PATH_OR_ID",
        options=LOAD_OPTIONS,
    ),
    "engine": Command(
        "the loaded engines: list, choose, unload, describe",
        ("ls", "use", "unload", "info"),
        "[NAME]",
    ),
    "attach": Command(
        "use the engine of another notebook or of a host process (default: the only one)",
        takes="[HOST]",
        options=(option("--token", "secret of a host at tcp://HOST:PORT", "TOKEN", text),),
    ),
    "share": Command("let other notebooks attach to an engine of this kernel", takes="[NAME]"),
    "serve": Command(
        "serve an engine to other programs on loopback, with OpenAI's and SGLang's protocols",
        takes="[NAME]",
        options=(option("--port", "of 127.0.0.1 (default: any free port)", "N", integer),),
    ),
    "cache": Command(
        "the radix tree and its statistics; flush the cache; pin or unpin a run or a node; list"
        " pins; load durable pins from the disk; evict a node and its descendants; list models on"
        " the disk; forget a model there, or all",
        ("show", "stats", "flush", "pin", "unpin", "pins", "restore", "evict", "stored", "forget"),
        "[RUN|NODE|MODEL]",
        (option("--durable", "of pin: keep the prefix on the disk, for later processes, too"),),
    ),
    "fsm": Command(
        "the automaton of a regex, JSON schema, dtype or choices, or the rules of a grammar: size,"
        " forced text, examples, warnings",
        takes="REGEX_OR_SCHEMA",
        options=FSM_OPTIONS,
        raw=True,
    ),
    "dashboard": Command("live views of the engine"),
    "recording": Command(
        "show or export the last run, or the run with this id, without an engine; on and off record"
        " all runs",
        takes="[on|off|last|RUN]",
        options=TRACE_OPTIONS,
    ),
    "tour": Command(
        "the views of the last run, or of the run with this id, in steps with a sentence each",
        takes="[last|RUN]",
    ),
    "bench": Command(
        "measure a program in turns: unchanged, without each technique, or against other"
        " libraries; report differences with confidence intervals",
        takes="[PROGRAM]",
        options=BENCH_OPTIONS,
    ),
    "check": Command(
        "run a program over rows and compare the answers with expected answers: right, wrong,"
        " changed since the last check, with a confidence interval",
        takes="PROGRAM",
        options=CHECK_OPTIONS,
    ),
    "lab": Command(
        "controls for a program's parameters, a grid of settings by rows, and ratings",
        takes="PROGRAM",
        options=LAB_OPTIONS,
    ),
    "runs": Command(
        "list runs; compare two recorded runs by lines, text and figures (default: the last two"
        " runs of the last cell); rerun the failed rows of the batch in a variable (default: s)",
        ("ls", "compare", "rerun"),
        "[RUN RUN|VAR]",
    ),
    "cancel": Command("cancel a run, or all runs", takes="[RUN|all]"),
    "doctor": Command("check the features of this machine, with remedies"),
}

FORMER_NAMES = {"stop": "cancel", "trace": "recording"}
"""Former names of commands, accepted with a warning."""

NEED_NAME = ("use", "pin", "evict", "forget")
"""Actions with a required argument."""


class LineCall(NamedTuple):
    """A validated `%sglang` line."""

    name: str  # name of the command
    action: str  # action, "" for a command without actions
    argument: str  # argument, "" if absent
    options: dict[str, Any]

    @classmethod
    def parse(cls, line: str) -> LineCall:
        name, *after = line.split(maxsplit=1)
        if name in FORMER_NAMES:
            renamed(f"%sglang {name}", f"%sglang {FORMER_NAMES[name]}")
            name = FORMER_NAMES[name]
        if name not in COMMANDS:
            raise OptionError(f"%sglang has no command {name!r}", nearest(name, COMMANDS))
        command = COMMANDS[name]
        words, table = "".join(after), command.options
        arguments, options = parse_raw(words, table) if command.raw else parse(split(words), table)

        action = command.actions[0] if command.actions else ""
        if command.actions and arguments:
            action = arguments.pop(0)
            if action not in command.actions:
                message = f"%sglang {name} has no {action!r}"
                raise OptionError(message, nearest(action, command.actions))

        count = len(command.takes.split())
        argument = " ".join(map(unquote, arguments[:count]))
        del arguments[:count]
        if arguments:
            message = f"%sglang {name}: {arguments[0]!r} is not expected"
            raise OptionError(message, f"{name} {command.takes}".strip())
        needed = command.takes and not command.takes.startswith("[")
        if not argument and (needed or action in NEED_NAME):
            usage = f"%sglang {name} {action}".rstrip()
            missing = "an argument" if command.raw else "a name"
            raise OptionError(f"{usage} needs {missing}", f"{usage} {command.takes.strip('[]')}")
        return cls(name, action, argument, options)


@dataclass(frozen=True, slots=True)
class CellLine:
    """The validated line of a `%%sglang` cell."""

    name: str = ""
    params: tuple[Param, ...] = ()
    model: str = ""
    out: str = "s"
    over: str = ""
    save: str = ""
    frame: bool = False
    run: tuple[tuple[str, str], ...] = ()
    source: str = ""  # variable with the state to continue from
    sampling: tuple[tuple[str, Any], ...] = ()  # explicit sampling parameters only
    vs: tuple[str, ...] = ()  # variants of a comparison
    rounds: int | None = None
    show: tuple[str, ...] = VIEWS
    keep: tuple[str, ...] = ()
    static: bool = False
    special_tokens: bool = False
    dry: bool = False
    bg: bool = False
    step: bool = False
    until: int | str | None = None  # condition of a pause
    timeout: float | None = None
    quiet: bool = False

    @classmethod
    def parse(cls, line: str) -> CellLine:
        arguments, values = parse(split(line), CELL_OPTIONS)
        _check_dry(values)
        sampling = tuple((key, values.pop(key)) for key in SAMPLING if key in values)
        values["run"] = tuple(values.get("run", ()))
        name = identifier("program name", arguments[0]) if arguments else ""
        cell = cls(
            name, tuple(Param.parse(word) for word in arguments[1:]), sampling=sampling, **values
        )
        cell._check()
        return cell

    @property
    def defines_only(self) -> bool:
        """Return True if the cell only defines a program: the program has parameters and the line
        has no arguments."""
        return bool(self.params) and not self.over and not self.run

    @property
    def in_background(self) -> bool:
        """Return True if the cell returns at once. The kernel must be free for steps."""
        return self.bg or self.step or self.until is not None

    def begin(self, run: Run) -> None:
        """Pause a run before the first append, if the line says so."""
        if self.step or self.until is not None:
            run.pause(self.until)

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments from `--run`, converted to the parameter types."""
        params = {param.name: param for param in self.params}
        for key, _ in self.run:
            if key not in params:
                message = f"--run {key}=...: the program has no parameter {key!r}"
                raise OptionError(message, nearest(key, params))
        return {key: params[key].value(word) for key, word in self.run}

    def _check(self) -> None:
        names = [param.name for param in self.params]
        for name in names:
            if names.count(name) > 1:
                hint = "every parameter needs a different name"
                raise OptionError(f"parameter {name!r} is given twice", hint)

        if (self.over or self.run) and not self.params:
            option = "--over" if self.over else "--run"
            message = f"{option} needs a program with parameters"
            raise OptionError(message, f"%%sglang answer q {option} ...")
        if self.over and self.run:
            hint = "--over runs a batch, --run a single program"
            raise OptionError("--over and --run exclude each other", hint)
        if (self.save or self.frame) and not self.over:
            message = f"{'--save' if self.save else '--frame'} is for a batch"
            raise OptionError(message, "give it with --over")
        if self.step and self.until is not None:
            raise OptionError("--step and --until exclude each other", "--until runs to the stop")
        self._check_comparison()
        self.arguments()

    def _check_comparison(self) -> None:
        if self.rounds is not None and not self.vs:
            raise OptionError("--rounds is for a comparison", "give it with --vs")
        if not self.vs:
            return
        if self.defines_only:
            hint = "give the program arguments with --run or --over"
            raise OptionError("--vs runs the program, and it has parameters", hint)
        for name in ("bg", "save", "frame", "step", "until"):
            if getattr(self, name):
                message = f"--{name} and --vs exclude each other"
                raise OptionError(
                    message, "a comparison runs the program several times in the foreground"
                )


def _check_dry(values: dict[str, Any]) -> None:
    """Reject options without an effect on a dry run. A dry run shows only a table and ends
    immediately."""
    flags = {option.dest: option.flags[-1] for option in CELL_OPTIONS}
    for dest in ("out", "vs", "show", "keep", "static", "bg", "step", "until", "timeout", "quiet"):
        if values.get("dry") and dest in values:
            message = f"--dry and {flags[dest]} exclude each other"
            raise OptionError(message, "a dry run only shows a table")
