"""What happens, as small frozen values: an event each.

`run`, `branch` and `name` say which generation of which program an event belongs to. Bytes are kept
in strings, each byte as the character of the same number (latin-1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass
from math import inf
from string import ascii_uppercase
from typing import Annotated, NamedTuple

from ..codec import Range

Signed = Annotated[int, Range(-1)]
"""At least -1: an absent number or a decrement. Integers of other fields are at least 0."""

Logprob = Annotated[float, Range(-inf)]


@dataclass(frozen=True, slots=True)
class EngineStarted:
    """An engine is ready. Its log begins with this."""

    model: str  # folder or hub id
    device: str
    dtype: str
    attention: str  # the backend: "torch", "triton" or "flashinfer"
    pool_tokens: int  # capacity of the KV pool, in tokens
    context_length: int  # most positions of one request
    token_bytes: int = 0  # of a token's keys and values; 0 where it is not known
    states: int = 0  # capacity of the pool of recurrent layers' states; 0 without such layers
    state_bytes: int = 0  # of one of them: all recurrent layers, after one token


@dataclass(frozen=True, slots=True)
class EngineStopped:
    reason: str  # "closed", or the error that ended it


@dataclass(frozen=True, slots=True)
class TokensNamed:
    """The bytes of tokens, each once and before its first use."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]  # the bytes of ids[i] as latin-1


@dataclass(frozen=True, slots=True)
class RequestQueued:
    """A request entered the waiting queue."""

    request: int
    run: str  # "" outside programs
    branch: str  # the branch it generates for
    name: str  # the variable it sets
    purpose: str  # "generate", or "score" for a choice that is only scored
    prompt: Sequence[int]  # token ids; none of a backend that does not tell them
    file: str = ""  # where the program asked for it
    line: int = 0
    namespace: str = ""  # in the cache it finds only what others of the same one left


@dataclass(frozen=True, slots=True)
class RequestAdmitted:
    """A request entered the running batch; prefill computes the tokens that are not cached."""

    request: int
    cached: int  # prefix tokens found in the radix tree, and not computed again
    again: int = 0  # further tokens found there, computed again for want of a state at their end


@dataclass(frozen=True, slots=True)
class RequestRetracted:
    """A request was preempted for lack of KV memory or because of changed weights. The request
    waits again and keeps its output."""

    request: int


@dataclass(frozen=True, slots=True)
class RequestFinished:
    """A request ended."""

    request: int
    reason: str  # "stop", "length", "abort" or "error"
    prompt_tokens: int
    cached_tokens: int  # at the first admission
    output_tokens: int
    message: str = ""  # of the error


class Extended(NamedTuple):
    """Tokens start .. start + length of a request went through the model in this step."""

    request: int
    start: int
    length: int


class Sampled(NamedTuple):
    """A token was sampled."""

    request: int
    token: int
    logprob: Logprob  # the model's own, before temperature and filters


class Masked(NamedTuple):
    """The grammar mask of one token of `sampled`."""

    request: int
    allowed: int  # number of allowed tokens
    kept: Logprob  # natural logarithm of the model's probability of all allowed tokens
    before: Signed  # state of the grammar; -1 for a grammar without numbered states
    after: Signed  # state after the token


@dataclass(frozen=True, slots=True)
class StepRan:
    """One forward pass. free + cached + in_flight is the size of the KV pool, in tokens."""

    step: int
    seconds: float  # wall time
    extended: Sequence[Extended]  # prefill and decode: a row for each request in the batch
    sampled: Sequence[Sampled]  # a row for each token
    waiting: int  # requests in the queue
    running: int  # requests in the batch
    free: int  # KV slots of no one
    cached: int  # KV slots that the radix tree holds
    in_flight: int  # KV slots of running requests that are not in the tree yet
    masked: Sequence[Masked] = ()  # a row for each token bound by a grammar
    free_states: int = 0  # of recurrent layers, those of no one
    kept_states: int = 0  # those that the radix tree holds: its checkpoints


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The likeliest tokens in place of the one that a request sampled last, for requests that ask
    for some (`top_logprobs_num`)."""

    request: int
    tokens: tuple[int, ...]
    logprobs: tuple[Logprob, ...]  # the model's own, as in `Sampled`
    allowed: tuple[bool, ...]  # by the grammar


@dataclass(frozen=True, slots=True)
class AttentionSwitched:
    """Another attention backend computes from now on."""

    before: str
    after: str
    seconds: float  # of compiling it in the background; 0 when it was used before


@dataclass(frozen=True, slots=True)
class WeightsChanged:
    """The weights of the model changed in place, and the cache was emptied."""

    weight: str  # name of the first changed weight
    tokens: int  # removed from the cache
    requests: int  # running requests that recompute their keys and values
    pins: int  # undone


@dataclass(frozen=True, slots=True)
class GrammarReady:
    """The request's grammar is compiled."""

    request: int
    grammar: str  # "regex", "json_schema" or "ebnf"
    states: int  # of its automaton; 0 where llguidance runs it
    seconds: float  # of compiling, or of reading it from the cache
    from_cache: bool
    automaton: int = 0  # its number; 0 where llguidance runs it


@dataclass(frozen=True, slots=True)
class AutomatonDrawn:
    """What a grammar's automaton looks like, compressed, in characters: told to views, before the
    first `GrammarReady` with its number. Of a large one the part nearest to the start."""

    automaton: int
    grammar: str  # as in `GrammarReady`
    source: str  # the beginning of the pattern or schema
    complete: bool
    states: tuple[int, ...]  # numbers as in `Masked`; the first is where texts begin
    columns: tuple[int, ...]  # where the drawing has each state
    rows: tuple[int, ...]
    final: tuple[int, ...]  # states in which the text may end
    starts: tuple[int, ...]  # of each edge the index into `states`,
    targets: tuple[int, ...]  # that of the state it leads to,
    ways: tuple[int, ...]  # the index into `texts` and `paths`,
    parts: tuple[int, ...]  # the index into `part_names`,
    tracks: tuple[Signed, ...]  # the line below the states, or -1
    texts: tuple[str, ...]  # for people: characters in brackets, forced ones in quotes; or ""
    paths: tuple[tuple[tuple[str, ...], ...], ...]  # bytes that lead to the target
    part_names: tuple[str, ...]  # parts of the pattern or schema
    allowed: tuple[int, ...] = ()  # tokens that may follow in each state, where that was counted


@dataclass(frozen=True, slots=True)
class Jumped:
    """Jump-forward: text was appended without sampling; its tokens are prefilled in one pass."""

    request: int
    reason: str  # "forced", or "limit": the shortest end within max_new_tokens
    dropped: int  # last tokens of the output that retokenizing replaced
    tokens: tuple[int, ...]  # ids, those of the replaced ones included
    data: str  # the bytes appended, as latin-1
    before: Signed  # state of the grammar; -1 for a grammar without numbered states
    after: Signed  # state after the text
    labels: tuple[str, ...]  # parts of the pattern or schema that the text comes from


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """A leaf of the radix tree. Node 0 is the root and never added."""

    node: int
    parent: int
    tokens: Sequence[int]  # ids on the edge from the parent
    namespace: str = ""  # "" below the root's children


@dataclass(frozen=True, slots=True)
class NodeSplit:
    """A new node became the parent of `node`, with its first tokens, its locks and its age."""

    node: int
    upper: int  # the new node
    length: int  # how many tokens it took


@dataclass(frozen=True, slots=True)
class NodeEvicted:
    """A leaf left the radix tree."""

    node: int
    reason: str
    """ "memory", "flush", "hand": someone evicted its subtree, "spoilt": a request that read it had
    NaN logits, or "weights": the model's weights changed."""


@dataclass(frozen=True, slots=True)
class NodeLocked:
    """The lock count of the node and its ancestors changed, except the root's."""

    node: int
    delta: Signed  # 1 or -1


@dataclass(frozen=True, slots=True)
class NodePinned:
    """Someone keeps the node from eviction, or does no more; a pin is one of its locks."""

    node: int
    owner: str
    delta: Signed  # 1 or -1


@dataclass(frozen=True, slots=True)
class CheckpointKept:
    """The states of recurrent layers after the node's last token are in the radix tree: a request
    can go on from there."""

    node: int


@dataclass(frozen=True, slots=True)
class CheckpointDropped:
    """They are no more, for lack of memory; the node stays. One that leaves the tree takes its own
    along, without this."""

    node: int


@dataclass(frozen=True, slots=True)
class NodeTouched:
    """The node and its ancestors were used."""

    node: int
    tick: int  # logical time, for LRU eviction


@dataclass(frozen=True, slots=True)
class RecordsLost:
    """A reader was too slow: the log itself never holds it."""

    count: int


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A program, or a batch of them, began."""

    run: str
    title: str
    source: str  # the program's text, "" where it is not known
    total: int  # number of programs; 0 while it is not known
    file: str = ""  # of `source`
    first_line: int = 1  # of `source` in its file


@dataclass(frozen=True, slots=True)
class ProgramCalled:
    """The code of a run's program begins."""

    run: str
    branch: str  # its own
    arguments: str  # in a short line, as people read them


@dataclass(frozen=True, slots=True)
class BranchStarted:
    run: str
    branch: str
    parent: str  # "" for a program's own branch
    text: str  # what it begins with: its parent's text so far


@dataclass(frozen=True, slots=True)
class TextAppended:
    """Constant text, role marks included; generated text follows from the engine's own events."""

    run: str
    branch: str
    text: str


@dataclass(frozen=True, slots=True)
class TextStreamed:
    """New text of a generation, of a backend that tells text and no tokens."""

    run: str
    branch: str
    text: str


@dataclass(frozen=True, slots=True)
class ModelAsked:
    """A call of a program goes to another model than its run's own."""

    run: str
    branch: str
    name: str  # the variable it sets
    number: int  # of the model in this run, from 1; 0 is the run's own
    model: str  # its name
    engine: int  # what `Record.engine` is for its requests


@dataclass(frozen=True, slots=True)
class ModelAnswered:
    """The call of the last `ModelAsked` of this branch is over."""

    run: str
    branch: str
    prompt_tokens: int  # as the model's backend counts; 0 where it does not
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class GenerationDone:
    """A generation ended."""

    run: str
    branch: str
    name: str  # the variable it set
    text: str  # what it appended, as the program sees it: stop strings cut off


@dataclass(frozen=True, slots=True)
class ChoiceMade:
    """A select ended."""

    run: str
    branch: str
    name: str  # the variable it set
    choices: tuple[str, ...]
    scores: tuple[Logprob, ...]  # one for each choice; the largest wins
    chosen: str  # what was appended


@dataclass(frozen=True, slots=True)
class BranchFinished:
    run: str
    branch: str
    error: str  # "" when all went well


@dataclass(frozen=True, slots=True)
class RunFinished:
    run: str
    status: str  # "done", "error" or "interrupted"
    message: str = ""  # of the error


@dataclass(frozen=True, slots=True)
class VariantRan:
    """A program that is compared with itself ran in one variant, measured."""

    comparison: str
    variant: str  # "as it is", or what it did without: "nocache", "nojump" or "nofork"
    run: str  # "" for a variant that was not run
    note: str  # where the text differs from the program's as it is, or why it was not run
    left: int = 0  # measured runs to come; 0 when that is not known yet, too


@dataclass(frozen=True, slots=True)
class ComparisonDone:
    """A comparison is over."""

    comparison: str
    lines: tuple[str, ...]  # what was found, for people


def model_letter(number: int) -> str:
    """What stands for a run's models wherever people see them: A for its own, then B, C ..."""
    return ascii_uppercase[number % len(ascii_uppercase)]


EVENT_KINDS: dict[str, type] = {
    cls.__name__: cls
    for cls in list(globals().values())
    if isinstance(cls, type) and is_dataclass(cls)
}
