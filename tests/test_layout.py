"""The import directions of docs/ARCHITECTURE.md, and what `import sgnb` may cost."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
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
    "whole_import": {"latch"},
    "media": {"errors"},
    "native_calls": {"errors"},
    "home_process": {"errors"},
    "event_loops": {"errors", "home_process"},
    "sequences": set(),
    "cache_file": set(),
    "codec": {"errors", "sequences"},
    "events": {"codec", "errors", "home_process", "latch"},
    "grammar": {"cache_file", "errors", "native_calls", "sequences"},
    "sampling": {"errors", "grammar"},
    "segment": set(),
    "shared_file": set(),
    "part_order": set(),
    "engine": {
        "part_order",
        "cache_file",
        "codec",
        "errors",
        "latch",
        "native_calls",
        "home_process",
        "event_loops",
        "events",
        "sampling",
        "media",
        "segment",
        "sequences",
        "shared_file",
        "grammar",
        "models",
        "whole_import",
    },
    "lang": {
        "part_order",
        "codec",
        "errors",
        "latch",
        "event_loops",
        "home_process",
        "events",
        "sampling",
        "media",
        "segment",
        "grammar",
        "sequences",
    },
    "backends": {
        "part_order",
        "shared_file",
        "latch",
        "whole_import",
        "codec",
        "models",
        "errors",
        "event_loops",
        "home_process",
        "sequences",
        "events",
        "sampling",
        "media",
        "segment",
        "grammar",
        "engine",
        "lang",
    },
    "viz": {"errors", "latch", "events", "part_order", "sequences"},
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
        "whole_import",
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
        {"quantization", "step_input"},
        {"items"},
        {"attention", "sampling"},
        {"fusion"},
        {"model"},
        {"graphs", "parallel"},
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
        {"code"},
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

MOST_ARROWS = {"engine": 66, "lang": 61, "viz": 3, "benchmark": 20}
"""Part -> maximum number of imports between its rooms. May only fall."""

CYCLIC = "sgnb.lang.core"
"""The only package whose modules may import each other in a cycle."""

FACADES = {
    "__init__.py",
    "backends/__init__.py",
    "backends/api/client_guard.py",
    "backends/remote/__init__.py",
    "whole_import.py",
}
"""Files that import modules by names looked up at run time: public names of packages, the HTTP
libraries that are installed, and modules of `import_whole`."""

ROOT_USERS = {"__main__.py", "lang/api.py"}
"""Files that import the package `sgnb`: the command, and SGLang's path of the public names."""

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


Import = ast.Import | ast.ImportFrom | ast.Call


def import_nodes(tree: ast.AST) -> list[Import]:
    """Return the import statements in a tree, and the calls that import."""
    statements = ast.Import, ast.ImportFrom
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, statements) or (isinstance(node, ast.Call) and is_import_call(node))
    ]


@cache
def file_imports(path: Path) -> tuple[list[Import], list[Import]]:
    """Return all import nodes of a file, and the statements that run with the file itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top: list[Import] = [n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
    return import_nodes(tree), top


def imports(nodes: Iterable[Import], path: Path) -> Iterator[tuple[str, ...]]:
    """Yield the absolute names of each import: the module, then for `from` the name in the module.
    Calls of `import_module` with a constant name count."""
    package = ["sgnb", *path.relative_to(ROOT).parent.parts]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name,) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = absolute("." * node.level + (node.module or ""), package)
            yield from ((module, f"{module}.{alias.name}") for alias in node.names)
        else:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield (absolute(name.value, package),)


def is_import_call(call: ast.Call) -> bool:
    """True for `import_module(...)`, `importlib.import_module(...)` and `__import__(...)`."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    return name in ("import_module", "__import__") and bool(call.args)


def absolute(name: str, package: list[str]) -> str:
    """Return the absolute name of a module, which is relative if it begins with dots."""
    relative = name.lstrip(".")
    level = len(name) - len(relative)
    base = package[: len(package) - level + 1] if level else []
    return ".".join([*base, *([relative] if relative else [])])


@cache
def imported(path: Path) -> frozenset[str]:
    """What a file imports, wherever in the file it does."""
    return frozenset(name for names in imports(file_imports(path)[0], path) for name in names)


@cache
def imported_at_once(path: Path) -> frozenset[str]:
    """What is imported as soon as the file itself is, with the packages around it."""
    found = {name for names in imports(file_imports(path)[1], path) for name in names}
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


@pytest.mark.parametrize("part", sorted(MOST_ARROWS))
def test_rooms_stand_on_floors(part: str) -> None:
    """The arrows point down, and their number does not grow."""
    floor = {room: i for i, rooms in enumerate(FLOORS[part]) for room in rooms}
    assert parts_of(ROOT / part) == set(floor)
    arrows, begin = set(), f"sgnb.{part}."
    for name, path in MODULES.items():
        if name.startswith(begin):
            room = name.removeprefix(begin).split(".")[0]
            others = {i.split(".")[2] for i in imported(path) if i.startswith(begin)}
            arrows |= {(room, other) for other in others & set(floor) if other != room}
    assert MOST_ARROWS[part] / 2 < len(arrows) <= MOST_ARROWS[part], sorted(arrows)
    assert not sorted((a, b) for a, b in arrows if floor[b] >= floor[a])


def module_graph(nodes: dict[str, list[Import]], paths: dict[str, Path]) -> dict[str, set[str]]:
    """Return the modules that each module imports, at load or later, by statements or by name."""
    graph: dict[str, set[str]] = {}
    for module, statements in nodes.items():
        each = [names[::-1] for names in imports(statements, paths[module])]
        # `from .package import module` needs the module, not the package's own names.
        deepest = {next((name for name in names if name in paths), module) for names in each}
        graph[module] = deepest - {module}
    return graph


def contracted(graph: dict[str, set[str]], package: str) -> dict[str, set[str]]:
    """Return the graph with the modules of `package` as one."""
    result: dict[str, set[str]] = {}

    def place(name: str) -> str:
        return package if f"{name}.".startswith(f"{package}.") else name

    for name, others in graph.items():
        result.setdefault(place(name), set()).update(map(place, others))
    return {name: others - {name} for name, others in result.items()}


def test_modules_import_without_cycles() -> None:
    graph = module_graph({name: file_imports(path)[0] for name, path in MODULES.items()}, MODULES)
    assert sum(map(len, graph.values())) > 1000
    TopologicalSorter(contracted(graph, CYCLIC)).prepare()


def test_a_cycle_by_name_is_found() -> None:
    back = "def later():\n    import importlib as i\n    return i.import_module('.one', 'sgnb')"
    texts = {"sgnb.one": "from .two import later", "sgnb.two": back}
    paths = {"sgnb.one": ROOT / "one.py", "sgnb.two": ROOT / "two.py"}
    nodes = {name: import_nodes(ast.parse(text)) for name, text in texts.items()}
    graph = module_graph(nodes, paths)
    with pytest.raises(CycleError):
        TopologicalSorter(contracted(graph, CYCLIC)).prepare()


def test_only_facades_import_by_names_looked_up() -> None:
    """Names that no test can read are those of public tables."""
    for path in MODULES.values():
        calls = [node for node in file_imports(path)[0] if isinstance(node, ast.Call)]
        unread = [call for call in calls if not isinstance(call.args[0], ast.Constant)]
        assert not unread or str(path.relative_to(ROOT)) in FACADES, path


def test_parts_do_not_import_the_whole_package() -> None:
    for path in MODULES.values():
        statements = [node for node in file_imports(path)[0] if isinstance(node, ast.Import)]
        names = {alias.name for node in statements for alias in node.names}
        assert "sgnb" not in names or str(path.relative_to(ROOT)) in ROOT_USERS, path


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
