"""A device's memory: what a model's weights need, how large the KV pool may be, what to give back
at the end.

The pool is sized from what is free once the weights are there, not from the card: others may use it
too. Also knows which errors mean that memory ran out, and which that the GPU is lost to this
process.
"""

from __future__ import annotations

import gc
import threading
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from ..errors import ModelError, OptionError
from .attention.flashinfer_backend import most_gathered
from .attention.flashinfer_kernels import refusal
from .cache.kv_cache import KVCache
from .options import EngineOptions

GIB = 1 << 30
CPU_POOL_BYTES = 2 << 30
CPU_POOL_TOKENS = 1 << 16
GPU_SHARE = 0.9
"""Of what is free after the weights, where no limit is given. The rest is for fragments and for
other processes."""

GPU_POOL_TOKENS = 1 << 22
SMALL_POOL_TOKENS = 1024
"""An engine with fewer is refused, unless `max_total_tokens` asks for it."""

WORKSPACE_BYTES = 512 << 20
"""Scratch of the matrix library and of the attention kernels, partial results of split sequences,
graphs' own state."""

GRAMMAR_BYTES = 224 << 20
"""Tables and masks of grammars, once a request has one; beside them a byte for each row's logit."""

SAMPLED_ROWS = 256
SAMPLED_BYTES = 40
"""For each logit of so many rows while they are sampled with filters: values and indices in order,
their sums."""

OUT_OF_MEMORY_CURE = "load the model with a smaller max_step_tokens, max_running_requests or memory_limit, which leaves more for work"
DEVICE_LOST_CURE = (
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

_caches: weakref.WeakSet[KVCache] = weakref.WeakSet()
_frozen = threading.Event()


def weight_bytes(module: torch.nn.Module) -> int:
    """Memory of a module's parameters and buffers; what is tied counts once."""
    tensors = {t.data_ptr() or id(t): t for t in [*module.parameters(), *module.buffers()]}
    return sum(t.numel() * t.element_size() for t in tensors.values())


def check_weights_fit(
    name: str, needed: int, dtype: torch.dtype, device: torch.device, memory_limit: float | None
) -> None:
    """Raise ModelError when weights of `needed` bytes are more than the GPU has free, or than
    `memory_limit` GiB."""
    if device.type != "cuda":
        return
    free, kind = _free(device), str(dtype).removeprefix("torch.")
    limit = free if memory_limit is None else int(memory_limit * GIB)
    if needed <= min(free, limit):
        return
    room = (
        f"{_gib(free)} are free on {device}"
        if free <= limit
        else f"memory_limit is {memory_limit} GiB"
    )
    cure = "unload another engine (`%sglang engine unload NAME`), or load a smaller model"
    if dtype == torch.float32:
        cure += ', or load with dtype="bfloat16", which halves it'
    raise ModelError(f"the weights of {name!r} take {_gib(needed)} in {kind}, and {room}", cure)


def pool_tokens(decoder: Any, options: EngineOptions) -> int:
    """How many tokens the KV pool is to hold. `decoder`: a `Decoder`; `options`: those of its
    device, see `on`.

    On a GPU: what is free now times `GPU_SHARE`, or what `memory_limit` leaves beside the weights,
    less `work_bytes`. max_total_tokens takes its place, and is compared with it only where there is
    a `memory_limit`. Raises OptionError when that is less than a small pool, or less than the
    max_total_tokens that is compared.
    """
    each = KVCache.bytes_per_token(decoder.shapes, decoder.dtype)
    if decoder.device.type != "cuda":
        return options.max_total_tokens or max(1, min(CPU_POOL_TOKENS, CPU_POOL_BYTES // each))
    weights, work, free = (
        weight_bytes(decoder.model),
        work_bytes(decoder, options),
        _free(decoder.device),
    )
    if options.memory_limit is None:
        room = int(free * GPU_SHARE) - work
    else:
        room = min(int(options.memory_limit * GIB) - weights, free) - work
    tokens = room // each
    if options.max_total_tokens is not None and (
        options.memory_limit is None or options.max_total_tokens <= tokens
    ):
        return options.max_total_tokens
    wanted = options.max_total_tokens or SMALL_POOL_TOKENS
    if tokens < wanted:
        limit = (
            "" if options.memory_limit is None else f", memory_limit is {options.memory_limit} GiB"
        )
        raise OptionError(
            f"a KV pool of {wanted:,} tokens ({_gib(wanted * each)}) does not fit in the memory: beside the weights "
            f"({_gib(weights)}), {_gib(free)} are free on {decoder.device}{limit}, and a step of "
            f"{options.max_step_tokens:,} tokens for {options.max_running_requests:,} requests works on {_gib(work)}",
            "load with a smaller max_step_tokens, max_running_requests or max_total_tokens"
            + (
                ", or a larger memory_limit"
                if limit
                else ", or unload another engine: `%sglang engine unload NAME`"
            ),
        )
    return min(GPU_POOL_TOKENS, tokens)


def make_cache(decoder: Any, options: EngineOptions) -> KVCache:
    """The KV tensors, of `pool_tokens`. Raises OptionError when they do not fit."""
    tokens = pool_tokens(decoder, options)
    try:
        cache = KVCache(decoder.shapes, tokens, decoder.dtype, decoder.device)
    except (RuntimeError, MemoryError) as error:
        size = tokens * KVCache.bytes_per_token(decoder.shapes, decoder.dtype)
        raise OptionError(
            f"a KV pool of {tokens} tokens ({_gib(size)}) does not fit in the memory",
            "load with a smaller max_total_tokens",
        ) from error
    _caches.add(cache)
    return cache


def work_bytes(decoder: Any, options: EngineOptions) -> int:
    """What the largest step needs beside weights and pool, and what the graphs of decode steps keep
    for themselves."""
    tokens, rows = options.max_step_tokens or 1, options.max_running_requests or 1
    work = activation_bytes(decoder, tokens) + logit_bytes(decoder, rows) + WORKSPACE_BYTES
    work += GRAMMAR_BYTES + rows * decoder.vocab_size
    if options.attention in ("auto", "flashinfer") and not options.deterministic:
        work += gathered_bytes(decoder, tokens)
    if options.cuda_graphs:
        kept = rows * decoder.vocab_size * decoder.dtype.itemsize
        work += graph_bytes(decoder, rows) + kept
    return work


def activation_bytes(decoder: Any, tokens: int) -> int:
    """The most that the activations of one forward pass over so many tokens take at once.

    Nothing is kept for a backward pass, so it is one layer's: the stream of hidden states (before,
    normed, after) and the larger of attention (queries and keys before, during and after rotation,
    values, output), of the feed-forward (gate, its activation, up, product; with experts for each
    that a token is sent to, with its input and output), and of a norm in float32.
    """
    config, size = decoder.model.config.get_text_config(), decoder.dtype.itemsize
    hidden = _number(config, "hidden_size", "n_embd", "d_model")
    inner = _number(config, "intermediate_size", "ffn_dim", "n_inner") or 4 * hidden
    heads = _number(config, "num_attention_heads", "n_head")
    key = max((shape.key_dim for shape in decoder.shapes.values()), default=0)
    pool_row = _pool_row(decoder)
    experts = _number(config, "num_experts_per_tok", "num_experts_per_token", "top_k_experts")
    expert_inner = _number(config, "moe_intermediate_size") or inner
    attention = (5 * heads * key + 3 * pool_row) * size
    feed_forward = max(4 * inner, experts * (3 * hidden + 3 * expert_inner)) * size
    norm = hidden * (2 * 4 + size)
    return tokens * (3 * hidden * size + max(attention, feed_forward, norm))


def graph_bytes(decoder: Any, rows: int) -> int:
    """What a decode step of so many rows works on."""
    return activation_bytes(decoder, rows) + logit_bytes(decoder, rows, sampled=False)


def gathered_bytes(decoder: Any, tokens: int) -> int:
    """Keys and values that are brought together for FlashInfer in a step of so many tokens."""
    if refusal(decoder.shapes.values(), decoder.dtype, decoder.device) is not None:
        return 0
    size: int = most_gathered(decoder.device) * tokens * _pool_row(decoder) * decoder.dtype.itemsize
    return size


def _pool_row(decoder: Any) -> int:
    """The most numbers that one layer keeps for a token."""
    return max(
        (shape.heads * (shape.key_dim + shape.value_dim) for shape in decoder.shapes.values()),
        default=0,
    )


def logit_bytes(decoder: Any, rows: int, sampled: bool = True) -> int:
    """Logits as the model gives them, in float32, and their logarithms; sampling works on
    `SAMPLED_ROWS` at a time."""
    row: int = decoder.vocab_size * (decoder.dtype.itemsize + 4 + 4)
    return rows * row + (
        min(rows, SAMPLED_ROWS) * decoder.vocab_size * SAMPLED_BYTES if sampled else 0
    )


def freeze_heap() -> None:
    """Keep Python's garbage collector from looking at all that there is now, until
    `release_device_memory`.

    A full collection visits all that transformers and torch have made, for 0.2 s, while the GPU
    waits.
    """
    gc.collect()
    gc.freeze()
    _frozen.set()


def release_device_memory() -> None:
    """Give back what is not in use. For the end of an engine, after it let go of model, pool,
    graphs and workspaces.

    The matrix library keeps a workspace for each stream, which graphs point into: they go with the
    last engine only.
    """
    if _frozen.is_set():
        _frozen.clear()
        gc.unfreeze()
    gc.collect()
    if not torch.cuda.is_initialized():
        return
    try:
        if not _caches:
            torch.cuda.synchronize()
            torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        if empty_host_cache := getattr(
            torch.accelerator, "empty_host_cache", None
        ):  # of newer torch: pinned buffers
            empty_host_cache()
    except RuntimeError as error:
        if not is_device_lost(error):
            raise


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


def cure(error: BaseException) -> str:
    """What to do about an error of a forward pass."""
    if is_out_of_memory(error):
        return OUT_OF_MEMORY_CURE
    if is_device_lost(error):
        return DEVICE_LOST_CURE
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


def _number(config: Any, *names: str) -> int:
    """The first of these settings that the config has, or 0; the largest where it has one for each
    layer."""
    for name in names:
        value = getattr(config, name, None)
        if value:
            return int(max(value) if isinstance(value, (list, tuple)) else value)
    return 0


def _free(device: torch.device) -> int:
    """Bytes that can be allocated on a GPU now."""
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    return int(free)


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
