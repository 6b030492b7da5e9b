"""Size of the KV cache, and memory needs of weights and steps.

Based on the free memory after loading the weights: other processes may share the GPU.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from ..errors import OptionError, SgnbWarning, printable
from .attention.flashinfer_backend import most_gathered
from .attention.flashinfer_kernels import refusal
from .cache.checkpoints import FEWEST_STATES, LAST_STATES_REWRITTEN
from .cache.kv_cache import KVCache
from .cache.state_pool import StatePool, bytes_per_state
from .device.faults import LARGE_MODEL_HINT
from .device.memory import GIB, free_bytes, free_host_bytes, gib, pools, weight_bytes
from .options import EngineOptions

ENCODER_CACHE_SHARE, CPU_ENCODER_CACHE = 0.01, GIB // 4
"""Default size of the encoder cache: share of the GPU memory; bytes on a CPU."""

CPU_POOL_BYTES = 2 << 30
CPU_POOL_TOKENS = 1 << 16
GPU_SHARE = 0.9
"""Default share of the free memory after the weights. The remainder covers fragmentation and other
processes."""

GPU_POOL_TOKENS = 1 << 22
SMALL_POOL_TOKENS = 1024
"""Minimum pool size in tokens unless `max_total_tokens` is set."""

STATES_SHARE = 0.5
"""Maximum share of states in the memory of both pools. A running request needs two or three states;
the remaining states are checkpoints."""

CHECKPOINTS = 1024
"""Maximum number of checkpoints besides the states of running requests."""

WORKSPACE_BYTES = 512 << 20
"""Workspaces of cuBLAS and attention kernels, partial results of split sequences, state of graphs.
"""

GRAMMAR_BYTES = 224 << 20
"""Grammar tables and masks, allocated on first use; plus a byte per logit."""

SAMPLED_ROWS = 256
SAMPLED_BYTES = 40
"""Bytes per logit of at most `SAMPLED_ROWS` rows while sampling with filters: sorted values,
indices and sums."""


def encoder_cache_bytes(decoder: Any, options: EngineOptions) -> int:
    """Return the size of the cache of rows of images, videos and sounds."""
    if options.encoder_cache is not None:
        return int(options.encoder_cache * GIB)
    if decoder.device.type != "cuda":
        return CPU_ENCODER_CACHE
    total = torch.cuda.get_device_properties(decoder.device).total_memory
    return min(GIB, int(ENCODER_CACHE_SHARE * total))


def encoder_bytes(decoder: Any, options: EngineOptions) -> int:
    """Return the bytes of the cache of rows, and of encoder calls beyond the work of a step: items
    are encoded between steps."""
    if decoder.items is None:
        return 0
    tokens = options.max_step_tokens or 1
    call = int(tokens * decoder.items.token_bytes)
    return encoder_cache_bytes(decoder, options) + max(0, call - activation_bytes(decoder, tokens))


def pool_tokens(decoder: Any, options: EngineOptions) -> int:
    """Return the size of the KV pool in tokens.

    On a GPU the pool takes `GPU_SHARE` of the free memory, or the remainder of `memory_limit` after
    the weights, minus `work_bytes` and the states of `num_states`. `max_total_tokens` replaces the
    result; with a `memory_limit` both are compared. On a CPU the pool is small, or
    `max_total_tokens`, which must fit into the free memory.

    Args:
        decoder: A `Decoder`.
        options: Options of the decoder's device, see `EngineOptions.on`.

    Raises:
        OptionError: The pool is smaller than a small pool or than `max_total_tokens`.
    """
    each = KVCache.bytes_per_token(decoder.shapes, decoder.dtype, options.kv_dtype)
    if decoder.device.type != "cuda":
        return _host_pool_tokens(decoder, options, each)
    states = num_states(decoder, options) * bytes_per_state(decoder.states)

    room = _room(decoder, options) - states
    tokens = room // each if each else GPU_POOL_TOKENS
    if options.max_total_tokens is not None and (
        options.memory_limit is None or options.max_total_tokens <= tokens
    ):
        return options.max_total_tokens

    wanted = options.max_total_tokens or SMALL_POOL_TOKENS
    if tokens < wanted:
        limit = options.memory_limit
        raise OptionError(
            f"a KV pool of {wanted:,} tokens ({gib(wanted * each)}) does not fit in the memory: "
            f"beside the weights ({gib(weight_bytes(decoder.model))}), "
            f"{gib(free_bytes(decoder.device))} are free on {decoder.device}"
            + ("" if limit is None else f", memory_limit is {limit} GiB")
            + f", and a step of {options.max_step_tokens:,} tokens for "
            f"{options.max_running_requests:,} requests works on "
            f"{gib(work_bytes(decoder, options))}"
            + (f", and states of recurrent layers take {gib(states)}" if states else ""),
            _pool_hint(options, room + work_bytes(decoder, options) >= wanted * each),
        )
    return min(GPU_POOL_TOKENS, tokens)


def _pool_hint(options: EngineOptions, fits_with_small_steps: bool) -> str:
    smaller = ["max_step_tokens", "max_running_requests"] if fits_with_small_steps else []
    smaller += ["max_total_tokens"] if options.max_total_tokens is not None else []
    hint = f"load with a smaller {' or '.join(smaller)}" if smaller else "load a smaller model"
    if options.memory_limit is not None:
        return f"{hint}, or with a larger memory_limit"
    return f"{hint}, or unload another engine: `%sglang engine unload NAME`"


def _room(decoder: Any, options: EngineOptions) -> int:
    """GPU memory for the pools in bytes."""
    free, work = free_bytes(decoder.device), work_bytes(decoder, options)
    if options.memory_limit is None:
        return int(free * GPU_SHARE) - work
    return min(int(options.memory_limit * GIB) - weight_bytes(decoder.model), free) - work


def num_states(decoder: Any, options: EngineOptions) -> int:
    """Return the size of the state pool; 0 without recurrent layers. Raises OptionError if too few
    for a request."""
    each = bytes_per_state(decoder.states)
    if not each:
        return 0

    gpu = decoder.device.type == "cuda"
    room = _room(decoder, options) if gpu else min(free_host_bytes(), CPU_POOL_BYTES)
    rows = options.max_running_requests or 1
    ceiling = rows * LAST_STATES_REWRITTEN + CHECKPOINTS

    share = STATES_SHARE if decoder.shapes else 1.0  # without attention, only states need memory
    asked, fit = options.max_states, max(0, room) // each
    states = asked or min(ceiling, int(room * share) // each)

    if asked and asked < FEWEST_STATES:
        raise OptionError(
            f"max_states={asked} is too few: a request needs {FEWEST_STATES} states of its "
            "recurrent layers",
            f"load with max_states={FEWEST_STATES} or more",
        )

    if states < FEWEST_STATES or (asked and asked > fit):
        wanted = max(states, FEWEST_STATES)
        raise OptionError(
            f"{wanted:,} states of recurrent layers ({gib(wanted * each)}) do not fit in the "
            f"memory: {gib(max(0, room))} are left",
            f"load with max_states from {FEWEST_STATES} to {fit:,}"
            if fit >= FEWEST_STATES
            else "load a smaller model, or with a smaller max_step_tokens or max_running_requests",
        )
    return states


def _host_pool_tokens(decoder: Any, options: EngineOptions, each: int) -> int:
    """Compute `pool_tokens` on a CPU. each: bytes per token."""
    if not each:
        return options.max_total_tokens or CPU_POOL_TOKENS

    room = free_host_bytes() // each
    small = max(1, min(CPU_POOL_TOKENS, CPU_POOL_BYTES // each, room))
    tokens = options.max_total_tokens or small

    if tokens > room:
        raise OptionError(
            f"a KV pool of {tokens:,} tokens ({gib(tokens * each)}) does not fit in the memory: "
            f"beside the weights ({gib(weight_bytes(decoder.model))}), {gib(room * each)} are free",
            f"load with a smaller max_total_tokens, at most {room:,}, or a smaller model"
            if room
            else LARGE_MODEL_HINT,
        )
    return tokens


def make_pools(decoder: Any, options: EngineOptions) -> tuple[KVCache, StatePool | None]:
    """Allocate the KV pool and, for recurrent layers, the state pool. Raises OptionError if out of
    memory."""
    tokens, states = pool_tokens(decoder, options), num_states(decoder, options)
    if decoder.ranks is not None:
        tokens = decoder.ranks.smallest(tokens)  # a slot has one number on all ranks
    try:
        cache = KVCache(decoder.shapes, tokens, decoder.dtype, decoder.device, options.kv_dtype)
        pool = StatePool(decoder.states, states, decoder.device) if states else None
    except (RuntimeError, MemoryError) as error:
        size = tokens * KVCache.bytes_per_token(decoder.shapes, decoder.dtype, options.kv_dtype)
        size += states * bytes_per_state(decoder.states)
        beside = f" and {states:,} states" if states else ""
        raise OptionError(
            f"a KV pool of {tokens:,} tokens{beside} ({gib(size)}) does not fit in the memory",
            "load with a smaller max_total_tokens" + (" or max_states" if states else ""),
        ) from error

    pools.add(cache)
    return cache, pool


def warn_of_cuts(
    name: str, options: EngineOptions, positions: int, pool_tokens: int, unlimited: int
) -> None:
    """Warn if a request may have fewer tokens than `context_length`, or, because of the memory,
    than the model has positions. unlimited: positions of a model without a limit."""
    asked = options.context_length or positions
    allowed = min(asked, positions)
    messages = []
    if allowed < asked:
        messages.append(
            f"context_length={asked:,} is cut to the {positions:,} positions of {name!r}"
        )
    if allowed < unlimited and options.max_total_tokens is None and pool_tokens < allowed:
        messages.append(
            f"a request may have {pool_tokens:,} of {allowed:,} tokens: the KV pool that fits "
            "holds no more. Load with a larger max_total_tokens, or memory_limit on a GPU"
        )
    for message in messages:
        warnings.warn(printable(message), SgnbWarning, stacklevel=6)


def work_bytes(decoder: Any, options: EngineOptions) -> int:
    """Return the bytes of the largest step, of decode graphs, and of encoders of items."""
    tokens, rows = options.max_step_tokens or 1, options.max_running_requests or 1
    work = activation_bytes(decoder, tokens) + logit_bytes(decoder, rows) + WORKSPACE_BYTES
    work += GRAMMAR_BYTES + rows * decoder.vocab_size + encoder_bytes(decoder, options)
    if options.attention in ("auto", "flashinfer") and not options.deterministic:
        work += gathered_bytes(decoder, tokens)
    if options.cuda_graphs:
        logits_copy = rows * decoder.vocab_size * decoder.dtype.itemsize
        work += graph_bytes(decoder, rows) + logits_copy
    return work + int(decoder.scratch_bytes)


def activation_bytes(decoder: Any, tokens: int) -> int:
    """Return the peak memory of the activations of a forward pass over `tokens` tokens, in bytes.

    Without a backward pass the peak belongs to one layer: the hidden states (before, normed, after)
    plus the largest of three terms. Attention has queries and keys before, during and after
    rotation, values and output. The feed-forward has gate, activation, up projection and product,
    with experts also input and output per expert of a token. A norm runs in float32.
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
    """Return the working memory of a decode step of `rows` rows, in bytes."""
    work = activation_bytes(decoder, rows) + logit_bytes(decoder, rows, sampled=False)
    return work + int(decoder.scratch_bytes)


def gathered_bytes(decoder: Any, tokens: int) -> int:
    """Return the bytes of keys and values gathered for FlashInfer in a step of `tokens` tokens."""
    if refusal(decoder.shapes.values(), decoder.dtype, decoder.device) is not None:
        return 0
    size: int = most_gathered(decoder.device) * tokens * _pool_row(decoder) * decoder.dtype.itemsize
    return size


def _pool_row(decoder: Any) -> int:
    """Maximum number of KV elements per token and layer."""
    return max(
        (shape.heads * (shape.key_dim + shape.value_dim) for shape in decoder.shapes.values()),
        default=0,
    )


def logit_bytes(decoder: Any, rows: int, sampled: bool = True) -> int:
    """Return the bytes of logits in the model's dtype, in float32, and as logarithms; sampling
    processes `SAMPLED_ROWS` rows at a time."""
    row: int = decoder.vocab_size * (decoder.dtype.itemsize + 4 + 4)
    return rows * row + (
        min(rows, SAMPLED_ROWS) * decoder.vocab_size * SAMPLED_BYTES if sampled else 0
    )


def _number(config: Any, *names: str) -> int:
    """Return the first existing setting of the config, or 0; the maximum of per-layer settings."""
    for name in names:
        value = getattr(config, name, None)
        if value:
            return int(max(value) if isinstance(value, (list, tuple)) else value)
    return 0
