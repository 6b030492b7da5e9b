"""`FleetExecutor`: programs run on several engines of one model."""

from __future__ import annotations

import queue
import random
import re
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import EngineError, OptionError, shown
from ...events import EventLog, WaitingRequest
from ...lang.executor import Call, Delta, Result, Room, ScoreCall, Scores
from ...segment import Segment
from ..any_engine import AnyEngine
from ..local import LocalExecutor, executor_of
from .dispatcher import Commands, Dispatcher, serve
from .fleet_call import FleetCall
from .scaling import Scaler
from .worker_source import LocalSource, Scaling, WorkerSource

MAX_REPLICAS = 4096
PLACES = "processes", "threads", "ray"


class FleetExecutor:
    """An `Executor` (see `lang.executor`) over workers: engines of the same model.

    A thread routes the calls, see `router`. Programs stay in this process. Calls of a lost worker
    continue on another worker after the streamed tokens, with the same seed.

    Args:
        engines: The engines of the workers, in this process or in hosts.
        scaling: Starts and ends engines while the fleet runs. None: a lost worker stays lost.
        prefill: Further engines that compute prompts for the workers. Without a running worker,
            the engines become workers.

    Raises:
        OptionError: The engines have different tokenizers, the list is empty, or an engine of
            `prefill` cannot hand over prefixes.
    """

    continues_output = True

    def __init__(
        self,
        engines: Sequence[AnyEngine],
        scaling: Scaling | None = None,
        prefill: Sequence[AnyEngine] = (),
    ) -> None:
        executors = [executor_of(engine) for engine in engines]
        prefills = [executor_of(engine) for engine in prefill]
        _check_alike(executors and [*executors, *prefills])
        for engine in prefill:
            _check_handover(engine)
        self.log = EventLog()
        self.chat, self.special_tokens = executors[0].chat, executors[0].special_tokens
        self._executors = dict(enumerate(executors))  # by worker, also of ended workers
        self._commands: Commands = queue.SimpleQueue()
        self._dispatcher = Dispatcher(self._executors, self.log, self._commands, scaling, prefills)
        thread = partial(serve, self._commands, self._dispatcher)
        threading.Thread(target=thread, name="sgnb-fleet", daemon=True).start()
        self._owned = ExitStack()
        self._guard = threading.RLock()  # no call follows the end in the queue
        self._end = weakref.finalize(self, self._commands.put, None)
        # Ray closes itself at the exit of the interpreter, and host processes end with this one.
        self._release = weakref.finalize(self, self._owned.close)
        self._release.atexit = False

    @classmethod
    def load(
        cls,
        model: str | Path = "tiny",
        *,
        replicas: int | tuple[int, int] = 2,
        on: str = "processes",
        prefill: int = 0,
        **options: Any,
    ) -> FleetExecutor:
        """Load engines of a model. `close` ends the engines.

        Args:
            model: As in `Engine`.
            replicas: Number of engines; or minimum and maximum: engines start if calls wait, and
                n engines end if n engines were without calls for two minutes. A lost engine is
                replaced.
            on: "processes": a process per engine, each with a GPU of its own if there are several;
                the processes end with this process. "threads": engines in this process. "ray", or
                the address "ray://HOST:PORT" of a cluster: actors of Ray.
            prefill: Number of further engines that compute the prompts for the others. The keys and
                values move to the engine that decodes. An experiment; see docs/FLEET.md.
            options: Options of each engine; see `EngineOptions`.

        Raises:
            ModelError, OptionError: As in `Engine`.
            EngineError: A process or an actor did not start.
        """
        least, most = read_replicas(replicas, on)
        _check_prefill(prefill, on, most > least)
        with ExitStack() as opened:
            source = _source(str(model), options, on, least)
            opened.callback(source.close)
            began = time.monotonic()
            engines = [source.start(worker) for worker in range(least + prefill)]
            seconds = (time.monotonic() - began) / len(engines)
            scaling = Scaling(source, Scaler(least, most, seconds, prefill))
            fleet = cls(engines[:least], scaling, engines[least:])
            fleet._owned.push(opened.pop_all())
        return fleet

    def close(self) -> None:
        """End all calls, the thread, and the engines of `load`. Idempotent."""
        with self._guard:
            self._end()
        self._release()

    def __enter__(self) -> FleetExecutor:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def generate(self, call: Call, sink: Callable[[Delta | Result], None]) -> Callable[[], None]:
        params = call.params
        if params.temperature and params.seed is None:
            # A repeated call samples the same tokens.
            call = replace(call, params=replace(params, seed=random.getrandbits(31)))
        return self._submit(FleetCall(call, sink))

    def score(self, call: ScoreCall, sink: Callable[[Scores], None]) -> Callable[[], None]:
        return self._submit(FleetCall(call, sink))

    def _submit(self, call: FleetCall) -> Callable[[], None]:
        self.log.home.check()
        with self._guard:
            self._check_open()
            self._commands.put(call)
        return partial(self._commands.put, partial(self._dispatcher.abort, call))

    def _check_open(self) -> None:
        if not self._end.alive:
            raise EngineError("the fleet is closed", "load it again")

    @property
    def tokenizer_id(self) -> str:
        return self._any.tokenizer_id

    @property
    def model_name(self) -> str:
        return self._any.model_name

    @property
    def modalities(self) -> frozenset[str]:
        return self._any.modalities

    @property
    def room(self) -> Room | None:
        """The limits of a worker."""
        return self._any.room

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        return self._any.encode(segments)

    def cached_length(self, tokens: Sequence[int]) -> int:
        """Return the largest number of leading `tokens` in the cache of a worker."""
        lengths = (executor.cached_length(tokens) for executor in self._running().values())
        return max(lengths, default=0)

    def why_waiting(self, run: str, branch: str) -> list[WaitingRequest]:
        """Return the waiting requests of a program on all engines."""
        self._check_open()
        return [row for each in self._all() for row in each.why_waiting(run, branch)]

    def flush_cache(self) -> int:
        self._check_open()
        return sum(executor.flush_cache() for executor in self._all())

    def server_info(self) -> dict[str, Any]:
        """Return the information of each worker, in order."""
        return {"workers": [executor.server_info() for executor in self._running().values()]}

    def stats(self) -> dict[int, dict[str, Any]]:
        """Return the counters of each running worker, as `Engine.stats`, by number."""
        return {number: executor.engine.stats() for number, executor in self._running().items()}

    @property
    def state(self) -> str:
        """The number of workers, with the bounds and the changes in progress."""
        return self._dispatcher.state if self._end.alive else "closed"

    @property
    def closed(self) -> bool:
        """True after `close`, and if no engine runs and none starts again."""
        return not (self._end.alive and (self._all() or self._dispatcher.tries_again))

    @property
    def any_engine(self) -> AnyEngine:
        """The engine of a running worker; of an ended one if all have ended."""
        return self._any.engine

    @property
    def _any(self) -> LocalExecutor:
        executors = self._open() or self._executors
        return executors[min(executors)]

    def _running(self) -> dict[int, LocalExecutor]:
        """Return the executors of running engines, by worker. Raises EngineError after `close`."""
        self._check_open()
        return self._open()

    def _open(self) -> dict[int, LocalExecutor]:
        """Return the executors of running engines, by worker."""
        executors = dict(self._executors)  # the fleet's thread adds workers
        return {w: executors[w] for w in sorted(executors) if not executors[w].engine.closed}

    def _all(self) -> list[LocalExecutor]:
        """Return the executors of running engines, also of engines that compute prompts."""
        return [*self._open().values(), *self._dispatcher.prefills.executors]

    def __repr__(self) -> str:
        return f"<FleetExecutor of {self.model_name}: {self.state}>"


def read_replicas(replicas: int | tuple[int, int], on: str) -> tuple[int, int]:
    """Return the minimum and the maximum number of workers. Raises OptionError for a number or a
    place that `FleetExecutor.load` does not allow."""
    bounds = replicas if isinstance(replicas, tuple) else (replicas, replicas)
    plain = len(bounds) == 2 and all(type(bound) is int for bound in bounds)
    if not plain or not 1 <= bounds[0] <= bounds[1] <= MAX_REPLICAS:
        hint = f"replicas is a number from 1 to {MAX_REPLICAS:,}, or a pair (minimum, maximum)"
        raise OptionError(f"replicas={shown(replicas)} is not allowed", hint)
    if not isinstance(on, str) or not (on in PLACES or re.fullmatch(r"ray://\S+", on)):
        hint = f"write on={' or '.join(map(repr, PLACES))}, or 'ray://HOST:PORT'"
        raise OptionError(f"on={shown(on)} is not allowed", hint)
    return bounds


def _check_prefill(prefill: int, on: str, scales: bool) -> None:
    right = isinstance(prefill, int) and 0 <= prefill <= MAX_REPLICAS
    if not right or isinstance(prefill, bool):
        hint = f"prefill must be an integer from 0 to {MAX_REPLICAS:,}"
        raise OptionError(f"prefill={shown(prefill)} is not allowed", hint)
    if prefill and on not in ("processes", "threads"):
        raise OptionError(
            f"prefill={prefill} is not allowed with on={shown(on)}",
            "prefixes move between engines of one machine: use on='processes'",
        )
    if prefill and scales:
        hint = "give replicas a single number"
        raise OptionError(f"prefill={prefill} needs a fixed number of workers", hint)


def _check_handover(engine: AnyEngine) -> None:
    """Raise OptionError if the engine cannot hand over cached prefixes."""
    reasons = {
        "the model has recurrent layers": engine.state_bytes,
        "several GPUs share the model": engine.options.tensor_parallel > 1,
        "prefix_cache is off": not engine.options.prefix_cache,
    }
    for reason, holds in reasons.items():
        if holds:
            message = f"{engine.model_name!r} cannot compute prompts for other engines: {reason}"
            raise OptionError(message, "load the fleet without prefill")


def _source(model: str, options: dict[str, Any], on: str, replicas: int) -> WorkerSource:
    """Return the source of the engines."""
    if on == "ray" or on.startswith("ray://"):
        from .ray_hosts import RayHosts

        return RayHosts(model, options, replicas, "" if on == "ray" else on)
    return LocalSource(model, options, on)


def _check_alike(executors: Sequence[LocalExecutor]) -> None:
    """Raise OptionError without executors, or if token ids have different meanings."""
    if not executors:
        raise OptionError("a fleet needs an engine, and the list is empty", "give engines")
    first, *others = executors
    for other in others:
        if other.tokenizer_id != first.tokenizer_id:
            raise OptionError(
                f"{other.model_name!r} and {first.model_name!r} have different tokenizers",
                "give engines of one model",
            )
