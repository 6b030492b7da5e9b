"""Other libraries as executors of the same program: plain transformers, guidance, outlines.

Peers use the engine's weights, device and precision, and the fastest API of the library for
concurrent calls. Unsupported calls are refused before anything runs. Knows no statistics.
"""

from __future__ import annotations

import json
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import cached_property
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from ..errors import Aborted, EngineError
from ..events import EventLog
from ..lang.executor import Call, Delta, Result, ScoreCall, Scores
from ..sampling import SamplingParams
from ..segment import Segment
from .measurement import Clock, RunResult, timed
from .work import RecordingExecutor, Work
from .workload import Workload

if TYPE_CHECKING:
    from ..backends.local import LocalExecutor

GATHER_SECONDS = 0.002
"""Seconds to wait for further calls before a batch starts."""

LENGTH = frozenset({"max_new_tokens", "seed"})
STOPS = frozenset({"stop", "stop_token_ids", "ignore_eos"})
SAMPLED = frozenset({"temperature", "top_p", "top_k"})
JSON = frozenset({"json_schema", "json_whitespace"})

_DEFAULTS = {field.name: field.default for field in fields(SamplingParams)}


class Peer(ABC):
    """Executor on a background thread that batches waiting calls with equal sampling parameters.

    Attributes:
        package: Name of the library's package.
        can: Supported sampling parameters; `temperature` only if the peer can sample.
    """

    package: str
    can: frozenset[str]
    max_batch = 32  # maximum batch size

    def __init__(self, executor: LocalExecutor) -> None:
        self.chat, self.special_tokens = executor.chat, executor.special_tokens
        self.log = EventLog()
        self.engine = executor.engine
        self._calls: queue.SimpleQueue[tuple[Call, Callable[[Any], None], threading.Event] | None]
        self._calls = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def title(self) -> str:
        """Return the package name with the installed version, if known."""
        try:
            return f"{self.package} {version(self.package)}"
        except PackageNotFoundError:
            return self.package

    def missing(self) -> str:
        """Return the reason for the peer's absence, or "" if available."""
        if find_spec(self.package) is not None:
            return ""
        return f"not installed: pip install {self.package}"

    def refuses(self, work: Work) -> str:
        """Return the reason why the peer cannot do the work, or "".

        Args:
            work: Calls of the unmodified program.
        """
        for call in work.calls:
            why = self._refuses(call)
            if why:
                return f"{self.package} {why}"
        return ""

    def _refuses(self, call: Call | ScoreCall) -> str:
        if isinstance(call, ScoreCall):
            return "cannot score the choices of a select"
        if any(segment.kind == "media" for segment in call.segments):
            return "is measured with text only, without images, videos and sounds"
        params = call.params
        for name, default in _DEFAULTS.items():
            value = getattr(params, name)
            if name == "temperature":
                if value and name not in self.can:
                    return "is measured with greedy text only, because its samples differ"
            elif value != default and name not in self.can:
                return f"has no equivalent of {name}"
        if params.json_schema is not None and params.json_whitespace != 0:
            return "writes JSON with its own whitespace: give json_whitespace=0"
        return ""

    @abstractmethod
    def answer(self, calls: Sequence[Call]) -> Iterable[tuple[str, int]]:
        """Generate for a batch.

        Args:
            calls: Calls with equal sampling parameters and different prompts.

        Returns:
            Per call the text and the number of tokens.
        """

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="sgnb-peer", daemon=True)
            self._thread.start()
        cancelled = threading.Event()
        self._calls.put((call, sink, cancelled))
        return cancelled.set

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        sink(Scores(error=EngineError(f"{self.package} {self._refuses(call)}")))
        return lambda: None

    def close(self) -> None:
        self._calls.put(None)

    def _serve(self) -> None:
        waiting: list[tuple[Call, Callable[[Any], None], threading.Event]] = []
        while True:
            try:
                got = self._calls.get(timeout=GATHER_SECONDS) if waiting else self._calls.get()
            except queue.Empty:
                alike = [item for item in waiting if item[0].params == waiting[0][0].params]
                group = alike[: self.max_batch]
                waiting = [item for item in waiting if item not in group]
                self._serve_group(group)
                continue
            if got is None:
                return
            waiting.append(got)

    def _serve_group(
        self, group: Sequence[tuple[Call, Callable[[Any], None], threading.Event]]
    ) -> None:
        live = [item for item in group if not item[2].is_set()]
        for item in group:
            if item[2].is_set():
                item[1](Result(error=Aborted("the call was stopped")))
        try:
            answers = list(self.answer([call for call, *_ in live])) if live else []
        except Exception as error:
            for _, sink, _ in live:
                sink(Result(error=error))
            return
        for (_, sink, _), (text, tokens) in zip(live, answers, strict=True):
            sink(Result((text,), ({"completion_tokens": tokens},)))

    @property
    def tokenizer_id(self) -> str:
        return self.package

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        return self.engine.encode([segments])[0]

    def flush_cache(self) -> int:
        return 0

    def server_info(self) -> dict[str, Any]:
        return {"model": self.engine.model_name}

    def count(self, text: str) -> int:
        """Count the tokens of `text`, for libraries without a token count."""
        return len(self.engine.encode([text])[0])


class Weights:
    """The engine's model as a transformers model, loaded on first use and shared by all peers."""

    def __init__(self, executor: LocalExecutor) -> None:
        self._engine = executor.engine

    @cached_property
    def model(self) -> Any:
        import torch
        from transformers import AutoModelForCausalLM

        from ..engine.model.loading import no_bars
        from ..models import names, path

        engine = self._engine
        if engine.model is not None:
            message = f"{engine.model_name} was loaded from a model object"
            raise EngineError(f"{message}, and the engine uses it", "give the engine a folder")
        source = path(engine.model_name) if engine.model_name in names() else engine.model_name
        dtype = getattr(torch, engine.dtype)
        with no_bars():  # the benchmark shows progress
            model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=dtype)
        return model.to(engine.device).eval()

    @property
    def tokenizer(self) -> Any:
        assert self._engine.tokenizer is not None
        return self._engine.tokenizer.hf


class Transformers(Peer):
    """Peer for `model.generate`: static batches with left padding."""

    package = "transformers"
    can = LENGTH | STOPS | SAMPLED

    def __init__(self, executor: LocalExecutor, weights: Weights) -> None:
        super().__init__(executor)
        self._weights = weights

    def answer(self, calls: Sequence[Call]) -> Iterator[tuple[str, int]]:
        import torch

        model, params = self._weights.model, calls[0].params
        prompts = [self.encode(call.segments or (Segment(call.prompt),)) for call in calls]
        longest = max(map(len, prompts))
        pad = min(self.engine.eos_token_ids, default=0)
        ids = torch.tensor([[pad] * (longest - len(p)) + p for p in prompts], device=model.device)
        mask = torch.tensor(
            [[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=model.device
        )
        with torch.inference_mode(), torch.random.fork_rng():
            torch.manual_seed(params.seed or 0)
            output = model.generate(
                ids, attention_mask=mask, generation_config=self._config(params, pad),
                tokenizer=self._weights.tokenizer,
            )  # fmt: skip
        for row in output[:, longest:].tolist():
            yield self._text(row, params)

    def _config(self, params: SamplingParams, pad: int) -> Any:
        from transformers import GenerationConfig

        ends = sorted({*self.engine.eos_token_ids, *params.stop_token_ids})
        sampled: dict[str, Any] = {"do_sample": False}
        if params.temperature:
            sampled = {
                "do_sample": True,
                "temperature": params.temperature,
                "top_p": params.top_p,
                "top_k": max(params.top_k, 0),
            }
        return GenerationConfig(
            max_new_tokens=params.max_new_tokens,
            eos_token_id=[-1] if params.ignore_eos else ends,
            pad_token_id=pad,
            stop_strings=list(params.stop) or None,
            **sampled,
        )

    def _text(self, row: Sequence[int], params: SamplingParams) -> tuple[str, int]:
        """Decode `row` like a generation of sgnb: cut at the end token and at stop strings."""
        tokenizer = self.engine.tokenizer
        assert tokenizer is not None
        ends = {*params.stop_token_ids, *(() if params.ignore_eos else self.engine.eos_token_ids)}
        at = next((i for i, token in enumerate(row) if token in ends), len(row))
        special = set(tokenizer.hf.all_special_ids)
        tokens = [token for token in row[:at] if token not in special]
        text = b"".join(tokenizer.pieces(tokens)).decode(errors="replace")
        positions = [text.find(stop) for stop in params.stop if stop in text]
        return text[: min(positions, default=len(text))], min(at + 1, len(row))


class Guidance(Peer):
    """Peer for guidance, `lm + prompt + gen(...)`: sequential, because guidance has no batching.
    Widgets are off."""

    package = "guidance"
    can = LENGTH | JSON | {"stop", "regex"}

    def __init__(self, executor: LocalExecutor, weights: Weights) -> None:
        super().__init__(executor)
        self._weights = weights

    @cached_property
    def _lm(self) -> Any:
        return import_module("guidance").models.Transformers(
            self._weights.model, self._weights.tokenizer, echo=False, enable_monitoring=False
        )

    def answer(self, calls: Sequence[Call]) -> Iterator[tuple[str, int]]:
        guidance, params = import_module("guidance"), calls[0].params
        options: dict[str, Any] = {"max_tokens": params.max_new_tokens, "temperature": 0.0}
        if params.json_schema is None:
            options |= {"regex": params.regex, "stop": list(params.stop) or None}
            grammar = guidance.gen("made", **options)
        else:
            schema = json.loads(params.json_schema)
            grammar = guidance.json("made", schema=schema, separators=(",", ":"), **options)
        with crop_by_length():
            for call in calls:
                text = (self._lm + call.prompt + grammar)["made"]
                yield text, self.count(text)


class Outlines(Peer):
    """Peer for outlines: a generator per constraint, batches with left padding."""

    package = "outlines"
    can = LENGTH | JSON | {"regex"}

    def __init__(self, executor: LocalExecutor, weights: Weights) -> None:
        super().__init__(executor)
        self._weights = weights
        self._generators: dict[Any, Any] = {}

    @cached_property
    def _lm(self) -> Any:
        return import_module("outlines").from_transformers(
            self._weights.model, self._weights.tokenizer
        )

    def answer(self, calls: Sequence[Call]) -> Iterator[tuple[str, int]]:
        params = calls[0].params
        generator = self._generator(params)
        options = {"max_new_tokens": params.max_new_tokens, "do_sample": False}
        texts = generator.batch([call.prompt for call in calls], **options)
        return ((text, self.count(text)) for text in texts)

    def _generator(self, params: SamplingParams) -> Any:
        outlines, key = import_module("outlines"), params.grammar
        if key not in self._generators:
            output = None
            if params.regex is not None:
                output = outlines.types.Regex(params.regex)
            elif params.json_schema is not None:
                output = outlines.types.JsonSchema(params.json_schema, whitespace_pattern="")
            self._generators[key] = outlines.Generator(self._lm, output)
        return self._generators[key]


LIBRARIES: dict[str, type[Transformers] | type[Guidance] | type[Outlines]] = {
    kind.package: kind for kind in (Transformers, Guidance, Outlines)
}


class PeerSide:
    """The program on a peer; see `runner.Side`."""

    repeatable = False

    def __init__(self, peer: Peer, workload: Workload, clock: Clock) -> None:
        self._peer, self._workload, self._clock = peer, workload, clock

    @property
    def title(self) -> str:
        return f"by {self._peer.title}"

    def refuses(self, base: RunResult) -> str:
        if missing := self._peer.missing():
            return missing
        why = self._peer.refuses(base.work)
        return f"cannot do the same work: {why}" if why else ""

    def run(self) -> RunResult:
        return timed(self._workload.run, RecordingExecutor(self._peer), self._clock)

    def close(self) -> None:
        self._peer.close()


@contextmanager
def crop_by_length() -> Iterator[None]:
    """Accept both meanings of the argument of `Cache.crop`: the length to keep (guidance 0.3), and
    the length to remove (newer transformers)."""
    from transformers.cache_utils import Cache

    crop = Cache.crop

    def either(self: Any, tokens: int) -> None:
        crop(self, tokens - self.get_seq_length() if tokens >= 0 else tokens)

    with patch.object(Cache, "crop", either):
        yield
