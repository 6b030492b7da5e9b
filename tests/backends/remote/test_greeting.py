"""Connections that fail before or during the greeting leave no client, and do not stop the host."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sgnb.backends.remote import __main__ as command
from sgnb.backends.remote import engine_host
from sgnb.backends.remote.engine_host import EngineHost
from sgnb.backends.remote.registry import connect, listen, tokenizer_source
from sgnb.backends.remote.remote_engine import RemoteEngine
from sgnb.backends.remote.wire import Challenge, Connection, Hello, decoder, proof
from sgnb.engine import Engine
from sgnb.errors import OptionError

from .conftest import TOKEN, dial, wait_until

Open = Callable[[], tuple[EngineHost, str]]


class FailingListener(socket.socket):
    """A listening socket with a failed first `accept`, as without free descriptors."""

    has_failed = False

    def accept(self) -> Any:
        if not self.has_failed:
            self.has_failed = True
            raise OSError(24, "Too many open files")
        return super().accept()


@pytest.fixture
def open_host(engine: Engine, tmp_path: Path) -> Iterator[Open]:
    hosts: list[EngineHost] = []

    def open_host() -> tuple[EngineHost, str]:
        listener = FailingListener(socket.AF_UNIX)
        listener.bind(path := str(tmp_path / "s"))
        listener.listen()
        hosts.append(EngineHost(engine, listener, TOKEN, tokenizer_source("tiny")))
        return hosts[-1], path

    yield open_host
    for host in hosts:
        host.close()


def test_a_client_that_leaves_during_the_greeting_is_forgotten(
    open_host: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the host never becomes idle."""
    monkeypatch.setattr(engine_host, "ACCEPT_PAUSE", 0.01)
    host, path = open_host()
    client = Connection(dial(path), "the host")
    facts, connected = engine_host.engine_facts, []

    def leave(*arguments: Any) -> Any:
        client.close()
        connected.append(host.num_clients)
        return facts(*arguments)

    monkeypatch.setattr(engine_host, "engine_facts", leave)
    challenge = decoder(Challenge, "the host")(client.receive())
    client.send_now(Hello(1, proof(TOKEN, challenge.nonce, "client"), b"n"))
    wait_until(lambda: connected and not host.num_clients)
    assert connected == [1] and host.idle_since is not None


def test_slow_greetings_end_and_let_clients_in(
    open_host: Open, monkeypatch: pytest.MonkeyPatch, tokenizer: Any
) -> None:
    monkeypatch.setattr(engine_host, "ACCEPT_PAUSE", 0.01)
    monkeypatch.setattr(engine_host, "GREETING_SECONDS", 0.3)
    monkeypatch.setattr(engine_host, "MAX_GREETINGS", 2)
    _, path = open_host()
    strangers = [dial(path) for _ in range(6)]
    for stranger in strangers:
        stranger.sendall(struct.pack(">I", 1000) + b"x")
    with RemoteEngine(dial(path), TOKEN, "test", tokenizer) as client:
        assert client.stats()["free"] > 0
    for stranger in strangers:
        while stranger.recv(1 << 16):
            pass
        stranger.close()


@pytest.mark.parametrize("name", ["a..b", f"{'a' * 64}.b"])
def test_names_that_no_machine_has(name: str) -> None:
    with pytest.raises(OptionError, match="is not an address"):
        connect(f"tcp://{name}:1", "test")


def test_a_port_in_use_is_refused_before_the_load(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "Engine", None)  # not loaded
    with socket.create_server(("127.0.0.1", 0)) as used:
        address = f"tcp://127.0.0.1:{used.getsockname()[1]}"
        with pytest.raises(OptionError, match="cannot be used"):
            listen("", address)
        assert command.main(["tiny", "--listen", address]) == 1
    assert "cannot be used" in capsys.readouterr().err
