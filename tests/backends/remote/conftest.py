"""An engine, a host for the engine, and clients, all in this process."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from sgnb.backends.remote.engine_host import EngineHost
from sgnb.backends.remote.registry import tokenizer_source
from sgnb.backends.remote.remote_engine import RemoteEngine
from sgnb.engine import Engine

TOKEN = "a secret"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    torch.set_num_threads(1)
    with Engine("tiny", device="cpu", dtype="float32", max_total_tokens=8192) as engine:
        yield engine


@pytest.fixture(scope="module")
def address(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = str(tmp_path_factory.mktemp("h") / "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    host = EngineHost(engine, listener, TOKEN, tokenizer_source("tiny"))
    yield path
    host.close()


def wait_until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"the condition is false after {seconds} seconds"
        time.sleep(0.02)


def dial(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(20.0)
    sock.connect(path)
    return sock


@pytest.fixture(scope="module")
def tokenizer(engine: Engine):
    """The tokenizer of the engine; each client would read the file again."""
    assert engine.tokenizer is not None
    return engine.tokenizer.hf


@pytest.fixture
def attach(address: str, tokenizer) -> Iterator[Callable[[], RemoteEngine]]:
    """Connect a client, which the fixture closes."""
    clients: list[RemoteEngine] = []

    def attach() -> RemoteEngine:
        clients.append(RemoteEngine(dial(address), TOKEN, "test", tokenizer))
        return clients[-1]

    yield attach
    for client in clients:
        client.close()
