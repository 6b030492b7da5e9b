"""Everything that happens, as small frozen values: how anyone learns what the engine does.

The engine and the language emit; views, recorders and tests read. Emitting does no I/O and never
waits for a reader: the log is bounded, and a reader that falls behind is told how many records it
lost. One log belongs to one engine; that of another engine, which programs on this one ask too, can
join it. Imports nothing of ours.

Tokens are ids everywhere; `TokensNamed` gives each id's bytes once, before its first use, so that a
recorded log can be shown without the tokenizer. A branch is one stream of a program: "0", and for
what it forks "0.0", "0.1"; the programs of a batch are the branches "0", "1", ... of one run.
"""

from __future__ import annotations

from .columns import Columns, Tokens
from .kinds import (
    EVENT_KINDS,
    Alternatives,
    AttentionSwitched,
    AutomatonDrawn,
    BranchFinished,
    BranchStarted,
    CheckpointDropped,
    CheckpointKept,
    ChoiceMade,
    ComparisonDone,
    EngineStarted,
    EngineStopped,
    Extended,
    GenerationDone,
    GrammarReady,
    Jumped,
    Masked,
    ModelAnswered,
    ModelAsked,
    NodeAdded,
    NodeEvicted,
    NodeLocked,
    NodePinned,
    NodeSplit,
    NodeTouched,
    ProgramCalled,
    RecordsLost,
    RequestAdmitted,
    RequestFinished,
    RequestQueued,
    RequestRetracted,
    RunFinished,
    RunStarted,
    Sampled,
    StepRan,
    TextAppended,
    TextStreamed,
    TokensNamed,
    VariantRan,
    model_letter,
)
from .log import EventLog, Read, Record
from .reader import Reader
from .recording import Recorder, decode, encode, load, replay

__all__ = [
    "EVENT_KINDS",
    "Alternatives",
    "AttentionSwitched",
    "AutomatonDrawn",
    "BranchFinished",
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
    "Jumped",
    "Masked",
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
    "Reader",
    "Record",
    "Recorder",
    "RecordsLost",
    "RequestAdmitted",
    "RequestFinished",
    "RequestQueued",
    "RequestRetracted",
    "RunFinished",
    "RunStarted",
    "Sampled",
    "StepRan",
    "TextAppended",
    "TextStreamed",
    "Tokens",
    "TokensNamed",
    "VariantRan",
    "decode",
    "encode",
    "load",
    "model_letter",
    "replay",
]
