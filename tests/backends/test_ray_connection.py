"""The connection to Ray and the placement of actors, with a fake of Ray."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from sgnb.backends.fleet import ray_connection, ray_hosts
from sgnb.backends.fleet.fleet_executor import FleetExecutor
from sgnb.backends.fleet.ray_connection import RayConnection
from sgnb.backends.fleet.ray_hosts import RayHosts
from sgnb.errors import EngineError, OptionError
from sgnb.latch import Latch

from .remote.conftest import wait_until


class FakeRay:
    """Ray with a connection at most, whose actors never answer. Calls without a connection fail."""

    class exceptions:
        class RayError(Exception):
            pass

        class GetTimeoutError(RayError):
            pass

    def __init__(self, cpus: int = 4) -> None:
        self.cpus, self.killed = cpus, list[Any]()
        self.session: int | None = None
        self.num_starts = 0
        self.threads: list[threading.Thread] = []  # of the starts and ends
        self.answer: Exception = self.exceptions.GetTimeoutError()
        self.failure: Exception | None = None
        self.may_start = threading.Event()
        self.may_start.set()
        client = SimpleNamespace(is_connected=lambda: False)
        self.util = SimpleNamespace(client=SimpleNamespace(ray=client))

    def is_initialized(self) -> bool:
        return self.session is not None

    def init(self, address: str | None = None, **options: Any) -> None:
        assert self.session is None
        self.threads.append(threading.current_thread())
        logging.getLogger("ray._private.worker").warning("a line of Ray")
        assert self.may_start.wait(20)
        if self.failure is not None:
            raise self.failure
        self.num_starts += 1
        self.session = self.num_starts

    def shutdown(self) -> None:
        self.threads.append(threading.current_thread())
        self.session = None

    def get_runtime_context(self) -> Any:
        node = f"node {self.session}"
        return SimpleNamespace(get_node_id=lambda: node, get_job_id=lambda: "job")

    def cluster_resources(self) -> dict[str, float]:
        assert self.session is not None
        return {"CPU": self.cpus}

    def remote(self, kind: type) -> Any:
        assert self.session is not None
        return SimpleNamespace(options=lambda **resources: SimpleNamespace(remote=FakeActor))

    def get(self, answer: object, timeout: float) -> Any:
        raise self.answer

    def kill(self, actor: Any) -> None:
        assert self.session is not None
        self.killed.append(actor)


class FakeActor:
    def __init__(self, model: str, options: Any) -> None:
        self.endpoint = SimpleNamespace(remote=object)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRay]:
    fake = FakeRay()
    monkeypatch.setattr(ray_connection, "import_whole", lambda name: fake)
    yield fake
    owner = ray_connection._owner
    assert owner is None or owner.ended.wait(20), "each test closes its connections"


def test_ray_ends_with_the_last_fleet(ray: FakeRay) -> None:
    first, second = RayConnection(""), RayConnection("")
    first.close()
    assert ray.session == 1 and second.is_open
    second.close()
    assert ray.session is None


def test_ray_of_the_user_stays(ray: FakeRay) -> None:
    ray.init(num_cpus=3)
    connection = RayConnection("")
    connection.close()
    assert ray.session == 1


def test_a_later_ray_of_the_user_stays(ray: FakeRay) -> None:
    connection = RayConnection("")
    ray.shutdown()
    ray.init()
    assert not connection.is_open
    connection.close()
    assert ray.session == 2


def test_an_interrupt_after_the_start_ends_ray(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_of = ray_connection._session_of

    def interrupt(module: Any) -> tuple[str, str]:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return session_of(module)

    monkeypatch.setattr(ray_connection, "_session_of", interrupt)
    with pytest.raises(KeyboardInterrupt):
        RayConnection("")
    wait_until(lambda: ray.session is None)


def test_a_second_cluster_is_refused(ray: FakeRay) -> None:
    ray.init()
    with pytest.raises(OptionError, match=r"on='ray://a:1' is not possible.*\n.*ray.shutdown\(\)"):
        RayConnection("ray://a:1")


@pytest.mark.parametrize("address", ["", "ray://a:1"])
def test_a_failed_start_is_explained(ray: FakeRay, address: str) -> None:
    ray.failure = ValueError("Ray Client requires pip package `ray[client]`")
    with pytest.raises(EngineError, match=r"ray\[client\]"):
        RayConnection(address)
    assert ray.session is None


def test_an_interrupt_ends_ray_after_its_start(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray.may_start.clear()

    wait = Latch.wait

    def interrupt(self: Latch, seconds: float | None = None) -> bool:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return wait(self, seconds)

    with monkeypatch.context() as patch:
        patch.setattr(Latch, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            RayConnection("")
    ray.may_start.set()
    connection = RayConnection("")
    assert ray.num_starts == 2, "the next start waits for the end"
    connection.close()
    assert ray.session is None


def test_ray_ends_on_the_thread_that_started_ray(ray: FakeRay) -> None:
    """The processes of Ray end with this thread."""
    connection = RayConnection("")
    [thread] = [each for each in threading.enumerate() if each.name == "sgnb-ray"]
    assert ray.threads == [thread] and thread.is_alive()
    connection.close()
    assert ray.threads == [thread] * 2


def test_a_start_prints_no_line_of_ray(ray: FakeRay, caplog: pytest.LogCaptureFixture) -> None:
    RayConnection("").close()
    assert not caplog.messages
    ray.init()
    assert caplog.messages == ["a line of Ray"], "of the user"


def test_ray_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(OptionError, match=r"needs the package ray\n.*sgnb\[scale\]"):
        RayConnection("")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"devise": "cpu"}, "devise"),
        ({"on": "ray://"}, "on='ray://' is not allowed"),
        ({"replicas": (3, 2)}, r"replicas=\(3, 2\) is not allowed"),
    ],
)
def test_options_are_checked_before_ray_starts(
    ray: FakeRay, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        FleetExecutor.load("tiny", **{"replicas": 2, "on": "ray"} | options)
    assert ray.num_starts == 0


def test_an_actor_that_does_not_start_is_killed(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the actor would take resources of a cluster later."""
    monkeypatch.setattr(ray_hosts, "START_SECONDS", 0.0)
    hosts = RayHosts("tiny", {}, 2)
    with pytest.raises(EngineError, match="Ray actor 0 did not start within 0 s"):
        hosts.start(0)
    assert len(ray.killed) == 1

    error = "Traceback:\n  File x\nModelError: no model 'x'\n  hint: give a folder"
    ray.answer = ray.exceptions.RayError(error)
    message = r"^Ray actor 1 did not start: ModelError: no model 'x'\n  hint: give a folder$"
    with pytest.raises(EngineError, match=message):
        hosts.start(1)
    assert len(set(map(id, ray.killed))) == 2
    hosts.close()
    assert ray.session is None and len(ray.killed) == 2


def test_actors_that_start_count_for_the_room(ray: FakeRay) -> None:
    """A further actor would wait for room until the timeout."""
    ray.cpus = 2
    with pytest.raises(EngineError, match="3 replicas need 3 CPUs, and the Ray cluster has 2"):
        RayHosts("tiny", {}, 3)
    assert ray.session is None

    hosts = RayHosts("tiny", {}, 2)
    errors: list[EngineError] = []

    def start(worker: int) -> None:
        try:
            hosts.start(worker)
        except EngineError as error:
            errors.append(error)

    threads = [threading.Thread(target=start, args=(worker,)) for worker in (0, 1)]
    for thread in threads:
        thread.start()
    wait_until(lambda: not hosts._placed, 20)
    with pytest.raises(EngineError, match="3 replicas need 3 CPUs"):
        hosts.start(2)
    hosts.close()
    for thread in threads:
        thread.join(20)
    assert [error.message[-5:] for error in errors] == ["ended"] * 2
    assert len(set(map(id, ray.killed))) == 2


def test_a_fleet_without_ray_starts_no_ray(ray: FakeRay) -> None:
    hosts = RayHosts("tiny", {}, 2)
    ray.shutdown()
    with pytest.raises(EngineError, match="Ray actor 0 has ended"):
        hosts.start(0)
    hosts.close()
    assert ray.num_starts == 1 and not ray.killed
