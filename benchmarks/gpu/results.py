"""Measured values in a JSON file, saved after each value, also before an interrupt."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class Results:
    """Figures of one model, by system and workload:
    {"sgnb": {"version": ..., "model": ..., "results": {"chat": {"figure": ...}}}}.

    path: rewritten after each figure; None for nowhere.
    model: the shape's name; None where none was chosen.
    """

    def __init__(self, path: str | Path | None = None, model: str | None = None) -> None:
        self.path = Path(path) if path else None
        self.model = model
        self.systems: dict[str, dict[str, Any]] = {}

    def add(self, system: str, version: str, workload: str, result: dict[str, Any]) -> None:
        empty = {"version": version, "model": self.model, "results": {}}
        entry = self.systems.setdefault(system, empty)
        entry["version"] = version
        entry["results"][workload] = result
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(self.systems, indent=1), encoding="utf-8")

    def read(self, paths: Iterable[str | Path]) -> None:
        """Add the values of other files; equal keys take the new value. Raises ValueError for a
        file of another model."""
        for path in paths:
            for system, entry in json.loads(Path(path).read_text(encoding="utf-8")).items():
                if (model := entry.get("model")) != self.model:
                    raise ValueError(
                        f"{path} has figures of the model {model}, not of {self.model}"
                    )
                for workload, result in entry["results"].items():
                    self.add(system, entry["version"], workload, result)

    def figure(self, system: str, workload: str) -> float | None:
        """The figure, where it was measured."""
        return self.value(system, workload, "figure")

    def value(self, system: str, workload: str, name: str) -> float | None:
        """What else a result has, by its name."""
        result = self.systems.get(system, {}).get("results", {}).get(workload, {})
        value: float | None = result.get(name)
        return value
