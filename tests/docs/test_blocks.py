"""Every code block of the README and of docs/ works as it stands there: Python and cells run on
the bundled model, page by page, and print what the page says; shell lines parse and name what
exists."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

import sgnb
from sgnb.magics.magic_options import CellLine, LineCall
from tests.docs.blocks import PAGES, ROOT, Block, blocks

NOT_RUN = {
    "docs/GPU.md": ["needs an NVIDIA GPU and the hub"] * 2 + ["needs the hub"],
    "docs/TENSOR_PARALLEL.md": ["needs two NVIDIA GPUs and the hub"] * 2,
    "docs/from_sglang.md": ["SGLang, which needs its server"],
    "docs/from_guidance.md": ["Guidance"] * 2,
    "docs/API_MODELS.md": ["needs a key"] * 7,
    "docs/from_outlines.md": ["Outlines"] * 2,
    "docs/from_langchain.md": ["LangChain"] * 2 + ["LangChain, with a model that calls tools"],
}
"""Page -> the reasons that its blocks give for not being run, in their order."""

BEFORE = {
    "docs/LANGUAGE.md": """
import asyncio
import sgnb as sgl

@sgl.function
def tip(s, topic):
    s += f"A tip about {topic}:" + sgl.gen("tip", max_tokens=4)

async def check(draft):
    return "."

topics = questions = ["sleep", "food"]
""",
}
"""What a page takes for granted."""

AFTER = {
    "README.md": "len(s['detail']) == 2 and 'Paris' in states[0]['answer']",
    "docs/BENCHMARKS.md": "result.measured.refused == {}",
    "docs/COMPILER.md": "state.text() == tip.run(topic='sleep', temperature=0).text()",
    "docs/CONSTRAINED.md": "set(__import__('json').loads(state['person'])) == {'name', 'age'}",
    "docs/LANGUAGE.md": """
story.run().text().startswith("Once upon a time")
and sum(map(int, reach_nine.run().text().split(" + "))) == 9
and "42" in states[0]["answer"]
""",
    "docs/VIEWS.md": "len({p.suffix for p in __import__('pathlib').Path().glob('run*')}) == 3",
}
"""What is true when its blocks have run."""

LISTINGS = {"docs/ARCHITECTURE.md", "docs/API_MODELS.md", "docs/BENCHMARKS.md"}
"""Pages with text in a block that nothing prints."""

FEWER = {
    "%%sglang --vs": "%%sglang --rounds 1 --vs",
    "--repeats 8": "--repeats 1",
    "repeats=8": "repeats=1",
}
"""What takes its time, and says the same when it is done less often."""

SLOW = {"docs/BENCHMARKS.md"}

MODEL_LOADED = re.compile(r"^(tiny is loaded already|loaded ).*\n", re.MULTILINE)


def marked(page: Path) -> Any:
    slow = str(page.relative_to(ROOT)) in SLOW
    return pytest.param(page, marks=pytest.mark.slow) if slow else page


@pytest.mark.parametrize("page", [*map(marked, PAGES)], ids=lambda page: page.name)
def test_the_blocks_of_a_page_run(
    page: Path, shell: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    name = str(page.relative_to(ROOT))
    kept = dict(shell.ns)
    sgnb.load("tiny")  # another page may have chosen another model
    before = BEFORE.get(name)
    if before:
        shell(before)
    printed = ""
    for block in blocks(page):
        if block.language == "python" and not block.reason:
            capsys.readouterr()
            shell(of_this_session(block.text, shell.ns))
            printed = MODEL_LOADED.sub("", capsys.readouterr().out)
        elif block.language == "text" and name not in LISTINGS:
            assert block.text == printed, f"{block} does not say what the block above it prints"
    if name in AFTER:
        assert shell(f"({AFTER[name].strip()})") is True
    shell.ns.clear()
    shell.ns.update(kept)


def of_this_session(text: str, names: dict[str, Any]) -> str:
    """With a run and a node that there are, in place of those that a page speaks of."""
    for often, once in FEWER.items():
        text = text.replace(often, once)
    if "recording run3" in text:  # a terminal records only comparisons
        text = text.replace("recording run3", f"recording {names['s'].rows[0]['run']}")
    if "run3" in text:
        text = text.replace("cache pin run3", f"cache pin {names['earlier'].run_id}")
        text = text.replace("cache unpin run3", f"cache unpin {names['earlier'].run_id}")
    if "evict 17" in text:
        leaf = max(node["id"] for node in sgnb.load("tiny").tree())
        text = text.replace("evict 17", f"evict {leaf}")
    return text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_not_run_says_why(page: Path) -> None:
    reasons = [block.reason for block in blocks(page) if block.reason]
    assert reasons == NOT_RUN.get(str(page.relative_to(ROOT)), [])


@pytest.mark.parametrize("block", [b for page in PAGES for b in blocks(page)], ids=str)
def test_a_block_says_what_it_is_and_parses(block: Block) -> None:
    assert block.language in ("python", "sh", "text"), f"{block} names no language"
    if block.language == "sh":
        subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)
    elif block.language == "python":
        parse(block.text)


def parse(text: str) -> None:
    """Magics by their tables, all else as Python."""
    first, _, rest = text.partition("\n")
    if first.startswith("%%sglang"):
        CellLine.parse(first.removeprefix("%%sglang"))
        text = f"async def body(s):\n    ...\n{indent(rest)}"
    lines = text.splitlines()
    for command in re.findall(r"^(?:\w+ = )?%sglang (.*)", text, re.MULTILINE):
        LineCall.parse(command)
    python = "\n".join("" if re.match(r"(\w+ = )?%", line) else line for line in lines)
    compile(python, "block", "exec", flags=0x2000)  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def indent(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_name_what_exists(page: Path) -> None:
    """In shell blocks and in the running text."""
    text = page.read_text(encoding="utf-8")
    code = "\n".join([*re.findall(r"`([^`\n]+)`", text), *(b.text for b in blocks(page))])
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^make ([a-z][a-z-]*)", code, re.MULTILINE)) <= targets
    for module in re.findall(r"^python -m ([\w.]+)", code, re.MULTILINE):
        if not module.startswith("sglang"):
            assert importlib.util.find_spec(module), module
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra in re.findall(r"sgnb\[(\w+)\]", code):
        assert extra in project["optional-dependencies"], extra
