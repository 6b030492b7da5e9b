"""Imports on a thread: an interrupt ends the wait, and the module is imported once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sgnb.whole_import import import_whole

SLOW = """
import signal
import threading
import time
from pathlib import Path

signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
with Path(__file__).with_suffix(".count").open("a") as file:
    file.write("x")
time.sleep(0.2)
END = True
"""


def test_an_interrupt_does_not_cut_an_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_module.py").write_text(SLOW)
    (tmp_path / "failing_module.py").write_text("import no_module_has_this_name")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        import_whole("slow_module")
    assert import_whole("slow_module").END
    assert import_whole("slow_module") is sys.modules.pop("slow_module")
    assert (tmp_path / "slow_module.count").read_text() == "x"
    with pytest.raises(ModuleNotFoundError, match="no_module_has_this_name"):
        import_whole("failing_module")
