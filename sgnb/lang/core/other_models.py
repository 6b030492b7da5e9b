"""Calls of a run to models behind a `backend` argument, and events of the calls."""

from __future__ import annotations

import threading

from ...events import ModelAnswered, ModelAsked, model_letter
from ..executor import Executor, Result, Scores, instead_of, model_name
from .ops import Choose, Generate


class OtherModels:
    """Other models of a run, and the events of calls to these models."""

    def __init__(self, run: str, executor: Executor) -> None:
        self.backends: list[Executor] = []  # in order of the first call
        self._run, self._executor = run, executor
        self._lock = threading.Lock()

    def ask(self, branch: str, op: Generate | Choose, backend: Executor) -> Executor:
        """Emit the event of a call to `backend` and return the executor that answers."""
        with self._lock:
            if not any(backend is other for other in self.backends):
                self.backends.append(backend)
            number = self._number(backend)
        log = self._executor.log
        engine = log.join(backend.log)
        log.emit(ModelAsked(self._run, branch, op.name, number, model_name(backend), engine))
        return instead_of(self._executor, backend)

    def title(self, backend: Executor) -> str:
        """Return the letter of a backend in views, and the model's name."""
        return f"{model_letter(self._number(backend))} {model_name(backend)}"

    def _number(self, backend: Executor) -> int:
        return 1 + next(i for i, other in enumerate(self.backends) if other is backend)

    def answered(self, branch: str, message: Result | Scores) -> None:
        """Emit the event of the end of a call, with token counts."""
        meta = message.meta if isinstance(message, Result) else (message.meta,)
        names = "prompt_tokens", "cached_tokens", "completion_tokens"
        counts = (sum(int(info.get(name) or 0) for info in meta) for name in names)
        self._executor.log.emit(ModelAnswered(self._run, branch, *counts))
