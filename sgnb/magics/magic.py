"""Magics `%%sglang` and `%sglang`: parse a line, delegate, and shorten errors. Contains no command
logic."""

from __future__ import annotations

from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import no_var_expand

from .. import lang
from .cell_program import CellRun
from .commands import Commands
from .help_texts import cell_help, line_help
from .magic_options import CellLine, LineCall
from .report import cell_label, shorten
from .session import SESSION, Session


class SglangMagics:
    """The two magics. State lives in the session and in the notebook's namespace."""

    def __init__(self, shell: InteractiveShell, session: Session = SESSION) -> None:
        self.shell, self.session, self._label = shell, session, cell_label(shell)

    def register(self) -> None:
        """Register both magics with the shell, and cell names with the language."""
        lang.name_cells(self._label)
        for kind, magic in (("cell", self.run_cell), ("line", self.run_line)):
            self.shell.magics_manager.register_function(magic, kind, "sglang")

    @no_var_expand
    def run_cell(self, line: str, body: str) -> Any:
        try:
            cell = CellLine.parse(line)
            return CellRun(self.shell, self.session, cell, self._label).execute(line, body)
        except BaseException as error:
            shorten(error, self._label)
            raise

    run_cell.__doc__ = cell_help()

    @no_var_expand
    def run_line(self, line: str) -> Any:
        if not line.strip():
            print(line_help())
            return None
        try:
            call = LineCall.parse(line)
            return getattr(Commands(self.shell.user_ns, self.session), call.name)(call)
        except BaseException as error:
            shorten(error, self._label)
            raise

    run_line.__doc__ = line_help()
