"""Fleet of a session: several engines of a model as a backend. Imports torch on the first load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import OptionError
from ..lang.executor import Executor
from .loaded_engine import check_idle
from .progress_line import load_line

if TYPE_CHECKING:
    from ..backends.fleet.executor import FleetExecutor


class SessionFleet:
    """At most one loaded fleet. For the arguments see `Engines`."""

    def __init__(self, busy: Callable[[Executor], list[str]], say: Callable[[str], None]) -> None:
        self.executor: FleetExecutor | None = None
        self._busy, self._say = busy, say
        self._arguments: Any = None

    def load(self, model: str, replicas: int, on: str, options: dict[str, Any]) -> FleetExecutor:
        """Return the fleet of these arguments. Another fleet is closed first."""
        if "shared" in options:
            hint = "leave out shared: replicas end with this kernel"
            raise OptionError("a shared engine has no replicas", hint)
        arguments, on = (model, replicas, on, options), on or "processes"
        if self.executor is not None and self._arguments == arguments:
            self._say(f"{replicas} engines of {model} are loaded already")
            return self.executor

        with load_line(f"{replicas} × {Path(model).name}", self._say) as line:
            line.stage("importing torch and transformers")
            from ..backends.fleet.executor import FleetExecutor, check_replicas
            from ..engine.options import EngineOptions

            check_replicas(replicas, on)
            EngineOptions.make(options)
            self.close(f"loading {model}")
            line.stage(f"starting {replicas} engines, {on}")
            self.executor = FleetExecutor.load(model, replicas=replicas, on=on, **options)
            self._arguments = arguments
            line.loaded(f"{replicas} engine{'s' if replicas > 1 else ''}, {on}")
        return self.executor

    def close(self, purpose: str) -> None:
        """End the fleet. Idempotent.

        Raises:
            EngineError: Programs run on the fleet.
        """
        if self.executor is None:
            return
        check_idle("the fleet", self._busy(self.executor), purpose)
        self.executor.close()
        self.executor = None
