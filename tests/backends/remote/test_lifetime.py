"""Start and end of host processes, and cleanup after the loss of a client or a host."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import sgnb
from sgnb.backends.remote import engine_host, lifetime
from sgnb.backends.remote.lifetime import SharedEngine, attach, open_shared, start_child
from sgnb.backends.remote.registry import (
    HostRecord,
    find_hosts,
    folder,
    is_alive,
    read_options,
    read_record,
    write_record,
)
from sgnb.backends.remote.remote_engine import RemoteEngine
from sgnb.engine import Engine
from sgnb.errors import EngineError, ModelError, OptionError
from sgnb.magics.session import SESSION

from .conftest import TOKEN, dial, wait_until

ROOT = Path(__file__).resolve().parents[3]
OPTIONS: dict[str, Any] = {"device": "cpu", "dtype": "float32", "max_total_tokens": 8192}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of hosts for each test; no host survives the test."""
    monkeypatch.setenv("SGNB_HOSTS", str(tmp_path / "h"))
    monkeypatch.setenv("SGNB_HOST_IDLE", "20")
    yield
    for host in find_hosts():
        if host.pid != os.getpid():
            os.kill(host.pid, signal.SIGKILL)


def test_an_engine_of_this_process_is_shared(engine: Engine) -> None:
    shared = SharedEngine(engine, {})
    with attach() as one, attach(shared.record.name) as two:
        results = [each.generate("x", max_new_tokens=3, temperature=0) for each in (one, two)]
        assert results[0].token_ids == results[1].token_ids
        assert not (folder() / f"{shared.record.name}.json").stat().st_mode & 0o077
        shared.close()
        wait_until(lambda: one.closed and two.closed)
        with pytest.raises(EngineError, match=shared.record.name):
            one.stats()
    shared.close()
    assert find_hosts() == [] and not engine.closed


def test_a_running_host_keeps_its_name(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that refuses a client is not replaced; an ended host is."""
    shared = SharedEngine(engine, {})
    started: list[Any] = []

    def start(config: Any, stage: Any) -> Any:
        started.append(config.name)
        raise EngineError("no start in this test")

    monkeypatch.setattr(lifetime, "_start", start)
    monkeypatch.setattr(lifetime, "host_name", lambda model, options: shared.record.name)
    open_shared("tiny", OPTIONS).close()
    with monkeypatch.context() as context:
        context.setattr(engine_host, "MAX_CLIENTS", 0)
        with pytest.raises(EngineError, match="at most 0 clients"):
            open_shared("tiny", OPTIONS)
    assert not started and find_hosts() == [shared.record]

    shared.host.close()  # as if killed: the record stays
    with pytest.raises(EngineError, match="no start"):
        open_shared("tiny", OPTIONS)
    assert started == [shared.record.name] and find_hosts() == []


CLIENT_THREADS = {"sgnb-host-reader", "sgnb-host-writer", "sgnb-remote", "sgnb-wire"}
"""Names of the four threads of a client. Other threads of a host begin at any time."""


def client_threads() -> int:
    return sum(thread.name in CLIENT_THREADS for thread in threading.enumerate())


def test_lost_clients_leave_nothing(engine: Engine, address: str, tokenizer: Any) -> None:
    """Clients that vanish at any moment of a stream leave no request, thread or memory."""
    other = RemoteEngine(dial(address), TOKEN, "other", tokenizer)
    other.generate("x", max_new_tokens=1)  # its threads run
    before = client_threads()
    for number in range(30):
        client = RemoteEngine(dial(address), TOKEN, "lost", tokenizer)
        stream = client.generate("A story", max_tokens=3000, ignore_eos=True, stream=True)
        for _ in range(number % 3):
            next(stream)
        client._client._connection.close()
        if number % 10 == 0:
            assert other.generate("x", max_new_tokens=2).finish_reason in ("length", "stop")
    wait_until(lambda: engine.stats()["in_flight"] == 0)
    wait_until(lambda: client_threads() <= before)
    other.close()


def test_options_of_a_host_are_plain(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="unknown engine option"):
        open_shared("tiny", {"devise": "cpu"})
    with pytest.raises(OptionError):
        start_child("tiny", {"tokenizer": object()})
    assert find_hosts() == []


def test_damaged_records_hide_no_other_host() -> None:
    record = HostRecord("a", "unix:/a.sock", TOKEN, os.getpid(), "tiny", "{}", "host")
    write_record(record)
    for number, pid in enumerate((1 << 31, 1 << 70)):
        write_record(replace(record, name=f"b{number}", pid=pid))
    os.rename(write_record(replace(record, name="c")), folder() / "d.json")
    assert find_hosts() == [record]


@pytest.mark.parametrize("pid", [0, -1])
def test_a_record_of_a_group_of_processes_is_damaged(pid: int) -> None:
    path = write_record(HostRecord("a", "unix:/a.sock", TOKEN, pid, "tiny", "{}", "host"))
    try:
        assert read_record("a") is None
    finally:
        path.unlink()  # no test may signal a group


def test_a_host_with_damaged_options_is_not_started_again() -> None:
    record = HostRecord("a", "unix:/a.sock", TOKEN, os.getpid(), "tiny", '{"dtype": ', "host")
    write_record(record)
    assert read_options("a") is None
    write_record(replace(record, options='{"dtype": "float32"}'))
    assert read_options("a") == {"shared": True, "dtype": "float32"}


def test_a_damaged_idle_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGNB_HOST_IDLE", "soon")
    with pytest.raises(OptionError, match="SGNB_HOST_IDLE"):
        open_shared("tiny", OPTIONS)


def test_magics_share_and_attach(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    session = type(SESSION)(print)
    session.set_default_backend(engine)
    name = session.engines.share()
    assert name == session.engines.share() and name in capsys.readouterr().out
    other = type(SESSION)(print)
    assert [row["host"] for row in other.engines.ls()] == [name]
    try:
        remote = other.engines.attach()
        assert isinstance(remote, RemoteEngine) and other.engines.attach(name) is remote
        assert [row["host"] for row in other.engines.ls()] == [name]
        assert other.engines.info()["device"] == "cpu"
        remote.generate("some text to keep", max_new_tokens=1)
        assert other.cache.stats()["cached"] == engine.stats()["cached"]
        other.engines.unload()
        assert remote.closed and not engine.closed
    finally:
        loaded = session.engines.get()
        assert loaded.shared is not None
        loaded.shared.close()
        sgnb.set_default_backend(None)


@pytest.mark.slow
def test_a_child_ends_with_its_owner(tmp_path: Path) -> None:
    """By `close`, and if the owner is killed."""
    engine = start_child("tiny", OPTIONS)
    (host,) = find_hosts()
    assert engine.generate("x", max_new_tokens=2).finish_reason in ("length", "stop")
    engine.close()
    wait_until(lambda: not is_alive(host.pid))
    assert find_hosts() == []

    script = (
        "import time; from sgnb.backends.remote.lifetime import start_child; "
        f"start_child('tiny', {OPTIONS!r}); print('ready', flush=True); time.sleep(600)"
    )
    for end in (signal.SIGKILL, signal.SIGINT):
        owner = subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=ROOT, text=True
        )
        try:
            assert owner.stdout is not None and owner.stdout.readline() == "ready\n"
            (host,) = find_hosts()
        finally:
            owner.send_signal(end)
            owner.wait()
        wait_until(partial(lambda pid: not is_alive(pid), host.pid))


@pytest.mark.slow
def test_a_shared_host_survives_and_ends_when_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGNB_HOST_IDLE", "3")
    stages: list[str] = []
    one = open_shared("tiny", OPTIONS, stages.append)
    assert "reading weights" in stages
    (host,) = find_hosts()
    one.generate("a text in the cache", max_new_tokens=1)
    one.close()
    two = open_shared("tiny", OPTIONS)
    assert find_hosts() == [host] and two.cached_length("a text in the cache") > 3
    os.kill(host.pid, signal.SIGKILL)
    wait_until(lambda: two.closed)
    with pytest.raises(EngineError, match=host.name):
        two.generate("x")
    with open_shared("tiny", OPTIONS) as three:
        (again,) = find_hosts()
        assert again.pid != host.pid
        assert three.generate("x", max_new_tokens=1).finish_reason in ("length", "stop")
    wait_until(lambda: not is_alive(again.pid))
    assert find_hosts() == []


@pytest.mark.slow
def test_a_failed_load_is_the_error_of_the_load(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model folder"):
        open_shared(str(tmp_path / "absent"), OPTIONS)
    assert find_hosts() == []


@pytest.mark.slow
def test_a_host_for_other_machines() -> None:
    command = [sys.executable, "-m", "sgnb.backends.remote", "tiny", "--option", "dtype=float32"]
    host = subprocess.Popen(
        [*command, "--option", "max-total-tokens=4096"], stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    try:
        assert host.stdout is not None
        address = host.stdout.readline().strip()
        token = host.stdout.readline().removeprefix("token: ").strip()
        with attach(address, token) as engine:
            assert engine.pool_tokens == 4096 and engine.dtype == "float32"
            assert engine.generate("x", max_new_tokens=2).finish_reason in ("length", "stop")
        with pytest.raises(EngineError, match="token"):
            attach(address, "guessed")
        host.send_signal(signal.SIGINT)
        assert host.wait(60) == 0
    finally:
        host.kill()
        host.wait()


@pytest.mark.slow
def test_killed_kernels_leave_nothing() -> None:
    with open_shared("tiny", OPTIONS) as engine:
        (host,) = find_hosts()
        expected = engine.generate("The other notebook", max_new_tokens=8, temperature=0).text
        threads = Path(f"/proc/{host.pid}/task")
        before = len(list(threads.iterdir()))
        code = "from tests.backends.remote.killed_kernels import main; "
        code += f"main({host.name!r}, 30)"
        killer = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, text=True
        )
        assert killer.stdout is not None
        numbers = 0
        for _ in killer.stdout:
            numbers += 1
            if numbers % 10 == 0:
                text = engine.generate("The other notebook", max_new_tokens=8, temperature=0).text
                assert text == expected
        assert killer.wait() == 0 and numbers == 30
        wait_until(lambda: engine.stats()["in_flight"] == 0)
        wait_until(lambda: len(list(threads.iterdir())) <= before + 4)  # the pool of calls
        children = Path(f"/proc/{host.pid}/task/{host.pid}/children")
        assert children.read_text() == ""
    os.kill(host.pid, signal.SIGTERM)
    wait_until(lambda: not is_alive(host.pid))
    assert find_hosts() == []
