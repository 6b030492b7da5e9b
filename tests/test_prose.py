"""The checker of names and prose counts planted violations."""

import textwrap
from pathlib import Path

import pytest

from tools import prose


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty project."""
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / "sgnb" / "room").mkdir(parents=True)
    return tmp_path


def write(root: Path, name: str, text: str) -> Path:
    path = root / "sgnb" / name
    path.write_text(textwrap.dedent(text))
    return path


def measure(*paths: Path) -> dict[str, float]:
    passages = [passage for path in paths for passage in prose.read_passages(path)]
    values = prose.measure(passages, prose.read_names([p for p in paths if p.suffix == ".py"]))
    return {name: value for name, (value, _) in values.items()}


def test_names_are_counted(root):
    first = write(
        root,
        "names.py",
        """
        class Held: ...
        class Speed: ...
        class Batch: ...
        made = 1
        count = 2
        num_rows = 3
        """,
    )
    second = write(root, "room/names.py", "class Batch: ...\n")
    values = measure(first, second)
    assert values["participle_class_names"] == 1
    assert values["ambiguous_class_names"] == 1
    assert values["ambiguous_file_names"] == 1
    assert values["empty_bindings_percent"] == 33.4  # one of three, rounded up


def test_prose_is_counted(root):
    path = write(
        root,
        "texts.py",
        '''
        """What holds the cache, for want of a noun."""

        # A node that has
        # children stays.
        x = "what"  # type: ignore
        first: int  # WORDS
        second: int  # WORDS
        '''.replace("WORDS", "word " * 20),
    )
    page = write(root, "page.md", "Short text.\n\n- " + "word " * 31 + "\n\n```\nwhat who\n```\n")
    values = measure(path, page)
    assert values["docstring_openings"] == 1
    assert values["denied_phrases"] == 1
    assert values["long_sentences"] == 1
    assert values["pronouns_per_100_words"] == pytest.approx(100 * 2 / 88, abs=0.1)


def test_layout_of_functions_is_counted(root):
    body = "\n".join(f"    x{i} = {i}" for i in range(15))
    path = write(root, "long.py", f"def short():\n{body}\n\n    y = 1\n")
    values = measure(path)
    assert values["lines_without_blanks_percent"] == 94.2  # 16 of 17 lines
    assert values["long_functions"] == 0
    path = write(root, "long.py", "def long():\n" + "    x = 1\n" * 60)
    assert measure(path)["long_functions"] == 1


def test_ceilings_only_fall(root, monkeypatch):
    settings = root / "pyproject.toml"
    settings.write_text("[tool.prose.ceilings]\nlong_functions = 5\nlong_sentences = 5\n")
    monkeypatch.setattr(prose, "SETTINGS", settings)
    values = {"long_functions": (3, []), "long_sentences": (9, [])}
    prose.lower(values, {"long_functions": 5, "long_sentences": 5})
    assert "long_functions = 3\nlong_sentences = 5\n" in settings.read_text()
