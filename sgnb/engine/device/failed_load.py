"""Release of device memory after a failed load."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from ...errors import ModelError, first_line
from .faults import find_loss, forget_frames, hint_for
from .memory import release_device_memory


@contextlib.contextmanager
def cleaned_up_load(name: str) -> Iterator[None]:
    """Release the device memory of a failed load. Raises ModelError if memory ran out or the
    GPU is lost. name: for messages."""
    outer = sys.exc_info()[1]
    try:
        yield
    except BaseException as error:
        forget_frames(error, outer)
        release_device_memory()
        loss = find_loss(error, outer)
        if loss is None:
            raise
        message = f"{name!r} cannot be loaded: {first_line(loss)}"
        raise ModelError(message, hint_for(loss)) from error
