"""Drawn programs with edits between compile and run: each run as a graph is compared with the run
of the program's code."""

from __future__ import annotations

import contextlib
import linecache
import random
import re
import warnings
from collections import Counter
from typing import Any

import sgnb as sgl
from sgnb.errors import TraceError
from sgnb.lang import SglFunction

from .fake import FakeExecutor

RUNS = 3
"""Runs of each program."""

TEXTS = "sum", "12", "", "a longer text", "yes"

EXPRESSIONS = (
    "q", "w", "'text '", "TONE", "f'<{q}>'", "f'{q} and {w}'", "helper(q)", "', '.join(SHOTS)",
    "TABLE['x']", "f'{TABLE}'", "str(count)", "f'{count:02d}'", "'%s|%s' % (q, w)", "SHOTS[-1]",
    "'{} {}'.format(q, TONE)", "Space.style", "read(w)", "'known' if flag else 'new'",
)  # fmt: skip
GENERATED = (
    "s[{name!r}]", "f\"({{s[{name!r}]}})\"", "'-'.join([s[{name!r}], q])", "helper(s[{name!r}])",
)  # fmt: skip
DECISIONS = (
    "re.match(r'[0-9]', q)", "NUMBER.search(w)", "count > 1", "flag", "TONE == 'kind'",
    "len(SHOTS) > 2", "TABLE.get('y')", "'summary'.startswith(q)", "isinstance(q, str)",
    "longer(w)", "q == 'sum'", "f'{q}' == 'sum'", "len(f'{w}') > 4", "TABLE.get(f'{q}')",
)  # fmt: skip
GENERATED_DECISIONS = (
    "re.match(r'<[0-9]', s[{name!r}])", "longer(s[{name!r}])", "s[{name!r}] in '<1><2>'",
    "len(f\"{{s[{name!r}]}}\") > 4", "NUMBER.search(f\"{{s[{name!r}]}}\")", "s[{name!r}] == 'a'",
)  # fmt: skip
EDITS = (
    "TONE = 'terse'", "SHOTS.append('new')", "TABLE['x'] = 'other'", "TABLE['y'] = 1",
    "Space.style = 'bold'", "helper = lambda text: f'[{text}]'", "SHOTS = ['only']",
    "def read(text): return TONE + text", "", "",
)  # fmt: skip
MODULE = """
import re

TONE = "kind"
SHOTS = ["first", "second"]
TABLE = {"x": "value"}
NUMBER = re.compile("[0-9]+")

class Space:
    style = "plain"

def helper(text):
    return f"<{text}>"

def longer(text):
    return len(f"{text}") > 4

def read(text):
    return text + TONE

def inner(s, w, part="a"):
    s += "{" + w + TONE + part + "}" + sgl.gen("inner", max_tokens=4)
    return s["inner"]

"""


class DrawnProgram:
    """A program as source text.

    Args:
        seed: Determines the program, the edits and the arguments.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.file = f"<drawn program {seed}>"
        self._names = 0
        lines = [
            "def program(s, q, w='word', count=1, flag=False):",
            *self._block(self.random.randint(2, 6), [], "    "),
        ]
        self.source = MODULE + "\n".join(lines) + "\n"

    def define(self) -> tuple[SglFunction, dict[str, Any]]:
        """Return the program and the globals of the program."""
        linecache.cache[self.file] = (
            len(self.source), None, self.source.splitlines(True), self.file
        )  # fmt: skip
        scope: dict[str, Any] = {"sgl": sgl, "__name__": "drawn"}
        exec(compile(self.source, self.file, "exec"), scope)
        scope["inner"] = sgl.function(scope["inner"])
        return sgl.function(scope["program"]), scope

    def arguments(self) -> dict[str, Any]:
        """Draw the arguments of a run."""
        draw, arguments = self.random, {"q": self.random.choice(TEXTS)}
        if draw.random() < 0.5:
            arguments["w"] = draw.choice(TEXTS)
        if draw.random() < 0.3:
            arguments["count"] = draw.randint(1, 3)
        if draw.random() < 0.3:
            arguments["flag"] = draw.random() < 0.5
        return arguments

    def edit(self) -> str:
        """Draw an edit of the globals."""
        return self.random.choice(EDITS)

    def _block(self, size: int, known: list[str], indent: str) -> list[str]:
        lines: list[str] = []
        for _ in range(size):
            lines += [indent + line for line in self._statement(known, len(indent) < 12)]
        return lines

    def _statement(self, known: list[str], deep: bool) -> list[str]:
        draw = self.random
        kind = draw.choice(["text"] * 3 + ["gen"] * 3 + ["role", "set", "call", "run", "parts"])
        if deep and draw.random() < 0.35:
            kind = draw.choice(["if", "if", "for", "fork"])
        if kind == "text":
            return [f"s += {self._expression(known)}"]
        if kind == "gen":
            name = self._name(known)
            option = draw.choice(
                ["", ", max_tokens=3 + count", ", stop=SHOTS[0]", ", stop=q or 'a'"]
            )
            return [f"s += {self._expression(known)} + sgl.gen({name!r}{option})"]
        if kind == "role":
            return [f"s += sgl.user({self._expression(known)})"]
        if kind == "parts":
            parts = ", ".join(self._expression(known) for _ in range(draw.randint(1, 3)))
            return [
                f"s += sgl.unordered({parts}, separator={draw.choice(['q', 'TONE', repr(' ')])})"
            ]
        if kind == "set":
            return [f"s['v{len(known)}'] = {self._expression(known)}"]
        if kind == "call":
            return [f"s += inner(s, {self._expression(known)}, part=TONE)"]
        if kind == "run":
            return [f"s += inner.run({self._expression(known)})['inner']"]
        if kind == "for":
            return ["for shot in SHOTS[:count + 1]:", "    s += shot"]
        if kind == "fork":
            name = self._name([])
            body = f"{self._expression(known)} + sgl.gen({name!r}, max_tokens=4)"
            return ["forks = s.fork(2)", f"forks += lambda i: f'{{i}}' + {body}", "forks.join()",
                    f"s += '|'.join(s[{name!r}])"]  # fmt: skip
        condition = self._choice(DECISIONS, GENERATED_DECISIONS, known, 0.1)
        then = self._block(1, list(known), "    ")
        return [f"if {condition}:", *then, "else:", *self._block(1, list(known), "    ")]

    def _expression(self, known: list[str]) -> str:
        return self._choice(EXPRESSIONS, GENERATED, known, 0.25)

    def _choice(self, plain: Any, generated: Any, known: list[str], share: float) -> str:
        if known and self.random.random() < share:
            template: str = self.random.choice(generated)
            return template.format(name=self.random.choice(known))
        return str(self.random.choice(plain))

    def _name(self, known: list[str]) -> str:
        self._names += 1
        known.append(f"x{self._names}")
        return known[-1]


def outcome(program: Any, arguments: dict[str, Any], executor: FakeExecutor) -> Any:
    """Return the results of a run, or the type and the message of the error."""
    try:
        state = program.run(**arguments, backend=executor)
        state.sync()
    except Exception as error:
        message = re.sub(r"^\S+ program \d+>:\d+: ", "", str(error)).partition("\n")[0]
        return type(error).__name__, message
    return state.text(), state._branch.variables, state.messages(), state.ret_value


def compiled(program: SglFunction, arguments: dict[str, Any], check: bool) -> Any:
    """Return the graph with as many placeholders as possible, or None."""
    some = {name: value for name, value in arguments.items() if name != "q"}
    for values in ({}, some, arguments):
        with contextlib.suppress(Exception):
            return program.compile(check=check, **values)
    return None


def run_fuzz(seeds: range, check: bool = True) -> tuple[Counter[str], list[str]]:
    """Run drawn programs, with an edit before each run.

    Args:
        seeds: One program per seed.
        check: Compile with the check.

    Returns:
        The number of runs per result ("equal", "refused", "error", "different"), and the sources
        of the programs with a different run.
    """
    counts: Counter[str] = Counter()
    different = []
    executor = FakeExecutor()
    sgl.set_default_backend(executor)
    try:
        for seed in seeds:
            drawn = DrawnProgram(seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = _results(drawn, check, executor)
            counts.update(results or ["no graph"])
            if "different" in results:
                different.append(f"seed {seed}\n{drawn.source}")
            linecache.cache.pop(drawn.file, None)
    finally:
        sgl.set_default_backend(None)
        executor.close()
    return counts, different


def _results(drawn: DrawnProgram, check: bool, executor: FakeExecutor) -> list[str]:
    program, scope = drawn.define()
    first, results = drawn.arguments(), []
    graph = compiled(program, first, check)
    for _ in range(0 if graph is None else RUNS):
        exec(drawn.edit(), scope)
        names = graph.signature.parameters
        drawn_now = drawn.arguments().items()
        arguments = {name: value for name, value in drawn_now if name in names}
        fixed = {name: value for name, value in first.items() if name not in names}
        expected = outcome(program, {**fixed, **arguments}, executor)
        results.append(_compared(outcome(graph, arguments, executor), expected))
    return results


def _compared(result: Any, expected: Any) -> str:
    if result == expected:
        return "error" if len(result) == 2 else "equal"
    return "refused" if result[0] == TraceError.__name__ else "different"
