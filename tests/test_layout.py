"""The import directions of docs/ARCHITECTURE.md, and what `import sgnb` may cost."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "sgnb"

ALLOWED = {
    "errors": set(),
    "events": set(),
    "grammar": {"errors"},
    "sampling": {"errors", "grammar"},
    "engine": {"errors", "events", "sampling", "grammar", "models"},
    "lang": {"errors", "events", "sampling", "grammar"},
    "backends": {"errors", "events", "sampling", "grammar", "engine", "lang"},
    "viz": {"errors", "events"},
    "models": {"errors"},
    "magics": {
        "errors",
        "events",
        "sampling",
        "grammar",
        "engine",
        "lang",
        "backends",
        "viz",
        "models",
    },
}
"""Part of sgnb -> the other parts it may import."""

NO_TORCH = (
    "grammar", "engine/cache/radix.py", "engine/cache/slot_allocator.py", "engine/scheduler.py",
    "engine/request", "lang", "viz", "magics",
)  # fmt: skip
"""Files and folders that are used, and tested, without a model."""


def imported(path: Path) -> Iterator[str]:
    """Absolute names of all modules that a file imports, wherever in the file it does."""
    package = ["sgnb", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def top_level_imports(path: Path) -> set[str]:
    """First words of the modules that are imported when the file itself is."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("part", sorted(ALLOWED))
def test_imports_point_one_way(part: str) -> None:
    files = (
        [ROOT / f"{part}.py"]
        if (ROOT / f"{part}.py").exists()
        else sorted((ROOT / part).rglob("*.py"))
    )
    assert files
    for path in files:
        parts = {
            name.split(".")[1]
            for name in imported(path)
            if name.startswith("sgnb.") and name.count(".")
        }
        wrong = {other for other in parts & set(ALLOWED) if other != part} - ALLOWED[part]
        assert not wrong, f"{path.relative_to(ROOT.parent)} imports {', '.join(sorted(wrong))}"


def test_every_part_has_its_rule() -> None:
    parts = {
        path.stem
        for path in ROOT.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert parts - {"__init__"} == set(ALLOWED)


@pytest.mark.parametrize("place", NO_TORCH)
def test_no_torch_when_imported(place: str) -> None:
    path = ROOT / place
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        assert not top_level_imports(file) & {"torch", "transformers"}, file.relative_to(ROOT)


def test_import_is_light() -> None:
    code = (
        "import sys, time; t = time.perf_counter(); import sgnb; t = time.perf_counter() - t\n"
        "heavy = {'torch', 'IPython', 'transformers', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\nprint(t)"
    )
    times = [
        float(
            subprocess.run(
                [sys.executable, "-c", code], check=True, capture_output=True, text=True
            ).stdout
        )
        for _ in range(3)
    ]
    assert min(times) < 0.3
