"""Trace of a model, module by module, and comparison of fused forwards with the trace. Knows no
patterns."""

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
from .reduction import Ranks
from .scaled_products import exact_inputs

_log = logging.getLogger(__name__)

ROWS = (80, 2)
"""Tokens of the runs: more than the maximum of skinny GEMMs of dense weights, and few."""

TOLERANCE = 1e-4
"""Tolerated relative error in float32; in half precision four roundings."""

GAIN, GAIN_ROWS = 8, 20
"""Weight of a common factor of all numbers, and the number of rows for the full weight. Rounding
hardly scales many rows, but a changed module may. In a few rows, rounding may scale: the weight of
an expert, if a single row dominates."""


class ModuleCall(NamedTuple):
    """Call of a module."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any


class TracingBackend:
    """Stand-in for an attention backend that records q, k and v. A row's result is the mean of the
    values up to the row.

    Real scores would amplify small differences of q and k, which are compared directly. kv and
    new_slots are as in a backend, with rows in reverse order in a separate pool.
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
        counts = torch.arange(1, len(v) + 1, device=v.device)[:, None, None]
        means = (v.float().cumsum(0) / counts).to(v.dtype)
        return means.repeat_interleave(q.shape[1] // v.shape[1], 1)

    def blank(self) -> TracingBackend:
        """Return a backend of equal shapes with an empty pool."""
        other = TracingBackend(len(self.new_slots), self._dtype, self.kv.device)
        for mine, its in ((self.kv.keys, other.kv.keys), (self.kv.values, other.kv.values)):
            its.update({layer: torch.zeros_like(pool) for layer, pool in mine.items()})
        return other

    def handed(self, layer: int) -> tuple[Tensor, ...]:
        """Return q, k and v of a layer, [T, heads, dim] each."""
        pools = (self.kv.keys[layer], self.kv.values[layer])
        return self.queries[layer], *(pool[self.new_slots] for pool in pools)


def position_limit(config: Any) -> int:
    """Return the number of positions of a model's context; 0 if the config names no number."""
    names = "max_position_embeddings", "n_positions", "max_target_positions"
    limits = (getattr(config, name, None) or 0 for name in names)
    return next((int(limit) for limit in limits if limit > 0), 0)


class ModuleTrace:
    """Inputs and outputs of modules for random tokens at positions spread over the context, because
    some models scale by position, and of modules of encoders for samples.

    calls[module]: calls in order. trusts: accept every forward that runs without an error.
    """

    def __init__(
        self,
        model: nn.Module,
        modules: Iterable[nn.Module],
        encode: Callable[[], object] | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        """Run the model, and the encoders of a multimodal model with `encode`. The original
        forwards must pass k and v to `store`, to size the pool. ranks: agree on each error."""
        self._ranks = ranks
        self.calls: dict[nn.Module, list[ModuleCall]] = {module: [] for module in modules}
        self.trusts = False
        self._model = model
        first = next(model.parameters())
        self._dtype = first.dtype
        self._backends = {rows: TracingBackend(rows, first.dtype, first.device) for rows in ROWS}
        with _hooked(self.calls, self._keep):
            self.run()
            if encode is not None:
                encode()

    def run(self) -> None:
        """Run the model again. Replaced forwards may write to the pool directly."""
        for rows in ROWS:
            self._run(rows)

    def _run(self, rows: int) -> Tensor:
        """Run the model on `rows` fixed random tokens with a new tracing backend.

        Returns:
            The logits, [1, rows, vocabulary].
        """
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
        """True if no module reads a layer's input later: NaN does not reach the logits."""
        with _hooked(layers, _spoil_input):
            return bool(self._run(ROWS[-1]).isfinite().all())

    def trustful(self) -> ModuleTrace:
        """Return a trace that accepts every result: in a `precompiling` block numbers have no
        meaning."""
        trace = copy(self)
        trace.trusts = True
        return trace

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
        """Return the relative error of `forward` to the module: of the output, and of q, k and v
        with `layer`.

        The error is infinite if the module never ran, or inputs or outputs do not fit. Out of
        memory is raised, because the module is not to blame.

        Args:
            median: Use the median row, for routers: near ties, rounding decides, and rows differ.
        """
        relative = _no_error if self.trusts else _median_error if median else _whole_error
        try:
            with torch.inference_mode(), exact_inputs():
                errors = [_replay(call, forward, layer, relative) for call in self.calls[module]]
        except Exception as error:  # any error of a module that only resembles the pattern
            if is_out_of_memory(error):
                raise
            _log.debug("%s keeps its own forward: %r", type(module).__name__, error)
            errors = [math.inf]
        worst = max(errors, default=math.inf)
        return worst if self._ranks is None else self._ranks.largest(worst)

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
    """Return the largest error of a call. Clones inputs: a fused forward may overwrite inputs."""
    args, kwargs = tree_map_only(Tensor, Tensor.clone, (call.args, call.kwargs))
    backend: Any = kwargs.get("sgnb")
    if backend is not None:
        kwargs["sgnb"] = mine = backend.blank()
    errors = _errors(forward(*args, **kwargs), call.output, relative)
    if layer is not None:
        errors += _errors(mine.handed(layer), backend.handed(layer), relative)
    return math.inf if any(math.isnan(error) for error in errors) else max(errors)


def _errors(mine: Any, its: Any, relative: _Error) -> list[float]:
    """Return the error of each tensor in two outputs of equal structure, such as (result, None)."""
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
    """Return the relative error of the norm, or the weighted error of the best common factor."""
    square = its.square().sum().clamp(min=1e-30)
    gain = (mine * its).sum() / square - 1
    rows = its[..., 0].numel() if its.dim() else 1
    weight = GAIN * min(1.0, rows / GAIN_ROWS)
    return float(torch.maximum(((mine - its).square().sum() / square).sqrt(), weight * gain.abs()))


def _median_error(mine: Tensor, its: Tensor) -> float:
    return float(((mine - its).norm(dim=-1) / its.norm(dim=-1).clamp(min=1e-30)).median())
