"""Hook in transformers' loader: places modules with packed weights before a load, and supplies lazy
tensors during the load.

transformers lets a registered quantizer replace modules before weights are read, and then requests
the tensors one at a time. The next matrices are packed meanwhile. Memory holds the packed model,
the tensors of one matrix, and up to `AHEAD_BYTES` of further matrices.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import Executor, Future
from itertools import accumulate
from types import EllipsisType
from typing import Any

import torch
from torch import Tensor
from transformers.quantizers.auto import register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from .packed import PackedWeight
from .placement import PackedTarget, QuantizationPlan

AHEAD, AHEAD_BYTES = 3, 1 << 29
"""Matrices, and their maximum size in bfloat16, that are packed before transformers requests them:
one tensor does not keep all threads of a reader busy."""

METHOD = "sgnb"
"""Name of the quantizer in transformers' registry."""


class PlanConfig(QuantizationConfigMixin):
    """Argument `quantization_config` of `from_pretrained` that carries a plan."""

    def __init__(self, plan: QuantizationPlan) -> None:
        self.quant_method: Any = METHOD
        self.plan = plan

    def __deepcopy__(self, memo: Any) -> PlanConfig:
        return self

    def to_dict(self) -> dict[str, Any]:
        return {"quant_method": METHOD}


@register_quantizer(METHOD)
class PlanQuantizer(HfQuantizer):
    """Places the modules of a plan."""

    def _process_model_before_weight_loading(self, model: Any, **kwargs: Any) -> Any:
        config: Any = self.quantization_config
        config.plan.place(model)
        return model

    def is_serializable(self) -> bool:
        return False

    @property
    def is_trainable(self) -> bool:
        return False


def lazy_parts(
    plan: QuantizationPlan, read: Callable[[str], Tensor], pool: Executor
) -> dict[str, LazyPart]:
    """Return the lazy tensors of the plan's buffers by name.

    Args:
        read: Reads a tensor of the checkpoint by name to the device.
        pool: `AHEAD` + 1 threads that pack matrices.
    """
    parts: dict[str, LazyPart] = {}
    matrices: list[_LazyMatrix] = []
    for target, layout in plan.targets:
        path, _, leaf = target.name.rpartition(".")
        prefix = f"{path}." if leaf == "weight" else f"{path}.{leaf}_"
        matrix = _LazyMatrix(target, read, pool, set(layout.parts()))
        matrices.append(matrix)
        parts |= {f"{prefix}{name}": LazyPart(matrix, name) for name in layout.parts()}

    ends = [*accumulate(2 * math.prod(layout.shape) for _, layout in plan.targets)]
    for i, end in enumerate(ends):
        last = bisect_right(ends, end + AHEAD_BYTES, hi=min(i + 1 + AHEAD, len(ends)))
        matrices[i].following = matrices[i + 1 : last]
    return parts


class LazyPart:
    """Lazy stand-in for a tensor of a packed parameter, in the protocol of transformers' loader:
    `weight[...]`, then `to`."""

    def __init__(self, matrix: _LazyMatrix, name: str) -> None:
        self._matrix, self._name = matrix, name

    def __getitem__(self, index: EllipsisType) -> LazyPart:
        return self

    def to(self, device: Any = None, dtype: torch.dtype | None = None) -> Tensor:
        return self._matrix.take(self._name)


class _LazyMatrix:
    """Packed parameter, released with the last part. following: packed together with this one."""

    def __init__(
        self, target: PackedTarget, read: Callable[[str], Tensor], pool: Executor, names: set[str]
    ) -> None:
        self._submit = lambda: pool.submit(target.pack, read)
        self._left = names
        self._lock = threading.Lock()
        self._packed: Future[PackedWeight] | None = None
        self.following: list[_LazyMatrix] = []

    def begin(self) -> None:
        """Pack the parameter, if no part was requested before."""
        with self._lock:
            if self._packed is None and self._left:
                self._packed = self._submit()

    def take(self, name: str) -> Tensor:
        for matrix in (self, *self.following):
            matrix.begin()
        packed = self._packed
        assert packed is not None
        tensor = packed.result().parts()[name]
        with self._lock:
            self._left.remove(name)
            if not self._left:
                self._packed = None
        return tensor
