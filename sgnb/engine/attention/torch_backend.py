"""Attention in plain torch: the reference, and the default on a CPU.

A step is cut into tasks, each a set of query rows against a set of KV slots, whose partial states
are merged by log-sum-exp (cascade inference). Three kinds of task: the prefix of a cascade group,
read once for all requests below it; a long chunk, whose prefix needs no mask and whose own tokens
are a causal square, or which a sliding window cuts into bands; and other private KV, where requests
of like size are padded to one batch with a mask.
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
from ..request.batch import Batch
from . import LayerOptions
from .cascade import find_cascade
from .query_tiles import ranks
from .torch_softmax import Mask, attend

SHARED_READS_SAVED = 256
"""A prefix is read once for all its requests when that saves at least so many KV reads; below,
merging costs more."""

LONG_CHUNK = 256
"""A chunk of at least this many tokens has tasks of its own."""

BAND_ROWS = 128
"""Rows of a band of a sliding window: fewer are more calls, more see further beyond the window."""

MOST_RUNS = 8
"""Up to so many runs of consecutive slots are concatenated; more are gathered one by one."""

NOWHERE = np.iinfo(np.int32).max
"""Position of padding: after every token, so that nothing sees it."""


class Task(NamedTuple):
    """Query rows against KV slots; the positions of both decide what is visible."""

    rows: Tensor  # int64[N, T]
    slots: Tensor  # int64[N, L]
    row_positions: Tensor  # int64[N, T]
    slot_positions: Tensor  # int64[N, L]
    valid: Tensor | None  # flat indices of the rows that are not padding, None when all are
    ahead: bool  # whether some slot lies after some row
    run: tuple[int, int] | None  # (first, length) of consecutive slots of a batch of one: no gather


class Tasks(NamedTuple):
    """All that layers of one window compute in a step."""

    window: int | None  # None: it hides nothing
    masks: dict[tuple[int, int], Mask]  # by a task's index and how often its rows are repeated
    tasks: list[Task]
    in_order: bool  # one task, whose rows are those of the step
    disjoint: bool  # no row is in two tasks: there is nothing to merge


class Solo(NamedTuple):
    """One token of one request, the commonest step of a notebook."""

    slots: Tensor  # int64[L]
    runs: list[tuple[int, int]]  # the same as (first, length) of consecutive slots, or none

    def rows(self, pool: Tensor, window: int | None) -> Tensor:
        """[1, heads, L, dim] of the slots that the token sees; a view when all are consecutive."""
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
        self._fork = fork_attention
        self._batch: Batch | None = None
        self._tasks: dict[int | None, Tasks] = {}  # by the layers' window, made when asked for
        self._new_run: tuple[int, int] | None = None
        self._solo: Solo | None = None

    @property
    def graph_key(self) -> Hashable:
        raise NotImplementedError(
            "torch's attention makes new tensors in each step, so no graph can be captured"
        )

    def precompile(self, rows: int) -> None:
        raise NotImplementedError("torch's attention has no kernels that must be compiled")

    def plan(self, batch: Batch, padded: int | None = None) -> None:
        self._solo, self._batch = None, batch
        self._tasks.clear()
        slots = batch.new_slots()
        self.new_slots = self._to_device(slots)
        self._new_run = _consecutive(slots)
        if len(slots) == 1:
            seen = batch.requests[0].slots[: int(batch.ends[0])]
            self._solo = Solo(self._to_device(seen), _runs(seen))

    def _plan_tasks(self, batch: Batch, window: int | None) -> Tasks:
        tasks, begins = list[Task](), np.zeros(len(batch), np.int64)
        # Positions before these are in no row's window.
        firsts = np.maximum(0, batch.starts - window + 1) if window is not None else begins
        if self._fork and len(batch) > 1:
            first_places, begins, groups = find_cascade(batch, [1] * len(batch), _worth_sharing)
            batch.has_cascade = batch.has_cascade or len(groups) > 0
            order = np.argsort(first_places)
            for begin, end, low, high, holder in groups.tolist():
                members = order[low:high]
                begin = max(begin, int(firsts[members].min()))
                if begin < end:
                    slots = batch.requests[holder].slots[begin:end]
                    tasks.append(self._shared_task(batch, members, slots, begin))
        begins = np.maximum(begins, firsts)

        alike: dict[tuple[int, int], list[int]] = {}
        sizes = zip(batch.lengths.tolist(), (batch.ends - begins).tolist(), strict=True)
        for i, (rows, tokens) in enumerate(sizes):
            if rows >= LONG_CHUNK:
                tasks += self._chunk_tasks(batch, i, int(begins[i]), window)
            else:
                alike.setdefault((rows.bit_length(), tokens.bit_length()), []).append(i)
        tasks += [self._private_task(batch, which, begins) for which in alike.values()]
        rows = sum(t.rows.numel() if t.valid is None else t.valid.numel() for t in tasks)
        in_order = len(tasks) == 1 and tasks[0].valid is None
        return Tasks(window, {}, tasks, in_order, disjoint=rows == batch.num_tokens)

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
        plan = self._tasks_of(options.window)
        q = q.transpose(0, 1)
        heads, total, _ = q.shape
        if plan.in_order:
            out, lse = self._attend(plan, 0, q, keys, values, options)
            return _with_sinks(
                out.reshape(total, heads, -1), lse.reshape(total, heads), options.sinks
            )
        dtype = q.dtype if plan.disjoint else torch.float32
        merged = q.new_zeros(total, heads, values.shape[-1], dtype=dtype)
        merged_lse = torch.full((total, heads), -torch.inf, dtype=torch.float32, device=q.device)
        for index, task in enumerate(plan.tasks):
            out, lse = self._attend(plan, index, q, keys, values, options)
            rows, out, lse = task.rows.flatten(), out.flatten(0, 1), lse.flatten(0, 1)
            if task.valid is not None:
                rows, out, lse = rows[task.valid], out[task.valid], lse[task.valid]
            if plan.disjoint:
                merged[rows], merged_lse[rows] = out, lse
                continue
            before = merged_lse[rows]
            after = torch.logaddexp(before, lse)
            merged[rows] = merged[rows] * _weight(before, after) + out * _weight(lse, after)
            merged_lse[rows] = after
        return _with_sinks(merged.to(q.dtype), merged_lse, options.sinks)

    def _tasks_of(self, window: int | None) -> Tasks:
        assert self._batch is not None
        if window is not None and window >= int(self._batch.ends.max()):
            window = None
        if window not in self._tasks:
            self._tasks[window] = self._plan_tasks(self._batch, window)
        return self._tasks[window]

    def _attend(
        self,
        plan: Tasks,
        index: int,
        q: Tensor,
        keys: Tensor,
        values: Tensor,
        options: LayerOptions,
    ) -> tuple[Tensor, Tensor]:
        """One task: ([N, T, heads, v's dim], log-sum-exp [N, T, heads])."""
        task = plan.tasks[index]
        n, t = task.rows.shape
        kv_heads, groups = keys.shape[1], q.shape[0] // keys.shape[1]
        query = (q if plan.in_order else q[:, task.rows.flatten()]).view(kv_heads, groups, n, t, -1)
        k, v = _gather(keys, task), _gather(values, task)
        # The heads that share a KV head become more rows of it, or for long stretches a batch of
        # their own.
        if n == 1 and t > 1:
            query = query[:, :, 0].transpose(0, 1)
            mask = self._mask(plan, index, repeat=1)
            out, lse = attend(
                query, k.expand(groups, -1, -1, -1), v.expand(groups, -1, -1, -1), mask, options
            )
            out, lse = out.permute(2, 1, 0, 3), lse.permute(2, 1, 0)
        else:
            query = query.permute(2, 0, 1, 3, 4).reshape(n, kv_heads, groups * t, -1)
            out, lse = attend(query, k, v, self._mask(plan, index, repeat=groups), options)
            out = out.view(n, kv_heads, groups, t, -1).permute(0, 3, 1, 2, 4)
            lse = lse.view(n, kv_heads, groups, t).permute(0, 3, 1, 2)
        return out.reshape(n, t, kv_heads * groups, -1), lse.reshape(n, t, kv_heads * groups)

    def _mask(self, plan: Tasks, index: int, repeat: int) -> Mask:
        """What the rows of a task may see, its rows repeated so many times; made once a step."""
        key = index, repeat
        if key not in plan.masks:
            plan.masks[key] = self._make_mask(plan.tasks[index], plan.window, repeat)
        return plan.masks[key]

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
        self, batch: Batch, members: np.ndarray, slots: np.ndarray, begin: int
    ) -> Task:
        """All rows of these requests against a prefix from position `begin` on."""
        lengths = batch.lengths[members]
        rows = batch.first_rows[members].repeat(lengths) + ranks(lengths)
        positions = np.arange(begin, begin + len(slots))
        return self._task(
            rows[None], slots[None], batch.positions[rows][None], positions[None], False
        )

    def _chunk_tasks(self, batch: Batch, member: int, begin: int, window: int | None) -> list[Task]:
        """A long chunk of one request against its own KV from position `begin` on."""
        start, end = int(batch.starts[member]), int(batch.ends[member])
        if window is None:
            spans = [(start, end, begin, start)] if begin < start else []
            spans.append((start, end, start, end))
        else:
            spans = [
                (row, last := min(row + BAND_ROWS, end), max(begin, row - window + 1), last)
                for row in range(start, end, BAND_ROWS)
            ]
        slots, first_row = batch.requests[member].slots, int(batch.first_rows[member]) - start
        return [
            self._task(
                np.arange(first_row + row, first_row + row_end)[None],
                slots[None, slot:slot_end],
                np.arange(row, row_end)[None],
                np.arange(slot, slot_end)[None],
                padded=False,
            )
            for row, row_end, slot, slot_end in spans
        ]

    def _private_task(self, batch: Batch, members: list[int], begins: np.ndarray) -> Task:
        """Each of these requests against its own KV from position begins[i] on, padded."""
        ends, lengths = batch.ends[members], batch.lengths[members]
        t, length = int(lengths.max()), int((ends - begins[members]).max())
        column, token = np.arange(t), begins[members][:, None] + np.arange(length)
        rows = batch.first_rows[members][:, None] + column
        row_positions = batch.starts[members][:, None] + column
        inside = column < lengths[:, None]
        slots = np.empty(token.shape, np.int64)
        for i, member in enumerate(members):
            own = batch.requests[member].slots[int(begins[member]) : int(ends[i])]
            slots[i, : len(own)] = own
            # Padding has a weight of 0, and 0 times a NaN of another request would be NaN.
            slots[i, len(own) :] = own[0]
        return self._task(
            np.where(inside, rows, 0),
            slots,
            np.where(inside, row_positions, -1),
            np.where(token < ends[:, None], token, NOWHERE),
            padded=not inside.all(),
        )

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
        run = _consecutive(slots[0]) if len(slots) == 1 else None
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
    """No mask, no merging, few operations."""
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
    """[N, heads, L, dim] of the task's slots; a view when they are consecutive."""
    if task.run is not None:
        first, length = task.run
        return pool[first : first + length].transpose(0, 1)[None]
    n, length = task.slots.shape
    return (
        pool.index_select(0, task.slots.flatten()).view(n, length, *pool.shape[1:]).transpose(1, 2)
    )


def _weight(part: Tensor, whole: Tensor) -> Tensor:
    """exp(part - whole), 0 where nothing was seen yet."""
    return torch.exp(part - torch.where(whole == -torch.inf, 0.0, whole))[..., None]


def _with_sinks(out: Tensor, lse: Tensor, sinks: Tensor | None) -> Tensor:
    return (
        out if sinks is None else out * torch.sigmoid(lse - sinks.float())[..., None].to(out.dtype)
    )


def _runs(slots: np.ndarray) -> list[tuple[int, int]]:
    """The runs of consecutive slots; none when gathering slot by slot is cheaper."""
    starts = [0, *(np.flatnonzero(np.diff(slots) != 1) + 1).tolist(), len(slots)]
    if len(starts) > MOST_RUNS + 1:
        return []
    return [(int(slots[i]), j - i) for i, j in itertools.pairwise(starts)]


def _consecutive(slots: np.ndarray) -> tuple[int, int] | None:
    """(first, length) when all slots are one run."""
    runs = _runs(slots)
    return runs[0] if len(runs) == 1 else None
