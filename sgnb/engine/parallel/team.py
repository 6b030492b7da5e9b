"""Followers as processes of rank 0, owned by the engine's thread.

A follower runs only `follower.follow`: neither the user's `__main__` nor the interrupts of a
notebook. A follower ends with the pipe to this process. An ended follower ends the engine.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import LostRankError, first_line
from ...shared_file import unnamed_file
from ..step_input import StepInput
from .confirmations import Confirmation, Confirmations
from .group import PeerLostError, RankGroup, rank_devices
from .ring import RingWriter
from .step_messages import StepWriter

CONSEQUENCE = 1.0
"""Seconds in which the end of a rank ends further ranks; the first cause is reported."""

PATIENCE = 5.0
"""Seconds for followers to exit after the end of the pipe, before a kill."""

_BEGIN = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from sgnb.engine.assembly import serve_rank; serve_rank()"
)


class RankCommand(Protocol):
    """Work of the followers between two steps."""

    def encode(self, number: int) -> Sequence[NDArray[np.integer]]:
        """Return the message, as arrays of one dimension. The first integer is negative.

        Args:
            number: Number of the confirmation; 0 for none.
        """


class Team:
    """Followers of an engine, on rank 0.

    Attributes:
        group: Group of all ranks.
        size: Number of ranks.
        blocks: Descriptor of the file for the blocks of all ranks.
        failure: Error of the first lost rank.
    """

    def __init__(self, size: int, device: torch.device, model: dict[str, Any]) -> None:
        """Start the followers and wait for the group.

        Args:
            size: Number of ranks.
            device: Device of rank 0.
            model: Description of the model for `follower.MakeFollower`, of JSON values.

        Raises:
            ModelError: There are too few GPUs.
            LostRankError: A follower ended, or no shared memory is left.
        """
        self.size = size
        self.failure: LostRankError | None = None
        self._failing = threading.Lock()  # a thread per follower reports
        self._failed = threading.Event()
        self._closing = False
        self._on_lost: Callable[[LostRankError], object] = lambda error: None

        devices = rank_devices(device, size)
        nccl = device.type == "cuda" and len(set(devices)) == size

        self._writer = StepWriter()
        self._sending = threading.Lock()
        self._confirmations = Confirmations(size - 1)
        self._followers: list[subprocess.Popen[bytes]] = []
        self._pipes: list[int] = []
        self._resources = ExitStack()
        self.group: RankGroup | None = None
        _teams.add(self)

        try:
            with self.named_failures():
                self.blocks = unnamed_file("sgnb-blocks")
                self._resources.callback(os.close, self.blocks)
                self._ring = RingWriter(size - 1)
                self._resources.callback(self._ring.close)
                self._folder = tempfile.mkdtemp(prefix="sgnb-ranks-")
                self._resources.callback(shutil.rmtree, self._folder, ignore_errors=True)
            store = os.path.join(self._folder, "addresses")

            for rank in range(1, size):
                start = {"rank": rank, "size": size, "store": store, "nccl": nccl}
                start |= {"device": devices[rank], "memory": self._ring.memory}
                start |= {"blocks": self.blocks}
                start |= {"threads": torch.get_num_threads(), "model": model}
                self._start(rank, start)
            with self.named_failures():
                self.group = RankGroup(0, size, store, device, nccl, self._check)
            if not nccl:  # all ranks are connected; a killed kernel could not remove the folder
                shutil.rmtree(self._folder, ignore_errors=True)
        except BaseException:
            self.close(patience=0.0)  # a follower may import torch for seconds
            raise

    def announce(self, step: StepInput) -> None:
        """Let the followers run a step. Replaces the nodes of the step by copies."""
        self._send(self._writer.encode(step))

    def tell(self, command: RankCommand) -> None:
        """Send a command without a confirmation, on any thread. Ignores a lost rank: the next step
        reports the loss."""
        with suppress(LostRankError):
            self._send(command.encode(0))

    def ask(self, command: RankCommand) -> Callable[[], list[Any]]:
        """Send a command. On any thread.

        Returns:
            A function to wait for the followers, with the values by rank. The function raises
            LostRankError for a lost rank, and RuntimeError if a follower failed.
        """
        number, wait = self._confirmations.expect()
        self._send(command.encode(number))
        return wait

    def _send(self, message: Sequence[NDArray[np.integer]]) -> None:
        try:
            with self._sending:
                if self._closing:
                    raise _closed()
                self._ring.write(message, self._pipes)
        except OSError as error:
            raise self.cause(PeerLostError(str(error))) from error
        except MemoryError as error:  # the followers would miss the message
            raise self.cause(error) from error

    @contextmanager
    def named_failures(self) -> Iterator[None]:
        """Raise LostRankError for an error within: without all ranks, no step can run."""
        try:
            yield
        except Exception as error:
            raise self.cause(error) from error

    def cause(self, error: BaseException) -> LostRankError:
        """Return the error of the lost rank behind an error on this rank."""
        if isinstance(error, LostRankError):
            return error
        if isinstance(error, PeerLostError):
            self._failed.wait(2 * CONSEQUENCE)
        if self.failure is None:
            self._fail(0, f"failed: {type(error).__name__}: {first_line(error)}")
        assert self.failure is not None
        return self.failure

    def watch(self, on_lost: Callable[[LostRankError], object]) -> None:
        """Call a function, on any thread, once a rank is lost."""
        self._on_lost = on_lost
        if self.failure is not None:
            on_lost(self.failure)

    def close(self, patience: float = PATIENCE) -> None:
        """End the followers. Idempotent.

        Args:
            patience: Seconds for each follower to exit before a kill.
        """
        with self._sending:  # later commands must not reach files with the numbers of the pipes
            self._closing = True
        self._confirmations.end(_closed())
        _teams.discard(self)
        for follower in self._followers:
            _close_pipe(follower)

        for follower in self._followers:
            try:
                follower.wait(patience)
            except subprocess.TimeoutExpired:
                follower.kill()
                follower.wait()

        if self.group is not None:
            self.group.close()
        self._resources.close()

    def close_after(self, error: BaseException) -> None:
        """End the followers after a failed load. Raises LostRankError if a lost rank is the
        cause."""
        try:
            link: BaseException | None = error
            while link is not None:
                if isinstance(link, PeerLostError):
                    raise self.cause(link) from error
                link = link.__cause__ or link.__context__
        finally:
            self.close()

    def forget(self) -> None:
        """Close the pipes in a forked child: the followers belong to the parent."""
        for follower in self._followers:
            _close_pipe(follower)
            follower.returncode = 0

    def _check(self) -> None:
        """Raise the error of the first lost rank."""
        if self.failure is not None:
            raise self.failure

    def _start(self, rank: int, start: dict[str, Any]) -> None:
        follower = subprocess.Popen(
            [sys.executable, "-c", _BEGIN, *map(str, sys.path)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": str(start["threads"])},
            # an interrupt of the notebook's process group must not reach the follower
            start_new_session=True,
            pass_fds=(self._ring.memory, self.blocks),
        )
        self._followers.append(follower)

        assert follower.stdin is not None
        with suppress(OSError):  # ended already; `_wait` reports
            follower.stdin.write(json.dumps(start).encode() + b"\n")
        self._pipes.append(follower.stdin.fileno())
        name = f"sgnb-rank-{rank}"
        threading.Thread(target=self._wait, args=(rank, follower), name=name, daemon=True).start()

    def _wait(self, rank: int, follower: subprocess.Popen[bytes]) -> None:
        """Deliver the confirmations of a follower, and report the end."""
        assert follower.stdout is not None
        end: dict[str, Any] = {}
        for line in io.BufferedReader(follower.stdout):  # type: ignore[type-var]
            with suppress(ValueError):  # cut by a kill
                content = json.loads(line)
                if isinstance(content, dict):
                    end = content
                else:
                    self._confirmations.receive(rank, Confirmation(*content))
        status = follower.wait()

        reason, is_consequence = f"ended with status {status}", False
        if status < 0:
            reason = f"was killed by signal {-status}"
        if end:
            reason, is_consequence = end["reason"], end["consequence"]

        if is_consequence and self._failed.wait(CONSEQUENCE):
            return
        self._fail(rank, reason)

    def _fail(self, rank: int, reason: str) -> None:
        with self._failing:
            if self._closing or self.failure is not None:
                return
            self.failure = LostRankError(
                f"rank {rank} of {self.size} {reason}",
                "load the model again; all ranks are ended. If memory ran out, load with a "
                "smaller max_step_tokens, max_running_requests or memory_limit",
            )
        self._failed.set()
        self._confirmations.end(self.failure)
        if self.group is not None:
            self.group.abort()
        self._on_lost(self.failure)


def _closed() -> LostRankError:
    return LostRankError("the engine is closed", "load the model again")


def _close_pipe(follower: subprocess.Popen[bytes]) -> None:
    if follower.stdin is not None:
        with suppress(OSError):
            follower.stdin.close()


_teams: weakref.WeakSet[Team] = weakref.WeakSet()


def _forget_all() -> None:
    for team in list(_teams):
        team.forget()
    _teams.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
