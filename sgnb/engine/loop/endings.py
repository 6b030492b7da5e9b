"""Errors and ends of requests that the engine stops."""

from __future__ import annotations

from ...errors import Aborted, EngineError, LostRankError, SgnbError
from ..device.faults import hint_for, is_device_lost
from ..request.request_state import Finish


def closed_error(failure: BaseException | None) -> EngineError:
    """Return the error for requests after the end of the engine."""
    if failure is None:
        return EngineError(
            "the engine is closed", "create a new Engine, or `%sglang load` the model again"
        )
    error = EngineError(
        f"the engine ended: {failure.message}"
        if isinstance(failure, LostRankError)
        else f"the engine ended on {type(failure).__name__}: {failure}",
        hint_for(failure)
        if is_device_lost(failure)
        else "`%sglang load` the model again, or create a new Engine",
    )
    error.__cause__ = failure
    return error


def failed(error: BaseException, what: str = "the request failed") -> Finish:
    """Return the end of a request stopped by `error`. The traceback of an error of the user, such
    as a refused schema, ends at the user's line: frames of the engine do not help."""
    if isinstance(error, SgnbError):
        if not isinstance(error, EngineError):
            error.__traceback__ = error.__cause__ = None
        return Finish("error", error=error)
    failure = EngineError(f"{what}: {type(error).__name__}: {error}", hint_for(error))
    failure.__cause__ = error
    return Finish("error", error=failure)


def aborted() -> Aborted:
    return Aborted(
        "the request was stopped before it finished",
        "the partial text and the cache are kept",
    )
