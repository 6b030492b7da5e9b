"""Running engine hosts of this user: a folder with a socket, a token and a record per host.

The folder has mode 0700, and files have mode 0600, so that only the user reads tokens and connects.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...codec import build, parse
from ...errors import EngineError, OptionError, nearest, shown
from ...models import names
from ...models import path as model_path

MAX_RECORD = 1 << 20
"""Maximum bytes of a record."""

MAX_PID = (1 << 31) - 1
"""Largest number that the system takes as a process."""


@dataclass(frozen=True, slots=True)
class HostRecord:
    """A running host."""

    name: str
    address: str  # "unix:PATH" or "tcp://HOST:PORT"
    token: str
    pid: int
    model: str  # folder or hub id
    options: str  # engine options of the user as JSON
    owner: str  # "host": a process of its own; "kernel": a notebook that shares its engine


@dataclass(frozen=True, slots=True)
class HostConfig:
    """Settings of a host process."""

    name: str
    model: str
    options: str  # engine options as JSON
    owned: bool  # the process ends with the standard input
    idle_seconds: float  # without clients, until a process without owner ends


def _place() -> Path:
    base, runtime = os.environ.get("SGNB_HOSTS"), os.environ.get("XDG_RUNTIME_DIR")
    if base:
        return Path(base)
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime) / "sgnb"
    return Path(tempfile.gettempdir()) / f"sgnb-{os.getuid()}"


def folder() -> Path:
    """Return the user's folder of hosts, created with mode 0700.

    Raises:
        EngineError: The folder belongs to another user, is a link, or other users can enter.
    """
    path = _place()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise EngineError(
            f"the folder {path} of engine hosts is open to other users",
            "remove it, or set SGNB_HOSTS to a folder of mode 0700",
        )
    return path


def host_name(model: str, options: Mapping[str, Any]) -> str:
    """Return the name of the shared host for a model with these engine options."""
    text = json.dumps([model, sorted(options.items())], default=str)
    base = re.sub(r"[^A-Za-z0-9.-]", "-", Path(model).name)[:24] or "model"
    return f"{base}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def write_record(record: HostRecord) -> Path:
    """Store a record in one step, readable by the user alone."""
    path = folder() / f"{record.name}.json"
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(record), file)
    os.replace(temporary, path)
    return path


def remove_record(name: str, pid: int) -> None:
    """Remove the files of a host, unless another process has taken the name."""
    record = read_record(name)
    if record is not None and record.pid == pid:
        for suffix in ("json", "sock"):
            (folder() / f"{name}.{suffix}").unlink(missing_ok=True)
        log = folder() / f"{name}.log"
        if log.exists() and not log.stat().st_size:
            log.unlink(missing_ok=True)


def read_record(name: str) -> HostRecord | None:
    """Return the record of a host; None without one, or if the file is damaged."""
    path = folder() / f"{name}.json"
    try:
        if path.stat().st_size > MAX_RECORD:
            return None
        record = build(HostRecord, parse(path.read_bytes()))
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return record if record.name == name and 0 < record.pid <= MAX_PID else None


def read_options(name: str) -> dict[str, Any] | None:
    """Return the options for a restart of the host `name`; None for the engine of a
    notebook, or if the options are damaged."""
    record = read_record(name)
    if record is None or record.owner != "host":
        return None
    try:
        options = parse(record.options)
    except ValueError:
        return None
    return {"shared": True, **options} if isinstance(options, dict) else None


def find_hosts() -> list[HostRecord]:
    """Return the running hosts of this user, by name. Removes the files of ended hosts."""
    if not hasattr(os, "getuid") or not _place().exists():
        return []
    records = []
    for path in sorted(folder().glob("*.json")):
        record = read_record(path.stem)
        if record is None:
            continue
        if is_alive(record.pid):
            records.append(record)
        else:
            remove_record(record.name, record.pid)
    return records


def is_alive(pid: int) -> bool:
    """Return whether a process of this user runs."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] == "Z"


def choose(name: str) -> HostRecord:
    """Return the running host called `name`, or the only running host for "".

    Raises:
        OptionError: No host has the name, or several hosts run and `name` is "".
    """
    hosts = find_hosts()
    host_names = [host.name for host in hosts]
    if not hosts:
        hint = "start one: %sglang load MODEL --shared, or sgnb.load(MODEL, shared=True)"
        raise OptionError("no engine host is running", hint)
    if not name and len(hosts) > 1:
        raise OptionError(
            "several engine hosts are running", f"choose one: {', '.join(host_names)}"
        )
    matches = [host for host in hosts if not name or host.name == name]
    if not matches:
        raise OptionError(f"no engine host is called {name!r}", nearest(name, host_names))
    return matches[0]


def listen(name: str, address: str = "") -> tuple[socket.socket, str]:
    """Return a listening socket and its address.

    Args:
        name: Name of the host.
        address: "tcp://HOST:PORT"; "" for a Unix socket in `folder`.
    """
    if address:
        host, port = _tcp(address)
        try:
            listener = socket.create_server((host, port))
        except OSError as error:
            hint = "use another port, or 0 for any"
            raise OptionError(f"{address} cannot be used: {error}", hint) from error
        return listener, f"tcp://{host}:{listener.getsockname()[1]}"
    path = folder() / f"{name}.sock"
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
    except OSError as error:  # a path of more than 107 bytes
        listener.close()
        hint = "set SGNB_HOSTS to a folder with a short path"
        raise EngineError(f"no socket can be made at {path}: {error}", hint) from error
    listener.listen(64)
    return listener, f"unix:{path}"


def connect(address: str, name: str) -> socket.socket:
    """Return a socket connected to a host. Raises EngineError if nothing answers."""
    try:
        if address.startswith("unix:"):
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.connect(address.removeprefix("unix:"))
            except BaseException:
                sock.close()
                raise
            return sock
        return socket.create_connection(_tcp(address), timeout=10.0)
    except OSError as error:
        message = f"engine host {name!r} at {address} cannot be reached: {error}"
        raise EngineError(message, "start it again: %sglang load MODEL --shared") from error


def _tcp(address: str) -> tuple[str, int]:
    match = re.fullmatch(r"tcp://(?:\[([^\]]+)\]|([^:/]+)):(\d{1,5})", address)
    host, port = (match[1] or match[2], int(match[3])) if match else ("", 0)
    try:
        host.encode("idna")  # as a socket does
        is_valid = bool(host) and port <= 65535
    except UnicodeError:
        is_valid = False
    if not is_valid:
        raise OptionError(f"{shown(address)} is not an address", "write tcp://HOST:PORT")
    return host, port


def tokenizer_source(model: str) -> str:
    """Return the folder or hub id of a model's tokenizer."""
    if model in names():
        return str(model_path(model))
    local = Path(model).expanduser()
    return str(local.resolve()) if local.is_dir() else model


def new_token() -> str:
    """Return a random secret."""
    return secrets.token_hex(32)


@contextlib.contextmanager
def start_lock(name: str) -> Iterator[None]:
    """Let one process at a time start the host called `name`."""
    import fcntl

    with (folder() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
