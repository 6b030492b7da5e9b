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

from ..attention import LayerOptions
from ..cache.kv_cache import KVCache
from ..device.errors import is_out_of_memory

_log = logging.getLogger(__name__)

ROWS = (80, 2)
"""Tokens of the runs: more than the kernels for few rows take, and so few that some of them sum,
see `skinny`."""

TOLERANCE = 1e-4
"""Relative error that two ways to compute the same in float32 may have; four roundings in a coarser
dtype."""

GAIN = 8
"""How much less a common factor may differ from 1 than single numbers from each other, in
`GAIN_ROWS` rows or more. In few rows rounding may make one: that of the weight of an expert, where
one row outweighs the others. Rows: all dimensions but the last."""

GAIN_ROWS = 20


class Call(NamedTuple):
    """One call of a module, and what it gave."""

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
        for pool, new in ((self.kv.keys, k), (self.kv.values, v)):
            pool.setdefault(layer, new.new_zeros(len(new) + 1, *new.shape[1:])).index_copy_(
                0, self.new_slots, new
            )

    def attend(self, layer: int, q: Tensor, options: LayerOptions) -> Tensor:
        self.queries[layer] = q.clone()
        v = self.kv.values[layer][self.new_slots]
        seen = torch.arange(1, len(v) + 1, device=v.device)[:, None, None]
        return (
            (v.float().cumsum(0) / seen).to(v.dtype).repeat_interleave(q.shape[1] // v.shape[1], 1)
        )

    def blank(self) -> TracingBackend:
        """The same with nothing in the pool."""
        other = TracingBackend(len(self.new_slots), self._dtype, self.kv.device)
        for mine, its in ((self.kv.keys, other.kv.keys), (self.kv.values, other.kv.values)):
            its.update({layer: torch.zeros_like(pool) for layer, pool in mine.items()})
        return other

    def handed(self, layer: int) -> tuple[Tensor, ...]:
        """q, k and v of a layer, [T, heads, dim] each."""
        return self.queries[layer], *(
            pool[layer][self.new_slots] for pool in (self.kv.keys, self.kv.values)
        )


class Trace:
    """calls[module]: its calls in the runs, in order. trusts: every forward that takes them agrees.

    Runs are of random tokens, at positions over all of the context, because there are models that
    scale by the position.
    """

    def __init__(self, model: nn.Module, modules: Iterable[nn.Module]) -> None:
        """The model's forwards must hand k and v to `store`, as its own do: that shows how large a
        pool is."""
        self.calls: dict[nn.Module, list[Call]] = {module: [] for module in modules}
        self.trusts = False
        self._model = model
        self._backends: dict[int, TracingBackend] = {}
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
        context = (
            getattr(config, "max_position_embeddings", None)
            or getattr(config, "n_positions", None)
            or 1 << 12
        )
        first = next(self._model.parameters())
        ids = torch.randint(
            config.vocab_size, (1, rows), generator=torch.Generator().manual_seed(0)
        )
        positions = torch.tensor(
            [[round(math.expm1(math.log(context) * i / (rows - 1))) for i in range(rows)]]
        )
        inputs = {"input_ids": ids.to(first.device), "position_ids": positions.to(first.device)}
        before = self._backends.get(rows)
        backend = (
            TracingBackend(rows, first.dtype, first.device) if before is None else before.blank()
        )
        self._backends[rows] = backend
        with torch.inference_mode():
            return self._model(**inputs, use_cache=False, sgnb=backend).logits

    def may_overwrite_inputs(self, layers: list[nn.Module]) -> bool:
        """Whether nothing reads what goes into a layer after the layer: with NaN put there, none
        comes out of a run."""
        with _hooked(layers, _spoil_input):
            return bool(self._run(ROWS[-1]).isfinite().all())

    def trustful(self) -> Trace:
        """With the same calls, and content with whatever numbers a forward gives: a `precompiling`
        block computes none."""
        twin = copy(self)
        twin.trusts = True
        return twin

    def _keep(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        self.calls[module].append(Call(args, kwargs, output))

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
        median: that of the median row, for modules that make choices by row: where two are near,
        rounding decides, and the row is lost. Want of memory is raised: it says nothing of the
        module.
        """
        relative = _no_error if self.trusts else _median_error if median else _whole_error
        try:
            with torch.inference_mode():
                return max(
                    (_replay(call, forward, layer, relative) for call in self.calls[module]),
                    default=math.inf,
                )
        except Exception as error:  # whatever comes of a module that only looks like the pattern
            if is_out_of_memory(error):
                raise
            _log.debug(
                "%s keeps its own forward: %s: %s",
                type(module).__name__,
                type(error).__name__,
                error,
            )
            return math.inf

    def agrees(
        self,
        module: nn.Module,
        forward: Callable[..., Any],
        layer: int | None = None,
        *,
        median: bool = False,
    ) -> bool:
        """Whether that error is within the rounding of the module's dtype."""
        error, most = (
            self.error(module, forward, layer, median=median),
            tolerance(next(module.parameters()).dtype),
        )
        if most < error < math.inf:
            _log.debug(
                "%s keeps its own forward: the twin is off by %.3g, of %.3g",
                type(module).__name__,
                error,
                most,
            )
        return error <= most


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


def _replay(call: Call, forward: Callable[..., Any], layer: int | None, relative: _Error) -> float:
    """Inputs are cloned: a fused forward may write to them."""
    args = [arg.clone() if isinstance(arg, Tensor) else arg for arg in call.args]
    kwargs = {
        name: arg.clone() if isinstance(arg, Tensor) else arg for name, arg in call.kwargs.items()
    }
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
        return [
            relative(mine.float(), its.float())
            if (mine.shape, mine.dtype) == (its.shape, its.dtype)
            else math.inf
        ]
    if its is None:
        return []
    return [error for pair in zip(mine, its, strict=True) for error in _errors(*pair, relative)]


def _no_error(mine: Tensor, its: Tensor) -> float:
    return 0.0


def _whole_error(mine: Tensor, its: Tensor) -> float:
    """Of the norms, or `GAIN` times that of the best factor between the two: rounding makes none, a
    twist may."""
    square = its.square().sum().clamp(min=1e-30)
    gain = (mine * its).sum() / square - 1
    rows = its[..., 0].numel() if its.dim() else 1
    weight = GAIN * min(1.0, rows / GAIN_ROWS)
    return float(torch.maximum(((mine - its).square().sum() / square).sqrt(), weight * gain.abs()))


def _median_error(mine: Tensor, its: Tensor) -> float:
    return float(((mine - its).norm(dim=-1) / its.norm(dim=-1).clamp(min=1e-30)).median())
