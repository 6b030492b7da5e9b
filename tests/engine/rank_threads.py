"""Ranks of a tensor-parallel engine as threads of the test: as fast as one process, and an error of
a follower is seen. The messages, plans and runners are the product's."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from torch import Tensor

from sgnb.engine import assembly
from sgnb.engine.cache.tiers.copy_commands import CopyCommand
from sgnb.engine.parallel.confirmations import Confirmation, Confirmations
from sgnb.engine.parallel.follower import CommandPort, FollowingRunner, serve
from sgnb.engine.parallel.ring import RingReader, RingWriter
from sgnb.engine.parallel.step_messages import StepWriter
from sgnb.engine.step_input import StepInput
from sgnb.shared_file import unnamed_file


class Meeting:
    """Exchange of values between threads, in the order of calls."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._values: list[Any] = [None] * size
        self._barrier = threading.Barrier(size, timeout=60)

    def exchange(self, rank: int, value: Any) -> list[Any]:
        self._values[rank] = value
        self._barrier.wait()
        values = list(self._values)
        self._barrier.wait()
        return values

    def abort(self) -> None:
        self._barrier.abort()


class ThreadRank:
    """A rank in a thread. Sums are added in the order of ranks, so all ranks have the same bits."""

    def __init__(self, rank: int, meeting: Meeting) -> None:
        self.rank, self.size, self._meeting = rank, meeting.size, meeting

    def reduce(self, x: Tensor) -> Tensor:
        first, *others = self._meeting.exchange(self.rank, x.clone())
        return x.copy_(sum(others, first))

    def broadcast(self, x: Tensor) -> None:
        x.copy_(self._meeting.exchange(self.rank, x.clone())[0])

    def largest(self, value: float) -> float:
        return max(self._meeting.exchange(self.rank, value))

    def smallest(self, value: int) -> int:
        return min(self._meeting.exchange(self.rank, value))


def on_all_ranks(size: int, work: Callable[[ThreadRank], Any]) -> list[Any]:
    """Run `work` on all ranks; return the results."""
    meeting, results, errors = Meeting(size), [None] * size, list[BaseException]()

    def run(rank: int) -> None:
        try:
            results[rank] = work(ThreadRank(rank, meeting))
        except BaseException as error:
            errors.append(error)
            meeting.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    mine = [error for error in errors if not isinstance(error, threading.BrokenBarrierError)]
    for error in mine or errors:
        raise error
    return results


class Recorder:
    """Runner of a follower that records the steps."""

    def __init__(self, runner: FollowingRunner, steps: list[StepInput]) -> None:
        self.stream, self._runner, self._steps = runner.stream, runner, steps

    def follow(self, step: StepInput) -> None:
        self._steps.append(step)
        self._runner.follow(step)


class ThreadTeam(ThreadRank):
    """Stand-in for `Team`, with followers in threads. `steps`: steps that the first follower
    ran; `announced`: the same steps on rank 0."""

    def __init__(self, size: int, device: Any, model: dict[str, Any]) -> None:
        meeting = Meeting(size)
        super().__init__(0, meeting)
        self.group = self
        self.steps: list[StepInput] = []
        self.announced: list[StepInput] = []
        self.errors: list[BaseException] = []
        self._writer, self._ring = StepWriter(), RingWriter(size - 1, 64)
        self._confirmations, self._sending = Confirmations(size - 1), threading.Lock()
        self.blocks = unnamed_file("blocks")
        self.copies: list[Any] = []
        self._pipes: list[int] = []
        self._threads: list[threading.Thread] = []
        for rank in range(1, self.size):
            reading, writing = os.pipe()
            self._pipes.append(writing)
            args = ThreadRank(rank, meeting), reading, model
            self._threads.append(threading.Thread(target=self._follow, args=args))
            self._threads[-1].start()

    def _follow(self, rank: ThreadRank, pipe: int, model: dict[str, Any]) -> None:
        ring = RingReader(os.dup(self._ring.memory), pipe, rank.rank)

        def confirm(*values: Any) -> None:
            self._confirmations.receive(rank.rank, Confirmation(*values))

        try:
            port = CommandPort(self.blocks, confirm)
            parts = assembly._make_follower(rank, "cpu", model, port)  # type: ignore[arg-type]
            self.copies.append(parts.copies)
            steps = self.steps if rank.rank == 1 else []
            serve(ring, parts._replace(runner=Recorder(parts.runner, steps)))
        except BaseException as error:
            self.errors.append(error)
            self._meeting.abort()

    def announce(self, step: StepInput) -> None:
        self.announced.append(step)
        self._send(self._writer.encode(step))

    def tell(self, command: CopyCommand) -> None:
        self._send(command.encode(0))

    def ask(self, command: CopyCommand) -> Callable[[], list[Any]]:
        number, wait = self._confirmations.expect()
        self._send(command.encode(number))
        return wait

    def _send(self, message: Any) -> None:
        with self._sending:
            self._ring.write(message, self._pipes)

    def named_failures(self) -> nullcontext[None]:
        return nullcontext()

    def cause(self, error: BaseException) -> BaseException:
        return error

    def watch(self, on_lost: object) -> None:
        pass

    def close_after(self, error: BaseException) -> None:
        self._meeting.abort()
        self.close()

    def close(self) -> None:
        for pipe in self._pipes:
            os.close(pipe)
        self._pipes = []
        for thread in self._threads:
            thread.join()
        self._confirmations.end(RuntimeError("closed"))
        if self.blocks >= 0:
            os.close(self.blocks)
            self.blocks = -1


@contextmanager
def threads_as_ranks() -> Iterator[list[ThreadTeam]]:
    """Let engines with tensor_parallel have followers in threads; yields their teams."""
    teams: list[ThreadTeam] = []

    def start(*args: Any) -> ThreadTeam:
        teams.append(ThreadTeam(*args))
        return teams[-1]

    before = assembly.Team
    assembly.Team = start  # type: ignore[assignment,misc]
    try:
        yield teams
    finally:
        assembly.Team = before  # type: ignore[misc]
