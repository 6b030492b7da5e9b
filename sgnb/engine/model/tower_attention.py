"""Attention of encoders over many images at once. Knows no families of models.

Encoders of several images attend within segments (images or windows) and know the segments' ends.
Each segment is a call of transformers' attention interface. Implementations with "flash" in the
name are called once and receive the ends. `use_segments` sets such an implementation: one kernel on
a GPU in half precision, otherwise one call of PyTorch's attention per length of segments.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.weak import WeakIdKeyDictionary
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from ..device.faults import is_out_of_memory
from .logit_check import HALF_TOLERANCES, TOLERANCE, relative_error
from .text_decoder import text_decoder

SEGMENTS = "sgnb_flash_segments"
"""Name in transformers' attention interface; "flash" asks for calls without a split."""

MAX_KERNEL_DIM = 256
"""Largest head dimension of the kernel."""


class EqualSegments(NamedTuple):
    """Segments of one length."""

    length: int
    rows: Tensor | None  # int64[segments, length]; None for all rows, in order


class Segments(NamedTuple):
    """Division of rows into segments."""

    total: int  # rows
    longest: int
    ends: Tensor  # int32[segments + 1], begins with 0
    groups: list[EqualSegments]


_divided = WeakIdKeyDictionary()
"""Tensor with ends -> Segments: all layers of an encoder receive the same tensor."""


def divide(ends: Tensor) -> Segments:
    """Return the segments between `ends`, which begin with 0. Empty segments are left out."""
    found: Segments | None = _divided.get(ends)
    if found is None:
        found = _divided[ends] = _divide(ends)
    return found


def _divide(ends: Tensor) -> Segments:
    host = ends.detach().cpu().long()
    starts, lengths = host[:-1], host.diff()
    groups = []
    for length in lengths.unique().tolist():
        if length:
            rows = starts[lengths == length, None] + torch.arange(length)
            covers_all = rows.numel() == int(host[-1])
            groups.append(EqualSegments(length, None if covers_all else rows.to(ends.device)))
    longest = max((group.length for group in groups), default=0)
    return Segments(int(host[-1]), longest, ends.to(torch.int32), groups)


def segments_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    cu_seq_lens_q: Tensor | None = None,
    cu_seq_lens_k: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend with q [1, heads, T, dim] within segments, without a causal mask; return [1, T, heads,
    dim]. Without ends of segments, attend as transformers does.

    Raises:
        ValueError: The call has a mask, or other segments for keys.
    """
    if cu_seq_lens_q is None:
        out, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
        return out, None
    unknown = [name for name in ("sliding_window", "softcap", "s_aux") if options.get(name)]
    if attention_mask is not None or options.get("is_causal") or unknown:
        raise ValueError("the encoder's attention has a mask or another option")
    segments = divide(cu_seq_lens_q)
    same_keys = cu_seq_lens_k is cu_seq_lens_q and key.shape[2] == segments.total
    if len(query) != 1 or query.shape[2] != segments.total or not same_keys:
        raise ValueError("the encoder's attention has other segments for keys than for queries")

    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    attend = _by_kernel if _kernel_takes(q) else attend_by_length
    return attend(q, k, v, segments, scale)[None], None


def _kernel_takes(q: Tensor) -> bool:
    """Return whether PyTorch's flash attention takes the type and the head dimension."""
    dim = q.shape[-1]
    return q.is_cuda and q.dtype in HALF_TOLERANCES and dim % 8 == 0 and dim <= MAX_KERNEL_DIM


def _by_kernel(q: Tensor, k: Tensor, v: Tensor, segments: Segments, scale: float) -> Tensor:
    """Attend with q [T, heads, dim] in one kernel."""
    longest, ends = segments.longest, segments.ends
    out: Tensor = torch.ops.aten._flash_attention_forward(
        q, k, v, ends, ends, longest, longest, 0.0, False, False, scale=scale
    )[0]
    return out


def attend_by_length(q: Tensor, k: Tensor, v: Tensor, segments: Segments, scale: float) -> Tensor:
    """Attend with q [T, heads, dim] in one call per length of segments."""
    out = torch.empty_like(q)
    for length, rows in segments.groups:
        parts = [x.unflatten(0, (-1, length)) if rows is None else x[rows] for x in (q, k, v)]
        part_q, part_k, part_v = (x.transpose(1, 2) for x in parts)
        part = scaled_dot_product_attention(
            part_q, part_k, part_v, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
        ).transpose(1, 2)
        if rows is None:
            return part.flatten(0, 1)
        out[rows] = part
    return out


AttentionInterface.register(SEGMENTS, segments_attention)


def use_segments(model: PreTrainedModel, rows: Callable[[], Tensor], undo: ExitStack) -> bool:
    """Install the attention of this module in the encoders of a model, if the rows of samples stay
    equal. Returns True after an installation.

    Args:
        model: The whole model.
        rows: Encodes samples and returns their rows.
        undo: Receives the restoration.
    """
    attentions = list(tower_attentions(model))
    if not attentions:
        return False
    expected = rows()
    with ExitStack() as trial:
        for attention in attentions:
            trial.callback(setattr, attention, "config", attention.config)
            attention.config = copy.copy(attention.config)
            # The property would change the parts of the configuration as well.
            attention.config._attn_implementation_internal = SEGMENTS
        try:
            error = relative_error(rows(), expected)
        except Exception as failure:  # of the model's code
            if is_out_of_memory(failure):
                raise
            return False
        if error <= HALF_TOLERANCES.get(expected.dtype, TOLERANCE):
            undo.callback(trial.pop_all().close)
            return True
    return False


def tower_attentions(model: PreTrainedModel) -> Iterator[Any]:
    """Yield the attentions outside the text decoder that take ends of segments."""
    decoder = set(text_decoder(model).modules())
    for module in model.modules():
        if module in decoder or isinstance(module, PreTrainedModel):
            continue
        takes_ends = "cu_seqlens" in inspect.signature(module.forward).parameters
        if takes_ends and hasattr(module, "config"):
            yield module
