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
from ...errors import EngineError
from ..any_engine import AnyEngine
from ..remote.registry import connect, listen, tokenizer_source
from ..remote.remote_engine import RemoteEngine
from .ray_connection import RayConnection

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
    """Actors with an engine each: a `WorkerSource`. `close` ends the actors.

    Args:
        model: Folder, hub id, or name of a bundled model; readable on each machine of the cluster.
        options: Options of `Engine`.
        replicas: Number of actors to place at once; `start` connects to each.
        address: See `RayConnection`.

    Raises:
        OptionError: An option is invalid, or Ray is not installed or connected to another cluster.
        EngineError: The cluster cannot be reached, or has too little room.
    """

    def __init__(
        self, model: str, options: Mapping[str, Any], replicas: int, address: str = ""
    ) -> None:
        ranks = EngineOptions.make(dict(options)).tensor_parallel
        self._model, self._options = model, dict(options)
        self._guard, self._closed = threading.Lock(), False
        self._living: set[Any] = set()  # all actors
        self._placed: list[Any] = []  # actors that load the model, for `start`
        self._actors: dict[AnyEngine, Any] = {}
        self._connection = RayConnection(address)
        self._ray = self._connection.ray
        try:
            self._resources = self._actor_resources(ranks)
            self._check_room(replicas)
            for _ in range(replicas):
                self._placed.append(self._new_actor())
        except BaseException:
            self.close()
            raise

    def start(self, worker: int) -> RemoteEngine:
        """See `WorkerSource`.

        Raises:
            EngineError: The actor does not run, with Ray's reason.
        """
        name = f"Ray actor {worker}"
        with self._guard:
            self._check_open(name)
            if not self._placed:
                self._check_room(len(self._living) + 1)
            actor = self._placed.pop() if self._placed else self._new_actor()
        try:
            address, token = self._endpoint(actor, name)
            engine = RemoteEngine(connect(address, name), token, name)
            with self._guard:
                if not self._closed:
                    self._actors[engine] = actor
                    return engine
            engine.close()
            raise _ended(name)
        except BaseException:  # a waiting actor would take resources later
            self._kill(actor)
            raise

    def stop(self, engine: AnyEngine) -> None:
        """See `WorkerSource`."""
        engine.close()
        with self._guard:
            actor = self._actors.pop(engine, None)
        if actor is not None:
            self._kill(actor)

    def close(self) -> None:
        """End the actors. Idempotent."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
        with ExitStack() as closing:  # in reverse; an error of one end prevents no further end
            closing.callback(self._connection.close)
            for actor in list(self._living):
                closing.callback(self._kill, actor)
            for engine in self._actors:
                closing.callback(engine.close)

    def _new_actor(self) -> Any:
        remote = self._ray.remote(HostActor).options(**self._resources)
        actor = remote.remote(self._model, self._options)
        self._living.add(actor)
        return actor

    def _kill(self, actor: Any) -> None:
        with self._guard:
            self._living.discard(actor)
            if self._connection.is_open:
                self._ray.kill(actor)

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
                reason, hint = _last_line(str(getattr(error, "cause", None) or error))
                raise EngineError(f"{name} did not start: {reason}", hint) from error

    def _check_open(self, name: str) -> None:
        """Raise EngineError after `close`, and after the end of Ray: a call would start Ray."""
        if self._closed or not self._connection.is_open:
            raise _ended(name)

    def _actor_resources(self, ranks: int) -> dict[str, float]:
        """Return the resources of an actor: a GPU per rank if the cluster has GPUs."""
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


def _last_line(text: str) -> tuple[str, str]:
    """Return the last line of a traceback, and the hint below for an error of sgnb."""
    text, _, hint = text.strip().partition("\n  hint: ")
    return text.splitlines()[-1], hint.splitlines()[0] if hint else "ray logs has the output"


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
