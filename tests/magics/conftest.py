"""A shell that raises what its cells raise, with the extension loaded and the bundled model behind
it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import sgnb
from sgnb.magics.report import cell_label, show_warnings
from sgnb.magics.session import SESSION


class Shell:
    """`shell(cell)` runs a cell and gives its value; an error is raised, and `shown` is what the
    cell showed of it."""

    def __init__(self, folder: Path) -> None:
        config = Config()
        config.HistoryManager.enabled = False
        self.ipython = InteractiveShell(config=config, ipython_dir=str(folder), colors="nocolor")
        self.ns: dict[str, Any] = self.ipython.user_ns
        self.shown: list[str] = []
        self.ipython._showtraceback = lambda kind, error, lines: self.shown.extend(
            "\n".join(lines).splitlines()
        )

    def __call__(self, cell: str) -> Any:
        self.shown.clear()
        result = self.ipython.run_cell(cell, store_history=True)
        result.raise_error()
        return result.result

    def fails(self, cell: str) -> list[str]:
        """Run a cell that has to fail; the lines of the error that it shows."""
        with pytest.raises(BaseException):  # noqa: B017
            self(cell)
        return list(self.shown)


@pytest.fixture(scope="session")
def _shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell(tmp_path_factory.mktemp("ipython"))
    shell("%load_ext sgnb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SGNB_HOSTS", str(tmp_path_factory.mktemp("h")))  # no hosts of other tests
        yield shell
        SESSION.cancel()
        for name in SESSION.engines.names():
            sgnb.unload(name)


@pytest.fixture
def shell(_shell: Shell) -> Iterator[Shell]:
    _shell.ns.pop("s", None)
    SESSION.runs._runs.clear()  # what other tests of this process began and left,
    chosen = SESSION.engines.loaded
    if SESSION.engines._remote is not None or (chosen and chosen.name != "tiny"):  # and chose
        sgnb.load("tiny")
    yield _shell
    SESSION.cancel()


@pytest.fixture
def shows_warnings(shell: Any) -> Iterator[None]:
    """Show warnings as a notebook does: pytest records warnings instead."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = warnings._showwarning_orig  # type: ignore[attr-defined]
        show_warnings(cell_label(shell.ipython))
        yield
