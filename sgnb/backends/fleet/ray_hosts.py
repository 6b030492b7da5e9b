"""Engine hosts as actors of Ray. Ray places the hosts and gives them GPUs; calls go over the hosts'
own connections, so no step needs a call of Ray. The fleet starts ended hosts again."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from ...engine.options import EngineOptions
from ...errors import EngineError, OptionError
from ..any_engine import AnyEngine
from ..remote.registry import connect, listen, tokenizer_source
from ..remote.remote_engine import RemoteEngine

START_SECONDS = 600.0
"""Time in which an actor must be placed and load its model."""

POLL_SECONDS = 0.1


class HostActor:
    """An engine host in a process of Ray. Runs in a cluster.

    Args:
        model: As in `Engine`.
        options: Options of `Engine`.
    """

    def __init__(self, model: str, options: Mapping[str, Any]) -> None:
        from ...engine import Engine
        from ..remote.engine_host import EngineHost

        engine = Engine(model, **options)
        listener, self._address = listen("ray", f"tcp://{_own_address()}:0")
        self._token = secrets.token_hex(32)
        self._host = EngineHost(engine, listener, self._token, tokenizer_source(model))

    def endpoint(self) -> tuple[str, str, int]:
        """Return the address of the host, the token and the process id."""
        return self._address, self._token, os.getpid()


class RayHosts:
    """Actors with an engine each: a `WorkerSource`. `close` ends the actors, and Ray if this object
    started Ray.

    Args:
        model: Folder, hub id, or name of a bundled model; readable on each machine of the cluster.
        options: Options of `Engine`.
        replicas: Number of actors to place at once; `start` connects to each.
        address: Address of a cluster, such as "ray://head:10001"; "" for a running cluster of this
            machine, otherwise a new one.

    Raises:
        OptionError: Ray is not installed.
        EngineError: The cluster has too little room.
    """

    def __init__(
        self, model: str, options: Mapping[str, Any], replicas: int, address: str = ""
    ) -> None:
        self._model, self._options = model, dict(options)
        self._ray = _import_ray()
        self._owned, self._guard, self._closed = ExitStack(), threading.Lock(), False
        self._placed: list[Any] = []  # actors that load the model, for `start`
        self._actors: dict[AnyEngine, Any] = {}
        with ExitStack() as opened:
            self._connect(address, opened)
            self._resources = self._actor_resources()
            self._check_room(replicas)
            self._placed = [self._new_actor() for _ in range(replicas)]
            self._owned = opened.pop_all()

    def start(self, worker: int) -> RemoteEngine:
        """See `WorkerSource`.

        Raises:
            EngineError: The actor does not run, with Ray's reason.
        """
        name = f"Ray actor {worker}"
        with self._guard:
            self._check_open(name)
            if not self._placed:
                self._check_room(len(self._actors) + 1)
            actor = self._placed.pop() if self._placed else self._new_actor()
        address, token = self._endpoint(actor, name)
        engine = RemoteEngine(connect(address, name), token, name)
        with self._guard:
            if not self._closed:
                self._actors[engine] = actor
                return engine
        engine.close()
        raise _ended(name)

    def stop(self, engine: AnyEngine) -> None:
        """See `WorkerSource`."""
        engine.close()
        with self._guard:
            actor = self._actors.pop(engine, None)
            if actor is not None and not self._closed:
                self._ray.kill(actor)

    def close(self) -> None:
        """End the actors. Idempotent."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
            for engine in self._actors:
                engine.close()
            for actor in (*self._actors.values(), *self._placed):
                self._ray.kill(actor)
            self._owned.close()

    def _new_actor(self) -> Any:
        return (
            self._ray.remote(HostActor)
            .options(**self._resources)
            .remote(self._model, self._options)
        )

    def _endpoint(self, actor: Any, name: str) -> tuple[str, str]:
        """Wait for an actor, and return the address and the token of its host."""
        deadline, answer = time.monotonic() + START_SECONDS, None
        while True:
            try:
                with self._guard:
                    self._check_open(name)
                    answer = answer or actor.endpoint.remote()
                    address, token, _ = self._ray.get(answer, timeout=POLL_SECONDS)
                return address, token
            except self._ray.exceptions.GetTimeoutError as error:
                if time.monotonic() > deadline:
                    hint = "ray status shows the resources of the cluster"
                    message = f"{name} did not start within {START_SECONDS:g} s"
                    raise EngineError(message, hint) from error
            except self._ray.exceptions.RayError as error:
                cause = getattr(error, "cause", None) or error
                message = f"{name} did not start: {str(cause).strip().splitlines()[-1]}"
                raise EngineError(message, "ray logs has the output of the actor") from error

    def _check_open(self, name: str) -> None:
        """Raise EngineError after `close`: a call after the end of Ray starts Ray again."""
        if self._closed:
            raise _ended(name)

    def _connect(self, address: str, opened: ExitStack) -> None:
        """Connect to a cluster, or start Ray on this machine."""
        if self._ray.is_initialized():
            return
        quiet = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
        try:
            self._ray.init(address=address or "auto", **quiet)
        except ConnectionError as error:
            if address:
                message = f"no Ray cluster at {address}: {error}"
                raise EngineError(message, "start one: ray start --head") from error
            self._start_ray(quiet)
        opened.callback(self._ray.shutdown)

    def _start_ray(self, quiet: Mapping[str, Any]) -> None:
        """Start Ray on this machine. Ray gives its processes 30 s, which a busy machine exceeds."""
        try:
            self._ray.init(include_dashboard=False, **quiet)
        except Exception as error:
            self._ray.shutdown()
            hint = "load the fleet again, or start a cluster before: ray start --head"
            raise EngineError(f"Ray did not start on this machine: {error}", hint) from error

    def _actor_resources(self) -> dict[str, float]:
        """Return the resources of an actor: a GPU per rank if the cluster has GPUs."""
        ranks = EngineOptions.make(self._options).tensor_parallel
        has_gpus = self._ray.cluster_resources().get("GPU", 0) > 0
        gpus = ranks if has_gpus and self._options.get("device") != "cpu" else 0
        return {"num_cpus": 1, "num_gpus": gpus}

    def _check_room(self, replicas: int) -> None:
        """Raise EngineError before actors wait for room forever."""
        there = self._ray.cluster_resources()
        for name, key in (("CPU", "num_cpus"), ("GPU", "num_gpus")):
            needed = self._resources[key] * replicas
            if needed > there.get(name, 0):
                message = f"{replicas} replicas need {needed:g} {name}s, and the Ray cluster has"
                hint = "use fewer replicas, or add machines to the cluster"
                raise EngineError(f"{message} {there.get(name, 0):g}", hint)


def _ended(name: str) -> EngineError:
    return EngineError(f"{name} has ended", "load the fleet again")


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no reports to Ray's makers
    for name, value in {
        "raylet_start_wait_time_s": "180",  # a busy machine is slow
        "agent_register_timeout_ms": "150000",
        "worker_niceness": "0",  # otherwise other processes of the machine go first
    }.items():
        os.environ.setdefault(f"RAY_{name}", value)
    try:
        import ray
    except ImportError:
        hint = "install it: pip install 'sgnb[scale]'"
        raise OptionError("on='ray' needs the package ray", hint) from None
    return ray


def _own_address() -> str:
    """Return the address of this machine in the cluster."""
    import ray

    address = str(ray.util.get_node_ip_address())
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return "127.0.0.1"
    return address
