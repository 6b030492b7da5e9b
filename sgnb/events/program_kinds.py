"""Events of programs. Joined logs do not contribute these events, because the log of the run has
them. Knows no log."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass
from math import inf
from string import ascii_uppercase
from typing import Annotated

from ..codec import Range

Logprob = Annotated[float, Range(-inf)]


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A program or a batch of programs began."""

    run: str
    title: str
    source: str  # source code of the program, "" if unknown
    total: int  # number of programs; 0 while unknown
    file: str = ""  # file of `source`
    first_line: int = 1  # line of `source` in the file


@dataclass(frozen=True, slots=True)
class RunEdited:
    """The run of the last `RunStarted` continues an edit of an earlier run. Calls before the edit
    have the results of the earlier run."""

    run: str
    edited: str  # the earlier run
    branch: str  # branch of the edited call, in this run
    edited_branch: str  # the branch in the earlier run
    name: str  # variable of the edited call
    position: int  # number of tokens before the edit: prompt and output of the call
    text: str  # new text; for a select the choice


@dataclass(frozen=True, slots=True)
class RowsNumbered:
    """A batch does not run all rows: other rows keep the states of an earlier run or of a file."""

    run: str
    rows: tuple[int, ...]  # row of each program, in the order of the branches "0", "1", ...
    earlier: str  # run with the other rows; "" if unknown


@dataclass(frozen=True, slots=True)
class ProgramCalled:
    """The code of a program began."""

    run: str
    branch: str  # branch of the program
    arguments: str  # display form, shortened to a line


@dataclass(frozen=True, slots=True)
class BranchStarted:
    run: str
    branch: str
    parent: str  # "" for the root branch of a program
    text: str  # initial text: the parent's text at the fork


@dataclass(frozen=True, slots=True)
class TextAppended:
    """Constant text was appended, including role markers, but no generated text."""

    run: str
    branch: str
    text: str


@dataclass(frozen=True, slots=True)
class PartsOrdered:
    """The parts of `unordered` follow as the branch's next `TextAppended`."""

    run: str
    branch: str
    order: tuple[int, ...]  # indices of the parts, in the order of the text
    gained: int  # further cached tokens, compared with the given order
    follows: bool  # the order is that of an earlier prompt


@dataclass(frozen=True, slots=True)
class ModelAsked:
    """A program called another model than the run's default model."""

    run: str
    branch: str
    name: str  # variable set by the call
    number: int  # number of the model in this run, from 1; 0 is the run's default
    model: str  # model name
    engine: int  # `Record.engine` of the call's requests


@dataclass(frozen=True, slots=True)
class ModelAnswered:
    """The call of the branch's last `ModelAsked` ended."""

    run: str
    branch: str
    prompt_tokens: int  # as counted by the backend; 0 if unknown
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A tool began to run."""

    run: str
    branch: str  # branch of the calling program
    name: str  # name of the tool


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A tool of `ToolCalled` ended, with a value or an error."""

    run: str
    branch: str
    name: str


@dataclass(frozen=True, slots=True)
class BranchPaused:
    """A paused run stopped the branch before an append or call. Stops after tokens are
    `RequestWaits` with the reason "paused"."""

    run: str
    branch: str
    before: str  # the append or call in words: "gen 'answer'"
    file: str = ""
    line: int = 0  # 0 if unknown


@dataclass(frozen=True, slots=True)
class BranchResumed:
    """The branch of the last `BranchPaused` goes on."""

    run: str
    branch: str


@dataclass(frozen=True, slots=True)
class GenerationDone:
    """A generation ended."""

    run: str
    branch: str
    name: str  # variable set by the generation
    text: str  # text of the variable, without stop strings
    recorded: bool = False  # result of an earlier run, see `RunEdited`


@dataclass(frozen=True, slots=True)
class ChoiceMade:
    """A select ended."""

    run: str
    branch: str
    name: str  # variable set by the select
    choices: tuple[str, ...]
    scores: tuple[Logprob, ...]  # per choice; the largest score wins
    chosen: str  # appended choice
    recorded: bool = False  # as in `GenerationDone`


@dataclass(frozen=True, slots=True)
class BranchFinished:
    run: str
    branch: str
    error: str  # error message, "" for success


@dataclass(frozen=True, slots=True)
class RunFinished:
    run: str
    status: str  # "done", "error" or "interrupted"
    message: str = ""  # error message


@dataclass(frozen=True, slots=True)
class VariantRan:
    """A comparison measured one run of a variant."""

    comparison: str
    variant: str  # "as it is", or the ablation: "nocache", "nojump" or "nofork"
    run: str  # "" for a skipped variant
    note: str  # first text difference from the unmodified program, or the reason for skipping
    left: int = 0  # remaining measured runs; 0 also while unknown


@dataclass(frozen=True, slots=True)
class ComparisonDone:
    """A comparison ended."""

    comparison: str
    lines: tuple[str, ...]  # findings as display text


@dataclass(frozen=True, slots=True)
class RunsCompared:
    """Two runs of a program were compared. Fields with equal prefixes are columns of a table."""

    comparison: str
    earlier: str
    later: str
    line_marks: tuple[str, ...]  # changed lines and neighbours: "-" earlier, "+" later, "=" both
    line_numbers: tuple[int, ...]  # in the file of the marked run
    lines: tuple[str, ...]
    text_branches: tuple[str, ...]  # consecutive tokens with equal marks
    text_marks: tuple[str, ...]
    texts: tuple[str, ...]
    cause_requests: tuple[int, ...]  # ranges of computed prompt tokens of `later`
    cause_begins: tuple[int, ...]
    cause_ends: tuple[int, ...]
    causes: tuple[str, ...]  # the change that caused the computation


def model_letter(number: int) -> str:
    """Return the display letter of a run's model: A for `number` 0, the default, then B, C ..."""
    return ascii_uppercase[number % len(ascii_uppercase)]


PROGRAM_KINDS: dict[str, type] = {
    cls.__name__: cls
    for cls in list(globals().values())
    if isinstance(cls, type) and is_dataclass(cls)
}
"""Kinds by name."""
