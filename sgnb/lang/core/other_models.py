"""The models that a run asks beside its own, and what its log is told of the calls to them."""

from __future__ import annotations

import threading

from ...events import ModelAnswered, ModelAsked, model_letter
from ..executor import Executor, Result, Scores, instead_of, model_name
from .ops import Choose, Generate


class OtherModels:
    """Of a run on `executor`."""

    def __init__(self, run: str, executor: Executor) -> None:
        self.backends: list[Executor] = []  # in the order in which they were asked first
        self._run, self._executor = run, executor
        self._lock = threading.Lock()

    def ask(self, branch: str, op: Generate | Choose, backend: Executor) -> Executor:
        """Who answers a call to `backend`. Whoever follows the run is told that it is made."""
        with self._lock:
            if not any(backend is known for known in self.backends):
                self.backends.append(backend)
            number = self._number(backend)
        log = self._executor.log
        engine = log.join(backend.log)
        log.emit(ModelAsked(self._run, branch, op.name, number, model_name(backend), engine))
        return instead_of(self._executor, backend)

    def title(self, backend: Executor) -> str:
        """A backend's letter in views, and its model's name."""
        return f"{model_letter(self._number(backend))} {model_name(backend)}"

    def _number(self, backend: Executor) -> int:
        return 1 + next(i for i, one in enumerate(self.backends) if one is backend)

    def answered(self, branch: str, message: Result | Scores) -> None:
        """Tell that the call is over, and what it took."""
        meta = message.meta if isinstance(message, Result) else (message.meta,)
        names = "prompt_tokens", "cached_tokens", "completion_tokens"
        counts = (sum(int(one.get(name) or 0) for one in meta) for name in names)
        self._executor.log.emit(ModelAnswered(self._run, branch, *counts))
