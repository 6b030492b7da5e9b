"""The API reference has an entry for every public name, which says what it is and what its
parameters mean; and what the pages call exists."""

from __future__ import annotations

import re
from functools import reduce
from pathlib import Path

import pytest

import sgnb
import sgnb.lang
from sgnb.magics.magic_options import CELL_OPTIONS, COMMANDS
from tests.docs.blocks import PAGES
from tools import reference


def test_every_public_name_and_its_parameters_are_described() -> None:
    assert list(reference.problems()) == []


def test_the_reference_has_every_public_name() -> None:
    entries = set(reference.labels())
    names = {f"sgnb.{name}" for name in sgnb.__all__ if name != "errors"}
    names |= {f"sgnb.lang.{name}" for name in sgnb.lang.__all__ if name not in sgnb.__all__}
    names |= {
        f"sgnb.errors.{name}"
        for name, value in vars(sgnb.errors).items()
        if isinstance(value, type) and issubclass(value, Exception) and name not in sgnb.__all__
    }
    assert "sgnb.SgnbError" in names and names <= entries


def test_the_reference_has_every_option_of_the_magics() -> None:
    page = reference.pages()["magics"]
    for options in (CELL_OPTIONS, *(command.options for command in COMMANDS.values())):
        for option in options:
            assert re.search(rf"^```{{option}} .*{option.flags[-1]}\b", page, re.MULTILINE)
    assert all(f"### %sglang {name}\n" in page for name in COMMANDS)


def test_what_a_docstring_says_of_its_parameters_is_a_list_of_them() -> None:
    (entry,) = re.findall(
        r"```{py:function} sgnb\.agent\(.*?```", reference.pages()["patterns"], re.S
    )
    assert ":param max_turns: Maximum number of model turns" in entry
    assert "{py:obj}`gen <sgnb.gen>`" in entry


def test_a_field_is_described_by_what_stands_beside_it() -> None:
    page = reference.pages()["engine"]
    assert ":param max_new_tokens: 0 computes the prompt only" in page
    assert ":param fork_attention: read a shared prefix" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page: Path) -> None:
    """`sgnb.cache.pin`, `sgl.judge` and their like, in code and in the running text."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"^```python\n# not run here: .*?^```", "", text, flags=re.M | re.S)
    text = text if page.name != "from_sglang.md" else re.sub(r"^\|.*?\|", "", text, flags=re.M)
    for path in set(re.findall(r"\b(?:sgnb|sgl)\.([A-Za-z][\w.]*\w)", text)):
        assert exists(path), f"{page.name}: sgnb.{path}"


def exists(path: str) -> bool:
    """Whether it is an attribute or, such as sgnb.grammar.schema, a room."""
    try:
        reduce(getattr, path.split("."), sgnb)
    except AttributeError:
        place = Path(sgnb.__file__).parent / path.replace(".", "/")
        return place.is_dir() or place.with_suffix(".py").exists()
    return True
