"""Events of an engine. `run`, `branch` and `name` identify a program's generation. Byte strings are
stored as latin-1 text, one character per byte. Knows no log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass
from typing import Annotated, NamedTuple

from ..codec import Range
from .fleet_kinds import FLEET_KINDS
from .program_kinds import PROGRAM_KINDS, Logprob
from .tier_kinds import TIER_KINDS

Signed = Annotated[int, Range(-1)]
"""Integer of at least -1 (decrement or absent). Other integer fields are at least 0."""


@dataclass(frozen=True, slots=True)
class EngineStarted:
    """First event of an engine's log: the engine is ready."""

    model: str  # folder or hub id
    device: str
    dtype: str
    attention: str  # attention backend: "torch", "triton" or "flashinfer"
    pool_tokens: int  # capacity of the KV pool, in tokens
    context_length: int  # maximum number of positions of a request
    token_bytes: int = 0  # KV bytes per token; 0 if unknown
    states: int = 0  # capacity of the recurrent state pool; 0 without recurrent layers
    state_bytes: int = 0  # bytes per state: all recurrent layers, after one token


@dataclass(frozen=True, slots=True)
class EngineStopped:
    reason: str  # "closed", or the error message


@dataclass(frozen=True, slots=True)
class TokensNamed:
    """Bytes of token ids. Each id is named once, before the first use."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]  # the bytes of ids[i] as latin-1


@dataclass(frozen=True, slots=True)
class MediaNamed:
    """Name and picture of the tokens of an image, video or sound, before the first use. In views,
    the label in brackets is the text of the first token; later tokens have no text."""

    first_id: int  # Id of the first token. Other tokens follow.
    count: int  # Number of tokens.
    media: str  # "image", "video" or "audio".
    number: int  # per kind, from 1
    label: str  # kind and size, such as "image 640×480"
    content: str  # digest of the content in hexadecimal digits, equal for equal content
    thumbnail: str  # JPEG in base64; "" without a picture
    processor_seconds: float = 0.0  # 0 in a feed that began after the processor ran


@dataclass(frozen=True, slots=True)
class ItemsEncoded:
    """The encoders of the model ran for images, videos or sounds, between two steps."""

    items: tuple[int, ...]  # first token ids
    tokens: int
    seconds: float  # wall time


@dataclass(frozen=True, slots=True)
class RequestQueued:
    """A request entered the waiting queue."""

    request: int
    run: str  # "" outside programs
    branch: str  # branch of the generation
    name: str  # variable set by the generation
    purpose: str  # "generate", "score" (a choice without sampling) or "verify" (an exact run)
    prompt: Sequence[int]  # token ids; empty if the backend reports no tokens
    file: str = ""  # file of the call in the program
    line: int = 0
    namespace: str = ""  # cache namespace: requests share KV only within a namespace
    num_given: int = (
        0  # last tokens of `prompt` that are output of an edited run, not of the prompt
    )


@dataclass(frozen=True, slots=True)
class RequestWaits:
    """A request does not run yet. Emitted at the first reason and at each change of the reason."""

    request: int
    reason: str  # a `WaitReason`
    needed: int  # in the unit of the reason: tokens, requests or states
    available: int


@dataclass(frozen=True, slots=True)
class RequestAdmitted:
    """A request entered the running batch; prefill computes the uncached tokens."""

    request: int
    cached: int  # prefix tokens read from the radix tree
    again: int = 0  # cached, but recomputed: no checkpoint


@dataclass(frozen=True, slots=True)
class PrefixLoaded:
    """Stored blocks of a prompt were loaded into KV slots; `NodeAdded` precedes."""

    request: int  # the first request that waited, or the running request; 0 for a prefetch
    store: str  # "host" or "disk"
    tokens: int
    seconds: float  # from the decision to the tree
    compute_seconds: float  # estimated time of computing the tokens
    # Position of the first token, if a running request computed the tokens before meanwhile.
    begin: int = 0


@dataclass(frozen=True, slots=True)
class AnswerSpliced:
    """A request starts with approximate keys and values of a similar cached text.
    `RequestAdmitted` follows."""

    request: int
    prompt_tokens: int
    computed: int  # prompt tokens that are computed
    reused: int  # prompt tokens with keys and values from other positions
    donor: int  # node at the end of the cached text
    begin: int  # position of the first reused token


@dataclass(frozen=True, slots=True)
class AnswerVerified:
    """The comparison of an approximate answer with an exact run ended."""

    request: int
    status: str  # "same", "differs" or "unverified"
    same_tokens: int  # leading tokens that the exact run generates, too.
    tokens: int  # tokens of the answer.
    mean_kl: float  # divergence of the probabilities, in nats.
    rotation_error: float  # relative error of the first layer's reused keys.
    key_error: float  # relative error of the worst layer.
    seconds: float  # from the end of the answer to the end of the comparison.
    text: str  # exact answer
    reason: str = ""  # why there was no comparison


@dataclass(frozen=True, slots=True)
class RequestRetracted:
    """A request was preempted for lack of KV memory or after a weight change; output is kept."""

    request: int


@dataclass(frozen=True, slots=True)
class RequestFinished:
    """A request ended."""

    request: int
    reason: str  # "stop", "length", "abort" or "error"
    prompt_tokens: int
    cached_tokens: int  # at the first admission, and loaded while the request computed
    output_tokens: int
    message: str = ""  # error message


class Extended(NamedTuple):
    """Tokens start .. start + length of a request went through the model in this step."""

    request: int
    start: int
    length: int


class Sampled(NamedTuple):
    """A token was sampled."""

    request: int
    token: int
    logprob: Logprob  # log probability before temperature and filters


class Masked(NamedTuple):
    """The grammar mask of one token of `StepRan.sampled`."""

    request: int
    allowed: int  # number of tokens allowed by the mask
    kept: Logprob  # log of the probability mass of all allowed tokens
    before: Signed  # grammar state; -1 for a grammar without numbered states
    after: Signed  # state after the token


@dataclass(frozen=True, slots=True)
class StepRan:
    """One forward pass. free + cached + in_flight equals the size of the KV pool, in tokens."""

    step: int
    seconds: float  # wall time
    extended: Sequence[Extended]  # prefill and decode: a row per request in the batch
    sampled: Sequence[Sampled]  # a row per token
    waiting: int  # requests in the queue
    running: int  # requests in the batch
    free: int  # unallocated KV slots
    cached: int  # KV slots owned by the radix tree
    in_flight: int  # KV slots of running requests outside the radix tree
    masked: Sequence[Masked] = ()  # a row per token sampled under a grammar
    free_states: int = 0  # unallocated states of recurrent layers
    kept_states: int = 0  # states owned by the radix tree: checkpoints


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Most likely alternatives to the last sampled token, for requests with `top_logprobs_num`
    or `recorded_alternatives`."""

    request: int
    tokens: tuple[int, ...]
    logprobs: tuple[Logprob, ...]  # before temperature and filters, as in `Sampled`
    allowed: tuple[bool, ...]  # allowed by the grammar


@dataclass(frozen=True, slots=True)
class AttentionSwitched:
    """The engine switched to another attention backend."""

    before: str
    after: str
    seconds: float  # background compilation; 0 if compiled earlier


@dataclass(frozen=True, slots=True)
class WeightsChanged:
    """The weights of the model changed in place, and the cache was emptied."""

    weight: str  # name of the first changed weight
    tokens: int  # tokens removed from the cache
    requests: int  # running requests that recompute their keys and values
    pins: int  # removed pins


@dataclass(frozen=True, slots=True)
class GrammarReady:
    """The grammar of a request is compiled."""

    request: int
    grammar: str  # "regex", "json_schema" or "ebnf"
    states: int  # states of the automaton; 0 for llguidance
    seconds: float  # compilation, or the read from the grammar cache
    from_cache: bool
    automaton: int = 0  # number of the automaton; 0 for llguidance


@dataclass(frozen=True, slots=True)
class AutomatonDrawn:
    """Layout of a grammar automaton; large automata are cut to the part at the start."""

    automaton: int
    grammar: str  # as in `GrammarReady`
    source: str  # the beginning of the pattern or schema
    complete: bool
    states: tuple[int, ...]  # state numbers as in `Masked`; the start state is first
    columns: tuple[int, ...]  # column of each state in the drawing
    rows: tuple[int, ...]
    final: tuple[int, ...]  # states with a permitted end of text
    starts: tuple[int, ...]  # per edge: index of the source in `states`
    targets: tuple[int, ...]  # per edge: index of the target in `states`
    ways: tuple[int, ...]  # per edge: index into `texts` and `paths`
    parts: tuple[int, ...]  # per edge: index into `part_names`
    tracks: tuple[Signed, ...]  # per edge: bus line below the states, or -1
    texts: tuple[str, ...]  # display labels: characters in [], forced text in quotes; or ""
    paths: tuple[tuple[tuple[str, ...], ...], ...]  # byte sequences from source to target
    part_names: tuple[str, ...]  # names of parts of the pattern or schema
    allowed: tuple[int, ...] = ()  # per state: number of allowed tokens; empty if not counted


@dataclass(frozen=True, slots=True)
class Jumped:
    """Jump-forward: text was appended without sampling; one pass prefills the tokens."""

    request: int
    reason: str  # "forced", or "limit": the shortest ending within max_new_tokens
    dropped: int  # output tokens replaced by retokenization
    tokens: tuple[int, ...]  # new token ids, including replacements of dropped tokens
    data: str  # appended bytes, as latin-1
    before: Signed  # grammar state; -1 for a grammar without numbered states
    after: Signed  # state after the text
    labels: tuple[str, ...]  # source parts of the pattern or schema


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """A leaf was added to the radix tree. Node 0 is the root and is never added."""

    node: int
    parent: int
    tokens: Sequence[int]  # token ids on the edge from the parent
    namespace: str = ""  # "" below the root's children
    request: int = 0  # request with the tokens; 0 if unknown


@dataclass(frozen=True, slots=True)
class NodeSplit:
    """A node was split. The new parent `upper` takes the first tokens, and copies locks and age."""

    node: int
    upper: int  # the new node
    length: int  # number of tokens moved to `upper`


@dataclass(frozen=True, slots=True)
class NodeEvicted:
    """A leaf left the radix tree."""

    node: int
    reason: str
    """Cause: "memory", "flush", "hand" (by a user), "spoilt" (NaN logits) or "weights" (changes).
    """


@dataclass(frozen=True, slots=True)
class NodeLocked:
    """The lock count of the node and all ancestors changed, except the root's."""

    node: int
    delta: Signed  # 1 or -1


@dataclass(frozen=True, slots=True)
class NodePinned:
    """A pin was added to or removed from the node. A pin counts as a lock and prevents eviction."""

    node: int
    owner: str
    delta: Signed  # 1 or -1


@dataclass(frozen=True, slots=True)
class CheckpointKept:
    """The radix tree keeps a checkpoint: recurrent states after the node's last token."""

    node: int


@dataclass(frozen=True, slots=True)
class CheckpointDropped:
    """The checkpoint was evicted; the node stays. `NodeEvicted` includes the checkpoint."""

    node: int


@dataclass(frozen=True, slots=True)
class NodeTouched:
    """The node and all ancestors were used."""

    node: int
    tick: int  # logical time, for LRU eviction


@dataclass(frozen=True, slots=True)
class RecordsLost:
    """A slow reader missed records. Only readers produce this event."""

    count: int


@dataclass(frozen=True, slots=True)
class TextStreamed:
    """Generated text of a backend without token events."""

    run: str
    branch: str
    text: str


EVENT_KINDS: dict[str, type] = (
    {
        cls.__name__: cls
        for cls in list(globals().values())
        if isinstance(cls, type) and is_dataclass(cls)
    }
    | PROGRAM_KINDS
    | TIER_KINDS
    | FLEET_KINDS
)
"""All kinds by name."""
