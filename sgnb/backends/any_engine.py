"""Type of the engines below `LocalExecutor`: in this process, or in a host process."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from .remote.remote_engine import RemoteEngine

AnyEngine: TypeAlias = "Engine | RemoteEngine"
