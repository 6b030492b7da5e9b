"""Batched execution of recurrent layers (linear attention, state space, short convolution) through
transformers' modules, which `mixer_probe.py` finds at load. Knows no model family.

Each mixer runs once per group of texts, with states gathered from the pool and scattered back; the
state of a single text is computed in the pool. The texts of a group have equal lengths, or are
padded on the left as by transformers' `generate`: the state stays zero until the first token.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..cache.checkpoints import StatePlan
from ..cache.state_pool import StatePool
from ..device.transfer import pinned, to_device
from ..step_input import Spans
from .mixer import LayerStates, Mixer, OneLayerCache, joined

MOST_PADDING = 2
"""Texts are padded to at most this multiple of their length."""

_here = threading.local()  # states: StepStates of the thread's running step


class Padding(NamedTuple):
    """Positions of the tokens of a padded group."""

    mask: Tensor  # 1 for tokens, 0 for padding, int64[texts, length]
    tokens: Tensor  # indices of tokens in the flattened mask
    rows: Tensor  # row of each token in the step


class Group(NamedTuple):
    """Texts with equal numbers of tokens in a step, or between two states of a step."""

    # rows of the step, int64[texts * length]; padding repeats a row. None: all rows are of one text
    rows: slice | Tensor | None
    length: int
    fresh: bool  # texts begin here, without a state
    read: slice | Tensor  # initial states, int64[texts]; a slice of a single text
    written: slice | Tensor  # final states, as `read`; a slice is updated in place
    padding: Padding | None = None


class Stretch(NamedTuple):
    """Tokens of a text in a step, up to the next state."""

    row: int  # first row of the step
    length: int
    read: int  # state before
    written: int  # state after


Stretches = dict[tuple[int, int, bool], list[Stretch]]
"""Stretches by (turn in their text, length, fresh)."""


class StepStates:
    """State indices read and written by the texts of a step.

    Args:
        pool: The states.
        pads: All mixers support padding.
    """

    def __init__(self, pool: StatePool, pads: bool) -> None:
        self.pool, self._pads = pool, pads
        self.groups: list[Group] = []
        self._indices = torch.empty(2, 0, dtype=torch.int64)

    def reserve(self, rows: int) -> None:
        """Set the maximum number of rows. Call before the first padded step."""
        size, device = (2, rows), self.pool.device
        self._indices = torch.full(size, self.pool.scratch, dtype=torch.int64, device=device)

    def plan(self, plans: Sequence[StatePlan], spans: Spans, padded: int | None = None) -> None:
        """Prepare a step.

        Args:
            plans: States of each text.
            spans: Rows of each text.
            padded: Number of rows after padding of a step with one token per text. Kernel launches
                then depend only on this number.
        """
        if padded is not None:
            indices = np.full((2, padded), self.pool.scratch, np.int64)
            indices[0, : len(plans)] = [plan.read for plan in plans]
            indices[1, : len(plans)] = [plan.written[-1][1] for plan in plans]
            self._indices[:, :padded].copy_(pinned(indices, self.pool.device), non_blocking=True)
            read, written = self._indices[:, :padded]
            self.groups = [Group(slice(0, padded), 1, False, read, written)]
            return
        # A stretch between two states of a text depends on the preceding stretch.
        stretches: Stretches = {}
        columns = plans, spans.starts.tolist(), spans.first_rows.tolist()
        rows = zip(*columns, strict=True)
        for (state, written), start, row in rows:
            begin = start
            for turn, (end, into) in enumerate(written):
                length = end - begin
                kind = turn, length, begin == 0 and length > 1
                stretches.setdefault(kind, []).append(
                    Stretch(row + begin - start, length, state, into)
                )
                begin, state = end, into

        if self._pads:
            stretches = _merge_fresh(stretches)
        self.groups = [
            self._group(length, fresh, members, spans.num_tokens)
            for (_, length, fresh), members in sorted(stretches.items())
        ]

    def _group(self, length: int, fresh: bool, members: list[Stretch], num_tokens: int) -> Group:
        if len(members) == 1:
            ((row, _, *states),) = members
            read, written = (slice(state, state + 1) for state in states)
            rows = None if length == num_tokens else slice(row, row + length)
            return Group(rows, length, fresh, read, written)

        firsts, lengths, *states = np.array(members, np.int64).T
        device = self.pool.device
        read, written = to_device(np.stack(states), device)
        if (lengths < length).any():
            columns = np.arange(length) - (length - lengths[:, None])
            is_token = columns >= 0
            rows = firsts[:, None] + columns.clip(0)
            tokens = is_token.ravel().nonzero()[0]
            padding = Padding(
                to_device(is_token.astype(np.int64), device),
                to_device(tokens, device),
                to_device(rows.ravel()[tokens], device),
            )
            return Group(to_device(rows.ravel(), device), length, fresh, read, written, padding)
        if (np.diff(firsts) == length).all():
            contiguous = slice(int(firsts[0]), int(firsts[-1]) + length)
            return Group(contiguous, length, fresh, read, written)
        rows = (firsts[:, None] + np.arange(length)).ravel()
        return Group(to_device(rows, device), length, fresh, read, written)


def _merge_fresh(stretches: Stretches) -> Stretches:
    """Merge groups of fresh texts with similar lengths."""
    merged: Stretches = {}
    longest = 0
    for (turn, length, fresh), members in sorted(stretches.items(), reverse=True):
        size = length
        if fresh:
            size = longest if length * MOST_PADDING >= longest > 0 else length
            longest = size
        merged.setdefault((turn, size, fresh), []).extend(members)
    return {kind: sorted(members) for kind, members in merged.items()}


@contextmanager
def serving(states: StepStates | None) -> Iterator[None]:
    """Let mixers on this thread compute the step planned by `states`."""
    _here.states = states
    try:
        yield
    finally:
        _here.states = None


def use_pool(mixers: list[Mixer], undo: ExitStack) -> None:
    """Let mixers use the pool of the step in `serving`; outside a step mixers are unchanged."""
    for mixer in mixers:
        forward = mixer.module.forward
        names = [name for name in inspect.signature(forward).parameters if _is_named(forward, name)]
        tokenwise = frozenset(name for name in names if not name.endswith("mask"))
        mixer.module.forward = partial(_forward, mixer, forward, names, tokenwise)
        undo.callback(delattr, mixer.module, "forward")


def _forward(
    mixer: Mixer,
    forward: Callable[..., Any],
    names: list[str],
    tokenwise: frozenset[str],
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Replacement for a mixer's `forward`; tensors are [1, T, ...].

    Args:
        names: Arguments of `forward`.
        tokenwise: The arguments except masks.
    """
    states: StepStates | None = getattr(_here, "states", None)
    if states is None:
        return forward(*args, **kwargs)
    given = dict(zip(names, args, strict=False)) | kwargs
    call_arguments = {name: value for name, value in given.items() if name in tokenwise}
    if states.groups[0].rows is None:
        return _compute(mixer, forward, states.pool, states.groups[0], call_arguments)

    outputs: list[Any] = []
    for group in states.groups:
        arguments = {name: _of_group(value, group) for name, value in call_arguments.items()}
        if group.padding is not None:
            arguments[mixer.mask_name] = group.padding.mask
        outputs.append(_compute(mixer, forward, states.pool, group, arguments))
    if not isinstance(outputs[0], tuple):
        return _of_step(outputs, states.groups)
    return tuple(_of_step(column, states.groups) for column in zip(*outputs, strict=True))


def _compute(
    mixer: Mixer,
    forward: Callable[..., Any],
    pool: StatePool,
    group: Group,
    arguments: dict[str, Any],
) -> Any:
    """Run `forward` on the group with states from the pool."""
    tensors = pool.tensors[mixer.layer]
    states = _initial_states(tensors, group)
    layer = LayerStates(mixer.shapes, states, not group.fresh)
    arguments[mixer.cache_name] = OneLayerCache(layer)
    if group.fresh or group.length == 1 or mixer.continues:
        output = forward(**arguments)
    else:
        output = joined([forward(**_token(arguments, i)) for i in range(group.length)])
    for tensor, before, after in zip(tensors, states, layer.now(mixer.shapes), strict=True):
        if not isinstance(group.written, slice):
            tensor.index_copy_(0, group.written, after.to(tensor.dtype))
        elif after is not before:
            before.copy_(after)
    return output


def _initial_states(tensors: list[Tensor], group: Group) -> list[Tensor]:
    """Return the states that the group reads and may overwrite. Fresh texts write without a read,
    so their states are uninitialized."""
    read, written = group.read, group.written
    if isinstance(read, slice):
        states = [tensor[written] for tensor in tensors]
        for tensor, state in zip(tensors, states, strict=True):
            if not group.fresh:
                state.copy_(tensor[read])
        return states
    if group.fresh:
        return [tensor.new_empty(len(read), *tensor.shape[1:]) for tensor in tensors]
    return [tensor.index_select(0, read) for tensor in tensors]


def _token(arguments: dict[str, Any], index: int) -> dict[str, Any]:
    """Select token `index` of tensors [texts, length, ...]."""
    return {
        name: value[:, index : index + 1] if isinstance(value, Tensor) else value
        for name, value in arguments.items()
    }


def _of_step(outputs: Sequence[Any], groups: list[Group]) -> Any:
    """Merge group outputs [texts, length, ...] into [1, T, ...]; non-tensors pass through."""
    if not isinstance(outputs[0], Tensor):
        return outputs[0]
    flat = []
    for group, output in zip(groups, outputs, strict=True):
        rows, padding = output.flatten(0, 1), group.padding
        flat.append(rows if padding is None else rows.index_select(0, padding.tokens))
    if len(groups) == 1:
        return flat[0][None]
    step = flat[0].new_empty(sum(map(len, flat)), *flat[0].shape[1:])
    for group, rows in zip(groups, flat, strict=True):
        step[group.rows if group.padding is None else group.padding.rows] = rows
    return step[None]


def _of_group(value: Any, group: Group) -> Any:
    """Select the group's rows of tensors [1, T, ...] as [texts, length, ...]; other values pass
    through."""
    if isinstance(value, tuple):
        return tuple(_of_group(each, group) for each in value)
    if isinstance(value, Tensor) and value.dim() > 1 and value.shape[0] == 1:
        return value[0, group.rows].unflatten(0, (-1, group.length))
    return value


def _is_named(function: Callable[..., Any], name: str) -> bool:
    kind = inspect.signature(function).parameters[name].kind
    return kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
