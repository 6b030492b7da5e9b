"""Write the API reference as Markdown for Sphinx: an entry per public name with signature and
docstring, and the options of both magics.

`problems()` returns missing descriptions; a test in `tests/docs` requires an empty result.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

import sgnb
import sgnb.lang
from sgnb.backends.api.usage import Usage
from sgnb.engine.options import EngineOptions
from sgnb.engine.request.output import Output
from sgnb.lang.graph.code_motion import Motion
from sgnb.magics.bench import BenchReport
from sgnb.magics.check_report import CheckReport
from sgnb.magics.compare import CompareReport
from sgnb.magics.dry_report import DryReport
from sgnb.magics.fsm import FsmReport
from sgnb.magics.lab import Lab
from sgnb.magics.line import Option
from sgnb.magics.magic_options import CELL_OPTIONS, COMMANDS
from sgnb.magics.runs import BackgroundRun
from sgnb.magics.table import Facts, Table
from sgnb.magics.tour import Tour
from sgnb.magics.why import WhyReport
from sgnb.viz import Recording
from sgnb.viz.live.kept_pictures import ViewPicture

RESULTS = (
    Table,
    Facts,
    Recording,
    BenchReport,
    CheckReport,
    CompareReport,
    DryReport,
    FsmReport,
    Lab,
    Tour,
    ViewPicture,
    WhyReport,
    BackgroundRun,
    Usage,
)
"""What public functions give back."""

OTHERS = {kind.__name__: kind for kind in (EngineOptions, Motion, Output, *RESULTS)}
"""What has an entry and no public name."""

API = ("OpenAI", "Anthropic", "VertexAI", "LiteLLM", "RuntimeEndpoint")

PAGES = {
    "words": (
        "Words",
        "What a program appends to its state. In a `%%sglang` cell they need no import.",
        "gen gen_int gen_string select system user assistant system_begin system_end user_begin "
        "user_end assistant_begin assistant_end image video audio raw data separate_reasoning tool "
        "use_tools unordered "
        "REGEX_INT REGEX_FLOAT REGEX_BOOL REGEX_STR",
    ),
    "patterns": (
        "Higher words and agents",
        "Plain functions of a state, made of the words.",
        "best_of_n majority_vote judge map_over retry beam_search tree_search agent Tool ToolCall",
    ),
    "choices": (
        "Choosing",
        "Methods of `select`, and what it takes to write another.",
        "token_length_normalized greedy_token_selection unconditional_likelihood_normalized "
        "needs_unconditional ChoicesSamplingMethod ChoicesDecision",
    ),
    "programs": (
        "Programs and states",
        "What `function` makes, and what a run of it gives.",
        "function SglFunction CompiledProgram Graph Motion ProgramState ForkGroup Snapshot "
        "SavedState Run watch name_cells set_default_backend set_default_executor global_config",
    ),
    "engine": (
        "Engine",
        "Without programs: prompts in, texts out.",
        "Engine EngineOptions SamplingParams Output",
    ),
    "api": (
        "Models behind an API",
        "Backends that need no engine: `set_default_backend`, or `backend=` of a run.",
        "OpenAI Anthropic VertexAI LiteLLM RuntimeEndpoint",
    ),
    "session": (
        "Session",
        "The Python twins of `%sglang`: engines, runs, the cache, and what is to be seen of them.",
        "",
    ),
    "errors": (
        "Errors",
        "",
        " ".join(
            sorted(
                name
                for name, value in vars(sgnb.errors).items()
                if isinstance(value, type) and issubclass(value, Exception)
            )
        ),
    ),
}
"""Page -> title, introduction, names; `session` has all public names that stand nowhere else."""

INTERNAL = {
    "Engine": "submit compiled_grammar",
    **dict.fromkeys(API, "generate score send request_of model_name tokenizer_id encode"),
    "Engines": "get backend adopt adopt_remote name_of",
    "Runs": "",
    "SamplingParams": "ignored scores_next penalises adjusts_logits filters is_plain thinking_end "
    "grammar names",
    "EngineOptions": "on precompiles make",
    "Graph": "called signature",
    "Run": "state forget params tick wait cancel stop_all join mark_read count_finished finish",
    "SavedState": "of",
    "Snapshot": "role read_by",
    "ToolCall": "run",
    "Recording": "widget_of",
    "Recordings": "keep",
}
"""Members that other rooms of sgnb need, and nobody else."""

MADE_HERE = {
    *(kind.__name__ for kind in RESULTS),
    *(
        "ForkGroup",
        "Graph",
        "Motion",
        "Output",
        "ProgramState",
        "Run",
        "SavedState",
        "SglFunction",
        "ToolCall",
    ),
}
"""Classes that sgnb makes: a reader calls none of them."""

SPOKEN = ("__call__", "__getitem__")
"""Members with underscores that a reader uses."""


@dataclass(frozen=True)
class Item:
    label: str  # as a reader writes it
    kind: str  # a directive of Sphinx's Python domain
    doc: str
    signature: inspect.Signature | None
    members: tuple[Item, ...] = ()
    value: str = ""  # of a constant

    def walk(self) -> Iterator[Item]:
        yield self
        for member in self.members:
            yield from member.walk()


def items() -> dict[str, list[Item]]:
    """All entries by page."""
    named = {name for _, _, names in PAGES.values() for name in names.split()}
    rest = [name for name in sgnb.__all__ if name not in {*named, "errors"}]
    rest += [kind.__name__ for kind in RESULTS]
    return {page: [_item(n) for n in names.split() or rest] for page, (*_, names) in PAGES.items()}


def pages() -> dict[str, str]:
    """The reference as Markdown, by page."""
    known = {re.sub(r"^sgnb\.((lang|errors)\.)?", "", each.label): each.label for each in walk()}
    found = {
        page: "\n\n".join(
            [f"# {PAGES[page][0]}", PAGES[page][1], *(_entry(i, known) for i in listed)]
        )
        for page, listed in items().items()
    }
    return found | {"magics": _magics()}


def labels() -> list[str]:
    """Of all entries, members included."""
    return [item.label for item in walk()]


def walk() -> Iterator[Item]:
    for listed in items().values():
        for item in listed:
            yield from item.walk()


def problems() -> Iterator[str]:
    """Yield entries without a docstring, and parameters without a description in any docstring of
    the entry."""
    docs = {item.label.split(".")[-1]: item.doc for item in walk()}
    for item in walk():
        if not item.doc:
            yield f"{item.label} has no docstring"
        spans = re.findall(r"`([^`]+)`", item.doc)
        words = [word for span in spans for word in re.findall(r"\w+", span)]
        spoken = " ".join([item.doc, *(docs.get(word, "") for word in words)])
        for name in _parameters(item.signature):
            word = rf"\b{name}\b" if len(name) > 3 else rf"`[^`]*\b{name}\b[^`]*`|\b{name}: "
            if not re.search(word, spoken):
                yield f"{item.label}: nothing is said of {name}"


def _item(name: str) -> Item:
    for module in (sgnb, sgnb.errors, sgnb.lang):
        if name in dir(module):
            return _described(f"{module.__name__}.{name}", getattr(module, name))
    return _described(name, OTHERS[name])


def _described(label: str, value: Any) -> Item:
    if isinstance(value, str):
        return Item(
            label, "data", _beside(sgnb.lang.ir)[label.split(".")[-1]], None, (), repr(value)
        )
    if isinstance(value, type):
        name = value.__name__
        kind = "exception" if issubclass(value, Exception) else "class"
        listed = [f"{field}: {text}" for field, text in _fields(value)]
        made = None if name in MADE_HERE else vars(value).get("__init__")
        said = [each.__doc__ for each in (value, made) if each and each.__doc__]
        doc = "\n\n".join([*map(inspect.cleandoc, said), *listed])
        signature = None if kind == "exception" or name in MADE_HERE else inspect.signature(value)
        return Item(label, kind, doc, signature, tuple(_members(value, label, "method")))
    if inspect.isroutine(value):
        return _routine(label, "function", value)
    members = {each.label: each for each in _members(type(value), label, "function")}
    call = members.pop(label, None)
    docs = [inspect.cleandoc(type(value).__doc__ or ""), call.doc if call else ""]
    kind, signature = ("function", call.signature) if call else ("data", None)
    return Item(label, kind, "\n\n".join(docs).strip(), signature, tuple(members.values()))


def _members(owner: type, label: str, kind: str) -> Iterator[Item]:
    """Yield the entry of a class, or of the instance `label` with methods as functions."""
    ours = [each for each in owner.__mro__ if each.__module__.startswith("sgnb")]
    hidden = INTERNAL.get(owner.__name__, "").split()
    seen: dict[str, Any] = {}
    for each in ours:
        for name, value in vars(each).items():
            if name not in hidden and (name in SPOKEN or not name.startswith("_")):
                seen.setdefault(name, value)
    for name, value in seen.items():
        value = inspect.unwrap(getattr(value, "__func__", value))
        path = label if (kind, name) == ("function", "__call__") else f"{label}.{name}"
        if isinstance(value, property | cached_property):
            doc = inspect.cleandoc(value.__doc__ or "")
            yield Item(path, "data" if kind == "function" else "property", doc, None)
        elif inspect.isfunction(value):
            yield _routine(path, kind, value)


def _routine(label: str, kind: str, value: Any) -> Item:
    return Item(label, kind, inspect.cleandoc(value.__doc__ or ""), inspect.signature(value))


def _fields(owner: type) -> Iterator[tuple[str, str]]:
    """Return the fields of a dataclass with their comments."""
    if is_dataclass(owner):
        beside = _beside(owner)
        for field in fields(owner):
            if not field.name.startswith("_") and field.name in beside:
                yield field.name, beside[field.name]


def _beside(owner: Any) -> dict[str, str]:
    """Return the description of each assignment in a class or module: the comment above or at the
    end of the line, or the string below a group of assignments."""
    path = Path(inspect.getsourcefile(owner) or "")
    lines = path.read_text(encoding="utf-8").splitlines()
    body = ast.parse("\n".join(lines)).body
    if isinstance(owner, type):
        body = next(
            each.body
            for each in body
            if isinstance(each, ast.ClassDef) and each.name == owner.__name__
        )
    found: dict[str, str] = {}
    below, line_below = "", 0
    for node in reversed(body):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            below, line_below = inspect.cleandoc(str(node.value.value)), node.lineno
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
        above = takewhile(
            lambda line: line.strip().startswith("#"), reversed(lines[: node.lineno - 1])
        )
        end = (node.end_lineno or 0) - 1
        after = lines[end].encode()[node.end_col_offset :].decode()
        remark = " ".join(line.strip(" #") for line in [*[*above][::-1], after]).strip()
        if end + 2 == line_below:
            remark, line_below = remark or below, node.lineno
        if remark:
            found[ast.unparse(target)] = remark
    return found


def _parameters(signature: inspect.Signature | None) -> list[str]:
    """Return the keyword parameters."""
    if signature is None:
        return []
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    given = [p.name for p in signature.parameters.values() if p.kind not in kinds]
    return [name for name in given if name not in ("self", "cls", "s", "func")]


def _entry(item: Item, known: dict[str, str]) -> str:
    depth = "`" * (4 if item.kind in ("class", "exception") else 3)
    own_members = item.kind in ("class", "exception")
    parts = [_text(item.doc, _parameters(item.signature), known)]
    if own_members:
        parts += [_entry(member, known) for member in item.members]
    lines = [f"{depth}{{py:{item.kind}}} {item.label}{_signature(item)}"]
    if item.value:
        lines.append(f":value: {item.value}")
    text = "\n".join([*lines, "", "\n\n".join(part for part in parts if part), depth])
    if not own_members:
        text = "\n\n".join([text, *(_entry(member, known) for member in item.members)])
    return text


def _signature(item: Item) -> str:
    if item.signature is None:
        return ""
    shown = []
    for each in item.signature.parameters.values():
        kind = "" if each.annotation in (each.empty, "Any") else str(each.annotation)
        default = each.default
        if default is not each.empty and not isinstance(default, str | int | float | tuple | None):
            default = ...
        shown.append(each.replace(annotation=kind or each.empty, default=default))
    returns = item.signature.return_annotation
    if item.kind == "class" or returns in ("None", "Any"):
        returns = inspect.Signature.empty
    text = str(item.signature.replace(parameters=shown, return_annotation=returns))
    text = re.sub(r"(: |-> )(['\"])(.*?)\2(?=,|\)| =|$)", r"\1\3", text)
    return text.replace("Ellipsis", "...").replace("(self, ", "(").replace("(self)", "()")


def _text(doc: str, parameters: list[str], known: dict[str, str]) -> str:
    """Return a docstring as Markdown: `name: text` becomes a list of parameters, lines of code
    become code, errors become a list, and names with an entry become links."""
    shown: list[str] = []
    listed: list[tuple[str, str]] = []
    others = {name: label for name, label in known.items() if name not in parameters}
    for paragraph in re.split(r"\n\s*\n(?!    )", doc):
        header, _, body = paragraph.partition("\n")
        if header == "Args:":
            listed += _listed(body)
            continue
        if header == "Raises:":
            errors = [f"- {name}: {_inline(text, others)}" for name, text in _listed(body)]
            shown.append("\n".join(["Raises:", "", *errors]))
            continue
        if header == "Example:" or _is_code(paragraph):
            code = textwrap.dedent(body) if header == "Example:" else inspect.cleandoc(paragraph)
            shown.append(f"~~~python\n{code}\n~~~")
            continue

        words = " ".join(paragraph.split())
        lead, *parts = re.split(rf"(?:^|(?<=[.;:?] ))({'|'.join(parameters) or '(?!)'}): ", words)
        if lead:
            shown.append(_inline(lead, others))
        listed += zip(parts[::2], parts[1::2], strict=True)
    described = [f":param {name}: {_inline(text.strip(), others)}" for name, text in listed]
    return "\n\n".join([*shown, "\n".join(described)]).strip()


def _listed(section: str) -> list[tuple[str, str]]:
    """Return names and descriptions of a section "Args" or "Raises"."""
    entries: list[tuple[str, str]] = []
    for line in section.splitlines():
        name, colon, text = line.strip().partition(": ")
        if line.startswith("    ") and not line.startswith("     ") and colon:
            entries.append((name.replace("*", r"\*"), text))
        elif entries:
            entries[-1] = entries[-1][0], f"{entries[-1][1]} {line.strip()}"
    return entries


def _is_code(paragraph: str) -> bool:
    try:
        (node,) = ast.parse(inspect.cleandoc(paragraph)).body
    except (SyntaxError, ValueError):
        return False
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def _inline(text: str, known: dict[str, str]) -> str:
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(
        _span(part, known) if part.startswith("`") else re.sub(r"([\\<>*_\[\]{}|#])", r"\\\1", part)
        for part in parts
    )


def _span(span: str, known: dict[str, str]) -> str:
    name = span.strip("`").removeprefix("sgnb.")
    return f"{{py:obj}}`{name} <{known[name]}>`" if name in known else span


def _magics() -> str:
    parts = [
        "# Magics",
        "## %%sglang",
        "`%%sglang [NAME] [PARAM ...] [options]`, and below it a program's body. `%%sglang?` says"
        " it in a notebook; [Quickstart](../notebooks/01_quickstart.ipynb) shows what cells do.",
        *_options("cell", CELL_OPTIONS),
        "## %sglang",
    ]
    for name, command in COMMANDS.items():
        usage = " ".join(word for word in (name, "|".join(command.actions), command.takes) if word)
        parts += [f"### %sglang {name}", f"`%sglang {usage}`", f"{_help(command.help)}."]
        parts += _options(name, command.options)
    return "\n\n".join(parts) + "\n"


def _options(program: str, options: tuple[Option, ...]) -> Iterator[str]:
    yield f"```{{program}} {program}\n```"
    for each in options:
        flags = ", ".join(f"{flag} {each.metavar}".strip() for flag in each.flags)
        yield f"```{{option}} {flags}\n\n{_help(each.help)}.\n```"


def _help(text: str) -> str:
    """Return a sentence with options as code."""
    return re.sub(r"(?<!\w)(--\w[\w-]*)", r"`\1`", _inline(text[:1].upper() + text[1:], {}))
