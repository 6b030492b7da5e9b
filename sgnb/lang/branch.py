"""One stream of a program: a queue of steps, and what the steps done so far have made (text,
variables, messages).

A branch moves on by itself: the result of a call completes its step, and the steps after it run at
once on the thread that brought the result, up to the next call. No step runs code of the program,
and none waits. Every method expects the lock of the branch's program to be held, and calls no
executor: calls are left with the program to be sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..errors import Aborted
from ..events import BranchFinished, BranchStarted, ChoiceMade, GenerationDone, TextAppended
from .choices import pick
from .executor import Call, Delta, Result, ScoreCall, Scores
from .ir import RoleBegin, RoleEnd, Text
from .location import add_place
from .ops import Assign, Choose, Fork, Generate, Join, ScopeBegin, ScopeEnd, Step
from .scope import Outline

if TYPE_CHECKING:
    from .program import Program


class Branch:
    """`done` steps have run, -1 before the branch begins; `waiting` is the step that runs now;
    `partial` is its text.

    error: why the branch will run no further step; `seen` when the program has been told.
    """

    def __init__(
        self, program: Program, id: str, outline: Outline, parent: Branch | None = None
    ) -> None:
        self.program, self.id, self.outline, self.parent = program, id, outline, parent
        self.queue: deque[Step] = deque()
        self.waiting: Step | None = None
        self.cancel: Callable[[], None] | None = None
        self.done = -1
        self.busy = False
        self.finished = False
        self.text = self.partial = ""
        self.variables: dict[str, Any] = {}
        self.meta: dict[str, Any] = {}
        self.messages: list[dict[str, str]] = []
        self.fork_at = self.role_at = 0
        self.scopes: list[int] = []
        self.unjoined = 0
        self.joiner: Branch | None = None
        self.error: BaseException | None = None
        self.seen = False
        self._traceback: TracebackType | None = None

    def begin(self) -> None:
        """Start, with what the parent holds now."""
        if self.error is not None:
            return
        if self.parent is not None:
            parent = self.parent
            self.text, self.role_at, self.fork_at = parent.text, parent.role_at, len(parent.text)
            self.variables, self.meta = dict(parent.variables), dict(parent.meta)
            self.messages = list(parent.messages)
        self.done = 0
        self._emit(
            BranchStarted(self._run, self.id, self.parent.id if self.parent else "", self.text)
        )
        self.advance()

    def append(self, step: Step) -> None:
        self.queue.append(step)
        self.advance()

    def advance(self) -> None:
        """Run queued steps until one has to wait."""
        while self.queue and self.waiting is None and self.done >= 0 and self.error is None:
            if self.program.cancelled:
                self.fail(Aborted("the run was stopped"))
                return
            self.waiting = self.queue.popleft()
            if _RUN[type(self.waiting)](self, self.waiting):
                self._complete()
        self._changed()

    def deliver(self, step: Step, message: Delta | Result | Scores) -> None:
        """Take what the executor says about the call of `step`. Anything after the step's end is
        ignored."""
        if self.waiting is not step:
            return
        if isinstance(message, Delta):
            self.partial += message.text
            return
        self.cancel = None
        if message.error is not None:
            self._keep_partial(message)
            self.fail(_placed(message.error, step))
            return
        try:
            _TAKE[type(step)](self, step, message)
        except Exception as error:  # a choices_method of the user, or an answer of the wrong shape
            self.fail(_placed(error, step))
            return
        self.partial = ""
        self._complete()
        self.advance()

    def fail(self, error: BaseException) -> None:
        """End here: queued steps never run, and what depends on them fails with the same error."""
        if self.error is not None:
            return
        self.error, self._traceback = error, error.__traceback__
        steps = [self.waiting, *self.queue]
        self.queue.clear()
        self.waiting = None
        for step in steps:
            for child in step.children if isinstance(step, Fork) else ():
                child.fail(error)
        if self.joiner is not None:
            self.seen = True
            self.joiner.fail(error)
        self.finish()
        self._changed()

    def finish(self) -> None:
        """Say that the branch is over. Harmless when repeated."""
        if not self.finished:
            self.finished = True
            if self.done >= 0:
                self._emit(BranchFinished(self._run, self.id, _message(self.error)))

    def raise_error(self) -> None:
        """Raise the branch's error, if it has one, as the original exception."""
        if self.error is not None:
            self.seen = True
            raise self.error.with_traceback(self._traceback)

    @property
    def idle(self) -> bool:
        """All steps so far have run, or no more will."""
        return self.error is not None or self.done == self.outline.steps

    @property
    def _run(self) -> str:
        return self.program.run.id

    def _emit(self, event: Any) -> None:
        self.program.run.emit(event)

    def _complete(self) -> None:
        self.waiting = None
        self.done += 1

    def _changed(self) -> None:
        """Tell whoever counts on this branch that it became busy or idle."""
        busy = self.error is None and (self.waiting is not None or bool(self.queue))
        if self.idle and self.outline.joined:
            self._joined()
        if busy != self.busy:
            self.busy = busy
            self.program.count_busy(1 if busy else -1)

    def _joined(self) -> None:
        """Idle, and nothing can be added: let the join count this branch as over."""
        self.finish()
        parent, self.joiner = self.joiner, None
        if parent is not None and parent.error is None:
            parent.unjoined -= 1
            if parent.unjoined == 0:
                parent.complete_join()

    def complete_join(self) -> None:
        join = self.waiting
        assert isinstance(join, Join)
        self._gather(join)
        self._complete()
        self.advance()

    def _add(self, text: str) -> None:
        if text:
            self.text += text
            self._emit(TextAppended(self._run, self.id, text))

    def _keep_partial(self, message: Result | Scores) -> None:
        texts = message.texts if isinstance(message, Result) else ()
        text = texts[0] if texts else self.partial
        self.partial = ""
        self.text += text

    def _text(self, step: Text) -> bool:
        self._add(step.text)
        return True

    def _begin_role(self, step: RoleBegin) -> bool:
        previous = self.messages[-1]["role"] if self.messages else None
        self._add(self.program.executor.chat.opening(step.role, previous))
        self.role_at = len(self.text)
        return True

    def _end_role(self, step: RoleEnd) -> bool:
        self.messages.append({"role": step.role, "content": self.text[self.role_at :]})
        self._add(self.program.executor.chat.roles[step.role][1])
        return True

    def _assign(self, step: Assign) -> bool:
        self.variables[step.name] = step.value
        return True

    def _begin_scope(self, step: ScopeBegin) -> bool:
        self.scopes.append(len(self.text))
        return True

    def _end_scope(self, step: ScopeEnd) -> bool:
        self.variables[step.name] = self.text[self.scopes.pop() :]
        return True

    def _generate(self, step: Generate) -> bool:
        run = self.program.run
        call = Call(self.text, step.params, run.id, self.id, step.name, run.stream, step.place)
        self.program.outbox.append((self, step, call))
        return False

    def _choose(self, step: Choose) -> bool:
        select = step.select
        unconditional = getattr(select.method, "needs_unconditional", False)
        call = ScoreCall(
            self.text, select.choices, unconditional, self._run, self.id, step.name, select.place
        )
        self.program.outbox.append((self, step, call))
        return False

    def _fork(self, step: Fork) -> bool:
        for child in step.children:
            child.begin()
        return True

    def _join(self, step: Join) -> bool:
        """Wait for the children that are not over; the last of them completes the join."""
        for child in step.children:
            if child.error is not None:
                child.seen = True
                self.fail(child.error)
                return False
        running = [child for child in step.children if not child.idle]
        for child in running:
            child.joiner = self
        self.unjoined = len(running)
        if not running:
            self._gather(step)
        return not running

    def _gather(self, join: Join) -> None:
        if join.append:
            for child in join.children:
                self._add(child.text[child.fork_at :])
        for name in join.names:
            holders = [child for child in join.children if name in child.variables]
            self.variables[name] = [child.variables[name] for child in holders]
            self.meta[name] = [child.meta.get(name, {}) for child in holders]

    def _take_texts(self, step: Generate, result: Result) -> None:
        several = step.params.n > 1
        self.variables[step.name] = list(result.texts) if several else result.texts[0]
        self.meta[step.name] = list(result.meta) if several else result.meta[0]
        self.text += result.texts[0]
        self._emit(GenerationDone(self._run, self.id, step.name, result.texts[0]))

    def _take_scores(self, step: Choose, scores: Scores) -> None:
        select = step.select
        values = select.method(scores.choices)
        chosen = select.choices[pick(values, select.temperature, select.seed)]
        self.variables[step.name] = chosen
        self.meta[step.name] = {
            **scores.meta,
            "choices": select.choices,
            "scores": tuple(values),
            "choice_scores": scores.choices,
            "chosen": chosen,
        }
        self.text += chosen
        self._emit(ChoiceMade(self._run, self.id, step.name, select.choices, tuple(values), chosen))


_RUN: dict[type, Callable[[Branch, Any], bool]] = {
    Text: Branch._text,
    RoleBegin: Branch._begin_role,
    RoleEnd: Branch._end_role,
    Assign: Branch._assign,
    ScopeBegin: Branch._begin_scope,
    ScopeEnd: Branch._end_scope,
    Generate: Branch._generate,
    Choose: Branch._choose,
    Fork: Branch._fork,
    Join: Branch._join,
}
"""Each starts a step; True when it is over at once."""

_TAKE: dict[type, Callable[[Branch, Any, Any], None]] = {
    Generate: Branch._take_texts,
    Choose: Branch._take_scores,
}


def _placed(error: Exception, step: Step) -> Exception:
    if isinstance(step, Generate):
        add_place(error, f"gen {step.name!r}", step.place)
    elif isinstance(step, Choose):
        add_place(error, f"select {step.name!r}", step.select.place)
    return error


def _message(error: BaseException | None) -> str:
    return "" if error is None else f"{type(error).__name__}: {error}"
