"""Start of host processes: a child ends with this process, a shared host survives the process.

A child gets a pipe. The child ends at the end of the pipe, however this process ends. A shared host
has no pipe, and ends after some time without clients.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...codec import build, parse
from ...engine import Engine
from ...engine.options import EngineOptions
from ...errors import EngineError, ModelError, OptionError, shown
from ...models import names
from .engine_host import EngineHost
from .registry import (
    HostConfig,
    HostRecord,
    choose,
    connect,
    folder,
    host_name,
    is_alive,
    listen,
    new_token,
    read_record,
    remove_record,
    start_lock,
    tokenizer_source,
    write_record,
)
from .remote_engine import RemoteEngine
from .wire import WireFailure, error_of

IDLE_SECONDS = 900.0
"""Time without clients after which a shared host ends; SGNB_HOST_IDLE changes the time."""

END_SECONDS = 1.0
"""Maximum time between the loss of a child's connection and the end of the child."""

_BEGIN = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from sgnb.backends.remote.host_process import main; main()"
)

Stage = Callable[[str], None]


def open_shared(
    model: str, options: Mapping[str, Any], stage: Stage = lambda stage: None
) -> RemoteEngine:
    """Connect to the shared host of a model with these options; start the host if none runs.

    Args:
        model: Folder, hub id, or name of a bundled model.
        options: Options of `Engine`, plain values only.
        stage: Receives the stages of a load.

    Raises:
        ModelError, OptionError: As in `Engine`.
        EngineError: The running host refused the connection.
    """
    config = _config(model, options, owned=False)
    with start_lock(config.name):
        if engine := _attach_running(config.name, stage):
            return engine
        record, _ = _start(config, stage)
    return attach_record(record)


def _attach_running(name: str, stage: Stage) -> RemoteEngine | None:
    """Connect to the host called `name`. Removes the record of an ended host.

    Returns:
        The engine; None if no host runs, or the host is ending.

    Raises:
        EngineError: The host runs and refused the connection. A second host would take the name,
            and the memory, of the first.
    """
    record = read_record(name)
    if record is None:
        return None
    sock = None
    if is_alive(record.pid):
        stage(f"attaching to the host {name}")
        with suppress(EngineError):  # the host is ending, or another process has the pid
            sock = connect(record.address, name)
    if sock is None:
        remove_record(name, record.pid)
        return None

    try:
        return RemoteEngine(sock, record.token, name)
    except EngineError:
        if read_record(name) == record:
            raise
        return None  # the host removed its record and ends


def start_child(
    model: str, options: Mapping[str, Any], stage: Stage = lambda stage: None
) -> RemoteEngine:
    """Start a host process that ends with this process or with `close` of the returned engine.

    Args:
        model: Folder, hub id, or name of a bundled model.
        options: Options of `Engine`, plain values only.
        stage: Receives the stages of the load.
    """
    config = _config(model, options, owned=True)
    config = replace(config, name=f"{config.name}-{os.getpid()}-{os.urandom(3).hex()}")
    record, process = _start(config, stage)

    def end() -> None:
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()

    try:
        return attach_record(record, on_close=end, end_reason=partial(_end_reason, process))
    except BaseException:
        end()
        raise


def _end_reason(process: subprocess.Popen[bytes]) -> str:
    """Return the end of a process whose connection was lost."""
    try:
        status = process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        return ""
    if status < 0:
        return f"the process was killed by {signal.Signals(-status).name}"
    return f"the process ended with status {status}"


def attach_record(record: HostRecord, **options: Any) -> RemoteEngine:
    """Connect to a running host. options: of `RemoteEngine`."""
    sock = connect(record.address, record.name)
    return RemoteEngine(sock, record.token, record.name, **options)


def attach(name: str = "", token: str = "") -> RemoteEngine:
    """Connect to a running host.

    Args:
        name: Name of a host of this user, or "tcp://HOST:PORT". "" is the only running host.
        token: Secret of a TCP host.
    """
    if name.startswith("tcp://"):
        return RemoteEngine(connect(name, name), token, name)
    return attach_record(choose(name))


class SharedEngine:
    """An engine of this process with clients in other processes, until `close`.

    Args:
        engine: Engine that read its model from a folder or the hub.
        options: Options of the user.
        name: Name of the host; by default unique to the process.
        owner: "host" for a host process, "kernel" for a notebook's kernel.
    """

    def __init__(
        self, engine: Engine, options: Mapping[str, Any], name: str = "", owner: str = "kernel"
    ) -> None:
        model = engine.model_name
        name = name or f"{host_name(model, dict(options))}-{os.getpid()}"
        listener, address = listen(name)
        text = json.dumps(dict(options), sort_keys=True, default=str)
        self.record = HostRecord(
            name=name,
            address=address,
            token=new_token(),
            pid=os.getpid(),
            model=model,
            options=text,
            owner=owner,
        )
        self.host = EngineHost(engine, listener, self.record.token, tokenizer_source(model))
        try:
            write_record(self.record)
        except BaseException:
            self.host.close()
            raise

    def close(self) -> None:
        """End the connections; the engine stays open. Idempotent."""
        remove_record(self.record.name, self.record.pid)
        self.host.close()


def _config(model: str, options: Mapping[str, Any], owned: bool) -> HostConfig:
    if not hasattr(os, "getuid"):
        raise EngineError("engine hosts need Unix sockets", "load the model in this process")
    EngineOptions.make(dict(options))
    local = Path(model).expanduser()
    if local.is_dir() and model not in names():
        model = str(local.resolve())
    try:
        text = json.dumps(dict(options), sort_keys=True)
    except TypeError as error:
        raise OptionError(f"an engine host takes plain options only: {error}", "use text") from None
    name, idle = host_name(model, options), os.environ.get("SGNB_HOST_IDLE")
    try:
        seconds = IDLE_SECONDS if idle is None else float(idle)
    except ValueError:
        raise OptionError(f"SGNB_HOST_IDLE={shown(idle)} is no number", "give seconds") from None
    return HostConfig(name=name, model=model, options=text, owned=owned, idle_seconds=seconds)


def _start(config: HostConfig, stage: Stage) -> tuple[HostRecord, subprocess.Popen[bytes]]:
    """Start a host process and wait until the host serves."""
    log = folder() / f"{config.name}.log"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(os.open(log, flags, 0o600), "wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", _BEGIN, *map(str, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # an interrupt of the notebook must not reach the host
        )
    try:
        record = _handshake(process, config, stage, log)
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        assert process.stdout is not None
        process.stdout.close()
        if not config.owned and process.stdin is not None:
            process.stdin.close()
    # Collects the exit status, because an ended child stays a zombie otherwise.
    threading.Thread(target=process.wait, name="sgnb-host-wait", daemon=True).start()
    return record, process


def _handshake(
    process: subprocess.Popen[bytes], config: HostConfig, stage: Stage, log: Path
) -> HostRecord:
    assert process.stdin is not None and process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(asdict(config)).encode() + b"\n")
        process.stdin.flush()
    for line in process.stdout:
        message = parse(line)
        if "stage" in message:
            stage(str(message["stage"]))
        elif "failure" in message:
            raise error_of(WireFailure(*map(str, message["failure"])))
        elif "ready" in message:
            return build(HostRecord, message["ready"])
    status = process.wait()
    message = f"the engine host of {config.model!r} ended with status {status} while loading"
    raise ModelError(message, f"{log} has the output of the process")
