"""Handover of prefixes between hosts: equal to a local hit, and each copy is released."""

from __future__ import annotations

import gc
import inspect
import os
import queue
import random
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from sgnb.backends.remote import prefix_exchange, prefix_transport
from sgnb.backends.remote.engine_host import EngineHost
from sgnb.backends.remote.lifetime import start_child
from sgnb.backends.remote.prefix_exchange import (
    MAX_PREFIXES,
    SentPrefix,
    SentPrefixes,
    checksum_of,
    receive,
    transports_by_name,
)
from sgnb.backends.remote.prefix_transport import CudaMemory, SharedMemory
from sgnb.backends.remote.registry import find_hosts, tokenizer_source
from sgnb.backends.remote.remote_engine import RemoteEngine
from sgnb.backends.remote.wire import WireError
from sgnb.engine import Engine
from sgnb.engine.cache.handover import CachedPrefix
from sgnb.errors import EngineError, OptionError, RequestError
from sgnb.sampling import SamplingParams

from .conftest import TOKEN, dial, wait_until

CPU = torch.device("cpu")
OPTIONS = {"device": "cpu", "dtype": "float32", "max_total_tokens": 8192}
SCORED = SamplingParams(max_new_tokens=8, temperature=0, ignore_eos=True, return_logprob=True)


def new_prompt(length: int, seed: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(300, 4000) for _ in range(length)]


def check_equal_to_a_hit(first: Any, second: Any, seed: int = 1, **transport: str) -> None:
    """Compare answers after a handover with answers after a local hit."""
    prompt = new_prompt(157, seed)
    first.generate(prompt, max_new_tokens=1)
    local = first.generate(prompt, SCORED)
    prefix = first.export_prefix(prompt, **transport)
    assert second.adopt_prefix(prefix) == len(prefix.tokens) == 157
    assert second.adopt_prefix(prefix) == 0  # present
    adopted = second.generate(prompt, SCORED)
    assert adopted.cached_tokens == local.cached_tokens == 156
    assert adopted.token_ids == local.token_ids
    assert adopted.logprobs == local.logprobs
    for engine in (first, second):
        stats = engine.stats()
        assert stats["free"] + stats["cached"] == engine.pool_tokens
        assert stats["in_flight"] == 0


def open_prefixes() -> int:
    """Return the number of unreleased copies of this process, mapped copies included."""
    gc.collect()  # errors hold frames
    count = 0
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # other threads close files meanwhile
            count += "sgnb-prefix-" in os.readlink(f"/proc/self/fd/{number}")
    return count


@pytest.fixture(scope="module")
def other() -> Iterator[Engine]:
    with Engine("tiny", **OPTIONS) as engine:
        yield engine


@pytest.fixture
def attach_other(
    other: Engine, tmp_path_factory: pytest.TempPathFactory, tokenizer: Any
) -> Iterator[Callable[..., RemoteEngine]]:
    """Connects to a new host of the other engine, with further transports."""
    opened: list[Any] = []

    def attach(engine: Engine = other, *transports: Any, tcp: bool = False) -> RemoteEngine:
        if tcp:
            listener = socket.create_server(("127.0.0.1", 0))
        else:
            path = str(tmp_path_factory.mktemp("h") / "s")
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path)
            listener.listen()
        host = EngineHost(engine, listener, TOKEN, tokenizer_source("tiny"), transports)
        sock = socket.create_connection(listener.getsockname()) if tcp else dial(path)
        opened.extend([RemoteEngine(sock, TOKEN, "other", tokenizer), host])
        return opened[-2]

    yield attach
    for each in opened:
        each.close()


def test_a_prefix_of_a_host_equals_a_local_hit(
    engine: Engine,
    other: Engine,
    attach: Callable[[], RemoteEngine],
    attach_other: Callable[..., RemoteEngine],
) -> None:
    remote, second = attach(), attach_other()
    for source, target in ((remote, second), (remote, other), (engine, second)):
        engine.flush_cache()
        other.flush_cache()
        check_equal_to_a_hit(source, target)
    wait_until(lambda: not open_prefixes())


def test_the_end_of_a_prefix_or_of_a_client_releases_the_copy(
    attach: Callable[[], RemoteEngine],
) -> None:
    client, prompt = attach(), new_prompt(70, 2)
    client.generate(prompt, max_new_tokens=1)
    prefixes = [client.export_prefix(prompt) for _ in range(2)]
    assert open_prefixes() == 2
    del prefixes[0]
    wait_until(lambda: open_prefixes() == 1)
    client.close()
    wait_until(lambda: not open_prefixes())
    with pytest.raises(EngineError, match="is not available"):
        prefixes[0].content  # noqa: B018


def test_prefixes_of_a_client_are_limited(attach: Callable[[], RemoteEngine]) -> None:
    client, prompt = attach(), new_prompt(66, 3)
    client.generate(prompt, max_new_tokens=1)
    prefixes = [client.export_prefix(prompt) for _ in range(MAX_PREFIXES)]
    with pytest.raises(RequestError, match="at most 16 exported prefixes"):
        client.export_prefix(prompt)
    assert len(client.export_prefix([5, 6, 7]).tokens) == 0  # an empty prefix needs no copy
    prefixes.clear()
    wait_until(lambda: not open_prefixes())
    assert client.export_prefix(prompt).nbytes == 66 * client.token_bytes


def test_engines_and_clients_have_one_signature(
    other: Engine, attach: Callable[[], RemoteEngine]
) -> None:
    client, prompt = attach(), new_prompt(66, 9)
    for engine in (other, client):
        engine.generate(prompt, max_new_tokens=1)
        prefix = engine.export_prefix(prompt, "", "memory")
        assert len(prefix.tokens) == 66 and prefix.content.device == CPU
        with pytest.raises(OptionError, match="no transport of prefixes is called 'memori'"):
            engine.export_prefix(prompt, transport="memori")
        with pytest.raises(OptionError, match="a prefix on cpu is not in the memory of a GPU"):
            engine.export_prefix(prompt, transport="cuda")
        with pytest.raises(OptionError, match="transport"):
            engine.export_prefix(prompt, "", True)  # type: ignore[arg-type]
    names = [
        list(inspect.signature(kind.export_prefix).parameters) for kind in (Engine, RemoteEngine)
    ]
    assert names[0] == names[1]


def test_clients_of_other_machines_are_refused(
    other: Engine, attach: Callable[[], RemoteEngine], attach_other: Callable[..., RemoteEngine]
) -> None:
    distant, near, prompt = attach_other(tcp=True), attach(), new_prompt(68, 4)
    near.generate(prompt, max_new_tokens=1)
    with pytest.raises(EngineError, match="Unix socket of this machine"):
        distant.export_prefix(prompt)
    with pytest.raises(EngineError, match="Unix socket of this machine"):
        distant.adopt_prefix(near.export_prefix(prompt))
    wait_until(lambda: not open_prefixes())


def sent_prefix(transports: Any, tokens: int = 5) -> tuple[SentPrefixes, SentPrefix]:
    content = torch.arange(tokens * 12, dtype=torch.uint8).view(tokens, 12)
    sent = SentPrefixes(transports)
    prefix = CachedPrefix(np.arange(tokens, dtype=np.int32), content, ("a", "b"))
    return sent, sent.send(prefix, "memory")


def test_damaged_descriptions_are_refused() -> None:
    transports = transports_by_name()
    prefixes, sent = sent_prefix(transports)
    received = receive(sent, transports, CPU)
    assert received.content.flatten().tolist() == list(range(60))
    pid, file, label = sent.handle.decode().split(":")
    for error, message, changes in (
        (WireError, "is not a handle", {"handle": f"{pid}/../1:{file}:{label}".encode()}),
        (EngineError, "no sgnb-prefix-", {"handle": f"{pid}:1:{label}".encode()}),
        (WireError, "is not a handle", {"handle": f"{pid}:{file}:{label[:-1]}x".encode()}),
        (WireError, "has not 84 bytes", {"tokens": bytes(28)}),
        (WireError, "has not 65 bytes", {"unit_bytes": 13}),
        (WireError, "is not valid", {"tokens": bytes(21)}),
        (WireError, "is not valid", {"unit_bytes": -12}),
        (WireError, "changed on the way", {"checksum": bytes(16)}),
        (OptionError, "no transport", {"transport": "other"}),
    ):
        with pytest.raises(error, match=message):
            receive(msgspec.structs.replace(sent, **changes), transports, CPU)

    for change in (lambda: os.pwrite(int(file), b"x", 31), lambda: os.truncate(int(file), 10)):
        with pytest.raises(PermissionError):
            change()
    prefixes.close()
    with pytest.raises(EngineError, match="is not available"):
        receive(sent, transports, CPU)
    assert received.content.flatten().tolist() == list(range(60))  # the receiver's own reference


def test_a_prefix_sent_after_the_end_is_released() -> None:
    prefixes, _ = sent_prefix(transports_by_name())
    prefixes.close()
    content = torch.ones((3, 4), dtype=torch.uint8)
    prefixes.send(CachedPrefix(np.arange(3, dtype=np.int32), content, ()), "memory")
    wait_until(lambda: not open_prefixes())


def test_prefixes_on_the_way_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may export on several threads."""
    monkeypatch.setattr(prefix_exchange, "MAX_PREFIXES", 1)
    fabric = Fabric()
    agent = FakeAgent("a", fabric)
    prefixes = SentPrefixes(transports_by_name(agent))
    prefix = CachedPrefix(np.arange(3, dtype=np.int32), torch.ones((3, 4), dtype=torch.uint8), ())
    send = agent.send

    def sending(content: torch.Tensor) -> bytes:
        with pytest.raises(RequestError, match="at most 1 exported prefixes"):
            prefixes.send(prefix, "nixl")
        return send(content)

    monkeypatch.setattr(agent, "send", sending)
    sent = prefixes.send(prefix, "nixl")
    prefixes.release(sent.handle)
    prefixes.release(prefixes.send(prefix, "nixl").handle)
    assert not fabric.registered


def test_checksums_differ_by_one_byte() -> None:
    content = torch.zeros((7, 30), dtype=torch.uint8)
    before = checksum_of(content)
    content[6, 29] = 1
    assert checksum_of(content) != before


class Fabric:
    """Registered memory of all agents, as a network for remote reads has it."""

    def __init__(self) -> None:
        self.registered: dict[tuple[str, int], bytes] = {}


class FakeAgent:
    """A transport in the form of a NIXL agent: register, describe, read from remote memory,
    deregister. A handle is the metadata of the agent, and the descriptor of the memory."""

    name = "nixl"
    same_machine = False

    def __init__(self, agent: str, fabric: Fabric) -> None:
        self._agent, self._fabric = agent, fabric
        self._addresses = iter(range(1000, 2000))
        self.reads = 0

    def send(self, content: torch.Tensor) -> bytes:
        descriptor = self._agent, next(self._addresses)
        self._fabric.registered[descriptor] = content.cpu().numpy().tobytes()
        return msgspec.msgpack.encode(descriptor)

    def receive(self, handle: bytes, shape: tuple[int, int], device: torch.device) -> torch.Tensor:
        descriptor = msgspec.msgpack.decode(handle, type=tuple[str, int])
        data = self._fabric.registered.get(descriptor)
        if data is None:
            raise EngineError(f"agent {descriptor[0]} has no memory {descriptor[1]}")
        self.reads += 1
        return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(shape).to(device)

    def release(self, handle: bytes) -> None:
        self._fabric.registered.pop(msgspec.msgpack.decode(handle, type=tuple[str, int]), None)


def test_an_agent_between_machines_is_a_transport(
    engine: Engine, other: Engine, attach_other: Callable[..., RemoteEngine]
) -> None:
    fabric = Fabric()
    agents = FakeAgent("a", fabric), FakeAgent("b", fabric)
    first = attach_other(engine, agents[0], tcp=True)
    second = attach_other(other, agents[1], tcp=True)
    engine.flush_cache()
    other.flush_cache()
    check_equal_to_a_hit(first, second, transport="nixl")
    assert (agents[0].reads, agents[1].reads) == (0, 2)
    gc.collect()
    wait_until(lambda: not fabric.registered)


def test_handles_of_gpus_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The values of torch travel as typed data, and each sent content is released."""
    values = (1, b"memory", 60, 512, b"counter", 3, b"event", True)
    storage = SimpleNamespace(_share_cuda_=lambda: values)
    content: Any = SimpleNamespace(is_cuda=True, untyped_storage=lambda: storage)
    released: queue.SimpleQueue[Any] = queue.SimpleQueue()
    monkeypatch.setattr(
        prefix_transport.torch.UntypedStorage,
        "_release_ipc_counter_cuda",
        lambda *counter: released.put(counter),
        raising=False,
    )
    transport, gpu = CudaMemory(), torch.device("cuda:0")
    handle = transport.send(content)
    assert tuple(msgspec.msgpack.decode(handle)) == values
    with pytest.raises(OptionError, match="does not fit an engine on cpu"):
        transport.receive(handle, (5, 12), CPU)
    for damaged in (b"\x93", msgspec.msgpack.encode(values[:5]), b""):
        with pytest.raises(WireError, match="invalid data"):
            transport.receive(damaged, (5, 12), gpu)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(WireError, match="60 bytes on GPU 1 is not valid"):
        transport.receive(handle, (5, 13), gpu)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(WireError, match="is not valid"):
        transport.receive(handle, (5, 12), gpu)
    transport.release(handle)
    transport.release(handle)
    assert released.get(timeout=5) == (b"counter", 3)
    assert released.empty()


@pytest.fixture
def children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., RemoteEngine]]:
    """Starts engines in processes."""
    monkeypatch.setenv("SGNB_HOSTS", str(tmp_path))
    engines: list[RemoteEngine] = []

    def start(**options: Any) -> RemoteEngine:
        engines.append(start_child("tiny", options))
        return engines[-1]

    yield start
    for engine in engines:
        engine.close()
    for host in find_hosts():
        os.kill(host.pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_prefix_of_another_process_equals_a_local_hit(
    children: Callable[..., RemoteEngine],
) -> None:
    first, second = children(**OPTIONS), children(**OPTIONS)
    check_equal_to_a_hit(first, second)
    prompt = new_prompt(90, 5)
    first.generate(prompt, max_new_tokens=1)
    prefix = first.export_prefix(prompt)
    pid = next(host.pid for host in find_hosts() if host.name == first.host_name)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: first.closed)
    with pytest.raises(EngineError, match="is not available"):
        second.adopt_prefix(prefix)
    assert second.cached_length([*prompt, 0]) == 0
    assert second.generate(prompt, max_new_tokens=2).finish_reason == "length"


@pytest.mark.gpu
def test_a_prefix_in_the_memory_of_a_gpu_equals_a_local_hit(
    children: Callable[..., RemoteEngine],
) -> None:
    options = {"device": "cuda", "max_total_tokens": 8192, "deterministic": True}
    first, second = children(**options), children(**options)
    check_equal_to_a_hit(first, second, transport="cuda")
    check_equal_to_a_hit(second, first, seed=2, transport="memory")


def test_the_owner_alone_refers_to_shared_memory() -> None:
    """The memory is free after the end of the owner: no name is left in a folder."""
    before, opened = set(os.listdir("/dev/shm")), open_prefixes()
    transport = SharedMemory()
    handle = transport.send(torch.ones((4, 8), dtype=torch.uint8))
    assert open_prefixes() == opened + 1
    assert set(os.listdir("/dev/shm")) == before
    transport.release(handle)
    assert open_prefixes() == opened
