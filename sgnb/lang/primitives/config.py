"""`global_config`: global settings with the names of SGLang."""

from __future__ import annotations

from typing import Any

from ...errors import OptionError, nearest
from ..executor import Executor, executor_of
from ..location import caller, warn_once

_WITHOUT_EFFECT = {
    "verbosity": "print(state) shows a program's text",
    "spaces_between_special_tokens_in_out": "the tokenizer decides",
    "enable_precache_with_tracing": "programs that share a prefix compute it once as it is",
    "enable_parallel_encoding": "a join appends text",
}


class GlobalConfig:
    """Global settings of the language.

    `default_backend` is the engine or executor of programs without a backend.
    `skip_special_tokens_in_output` applies to every later `gen`. Other settings exist for
    compatibility with SGLang and have no effect; setting a different value warns.
    """

    default_backend: Any
    skip_special_tokens_in_output: bool

    def __init__(self) -> None:
        vars(self).update(
            default_backend=None,
            skip_special_tokens_in_output=True,
            verbosity=0,
            spaces_between_special_tokens_in_out=True,
            enable_precache_with_tracing=True,
            enable_parallel_encoding=True,
        )

    @property
    def global_config(self) -> GlobalConfig:
        """The settings, for `from sgnb.global_config import global_config`."""
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in vars(self):
            raise OptionError(f"global_config has no {name!r}", nearest(name, vars(self)))
        if name in _WITHOUT_EFFECT and value != vars(self)[name]:
            why = _WITHOUT_EFFECT[name]
            warn_once(f"global_config.{name} = {value!r} has no effect: {why}", caller())
        super().__setattr__(name, value)


global_config = GlobalConfig()


def set_default_executor(executor: Any) -> None:
    """Set the backend of programs without a `backend` argument.

    Args:
        executor: Engine or executor; None removes the default.
    """
    global_config.default_backend = executor


def executor_for(backend: Any) -> Executor:
    """Return the executor of `backend`, or of the default backend if None.

    Raises:
        OptionError: There is no default backend, or `backend` cannot run programs.
    """
    chosen = global_config.default_backend if backend is None else backend
    if chosen is None:
        hint = "load a model, or call sgnb.set_default_backend(...)"
        raise OptionError("there is nothing to run programs on", hint)
    return executor_of(chosen)
