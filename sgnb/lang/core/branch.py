"""Branch: a stream of a program with a queue of ops and the results so far (text, variables,
messages).

A branch advances by itself: the result of a call completes an op, and the following ops run on the
thread that delivered the result, up to the next call. Ops never run the program's code and never
wait. All methods require the lock of the program and call no executor: calls are queued in the
program's outbox.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from itertools import accumulate, compress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ...errors import Aborted
from ...events import BranchFinished, BranchResumed, BranchStarted, TextAppended
from ...part_order import PartOrder
from ...segment import Segment
from ..chat.tools import Tool
from ..executor import Delta, Executor, LookaheadBuffer, Result, Scores
from ..ir import role_text
from ..location import Location, add_location, caller
from .editing import CallRecord
from .joining import gather
from .op_execution import FINISH, START, append_result, take_texts
from .ops import (
    Choose,
    Fork,
    Generate,
    GenerateCalls,
    Join,
    Op,
)
from .scope import Scope
from .snapshot import Snapshot
from .stopping import PARTIAL, partial_result, timed_out

if TYPE_CHECKING:
    from .program import Program


class Branch:
    """Stream of a program: the root of the program, or a fork of `parent`."""

    def __init__(self, program: Program, id: str, scope: Scope, parent: Branch | None = None):
        self.program, self.id, self.scope, self.parent = program, id, scope, parent
        self.queue: deque[Op] = deque()
        self.waiting: Op | None = None  # the running op
        self.cancel: Callable[[], None] | None = None  # cancels the call of the running op
        self.done = -1  # number of completed ops; -1 before the branch begins
        self.busy = self.finished = False

        self.text = ""
        self.segments: list[Segment] = []  # `text`, split by tokenization
        self.generated: list[tuple[int, int, Any]] = []  # (begin, end, meta) in `text`
        self.variables: dict[str, Any] = {}
        self.earlier: dict[str, tuple[Any, ...]] = {}  # replaced values
        self.meta: dict[str, Any] = {}
        self.calls: list[CallRecord] = []
        self.orders: list[PartOrder] = []  # of parts, for later edits
        self.messages: list[dict[str, str]] = []
        self.chat = program.executor.chat  # with the program's declared tools
        self.tools: tuple[Tool, ...] = ()  # declared to an executor with `declares_tools`
        self.role_at = 0  # length of `text` before the content of the open role
        self.var_scopes: list[int] = []  # positions in `text` at which open scopes began

        self.op_at = 0  # length of `text` before the running generation
        self.steps: Generator[Any, Any, Any] | None = None  # of a running `GenerateCalls`
        self.streamed = ""  # text of the running op, including reasoning
        self.partial, self.partial_reasoning = "", ""  # `streamed`, split
        self.partial_meta: Callable[[], dict[str, Any]] = dict  # see `Delta`
        tokens = program.run.num_api_spec_tokens
        self.lookahead = None if tokens is None else LookaheadBuffer(tokens)

        self.fork_at = 0  # number of segments before the fork
        self.messages_at = 0  # number of messages before the fork
        self.unjoined = 0  # running children of the waiting join
        self.joiner: Branch | None = None  # the parent while its join waits for this branch

        self.error: BaseException | None = None  # error that ended the branch
        self.error_reported = False  # the program has read the error
        self.excused = False  # the program had read the error before the join

        self.expired = False  # the running op has reached its timeout
        self.limited = -1  # `done` at the latest op with a timeout
        self._traceback: TracebackType | None = None

        self.stopped = False  # the run is paused before the next op
        self.permit = ""  # "op" or "call": go on despite a pause, see `StepGate`
        self._lines: dict[int, Location] = {}  # of queued ops, by id, in a run with stops

    def begin(self) -> None:
        """Begin with the current content of the parent."""
        if self.error is not None:
            return
        if self.parent is not None:
            parent = self.parent
            self.text, self.role_at = parent.text, parent.role_at
            self.segments, self.fork_at = list(parent.segments), len(parent.segments)
            self.variables, self.meta = dict(parent.variables), dict(parent.meta)
            self.earlier, self.generated = dict(parent.earlier), list(parent.generated)
            self.messages, self.messages_at = list(parent.messages), len(parent.messages)
            self.chat, self.tools = parent.chat, parent.tools

        self.done = 0
        parent_id = self.parent.id if self.parent else ""
        self.emit(BranchStarted(self._run, self.id, parent_id, self.text))
        self.advance()

    def restore(self, snapshot: Snapshot) -> None:
        """Initialize the branch with the content of a snapshot, before the branch begins."""
        executor = self.program.executor
        self.segments = snapshot.read_by(executor.tokenizer_id, executor.chat)
        self.text = "".join(segment.text for segment in self.segments)
        self.variables, self.meta = dict(snapshot.variables), dict(snapshot.meta)
        self.earlier = dict(snapshot.earlier)
        self.messages = [dict(message) for message in snapshot.messages]
        if snapshot.role is not None:
            ends = accumulate(len(segment.text) for segment in self.segments)
            opened = [isinstance(segment.origin, tuple) for segment in self.segments]
            self.role_at = max(compress(ends, opened), default=0)
        self.scope.take_over(self.variables, snapshot.role)
        items = [segment.item for segment in self.segments if segment.kind == "media"]
        self.scope.media = frozenset(item.kind for item in items)
        self.scope.in_conversation = bool(self.messages) or snapshot.role is not None
        self.scope.tools_declared = any(message["role"] == "tool" for message in self.messages)

    def snapshot(self) -> Snapshot:
        """Return the current content."""
        return Snapshot(
            segments=tuple(_as_read_by(None, segment) for segment in self.segments),
            messages=tuple(dict(message) for message in self.messages),
            variables=dict(self.variables),
            earlier=dict(self.earlier),
            meta=dict(self.meta),
            tokenizer=self.program.executor.tokenizer_id,
        )

    def append(self, op: Op) -> None:
        if self.error is not None:
            self._drop([op], self.error)
            return
        if self.program.run.gate is not None:
            self._lines[id(op)] = caller()
        self.queue.append(op)
        self.advance()

    @property
    def may_advance(self) -> bool:
        """True if the next op may run: the branch has begun and waits for no op."""
        return bool(self.queue) and self.waiting is None and self.done >= 0 and self.error is None

    def location_of(self, op: Op) -> Location | None:
        """Return the user's line of a queued op, if known."""
        if isinstance(op, Generate):
            return op.location
        return op.select.location if isinstance(op, Choose) else self._lines.get(id(op))

    def note_resumed(self) -> None:
        """Log the end of a stop, if the branch is stopped."""
        if self.stopped:
            self.stopped = False
            self.emit(BranchResumed(self._run, self.id))

    def advance(self) -> None:
        """Run queued ops until an op has to wait."""
        while self.may_advance:
            if self.program.cancelled:
                self.fail(Aborted("the run was stopped"))
                return
            gate = self.program.run.gate
            if gate is not None and not gate.admits(self, self.queue[0]):
                break
            self.waiting = self.queue.popleft()
            self._lines.pop(id(self.waiting), None)
            if START[type(self.waiting)](self, self.waiting):
                self._complete()
        self._changed()

    def deliver(self, op: Op, message: Delta | Result | Scores | PartOrder) -> None:
        """Process a message of the executor for the call of `op`. Ignored after the end of the
        op."""
        if self.waiting is not op:
            return
        if isinstance(message, Delta):
            self._take_piece(op, message)
            return

        self.cancel = None
        if not isinstance(message, PartOrder):
            if isinstance(op, Generate | Choose):
                self.calls[-1].answer = message
            if message.error is not None:
                self._end_call(op, message, message.error)
                return
        try:
            over = FINISH[type(op)](self, op, message)
        except Exception as error:  # malformed values or answers
            self.fail(_located(error, op))
            return
        self._forget_partial()
        if over:
            self._complete()
            self.advance()

    def fail(self, error: BaseException) -> None:
        """End the branch with an error: queued ops never run, and dependent branches fail with the
        same error."""
        if self.error is not None:
            return
        error = self._cause(error)
        self.error, self._traceback = error, error.__traceback__
        ops = [self.waiting, *self.queue]
        self.queue.clear()
        self.waiting = None
        self._drop(ops, error)
        if self.joiner is not None:
            self.error_reported = True
            self.joiner.fail(error)
        self.finish()
        self._changed()

    def _drop(self, ops: Iterable[Op | None], error: BaseException) -> None:
        """Fail the children of forks that never run."""
        for op in ops:
            for child in op.children if isinstance(op, Fork) else ():
                child.fail(error)

    def finish(self) -> None:
        """Emit the end of the branch, once."""
        if not self.finished:
            self.finished = True
            self.note_resumed()
            if self.lookahead is not None:
                self.lookahead.unused = None
            if self.done >= 0:
                self.emit(BranchFinished(self._run, self.id, _message(self.error)))

    def raise_error(self) -> None:
        """Raise the error of the branch, if any, as the original exception."""
        if (error := self.read_error()) is not None:
            raise error.with_traceback(self._traceback)

    def read_error(self) -> BaseException | None:
        """Return the error and mark the error as read. A branch that never began shares the error
        of the parent."""
        branch = self
        while branch.done < 0 and branch.parent is not None:
            branch = branch.parent
        branch.error_reported = branch.error_reported or branch.error is not None
        return self.error

    @property
    def unread(self) -> bool:
        """True if the branch failed by itself and the program has not read the error."""
        return (
            self.error is not None
            and not self.error_reported
            and (self.done >= 0 or self.parent is None)
        )

    def has_set(self, name: str) -> bool:
        """Return whether the last op that sets the variable has run, and belongs to the branch."""
        return name in self.scope.own and self.done >= self.scope.names[name]

    @property
    def idle(self) -> bool:
        """True if all ops so far have run, or an error ended the branch."""
        return self.error is not None or self.done == self.scope.num_ops

    @property
    def _run(self) -> str:
        return self.program.run.id

    def emit(self, event: Any) -> None:
        self.program.run.emit(event)

    def _complete(self) -> None:
        self.waiting, self.expired = None, False
        self.done += 1

    def _changed(self) -> None:
        """Notify the joining parent and the program if the branch became busy or idle."""
        busy = self.error is None and (self.waiting is not None or bool(self.queue))
        if self.idle and self.scope.joined:
            self._joined()
        if busy != self.busy:
            self.busy = busy
            self.program.count_busy(1 if busy else -1)

    def _joined(self) -> None:
        """Count this branch as complete in the parent's join: the branch is idle and accepts no
        further ops."""
        self.finish()
        parent, self.joiner = self.joiner, None
        if parent is not None and parent.error is None:
            parent.unjoined -= 1
            if parent.unjoined == 0:
                parent.complete_join()

    def complete_join(self) -> None:
        join = self.waiting
        assert isinstance(join, Join)
        gather(self, join)
        self._complete()
        self.advance()

    def add(self, *segments: Segment) -> None:
        if text := self.extend(segments):
            self.emit(TextAppended(self._run, self.id, text))

    def extend(self, segments: Iterable[Segment]) -> str:
        """Append segments to the text, and return the appended text."""
        new = [s for s in segments if s.text or s.kind == "output" or s.origin]
        self.segments += new
        self.text += (text := "".join([segment.text for segment in new]))
        return text

    def _end_call(self, op: Op, message: Result | Scores, error: Exception) -> None:
        """Fail with the error of a call, and keep the partial text.

        A stopped generation counts as completed: the partial text is the value of the variable.
        """
        if self.expired and isinstance(error, Aborted) and isinstance(op, Generate | Choose):
            error = timed_out(op)
        if isinstance(op, Generate):
            reason = getattr(error, "message", str(error))
            result = partial_result(op, message, self.streamed, self.partial_meta(), reason)
            if isinstance(self._cause(error), PARTIAL):
                self._take_partial(op, result)
                self._complete()
            else:
                split = op.reasoning.split if op.reasoning is not None else lambda text: ("", text)
                self.extend([Segment(split(result.texts[0])[1], "data")])
        self._forget_partial()
        self.fail(_located(error, op))

    def _take_partial(self, op: Generate, result: Result) -> None:
        if not isinstance(op, GenerateCalls):
            take_texts(self, op, result)
            return
        segments = result.segments if self.program.run.keep_tokens else ()
        append_result(self, op, result, result.texts[0], segments)
        self.set(op.name, self.text[self.op_at :])
        self.meta[op.name] = result.meta[0]

    def _cause(self, error: BaseException) -> BaseException:
        """Return the failure of the program's code if a call was stopped after a failure."""
        return self.program.failure or error if isinstance(error, Aborted) else error

    def _take_piece(self, op: Op, piece: Delta) -> None:
        self.streamed += piece.text
        self.partial, self.partial_meta = self.streamed, piece.meta
        if isinstance(op, Generate) and op.reasoning is not None:
            parts = op.reasoning.split(self.streamed, over=False)
            self.partial_reasoning, self.partial = parts

    def _forget_partial(self) -> None:
        self.streamed = self.partial = self.partial_reasoning = ""
        self.partial_meta = dict

    def set(self, name: str, value: Any) -> None:
        if name in self.variables:
            self.earlier[name] = (*self.earlier.get(name, ()), self.variables[name])
        self.variables[name] = value

    @property
    def num_forked_segments(self) -> int:
        """Number of segments of the prompt before the fork."""
        return sum(_counts(segment) for segment in self.segments[: self.fork_at])

    def prompt(
        self, backend: Executor | None = None, count: int | None = None
    ) -> tuple[str, tuple[Segment, ...]]:
        """Return text and segments of the prompt for a call to `backend`; None: the run's backend.
        `count`: number of segments; all by default.

        For another backend, roles use that backend's chat template, and outputs of other models
        become text. Role segments keep their origin.
        """
        segments = [_as_read_by(backend, segment) for segment in self.segments[:count]]
        is_own = backend is None and count is None
        text = self.text if is_own else "".join([s.text for s in segments])
        return text, tuple(filter(_counts, segments))


def _as_read_by(backend: Executor | None, segment: Segment) -> Segment:
    if segment.kind == "output":
        is_own = segment.origin is backend
        return segment._replace(origin=None) if is_own else Segment(segment.text, "data")
    if isinstance(segment.origin, tuple) and backend is not None:
        return role_text(backend.chat, *segment.origin)
    return segment


def _counts(segment: Segment) -> bool:
    """Return whether the prompt includes a segment: empty text is omitted."""
    return bool(segment.text) or segment.kind == "output"


def _located(error: Exception, op: Op) -> Exception:
    if isinstance(op, Generate):
        add_location(error, f"gen {op.name!r}", op.location)
    elif isinstance(op, Choose):
        add_location(error, f"select {op.name!r}", op.select.location)
    return error


def _message(error: BaseException | None) -> str:
    return "" if error is None else f"{type(error).__name__}: {error}"
