"""What an executor asks of a service, and what comes back. Knows no service and no program.

An `Endpoint` sends one request for each `ask`: it neither retries nor waits, and says by a
`Failure` whether the same request may be answered when it is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...errors import OptionError, SgnbError, shown
from ...lang.chat import ChatTemplate
from ...lang.executor import ChoiceScore, ScoreCall
from ...lang.location import Location, warn_once
from ...sampling import SamplingParams
from .secrets import Secrets

Message = dict[str, str]
"""A turn: "role" and "content"."""

Triple = tuple[float | None, int, str | None]
"""SGLang's: log-probability, token (-1 where the service names none), its text."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: the turns of a conversation, or the text that a completion goes on with."""

    params: SamplingParams
    prompt: str = ""
    # Of a chat endpoint. Ends with the user's turn, or with the assistant's own that is to go on.
    messages: tuple[Message, ...] = ()
    stream: bool = False


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a service counted."""

    prompt: int = 0
    cached: int = 0  # of those, read from its cache
    completion: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.prompt + other.prompt,
            self.cached + other.cached,
            self.completion + other.completion,
        )

    def __sub__(self, other: Tokens) -> Tokens:
        return self + Tokens(-other.prompt, -other.cached, -other.completion)


@dataclass(frozen=True, slots=True)
class Sample:
    """One of the texts of an answer."""

    text: str
    finish: str  # "stop", "length", or a word of the service's own, such as "content_filter"
    matched: Any = None  # the stop that ended it, where the service says
    meta: dict[str, Any] = field(default_factory=dict)  # what else it said, in SGLang's shapes


@dataclass(frozen=True, slots=True)
class Answer:
    samples: tuple[Sample, ...]
    tokens: Tokens = Tokens()
    id: str = ""


Scored = tuple[tuple[ChoiceScore, ...], Tokens]
"""The choices' log-probabilities, and what scoring took."""


class Failure(Exception):
    """A request that was not answered. reason: in two words, as the usage table counts it."""

    def __init__(
        self, reason: str, error: SgnbError, again: bool, wait: float | None = None
    ) -> None:
        super().__init__(reason)
        self.reason, self.error = reason, error
        self.again = again  # the same request may be answered later
        self.wait = wait  # seconds, where the service said so


class Endpoint(Protocol):
    """One model of one service.

    `ask` sends a request; `piece` is called with the first text as it grows where `Ask.stream`.
    Both raise a `Failure`, and a task that is cancelled ends the request.
    """

    model: str
    secrets: Secrets
    chat: ChatTemplate  # how a program's text shows roles
    is_chat: bool  # asks are conversations, else texts
    continues: bool  # a conversation may end with the assistant's own turn, which is gone on with
    scores: bool  # it may give log-probabilities of a prompt
    samples: bool  # one request may ask for several texts
    enforces: frozenset[str]  # kinds of grammars, such as "json_schema", that it binds texts by

    def check(self, params: SamplingParams, location: Location | None) -> None:
        """OptionError for an argument that it does not take; a warning, at the line that asked,
        where one only has less effect."""

    async def ask(self, ask: Ask, piece: Callable[[str], None]) -> Answer: ...

    async def score(self, call: ScoreCall) -> Scored:
        """Of a text's choices; of none where the service shows that it scores no prompt."""

    async def info(self) -> dict[str, Any]: ...

    async def flush_cache(self) -> None: ...

    async def close(self) -> None: ...


_DEFAULT = SamplingParams()


def refuse(service: str, params: SamplingParams, names: Sequence[str], hint: str) -> None:
    """OptionError for the first of `names` that is given."""
    for name in names:
        if (value := getattr(params, name)) != getattr(_DEFAULT, name):
            raise OptionError(f"{service} does not take {name}={shown(value)}", hint)


def ignore(
    service: str, params: SamplingParams, names: Sequence[str], location: Location | None
) -> None:
    """Warn, at the line that asked, of each of `names` that is given."""
    for name in names:
        if (value := getattr(params, name)) != getattr(_DEFAULT, name) and location is not None:
            warn_once(f"{name}={shown(value)} has no effect: {service} does not take it", location)
