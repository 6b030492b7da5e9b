"""Engine hosts as actors of Ray. Ray places the hosts, gives them GPUs and restarts them; calls go
over the hosts' own connections, so no step needs a call of Ray."""

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
from ..remote.registry import connect, listen, tokenizer_source
from ..remote.remote_engine import RemoteEngine

START_SECONDS = 600.0
"""Time in which an actor must be placed and load its model."""

POLL_SECONDS = 0.1

RESTARTS = 3
"""Restarts of an actor by Ray."""


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
    """Actors with an engine each. `close` ends the actors, and Ray if this object started Ray.

    Args:
        model: Folder, hub id, or name of a bundled model; readable on each machine of the cluster.
        options: Options of `Engine`.
        replicas: Number of actors.
        address: Address of a cluster, such as "ray://head:10001"; "" for a running cluster of this
            machine, otherwise a new one.

    Raises:
        OptionError: Ray is not installed.
        EngineError: The cluster has too little room, or an actor did not start.
    """

    def __init__(
        self, model: str, options: Mapping[str, Any], replicas: int, address: str = ""
    ) -> None:
        ranks = EngineOptions.make(dict(options)).tensor_parallel
        self._ray = _import_ray()
        self._owned, self._guard, self._closed = ExitStack(), threading.Lock(), False
        with ExitStack() as opened:
            self._connect(address, opened)
            resources = self._resources(options, ranks)
            self._check_room(resources, replicas)
            actor = self._ray.remote(HostActor).options(**resources, max_restarts=RESTARTS)
            self._actors = [actor.remote(model, dict(options)) for _ in range(replicas)]
            for started in self._actors:
                opened.callback(self._ray.kill, started)
            self.engines = [opened.enter_context(self.attach(number)) for number in range(replicas)]
            self._owned = opened.pop_all()

    def attach(self, number: int) -> RemoteEngine:
        """Connect to an actor; after its end, wait until Ray has restarted the actor.

        Args:
            number: Index of the actor.

        Raises:
            EngineError: The actor does not run, with Ray's reason.
        """
        name, deadline = f"Ray actor {number}", time.monotonic() + START_SECONDS
        errors, answer = self._ray.exceptions, None
        while True:
            try:
                with self._guard:  # a call after the end of Ray starts Ray again
                    if self._closed:
                        raise EngineError(f"{name} has ended", "load the fleet again")
                    answer = answer or self._actors[number].endpoint.remote()
                    address, token, _ = self._ray.get(answer, timeout=POLL_SECONDS)
                return RemoteEngine(connect(address, name), token, name)
            except errors.RayError as error:
                if time.monotonic() < deadline:
                    if isinstance(error, errors.GetTimeoutError):
                        continue
                    if isinstance(error, errors.ActorUnavailableError):  # the end is not seen yet
                        answer = None
                        time.sleep(POLL_SECONDS)
                        continue
                cause = getattr(error, "cause", None) or error
                message = f"{name} did not start: {str(cause).strip().splitlines()[-1]}"
                raise EngineError(message, "ray logs has the output of the actor") from error

    def close(self) -> None:
        """End the actors. Idempotent."""
        self._closed = True
        with self._guard:
            self._owned.close()

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
            self._ray.init(include_dashboard=False, **quiet)
        opened.callback(self._ray.shutdown)

    def _resources(self, options: Mapping[str, Any], ranks: int) -> dict[str, float]:
        """Return the resources of an actor: a GPU per rank if the cluster has GPUs."""
        has_gpus = self._ray.cluster_resources().get("GPU", 0) > 0
        gpus = ranks if has_gpus and options.get("device") != "cpu" else 0
        return {"num_cpus": 1, "num_gpus": gpus}

    def _check_room(self, resources: Mapping[str, float], replicas: int) -> None:
        """Raise EngineError before actors wait for room forever."""
        there = self._ray.cluster_resources()
        for name, key in (("CPU", "num_cpus"), ("GPU", "num_gpus")):
            needed = resources[key] * replicas
            if needed > there.get(name, 0):
                message = f"{replicas} replicas need {needed:g} {name}s, and the Ray cluster has"
                hint = "use fewer replicas, or add machines to the cluster"
                raise EngineError(f"{message} {there.get(name, 0):g}", hint)


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no reports to Ray's makers
    for name, limit in {
        "raylet_start_wait_time_s": "180",
        "agent_register_timeout_ms": "150000",
    }.items():
        os.environ.setdefault(f"RAY_{name}", limit)  # a busy machine is slow
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
