"""What is published: the wheel and the source archive, built and installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import sgnb
from sgnb import models
from sgnb.__main__ import main

ROOT = Path(__file__).parents[1]
MOST = 30_000_000  # bytes of the wheel, with two models
NEEDED = ("pyproject.toml", "README.md", "LICENSE")
BUILD = "import sys; from setuptools import build_meta as b; b.build_{}(sys.argv[1])"


def build(what: str, source: Path, target: Path) -> Path:
    """The archive of the project in `source`, made in a copy."""
    copy = target / "source"
    copy.mkdir(parents=True)
    for name in NEEDED:
        shutil.copy(source / name, copy)
    shutil.copytree(
        source / "sgnb", copy / "sgnb", ignore=shutil.ignore_patterns("__pycache__", "_site")
    )
    command = [sys.executable, "-c", BUILD.format(what), str(target)]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    [archive] = (path for path in target.iterdir() if path.is_file())
    return archive


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


@pytest.mark.slow
def test_the_wheel_has_every_file_and_no_other(wheel: Path) -> None:
    files = (path for path in (ROOT / "sgnb").rglob("*") if path.is_file())
    source = {path.relative_to(ROOT).as_posix() for path in files if path.suffix != ".pyc"}
    assert names(wheel) == source
    assert wheel.stat().st_size < MOST


@pytest.mark.slow
def test_its_metadata_is_whole(wheel: Path) -> None:
    told = metadata(wheel)
    assert told["Name"] == "sgnb" and told["Version"] == sgnb.__version__
    assert told["License-Expression"] == "Apache-2.0" and told["License-File"] == "LICENSE"
    assert told["Description-Content-Type"] == "text/markdown"
    assert told["Requires-Python"] == ">=3.11"
    assert {"Summary", "Author", "Keywords", "Classifier"} <= set(told)
    assert "# sgnb" in str(told.get_payload())
    assert {"cuda", "lab"} <= set(told.get_all("Provides-Extra", []))
    with zipfile.ZipFile(wheel) as archive:
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in archive.namelist())


def test_a_missing_part_is_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check"]) == 0
    assert f"sgnb {sgnb.__version__}" in capsys.readouterr().out
    monkeypatch.setattr(models, "names", tuple)
    assert main([]) == 1
    assert "reinstall sgnb" in capsys.readouterr().out


@pytest.mark.slow
def test_the_source_archive_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    archive = build("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    [unpacked] = tmp_path.glob("sgnb-*")
    again = build("wheel", unpacked, tmp_path / "wheel")
    assert names(again) == names(wheel)
    assert metadata(again).items() == metadata(wheel).items()


@pytest.mark.slow
def test_installed_it_runs_its_first_program(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", str(place), str(wheel)], check=True)
    environment = os.environ | {"PYTHONPATH": str(place)}
    where = [sys.executable, "-c", "import sgnb; print(sgnb.__file__)"]
    command = [sys.executable, "-m", "sgnb"]
    found, said = (
        subprocess.run(
            asked, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        ).stdout
        for asked in (where, command)
    )
    assert Path(found.strip()).is_relative_to(place)
    assert "s['capital'] = ' Tokyo'" in said and "s['answer'] = [' Japanese', ' Asia']" in said
