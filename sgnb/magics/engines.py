"""Registry of loaded engines by name, with a current engine: `%sglang load`, `%sglang engine`,
`sgnb.engines`.

Knows running programs only through a callback. Imports torch on the first load.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import lang
from ..errors import OptionError, nearest
from ..lang.executor import Executor
from ..sampling import read_option, text
from ..sampling import switch as read_switch
from ..whole_import import import_whole
from .engine_hosts import (
    OBJECTS,
    host_of,
    open_engine,
    refuse_objects,
    share_engine,
    unattached_rows,
)
from .fleets import SessionFleet
from .loaded_engine import LoadedEngine, RemoteBackend, check_idle
from .progress_line import load_line
from .table import Facts, Table, with_equal_columns

if TYPE_CHECKING:
    from ..backends.any_engine import AnyEngine
    from ..backends.fleet.fleet_executor import FleetExecutor
    from ..backends.serve.server import EngineServer

BUNDLED = "tiny"


class Engines:
    """Loaded engines by name. The current backend is a loaded engine, or an executor of another
    kind."""

    def __init__(self, busy: Callable[[Executor], list[str]], say: Callable[[str], None]) -> None:
        """Create an empty registry.

        Args:
            busy: Returns the ids of an executor's runs; busy engines are not closed or replaced.
            say: Prints a line for the user.
        """
        self._busy, self._say = busy, say
        self._loaded: dict[str, LoadedEngine] = {}
        self._current = ""
        self._remote: RemoteBackend | None = None  # current backend instead of an engine
        self._fleet = SessionFleet(busy, say)

    def load(
        self,
        model: str = BUNDLED,
        name: str = "",
        *,
        shared: bool = False,
        replicas: int | tuple[int, int] = 1,
        on: str = "",
        **options: Any,
    ) -> AnyEngine | FleetExecutor:
        """Load a model and make the engine current.

        The same model with equal options is not loaded again. An existing engine with the same name
        is closed first. After a failed load, the next use reloads the old engine.

        Args:
            model: Folder, hub id, or "tiny" for the bundled model.
            name: Name of the engine; by default the last part of the path.
            shared: Load the model in a process of its own, which other notebooks attach to and
                which survives a restart of this kernel; a running process with the same model and
                options is used.
            replicas: Number of engines of the model, or minimum and maximum, such as (1, 4). More
                than one engine make a fleet.
            on: See `FleetExecutor.load`.
            options: Engine options.

        Returns:
            The engine, or the executor of the fleet.

        Raises:
            OptionError: `model` is no path or hub id, or an option is invalid.
        """
        if not isinstance(model, (str, Path)):
            hint = (
                "for a model that is loaded already: sgnb.set_default_backend(sgnb.Engine(model))"
            )
            raise OptionError(f"a {type(model).__name__} is neither a path nor a hub id", hint)
        model, name = str(model), _name(name)
        name = name or Path(model).name
        if read_option("shared", shared, "True or False", read_switch):
            options = {"shared": True, **options}
        is_fleet = bool(on) or replicas != 1 or isinstance(replicas, bool)
        if is_fleet or "shared" in options:
            refuse_objects(options)
        if is_fleet:
            fleet = self._fleet.load(model, replicas, on, options)
            self.adopt_remote(fleet)
            return fleet

        old = self._loaded.get(name)
        if old and not old.engine.closed and (old.model, old.options) == (model, options):
            self._say(f"{name} is loaded already: {old.summary()}")
            self._choose(old)
            return old.engine
        if old:
            _check(options)
            self._replace(old, f"loading {model} as {name}")

        with load_line(name, self._say) as line:
            engine = open_engine(model, options, line)
            try:
                loaded = LoadedEngine(name, engine, model, options)
            except BaseException:
                engine.close()
                raise
            self._loaded[name] = loaded
            self._choose(loaded)
            line.loaded(loaded.summary())
        return loaded.engine

    def adopt(self, engine: AnyEngine) -> None:
        """Make an existing engine current, under the name of the model.

        An earlier engine on the same transformers model is closed first, for example after
        re-running a cell.

        Args:
            engine: Engine created outside the registry.
        """
        for loaded in list(self._loaded.values()):
            if loaded.engine is engine:
                return self._choose(loaded)
            if engine.model is not None and loaded.engine.model is engine.model:
                self._replace(loaded, f"replacing {loaded.name}")
                self._forget(loaded)
        base = Path(engine.model_name).name
        names = itertools.chain([base], (f"{base}-{i}" for i in itertools.count(2)))
        name = next(name for name in names if name not in self._loaded)
        self._loaded[name] = LoadedEngine(name, engine, engine.model_name, None)
        self._choose(self._loaded[name])

    def adopt_remote(self, executor: Executor) -> None:
        """Make an executor without a local engine the current backend, until the user selects an
        engine.

        Args:
            executor: Executor to use.
        """
        if self._remote is None or self._remote.executor is not executor:
            self._remote = RemoteBackend(executor)
        lang.set_default_executor(executor)

    def backend(self, name: str = "") -> LoadedEngine | RemoteBackend:
        """Return the engine called `name`, or the current backend."""
        return self._remote if self._remote is not None and not name else self.get(name)

    @property
    def fleet(self) -> FleetExecutor | None:
        """The current backend if it is the fleet of `load(replicas=)`."""
        fleet = self._fleet.executor
        return fleet if self._remote is not None and self._remote.executor is fleet else None

    def any_engine(self, name: str = "") -> AnyEngine:
        """Return the engine called `name`, the current engine, or the engine of a worker of the
        current fleet."""
        if self.fleet is not None and not name:
            return self.fleet.any_engine
        return self.get(name).engine

    @property
    def loaded(self) -> LoadedEngine | None:
        """The current engine; None before the first load. Loads nothing."""
        return self._loaded.get(self._current)

    def get(self, name: str = "") -> LoadedEngine:
        """Return the engine called `name`, or the current engine, ready to run.

        Loads the bundled model on first use and reloads a stopped engine.

        Args:
            name: Name of a loaded engine, or "".

        Raises:
            OptionError: No engine has the name.
        """
        if self._remote is not None and not name:
            message = (
                f"the current backend, {self._remote.executor!r}, is not an engine in this process"
            )
            raise OptionError(message, "load an engine: %sglang load tiny, or sgnb.load('tiny')")

        wanted = name or self._current or BUNDLED
        if wanted == BUNDLED and BUNDLED not in self._loaded:
            self.load(BUNDLED)
        loaded = self._find(wanted)
        if not loaded.engine.closed:
            if loaded.attention != loaded.engine.attention:
                loaded.attention = loaded.engine.attention
                now = f"attention by {loaded.attention} from now on"
                self._say(f"{wanted}: {now}, compiled in the background")
            return loaded

        if loaded.options is None:
            self._close(loaded, f"forgetting {wanted}")
            self._say(f"{wanted} was closed")
            return self.get(name)
        self._say(f"{wanted} had ended and is loaded again, with an empty cache")
        self.load(loaded.model, wanted, **loaded.options)
        return self._loaded[wanted]

    def attach(self, name: str = "", token: str = "") -> AnyEngine:
        """Connect to an engine that another process shares, and make the engine current.

        Args:
            name: Name of the host, see `%sglang engine ls`; or "tcp://HOST:PORT". "" is the only
                running host.
            token: Secret of a TCP host.

        Returns:
            The engine.

        Raises:
            OptionError: No host has the name.
            EngineError: The host cannot be reached, or refuses the token.
        """
        name, token = _name(name), read_option("token", token, "a text", text)
        import_whole("sgnb.engine.engine")
        from ..backends.remote.lifetime import attach
        from ..backends.remote.registry import choose, read_options

        host = name if name.startswith("tcp://") else choose(name).name
        for loaded in list(self._loaded.values()):
            if host_of(loaded) == host and not loaded.engine.closed:
                self._say(f"{loaded.name} is attached already: {loaded.summary()}")
                self._choose(loaded)
                return loaded.engine
        engine = attach(host, token)
        # A lost host of this user is started again by the next cell.
        options = None if name.startswith("tcp://") else read_options(host)
        self._loaded[host] = LoadedEngine(host, engine, engine.model_name, options)
        self._choose(self._loaded[host])
        self._say(f"attached to {host}: {self._loaded[host].summary()}")
        return engine

    def share(self, name: str = "") -> str:
        """Let other notebooks of this user attach to an engine of this process.

        The engine ends with this kernel; `load(..., shared=True)` starts a process that survives
        the kernel.

        Args:
            name: Name of the engine; by default the current engine.

        Returns:
            The name for `attach`.
        """
        loaded = self.get(name)
        host = share_engine(loaded)
        self._say(f"another notebook attaches with: %sglang attach {host}")
        return host

    def serve(self, name: str = "", port: int = 0, token: str = "") -> EngineServer:
        """Serve an engine to other programs on loopback: OpenAI's completions and chat, and
        SGLang's `/generate`. Needs the extra `serve`.

        Args:
            name: Name of the engine; by default the current engine.
            port: Port on 127.0.0.1; 0 for any free port.
            token: Secret of the clients (`api_key`); by default random.

        Returns:
            The server, with `url`, `token` and `close`. The server ends with the engine's kernel.

        Raises:
            OptionError: The extra is not installed, the port is invalid or in use, or the token
                does not fit a header.
        """
        from ..backends.serve.server import EngineServer

        server = EngineServer(self.get(name).engine, port, token)
        self._say(f"serving {server.url}/v1 with api_key={server.token}; close() ends it")
        return server

    def use(self, name: str) -> None:
        """Make the loaded engine `name` the default for programs."""
        self._choose(self._find(name))

    def unload(self, name: str = "") -> None:
        """Close the engine `name`, or the current engine or fleet, and free the memory."""
        if not name and self.fleet is not None:
            self._fleet.close("unloading the fleet")
            self._remote = None
            return self._choose_current()
        loaded = self._find(name or self._current)
        self._close(loaded, f"unloading {loaded.name}")

    def ls(self) -> Table:
        """Return a table of the loaded engines, and of the hosts to attach to. "runs" is "ended"
        for a closed engine, and for an engine of an ended host."""
        rows = (
            {
                "engine": name,
                "current": "*" if name == self._current and self._remote is None else "",
                "model": loaded.model,
                "device": loaded.engine.device,
                "dtype": loaded.engine.dtype,
                "runs": "ended" if loaded.engine.closed else len(self._busy(loaded.executor)),
                "host": host_of(loaded),
            }
            for name, loaded in self._loaded.items()
        )
        fleet = self._fleet.rows(self.fleet is not None)
        others = unattached_rows({host_of(loaded) for loaded in self._loaded.values()})
        empty = "no engine is loaded; the first program loads tiny, or: %sglang load PATH_OR_ID"
        return with_equal_columns([*rows, *fleet, *others], empty)

    def info(self, name: str = "") -> Facts:
        """Return model, limits and counters of the engine `name`, or the current engine."""
        loaded = self._find(name or self._current)
        engine = loaded.engine
        names = ("device", "dtype", "context_length", "token_bytes")
        facts = {name: getattr(engine, name) for name in names}
        return Facts(engine=loaded.name, model=loaded.model, **facts, **engine.stats())

    def names(self) -> list[str]:
        """Return the names of the loaded engines."""
        return list(self._loaded)

    def name_of(self, executor: Executor) -> str:
        """Return the name of an executor's engine, or the name of the executor's class."""
        names = (
            name for name, loaded in self._loaded.items() if loaded.executor.log is executor.log
        )
        return next(names, type(executor).__name__)

    def __repr__(self) -> str:
        return repr(self.ls())

    def _find(self, name: str) -> LoadedEngine:
        name = _name(name)
        if not name:
            raise OptionError("no engine is loaded", "%sglang load tiny, or sgnb.load('tiny')")
        if name not in self._loaded:
            hint = nearest(name, self._loaded) if self._loaded else "none is loaded"
            hint = f"{hint}; to load it: %sglang load {name}"
            raise OptionError(f"no engine is called {name!r}", hint)
        return self._loaded[name]

    def _choose(self, loaded: LoadedEngine) -> None:
        self._current, self._remote = loaded.name, None
        lang.set_default_executor(loaded.executor)

    def _stop(self, loaded: LoadedEngine, purpose: str) -> None:
        check_idle(loaded.name, self._busy(loaded.executor), purpose)
        loaded.close()

    def _replace(self, loaded: LoadedEngine, purpose: str) -> None:
        """Close an engine before a replacement, and print the consequences."""
        cached = 0 if loaded.engine.closed else loaded.engine.stats()["cached"]
        self._stop(loaded, purpose)
        if cached:
            self._say(f"{purpose} closes the engine before it, and its {cached:,} cached tokens")

    def _close(self, loaded: LoadedEngine, purpose: str) -> None:
        self._stop(loaded, purpose)
        self._forget(loaded)

    def _forget(self, loaded: LoadedEngine) -> None:
        """Remove the engine, also as the language's default backend, because programs must not use
        a closed engine."""
        del self._loaded[loaded.name]
        if self._current == loaded.name:
            self._current = next(reversed(self._loaded), "")
            self._choose_current()

    def _choose_current(self) -> None:
        current = self._loaded.get(self._current)
        lang.set_default_executor(current.executor if current else None)


def _name(value: Any) -> str:
    return read_option("name", value, "the name of an engine", text)


def _check(options: dict[str, Any]) -> None:
    """Raise the errors of invalid engine options, as far as detectable without the model."""
    from ..engine.assembly import check_options
    from ..engine.options import EngineOptions

    others = OBJECTS | {"shared"}
    fields = {name: value for name, value in options.items() if name not in others}
    check_options(EngineOptions.make(fields), options.get("tokenizer"))
