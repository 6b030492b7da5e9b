"""A client of an engine host: reads calls, and writes replies, outputs and events."""

from __future__ import annotations

import logging
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor as Pool
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from ...engine import Engine
from ...engine.request.output import Output
from ...errors import EngineError, RequestError
from ...events import Record
from ...events.program_kinds import PROGRAM_KINDS
from ...media import MediaItem
from ...part_order import OrderMemory, PartOrder, given_order
from .event_wire import encode_event, encode_snapshot
from .item_wire import WireItem, read_item
from .order_wire import WireOrder, read_prompt
from .output_wire import EMPTY, WireOutput, encode_output
from .prefix_exchange import PREFIX_METHODS, PrefixExchange, Transports
from .request_wire import WireRequests, WireSeam, read_params
from .step_wire import WireStep
from .wire import (
    SAME_VERSION,
    Ask,
    Connection,
    Reply,
    WireError,
    converted,
    decoder,
    failure_of,
)

EVENT_SECONDS = 0.05
"""Maximum delay of events without outputs."""

MAX_EVENTS = 4096
"""Maximum number of events per message."""

MAX_REQUESTS = 1 << 16
"""Maximum number of unfinished requests of a client."""

MAX_CALLS = 1 << 16
"""Maximum number of unfinished calls of a client, and of unsent replies."""

MAX_ITEMS, MAX_ITEM_BYTES = 1 << 16, 8 << 30
"""Maximum number and size of the images, videos and sounds of a client."""

MAX_MEMORIES = 16
"""Maximum number of memories of part orders per client."""

PLAIN_METHODS: dict[str, Any] = {
    "flush_cache": tuple[str | None],
    "pin": tuple[int | list[int], str, str, bool],
    "unpin": tuple[int | None, str | None],
    "pins": tuple[()],
    "restore_pins": tuple[()],
    "evict": tuple[int],
    "tree": tuple[()],
    "cached_length": tuple[list[int]],
    "prefetch": tuple[list[int]],
    "stats": tuple[()],
    "why_waiting": tuple[str, str],
    "check_weights": tuple[bool],
    "switch": tuple[str | None, bool | None],
    "snapshot": tuple[()],
}
"""Methods of `Engine` that a client calls, and the types of the arguments."""

STEPPER_METHODS: dict[str, Any] = {
    "pause": tuple[str, float],
    "step": tuple[str],
    "resume": tuple[str],
    "outputs": tuple[str],
    "stopped_branches": tuple[str],
}
"""Methods of `TokenStepper`, with a run as the first argument."""

_log = logging.getLogger(__name__)


class ClientSession:
    """A connected client. Its runs carry the prefix `"NUMBER/"` in the engine.

    A client takes bounded memory. A slow client receives the newest partial output of each request,
    all finished outputs, and `RecordsLost` instead of the oldest events. Calls and items beyond a
    limit get a RequestError; the connection of a client that reads no replies ends.

    Args:
        engine: The engine.
        connection: Connection after the greeting.
        number: Number of the client.
        calls: Threads for methods that wait for the engine.
        transports: Transports of prefixes by name.
    """

    def __init__(
        self,
        engine: Engine,
        connection: Connection,
        number: int,
        calls: Pool,
        transports: Transports,
    ) -> None:
        self._engine, self._connection, self._calls = engine, connection, calls
        self._prefixes = PrefixExchange(engine, transports, connection.is_local)
        self._number, self._prefix = number, f"{number}/"
        self._replies: queue.SimpleQueue[Reply | None] = queue.SimpleQueue()  # None: wake up
        self._lock = threading.Lock()
        self._outputs: dict[int, Output] = {}  # newest unsent output by tag
        self._ids: dict[int, int] = {}  # unfinished requests: tag -> id, 0 before `submit` returns
        self._sent: dict[int, Output] = {}  # last sent output of streamed requests
        self._items: dict[bytes, MediaItem] = {}  # keeps the content of the client's items
        self._item_bytes = 0
        self._open_calls = 0  # on other threads
        self._memories: OrderedDict[int, OrderMemory] = OrderedDict()
        self._closed = False
        snapshot = engine.snapshot()
        self._after, self._beginning = snapshot.last, snapshot.events
        self._methods: dict[str, tuple[Any, Callable[..., None]]] = {
            "submit": (tuple[WireRequests], self._submit),
            "abort": (tuple[list[int]], self._abort),
            "abort_submission": (tuple[tuple[int, int]], self._abort_submission),
            "add_item": (tuple[WireItem], self._add_item),
            "drop_item": (tuple[bytes], self._drop_item),
            "grammar_spec": (tuple[int], self._grammar_spec),
            "seam_warnings": (tuple[WireSeam], self._seam_warnings),
            "find_part_order": (tuple[WireOrder], self._find_part_order),
        }

    def start(self) -> None:
        """Start the writing thread."""
        threading.Thread(target=self._write, name="sgnb-host-writer", daemon=True).start()

    def close(self) -> None:
        """End the connection and the client's requests. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            ids = list(self._ids.values())
        self._engine.abort(ids)
        self._connection.close()
        self._items.clear()
        self._prefixes.close()
        self._replies.put(None)

    def read(self) -> None:
        """Handle messages until the end of the connection."""
        decode = decoder(Ask, self._connection.name)
        try:
            while True:
                self._handle(decode(self._connection.receive()))
        except (EOFError, OSError):
            pass
        except WireError as error:
            _log.warning("%s", error)
            self._replies.put(Reply(0, None, failure_of(error)))

    def _handle(self, ask: Ask) -> None:
        if self._replies.qsize() >= MAX_CALLS:
            message = f"{self._connection.name} has {MAX_CALLS:,} unread replies"
            raise WireError(message, "read replies while sending calls")
        if ask.method in self._methods:
            kind, method = self._methods[ask.method]
            (argument,) = self._convert(ask, kind)
            self._guarded(ask.serial, partial(method, ask.serial, argument))
        elif ask.method in {*PLAIN_METHODS, *STEPPER_METHODS, *PREFIX_METHODS}:
            self._guarded(ask.serial, partial(self._later, ask.serial, partial(self._call, ask)))
        else:
            message = f"{self._connection.name} asked for {ask.method[:40]!r}"
            raise WireError(message, SAME_VERSION)

    def _convert(self, ask: Ask, kind: Any) -> Any:
        return converted(ask.arguments, kind, f"{ask.method} of {self._connection.name}")

    def _guarded(self, serial: int, work: Callable[[], None]) -> None:
        """Run `work`; an error is the reply."""
        try:
            work()
        except Exception as error:
            if not isinstance(error, EngineError | ValueError):
                _log.exception("a call of %s failed", self._connection.name)
            self._reply(serial, failure=error)

    def _later(self, serial: int, work: Callable[[], None]) -> None:
        """Run `work` on a thread for calls."""
        self._begin_call()

        def run() -> None:
            try:
                self._guarded(serial, work)
            finally:
                self._end_call()

        with suppress(RuntimeError):  # the host is closing
            self._calls.submit(run)

    def _begin_call(self) -> None:
        with self._lock:
            if self._open_calls >= MAX_CALLS:
                message = f"a client has at most {MAX_CALLS:,} unfinished calls"
                raise RequestError(message, "wait for some of them")
            self._open_calls += 1

    def _end_call(self) -> None:
        with self._lock:
            self._open_calls -= 1

    def _reply(self, serial: int, value: Any = None, failure: BaseException | None = None) -> None:
        if serial:
            wired = None if failure is None else failure_of(failure)
            self._replies.put(Reply(serial, value, wired))

    def _call(self, ask: Ask) -> None:
        """Call a method of the engine that waits for the engine."""
        if ask.method in PLAIN_METHODS:
            arguments = self._convert(ask, PLAIN_METHODS[ask.method])
            if ask.method == "why_waiting":
                arguments = self._client_run(arguments[0]), arguments[1]
            if ask.method == "switch":
                value = self._engine.switch(schedule_policy=arguments[0], overlap=arguments[1])
            elif ask.method == "snapshot":
                value = encode_snapshot(self._engine.snapshot(), self._engine.log.begin)
            else:
                value = getattr(self._engine, ask.method)(*arguments)
        elif ask.method in PREFIX_METHODS:
            arguments = self._convert(ask, PREFIX_METHODS[ask.method])
            value = getattr(self._prefixes, ask.method)(*arguments)
        else:
            run, *arguments = self._convert(ask, STEPPER_METHODS[ask.method])
            value = getattr(self._engine.token_stepper, ask.method)(self._prefix + run, *arguments)
            value = sorted(value) if isinstance(value, set) else value
        self._reply(ask.serial, value)

    def _submit(self, serial: int, asked: WireRequests) -> None:
        params = [read_params(fields) for fields in asked.params]
        tags = range(asked.first_tag, asked.first_tag + len(asked.prompts))
        with self._lock:
            if len(self._ids) + len(tags) > MAX_REQUESTS:
                raise RequestError(
                    f"a client has at most {MAX_REQUESTS:,} unfinished requests",
                    "wait for some of them",
                )
            self._ids.update(dict.fromkeys(tags, 0))
        try:
            ids = self._engine.submit(
                [np.frombuffer(prompt, np.int32) for prompt in asked.prompts],
                [params[index] for index in asked.which],
                [partial(self._take, tag) for tag in tags],
                stream=asked.stream,
                origins=[
                    origin._replace(run=self._client_run(origin.run)) for origin in asked.origins
                ],
                cache_scopes=[scope._replace(client=self._number) for scope in asked.cache_scopes],
                given_outputs=asked.given_outputs,
            )
        except BaseException:
            with self._lock:
                for tag in tags:
                    self._ids.pop(tag, None)
            raise
        with self._lock:
            for tag, id in zip(tags, ids, strict=True):
                if tag in self._ids:
                    self._ids[tag] = id
            closed = self._closed
        if closed:
            self._engine.abort(ids)
        self._reply(serial, ids)

    def _client_run(self, run: str) -> str:
        """Return the engine's name of a run; "" stands for requests outside programs."""
        return run and self._prefix + run

    def _abort(self, serial: int, ids: list[int]) -> None:
        """End requests of this client; other ids are ignored."""
        with self._lock:
            client_ids = set(self._ids.values())
        self._engine.abort([id for id in ids if id in client_ids])

    def _abort_submission(self, serial: int, tags: tuple[int, int]) -> None:
        """End the requests with tags from the first to before the second of `tags`: the client was
        interrupted while it waited for the ids."""
        with self._lock:
            ids = [id for tag, id in self._ids.items() if tag in range(*tags)]
        self._engine.abort(ids)

    def _add_item(self, serial: int, wire: WireItem) -> None:
        """Process an image, video or sound, and reply with the token ids."""
        table = self._engine.items
        if table is None:
            raise RequestError("the model takes text only", "attach to a multimodal model")
        content = read_item(wire)
        self._keep_item(content)

        def reply() -> None:
            item = table.find(content)
            self._reply(serial, (item.first_id, item.count, table.name(item.first_id)))

        self._later(serial, reply)

    def _keep_item(self, content: MediaItem) -> None:
        if content.digest in self._items:
            return
        size = self._item_bytes + content.num_bytes
        if len(self._items) >= MAX_ITEMS or size > MAX_ITEM_BYTES:
            limits = f"{MAX_ITEMS:,} images, videos and sounds with {MAX_ITEM_BYTES / 2**30:g} GiB"
            hint = "delete states and items of earlier runs, or send smaller items"
            raise RequestError(f"a client has at most {limits}", hint)
        self._items[content.digest], self._item_bytes = content, size

    def _drop_item(self, serial: int, digest: bytes) -> None:
        content = self._items.pop(digest, None)
        self._item_bytes -= 0 if content is None else content.num_bytes

    def _grammar_spec(self, serial: int, number: int) -> None:
        """Reply with the text of a compiled grammar: the client compiles the grammar for views."""
        grammar = self._engine.compiled_grammar(number)
        self._reply(serial, None if grammar is None else grammar.spec)

    def _seam_warnings(self, serial: int, seam: WireSeam) -> None:
        self._reply(serial, self._engine.seam_warnings(read_params(seam.params), seam.last_token))

    def _find_part_order(self, serial: int, wire: WireOrder) -> None:
        memory = self._memories.setdefault(wire.memory, OrderMemory())
        self._memories.move_to_end(wire.memory)
        while len(self._memories) > MAX_MEMORIES:
            self._memories.popitem(last=False)

        def then(order: PartOrder) -> None:
            self._end_call()
            self._reply(serial, order)

        search, default = wire.search(memory), given_order(len(wire.keys))
        self._begin_call()
        try:
            self._engine.find_part_order(search, read_prompt(wire), default, then)
        except BaseException:
            self._end_call()
            raise

    def _take(self, tag: int, output: Output) -> None:
        """Store an output, on the engine's thread."""
        with self._lock:
            is_first = not self._outputs
            self._outputs[tag] = output
            if output.finish_reason is not None:
                self._ids.pop(tag, None)
        if is_first:
            self._engine.before_next_step(lambda: self._replies.put(None))

    def _write(self) -> None:
        """Send replies, outputs and events until the end of the connection."""
        try:
            self._send_events(self._beginning)
            self._beginning = []
            while not self._closed and self._send_step():
                with suppress(queue.Empty):
                    reply = self._replies.get(timeout=EVENT_SECONDS)
                    while not self._engine.failure:  # the reason of the end precedes its effects
                        if reply is not None:
                            self._connection.send_now(reply)
                        reply = self._replies.get_nowait()
        except OSError:
            pass  # the reading thread ends the session
        except Exception:
            _log.exception("the connection to %s failed", self._connection.name)
        self._connection.close()

    def _send_step(self) -> bool:
        """Send the outputs, and before them the events up to now. After the end of the engine, send
        the reason instead, with which the client ends all requests, and return False."""
        with self._lock:
            outputs, self._outputs = self._outputs, {}
        if failure := self._engine.failure:
            self._connection.send_now(Reply(0, None, failure_of(failure)))
            return False
        records, lost = self._engine.log.read(self._after)
        while records or lost or outputs:
            part, records = records[:MAX_EVENTS], records[MAX_EVENTS:]
            # A run of this process can have the id of a run of the client.
            events = [
                encode_event(record, self._engine.log.begin)
                for record in part
                if type(record.event).__name__ not in PROGRAM_KINDS
            ]
            sent = {} if records else outputs
            wired = [self._encode(tag, output) for tag, output in sent.items()]
            self._connection.send_now(WireStep(lost, events, wired))
            self._after += lost + len(part)
            lost, outputs = 0, {} if sent else outputs
        return True

    def _send_events(self, events: list[Any]) -> None:
        """Send the events of a snapshot."""
        for begin in range(0, len(events), MAX_EVENTS):
            part = [
                encode_event(Record(0, 0.0, event), self._engine.log.begin)
                for event in events[begin : begin + MAX_EVENTS]
            ]
            self._connection.send_now(WireStep(0, part, []))

    def _encode(self, tag: int, output: Output) -> WireOutput:
        """Return an output as the difference from the last sent output."""
        last = self._sent.pop(tag, EMPTY)
        if output.finish_reason is None:
            self._sent[tag] = output
        return encode_output(tag, output, last)
