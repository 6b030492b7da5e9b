"""Help texts of both magics, from the option tables."""

from __future__ import annotations

from .line import Option
from .magic_options import CELL_OPTIONS, COMMANDS


def _usage(options: tuple[Option, ...]) -> list[str]:
    rows = [
        (", ".join(option.flags) + (f" {option.metavar}" if option.metavar else ""), option.help)
        for option in options
    ]
    width = max(len(usage) for usage, _ in rows) + 2
    return [f"  {usage:<{width}}{right}" for usage, right in rows]


CELL_HELP = """\
Run the cell as a language-model program.

%%sglang [NAME] [PARAM ...] [options]
BODY

BODY is Python in a separate function. `s` is the state. The primitives of the language
(gen, select, system, user, assistant, ...) need no import, and names of the notebook are
available. Variables of the body stay local.
  no NAME         run now. With --show none the state is the value of the cell; otherwise
                  the views show the run
  NAME            run now, and define NAME to run the program again: NAME(), NAME.run()
  NAME PARAM ...  define a program: NAME(q=...), NAME.run(q=...),
                  NAME.run_batch([...]), await NAME.arun(q=...), NAME.dry(q=...).
                  PARAM is name[:type][=literal], for example q:str n:int=3

The variable `s`, or VAR with -o VAR, is bound to
  the state by default; with --bg the state can be read during the run
  a list of states, one per row, with --over; with --frame a data frame
  a handle with `states` and `value`, with --bg --over
  the comparison, with --vs; its `state` is the state of the unmodified program
States and handles with --bg have `status`, stop() and wait(); wait() raises the error
of the run.
"""


def cell_help() -> str:
    return "\n".join([CELL_HELP, *_usage(CELL_OPTIONS)])


def line_help() -> str:
    lines = ["%sglang: models, cache and runs (%%sglang? is the help for programs)", ""]
    for name, command in COMMANDS.items():
        words = [name, f"[{'|'.join(command.actions)}]" if command.actions else "", command.takes]
        lines += [f"  %sglang {' '.join(word for word in words if word)}", f"      {command.help}"]
        if command.options:
            lines += ["      " + row for row in _usage(command.options)]
    lines += [
        "",
        "In Python: sgnb.load(path), sgnb.engines.ls(), sgnb.cache.stats(), sgnb.fsm(pattern), ...",
    ]
    return "\n".join(lines)
