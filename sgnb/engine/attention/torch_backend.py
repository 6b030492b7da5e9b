"""Attention in plain torch: the reference, and the default on a CPU.

A step is cut into tasks of query rows and KV slots; partial states are merged by log-sum-exp
(cascade inference). Three kinds of task exist: (1) the prefix of a cascade group, read once for all
requests of the group; (2) a long chunk: an unmasked prefix and a causal square of new tokens, or
bands with a sliding window; (3) other private KV: requests of similar size are padded to a masked
step.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..cache.kv_cache import KVCache, KVRows
from ..step_input import AttentionInput
from .cascade import find_cascade
from .protocol import LayerOptions
from .query_tiles import ranks
from .torch_softmax import Mask, attend
from .torch_solo import Solo, consecutive, decode_solo, runs_of, with_sinks

SHARED_READS_SAVED = 256
"""Minimum number of KV reads saved by reading a prefix once; below, a further task costs more."""

SHARED_TOKENS = 48
"""Minimum length of such a prefix: merging a row's partial states costs about as much as 30 to 60
reads (8 heads of 64)."""

PADDED_READS = 1024
"""Number of KV reads of padding that cost about as much as a further task."""

LONG_CHUNK = 256
"""Minimum length of a chunk with separate tasks, in tokens."""

BAND_ROWS = 128
"""Rows of a sliding-window band: fewer rows, more calls; more rows, more KV outside the window."""

NOWHERE = np.iinfo(np.int32).max
"""Position of padding: after every token and therefore invisible."""


class Task(NamedTuple):
    """Query rows and KV slots; the positions of both decide visibility."""

    rows: Tensor  # int64[N, T]
    slots: Tensor  # int64[N, L]
    row_positions: Tensor  # int64[N, T]
    last_visible: Tensor  # int64[N, T]; equal to `row_positions` for causal rows
    slot_positions: Tensor  # int64[N, L]
    valid: Tensor | None  # flat indices of rows without padding; None without padding
    first_row: int | None  # of consecutive rows without padding
    ahead: bool  # True if a slot lies after a row
    run: tuple[int, int] | None  # (first, length) of consecutive slots for N = 1: no gather


class Tasks(NamedTuple):
    """Tasks of a step for layers with the same window."""

    window: int | None  # None: no window
    masks: dict[tuple[int, int], Mask]  # by task index and repetition count of rows
    tasks: list[Task]
    in_order: bool  # the rows of all tasks, one task after the other, are the rows of the step
    disjoint: bool  # no row is in two tasks: no merge


class TorchAttention:
    """Torch attention. Without `fork_attention`, each request reads a shared prefix separately."""

    name = "torch"

    def __init__(self, kv: KVCache, *, fork_attention: bool = True) -> None:
        self.kv = kv
        self.new_slots = torch.empty(0, dtype=torch.long)
        self._fork = fork_attention
        self.has_cascade = False
        self._step: AttentionInput | None = None
        self._tasks: dict[int | None, Tasks] = {}  # by window, created on demand
        self._new_run: tuple[int, int] | None = None
        self._solo: Solo | None = None

    @property
    def graph_key(self) -> Hashable:
        raise NotImplementedError(
            "torch's attention makes new tensors in each step, so no graph can be captured"
        )

    def precompile(self, rows: int) -> None:
        raise NotImplementedError("torch's attention has no kernels that must be compiled")

    def plan(self, step: AttentionInput, padded: int | None = None) -> None:
        self._solo, self._step, self.has_cascade = None, step, False
        self._tasks.clear()
        slots = step.new_slots
        self.new_slots = self._to_device(slots)
        self._new_run = consecutive(slots)
        if len(slots) == 1:
            [visible] = step.kv_indices
            self._solo = Solo(self._to_device(visible), runs_of(visible))

    def _plan_tasks(self, step: AttentionInput, window: int | None) -> Tasks:
        tasks, begins = list[Task](), np.zeros(len(step), np.int64)
        # Earlier positions are outside the window of every row.
        firsts = np.maximum(0, step.starts - window + 1) if window is not None else begins
        if self._fork and len(step) > 1:
            first_places, begins, groups = find_cascade(step, [1] * len(step), _worth_sharing)
            self.has_cascade = self.has_cascade or len(groups) > 0
            order = np.argsort(first_places)
            for begin, end, low, high, holder in groups.tolist():
                members = order[low:high]
                begin = max(begin, int(firsts[members].min()))
                if begin < end:
                    slots = step.kv_slots[holder][begin:end]
                    tasks.append(self._shared_task(step, members, slots, begin))
        begins = np.maximum(begins, firsts)

        alike: dict[tuple[int, int], list[int]] = {}
        sizes = zip(step.lengths.tolist(), (step.ends - begins).tolist(), strict=True)
        for i, (rows, tokens) in enumerate(sizes):
            if rows >= LONG_CHUNK:
                tasks += self._chunk_tasks(step, i, int(begins[i]), window)
            else:
                alike.setdefault((rows.bit_length(), tokens.bit_length()), []).append(i)

        joined = _joined_groups(alike, (step.ends - begins).tolist())
        tasks += [self._private_task(step, members, begins) for members in joined]
        rows = sum(t.rows.numel() if t.valid is None else t.valid.numel() for t in tasks)
        disjoint = rows == step.num_tokens
        in_order = disjoint and all(t.first_row is not None for t in tasks)
        if in_order:
            tasks.sort(key=lambda task: task.first_row or 0)
        return Tasks(window, {}, tasks, in_order, disjoint)

    def store(self, layer: int, k: Tensor, v: Tensor) -> None:
        place = self.new_slots if self._new_run is None else self._new_run
        for rows, new in zip(self.kv.rows(layer), (k, v), strict=True):
            rows.write(place, new)

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor:
        keys, values = self.kv.rows(layer)
        if self._solo is not None:
            return decode_solo(self._solo, q, (keys, values), options)

        plan = self._tasks_of(options.window)
        q = q.transpose(0, 1)
        heads, total, _ = q.shape
        if plan.in_order:
            indices = range(len(plan.tasks))
            parts = [self._attend(plan, index, q, keys, values, options) for index in indices]
            out, lse = (
                _joined([part.flatten(0, 1) for part in side]) for side in zip(*parts, strict=True)
            )
            return with_sinks(out, lse, options.sinks)

        dtype = q.dtype if plan.disjoint else torch.float32
        merged = q.new_zeros(total, heads, values.numbers.shape[-1], dtype=dtype)
        merged_lse = torch.full((total, heads), -torch.inf, dtype=torch.float32, device=q.device)
        for index, task in enumerate(plan.tasks):
            out, lse = self._attend(plan, index, q, keys, values, options)
            rows, out, lse = task.rows.flatten(), out.flatten(0, 1), lse.flatten(0, 1)
            if task.valid is not None:
                rows, out, lse = rows[task.valid], out[task.valid], lse[task.valid]
            if plan.disjoint:
                merged[rows], merged_lse[rows] = out, lse
                continue
            previous = merged_lse[rows]
            after = torch.logaddexp(previous, lse)
            merged[rows] = merged[rows] * _weight(previous, after) + out * _weight(lse, after)
            merged_lse[rows] = after
        return with_sinks(merged.to(q.dtype), merged_lse, options.sinks)

    def _tasks_of(self, window: int | None) -> Tasks:
        assert self._step is not None
        if window is not None and window >= int(self._step.ends.max()):
            window = None
        if window not in self._tasks:
            self._tasks[window] = self._plan_tasks(self._step, window)
        return self._tasks[window]

    def _attend(
        self,
        plan: Tasks,
        index: int,
        q: Tensor,
        keys: KVRows,
        values: KVRows,
        options: LayerOptions,
    ) -> tuple[Tensor, Tensor]:
        """Compute a task: ([N, T, heads, v's dim], log-sum-exp [N, T, heads])."""
        task = plan.tasks[index]
        n, t = task.rows.shape
        kv_heads = keys.numbers.shape[1]
        groups = q.shape[0] // kv_heads
        if task.first_row is not None:
            query = q[:, task.first_row : task.first_row + n * t]
        else:
            query = q[:, task.rows.flatten()]
        query = query.view(kv_heads, groups, n, t, -1)
        k, v = _gather(keys, task), _gather(values, task)

        # Query heads of a KV head become additional rows, or a batch dimension for long sequences.
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
        """Mask of a task with rows repeated `repeat` times, cached per step."""
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
            and task.last_visible is task.row_positions
            and task.rows.shape == task.slots.shape
            and len(task.rows) == 1
            and repeat == 1
        ):
            return Mask(causal=True)

        hidden = slots > task.last_visible[:, :, None]
        if far is not None and windowed:
            hidden |= far
        add = torch.zeros(hidden.shape, dtype=self.kv.dtype, device=hidden.device).masked_fill_(
            hidden, -torch.inf
        )
        blind = hidden.all(-1)
        add, blind = add.repeat(1, repeat, 1)[:, None], blind.repeat(1, repeat)[:, None]
        return Mask(add, blind if bool(blind.any()) else None)

    def _shared_task(
        self, step: AttentionInput, members: np.ndarray, slots: np.ndarray, begin: int
    ) -> Task:
        """All rows of `members` and a prefix from position `begin` onward."""
        lengths = step.lengths[members]
        rows = step.first_rows[members].repeat(lengths) + ranks(lengths)
        positions = np.arange(begin, begin + len(slots))
        row_positions = step.kv_positions[rows][None]
        return self._task(
            rows[None], slots[None], row_positions, row_positions, positions[None], False
        )

    def _chunk_tasks(
        self, step: AttentionInput, member: int, begin: int, window: int | None
    ) -> list[Task]:
        """A long chunk of a request and the request's KV from position `begin` onward."""
        start, end = int(step.starts[member]), int(step.ends[member])
        whole = len(step.whole) > 0 and step.whole[member]
        if window is None:
            border = end if whole else start
            spans = [(start, end, begin, border)] if begin < border else []
            spans += [] if whole else [(start, end, start, end)]
        else:
            spans = [
                (row, last := min(row + BAND_ROWS, end), max(begin, row - window + 1), last)
                for row in range(start, end, BAND_ROWS)
            ]
            spans = [(a, b, slot, end if whole else last) for a, b, slot, last in spans]

        slots, first_row = step.kv_slots[member], int(step.first_rows[member]) - start
        return [
            self._task(
                np.arange(first_row + row, first_row + row_end)[None],
                slots[None, slot:slot_end],
                np.arange(row, row_end)[None],
                step.last_visible[first_row + row : first_row + row_end][None],
                np.arange(slot, slot_end)[None],
                padded=False,
            )
            for row, row_end, slot, slot_end in spans
        ]

    def _private_task(self, step: AttentionInput, members: list[int], begins: np.ndarray) -> Task:
        """Each of `members` with the request's KV from position begins[i] onward, padded."""
        ends, lengths = step.ends[members], step.lengths[members]
        t, length = int(lengths.max()), int((ends - begins[members]).max())

        column, token = np.arange(t), begins[members][:, None] + np.arange(length)
        rows = step.first_rows[members][:, None] + column
        row_positions = step.starts[members][:, None] + column
        inside = column < lengths[:, None]

        slots = np.empty(token.shape, np.int64)
        for i, member in enumerate(members):
            visible = step.kv_slots[member][int(begins[member]) : int(ends[i])]
            slots[i, : len(visible)] = visible
            # Padding has a weight of 0, and 0 times a NaN of another request would be NaN.
            slots[i, len(visible) :] = visible[0]
        rows = np.where(inside, rows, 0)
        return self._task(
            rows,
            slots,
            np.where(inside, row_positions, -1),
            np.where(inside, step.last_visible[rows], -1),
            np.where(token < ends[:, None], token, NOWHERE),
            padded=not inside.all(),
        )

    def _task(
        self,
        rows: np.ndarray,
        slots: np.ndarray,
        row_positions: np.ndarray,
        last_visible: np.ndarray,
        slot_positions: np.ndarray,
        padded: bool,
    ) -> Task:
        valid = self._to_device(np.flatnonzero(row_positions >= 0)) if padded else None
        ahead = bool((slot_positions.max(axis=1) > last_visible.min(axis=1)).any())
        run = consecutive(slots[0]) if len(slots) == 1 else None
        flat = rows.ravel()
        first_row = int(flat[0]) if not padded and bool((np.diff(flat) == 1).all()) else None
        positions = visible = self._to_device(row_positions)
        if not np.array_equal(row_positions, last_visible):
            visible = self._to_device(last_visible)
        return Task(
            self._to_device(rows),
            self._to_device(slots),
            positions,
            visible,
            self._to_device(slot_positions),
            valid,
            first_row,
            ahead,
            run,
        )

    def _to_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array.astype(np.int64, copy=False)).to(
            self.kv.device, non_blocking=True
        )


def _joined_groups(alike: dict[tuple[int, int], list[int]], lengths: list[int]) -> list[list[int]]:
    """Join each group with the next longer group of as many rows, if the padding is small. Keys:
    bits of the number of rows and of the KV length."""
    groups: list[list[int]] = []
    last_rows = 0

    for (rows, _), members in sorted(alike.items()):
        if rows == last_rows:
            shorter = groups[-1]
            missing = max(lengths[i] for i in members) - max(lengths[i] for i in shorter)
            if missing * len(shorter) <= PADDED_READS:
                members = sorted(groups.pop() + members)
        groups.append(members)
        last_rows = rows
    return groups


def _worth_sharing(rows: int, tokens: int) -> bool:
    return tokens >= SHARED_TOKENS and (rows - 1) * tokens >= SHARED_READS_SAVED


def _gather(rows: KVRows, task: Task) -> Tensor:
    """[N, heads, L, dim] of the task's slots."""
    if task.run is not None:
        return rows.read(task.run).transpose(0, 1)[None]
    return rows.read(task.slots.flatten()).unflatten(0, task.slots.shape).transpose(1, 2)


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _weight(part: Tensor, whole: Tensor) -> Tensor:
    """exp(part - whole), 0 for rows without visible tokens."""
    return torch.exp(part - torch.where(whole == -torch.inf, 0.0, whole))[..., None]
