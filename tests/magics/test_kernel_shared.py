"""Two Jupyter kernels share an engine: the restart of a kernel keeps the model and the cache, and
does not disturb the other kernel."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

from sgnb.backends.remote.registry import find_hosts

from .test_kernel import Kernel, kinds

CELL = "%%sglang --show none\ns += 'One, two,'\ns += gen('a', max_tokens=4, temperature=0)\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SGNB_HOSTS", str(tmp_path / "h"))
    yield
    for host in find_hosts():
        os.kill(host.pid, signal.SIGKILL)


def started() -> tuple[Any, Kernel]:
    manager, client = start_new_kernel(startup_timeout=200)
    kernel = Kernel(client, manager)
    kernel.run("%load_ext sgnb")
    return manager, kernel


@pytest.mark.slow
def test_two_notebooks_share_an_engine(place: None) -> None:
    one_manager, one = started()
    two_manager, two = started()
    try:
        assert "error" not in kinds(one.run("%sglang load tiny --shared --dtype float32"))
        (host,) = find_hosts()
        assert "error" not in kinds(two.run("%sglang attach"))
        assert "error" not in kinds(one.run(CELL)) and "error" not in kinds(two.run(CELL))
        text = one.value("s['a']")
        assert text and two.value("s['a']") == text

        one_manager.restart_kernel(now=True)
        one.client.wait_for_ready(timeout=200)
        assert "error" not in kinds(two.run(CELL)), "the other notebook works"
        one.run("%load_ext sgnb")
        one.run("%sglang load tiny --shared --dtype float32")
        assert find_hosts() == [host], "the model was not loaded again"
        one.run(CELL)
        assert one.value("s['a']") == text
        assert int(one.value("s.get_meta_info('a')['cached_tokens']")) > 0

        os.kill(host.pid, signal.SIGKILL)
        wait = "import time\nwhile not s.program.executor.engine.closed: time.sleep(0.01)"
        assert "error" not in kinds(two.run(wait))
        messages = two.run(CELL)
        assert "error" not in kinds(messages), "the next cell loads the model again"
        assert two.value("s['a']") == text
    finally:
        for manager, kernel in ((one_manager, one), (two_manager, two)):
            kernel.client.stop_channels()
            manager.shutdown_kernel(now=True)
