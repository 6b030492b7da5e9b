"""Batched execution of recurrent layers (linear attention, state space, short convolution) through
transformers' modules. Knows transformers' recurrent cache; knows no model family.

A mixer is a module that reads the last state from the cache and writes the next state. A pass over
a few tokens at load finds the mixers, the state shapes, and support for multi-token continuation.
In service, each mixer runs once per group of equal-length texts, with states gathered from the pool
and scattered back.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import Cache, LinearAttentionCacheLayerMixin, LinearAttentionLayer

from ..cache.checkpoints import StatePlan
from ..cache.state_pool import StatePool, States, StateShape
from ..device.transfer import pinned, to_device
from ..step_input import Spans

CACHE_NAMES = ("cache", "cache_params", "past_key_values")
"""Names of the cache argument; transformers 5.24 renamed the other two to `cache`."""

TOKENS = 5
"""Length of the test text, computed at once and token by token."""

SCALES = (1.0, 1e2, 1e4)
SHOWS = 0.1
"""Random states are scaled up until the relative change of the output reaches this share."""

DIFFERS = 0.3
"""Tolerated difference between both computations relative to the change; an ignored state gives 1.
"""

_here = threading.local()  # states: StepStates of the thread's running step


@dataclass(frozen=True)
class Mixer:
    """Module with a recurrent state."""

    module: nn.Module
    layer: int
    cache_name: str
    shapes: list[StateShape]
    continues: bool  # supports several tokens at once after a state


class Group(NamedTuple):
    """Texts with equal numbers of tokens in a step, or between two states of a step."""

    rows: slice | Tensor  # rows of the step, int64[texts * length]
    length: int
    fresh: bool  # texts begin here, without a state
    read: Tensor  # initial states, int64[texts]
    written: Tensor  # final states, int64[texts]


class StepStates:
    """State indices read and written by the texts of a step."""

    def __init__(self, pool: StatePool) -> None:
        self.pool = pool
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
        # A piece between two states of a text depends on the preceding piece.
        pieces: dict[tuple[int, int, bool], list[tuple[int, int, int]]] = {}
        columns = plans, spans.starts.tolist(), spans.first_rows.tolist()
        rows = zip(*columns, strict=True)
        for (state, written), start, row in rows:
            begin = start
            for turn, (end, into) in enumerate(written):
                length = end - begin
                kind = turn, length, begin == 0 and length > 1
                pieces.setdefault(kind, []).append((row + begin - start, state, into))
                begin, state = end, into

        self.groups = [
            self._group(length, fresh, np.array(members, np.int64).T.copy())
            for (_, length, fresh), members in sorted(pieces.items())
        ]

    def _group(self, length: int, fresh: bool, members: NDArray[np.int64]) -> Group:
        firsts = members[0]
        if bool((np.diff(firsts) == length).all()):
            rows: slice | Tensor = slice(int(firsts[0]), int(firsts[-1]) + length)
        else:
            rows = to_device((firsts[:, None] + np.arange(length)).ravel(), self.pool.device)
        read, written = to_device(members[1:], self.pool.device)
        return Group(rows, length, fresh, read, written)


@contextmanager
def serving(states: StepStates | None) -> Iterator[None]:
    """Let mixers on this thread compute the step planned by `states`."""
    _here.states = states
    try:
        yield
    finally:
        _here.states = None


def find_mixers(model: PreTrainedModel) -> list[Mixer]:
    """Return the model's mixers by layer. Raises ValueError for a state outside transformers'
    cache; errors of the model's code pass through."""
    call_arguments = own_cache(model)
    (cache,) = call_arguments.values()
    stateful = {
        layer: states
        for layer, states in enumerate(cache.layers)
        if isinstance(states, LinearAttentionCacheLayerMixin)
    }
    if not stateful:
        return []
    running: list[nn.Module] = []
    by_layer: dict[int, nn.Module] = {}
    widths: dict[nn.Module, int] = {}

    def begin(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        running.append(module)
        widths[module] = _input_width(module, args, kwargs)

    with ExitStack() as undo:
        for module in model.modules():
            if _cache_name(module) is not None:
                pre_hook = module.register_forward_pre_hook(begin, with_kwargs=True)
                post_hook = module.register_forward_hook(lambda m, *_: _pop(running))
                undo.callback(pre_hook.remove)
                undo.callback(post_hook.remove)
        for layer, states in stateful.items():
            _watch(states, partial(_note, by_layer, running, layer))
        ids = torch.zeros(1, TOKENS, dtype=torch.long, device=model.device)
        with torch.inference_mode():
            model(input_ids=ids, use_cache=True, **call_arguments)
    mixers = []
    continues: dict[type, bool] = {}
    for layer, module in sorted(by_layer.items()):
        shapes, kind = _shapes(stateful[layer]), type(module)
        name = _cache_name(module) or ""
        if kind not in continues:
            continues[kind] = _continues(module, name, shapes, widths[module])
        mixers.append(Mixer(module, layer, name, shapes, continues[kind]))
    return mixers


def own_cache(model: PreTrainedModel) -> dict[str, DynamicCache]:
    """Return an empty transformers cache under the model's argument name."""
    name = _cache_name(model) or "past_key_values"
    return {name: DynamicCache(config=model.config.get_text_config(decoder=True))}


def shapes_of(mixers: list[Mixer]) -> States:
    return {mixer.layer: mixer.shapes for mixer in mixers}


def use_pool(mixers: list[Mixer], undo: ExitStack) -> None:
    """Let mixers use the pool of the step in `serving`; outside a step mixers are unchanged."""
    for mixer in mixers:
        forward = mixer.module.forward
        names = [name for name in inspect.signature(forward).parameters if _is_named(forward, name)]
        mixer.module.forward = partial(_forward, mixer, forward, names)
        undo.callback(delattr, mixer.module, "forward")


def _forward(
    mixer: Mixer, forward: Callable[..., Any], names: list[str], *args: Any, **kwargs: Any
) -> Any:
    """Replacement for a mixer's `forward`; tensors are [1, T, ...]."""
    states: StepStates | None = getattr(_here, "states", None)
    if states is None:
        return forward(*args, **kwargs)
    call_arguments = dict(zip(names, args, strict=False)) | {
        k: v for k, v in kwargs.items() if k in names
    }
    call_arguments = {
        name: value for name, value in call_arguments.items() if not name.endswith("mask")
    }

    outputs: list[Any] = []
    for group in states.groups:
        arguments = {name: _of_group(value, group) for name, value in call_arguments.items()}
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
    states = [tensor.index_select(0, group.read) for tensor in tensors]
    layer = _Layer(mixer.shapes, states, not group.fresh)
    arguments[mixer.cache_name] = _OneLayer(layer)
    if group.fresh or group.length == 1 or mixer.continues:
        output = forward(**arguments)
    else:
        output = _joined([forward(**_token(arguments, i)) for i in range(group.length)])
    for tensor, state in zip(tensors, layer.now(mixer.shapes), strict=True):
        tensor.index_copy_(0, group.written, state.to(tensor.dtype))
    return output


def _token(arguments: dict[str, Any], index: int) -> dict[str, Any]:
    """Select token `index` of tensors [texts, length, ...]."""
    return {
        name: value[:, index : index + 1] if isinstance(value, Tensor) else value
        for name, value in arguments.items()
    }


def _joined(outputs: list[Any]) -> Any:
    """Concatenate the outputs of single tokens."""
    if isinstance(outputs[0], tuple):
        return tuple(_joined(list(column)) for column in zip(*outputs, strict=True))
    return torch.cat(outputs, 1) if isinstance(outputs[0], Tensor) else outputs[0]


def _of_step(outputs: Sequence[Any], groups: list[Group]) -> Any:
    """Merge group outputs [texts, length, ...] into [1, T, ...]; non-tensors pass through."""
    if not isinstance(outputs[0], Tensor):
        return outputs[0]
    flat = [output.flatten(0, 1) for output in outputs]
    if len(groups) == 1:
        return flat[0][None]
    rows = flat[0].new_empty(sum(map(len, flat)), *flat[0].shape[1:])
    for group, output in zip(groups, flat, strict=True):
        rows[group.rows] = output
    return rows[None]


def _of_group(value: Any, group: Group) -> Any:
    """Select the group's rows of tensors [1, T, ...] as [texts, length, ...]; other values pass
    through."""
    if isinstance(value, tuple):
        return tuple(_of_group(each, group) for each in value)
    if isinstance(value, Tensor) and value.dim() > 1 and value.shape[0] == 1:
        return value[0, group.rows].unflatten(0, (-1, group.length))
    return value


class _Layer(LinearAttentionLayer):
    """States of several texts in one layer, in the form of transformers' cache."""

    conv_states: dict[int, Any]
    recurrent_states: dict[int, Any]

    def __init__(self, shapes: list[StateShape], states: list[Tensor], has_previous: bool) -> None:
        super().__init__(1 + max(shape.number for shape in shapes))
        for shape, state in zip(shapes, states, strict=True):
            if shape.kind == "conv":
                self.conv_states[shape.number] = state
                self.is_conv_states_initialized[shape.number] = True
                self.conv_kernel_size[shape.number] = state.shape[-1]
            else:
                self.recurrent_states[shape.number] = state
                self.is_recurrent_states_initialized[shape.number] = True
            self.has_previous_state[shape.number] = has_previous

    def update_recurrent_state(
        self, recurrent_states: Tensor, state_idx: int = 0, **kwargs: Any
    ) -> Tensor:
        self.recurrent_states[state_idx] = recurrent_states
        return recurrent_states

    def now(self, shapes: list[StateShape]) -> list[Tensor]:
        """Return the current states in the order of `shapes`."""
        kinds = {"conv": self.conv_states, "recurrent": self.recurrent_states}
        return [kinds[shape.kind][shape.number] for shape in shapes]


class _Everywhere(list[LinearAttentionLayer]):
    """List with the same layer at every index."""

    def __init__(self, layer: LinearAttentionLayer) -> None:
        super().__init__([layer])

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(0)

    def __len__(self) -> int:
        return 1 << 20


class _OneLayer(Cache):
    """Cache of the running layer only."""

    def __init__(self, layer: LinearAttentionLayer) -> None:
        self.layers: Any = _Everywhere(layer)


def _continues(module: nn.Module, name: str, shapes: list[StateShape], width: int) -> bool:
    """Compare one call over several tokens with single-token calls, by the output change due to
    random states. A split text would not show a difference, because some layers forget early
    tokens. width: last dimension of the module's input."""
    weight = next(module.parameters())
    generator = torch.Generator().manual_seed(0)

    def draw(*size: int) -> Tensor:
        return torch.randn(size, generator=generator).to(weight.device)

    text = draw(1, TOKENS, width).to(weight.dtype)
    random = [draw(1, *shape.shape) for shape in shapes]

    def compute(kind: str, scale: float, *parts: Tensor) -> Tensor:
        states = [
            (state * (scale if shape.kind == kind else 0)).to(shape.dtype)
            for shape, state in zip(shapes, random, strict=True)
        ]
        cache = _OneLayer(_Layer(shapes, states, True))
        outputs = _joined([module(part, **{name: cache}) for part in parts])
        every = outputs if isinstance(outputs, tuple) else (outputs,)
        return torch.cat([each.float().flatten(2) for each in every if isinstance(each, Tensor)], 2)

    with torch.inference_mode():
        for kind in {shape.kind for shape in shapes}:
            for scale in SCALES:
                expected = compute(kind, scale, *text.split(1, 1))
                effect = (expected - compute(kind, 0, *text.split(1, 1))).norm()
                if effect > SHOWS * expected.norm():
                    break
            if not (compute(kind, scale, text) - expected).norm() < DIFFERS * effect:
                return False
    return True


def _input_width(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Return the last dimension of the first argument: a module's first projection can be
    narrower or wider than its input."""
    first = next(iter(inspect.signature(module.forward).parameters))
    hidden = args[0] if args else kwargs.get(first)
    return hidden.shape[-1] if isinstance(hidden, Tensor) else 0


def _shapes(states: LinearAttentionCacheLayerMixin) -> list[StateShape]:
    kinds = (("conv", states.conv_states), ("recurrent", states.recurrent_states))
    return [
        StateShape(kind, index, tuple(tensor.shape[1:]), tensor.dtype)
        for kind, tensors in kinds
        for index, tensor in tensors.items()
        if tensor is not None
    ]


def _watch(states: Any, note: Callable[[], None]) -> None:
    """Call `note` whenever the layer's states are updated."""

    def noting(update: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        note()
        return update(*args, **kwargs)

    for name in ("update_conv_state", "update_recurrent_state"):
        setattr(states, name, partial(noting, getattr(states, name)))


def _note(by_layer: dict[int, nn.Module], running: list[nn.Module], layer: int) -> None:
    if not running:
        raise ValueError(f"layer {layer} keeps its state outside of its modules")
    if by_layer.setdefault(layer, running[-1]) is not running[-1]:
        raise ValueError(f"layer {layer} has more than one module with a state")


def _pop(running: list[nn.Module]) -> None:
    running.pop()


def _cache_name(module: nn.Module) -> str | None:
    return next((name for name in CACHE_NAMES if _takes(module, name)), None)


def _takes(module: nn.Module, name: str) -> bool:
    return name in inspect.signature(module.forward).parameters


def _is_named(function: Callable[..., Any], name: str) -> bool:
    kind = inspect.signature(function).parameters[name].kind
    return kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
