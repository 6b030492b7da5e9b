"""What the documents say works: the README's program, the quickstart notebook, and what `make demo`
prints."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from statistics import median
from typing import Any

import nbformat
import pytest

from sgnb.viz.twin import size

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_the_readmes_program_runs(shell: Any, capsys: Any) -> None:
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert blocks
    for block in blocks:
        shell(block)
    assert re.search(r"\] 0\.\d+", capsys.readouterr().out), "the hit rate"


def test_the_page_on_constrained_text_runs(shell: Any, capsys: Any) -> None:
    text = (ROOT / "docs" / "CONSTRAINED.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        shell(block)
    assert set(json.loads(shell.ns["state"]["person"])) == {"name", "age"}
    assert "dry: 4 calls" in capsys.readouterr().out
    (cell,) = re.findall(r"```\n(%%sglang.*?)```", text, re.DOTALL)
    assert shell(cell).calls[0].answer == "1800"


def test_the_higher_words_of_the_page_on_the_language_run(shell: Any) -> None:
    text = (ROOT / "docs" / "LANGUAGE.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text.partition("## Higher words")[2], re.DOTALL)
    for block in blocks:
        shell("import sgnb as sgl\n" + block)
    assert shell("story.run().text()").startswith("Once upon a time")
    assert sum(map(int, shell("reach_nine.run().text()").split(" + "))) == 9


def test_the_readmes_cell_runs(shell: Any) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    cell = next(
        block
        for block in re.findall(r"```\n(.*?)```", text, re.DOTALL)
        if block.startswith("%%sglang")
    )
    shell(cell.replace("%%sglang", "%%sglang -q --max-tokens 8"))
    assert len(shell.ns["s"]["detail"]) == 2


def test_the_readme_names_files_that_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / link).exists(), link


@pytest.mark.slow
def test_the_notebook_on_constrained_text_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("SGNB_STATIC", "1")
    notebook = nbformat.read(ROOT / "notebooks" / "02_constrained.ipynb", as_version=4)
    demo().run(notebook)
    printed = capsys.readouterr().out
    assert "Call(name='Omar', city='Cairo', age=34, mood='" in printed
    assert "3 prompts, " in printed and "jumped" in printed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_committed_without_outputs(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None


def demo() -> Any:
    spec = importlib.util.spec_from_file_location("demo", ROOT / "tools" / "demo.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_demo_runs_the_quickstart(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("SGNB_STATIC", "1")
    tool = demo()
    notebook = nbformat.read(tool.SOURCE, as_version=4)
    assert 0.3 < tool.run(notebook) < 1
    assert "capital of France" in capsys.readouterr().out
    sizes = [
        size(output.data)
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "image/svg+xml" in output.get("data", {})
    ]
    assert len(sizes) >= 5, "every run leaves a picture that needs no kernel"
    assert median(sizes) < 20_000 and max(sizes) < 60_000
