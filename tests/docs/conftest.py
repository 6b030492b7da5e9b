"""The shell of the tests of magics."""

from tests.magics.conftest import _shell, shell

__all__ = ["_shell", "shell"]
