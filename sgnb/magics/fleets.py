"""Fleet of a session: several engines of a model as a backend. Imports torch on the first load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import OptionError
from ..lang.executor import Executor
from ..whole_import import import_whole
from .loaded_engine import check_idle
from .progress_line import load_line
from .table import Facts, Table, short

if TYPE_CHECKING:
    from ..backends.fleet.fleet_executor import FleetExecutor


class SessionFleet:
    """At most one loaded fleet. For the arguments see `Engines`."""

    def __init__(self, busy: Callable[[Executor], list[str]], say: Callable[[str], None]) -> None:
        self.executor: FleetExecutor | None = None
        self._busy, self._say = busy, say
        self._arguments: Any = None
        self._model = self._on = ""

    def load(
        self, model: str, replicas: int | tuple[int, int], on: str, options: dict[str, Any]
    ) -> FleetExecutor:
        """Load a fleet, or return the current fleet if the arguments are equal. Closes a fleet of
        other arguments."""
        if "shared" in options:
            hint = "leave out shared: replicas end with this kernel"
            raise OptionError("a shared engine has no replicas", hint)
        arguments, on = (model, replicas, on, options), on or "processes"
        executor = self.executor
        if executor is not None and self._arguments == arguments and not executor.closed:
            self._say(f"{model} is loaded already: {executor.state}")
            return executor

        with load_line(f"replicas of {Path(model).name}", self._say) as line:
            line.stage("importing torch and transformers")
            import_whole("sgnb.engine.engine")
            from ..backends.fleet.fleet_executor import FleetExecutor, read_replicas
            from ..engine.options import EngineOptions

            least, _ = read_replicas(replicas, on)
            EngineOptions.make(options)
            self.close(f"loading {model}")
            line.stage(f"starting {least} engine{'s' if least > 1 else ''}, {on}")
            self.executor = FleetExecutor.load(model, replicas=replicas, on=on, **options)
            self._model, self._arguments, self._on = model, arguments, on
            line.loaded(f"{self.executor.state}, {on}")
        return self.executor

    def rows(self, is_current: bool) -> list[dict[str, Any]]:
        """Return the row of the fleet for `Engines.ls`, if a fleet is loaded."""
        if self.executor is None:
            return []
        engine = self.executor.any_engine
        return [
            {
                "engine": "",
                "current": "*" if is_current else "",
                "model": self._model,
                "device": engine.device,
                "dtype": engine.dtype,
                "runs": len(self._busy(self.executor)),
                "host": "",
                "replicas": f"{self.executor.state}, {self._on}",
            }
        ]

    def close(self, purpose: str) -> None:
        """End the fleet. Idempotent.

        Raises:
            EngineError: Programs run on the fleet.
        """
        if self.executor is None:
            return
        check_idle("the fleet", self._busy(self.executor), purpose)
        executor, self.executor = self.executor, None  # an interrupt leaves no half-closed fleet
        executor.close()


WITHOUT_SUM = ("hit_rate", "state_bytes")


class FleetStats(Facts):
    """Sums of the counters of all running workers, shown with a column per worker.

    Attributes:
        workers: Counters of each worker as in `Engine.stats`, by number.
    """

    def __init__(self, workers: dict[int, dict[str, Any]]) -> None:
        self.workers = workers
        first = next(iter(workers.values()), {})
        super().__init__(
            (name, sum(counters[name] for counters in workers.values()))
            for name, value in first.items()
            if type(value) in (int, float) and name not in WITHOUT_SUM
        )
        if first:
            self["hit_rate"] = self["cached_tokens"] / max(self["prompt_tokens"], 1)

    def _table(self) -> Table:
        return Table(
            {"figure": name}
            | {f"worker {w}": short(counters[name]) for w, counters in self.workers.items()}
            | {"total": short(self.get(name, ""))}
            for name in next(iter(self.workers.values()), {})
        )
