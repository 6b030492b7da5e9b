"""The connection of this process to Ray, shared by the fleets of the process.

A connection of the user stays. A connection that a fleet opened ends with the last fleet.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

from ...errors import EngineError, OptionError
from ...latch import Latch
from ...whole_import import import_whole

TALKATIVE = "ray._private.worker", "ray._private.authentication.authentication_token_setup"
"""Loggers with lines about each start. A notebook shows the errors only."""


class RayConnection:
    """Connection to Ray, until `close`.

    Args:
        address: Address of a cluster, such as "ray://head:10001"; "" for the cluster of
            `ray start` on this machine, otherwise a new one.

    Attributes:
        ray: The module.

    Raises:
        OptionError: Ray is not installed, or is connected to another cluster.
        EngineError: Ray did not start, or the cluster cannot be reached.
    """

    def __init__(self, address: str) -> None:
        self.ray = _import_ray()
        self._owner = _join_owner(self.ray, address)
        try:
            if self._owner is not None:
                self._owner.opened.wait()
                if self._owner.error is not None:
                    raise self._owner.error
            self._session = _session_of(self.ray)
        except BaseException:
            if self._owner is not None:
                self._owner.leave()
            raise

    @property
    def is_open(self) -> bool:
        """True if Ray is connected as at the start. Calls of Ray without a connection start Ray."""
        return _is_connected(self.ray, self._session)

    def close(self) -> None:
        """Leave the connection. The connection of the last fleet ends. Call this method once."""
        if self._owner is not None and self._owner.leave():
            self._owner.ended.wait()


class ConnectionOwner:
    """A thread that opens and ends a connection for fleets.

    The processes of Ray end with the thread that started them (PR_SET_PDEATHSIG), so the thread
    lives until the end. An interrupt of the main thread inside `ray.init` would leave processes.

    Attributes:
        opened: Set after the start, or after the `error` of the start.
        ended: Set at the end of the connection.
    """

    def __init__(self, ray: Any, address: str) -> None:
        self.opened, self.ended, self._end = Latch(), Latch(), Latch()
        self.error: BaseException | None = None
        self.num_fleets = 1
        self._ray, self._address = ray, address
        self._session: tuple[str, str] | None = None
        threading.Thread(target=self._run, name="sgnb-ray", daemon=True).start()

    @property
    def is_ending(self) -> bool:
        """True after the last fleet, before the end of the connection."""
        return self.num_fleets == 0 and not self.ended.is_set()

    @property
    def is_usable(self) -> bool:
        """True for a further fleet. False after the end of Ray, also by the user."""
        return not self.opened.is_set() or _is_connected(self._ray, self._session)

    def leave(self) -> bool:
        """Remove a fleet. After the last fleet the connection ends, and the result is True."""
        with _guard:
            self.num_fleets -= 1
            is_last = self.num_fleets == 0
        if is_last:
            self._end.set()
        return is_last

    def _run(self) -> None:
        try:
            _init(self._ray, self._address)
            self._session = _session_of(self._ray)
        except BaseException as error:
            self.error = error
        self.opened.set()
        if self.error is None:
            self._end.wait()
            if _is_connected(self._ray, self._session):
                self._ray.shutdown()
        self.ended.set()


_guard = threading.Lock()
_owner: ConnectionOwner | None = None  # the last one


def _join_owner(ray: Any, address: str) -> ConnectionOwner | None:
    """Return the owner of the fleets' connection, perhaps a new one; None for a connection of the
    user. Raises OptionError if Ray is connected and cannot connect to `address`."""
    while True:
        with _guard:
            last = _owner
            if last is None or not last.is_ending:
                return _add_fleet(ray, address)
        last.ended.wait()


def _add_fleet(ray: Any, address: str) -> ConnectionOwner | None:
    """See `_join_owner`; while no connection of fleets is ending."""
    global _owner
    owner = _owner if _owner is not None and _owner.is_usable else None
    if owner is None and not ray.is_initialized():
        _owner = ConnectionOwner(ray, address)
        return _owner
    if address and not ray.util.client.ray.is_connected():
        message = f"on={address!r} is not possible: Ray is connected already"
        hint = "use on='ray' for this cluster, or call ray.shutdown() before"
        raise OptionError(message, hint)
    if owner is not None:
        owner.num_fleets += 1
    return owner


def _is_connected(ray: Any, session: tuple[str, str] | None) -> bool:
    return bool(ray.is_initialized()) and _session_of(ray) == session


def _init(ray: Any, address: str) -> None:
    """Connect to a cluster, or start Ray on this machine."""
    quiet = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    loggers, thread = [logging.getLogger(name) for name in TALKATIVE], threading.get_ident()

    def is_shown(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR or record.thread != thread

    for logger in loggers:
        logger.addFilter(is_shown)
    try:
        if address:
            ray.init(address=address, **quiet)
        else:  # "auto" would join the private Ray of another kernel, and end with this kernel
            ray.init(include_dashboard=False, **quiet)
    except Exception as error:
        ray.shutdown()
        if address:
            message = f"no Ray cluster at {address}: {error}"
            raise EngineError(message, "start one: ray start --head") from error
        hint = "load the fleet again, or start a cluster before: ray start --head"
        raise EngineError(f"Ray did not start on this machine: {error}", hint) from error
    finally:
        for logger in loggers:
            logger.removeFilter(is_shown)


def _session_of(ray: Any) -> tuple[str, str]:
    """Return the node and the job of the connection. No two connections have both in common."""
    context = ray.get_runtime_context()
    return context.get_node_id(), context.get_job_id()


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no reports to Ray's makers
    for name, value in {
        "raylet_start_wait_time_s": "180",  # a busy machine exceeds the default of 30 s
        "agent_register_timeout_ms": "150000",
        "worker_niceness": "0",  # otherwise other processes of the machine go first
    }.items():
        os.environ.setdefault(f"RAY_{name}", value)
    try:
        return import_whole("ray")
    except ImportError:
        hint = "install it: pip install 'sgnb[scale]'"
        raise OptionError("on='ray' needs the package ray", hint) from None
