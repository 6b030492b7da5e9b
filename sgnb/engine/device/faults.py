"""Diagnosis of forward-pass errors: out of memory, or a GPU lost to this process."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import torch

from ...errors import LostRankError

OUT_OF_MEMORY_HINT = (
    "load the model with a smaller max_step_tokens, max_running_requests or memory_limit, "
    "to leave more working memory"
)
LARGE_MODEL_HINT = (
    'load a smaller model, or with dtype="bfloat16" if it was float32, or unload another engine: '
    "`%sglang engine unload NAME`"
)
DEVICE_LOST_HINT = (
    "restart the kernel: this process has lost the GPU's context with all loaded models"
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
"""Final text of every CUDA error message of torch."""


def _chain(error: BaseException, outer: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and the chain of causes, up to `outer`, an error already being handled."""
    seen = [outer]
    link: BaseException | None = error
    while link is not None and not any(link is one for one in seen):
        yield link
        seen.append(link)
        link = link.__cause__ or link.__context__


def forget_frames(error: BaseException, outer: BaseException | None = None) -> None:
    """Clear the frames of an error and its causes: a notebook retains the last error."""
    for link in _chain(error, outer):
        traceback.clear_frames(link.__traceback__)


def find_loss(error: BaseException, outer: BaseException | None = None) -> BaseException | None:
    """Return the error in the chain that reports a lost GPU; the error itself if memory ran out;
    otherwise None."""
    lost = next(filter(is_device_lost, _chain(error, outer)), None)
    return lost or (error if is_out_of_memory(error) else None)


def is_out_of_memory(error: BaseException) -> bool:
    """True if GPU or host memory ran out: a smaller step may succeed."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and _says(error, _OUT_OF_MEMORY)


def is_device_lost(error: BaseException) -> bool:
    """True if every further GPU call of this process will fail, or another rank is lost."""
    if isinstance(error, LostRankError):
        return True
    if is_out_of_memory(error) or not isinstance(error, RuntimeError):
        return False
    if "CUDA" not in str(error):
        return False
    return _says(error, _DEVICE_LOST) or not _answers()


def hint_for(error: BaseException) -> str:
    """Return the remedy for a forward-pass error."""
    if isinstance(error, LostRankError):
        return error.hint
    if is_out_of_memory(error):
        return OUT_OF_MEMORY_HINT
    if is_device_lost(error):
        return DEVICE_LOST_HINT
    return "the engine continues; other requests are not affected"


def _answers() -> bool:
    """True if the GPU still executes operations."""
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
