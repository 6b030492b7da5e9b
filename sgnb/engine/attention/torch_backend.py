"""Attention in plain torch: the reference, and the default on a CPU.

A step's attention is cut into tasks, each a set of new tokens against a set of KV slots; the
partial results are merged by log-sum-exp (Dao et al., FlashAttention; Ye et al., cascade
inference). Two kinds of task: a *shared* segment of the radix tree, read once for all requests
below it (Zheng et al., arXiv 2312.07104), and *private* tokens, where requests of like size are
padded to one batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..cache.kv_cache import KVCache
from ..request.request import Chunk
from . import LayerOptions
from .cascade import CascadeGroup, find_cascade
from .torch_softmax import Mask, attend

SHARED_READS_SAVED = 256
"""A segment is read once for all its requests when that saves at least so many KV reads; below,
merging costs more."""

MOST_RUNS = 8
"""Up to so many stretches of neighbouring slots are joined; more are gathered one by one."""

NOWHERE = np.iinfo(np.int32).max
"""Position of padding: after every token, so that nothing sees it."""


class Task(NamedTuple):
    """New tokens `rows` int64[N, T] attend to `slots` int64[N, L]; positions of both decide what is
    visible.

    valid: flat indices of the rows that are not padding, None when all are. ahead: whether some
    slot lies after some row. run: (first, length) when the slots of a batch of one are neighbours,
    so that no gather is needed.
    """

    rows: Tensor
    slots: Tensor
    row_positions: Tensor
    slot_positions: Tensor
    valid: Tensor | None
    ahead: bool
    run: tuple[int, int] | None


class Solo(NamedTuple):
    """One token of one request attends to `slots` int64[L].

    runs: the same slots as stretches of neighbours (first, length), empty when they are too many.
    """

    slots: Tensor
    runs: list[tuple[int, int]]

    def rows(self, pool: Tensor, window: int | None) -> Tensor:
        """[1, heads, L, dim] of the slots that the token sees; a view when all are neighbours."""
        if self.runs:
            parts = [pool.narrow(0, first, length) for first, length in self.runs]
            seen = parts[0] if len(parts) == 1 else torch.cat(parts)
        else:
            seen = pool.index_select(0, self.slots)
        if window is not None and window < len(seen):
            seen = seen[-window:]
        return seen.transpose(0, 1)[None]


class TorchAttention:
    """`fork_attention` off reads a shared prefix once for each request, as servers do."""

    name = "torch"

    def __init__(self, kv: KVCache, *, fork_attention: bool = True) -> None:
        self.kv = kv
        self.new_slots = torch.empty(0, dtype=torch.long)
        self._fork_attention = fork_attention
        self._tasks: list[Task] = []
        self._masks: dict[tuple[int, int | None, int], Mask] = {}
        self._new_run: tuple[int, int] | None = None
        self._in_order = self._disjoint = True
        self._solo: Solo | None = None

    @property
    def graph_key(self) -> Hashable:
        raise NotImplementedError(
            "torch's attention makes new tensors in each step, so no graph can be captured"
        )

    def precompile(self, rows: int) -> None:
        raise NotImplementedError("torch's attention has no kernels that must be compiled")

    def plan(self, chunks: list[Chunk], padded: int | None = None) -> None:
        self._solo = None
        slots = np.concatenate([c.request.slots[c.start : c.end] for c in chunks])
        self.new_slots = self._to_device(slots)
        self._new_run = _neighbours(slots)
        if len(slots) == 1:
            seen = chunks[0].request.slots[: chunks[0].end]
            self._solo = Solo(self._to_device(seen), _runs(seen))
        else:
            self._plan_tasks(chunks)

    def _plan_tasks(self, chunks: list[Chunk]) -> None:
        self._masks.clear()
        first_rows = np.cumsum([0, *(c.length for c in chunks[:-1])])
        starts, begins, segments = list(range(len(chunks))), [0] * len(chunks), list[CascadeGroup]()
        if self._fork_attention and len(chunks) > 1:
            starts, begins, segments = find_cascade(chunks, [1] * len(chunks), _worth_sharing)
        order = np.argsort(starts).tolist()
        self._tasks = [
            self._shared_task(
                segment,
                chunks,
                [(chunks[i], first_rows[i]) for i in order[segment.low : segment.high]],
            )
            for segment in segments
        ]
        batches: dict[tuple[int, int], list[tuple[Chunk, int, np.ndarray]]] = {}
        for i, chunk in enumerate(chunks):
            positions = np.arange(begins[i], chunk.end)
            size = (chunk.length.bit_length(), len(positions).bit_length())
            batches.setdefault(size, []).append((chunk, first_rows[i], positions))
        self._tasks += [self._private_task(members) for members in batches.values()]
        self._in_order = len(self._tasks) == 1 and self._tasks[0].valid is None
        self._disjoint = not segments  # no row is in two tasks: there is nothing to merge

    def store(self, layer: int, k: Tensor, v: Tensor) -> None:
        for pool, new in ((self.kv.keys[layer], k), (self.kv.values[layer], v)):
            if self._new_run is not None:
                first, length = self._new_run
                pool[first : first + length] = new
            else:
                pool.index_copy_(0, self.new_slots, new)

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor:
        keys, values = self.kv.keys[layer], self.kv.values[layer]
        if self._solo is not None:
            return _decode_solo(self._solo, q, (keys, values), options)
        q = q.transpose(0, 1)
        heads, total, _ = q.shape
        if self._in_order:
            out, lse = self._attend(0, q, keys, values, options)
            return _with_sinks(
                out.reshape(total, heads, -1), lse.reshape(total, heads), options.sinks
            )
        merged = q.new_zeros(total, heads, values.shape[-1])
        merged_lse = torch.full((total, heads), -torch.inf, dtype=torch.float32, device=q.device)
        for index, task in enumerate(self._tasks):
            out, lse = self._attend(index, q, keys, values, options)
            rows, out, lse = task.rows.flatten(), out.flatten(0, 1), lse.flatten(0, 1)
            if task.valid is not None:
                rows, out, lse = rows[task.valid], out[task.valid], lse[task.valid]
            if self._disjoint:
                merged[rows], merged_lse[rows] = out, lse
                continue
            before = merged_lse[rows]
            after = torch.logaddexp(before, lse)
            merged[rows] = merged[rows] * _weight(before, after, out) + out * _weight(
                lse, after, out
            )
            merged_lse[rows] = after
        return _with_sinks(merged, merged_lse, options.sinks)

    def _attend(
        self, index: int, q: Tensor, keys: Tensor, values: Tensor, options: LayerOptions
    ) -> tuple[Tensor, Tensor]:
        """One task: ([N, T, heads, v's dim], log-sum-exp [N, T, heads])."""
        task = self._tasks[index]
        n, t = task.rows.shape
        kv_heads, groups = keys.shape[1], q.shape[0] // keys.shape[1]
        query = (q if self._in_order else q[:, task.rows.flatten()]).view(
            kv_heads, groups, n, t, -1
        )
        k, v = _gather(keys, task), _gather(values, task)
        # The heads that share a KV head become more rows of it, or for long stretches a batch of
        # their own.
        if n == 1 and t > 1:
            query = query[:, :, 0].transpose(0, 1)
            mask = self._mask(index, options.window, repeat=1)
            out, lse = attend(
                query, k.expand(groups, -1, -1, -1), v.expand(groups, -1, -1, -1), mask, options
            )
            out, lse = out.permute(2, 1, 0, 3), lse.permute(2, 1, 0)
        else:
            query = query.permute(2, 0, 1, 3, 4).reshape(n, kv_heads, groups * t, -1)
            out, lse = attend(
                query, k, v, self._mask(index, options.window, repeat=groups), options
            )
            out = out.view(n, kv_heads, groups, t, -1).permute(0, 3, 1, 2, 4)
            lse = lse.view(n, kv_heads, groups, t).permute(0, 3, 1, 2)
        return out.reshape(n, t, kv_heads * groups, -1), lse.reshape(n, t, kv_heads * groups)

    def _mask(self, index: int, window: int | None, repeat: int) -> Mask:
        """What the rows of a task may see, its rows repeated so many times; made once a step."""
        key = index, window, repeat
        if key not in self._masks:
            self._masks[key] = self._make_mask(self._tasks[index], window, repeat)
        return self._masks[key]

    def _make_mask(self, task: Task, window: int | None, repeat: int) -> Mask:
        rows, slots = task.row_positions[:, :, None], task.slot_positions[:, None, :]
        far = (rows - slots) >= window if window else None
        windowed = far is not None and bool(far.any())
        if not windowed and not task.ahead:
            return Mask()
        if (
            not windowed
            and task.rows.shape == task.slots.shape
            and len(task.rows) == 1
            and repeat == 1
        ):
            return Mask(causal=True)
        hidden = (slots > rows) | far if far is not None and windowed else slots > rows
        dtype = next(iter(self.kv.keys.values())).dtype
        add = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(
            hidden, -torch.inf
        )
        blind = hidden.all(-1)
        add, blind = add.repeat(1, repeat, 1)[:, None], blind.repeat(1, repeat)[:, None]
        return Mask(add, blind if bool(blind.any()) else None)

    def _shared_task(
        self, segment: CascadeGroup, chunks: list[Chunk], members: list[tuple[Chunk, int]]
    ) -> Task:
        first, end = segment.first, segment.end
        slots = chunks[segment.chunk].request.slots[first:end]
        rows = np.concatenate([np.arange(row, row + chunk.length) for chunk, row in members])
        positions = np.concatenate([np.arange(chunk.start, chunk.end) for chunk, _ in members])
        return self._task(
            rows[None], slots[None], positions[None], np.arange(first, end)[None], padded=False
        )

    def _private_task(self, members: list[tuple[Chunk, int, np.ndarray]]) -> Task:
        t = max(chunk.length for chunk, _, _ in members)
        length = max(len(positions) for _, _, positions in members)
        shape = len(members), t
        rows, row_positions = np.zeros(shape, np.int64), np.full(shape, -1, np.int64)
        slots, slot_positions = (
            np.zeros((len(members), length), np.int64),
            np.full((len(members), length), NOWHERE, np.int64),
        )
        for i, (chunk, row, positions) in enumerate(members):
            rows[i, : chunk.length] = np.arange(row, row + chunk.length)
            row_positions[i, : chunk.length] = np.arange(chunk.start, chunk.end)
            slots[i, : len(positions)] = chunk.request.slots[positions]
            slot_positions[i, : len(positions)] = positions
        padded = any(chunk.length < t for chunk, _, _ in members)
        return self._task(rows, slots, row_positions, slot_positions, padded)

    def _task(
        self,
        rows: np.ndarray,
        slots: np.ndarray,
        row_positions: np.ndarray,
        slot_positions: np.ndarray,
        padded: bool,
    ) -> Task:
        valid = self._to_device(np.flatnonzero(row_positions >= 0)) if padded else None
        ahead = bool((slot_positions.max(axis=1) > row_positions.min(axis=1)).any())
        run = _neighbours(slots[0]) if len(slots) == 1 else None
        return Task(
            self._to_device(rows),
            self._to_device(slots),
            self._to_device(row_positions),
            self._to_device(slot_positions),
            valid,
            ahead,
            run,
        )

    def _to_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array.astype(np.int64, copy=False)).to(
            self.kv.device, non_blocking=True
        )


def _decode_solo(
    solo: Solo, q: Tensor, pools: tuple[Tensor, Tensor], options: LayerOptions
) -> Tensor:
    """The commonest step of a notebook, one token of one request: no mask, no merging, few
    operations."""
    k, v = (solo.rows(pool, options.window) for pool in pools)
    if options.softcap is None and options.sinks is None:
        out = F.scaled_dot_product_attention(
            q[:, :, None], k, v, scale=options.scaling, enable_gqa=True
        )
        return out[:, :, 0]
    heads = q.shape[1]
    out, lse = attend(q.reshape(1, k.shape[1], -1, q.shape[-1]), k, v, Mask(), options)
    return _with_sinks(out.reshape(1, heads, -1), lse.reshape(1, heads), options.sinks)


def _worth_sharing(rows: int, tokens: int) -> bool:
    return (rows - 1) * tokens >= SHARED_READS_SAVED


def _gather(pool: Tensor, task: Task) -> Tensor:
    """[N, heads, L, dim] of the task's slots; a view when they are neighbours."""
    if task.run is not None:
        first, length = task.run
        return pool[first : first + length].transpose(0, 1)[None]
    n, length = task.slots.shape
    return (
        pool.index_select(0, task.slots.flatten()).view(n, length, *pool.shape[1:]).transpose(1, 2)
    )


def _weight(part: Tensor, whole: Tensor, like: Tensor) -> Tensor:
    """exp(part - whole), 0 where nothing was seen yet."""
    return torch.exp(part - torch.where(whole == -torch.inf, 0.0, whole))[..., None].to(like.dtype)


def _with_sinks(out: Tensor, lse: Tensor, sinks: Tensor | None) -> Tensor:
    return (
        out if sinks is None else out * torch.sigmoid(lse - sinks.float())[..., None].to(out.dtype)
    )


def _runs(slots: np.ndarray) -> list[tuple[int, int]]:
    """The stretches of neighbours in `slots`; none when gathering slot by slot is cheaper."""
    starts = [0, *(np.flatnonzero(np.diff(slots) != 1) + 1).tolist(), len(slots)]
    if len(starts) > MOST_RUNS + 1:
        return []
    return [(int(slots[i]), j - i) for i, j in itertools.pairwise(starts)]


def _neighbours(slots: np.ndarray) -> tuple[int, int] | None:
    """(first, length) when all slots are one stretch."""
    runs = _runs(slots)
    return runs[0] if len(runs) == 1 else None
