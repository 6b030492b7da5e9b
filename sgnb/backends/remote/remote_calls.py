"""Methods of a remote engine that ask the host and wait for the answer."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from ...engine.cache.handover import AnyPrefix, CachedPrefix
from ...engine.cache.manual import EvictionReport
from ...engine.cache.tree_events import EngineSnapshot
from ...engine.options import EngineOptions
from ...engine.request import arguments
from ...engine.request.input_processor import InputProcessor, Prompt
from ...engine.request.tokenizer import Tokenizer
from ...engine.request.waiting_queue import SchedulePolicy
from ...events import EventLog, WaitingRequest
from ...grammar.compiler import CompiledGrammar, GrammarCompiler
from ...grammar.spec import GrammarSpec
from ...sampling import SamplingParams, read_option, scalar
from .client import HostClient
from .event_wire import WireSnapshot, decode_event
from .prefix_exchange import RemotePrefix, SentPrefix, SentPrefixes, transports_by_name
from .request_wire import WireSeam, write_params

REMEMBERED_SEAMS = 256
"""Maximum number of pairs of grammar and last token of a prompt with stored warnings."""


class RemoteCalls:
    """Cache, statistics and stops of an engine in a host process; see `Engine`."""

    _client: HostClient
    _clock_offset: float  # from the host's clock, in seconds
    log: EventLog
    _input_processor: InputProcessor
    _seams: dict[Any, tuple[str, ...]]
    _grammars: GrammarCompiler | None
    options: EngineOptions
    tokenizer: Tokenizer | None
    _transports = transports_by_name()

    def flush_cache(self, namespace: str | None = None) -> int:
        """See `Engine.flush_cache`."""
        namespace = arguments.optional_string("namespace", namespace)
        return self._client.call("flush_cache", namespace, kind=int | None) or 0

    def pin(
        self, what: int | Prompt, owner: str = "user", namespace: str = "", durable: bool = False
    ) -> int:
        """See `Engine.pin`."""
        owner = arguments.string("owner", owner)
        namespace = arguments.string("namespace", namespace)
        durable = arguments.switch("durable", durable)
        target: Any = read_option("what", what, "the id of a node, or a prompt", scalar)
        if not isinstance(target, int):
            target = self._tokens(target)
        return self._number("pin", target, owner, namespace, durable)

    def unpin(self, node: int | None = None, owner: str | None = None) -> int:
        """See `Engine.unpin`."""
        node = arguments.optional_number("node", node)
        return self._number("unpin", node, arguments.optional_string("owner", owner))

    def pins(self) -> list[dict[str, Any]]:
        """See `Engine.pins`."""
        return self._rows("pins")

    def restore_pins(self) -> int:
        """See `Engine.restore_pins`."""
        return self._number("restore_pins")

    def evict(self, node: int) -> EvictionReport:
        """See `Engine.evict`."""
        node = arguments.number("node", node)
        report: EvictionReport = self._client.call("evict", node, kind=EvictionReport)
        return report

    def tree(self) -> list[dict[str, Any]]:
        """See `Engine.tree`."""
        return [row | {"tokens": tuple(row["tokens"])} for row in self._rows("tree")]

    def snapshot(self) -> EngineSnapshot:
        """See `Engine.snapshot`."""
        last, t, events = self._client.call("snapshot", kind=WireSnapshot)
        t += self._clock_offset - self.log.begin
        return EngineSnapshot(last, t, [decode_event(event) for event in events])

    def cached_length(self, prompt: Prompt) -> int:
        """See `Engine.cached_length`."""
        return self._number("cached_length", self._tokens(prompt))

    def prefetch(self, prompt: Prompt) -> int:
        """See `Engine.prefetch`."""
        return self._number("prefetch", self._tokens(prompt))

    def export_prefix(
        self, prompt: Prompt, namespace: str = "", transport: str = "memory"
    ) -> RemotePrefix:
        """Describe the cached prefix of `prompt`, for `adopt_prefix` of another engine. The host
        keeps a copy until the end of the returned object, of this client or of the host.

        Args:
            prompt: Text, segments or token ids.
            namespace: Cache namespace of the prompt.
            transport: "memory": shared memory. "cuda": memory of the GPU, for engines on GPUs.
                Otherwise the name of a transport of the hosts; see `EngineHost`.

        Raises:
            OptionError: As in `Engine.export_prefix`, or the transport is unknown.
            EngineError: The transport needs a host of this machine.
        """
        namespace = arguments.string("namespace", namespace)
        transport = arguments.string("transport", transport)
        asked = self._tokens(prompt), namespace, transport
        sent = self._client.call("export_prefix", *asked, kind=SentPrefix)
        return RemotePrefix(sent, self._transports, partial(self._client.tell, "release_prefix"))

    def adopt_prefix(self, prefix: AnyPrefix, namespace: str = "") -> int:
        """See `Engine.adopt_prefix`. The host receives the prefix of another host without a copy
        in this process."""
        namespace = arguments.string("namespace", namespace)
        if isinstance(prefix, RemotePrefix):
            return self._number("adopt_prefix", prefix.sent, namespace)
        sent = SentPrefixes(self._transports)
        try:
            local = CachedPrefix(prefix.tokens, prefix.content, prefix.layout)
            return self._number("adopt_prefix", sent.send(local, "memory"), namespace)
        finally:
            sent.close()

    def stats(self) -> dict[str, Any]:
        """See `Engine.stats`; of all clients together."""
        stats: dict[str, Any] = self._client.call("stats", kind=dict[str, Any])
        return stats

    def why_waiting(self, run: str, branch: str = "") -> list[WaitingRequest]:
        """See `Engine.why_waiting`."""
        run, branch = arguments.string("run", run), arguments.string("branch", branch)
        waiting: list[WaitingRequest] = self._client.call(
            "why_waiting", run, branch, kind=list[WaitingRequest]
        )
        return waiting

    def check_weights(self, changed: bool = False) -> int:
        """Return 0: the host loaded the model, and no notebook changes the weights."""
        return self._number("check_weights", arguments.switch("changed", changed))

    def switch(
        self, *, schedule_policy: SchedulePolicy | None = None, overlap: bool | None = None
    ) -> None:
        """See `Engine.switch`; for all clients."""
        options = self.options.switched(schedule_policy, overlap)
        self._client.call("switch", schedule_policy, overlap)
        self.options = options

    def seam_warnings(self, params: SamplingParams, last_token: int) -> tuple[str, ...]:
        """See `Engine.seam_warnings`."""
        key = params.grammar, last_token
        if key not in self._seams:
            while len(self._seams) >= REMEMBERED_SEAMS:
                del self._seams[next(iter(self._seams))]
            seam = WireSeam(write_params(params), last_token)
            self._seams[key] = self._client.call("seam_warnings", seam, kind=tuple[str, ...])
        return self._seams[key]

    def compiled_grammar(self, number: int) -> CompiledGrammar | None:
        """See `Engine.compiled_grammar`. This process compiles the host's grammar again."""
        number = arguments.number("number", number)
        spec = self._client.call("grammar_spec", number, kind=GrammarSpec | None)
        tokenizer = self.tokenizer
        if spec is None or tokenizer is None:
            return None
        if self._grammars is None:
            self._grammars = GrammarCompiler(lambda: tokenizer.vocabulary)
        grammar = self._grammars.compile(spec).result().compiled
        return replace(grammar, number=number)

    def _tokens(self, prompt: Prompt) -> list[int]:
        (tokens,) = self._input_processor.tokens([prompt])
        return tokens.tolist()

    def _number(self, method: str, *arguments: Any) -> int:
        return int(self._client.call(method, *arguments, kind=int | None) or 0)

    def _rows(self, method: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._client.call(method, kind=list[dict[str, Any]])
        return rows


class RemoteStepper:
    """`TokenStepper` of an engine in a host process.

    Args:
        client: Connection to the host.
    """

    def __init__(self, client: HostClient) -> None:
        self._client = client

    def pause(self, run: str, below: float = 1.0) -> None:
        self._client.call("pause", run, below)

    def step(self, run: str) -> int:
        return int(self._client.call("step", run, kind=int))

    def resume(self, run: str) -> int:
        return int(self._client.call("resume", run, kind=int))

    def outputs(self, run: str) -> dict[str, list[int]]:
        outputs: dict[str, list[int]] = self._client.call("outputs", run, kind=dict[str, list[int]])
        return outputs

    def stopped_branches(self, run: str) -> set[str]:
        return set(self._client.call("stopped_branches", run, kind=list[str]))
