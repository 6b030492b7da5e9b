"""What happens, as small frozen values: an event each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class EngineStarted:
    model: str
    device: str
    dtype: str
    attention: str
    pool_tokens: int
    context_length: int


@dataclass(frozen=True, slots=True)
class EngineStopped:
    reason: str


@dataclass(frozen=True, slots=True)
class TokensNamed:
    """`pieces[i]` holds the bytes of token `ids[i]`, each byte as the character of the same number
    (latin-1)."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RequestQueued:
    """`purpose` is "generate", or "score" for a choice that is only scored. `run` is "" outside
    programs."""

    request: int
    run: str
    branch: str
    name: str
    purpose: str
    prompt: Sequence[int]


@dataclass(frozen=True, slots=True)
class RequestAdmitted:
    """The request holds `cached` tokens of the tree; the rest of its tokens will be computed."""

    request: int
    cached: int


@dataclass(frozen=True, slots=True)
class RequestRetracted:
    """Memory ran out; the request waits again with the output it has."""

    request: int


@dataclass(frozen=True, slots=True)
class RequestFinished:
    """`reason`: "stop", "length", "abort" or "error" (with its message). `cached_tokens`: at the
    first admission."""

    request: int
    reason: str
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    message: str = ""


class Extended(NamedTuple):
    """Tokens start .. start + length of a request went through the model in this step."""

    request: int
    start: int
    length: int


class Sampled(NamedTuple):
    """A token was chosen; `logprob` is the model's own, before temperature and filters."""

    request: int
    token: int
    logprob: float


class Masked(NamedTuple):
    """A grammar bound a token of `sampled`: `allowed` tokens were left, whose probability by the
    model was `kept`.

    before, after: the grammar's states; -1 where it has no numbered states.
    """

    request: int
    allowed: int
    kept: float
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class StepRan:
    """One forward pass. free + cached + in_flight = the pool's size, in tokens."""

    step: int
    seconds: float
    extended: Sequence[Extended]
    sampled: Sequence[Sampled]
    waiting: int
    running: int
    free: int
    cached: int
    in_flight: int
    masked: Sequence[Masked] = ()


@dataclass(frozen=True, slots=True)
class AttentionSwitched:
    """Other kernels compute attention from now on: they were compiled in the background for so many
    seconds.

    seconds: 0 when the engine went back to kernels that it had used before.
    """

    before: str
    after: str
    seconds: float


@dataclass(frozen=True, slots=True)
class GrammarReady:
    """The request's grammar is compiled: `states` of its automaton, 0 on the road of the library.

    seconds: of compiling, or of reading it when `from_cache`.
    """

    request: int
    kind: str
    states: int
    seconds: float
    from_cache: bool


@dataclass(frozen=True, slots=True)
class Jumped:
    """Text was appended without asking the model; the tokens go through it in one pass, before the
    next is chosen.

    reason: "forced" by the grammar, or "limit": the shortest way to an end that max_new_tokens
    still holds. `dropped` of the last tokens were cut anew and are the first of `tokens`. data: the
    bytes as in `TokensNamed`. before, after: the grammar's states. labels: the parts of the pattern
    or schema that the text comes from.
    """

    request: int
    reason: str
    dropped: int
    tokens: tuple[int, ...]
    data: str
    before: int
    after: int
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """A leaf of the radix tree. Node 0 is the root, never added. `namespace` is "" but for the
    root's children."""

    node: int
    parent: int
    tokens: Sequence[int]
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class NodeSplit:
    """The new node `upper` takes the first `length` tokens of `node`, its locks and its age, and
    becomes its parent."""

    node: int
    upper: int
    length: int


@dataclass(frozen=True, slots=True)
class NodeEvicted:
    """A leaf left the tree; `reason`: "memory" or "flush"."""

    node: int
    reason: str


@dataclass(frozen=True, slots=True)
class NodeLocked:
    """`delta` (1 or -1) is added to the lock count of the node and of every node above it, the root
    excepted."""

    node: int
    delta: int


@dataclass(frozen=True, slots=True)
class NodeTouched:
    """The node and every node above it were used at logical time `tick`."""

    node: int
    tick: int


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A program, or a batch of `total` of them, began. `source` is the program's text where it is
    known."""

    run: str
    title: str
    source: str
    total: int


@dataclass(frozen=True, slots=True)
class BranchStarted:
    """`parent` is "" for a program's own stream. `text` is what the branch begins with: its
    parent's text so far."""

    run: str
    branch: str
    parent: str
    text: str


@dataclass(frozen=True, slots=True)
class TextAppended:
    """Constant text, role marks included; what is generated comes from the engine's own events."""

    run: str
    branch: str
    text: str


@dataclass(frozen=True, slots=True)
class GenerationDone:
    """The text that a generation appended to its branch, as the program sees it (stop strings cut
    off)."""

    run: str
    branch: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ChoiceMade:
    """`scores[i]` belongs to `choices[i]`; the largest wins; `chosen` was appended to the
    branch."""

    run: str
    branch: str
    name: str
    choices: tuple[str, ...]
    scores: tuple[float, ...]
    chosen: str


@dataclass(frozen=True, slots=True)
class BranchFinished:
    """`error` is "" when all went well."""

    run: str
    branch: str
    error: str


@dataclass(frozen=True, slots=True)
class RunFinished:
    """`status`: "done", "error" or "interrupted"."""

    run: str
    status: str
    message: str = ""


EVENT_KINDS: dict[str, type] = {
    cls.__name__: cls
    for cls in list(globals().values())
    if isinstance(cls, type) and is_dataclass(cls)
}
