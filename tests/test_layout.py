"""The import directions of docs/ARCHITECTURE.md, and what `import sgnb` may cost."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "sgnb"

ALLOWED = {
    "__main__": {"magics"},
    "api": {"lang"},
    "global_config": {"lang"},
    "test": {"errors", "utils"},
    "utils": {"errors"},
    "errors": set(),
    "latch": set(),
    "home_process": {"errors"},
    "event_loops": {"errors", "home_process"},
    "sequences": set(),
    "cache_file": set(),
    "codec": {"errors"},
    "events": {"codec", "errors", "home_process", "latch"},
    "grammar": {"cache_file", "errors", "sequences"},
    "sampling": {"errors", "grammar"},
    "segment": set(),
    "reservation": {"errors"},
    "engine": {
        "cache_file",
        "codec",
        "errors",
        "latch",
        "home_process",
        "event_loops",
        "events",
        "sampling",
        "segment",
        "reservation",
        "sequences",
        "grammar",
        "models",
    },
    "lang": {
        "codec",
        "errors",
        "latch",
        "event_loops",
        "home_process",
        "events",
        "sampling",
        "segment",
        "reservation",
        "grammar",
        "sequences",
    },
    "backends": {
        "errors",
        "event_loops",
        "home_process",
        "sequences",
        "events",
        "sampling",
        "segment",
        "reservation",
        "grammar",
        "engine",
        "lang",
    },
    "viz": {"errors", "latch", "events", "sequences"},
    "models": {"errors"},
    "benchmark": {
        "errors",
        "events",
        "sampling",
        "segment",
        "engine",
        "lang",
        "backends",
        "viz",
        "models",
    },
    "magics": {
        "errors",
        "latch",
        "sequences",
        "events",
        "sampling",
        "segment",
        "grammar",
        "engine",
        "lang",
        "backends",
        "viz",
        "models",
        "benchmark",
    },
}
"""Part of sgnb -> the other parts it may import."""

FLOORS: dict[str, tuple[set[str], ...]] = {
    "engine": (
        {"cache", "device"},
        {"step_input"},
        {"attention", "sampling"},
        {"fusion"},
        {"model"},
        {"graphs"},
        {"request"},
        {"options", "scheduler", "runner"},
        {"sizing", "loop"},
        {"assembly"},
        {"engine"},
    ),
    "lang": (
        {"location", "pool", "source"},
        {"chat"},
        {"executor"},
        {"ir"},
        {"core"},
        {"batches", "primitives", "graph"},
        {"code", "planning"},
        {"runnable"},
        {"compiled"},
        {"decorator"},
        {"api", "backend", "chat_template", "choices", "interpreter", "tracer"},
    ),
    "viz": ({"state"}, {"static"}, {"live"}),
    "benchmark": (
        {"stats", "work", "conditions"},
        {"variants", "workload"},
        {"measurement", "paper"},
        {"findings", "peers"},
        {"plot", "http_peer"},
        {"opponents"},
    ),
}
"""Rooms and files of a part, lowest floor first: each imports only what lies on floors below."""

NO_TORCH = (
    "grammar",
    "engine/cache/manager.py",
    "engine/scheduler.py",
    "engine/request",
    "lang",
    "viz",
    "benchmark",
    "magics",
)
"""Files and folders that are used, and tested, without a model: importing them imports no torch,
through whatever they import."""


def module_name(path: Path) -> str:
    parts = ["sgnb", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def imports(tree: ast.AST, path: Path) -> Iterator[str]:
    """Absolute names of all that the import statements of a tree name."""
    package = ["sgnb", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


@cache
def imported(path: Path) -> frozenset[str]:
    """What a file imports, wherever in the file it does."""
    return frozenset(imports(ast.parse(path.read_text(encoding="utf-8")), path))


@cache
def imported_at_once(path: Path) -> frozenset[str]:
    """What is imported as soon as the file itself is, with the packages around it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= set(imports(node, path))
    for name in list(found):
        parts = name.split(".")
        found |= {".".join(parts[:i]) for i in range(1, len(parts))}
    return frozenset(found)


def reached(path: Path) -> dict[str, Path]:
    """Every module that importing a file imports, whose other imports count too -> who asked."""
    found: dict[str, Path] = {}
    todo = [path]
    while todo:
        at = todo.pop()
        for name in imported_at_once(at) - set(found):
            found[name] = at
            if name in MODULES:
                todo.append(MODULES[name])
    return found


@pytest.mark.parametrize("part", sorted(ALLOWED))
def test_imports_point_one_way(part: str) -> None:
    file = ROOT / f"{part}.py"
    files = [file] if file.exists() else sorted((ROOT / part).rglob("*.py"))
    assert files
    for path in files:
        names = [name.split(".") for name in imported(path) if name.startswith("sgnb.")]
        wrong = {name[1] for name in names} & set(ALLOWED) - {part} - ALLOWED[part]
        assert not wrong, f"{path.relative_to(ROOT.parent)} imports {', '.join(sorted(wrong))}"


def test_every_part_has_its_rule() -> None:
    assert parts_of(ROOT) == set(ALLOWED)


def parts_of(folder: Path) -> set[str]:
    """The files and packages in a folder."""
    paths = [path for path in folder.iterdir() if path.stem != "__init__"]
    return {p.stem for p in paths if p.suffix == ".py" or (p / "__init__.py").exists()}


@pytest.mark.parametrize(
    ("part", "at_least"), [("engine", 40), ("lang", 20), ("viz", 2), ("benchmark", 12)]
)
def test_rooms_stand_on_floors(part: str, at_least: int) -> None:
    """at_least: arrows between them, so that the test finds what it is to look at."""
    floor = {room: i for i, rooms in enumerate(FLOORS[part]) for room in rooms}
    assert parts_of(ROOT / part) == set(floor)
    arrows, begin = set(), f"sgnb.{part}."
    for name, path in MODULES.items():
        if name.startswith(begin):
            room = name.removeprefix(begin).split(".")[0]
            others = {i.split(".")[2] for i in imported(path) if i.startswith(begin)}
            arrows |= {(room, other) for other in others & set(floor) if other != room}
    assert len(arrows) > at_least
    assert not sorted((a, b) for a, b in arrows if floor[b] >= floor[a])


def test_the_scheduler_knows_no_payload() -> None:
    """Recurrent states and KV slots of nodes are the cache manager's."""
    code = (ROOT / "engine/scheduler.py").read_text(encoding="utf-8")
    assert not re.findall(r"(?i)\w*(?:state|checkpoint|tree\b|recurrent)\w*", code)


@pytest.mark.parametrize("place", NO_TORCH)
def test_no_torch_when_imported(place: str) -> None:
    path = ROOT / place
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        found = reached(file)
        for heavy in ("torch", "transformers"):
            assert heavy not in found, f"{file.relative_to(ROOT)}: {found[heavy]} imports {heavy}"


def test_import_is_light() -> None:
    """It imports nothing that does not come with Python, and the rest of sgnb when it is asked
    for."""
    code = "import sys; old = set(sys.modules); import sgnb; print(*sorted(set(sys.modules) - old))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    found = run.stdout.split()
    assert "sgnb" in found
    assert {name.partition(".")[0] for name in found} - sys.stdlib_module_names == {"sgnb"}, found
    assert not any(name.startswith("sgnb.") for name in found), found


def test_the_engines_names_are_where_they_are_looked_up() -> None:
    engine = importlib.import_module("sgnb.engine")
    assert [name for name in engine.__all__ if getattr(engine, name).__name__ != name] == []
