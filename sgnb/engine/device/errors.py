"""What an error of a forward pass means: memory ran out, or the GPU is lost to this process."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import torch

OUT_OF_MEMORY_HINT = (
    "load the model with a smaller max_step_tokens, max_running_requests or memory_limit, "
    "which leaves more for work"
)
LARGE_MODEL_HINT = (
    'load a smaller model, or with dtype="bfloat16" if it was float32, or unload another engine: '
    "`%sglang engine unload NAME`"
)
DEVICE_LOST_HINT = (
    "restart the kernel: the GPU's context is lost to this process, and with it all that was loaded"
)

_OUT_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)
_DEVICE_LOST = (
    "illegal memory access",
    "illegal address",
    "illegal instruction",
    "misaligned address",
    "device-side assert",
    "unspecified launch failure",
    "hardware stack error",
    "invalid program counter",
    "uncorrectable ECC",
    "launch timed out",
    "unknown error",
)
_ADVICE = "to enable device-side assertions"
"""Torch ends the message of every error of CUDA so."""


def _chain(error: BaseException, outer: BaseException | None) -> Iterator[BaseException]:
    """The error, the one that it came from, and so on; up to `outer`, which was being handled
    before."""
    seen = [outer]
    link: BaseException | None = error
    while link is not None and not any(link is one for one in seen):
        yield link
        seen.append(link)
        link = link.__cause__ or link.__context__


def forget_frames(error: BaseException, outer: BaseException | None = None) -> None:
    """Let go of what the frames of an error hold, and of those that it came from: a notebook keeps
    the last error."""
    for link in _chain(error, outer):
        traceback.clear_frames(link.__traceback__)


def find_loss(error: BaseException, outer: BaseException | None = None) -> BaseException | None:
    """The error, or the one that it came from, if it says that the GPU is lost; the error, if
    memory ran out."""
    lost = next(filter(is_device_lost, _chain(error, outer)), None)
    return lost or (error if is_out_of_memory(error) else None)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on the GPU or on the host: a smaller step may do."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and _says(error, _OUT_OF_MEMORY)


def is_device_lost(error: BaseException) -> bool:
    """Whether the error is one after which every call to the GPU fails until the process ends."""
    if is_out_of_memory(error) or not isinstance(error, RuntimeError):
        return False
    if "CUDA" not in str(error):
        return False
    return _says(error, _DEVICE_LOST) or not _answers()


def hint_for(error: BaseException) -> str:
    """What to do about an error of a forward pass."""
    if is_out_of_memory(error):
        return OUT_OF_MEMORY_HINT
    if is_device_lost(error):
        return DEVICE_LOST_HINT
    return "the engine goes on; other requests are not affected"


def _answers() -> bool:
    """Whether the GPU still does what it is told."""
    if not torch.cuda.is_initialized():
        return True
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


def _says(error: BaseException, words: tuple[str, ...]) -> bool:
    text = str(error).lower().replace(_ADVICE, "")
    return any(word.lower() in text for word in words)
