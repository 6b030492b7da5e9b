"""`python -m tools.prose [--lower]`: measure names, prose and size, and compare with ceilings.

Reads docstrings and comments of `sgnb/`, the pages in `docs/`, and README.md. The ceilings stand in
pyproject.toml under `[tool.prose.ceilings]` and may only fall: `--lower` writes the measured values
below them. CONTRIBUTING.md explains the rules behind the measures.
"""

from __future__ import annotations

import argparse
import ast
import io
import math
import re
import sys
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ("sgnb", "docs", "README.md")
SETTINGS = ROOT / "pyproject.toml"
SGLANG_PATHS = (
    "sgnb/api.py", "sgnb/lang/api.py", "sgnb/lang/backend/", "sgnb/lang/choices.py",
    "sgnb/lang/tracer.py",
)  # fmt: skip
"""Files whose names SGLang has chosen."""

PRONOUNS = re.compile(
    r"what|who|whose|whoever|that|those|which|it|its|ones?|others?|such|so|there|where", re.I
)
EMPTY_NAMES = re.compile(
    r"_*(ones?|made|found|own|what|known|told|given|most|before|rest|held|kept|seen|taken|left|said)"
)
OPENINGS = re.compile(r"(What|Who|Whether|How|Of|As|So)\b")
DENIED = re.compile(
    r"\b(so many|for want of|but for|as long as ever|let go|is told|are told|of these|by hand of|"
    r"the same of|of its own accord|those of|in place of|beside)\b"
)
PARTICIPLE = re.compile(
    r"(?:.*[a-z])?(?:[A-Z][a-z]*[^e]ed|Made|Known|Taken|Written|Seen|Ran|Kept|Cut|Held|Told|Given|Found|"
    r"Drawn|Shown|Left|Lost|Sent|Spent|Read)"
)
"""Class names outside the events, which are past participles by convention."""

MAX_SENTENCE = 30  # words
MAX_FUNCTION = 60  # lines without the docstring
LONG_FUNCTION = 12  # lines; a longer body has blank lines between its stages
MAX_FILE = 420  # lines
NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip
MIN_ROOM = 200  # words: smaller rooms have no ratio of their own
MIN_PASSAGE = 12  # words: shorter passages are not among the worst
WORST = 10


@dataclass(frozen=True)
class Passage:
    """A docstring, a block of comments, or a paragraph of a page."""

    path: Path
    line: int
    text: str
    is_docstring: bool = False

    @property
    def words(self) -> list[str]:
        prose = re.sub(r"`[^`]*`|https?://\S+|\]\([^)]*\)|<[^>]*>", " ", self.text)
        return re.findall(r"[A-Za-z][A-Za-z'-]*", prose)

    @property
    def num_pronouns(self) -> int:
        return sum(bool(PRONOUNS.fullmatch(word)) for word in self.words)

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} {' '.join(self.text.split())[:120]}"


@dataclass
class Names:
    """Names bound in the package, and the layout of its functions."""

    bindings: list[str] = field(default_factory=list)
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    files: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    body_lines: int = 0  # of functions longer than LONG_FUNCTION
    blank_lines: int = 0
    long_functions: list[str] = field(default_factory=list)
    lines_of_code: int = 0
    long_files: list[str] = field(default_factory=list)  # also of the page


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.prose", description=__doc__)
    parser.add_argument("--lower", action="store_true", help="lower ceilings to measured values")
    arguments = parser.parse_args()
    ceilings = tomllib.loads(SETTINGS.read_text())["tool"]["prose"]["ceilings"]
    passages = [passage for path in _files() for passage in read_passages(path)]
    names = read_names(sorted((ROOT / "sgnb").rglob("*.py")))
    names.long_files = list(_long_files(ROOT / "sgnb"))
    values = measure(passages, names)
    if arguments.lower:
        lower(values, ceilings)
        return 0

    worst = sorted(
        (passage for passage in passages if len(passage.words) >= MIN_PASSAGE),
        key=lambda passage: passage.num_pronouns / len(passage.words),
    )
    print("Passages with the largest share of pronouns and relatives:")
    print("\n".join(f"  {passage}" for passage in worst[: -WORST - 1 : -1]))
    print(f"lines_of_code = {names.lines_of_code} (a new feature may add lines)")
    for name, (value, places) in values.items():
        print(f"{name} = {value} (ceiling {ceilings[name]})")
        if value > ceilings[name]:
            print("\n".join(f"  {place}" for place in places[:WORST]))
    failures = [name for name, (value, _) in values.items() if value > ceilings[name]]
    if failures:
        print(f"Above the ceiling: {', '.join(failures)}. Rewrite the places listed above.")
    return int(bool(failures))


def read_passages(path: Path) -> Iterator[Passage]:
    """Yield docstrings and comments of a Python file, or the paragraphs of a Markdown page."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        yield from _paragraphs(path, text)
        return
    yield from _docstrings(path, text)
    yield from _comments(path, text)


def read_names(paths: list[Path]) -> Names:
    """Collect bindings, class names, file names and function sizes."""
    names = Names()
    for path in paths:
        text = path.read_text("utf-8")
        lines = text.splitlines()
        place = str(path.relative_to(ROOT))
        names.lines_of_code += count_code(text)
        if not path.stem.startswith("__") and not place.startswith(SGLANG_PATHS):
            names.files[path.stem].append(place)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id != "_":
                names.bindings.append(node.id)
            elif isinstance(node, ast.arguments):
                names.bindings += [argument.arg for argument in node.args + node.kwonlyargs]
            elif isinstance(node, ast.ClassDef):
                names.classes[node.name.lstrip("_")].append(place)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                _add_function(names, node, lines, place)
    return names


def count_code(text: str) -> int:
    """Count the lines of a file without blanks, comments, docstrings and imports."""
    lines, code, other = text.splitlines(), set[int](), set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            code |= {n for n in range(token.start[0], token.end[0] + 1) if lines[n - 1].strip()}
    for node in ast.walk(ast.parse(text)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_docstring = is_text and isinstance(node.value.value, str)  # type: ignore[attr-defined]
        if is_docstring or isinstance(node, ast.Import | ast.ImportFrom):
            other |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))  # type: ignore[attr-defined]
    return len(code - other)


def measure(passages: list[Passage], names: Names) -> dict[str, tuple[float, list[str]]]:
    """Return for each measure its value and the places behind it, worst first."""
    rooms: dict[Path, list[Passage]] = defaultdict(list)
    for passage in passages:
        rooms[passage.path.parent].append(passage)
    ratios = {
        f"{room.relative_to(ROOT)}: {_ratio(members)}": _ratio(members)
        for room, members in rooms.items()
        if sum(len(passage.words) for passage in members) >= MIN_ROOM
    }
    worst_rooms = sorted(ratios, key=lambda room: -ratios[room])
    empty = [name for name in names.bindings if EMPTY_NAMES.fullmatch(name)]
    blank_share = 100 * names.blank_lines / max(names.body_lines, 1)
    lists = {
        "ambiguous_class_names": _shared(names.classes),
        "ambiguous_file_names": _shared(names.files),
        "participle_class_names": [
            f"{name}: {places[0]}"
            for name, places in names.classes.items()
            if PARTICIPLE.fullmatch(name) and not places[0].startswith("sgnb/events/")
        ],
        "long_functions": names.long_functions,
        "long_files": names.long_files,
        "long_sentences": [str(passage) for passage in passages for _ in _long_sentences(passage)],
        "docstring_openings": [
            str(passage)
            for passage in passages
            if passage.is_docstring and OPENINGS.match(passage.text)
        ],
        "denied_phrases": [
            f"{phrase}: {passage}"
            for passage in passages
            for phrase in DENIED.findall(" ".join(passage.text.lower().split()))
        ],
    }
    return {
        "pronouns_per_100_words": (_ratio(passages), worst_rooms),
        "pronouns_in_worst_room": (max(ratios.values(), default=0.0), worst_rooms),
        "empty_bindings_percent": (
            _up(100 * len(empty) / max(len(names.bindings), 1)),
            sorted(set(empty)),
        ),
        "lines_without_blanks_percent": (_up(100 - blank_share), []),
        **{name: (len(places), places) for name, places in lists.items()},
    }


def lower(values: dict[str, tuple[float, list[str]]], ceilings: dict[str, float]) -> None:
    """Write measured values that are below their ceilings to pyproject.toml."""
    text = SETTINGS.read_text()
    for name, (value, _) in values.items():
        if value < ceilings[name]:
            text = re.sub(rf"(?m)^{name} = .*$", f"{name} = {value}", text)
            print(f"{name}: {ceilings[name]} -> {value}")
    SETTINGS.write_text(text)


def _long_files(folder: Path) -> Iterator[str]:
    for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.js")]):
        num_lines = len(path.read_text("utf-8").splitlines())
        if num_lines > MAX_FILE:
            yield f"{path.relative_to(ROOT)}: {num_lines} lines"


def _files() -> Iterator[Path]:
    for source in SOURCES:
        root = ROOT / source
        if root.is_file():
            yield root
            continue
        for pattern in ("*.py", "*.md"):
            yield from (path for path in sorted(root.rglob(pattern)) if "_site" not in path.parts)


def _docstrings(path: Path, text: str) -> Iterator[Passage]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, kinds) and ast.get_docstring(node):
            yield Passage(path, node.body[0].lineno, ast.get_docstring(node) or "", True)


def _comments(path: Path, text: str) -> Iterator[Passage]:
    """Join comments on consecutive lines into a passage. A comment after code stands alone."""
    block: list[str] = []
    start = previous = -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or re.match(r"#\s*(type:|noqa|pragma|!)", token.string):
            continue
        line, follows_code = token.start[0], bool(token.line[: token.start[1]].strip())
        if block and (follows_code or line != previous + 1):
            yield Passage(path, start, " ".join(block))
            block = []
        start = start if block else line
        previous = -1 if follows_code else line
        block.append(token.string.lstrip("#: "))
    if block:
        yield Passage(path, start, " ".join(block))


def _paragraphs(path: Path, text: str) -> Iterator[Passage]:
    """Yield paragraphs and list items; skip code, tables, headings and pictures."""
    block: list[str] = []
    in_code, start = False, 1
    for number, line in enumerate([*text.splitlines(), ""], 1):
        is_fence = line.lstrip().startswith("```")
        in_code ^= is_fence
        ends = is_fence or in_code or not line.strip() or line.lstrip().startswith(("|", "#", "!"))
        if (ends or line.lstrip().startswith(("- ", "* "))) and block:
            yield Passage(path, start, " ".join(block))
            block = []
        if not ends:
            start = start if block else number
            block.append(line.strip())


def _add_function(
    names: Names, node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str], place: str
) -> None:
    end = node.end_lineno or node.lineno
    has_docstring = ast.get_docstring(node) is not None
    docstring_lines = (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
    if end - node.lineno - has_docstring * docstring_lines >= MAX_FUNCTION:
        names.long_functions.append(f"{place}:{node.lineno} {node.name}")
    body = node.body[1:] if has_docstring else node.body
    if body and end - body[0].lineno >= LONG_FUNCTION:
        inside = lines[body[0].lineno - 1 : end]
        names.body_lines += len(inside)
        names.blank_lines += sum(not line.strip() for line in inside)


def _ratio(passages: list[Passage]) -> float:
    """Pronouns and relatives per 100 words."""
    num_words = sum(len(passage.words) for passage in passages)
    return _up(100 * sum(passage.num_pronouns for passage in passages) / max(num_words, 1))


def _long_sentences(passage: Passage) -> list[str]:
    sentences = re.split(r"(?<=[.!?:;])\s+", passage.text)
    return [s for s in sentences if len(Passage(passage.path, 0, s).words) > MAX_SENTENCE]


def _shared(places: dict[str, list[str]]) -> list[str]:
    """Names that stand in several files."""
    return [f"{name}: {', '.join(files)}" for name, files in places.items() if len(files) > 1]


def _up(value: float) -> float:
    """Round up to a tenth, so that a rounded ceiling holds for its own value."""
    return math.ceil(round(10 * value, 6)) / 10


if __name__ == "__main__":
    sys.exit(main())
