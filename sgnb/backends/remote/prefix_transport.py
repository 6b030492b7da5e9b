"""Transports of a prefix's content between processes. Knows no engine."""

from __future__ import annotations

import mmap
import os
import re
import secrets
from typing import Protocol

import msgspec
import torch
from torch import Tensor

from ...errors import EngineError, OptionError
from ...shared_file import reserve
from .wire import SAME_VERSION, WireError, decoder

SEND_AGAIN = "export the prefix again, or let the engine compute the prefix"

Shape = tuple[int, int]
"""Tokens of a prefix, and bytes per token."""


class PrefixTransport(Protocol):
    """Moves the content of prefixes between processes. Any thread may call any method.

    A handle describes a content in bytes, and travels through the notebook's process. With NIXL,
    `send` registers the memory, and the handle holds the metadata and the descriptors of the agent;
    `receive` reads into registered memory and waits; `release` deregisters the memory.

    Attributes:
        name: Name of the transport, equal in all processes.
        same_machine: The processes must run on one machine, for one user.
    """

    name: str
    same_machine: bool

    def send(self, content: Tensor) -> bytes:
        """Make a content readable for other processes until `release`, and return the handle.

        Args:
            content: uint8[tokens, unit_bytes], not empty, in the memory of the engine's device.
        """

    def receive(self, handle: bytes, shape: Shape, device: torch.device) -> Tensor:
        """Return the content of a handle of another process, in memory of `device`. The caller
        compares checksums.

        Args:
            handle: Handle of `send`, or other bytes of an untrusted process.
            shape: Shape of the content.
            device: Device of the receiving engine.
        """

    def release(self, handle: bytes) -> None:
        """End the readability of a content. Ignores other handles."""


class SharedMemory:
    """Contents as unnamed files in host memory, for engines on CPUs and GPUs.

    The owner's descriptor is the only reference. The memory is therefore free after the end of the
    owner, also after SIGKILL. Linux opens the descriptor of another process for the same user only.
    """

    name = "memory"
    same_machine = True

    def __init__(self) -> None:
        self._files: dict[bytes, int] = {}

    def send(self, content: Tensor) -> bytes:
        """See `PrefixTransport.send`."""
        if not hasattr(os, "memfd_create"):
            message = "a handover through shared memory needs Linux"
            raise EngineError(message, "let the other engine compute the prefix")
        import fcntl  # not on Windows

        label = f"sgnb-prefix-{secrets.token_hex(8)}"
        file = os.memfd_create(label, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.fchmod(file, 0o600)
            reserve(file, 0, content.nbytes)
            memory = torch.frombuffer(mmap.mmap(file, content.nbytes), dtype=torch.uint8)
            memory.view(content.shape).copy_(content)
            del memory  # a file with a writable mapping cannot be sealed
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE)
        except OSError as error:
            os.close(file)
            message = f"{content.nbytes:,} bytes of shared memory are not available: {error}"
            raise EngineError(message, "hand over a shorter prefix") from error
        except BaseException:
            os.close(file)
            raise
        handle = f"{os.getpid()}:{file}:{label}".encode()
        self._files[handle] = file
        return handle

    def receive(self, handle: bytes, shape: Shape, device: torch.device) -> Tensor:
        """See `PrefixTransport.receive`."""
        match = re.fullmatch(rb"(\d{1,9}):(\d{1,9}):(sgnb-prefix-[0-9a-f]{16})", handle)
        if match is None:
            raise WireError(f"{handle[:80]!r} is not a handle of shared memory", SAME_VERSION)
        pid, number, label = (part.decode() for part in match.groups())
        path, size = f"/proc/{pid}/fd/{number}", shape[0] * shape[1]
        try:
            if os.readlink(path) != f"/memfd:{label} (deleted)":
                raise FileNotFoundError(f"process {pid} has no {label}")
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            message = f"the prefix in process {pid} is not available: {error}"
            raise EngineError(message, SEND_AGAIN) from error
        import fcntl

        try:
            # Reads behind the end of a file that became shorter would kill this process.
            sealed = fcntl.fcntl(file, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
            if os.fstat(file).st_size != size or not sealed:
                raise WireError(f"{label} has not {size:,} bytes", SAME_VERSION)
            memory = mmap.mmap(file, size, access=mmap.ACCESS_COPY)
        finally:
            os.close(file)
        return torch.frombuffer(memory, dtype=torch.uint8).view(shape).to(device)

    def release(self, handle: bytes) -> None:
        """See `PrefixTransport.release`."""
        file = self._files.pop(handle, None)
        if file is not None:
            os.close(file)


class _CudaHandle(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The values of `torch.UntypedStorage._share_cuda_`, in order."""

    device: int
    memory: bytes
    size: int
    offset: int
    counter: bytes
    counter_offset: int
    event: bytes
    event_sync: bool


class CudaMemory:
    """Contents in the memory of a GPU, opened by another process through CUDA IPC."""

    name = "cuda"
    same_machine = True

    def __init__(self) -> None:
        self._contents: dict[bytes, tuple[Tensor, _CudaHandle]] = {}

    def send(self, content: Tensor) -> bytes:
        """See `PrefixTransport.send`."""
        shared = _CudaHandle(*content.untyped_storage()._share_cuda_())
        handle = msgspec.msgpack.encode(shared)
        self._contents[handle] = content, shared
        return handle

    def receive(self, handle: bytes, shape: Shape, device: torch.device) -> Tensor:
        """See `PrefixTransport.receive`."""
        if device.type != "cuda":
            message = f"a prefix in the memory of a GPU does not fit an engine on {device}"
            raise OptionError(message, 'use transport="memory"')
        shared: _CudaHandle = decoder(_CudaHandle, "the exporting process")(handle)
        if shared.size != shape[0] * shape[1] or shared.device >= torch.cuda.device_count():
            message = f"a handle of {shared.size:,} bytes on GPU {shared.device} is not valid"
            raise WireError(message, SAME_VERSION)
        torch.cuda.init()
        storage = torch.UntypedStorage._new_shared_cuda(*msgspec.structs.astuple(shared))
        source = torch.empty(0, dtype=torch.uint8, device=f"cuda:{shared.device}").set_(storage)
        content = source.view(shape).to(device, copy=True)
        torch.cuda.synchronize(device)
        return content

    def release(self, handle: bytes) -> None:
        """See `PrefixTransport.release`."""
        content, shared = self._contents.pop(handle, (None, None))
        if content is not None and shared is not None:
            # Torch keeps the memory until a receiver has counted down: no process may have come.
            torch.UntypedStorage._release_ipc_counter_cuda(shared.counter, shared.counter_offset)
