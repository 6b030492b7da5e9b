"""Tensor parallelism with followers as processes, over gloo: tokens, lost ranks, and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lost_ranks import ENDLESS, SECONDS, lose
from sgnb.engine.parallel import team as team_module
from sgnb.engine.parallel.team import Team
from sgnb.errors import EngineError, ModelError

from .rank_scenario import FOUR_RANKS, compare, open_engine, save_model

pytestmark = pytest.mark.slow
SMALL: dict[str, Any] = {"max_total_tokens": 130, "max_step_tokens": 40, "max_running_requests": 12}


@pytest.fixture
def teams(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Team]]:
    """The teams of the test. All followers have ended after the test."""
    started: list[Team] = []
    before = Team.__init__

    def init(self: Team, *args: Any) -> None:
        started.append(self)
        before(self, *args)

    monkeypatch.setattr(Team, "__init__", init)
    yield started
    for team in started:
        team.close()
        assert all(follower.returncode is not None for follower in team._followers)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("llama"), "llama", **FOUR_RANKS)


@pytest.mark.parametrize(("family", "size", "overlap"), [("llama", 2, True), ("mixtral", 4, False)])
def test_tokens_equal_one_process(
    family: str, size: int, overlap: bool, tmp_path: Path, teams: list[Team]
) -> None:
    """`test_tensor_parallel.py` has more families, with followers in threads."""
    model = save_model(tmp_path, family, **FOUR_RANKS)
    compare(model, size, overlap=overlap, **SMALL)
    assert [follower.returncode for follower in teams[0]._followers] == [0] * (size - 1)


LOSSES = [(2, 1, None), (2, 1, 0.0), (2, 1, 0.25), (4, 1, None), (4, 2, 0.1), (4, 3, 0.05)]
"""Number of ranks, lost rank, and seconds until the loss during steps. None: between steps."""


@pytest.mark.parametrize(("size", "rank", "after"), LOSSES)
def test_a_lost_rank_is_reported(
    size: int, rank: int, after: float | None, llama: str, teams: list[Team]
) -> None:
    """The kernel lives. `python -m benchmarks lost_ranks` has 20 losses."""
    with open_engine(llama, tensor_parallel=size, overlap=after != 0.25) as engine:
        engine.generate([5, 6, 7], max_new_tokens=2)
        error, seconds = lose(engine, rank, after)
    assert f"rank {rank} of {size} was killed by signal 9" in str(error)
    assert seconds < SECONDS
    with open_engine(llama) as engine:
        assert engine.generate([5, 6, 7], max_new_tokens=2, ignore_eos=True).token_ids


FAILING_LOAD = (
    "import sys; sys.path[:] = sys.argv[1:]; from sgnb.engine import assembly, sizing; "
    "sizing.pool_tokens = lambda *a: [][1]; assembly.serve_rank()"
)
"""Program of a follower that fails after the group is complete."""


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (FAILING_LOAD, "failed: IndexError: list index"),
        ("raise SystemExit(3)", "ended with status 3"),
    ],
)
def test_a_follower_lost_in_a_load_is_named(
    program: str, message: str, llama: str, teams: list[Team], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_module, "_BEGIN", program)
    with pytest.raises(ModelError, match=f"rank 1 of 2 {message}"):
        open_engine(llama, tensor_parallel=2)


def test_an_interrupt_ends_the_wait_for_followers(
    llama: str, teams: list[Team], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_module, "_BEGIN", "import time; time.sleep(60)")
    sent = list[float]()

    def interrupt() -> None:
        while not (teams and getattr(teams[0], "_pipes", None)):
            time.sleep(0.01)
        time.sleep(0.3)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        open_engine(llama, tensor_parallel=2)
    assert time.monotonic() - sent[0] < 2


def test_a_follower_without_memory_in_a_step_is_named(
    llama: str, teams: list[Team], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = (
        "import sys; sys.path[:] = sys.argv[1:]; from sgnb.engine import assembly, runner\n"
        "def follow(self, step): raise MemoryError('out of memory')\n"
        "runner.ModelRunner.follow = follow; assembly.serve_rank()"
    )
    monkeypatch.setattr(team_module, "_BEGIN", failing)
    engine = open_engine(llama, tensor_parallel=2)
    with engine, pytest.raises(EngineError, match="rank 1 of 2 failed: MemoryError: out of memory"):
        engine.generate([5, 6, 7], ENDLESS)


def test_a_failure_of_rank_0_in_a_step_ends_the_engine(
    llama: str, teams: list[Team], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The followers wait for the part of rank 0, so the step cannot be repeated."""
    with open_engine(llama, tensor_parallel=2) as engine:
        assert engine.generate([5, 6, 7], max_new_tokens=2, ignore_eos=True).token_ids

        def fail(*args: Any) -> None:
            raise MemoryError("out of memory")

        monkeypatch.setattr(engine._loop._runner, "compute_logits", fail)
        with pytest.raises(EngineError, match="rank 0 of 2 failed: MemoryError: out of memory"):
            engine.generate([5, 6, 7], ENDLESS)
        assert engine.closed


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_followers_end_with_the_kernel(llama: str, sig: int) -> None:
    code = (
        "import sys, time\nfrom sgnb.engine.engine import Engine\nimport sgnb.backends\n"
        "e = Engine(sys.argv[1], device='cpu', tensor_parallel=2)\n"
        "print(e._loop._runner._leader._followers[0].pid, flush=True)\n"
        "e.generate([5, 6, 7], max_new_tokens=200, ignore_eos=True)\ntime.sleep(600)"
    )
    kernel = subprocess.Popen([sys.executable, "-c", code, llama], stdout=subprocess.PIPE)
    try:
        assert kernel.stdout is not None
        follower = int(kernel.stdout.readline())
        kernel.send_signal(sig)
        kernel.wait()
        ends = time.monotonic() + 5
        while is_running(follower):
            assert time.monotonic() < ends
            time.sleep(0.02)
    finally:
        kernel.kill()
        kernel.wait()
        assert kernel.stdout is not None
        kernel.stdout.close()


def is_running(process: int) -> bool:
    with suppress(OSError):
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False


def test_nothing_is_left(llama: str, teams: list[Team]) -> None:
    """No file, folder, process or descriptor remains after `close`."""
    open_files = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        with open_engine(llama, tensor_parallel=2) as engine:
            engine.generate([5, 6, 7], max_new_tokens=2)
        assert not Path(teams[-1]._folder).exists()
        count = len(os.listdir("/proc/self/fd"))
    assert count <= open_files + 4
