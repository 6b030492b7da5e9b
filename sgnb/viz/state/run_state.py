"""State of one run: text with the origin of every piece, and metrics. A pure reducer.

Kinds of text: "text" is constant text not yet sent to the engine; "cached" was read from the prefix
cache; "computed" was prefilled. "again" was cached, but recomputed for lack of a recurrent
checkpoint; "reused" has approximate keys and values. "sampled" was generated; "jumped" was forced
by a grammar. Text of another model has a letter appended: "sampled B".

In a large batch only the first branches keep the text; the other branches are rows and counts. The
live page implements the same reducer (`page/reduce.js`, `page/run_records.js`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from ...events import (
    AnswerSpliced,
    AnswerVerified,
    BranchFinished,
    BranchStarted,
    ChoiceMade,
    GenerationDone,
    ItemsEncoded,
    Jumped,
    MediaNamed,
    ModelAnswered,
    ModelAsked,
    PartsOrdered,
    PrefixLoaded,
    ProgramCalled,
    Record,
    RequestAdmitted,
    RequestFinished,
    RequestQueued,
    RowsNumbered,
    RunEdited,
    RunFinished,
    RunStarted,
    StepRan,
    TextAppended,
    TextStreamed,
    TokensNamed,
    WorkerLost,
)
from ...sequences import common_length
from .branch_text import BranchText, Passage, drop, passages
from .lanes import Lanes
from .media import mark_of
from .metrics import Metrics, Row, is_stop
from .models import Model, OpenCall, count_found, count_written, made_by
from .run_approximations import RunApproximations
from .run_fleet import RunFleet
from .run_items import RunItems
from .run_loads import RunLoads
from .run_orders import RunOrders
from .run_request import RunRequest
from .stops import STOP_EVENTS, Stops
from .time_parts import TIMED_EVENTS, TimeParts
from .tree import Trees, TreeState

KEPT_BRANCHES = 12


class RunState:
    def __init__(self, run: str, trees: Trees | None = None) -> None:
        """Create the state of a run.

        Args:
            run: Id of the run.
            trees: Trees with token names by engine, updated by the caller.
        """
        self.run = run
        self._trees = Trees() if trees is None else trees
        self.title = self.message = ""
        self.status = "waiting"  # "waiting", "running", or the status of `RunFinished`
        self.branches: dict[str, BranchText] = {}
        self.rows: dict[str, Row] = {}
        self.edit: RunEdited | None = None  # of an earlier run
        self.earlier = ""  # run with the other rows of a batch
        self._numbers: Iterator[int] = iter(())  # rows of the next programs, if not all rows run
        self.hidden = 0  # branches without kept text
        self.failed = self.lost = self.stopped = 0  # stopped: programs stopped from outside
        self.reported, self.first_error = False, ""  # reported: the cell's output has the error
        self.metrics, self.orders, self.fleet = Metrics(), RunOrders(), RunFleet(run, self._trees)
        self.items, self.loads, self.splices = RunItems(), RunLoads(), RunApproximations()
        self.time, self.stops, self.lanes = TimeParts(run), Stops(run), Lanes(run)
        self.began: float | None = None  # start, in seconds of the log's clock
        self._now, self._engine = 0.0, 0  # time and engine of the current record
        self.models = {0: Model(0)}  # by number; 0 is the default model
        self._by_engine = {0: self.models[0]}
        self._calls: dict[str, OpenCall] = {}  # open calls to other models, by branch
        self._requests = defaultdict[int, dict[int, RunRequest]](dict)  # by engine and number

    def line(self) -> str:
        """Return the metrics as a line, with the remaining time of a batch."""
        metrics, line = self.metrics, self.metrics.line()
        if self.status == "running" and 0 < metrics.finished < metrics.total:
            remaining = metrics.seconds / metrics.finished * (metrics.total - metrics.finished)
            line += f" · ETA {remaining:.0f} s"
        return line

    def trees(self) -> list[TreeState]:
        """Return the trees of all called engines; the default engine is first."""
        engines = [*(model.engine for model in self.models.values()), *self.fleet.engines]
        trees = [self._trees[engine] for engine in engines]
        return [trees[0], *(tree for tree in trees[1:] if tree.engine is not None)]

    def model_of(self, tree: TreeState) -> Model | None:
        """Return the model of a tree's engine, or None if the run called only the default model."""
        models = self.models.values() if len(self.models) > 1 else ()
        return next((model for model in models if self._trees[model.engine] is tree), None)

    @property
    def is_batch(self) -> bool:
        return self.metrics.total > 1 or bool(self.earlier)

    def apply(self, record: Record) -> None:
        event, kind = record.event, type(record.event)
        self._now, self._engine = record.t, record.engine
        if kind in STOP_EVENTS:
            self.stops.apply(record)
        self.lanes.apply(record)
        advanced = self.fleet.apply(record, self.status)
        advanced |= kind in TIMED_EVENTS and self.time.apply(record)
        handler = self._handlers.get(kind)
        if handler is not None and getattr(event, "run", self.run) == self.run:
            advanced = handler(self, event) is not False or advanced
        if advanced:
            self._time(record.t)

    def _time(self, t: float) -> None:
        self.began = t if self.began is None else self.began
        self.metrics.seconds = t - self.began
        if t > self.time.at:
            self.time.advance(t)

    def _name(self, event: TokensNamed | MediaNamed) -> bool:
        self._trees[self._engine].token_table.learn(event)
        return False

    def _encoded(self, event: ItemsEncoded) -> bool:
        self.items.encoder_ran(self._engine, event.items)
        return False

    def _loaded(self, event: PrefixLoaded) -> bool:
        if (request := self._requests[self._engine].get(event.request)) is not None:
            self.loads.loaded(event, self._now)
            count_found(
                self.metrics, request.model, request.row, 0, event.tokens if event.begin else 0
            )
        return request is not None

    def _approximated(self, event: AnswerSpliced | AnswerVerified) -> bool:
        request = self._requests[self._engine].get(event.request)
        if isinstance(event, AnswerSpliced) and request is not None:
            request.reused = event.begin, event.begin + event.reused
            self.metrics.reused_tokens += event.reused
        self.splices.apply(self._engine, event, request is not None)
        return False  # the comparison is no part of the run's time

    def _start(self, event: RunStarted) -> None:
        self.title, self.metrics.total, self.status = event.title, event.total, "running"

    def _branch_start(self, event: BranchStarted) -> None:
        if "." not in event.branch:
            number = next(self._numbers, len(self.rows))
            self.rows[event.branch] = Row(event.branch, self._now, number=number)
        if len(self.branches) >= KEPT_BRANCHES:
            self.hidden += 1
            return

        branch = BranchText(event.branch, event.parent)
        parent = self.branches.get(event.parent)
        if parent is not None and parent.text.endswith(event.text):
            # The engine may show more text than the program, such as a BOS token. Keep the parent's
            # segments.
            branch.segments = [list(segment) for segment in parent.segments]
            branch.shared = parent.length
        else:
            branch.append("text", event.text)

        branch.forked_at = parent.length if parent is not None else 0
        self.branches[event.branch] = branch

    def _numbered(self, event: RowsNumbered) -> None:
        self.earlier, self._numbers = event.earlier, iter(event.rows)

    def _called(self, event: ProgramCalled) -> None:
        row = self.rows.get(event.branch)
        if row is not None:
            row.arguments = event.arguments

    def _branch_finish(self, event: BranchFinished) -> None:
        self._calls.pop(event.branch, None)
        error = "" if is_stop(event.error) else event.error
        status = "error" if error else "stopped" if event.error else "done"
        if "." not in event.branch:
            self.metrics.finished += status != "stopped"
            self.stopped += status == "stopped"
        if error:
            self.failed += 1
            self.first_error = self.first_error or error
        branch, row = self.branches.get(event.branch), self.rows.get(event.branch)
        if branch is not None:
            branch.status, branch.error = status, error
        if row is not None:
            row.status, row.error, row.ended = status, error, self._now

    def _text(self, event: TextAppended) -> None:
        branch = self.branches.get(event.branch)
        if branch is not None:
            branch.generated_from = None
            branch.append("text", event.text)

    def _streamed(self, event: TextStreamed) -> None:
        branch, call = self.branches.get(event.branch), self._calls.get(event.branch)
        if branch is not None:
            if branch.generated_from is None:
                branch.generated_from = branch.length
            branch.append(made_by("sampled", call.model if call else None), event.text)

    def _asked(self, event: ModelAsked) -> None:
        if (engine := self._trees[0].engine) is not None:
            self.models[0].name = engine.model.rpartition("/")[2]
        model = self.models.setdefault(event.number, Model(event.number, event.model, event.engine))
        self._by_engine[event.engine] = model
        self._calls[event.branch] = OpenCall(model)
        model.begin(self._now)
        branch = self.branches.get(event.branch)
        if branch is not None:
            branch.generated_from = branch.length

    def _answered(self, event: ModelAnswered) -> None:
        call = self._calls.get(event.branch)
        if call is None:
            return
        call.model.end(self._now)
        if not call.counted:
            row = self._row(event.branch)
            count_found(self.metrics, call.model, row, event.prompt_tokens, event.cached_tokens)
            count_written(self.metrics, call.model, row, event.output_tokens)

    def _finish_text(self, event: GenerationDone | ChoiceMade, text: str) -> None:
        """Replace streamed text by the program's text after the common prefix."""
        name, variable = event.branch, event.name
        row = self._row(name)
        if row is not None:
            row.answered(variable, text)
        branch, call = self.branches.get(name), self._calls.pop(name, None)
        if branch is None:
            return

        if branch.generated_from is not None:
            streamed = "".join(part for _, part in drop(branch.segments, branch.generated_from))
            same = common_length(streamed, text)
            branch.cut(branch.generated_from + same)
            branch.generated_from = None
        else:
            same = 0

        model = call.model if call is not None else None
        kind = "text" if event.recorded else made_by("sampled", model)
        branch.append(kind, text[same:])
        branch.variables[variable] = text
        branch.makers[variable] = model.letter if model is not None else ""

    def _row(self, branch: str) -> Row | None:
        """Return the row of a branch's program."""
        return self.rows.get(branch.partition(".")[0])

    def _queued(self, event: RequestQueued) -> None:
        branch = self.branches.get(event.branch)
        if any(request.branch is branch for request in self._requests[self._engine].values()):
            branch = None  # only the first of several samples or choices is shown
        row = self._row(event.branch)
        model = self._by_engine.get(self._engine, self.models[0])
        call = self._calls.get(event.branch)
        if self._engine and call is not None:
            call.counted = True

        model.begin(self._now)
        request = RunRequest(
            row=row,
            branch=branch,
            prompt=event.prompt,
            generates=event.purpose == "generate",
            num_given=event.num_given,
            model=model,
            token_table=self._trees[self._engine].token_table,
        )
        self._requests[self._engine][event.request] = request
        tree = self._trees[self._engine]
        spans = list(tree.token_table.media.spans(event.prompt))
        key = self._engine, event.request
        if row is not None:
            row.uses(span.item.first_id for span in spans if span.item is not None)
        self.items.queued(key, spans, tree.num_processed(event.request, spans))

    def _admitted(self, event: RequestAdmitted) -> bool:
        request = self._requests[self._engine].get(event.request)
        if request is None or request.admitted:
            return False
        request.admitted = True
        count_found(
            self.metrics, request.model, request.row, len(request.prompt), event.cached, event.again
        )
        self.items.admitted((self._engine, event.request), event.cached)

        if request.branch is not None:
            pieces = request.prompt_pieces(event.cached, event.again)
            request.branch.prompt(pieces, request.generates, request.model.number > 0)
            if request.num_given and request.branch.generated_from is not None:
                request.branch.generated_from -= request.given_length()
            above = self.branches.get(request.branch.parent)
            while above is not None:
                above.sent(pieces)
                above = self.branches.get(above.parent)
            request.show("jumped", request.forced)

        return True

    def _stepped(self, event: StepRan) -> bool:
        involved, requests = False, self._requests[self._engine]
        if not requests:
            return False
        for number, token, _ in event.sampled:
            request = requests.get(number)
            if request is not None:
                involved = True
                request.written += 1
                count_written(self.metrics, request.model, request.row, 1)
                if request.branch is not None:
                    request.show("sampled", request.token_table.bytes((token,)))

        involved = involved or any(number in requests for number, _, _ in event.extended)
        self.metrics.passes += involved
        return involved

    def _jumped(self, event: Jumped) -> bool:
        request = self._requests[self._engine].get(event.request)
        if request is None:
            return False
        count, data = len(event.tokens) - event.dropped, event.data.encode("latin-1")
        request.written += count
        count_written(self.metrics, request.model, request.row, count)
        self.metrics.jumped_tokens += count
        if request.admitted:
            request.show("jumped", data)
        else:
            request.forced += data
        return True

    def _request_finished(self, event: RequestFinished) -> bool:
        request = self._requests[self._engine].pop(event.request, None)
        if request is None:
            return False
        self.items.ended((self._engine, event.request))
        is_remote = not request.prompt  # the backend reports counts instead of tokens
        row = request.row if is_remote else None
        if is_remote:
            count_found(self.metrics, request.model, row, event.prompt_tokens, event.cached_tokens)
        count_written(self.metrics, request.model, row, event.output_tokens - request.written)
        request.model.end(self._now)
        request.show("sampled", b"", final=True)
        return True

    def _lost(self, event: WorkerLost) -> bool:
        """End the open requests of a worker without further events."""
        for number, request in list(self._requests[event.engine].items()):
            end = RequestFinished(number, "error", 0, 0, request.written)
            self.apply(Record(0, self._now, end, event.engine))
        return False

    _handlers: ClassVar[dict[type, Callable[[Any, Any], bool | None]]] = {
        **dict.fromkeys((TokensNamed, MediaNamed), _name),
        ItemsEncoded: _encoded,
        PrefixLoaded: _loaded,
        AnswerSpliced: _approximated,
        AnswerVerified: _approximated,
        RunStarted: _start,
        RunEdited: lambda run, event: setattr(run, "edit", event),
        RunFinished: lambda run, event: vars(run).update(
            status=event.status, message=event.message
        ),
        BranchStarted: _branch_start,
        RowsNumbered: _numbered,
        ProgramCalled: _called,
        BranchFinished: _branch_finish,
        TextAppended: _text,
        PartsOrdered: lambda run, event: run.orders.ordered(event),
        TextStreamed: _streamed,
        ModelAsked: _asked,
        ModelAnswered: _answered,
        GenerationDone: lambda run, event: run._finish_text(event, event.text),
        ChoiceMade: lambda run, event: run._finish_text(event, event.chosen),
        RequestQueued: _queued,
        RequestAdmitted: _admitted,
        StepRan: _stepped,
        Jumped: _jumped,
        RequestFinished: _request_finished,
        WorkerLost: _lost,
    }
    """Handlers by event kind. A handler returns False for events without effect on the run."""

    def item_of(self, kind: str) -> MediaNamed | None:
        """Return the image, video or sound of a kind of text, or None for text."""
        return (mark := mark_of(kind)) and self._trees[mark.engine].token_table.media.item(
            mark.first_id
        )

    def passages(self) -> Iterator[Passage]:
        """Yield the text of all branches in reading order, with forks at the fork position."""
        return passages(self.branches)
