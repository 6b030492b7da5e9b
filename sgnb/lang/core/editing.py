"""Edits: another token, text or choice in a call of a run, continued as a new run.

The program runs again from the start, with the arguments, settings and seeds of the earlier run.
Calls that the earlier run queued before the edited call get the recorded results if their prompts
are equal. The edited call starts with the output before the edit and the new text; most tokens of
this start are in the prefix cache. All later calls run normally.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import OptionError, ProgramError, nearest, shown
from ...events import RunEdited
from ...part_order import PartOrder
from ...sampling import integer, optional, read_option
from ...sampling import text as read_text
from ...segment import Segment
from ..executor import Call, Result, ScoreCall, Scores, continues_output
from .ops import Choose, Generate, Op

if TYPE_CHECKING:
    from .branch import Branch
    from .run import Run
    from .state import ProgramState

SHOWN_CHOICES = 8


@dataclass(slots=True, eq=False)
class CallRecord:
    """A call of a branch, for later edits."""

    branch: Branch
    order: int  # among the calls of the program
    op: Generate | Choose
    request: Any  # sampling parameters or choices
    begin: int  # length of the branch's text before the call
    num_segments: int  # of the branch before the call
    answer: Result | Scores | None = None  # None while running

    @staticmethod
    def of(branch: Branch, op: Generate | Choose, request: Any) -> CallRecord:
        """Return the record of a call that the branch queues now."""
        branch.program.num_calls += 1
        order = branch.program.num_calls
        return CallRecord(branch, order, op, request, len(branch.text), len(branch.segments))

    @property
    def executor(self) -> Any:
        return self.op.backend or self.branch.program.executor

    @property
    def meta(self) -> dict[str, Any]:
        """Meta information of the first sample; {} without a result."""
        answer = self.answer
        return answer.meta[0] if isinstance(answer, Result) and answer.meta else {}

    def num_prompt_tokens(self) -> int:
        prompt = self.branch.prompt(self.op.backend, self.num_segments)
        return len(self.executor.encode(prompt[1]))

    def output(self) -> tuple[int, ...]:
        """Return the output tokens of a generation: all, or the tokens so far in a paused run.

        Raises:
            OptionError: The tokens are unknown.
        """
        assert isinstance(self.op, Generate)
        if self.op.params.n > 1:
            message = f"gen {self.op.name!r} has {self.op.params.n} samples"
            raise OptionError(message, "an edit needs n=1")

        if self.answer is not None and self.meta.get("token_ids"):
            return tuple(self.meta["token_ids"])

        stepper, run = getattr(self.executor, "token_stepper", None), self.branch.program.run.id
        outputs = {} if stepper is None else stepper.outputs(run)
        if self.branch.id not in outputs:
            message = f"gen {self.op.name!r} has no tokens: the call runs, or failed"
            raise OptionError(message, "pause the run first: run.pause()")

        return tuple(outputs[self.branch.id])


@dataclass(slots=True, eq=False)
class Edit:
    """An edit of a call, and the recorded calls of the earlier program."""

    call: CallRecord  # of the earlier run
    position: int  # see `RunEdited`
    text: str
    output: tuple[int, ...] = ()  # first output tokens of a generation
    choice: int = 0  # index of the choice of a select
    applied: bool = False

    def begin(self, run: Run) -> None:
        """Log the edit at the begin of the new run."""
        earlier = self.call.branch
        branch = ".".join(["0", *_path(earlier)])
        place = branch, earlier.id, self.call.op.name, self.position
        run.emit(RunEdited(run.id, earlier.program.run.id, *place, self.text))

    def take(self, branch: Branch, op: Op, call: Call | ScoreCall) -> Call | ScoreCall | None:
        """Return the call to send; None after the delivery of a result without a call. The caller
        sends the calls that follow the result."""
        answer = self._answer(branch, call)
        if isinstance(answer, Call | ScoreCall):
            return answer

        with branch.program.changed:
            branch.deliver(op, answer)
            branch.program.waits.notify()
        return None

    def _answer(self, branch: Branch, call: Call | ScoreCall) -> Call | ScoreCall | Result | Scores:
        """Return the recorded result of a queued call, the edited call, or the call itself; an
        error if the prompt of the edited call is not the prompt of the earlier run."""
        number, earlier = len(branch.calls) - 1, self._earlier(branch)
        if earlier is None or number >= len(earlier.calls):
            return call

        recorded = earlier.calls[number]
        if recorded.order > self.call.order:
            return call

        same = call.prompt == earlier.text[: recorded.begin]
        same = same and branch.calls[number].request == recorded.request
        if recorded is not self.call:
            answer = recorded.answer
            if not same or answer is None or answer.error is not None:
                return call

            return replace(answer, recorded=True)
        if not same:
            message = f"the prompt of {self.call.op.name!r} differs from {earlier.program.run.id}"
            hint = "an edit needs a program that appends the same text in each run"
            return Result(error=ProgramError(message, hint))

        self.applied = True
        if isinstance(call, Call):
            return replace(call, given_output=self.output)
        assert isinstance(recorded.answer, Scores)
        return replace(recorded.answer, chosen=self.choice)

    def earlier_order(self, branch: Branch) -> PartOrder | None:
        """Return the order that the earlier run chose at the same place of the program, if any."""
        number, earlier = len(branch.orders), self._earlier(branch)
        if earlier is None or number >= len(earlier.orders):
            return None
        return earlier.orders[number]

    def _earlier(self, branch: Branch) -> Branch | None:
        """Return the branch of the earlier run at the same place of the program."""
        path, branches = _path(branch), self.call.branch.program.branches
        return next((other for other in branches if _path(other) == path), None)

    def check_applied(self, root: Branch) -> None:
        """Fail the root branch of the new run if the program ended without the edited call."""
        if not self.applied and root.error is None:
            message = f"the program did not reach the edited call {self.call.op.name!r}"
            hint = "an edit needs a program that makes the same calls in each run"
            root.fail(ProgramError(message, hint))


class OtherToken(NamedTuple):
    """A token that the model could have chosen."""

    token: int
    text: str
    probability: float


class EditPoint:
    """A token of a generation, or the choice of a select, where a run can continue differently.

    Attributes:
        name: Variable of the call.
        position: Position of the token in the prompt and output of the call.
        token: Token id; None for a select.
        text: Text of the token, or the choice.
        alternatives: Likeliest tokens, if the run recorded them (`top_logprobs_num`); for a select
            all choices.
    """

    def __init__(self, call: CallRecord, index: int, output: tuple[int, ...]) -> None:
        self._call, self._index, self._output = call, index, output
        self.name, self.token = call.op.name, None if not output else output[index]
        self.position = call.num_prompt_tokens() + index

        if self.token is None:
            self.text = call.branch.meta[self.name]["chosen"]
            self.alternatives = _choices(call)
        else:
            [self.text] = call.executor.token_texts([self.token])
            self.alternatives = _alternatives(call, index)

    def fork(self, text: str | None = None, *, token: int | None = None) -> ProgramState:
        """Continue with other text or another token instead of this token, as a new run.

        The program runs again with the recorded results of earlier calls; its Python code and tools
        run again, too. The earlier run is unchanged. Does not wait.

        Args:
            text: New text; for a select one of the choices. An empty text lets the model choose the
                token again. Text beyond `max_tokens` of the gen is cut, and the gen ends there.
            token: New token id, instead of `text`.

        Returns:
            The state of the new run.

        Raises:
            OptionError: The edit is not valid here. An edit that a grammar forbids is a
                GrammarError when the state is read.

        Example:
            other = state.at("answer", 3).fork("Tokyo")
            other["answer"]
        """
        text = read_option("text", text, "a text", optional(read_text))
        token = read_option("token", token, "a token id", optional(integer(0)))
        if (text is None) == (token is None):
            raise OptionError("fork() needs a text or a token", "give one of the two")

        begin_again = self._call.branch.program.begin_again
        if begin_again is None:
            hint = "use a @function or a cell; a state of Run.state() has no program"
            raise OptionError("the code of this state cannot run again", hint)

        is_choice = isinstance(self._call.op, Choose)
        return begin_again(self._choice(text) if is_choice else self._continued(text, token))

    def _continued(self, text: str | None, token: int | None) -> Edit:
        """Return the edit of a generation."""
        op, executor = self._call.op, self._call.executor
        if not continues_output(executor):
            hint = "run the program on an engine"
            raise OptionError(f"gen {op.name!r} is not of an engine: no token can change", hint)

        before, after = self._output[: self._index], self._output[self._index :]
        if text is None:
            assert token is not None
            tokens: tuple[int, ...] = (token,)
            text = executor.token_texts(tokens)[0]
        else:
            segments = Segment("", "output", before), Segment(text, "data")
            tokens = tuple(executor.encode(segments)[len(executor.encode(segments[:1])) :])

        if tokens == after[: len(tokens)]:
            tokens = after[: self._end_of_jump(len(tokens))]
        output = (before + tokens)[: self._call.request.max_new_tokens]
        return Edit(self._call, self.position, text, output=output)

    def _end_of_jump(self, count: int) -> int:
        """Return the end, after this token, of text that the grammar forced after `count` tokens:
        the forced tokens stay together."""
        rows = self._call.meta.get("grammar", ())[self._index :]
        while count and count < len(rows) and rows[count]["kind"] == "jumped":
            count += 1

        return count

    def _choice(self, text: str | None) -> Edit:
        """Return the edit of a select."""
        choices = self._call.request
        if text is None or text not in choices:
            names = ", ".join(map(repr, choices[:SHOWN_CHOICES]))
            message = f"{shown(text)} is not a choice of select {self.name!r}"
            raise OptionError(message, f"choose one of {names}")

        return Edit(self._call, self.position, text, choice=choices.index(text))

    def __repr__(self) -> str:
        return f"<{self.text!r}, token {self.position} of {self.name!r}>"


def _choices(call: CallRecord) -> tuple[OtherToken, ...]:
    meta = call.branch.meta.get(call.op.name, {})
    shares = meta.get("probabilities") or [0.0] * len(call.request)
    pairs = zip(call.request, shares, strict=True)
    return tuple(OtherToken(-1, choice, share) for choice, share in pairs)


def _alternatives(call: CallRecord, index: int) -> tuple[OtherToken, ...]:
    rows = call.meta.get("output_top_logprobs", ())[index : index + 1]
    return tuple(
        OtherToken(token, call.executor.token_texts([token])[0], math.exp(logprob))
        for logprob, token, _ in (rows[0] if rows else ())
    )


def _path(branch: Branch) -> list[str]:
    """Return the place of a branch in its program: the id without the number of the program."""
    return branch.id.split(".")[1:]


def find_point(branch: Branch, place: Any, token: Any) -> EditPoint:
    """Return the point of an edit; see `ProgramState.at`."""
    if not isinstance(place, str):
        if token is not None:
            message = f"token={shown(token)} has no effect: {shown(place)} is a position"
            raise OptionError(message, "give a variable and a token, or only a position")
        position = read_option("token", place, "the position of a token, or a variable", integer(0))
        return _at_position(branch, position)

    calls = [call for call in _calls(branch) if call.op.name == place]
    if not calls:
        names = [call.op.name for call in _calls(branch)]
        message = f"{shown(place)} is not the variable of a gen or select of this state"
        raise OptionError(message, nearest(place, names))

    calls = [call for call in calls if call.op is calls[-1].op]
    if isinstance(calls[-1].op, Choose):
        if token is not None:
            message = f"token={shown(token)} has no effect: {place!r} is a select"
            raise OptionError(message, f"omit the token: at({place!r})")
        return EditPoint(calls[-1], 0, ())
    outputs = [call.output() for call in calls]
    length = sum(map(len, outputs))
    index = read_option("token", 0 if token is None else token, "an integer", operator.index)
    if not -length <= index < length:
        message = f"token {index} of {place!r} does not exist"
        raise OptionError(message, f"gen {place!r} has {length:,} tokens, from 0 on")

    index %= length
    for call, output in zip(calls, outputs, strict=True):
        if index < len(output):
            return EditPoint(call, index, output)
        index -= len(output)
    raise AssertionError


def _at_position(branch: Branch, position: int) -> EditPoint:
    for call in reversed(_calls(branch)):
        if isinstance(call.op, Choose) or call.op.params.n > 1:
            continue
        output, begin = call.output(), call.num_prompt_tokens()
        if begin <= position < begin + len(output):
            return EditPoint(call, position - begin, output)

    message = f"token {position} was not generated"
    raise OptionError(message, "give the position of a generated token, see state.token_ids()")


def _calls(branch: Branch) -> list[CallRecord]:
    """Return the calls of a branch, and the calls before the forks of the branch."""
    calls = list(branch.calls)
    while (parent := branch.parent) is not None:
        calls = [call for call in parent.calls if call.num_segments < branch.fork_at] + calls
        branch = parent

    return calls
