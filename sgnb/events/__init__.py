"""Events of engine and language as frozen values, and the log of an engine.

The engine and the language emit; views, recorders and tests read. Emitting does no I/O and never
blocks on a reader. The log is bounded, and a slow reader gets the number of lost records. The log
of another engine can join if programs call both engines. Imports only `codec`, `errors` and
`latch`.

Events contain token ids. `TokensNamed` carries the bytes of each id before the first use, for views
without a tokenizer, and `MediaNamed` the label and picture of an image, video or sound. A branch is
a stream of a program: "0", and "0.0", "0.1" for forks of "0". The programs of a batch are the
branches "0", "1", ... of one run.
"""

from __future__ import annotations

from .columns import Columns, TokenIds
from .event_log import EventLog, Read, Record
from .kinds import (
    EVENT_KINDS,
    Alternatives,
    AttentionSwitched,
    AutomatonDrawn,
    CheckpointDropped,
    CheckpointKept,
    EngineStarted,
    EngineStopped,
    Extended,
    GrammarReady,
    ItemsEncoded,
    Jumped,
    Masked,
    MediaNamed,
    NodeAdded,
    NodeEvicted,
    NodeLocked,
    NodePinned,
    NodeSplit,
    NodeTouched,
    RecordsLost,
    RequestAdmitted,
    RequestFinished,
    RequestQueued,
    RequestRetracted,
    RequestWaits,
    Sampled,
    StepRan,
    TextStreamed,
    TokensNamed,
    WeightsChanged,
)
from .program_kinds import (
    BranchFinished,
    BranchPaused,
    BranchResumed,
    BranchStarted,
    ChoiceMade,
    ComparisonDone,
    GenerationDone,
    ModelAnswered,
    ModelAsked,
    ProgramCalled,
    RunFinished,
    RunsCompared,
    RunStarted,
    TextAppended,
    ToolCalled,
    ToolReturned,
    VariantRan,
    model_letter,
)
from .reader import LogReader
from .recording import Recorder, decode, encode, load, replay
from .waiting import Wait, WaitingRequest, WaitReason

__all__ = [
    "EVENT_KINDS",
    "Alternatives",
    "AttentionSwitched",
    "AutomatonDrawn",
    "BranchFinished",
    "BranchPaused",
    "BranchResumed",
    "BranchStarted",
    "CheckpointDropped",
    "CheckpointKept",
    "ChoiceMade",
    "Columns",
    "ComparisonDone",
    "EngineStarted",
    "EngineStopped",
    "EventLog",
    "Extended",
    "GenerationDone",
    "GrammarReady",
    "ItemsEncoded",
    "Jumped",
    "LogReader",
    "Masked",
    "MediaNamed",
    "ModelAnswered",
    "ModelAsked",
    "NodeAdded",
    "NodeEvicted",
    "NodeLocked",
    "NodePinned",
    "NodeSplit",
    "NodeTouched",
    "ProgramCalled",
    "Read",
    "Record",
    "Recorder",
    "RecordsLost",
    "RequestAdmitted",
    "RequestFinished",
    "RequestQueued",
    "RequestRetracted",
    "RequestWaits",
    "RunFinished",
    "RunStarted",
    "RunsCompared",
    "Sampled",
    "StepRan",
    "TextAppended",
    "TextStreamed",
    "TokenIds",
    "TokensNamed",
    "ToolCalled",
    "ToolReturned",
    "VariantRan",
    "Wait",
    "WaitReason",
    "WaitingRequest",
    "WeightsChanged",
    "decode",
    "encode",
    "load",
    "model_letter",
    "replay",
]
