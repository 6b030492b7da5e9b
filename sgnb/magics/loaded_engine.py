"""An engine or executor of the session, with the emitter of its views."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import EngineError
from ..events import AutomatonDrawn
from ..lang.executor import Executor
from ..viz import Emitter
from .automaton_layout import drawing

if TYPE_CHECKING:
    from ..backends.any_engine import AnyEngine
    from ..backends.remote.lifetime import SharedEngine


class LoadedEngine:
    """Engine with executor and emitter. `options` are the options for a reload, or None for an
    adopted engine."""

    def __init__(
        self, name: str, engine: AnyEngine, model: str, options: dict[str, Any] | None
    ) -> None:
        from ..backends import executor_of

        self.name, self.engine, self.model, self.options = name, engine, model, options
        self.attention = engine.attention
        self.shared: SharedEngine | None = None  # clients of this engine, see `Engines.share`
        self.executor = executor_of(engine)
        self.emitter = Emitter(engine.log, partial(_drawing, weakref.ref(engine)))
        # weak reference, because views outlive engines
        self.act = partial(_act, weakref.ref(engine))

    def close(self) -> None:
        if self.shared is not None:
            self.shared.close()
        self.engine.close()
        self.executor.close()
        self.emitter.close()

    def summary(self) -> str:
        engine = self.engine
        context = f"context {engine.context_length:,} tokens"
        if engine.pool_tokens < engine.context_length:
            context += f", of which the KV pool holds {engine.pool_tokens:,}"
        return f"{self.model} on {engine.device}, {engine.dtype}, {context}"


def check_idle(name: str, runs: list[str], purpose: str) -> None:
    """Raise EngineError if `runs` use the engine or fleet `name`. purpose: reason for its end."""
    if runs:
        hint = f"wait for it, or cancel it first: %sglang cancel {runs[0]}"
        raise EngineError(f"{purpose}: {name} is in use by {', '.join(runs)}", hint)


def _drawing(engine: Callable[[], AnyEngine | None], number: int) -> AutomatonDrawn | None:
    """Return the drawing of an automaton for views. Views may outlive the engine."""
    loaded = engine()
    grammar = loaded.compiled_grammar(number) if loaded else None
    return drawing(grammar) if grammar else None


class RemoteBackend:
    """Backend without a local engine, such as a model behind an API."""

    act = None  # no local cache to pin or evict

    def __init__(self, executor: Executor) -> None:
        self.executor, self.emitter = executor, Emitter(executor.log)


def _act(engine: Callable[[], AnyEngine | None], action: str, node: int) -> str:
    """Execute a view's button: apply one of `viz.ACTIONS` to a cache node."""
    alive = engine()
    if alive is None:
        raise EngineError("the engine of this view is closed", "open a view of the loaded engine")
    if action == "pin":
        return f"{alive.pin(node, 'view'):,} tokens are kept, from the root to this node"
    if action == "unpin":
        return "not pinned any more" if alive.unpin(node) else "it was not pinned"
    return alive.evict(node).line()
