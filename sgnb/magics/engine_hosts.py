"""Opening of engines in this process or in a host process, and sharing between notebooks. Imports
torch on the first load."""

from __future__ import annotations

import sys
from collections.abc import Collection, Set
from typing import TYPE_CHECKING, Any

from ..errors import OptionError
from ..whole_import import import_whole
from .progress_line import LoadLine

if TYPE_CHECKING:
    from ..backends.any_engine import AnyEngine
    from .loaded_engine import LoadedEngine

OBJECTS = frozenset({"tokenizer", "processor"})
"""Options of `Engine` with Python objects, which other processes cannot receive."""


def open_engine(model: str, options: dict[str, Any], line: LoadLine) -> AnyEngine:
    """Load a model as the options say, with stages on `line`."""
    line.stage("importing torch and transformers" if "torch" not in sys.modules else "beginning")
    import_whole("sgnb.engine.engine")
    if "shared" in options:
        from ..backends.remote.lifetime import open_shared

        engine_options = {name: value for name, value in options.items() if name != "shared"}
        return open_shared(model, engine_options, line.stage)

    from ..engine import Engine
    from ..engine.device.load_stages import announced_to

    with announced_to(line.stage):
        return Engine(model, **options)


def refuse_objects(options: Collection[str]) -> None:
    """Raise OptionError for the names in `OBJECTS`, for a shared engine or a fleet."""
    for name in sorted(OBJECTS.intersection(options)):
        raise OptionError(
            f"{name}= needs an engine in this process",
            f"leave out shared, replicas and on, or save the {name} in the model's folder",
        )


def is_engine(backend: Any) -> bool:
    """Return whether `backend` is an engine, in this process or in a host process."""
    kinds = {"sgnb.engine.engine": "Engine", "sgnb.backends.remote.remote_engine": "RemoteEngine"}
    return any(
        module in sys.modules and isinstance(backend, getattr(sys.modules[module], kind))
        for module, kind in kinds.items()
    )


def host_of(loaded: LoadedEngine) -> str:
    """Return the name of a `LoadedEngine` for `attach`; "" for an engine that is not shared."""
    if loaded.shared is not None:
        return loaded.shared.record.name
    return str(getattr(loaded.engine, "host_name", ""))


def share_engine(loaded: LoadedEngine) -> str:
    """Let other processes attach to a `LoadedEngine`. Returns the name for `attach`."""
    host = host_of(loaded)
    if host:
        return host
    if loaded.engine.model is not None or OBJECTS.intersection(loaded.options or ()):
        raise OptionError(
            f"{loaded.name} has a model, a tokenizer or a processor from this process",
            "load a folder or a hub id: other notebooks read the tokenizer there",
        )
    from ..backends.remote.lifetime import SharedEngine

    loaded.shared = SharedEngine(loaded.engine, loaded.options or {})
    return host_of(loaded)


def unattached_rows(attached: Set[str]) -> list[dict[str, Any]]:
    """Return a row of `Engines.ls` per running host of this user without a connection."""
    from ..backends.remote.registry import find_hosts

    empty = dict.fromkeys(("engine", "current", "model", "device", "dtype", "runs", "host"), "")
    return [
        empty | {"model": record.model, "host": record.name}
        for record in find_hosts()
        if record.name not in attached
    ]
