"""The code blocks of the README and the pages of docs/, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])

NOT_RUN = "# not run here: "


class Block(NamedTuple):
    page: str
    line: int
    language: str
    text: str

    @property
    def reason(self) -> str:
        """Why it is not run, as its first line says; "" if it is."""
        first = self.text.partition("\n")[0]
        return first.removeprefix(NOT_RUN) if first.startswith(NOT_RUN) else ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    name = str(page.relative_to(ROOT))
    return [Block(name, text.count("\n", 0, m.start()) + 1, m[1], m[2]) for m in found]
