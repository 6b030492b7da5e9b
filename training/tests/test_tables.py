"""Reading the tables: words in one another, types that are asked for, what is said of an error."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from training import tables
from training.alternatives import expand
from training.tables import FOLDER, Groups, Pairs, Table, Texts

TEXT = """
hello = ["<greeting> {n}, <unknown>", "<several>", "<greeting>"]
by_day = {monday = ["<greeting>"], sunday = []}
numbers = {"1" = "one"}
places = [["Oslo", ["fjord"]], ["Bern", ["river", "tower"]]]

[town]
name = "Oslo"
sights = ["fjord"]

[words]
short = "Hi|Hello"
greeting = "[<short>|Bye]"
several = ["a", "<greeting>"]
"""


class Town(NamedTuple):
    name: str
    sights: Texts
    people: int = 3


class Place(NamedTuple):
    name: str
    sights: Texts


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    (tmp_path / "small.toml").write_text(TEXT, encoding="utf-8")
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    return Table("small")


def test_words_stand_in_one_another_and_may_be_several(small: Table) -> None:
    greeting = "[Hi|Hello|Bye]"
    assert small.get("hello", Texts) == (f"{greeting} {{n}}, <unknown>", "a", greeting, greeting)
    assert small.get("several", Texts) == ("a", greeting)
    said = {expand(Random(i), small.get("greeting", str)) for i in range(99)}
    assert said == {"Hi", "Hello", "Bye"}


def test_an_entry_is_made_as_the_type_says(small: Table) -> None:
    assert small.get("by_day", Groups) == {"monday": ("[Hi|Hello|Bye]",), "sunday": ()}
    assert small.get("numbers", dict[int, str]) == {1: "one"}
    assert small.get("town", Town) == Town("Oslo", ("fjord",))
    bern = ("Bern", ("river", "tower"))
    assert small.get("places", list[Place]) == [Place("Oslo", ("fjord",)), Place(*bern)]
    assert small.get("places", tuple[tuple[str, Texts], ...])[1] == bern


@pytest.mark.parametrize(("name", "kind"), [
    ("missing", Texts), ("town", Pairs), ("places", list[Town]), ("hello", Groups),
    ("numbers", int),
])
def test_an_error_names_the_file_and_the_entry(small: Table, name: str, kind: type) -> None:
    with pytest.raises(ValueError, match=rf"small.toml: {name}: "):
        small.get(name, kind)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_every_word_of_a_file_is_used(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for word in Table(path.stem).words:
        assert f"<{word}>" in text, word
