"""Detection of weights that change in place under an engine. Knows no cache and no requests.

Exact for in-place operations on a parameter (optimizers, `load_state_dict`, `copy_` under
`no_grad`), by the version counter; for a new `.data` or a new parameter, by address and identity;
and for replaced modules. A write through `.data` bypasses the version counter: `SAMPLES` numbers of
each weight are compared, so a write to a few numbers can be missed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...errors import ModelError

SAMPLES = 64
"""Numbers of each weight that are compared: 0.2 ms for 291 weights (8B Llama) on a quiet CPU."""

COLUMN_SHIFT = 0.382
"""Left shift of successive samples as a share of a row: the golden section spreads few samples over
all columns."""

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Item size -> the dtype that compares numbers bit by bit: NaN equals NaN."""

NO_ADDRESS = -1
"""Address of a tensor without storage."""

Layout = tuple[torch.Size, torch.dtype, torch.device]


class WeightRecord(NamedTuple):
    """A weight as of the last `record`."""

    name: str
    holder: dict[str, Any]  # the module's parameters or buffers
    key: str  # in `holder`
    tensor: Tensor
    version: int  # -1 for an inference tensor, which has no version counter
    address: int
    layout: Layout


class SampledWeights(NamedTuple):
    """Weights of one item size, with a view of `SAMPLES` numbers per weight."""

    names: list[str]
    views: list[Tensor]
    numbers: Tensor  # the views as of the last `record`, concatenated


class WeightMonitor:
    """Comparison of a model's weights and modules with the state at the last `record`.

    Buffers count as weights if `state_dict` contains them.

    Args:
        model: Transformers model.
        refreshers: Functions that copy changed weights into derived tensors, for example into
            merged projections.
    """

    def __init__(self, model: nn.Module, refreshers: Sequence[Callable[[], None]]) -> None:
        self._model_name = type(model).__name__
        self._refreshers = refreshers
        self._children = [
            (name, module, dict(module._modules))
            for name, module in model.named_modules()
            if module._modules
        ]
        self._weights = list(_find_weights(model))
        # Attention options refer to these objects, also after `load_state_dict(assign=True)`.
        self._loaded = [weight.tensor for weight in self._weights]
        self.refresh()
        self.record()

    def record(self) -> None:
        """Take the present weights as unchanged."""
        self._weights = [_record(name, holder, key) for name, holder, key, *_ in self._weights]
        self._samples = _sample(self._weights)

    def find_change(self, compare_numbers: bool = True) -> str | None:
        """Return the name of a weight that changed since `record`, or None.

        On a GPU, wait for the writes to a changed weight on the thread's current stream.

        Args:
            compare_numbers: Find writes through `.data`, too. Most of the time of the comparison.

        Raises:
            ModelError: A module was replaced, or a weight has another shape, dtype or device.
        """
        for name, module, children in self._children:
            if module._modules != children:
                raise self._module_error(name, dict(module._modules), children)

        for weight in self._weights:
            if not _is_current(weight):
                self._check_layouts()
                _synchronize(weight.tensor)
                return weight.name

        for names, views, numbers in self._samples if compare_numbers else ():
            sampled = torch.cat(views)
            if not torch.equal(sampled, numbers):
                sizes = [len(view) for view in views]
                pairs = zip(names, sampled.split(sizes), numbers.split(sizes), strict=True)
                return next(name for name, now, before in pairs if not torch.equal(now, before))
        return None

    @torch.inference_mode(False)
    @torch.no_grad()
    def refresh(self) -> bool:
        """Copy changed weights into the tensors derived from them.

        Returns:
            True if a weight has another address than at the last `record`: CUDA graphs would read
            the old one.
        """
        for refresher in self._refreshers:
            refresher()
        moved = False
        for weight, loaded in zip(self._weights, self._loaded, strict=True):
            tensor = weight.holder[weight.key]
            moved |= _address(tensor) != weight.address
            if tensor is not loaded:
                loaded.data = tensor.data

        # Other streams may reuse the memory of copied weights from now on.
        for tensor in self._loaded[:1]:
            _synchronize(tensor)
        return moved

    def _module_error(
        self, name: str, present: dict[str, Any], loaded: dict[str, Any]
    ) -> ModelError:
        keys = (*loaded, *present)
        key = next(key for key in keys if present.get(key) is not loaded.get(key))
        before, now = (type(modules.get(key)).__name__ for modules in (loaded, present))
        now = f"another {now}" if now == before else now
        return ModelError(
            f"{self._model_name} cannot run: {f'{name}.{key}'.strip('.')} is {now}, and was "
            f"{before} when the engine was loaded",
            "restore the module, or close the engine and load the model again",
        )

    def _check_layouts(self) -> None:
        for weight in self._weights:
            tensor = weight.holder.get(weight.key)
            if tensor is None or _layout(tensor) != weight.layout:
                now = "missing" if tensor is None else _describe(_layout(tensor))
                raise ModelError(
                    f"{self._model_name} cannot run: {weight.name} is {now}, and was "
                    f"{_describe(weight.layout)} when the engine was loaded",
                    "restore the weight, or close the engine and load the model again",
                )


def _find_weights(model: nn.Module) -> Iterator[WeightRecord]:
    for prefix, module in model.named_modules():
        buffers = module._buffers.keys() - module._non_persistent_buffers_set
        for holder, keys in ((module._parameters, module._parameters), (module._buffers, buffers)):
            for key in keys:
                if holder[key] is not None:
                    yield _record(f"{prefix}.{key}".strip("."), holder, key)


def _record(name: str, holder: dict[str, Any], key: str) -> WeightRecord:
    tensor = holder[key]
    version = -1 if tensor.is_inference() else tensor._version
    return WeightRecord(name, holder, key, tensor, version, _address(tensor), _layout(tensor))


def _is_current(weight: WeightRecord) -> bool:
    tensor = weight.holder.get(weight.key)
    return (
        tensor is weight.tensor
        and weight.version in (-1, tensor._version)
        and (weight.address == NO_ADDRESS or tensor.data_ptr() == weight.address)
    )


def _address(tensor: Tensor) -> int:
    try:
        return tensor.data_ptr()
    except RuntimeError:  # a subclass that wraps tensors
        return NO_ADDRESS


def _layout(tensor: Tensor) -> Layout:
    return tensor.shape, tensor.dtype, tensor.device


def _describe(layout: Layout) -> str:
    shape, dtype, device = layout
    return f"{str(dtype).removeprefix('torch.')}{list(shape)} on {device}"


def _sample(weights: list[WeightRecord]) -> list[SampledWeights]:
    groups = defaultdict[torch.dtype, list[WeightRecord]](list)
    for weight in weights:
        dtype = INTEGERS.get(weight.tensor.element_size())
        if dtype is not None and weight.address not in (0, NO_ADDRESS):
            groups[dtype].append(weight)
    samples = []
    for dtype, members in groups.items():
        views = [_view_samples(weight.tensor.detach().view(dtype)) for weight in members]
        samples.append(SampledWeights([weight.name for weight in members], views, torch.cat(views)))
    return samples


def _view_samples(tensor: Tensor) -> Tensor:
    """Return a view of at most `SAMPLES` numbers, spread over rows and columns."""
    start = tensor.storage_offset()
    stored = tensor.untyped_storage().nbytes() // tensor.element_size() - start
    count, width = min(tensor.numel(), stored), tensor.shape[-1] if tensor.dim() else 1
    stride = max(1, count // SAMPLES)
    if stride < 4 * width:
        stride = (stride - 1) | 1  # odd: not a multiple of most widths
    else:
        stride -= stride % width + int(COLUMN_SHIFT * width)
    return tensor.as_strided((min(SAMPLES, count),), (stride,), start)


def _synchronize(tensor: Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()
