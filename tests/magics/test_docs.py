"""What the documents say works: the README's program and cell, and the pages' programs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


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
