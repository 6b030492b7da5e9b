"""Events and counters of the engine's loop."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...events import (
    Columns,
    EventLog,
    Extended,
    GrammarReady,
    ItemsEncoded,
    Jumped,
    Masked,
    MediaNamed,
    RequestFinished,
    RequestQueued,
    RequestWaits,
    Sampled,
    StepRan,
    TokenIds,
    TokensNamed,
    Wait,
    WaitReason,
)
from ...grammar.compiler import CompiledGrammar
from ..items import EngineItem, ItemTable
from ..request.batch import Batch
from ..request.request import Request
from ..request.request_state import Finish, Origin
from ..request.tokenizer import Tokenizer, numbered
from ..scheduler import Scheduler
from .step_output import StepOutput

COUNTS = (
    "requests", "finished", "prompt_tokens", "cached_tokens", "recomputed_tokens",
    "computed_tokens", "output_tokens", "jumped_tokens", "jumps", "steps", "cascade_steps",
)  # fmt: skip


class Journal:
    """Writer of the loop's events, each token id named before the first use, and of the counters.

    Args:
        log: Receives the events.
        tokenizer: Source of the tokens' bytes; without a tokenizer, tokens are numbers.
        items: Source of the names of images, videos and sounds.

    Attributes:
        counts: Counters by the names of `COUNTS`, without the output of unfinished requests.
        busy_seconds: Total duration of the steps.
    """

    def __init__(
        self, log: EventLog, tokenizer: Tokenizer | None, items: ItemTable | None = None
    ) -> None:
        self.log = log
        self.counts = dict.fromkeys(COUNTS, 0)
        self.busy_seconds = 0.0
        self._tokenizer, self._items = tokenizer, items
        self._named = np.zeros(0, np.bool_)

    def queued(self, request: Request, origin: Origin) -> None:
        prompt, namespace = TokenIds(request.tokens.tobytes()), request.cache_scope.namespace
        namespace = f"request {request.id}" if namespace is None else namespace
        place = *origin[4:], namespace, len(request.given_output)
        self.log.emit(RequestQueued(request.id, *origin[:4], prompt, *place))
        self.counts["requests"] += 1

    def compiling(self, request: Request) -> None:
        self.log.emit(RequestWaits(request.id, *Wait(WaitReason.GRAMMAR)))

    def compiled(self, request: Request, grammar: CompiledGrammar) -> None:
        states = len(grammar.automaton.table) if grammar.automaton is not None else 0
        kind, seconds = grammar.spec.kind, round(grammar.seconds, 6)
        number = grammar.number if states else 0
        self.log.emit(GrammarReady(request.id, kind, states, seconds, grammar.from_cache, number))

    def jumped(self, jump: Jumped) -> None:
        self.name(jump.tokens)
        self.log.emit(jump)
        self.counts["jumps"] += bool(jump.tokens)  # otherwise a token was undone
        self.counts["jumped_tokens"] += len(jump.tokens) - jump.dropped

    def finished(self, request: Request, finish: Finish) -> None:
        prompt, cached = request.num_given_tokens, request.cached_tokens or 0
        self.counts["finished"] += 1
        if request.cached_tokens is not None:  # otherwise the request never ran
            self.counts["prompt_tokens"] += prompt
            self.counts["cached_tokens"] += cached
            self.counts["recomputed_tokens"] += request.recomputed_tokens

        output, message = request.num_tokens - prompt, str(finish.error or "")
        self.counts["output_tokens"] += output
        self.log.emit(
            RequestFinished(request.id, finish.reason or "", prompt, cached, output, message)
        )

    def ran(
        self, step: int, batch: Batch, output: StepOutput, seconds: float, scheduler: Scheduler
    ) -> None:
        """Log a step with its results, and the state of the scheduler and of the memory."""
        cache = scheduler.cache
        checkpoints = cache.checkpoints
        self.counts["steps"] += 1
        self.counts["computed_tokens"] += batch.num_tokens
        self.counts["cascade_steps"] += batch.has_cascade
        self.busy_seconds += seconds

        series = batch.series
        ids = [request.id for request in batch.requests] if series is None else series.ids
        sampling = ids if output.requests is batch.requests else [r.id for r in output.requests]
        tokens = np.asarray(output.tokens, np.int64)
        self.name(tokens)

        self.log.emit(
            StepRan(
                step,
                round(seconds, 6),
                Columns(Extended, ids, batch.starts, batch.lengths),
                Columns(Sampled, sampling, tokens, output.logprobs),
                len(scheduler.waiting),
                len(scheduler.running),
                cache.slots.available,
                cache.tree.size,
                cache.in_flight,
                Columns(Masked, *zip(*output.masked, strict=True)) if output.masked else (),
                *((checkpoints.pool.available, checkpoints.kept) if checkpoints else ()),
            )
        )
        for alternatives in output.alternatives:
            self.name(alternatives.tokens)
            self.log.emit(alternatives)

    def encoded(self, items: Sequence[EngineItem], seconds: float) -> None:
        first_ids, tokens = tuple(item.first_id for item in items), sum(i.count for i in items)
        self.log.emit(ItemsEncoded(first_ids, tokens, round(seconds, 6)))

    def name(self, tokens: Sequence[int] | NDArray[np.integer]) -> None:
        """Log the texts of new tokens, and the names of new images, videos and sounds."""
        ids = np.asarray(tokens, np.int64)
        self._extend_named(int(ids.max(initial=-1)) + 1)
        named = self._named[ids]
        if not named.all():
            new = np.unique(ids[~named]).tolist()
            self._named[new] = True
            text = self._name_items(new)
            if text:
                pieces = [p.decode("latin-1") for p in self._pieces(text)]
                self.log.emit(TokensNamed(tuple(text), tuple(pieces)))

    def names(self) -> list[TokensNamed | MediaNamed]:
        """Return the names of all tokens named so far, for a reader that starts late."""
        ids = np.flatnonzero(self._named).tolist()
        if not ids:
            return []
        end = len(ids) if self._items is None else bisect_left(ids, self._items.vocab_size)
        items = [] if self._items is None else self._items.names(ids)
        pieces = [piece.decode("latin-1") for piece in self._pieces(ids[:end])]
        return [TokensNamed(tuple(ids[:end]), tuple(pieces)), *items]

    def _extend_named(self, length: int) -> None:
        if length > len(self._named):
            self._named = np.append(self._named, np.zeros(length - len(self._named), np.bool_))

    def _name_items(self, tokens: list[int]) -> list[int]:
        """Log the names of items. Returns the tokens of text, of ascending token ids."""
        if self._items is None:
            return tokens
        split = named = bisect_left(tokens, self._items.vocab_size)
        while named < len(tokens):
            item = self._items.name(tokens[named])
            self.log.emit(item)
            end = item.first_id + item.count
            self._extend_named(end)
            self._named[item.first_id : end] = True
            named = bisect_left(tokens, end, named)
        return tokens[:split]

    def _pieces(self, tokens: list[int]) -> list[bytes]:
        return self._tokenizer.pieces(tokens) if self._tokenizer else [*map(numbered, tokens)]
