"""`global_config`: SGLang's settings of the whole language, for programs that change them."""

from __future__ import annotations

from typing import Any

from ..errors import OptionError, nearest
from .location import caller, warn_once

_WITHOUT_EFFECT = {
    "verbosity": "print(state) shows a program's text",
    "spaces_between_special_tokens_in_out": "the tokenizer decides",
    "enable_precache_with_tracing": "programs that share a prefix compute it once as it is",
    "enable_parallel_encoding": "a join appends text",
}


class GlobalConfig:
    """`skip_special_tokens_in_output` holds for every later `gen`; the default backend is set with
    `set_default_backend`. The others change nothing, which is said when they are set."""

    def __init__(self) -> None:
        self.skip_special_tokens_in_output = True
        vars(self).update(
            verbosity=0,
            spaces_between_special_tokens_in_out=True,
            enable_precache_with_tracing=True,
            enable_parallel_encoding=True,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "default_backend":
            hint = "call sgnb.set_default_backend(...)"
            raise OptionError("global_config.default_backend cannot be set", hint)
        if name not in ("skip_special_tokens_in_output", *_WITHOUT_EFFECT):
            raise OptionError(f"global_config has no {name!r}", nearest(name, vars(self)))
        if name in _WITHOUT_EFFECT and value != getattr(self, name):
            why = _WITHOUT_EFFECT[name]
            warn_once(f"global_config.{name} = {value!r} has no effect: {why}", caller())
        super().__setattr__(name, value)


global_config = GlobalConfig()
