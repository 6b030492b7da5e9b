"""Process of a follower: loads a part of the model, then runs the steps of rank 0."""

from __future__ import annotations

import json
import os
import select
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import torch

from ...errors import first_line
from ..step_input import StepInput
from .confirmations import Confirmation
from .group import PeerLostError, RankGroup
from .ring import Ints, RingReader
from .step_messages import StepReader

OWNER, REPORT = 0, 1
"""File descriptors: the pipe from rank 0, and the pipe for the reason of an end."""


class FollowingRunner(Protocol):
    """Runner of steps without samples."""

    stream: AbstractContextManager[Any]

    def follow(self, step: StepInput) -> None:
        """Run a step of rank 0."""


class FollowingCopies(Protocol):
    """Copies of blocks, on command of rank 0."""

    def run(self, message: Ints) -> None:
        """Run a command."""


class CommandPort(NamedTuple):
    """Connection to rank 0 for commands."""

    blocks: int  # descriptor of the file for the blocks of all ranks
    confirm: Callable[[int, Any, str], object]  # given number, value and error or ""


class FollowerParts(NamedTuple):
    """Parts of a follower."""

    runner: FollowingRunner
    copies: FollowingCopies


MakeFollower = Callable[[RankGroup, str, dict[str, Any], CommandPort], FollowerParts]
"""Loads a rank's part of a model: group, device, the `model` of `Team`, and the connection."""


def follow(make: MakeFollower) -> None:
    """Run a follower until the end of rank 0. Ends the process."""
    report = os.dup(REPORT)
    os.dup2(2, REPORT)  # keeps output printed by libraries out of the pipe
    status = 0
    try:
        _run(make, report)
    except BaseException as error:
        reason = f"failed: {type(error).__name__}: {first_line(error)}"
        is_consequence = isinstance(error, PeerLostError)
        os.write(report, json.dumps({"reason": reason, "consequence": is_consequence}).encode())
        status = 1
    os._exit(status)  # threads may wait for a lost rank


def _run(make: MakeFollower, report: int) -> None:
    start = json.loads(_read_line())
    _on_end(lambda: os._exit(0))
    torch.set_num_threads(start["threads"])
    device = torch.device(start["device"])
    if device.type == "cuda":
        torch.cuda.set_device(device)

    group = RankGroup(start["rank"], start["size"], start["store"], device, start["nccl"])

    def confirm(*values: Any) -> None:
        os.write(report, json.dumps(Confirmation(*values)).encode() + b"\n")

    parts = make(group, start["device"], start["model"], CommandPort(start["blocks"], confirm))
    serve(RingReader(start["memory"], OWNER, group.rank), parts)


def serve(ring: RingReader, parts: FollowerParts) -> None:
    """Run the steps and commands of rank 0 until the end of rank 0."""
    reader = StepReader()
    with torch.inference_mode(), parts.runner.stream:
        while (message := ring.read()) is not None:
            if message[0] < 0:  # a step begins with flags
                parts.copies.run(message)
            else:
                parts.runner.follow(reader.decode(message))


def _read_line() -> bytes:
    """Return the first line from rank 0, byte by byte: messages follow."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(OWNER, 1)
        if not byte:
            os._exit(0)
        line += byte
    return line


def _on_end(end: Callable[[], object]) -> None:
    """Call a function at the end of rank 0, also while this rank waits for another rank."""

    def wait() -> None:
        poll = select.poll()
        poll.register(OWNER, 0)  # reports only the end
        poll.poll()
        end()

    threading.Thread(target=wait, daemon=True).start()
