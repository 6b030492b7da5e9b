"""Program: the lock of its branches, and the calls to the executor.

Changes of a branch require the lock `changed`. Calls are sent and cancelled after the lock is
released, so an executor may use locks. Results are processed on the executor's thread: this takes a
few dozen microseconds without I/O, less than a switch to another thread while the engine holds the
GIL.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from ...errors import Aborted, ProgramError
from ...events import ToolCalled, ToolReturned
from ...part_order import PartOrder
from ..chat.tools import tool_listener
from ..executor import Call, Delta, OrderCall, Result, ScoreCall, Scores, check_modalities
from ..ir import Expr, Gen, Select, parts
from ..location import caller
from ..pool import blocking
from .branch import Branch
from .choices import METHODS, apply_method
from .joining import gathered_names
from .ops import Assign, Choose, Fork, Generate, Join, Op
from .part_orders import ask_order
from .scope import Scope
from .snapshot import Snapshot
from .stopping import limit_call, no_answer, stop_call
from .taint import TaintedTexts
from .text_kinds import with_kinds
from .waits import WAIT_SECONDS, WORKER_WAIT_SECONDS, Waits

if TYPE_CHECKING:
    from .editing import Edit
    from .run import Run

Outgoing = tuple[Branch, Op, Call | ScoreCall | OrderCall]
"""Call not yet sent to the executor."""

_log = logging.getLogger(__name__)

inside: ContextVar[Program | None] = ContextVar("inside", default=None)
"""The program whose code runs in this context."""


class Program:
    """Branches and calls of a program."""

    def __init__(self, run: Run, number: int, initial: Snapshot | None = None) -> None:
        self.run, self.executor = run, run.executor
        self.changed = threading.Lock()
        self.waits = Waits(self.changed)
        self.outbox: list[Outgoing] = []
        self.closed = False  # the code has returned: no further ops
        self.finished = False  # closed, and all ops have ended
        self.cancelled = False
        self.begun_at: float | None = None  # time.monotonic()
        self.ended_at: float | None = None
        self.num_tokens = 0  # number of generated tokens
        self.value: Any = None  # return value of the code
        self.failure: BaseException | None = None  # error of the code
        self.num_calls = 0  # queued calls
        self.begin_again: Callable[[Edit], Any] | None = None  # as a new run

        self._busy = 0  # number of branches with pending ops
        self.nested: list[Run] = []  # begun by the code: not finished, or with an unread error
        self.called: list[str] = []  # ids of all nested runs

        self.tainted = TaintedTexts(run.executor.special_tokens)
        self.root = Branch(self, str(number), Scope())
        self.branches = [self.root]
        if initial is not None:
            self.tainted.add(initial.variables)
            self.root.restore(initial)

    def start(self) -> None:
        """Begin the root branch."""
        with self.changed:
            self.begun_at = time.monotonic()
            self.root.begin()

    @contextlib.contextmanager
    def code(self) -> Iterator[None]:
        """Context for the program's code: start the program, and close the program with the error
        of the code, if any."""
        token, listener = inside.set(self), tool_listener.set(self._log_tool)
        try:
            self.start()
            yield
        except BaseException as error:
            self.close(error)
            self.cancel()
            raise
        finally:
            inside.reset(token)
            tool_listener.reset(listener)
        self.close()

    def _log_tool(self, name: str, begins: bool) -> None:
        kind = ToolCalled if begins else ToolReturned
        self.run.emit(kind(self.run.id, self.root.id, name))

    def append(self, branch: Branch, expr: Any) -> None:
        """Queue all nodes of `expr` on `branch`. Does not wait."""
        nodes = parts(expr)
        self.executor.log.home.check()
        try:
            with self.changed:
                self.check_open(branch)
                for node in nodes:
                    self.check_media(branch, node)
                    for part in with_kinds(self, node, branch.scope.role):
                        branch.append(branch.scope.lower(part, self.run.params))
                self.waits.notify()
        finally:
            self.send()

    def check_media(self, branch: Branch, node: Expr) -> None:
        """Raise MediaError if a generation or select follows media unknown to the model."""
        if branch.scope.media and isinstance(node, Gen | Select):
            place = f"the prompt of {type(node).__name__.lower()} {node.name!r}"
            check_modalities(node.backend or self.executor, branch.scope.media, place)

    def taint(self, value: Any) -> None:
        """Mark all texts in `value` as data."""
        with self.changed:
            self.tainted.add(value)

    def add(self, branch: Branch, op: Op) -> None:
        """Queue an op without an expression. Does not wait. `Assign` is allowed after the program's
        end, too."""
        self.executor.log.home.check()
        with self.changed:
            if self.cancelled or not (self.closed and isinstance(op, Assign)):
                self.check_open(branch)
            branch.scope.record(op)
            branch.append(op)
            self.waits.notify()
        self.send()

    def fork(self, branch: Branch, size: int) -> tuple[Branch, ...]:
        """Queue a fork on `branch` and return the children. Does not wait."""
        self.executor.log.home.check()
        with self.changed:
            self.check_open(branch)
            scope = branch.scope
            ids = [f"{branch.id}.{scope.children + i}" for i in range(size)]
            children = tuple(Branch(self, id, scope.child(), branch) for id in ids)
            scope.children += size
            self.branches.extend(children)
            scope.record(op := Fork(children))
            branch.append(op)
        self.send()
        return children

    def join(
        self, branch: Branch, children: tuple[Branch, ...], append: bool, keep: bool = False
    ) -> None:
        """End the children of a fork and queue a join on `branch`. Does not wait. `Join` describes
        `append` and `keep`."""
        with self.changed:
            for member in (branch, *children):
                self.check_open(member)
            if append and not keep:
                for child in children:
                    child.scope.check_joins_as_text()
            if append:
                branch.scope.media |= frozenset().union(*(c.scope.media for c in children))
            names = () if append and not keep else gathered_names(children)
            for child in children:
                child.scope.joined = True
                child.excused = child.error is not None and child.error_reported and not keep
                child.advance()
            branch.scope.record(op := Join(children, names, append, keep))
            branch.scope.gather(names)
            if keep:
                branch.scope.role = children[0].scope.role
                branch.scope.in_own_turns |= children[0].scope.in_own_turns
            branch.append(op)
            self.waits.notify()
        self.send()

    def check_open(self, branch: Branch) -> None:
        """Raise an error if `branch` accepts no ops. The lock is held."""
        if self.cancelled or self.run.cancelled:
            hint = "what it had produced is kept; run it again to go on"
            raise Aborted("the run was stopped", hint)
        if self.closed:
            hint = "its state can be read, but nothing can be added"
            raise ProgramError(f"{caller()}: this program is over", hint)
        if branch.scope.joined:
            hint = "append to the state it was forked from"
            raise ProgramError(f"{caller()}: branch {branch.id} was joined", hint)

    def send(self) -> None:
        """Send queued calls to the executor. The lock is not held."""
        calls: list[Outgoing] = []
        try:
            while self.outbox:
                with self.changed:
                    calls, self.outbox = self.outbox, []
                for branch, op, call in calls:
                    self._send(branch, op, call)
        except BaseException:  # interrupt: the next `send` or `cancel` handles the unsent calls
            with self.changed:
                self.outbox[:0] = [c for c in calls if c[0].waiting is c[1] and not c[0].cancel]
            raise

    def _send(self, branch: Branch, op: Op, call: Call | ScoreCall | OrderCall) -> None:
        if isinstance(call, OrderCall):
            ask_order(self, branch, op, call)
            return
        sink = partial(self._receive, branch, op)
        assert isinstance(op, Generate | Choose)
        edited = call if self.run.edit is None else self.run.edit.take(branch, op, call)
        if edited is None:
            return
        executor = self.executor
        if op.backend is not None:
            executor = self.run.others.ask(branch.id, op, op.backend)
        send: Any = executor.generate if isinstance(call, Call) else executor.score
        try:
            cancel = send(edited, sink)
        except Exception as error:  # an immediate refusal equals a failed call
            self._receive(branch, op, Result(error=error))
            return

        with self.changed:
            if branch.waiting is not op:  # the result arrived first; a later op may be running
                return
            branch.cancel, number = cancel, branch.done
            if op.timeout is not None and branch.limited != number:
                branch.limited = number
                limit_call(branch, number, op.timeout)
            stopped = self.cancelled or branch.expired
        if stopped:
            stop_call(branch, number, cancel)

    def _receive(self, branch: Branch, op: Op, message: Delta | Result | Scores) -> None:
        assert isinstance(op, Generate | Choose)
        if op.backend is not None and not isinstance(message, Delta):
            self.run.others.answered(branch.id, message)
        if not isinstance(message, Scores) or message.error is not None:
            self.deliver(branch, op, message)
            return
        assert isinstance(op, Choose)
        method = op.select.method
        if any(method is builtin for builtin in METHODS.values()):  # `==` of user objects may raise
            self.deliver(branch, op, apply_method(op.select, message))
            return

        def work() -> None:
            inside.set(self)  # this thread only
            self.deliver(branch, op, apply_method(op.select, message))

        # User code may be slow, and other programs wait for this thread.
        threading.Thread(target=work, name="sgnb-choices", daemon=True).start()

    def deliver(self, branch: Branch, op: Op, message: Delta | Result | Scores | PartOrder) -> None:
        with self.changed:
            if isinstance(message, Result):
                self.num_tokens += sum(info.get("completion_tokens", 0) for info in message.meta)
            branch.deliver(op, message)
            self.waits.notify()
        self.send()

    def count_busy(self, change: int) -> None:
        """Count a branch that became busy (1) or idle (-1). The lock is held."""
        self._busy += change
        if self._busy == 0:
            self._finish_if_over()

    def close(self, failure: BaseException | None = None) -> None:
        """End the program's code, with the error `failure` if the code failed. No further ops
        follow."""
        with self.changed:
            if not self.closed:
                self.closed, self.failure = True, failure
                self._finish_if_over()
                self.waits.notify()

    def raise_failure(self) -> None:
        """Raise the error of the program's code, if any."""
        if self.failure is not None:
            raise self.failure

    def _finish_if_over(self) -> None:
        if not self.closed or self._busy or self.finished:
            return
        self.finished, self.ended_at = True, time.monotonic()
        self.tainted = TaintedTexts(None)  # free the texts: nothing follows
        if self.failure is not None:
            self.root.error = None
            self.root.fail(self.failure)
        elif self.run.edit is not None and not self.cancelled:
            self.run.edit.check_applied(self.root)

        for branch in self.branches:
            if branch.unread:
                assert branch.error is not None
                self.root.fail(branch.error)
        for branch in reversed(self.branches):
            branch.finish()
        self.waits.notify()
        self.run.count_finished(self)

    def __del__(self) -> None:
        """Log an unread error, as asyncio does for tasks."""
        error = self.root.error
        if self.finished and not self.root.error_reported and not isinstance(error, Aborted | None):
            _log.error("a program failed, and nobody read its error", exc_info=error)

    def cancel(self) -> None:
        """Stop the program and nested runs at the next token. Running calls return partial
        results."""
        with self.changed:
            if self.cancelled:
                return
            self.cancelled = True
            stopped = Aborted("the run was stopped")
            unsent, self.outbox = self.outbox, []
            for branch, op, _ in unsent:
                branch.deliver(op, Result(error=stopped))
            for branch in self.branches:
                in_flight = isinstance(branch.waiting, (Generate, Choose))
                may_grow = not (self.closed or branch.scope.joined)
                if not in_flight and (branch.busy or branch.done < 0 or may_grow):
                    branch.fail(stopped)
            calls = [(b, b.done, b.cancel) for b in self.branches if b.cancel]
            self.waits.notify()

        for call in calls:
            stop_call(*call)
        for run in tuple(self.nested):
            run.cancel()

    def drain(self, deadline: float) -> None:
        """Close the program, wait for running calls until `deadline` (time.monotonic), and fail the
        remaining calls."""
        self.close(Aborted("the run was stopped"))  # no effect if the code has returned
        while (remaining := deadline - time.monotonic()) > 0:
            if self.waits.wait(lambda: self.finished, remaining):
                break
        with self.changed:
            for branch in self.branches:
                if branch.waiting is not None:
                    branch.deliver(branch.waiting, Result(error=no_answer()))

    def wait(
        self,
        ready: Callable[[], bool],
        meanwhile: Callable[[], None] | None = None,
        seconds: float = math.inf,
    ) -> bool:
        """Wait until `ready()`. An interrupt stops all runs that the main thread has begun.

        Args:
            ready: Asked with the lock held.
            meanwhile: Called without the lock, like the run's own, ten times a second and whenever
                something arrives.
            seconds: The longest wait.

        Returns:
            Whether `ready()`, False after `seconds`.
        """
        deadline = time.monotonic() + seconds
        with self.changed:
            if ready():
                return True

        on_main = threading.current_thread() is threading.main_thread()
        poll = WAIT_SECONDS if on_main or meanwhile is not None else WORKER_WAIT_SECONDS
        try:
            with blocking():
                while not self.waits.wait(ready, min(poll, deadline - time.monotonic())):
                    if time.monotonic() >= deadline:
                        return False
                    if meanwhile is not None:
                        meanwhile()
                    self.run.tick()
        except KeyboardInterrupt as error:
            self.run.stop_all(error)
            raise
        return True

    def wait_finished(self, meanwhile: Callable[[], None] | None = None) -> None:
        self.wait(lambda: self.finished, meanwhile)
