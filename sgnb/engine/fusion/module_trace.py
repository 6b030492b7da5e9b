"""A run of a model, module by module, and whether a faster forward would have given the same. Knows
no pattern."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from ..attention import LayerOptions
from ..cache.kv_cache import KVCache
from ..device.faults import is_out_of_memory

_log = logging.getLogger(__name__)

ROWS = (80, 2)
"""Tokens of the runs: more than skinny GEMMs take, and as few as all of them do, see `skinny`."""

TOLERANCE = 1e-4
"""Relative error of two ways to compute the same in float32; in a coarser dtype four roundings."""

GAIN, GAIN_ROWS = 8, 20
"""How much less a common factor may differ from 1 than single numbers from each other, from this
many rows on (all dimensions but the last). In few rows rounding may make one: that of the weight of
an expert, where one row outweighs the others."""


class ModuleCall(NamedTuple):
    """Of a module."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any


class TracingBackend:
    """Stands in for an attention backend: keeps q, k and v. Every row gives the mean of the values
    up to its own.

    Scores would turn small differences of q and k, which are compared as they are, into large ones
    of the result. kv and new_slots are as in a backend: the rows lie backwards in a pool of their
    own.
    """

    def __init__(self, rows: int, dtype: torch.dtype, device: torch.device) -> None:
        self.kv, self._dtype = KVCache({}, rows, dtype, device), dtype
        self.new_slots = torch.arange(rows - 1, -1, -1, device=device)
        self.queries: dict[int, Tensor] = {}

    def store(self, layer: int, k: Tensor, v: Tensor) -> None:
        for pools, new in ((self.kv.keys, k), (self.kv.values, v)):
            pool = pools.setdefault(layer, new.new_zeros(len(new) + 1, *new.shape[1:]))
            pool.index_copy_(0, self.new_slots, new)

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor:
        self.queries[layer] = q.clone()
        v = self.kv.values[layer][self.new_slots]
        seen = torch.arange(1, len(v) + 1, device=v.device)[:, None, None]
        means = (v.float().cumsum(0) / seen).to(v.dtype)
        return means.repeat_interleave(q.shape[1] // v.shape[1], 1)

    def blank(self) -> TracingBackend:
        """The same with nothing in the pool."""
        other = TracingBackend(len(self.new_slots), self._dtype, self.kv.device)
        for mine, its in ((self.kv.keys, other.kv.keys), (self.kv.values, other.kv.values)):
            its.update({layer: torch.zeros_like(pool) for layer, pool in mine.items()})
        return other

    def handed(self, layer: int) -> tuple[Tensor, ...]:
        """q, k and v of a layer, [T, heads, dim] each."""
        pools = (self.kv.keys[layer], self.kv.values[layer])
        return self.queries[layer], *(pool[self.new_slots] for pool in pools)


def position_limit(config: Any) -> int:
    """How many positions a model was made for; 0 where its config names no number."""
    names = "max_position_embeddings", "n_positions", "max_target_positions"
    limits = (getattr(config, name, None) or 0 for name in names)
    return next((int(limit) for limit in limits if limit > 0), 0)


class ModuleTrace:
    """What went in and out of modules in runs of random tokens, at positions over all of the
    context: there are models that scale by the position.

    calls[module]: in order. trusts: every forward that takes them agrees.
    """

    def __init__(self, model: nn.Module, modules: Iterable[nn.Module]) -> None:
        """The model's forwards must hand k and v to `store`, as its own do: that shows how large a
        pool is."""
        self.calls: dict[nn.Module, list[ModuleCall]] = {module: [] for module in modules}
        self.trusts = False
        self._model = model
        first = next(model.parameters())
        self._dtype = first.dtype
        self._backends = {rows: TracingBackend(rows, first.dtype, first.device) for rows in ROWS}
        with _hooked(self.calls, self._keep):
            self.run()

    def run(self) -> None:
        """Run the model again. Its forwards may be others now, and write to the pool by
        themselves."""
        for rows in ROWS:
            self._run(rows)

    def _run(self, rows: int) -> Tensor:
        """The logits."""
        config: Any = self._model.config.get_text_config()  # type: ignore[operator, union-attr]
        step = math.log(position_limit(config) or 1 << 12) / (rows - 1)
        positions = torch.tensor([[round(math.expm1(step * i)) for i in range(rows)]])
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(config.vocab_size, (1, rows), generator=generator)

        backend = self._backends[rows] = self._backends[rows].blank()
        device = backend.kv.device
        inputs = {"input_ids": ids.to(device), "position_ids": positions.to(device)}
        with torch.inference_mode():
            return self._model(**inputs, use_cache=False, sgnb=backend).logits

    def may_overwrite_inputs(self, layers: list[nn.Module]) -> bool:
        """Whether nothing reads a layer's input after the layer: with NaN put there, none comes out
        of a run."""
        with _hooked(layers, _spoil_input):
            return bool(self._run(ROWS[-1]).isfinite().all())

    def trustful(self) -> ModuleTrace:
        """The same calls, content with whatever numbers a forward gives: in a `precompiling` block
        they have no meaning."""
        twin = copy(self)
        twin.trusts = True
        return twin

    def _keep(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        self.calls[module].append(ModuleCall(args, kwargs, output))

    def error(
        self,
        module: nn.Module,
        forward: Callable[..., Any],
        layer: int | None = None,
        *,
        median: bool = False,
    ) -> float:
        """Relative error of `forward` in the place of the module's own: of its output, and with a
        `layer` of q, k, v.

        Infinite when the module never ran, or `forward` cannot take or give what the module does.
        median: that of the median row, for modules that choose by row (routers): where two choices
        are near, rounding decides, and the row is lost. Out of memory is raised: it says nothing of
        the module.
        """
        relative = _no_error if self.trusts else _median_error if median else _whole_error
        try:
            with torch.inference_mode():
                errors = [_replay(call, forward, layer, relative) for call in self.calls[module]]
        except Exception as error:  # whatever comes of a module that only looks like the pattern
            if is_out_of_memory(error):
                raise
            _log.debug("%s keeps its own forward: %r", type(module).__name__, error)
            return math.inf
        return max(errors, default=math.inf)

    def agrees(
        self,
        module: nn.Module,
        forward: Callable[..., Any],
        layer: int | None = None,
        *,
        median: bool = False,
    ) -> bool:
        """Return True if `error` is within the rounding of the model's dtype."""
        error = self.error(module, forward, layer, median=median)
        bound = tolerance(self._dtype)
        if bound < error < math.inf:
            message = "%s keeps its own forward: the fused forward is off by %.3g, of %.3g"
            _log.debug(message, type(module).__name__, error, bound)
        return error <= bound


@contextmanager
def _hooked(modules: Iterable[nn.Module], hook: Callable[..., None]) -> Iterator[None]:
    handles = [module.register_forward_hook(hook, with_kwargs=True) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _spoil_input(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> None:
    (args[0] if args else kwargs["hidden_states"]).fill_(math.nan)


def tolerance(dtype: torch.dtype) -> float:
    return max(TOLERANCE, 4 * torch.finfo(dtype).eps)


_Error = Callable[[Tensor, Tensor], float]


def _replay(
    call: ModuleCall, forward: Callable[..., Any], layer: int | None, relative: _Error
) -> float:
    """Inputs are cloned: a fused forward may write to them."""
    args, kwargs = tree_map_only(Tensor, Tensor.clone, (call.args, call.kwargs))
    backend: Any = kwargs.get("sgnb")
    if backend is not None:
        kwargs["sgnb"] = mine = backend.blank()
    errors = _errors(forward(*args, **kwargs), call.output, relative)
    if layer is not None:
        errors += _errors(mine.handed(layer), backend.handed(layer), relative)
    return math.inf if any(math.isnan(error) for error in errors) else max(errors)


def _errors(mine: Any, its: Any, relative: _Error) -> list[float]:
    """Of each tensor in two outputs, which must be made alike: attention gives its result and
    None."""
    if type(mine) is not type(its):
        return [math.inf]
    if isinstance(its, Tensor):
        alike = (mine.shape, mine.dtype) == (its.shape, its.dtype)
        return [relative(mine.float(), its.float()) if alike else math.inf]
    if its is None:
        return []
    return [error for pair in zip(mine, its, strict=True) for error in _errors(*pair, relative)]


def _no_error(mine: Tensor, its: Tensor) -> float:
    return 0.0


def _whole_error(mine: Tensor, its: Tensor) -> float:
    """Of the norms, or `GAIN` times that of the best common factor: rounding makes none, a twist
    may."""
    square = its.square().sum().clamp(min=1e-30)
    gain = (mine * its).sum() / square - 1
    rows = its[..., 0].numel() if its.dim() else 1
    weight = GAIN * min(1.0, rows / GAIN_ROWS)
    return float(torch.maximum(((mine - its).square().sum() / square).sqrt(), weight * gain.abs()))


def _median_error(mine: Tensor, its: Tensor) -> float:
    return float(((mine - its).norm(dim=-1) / its.norm(dim=-1).clamp(min=1e-30)).median())
