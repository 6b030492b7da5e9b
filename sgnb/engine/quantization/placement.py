"""Plan of the packed parameters of a model: which tensors of a checkpoint become which buffers.

Reads names, shapes and dtypes only. transformers renames and merges tensors by rules per model
family; the plan applies the same rules to the tensors of a quantized checkpoint.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.core_model_loading import dot_natural_key

from ...errors import ModelError
from .modules import QuantizedLinear, quantize_experts
from .name_rules import NameRules
from .packed import PackedWeight, can_cat, cat, stack
from .schemes import Scheme

EXPERT_MATRICES = ("gate_up_proj", "up_proj", "down_proj")
ROUTERS = ("gate", "router", "shared_expert_gate")
"""Names of linear modules that choose experts: they stay dense when a load quantizes."""

_HINT = "give the whole checkpoint, with the config.json that was saved with the weights"


class StoredTensor(Protocol):
    """A tensor of a checkpoint, not read."""

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def shape(self) -> tuple[int, ...]: ...


Names = dict[str, str]
"""Names of the tensors of a stored matrix by role."""


class PackedTarget(NamedTuple):
    """A dense parameter of the model that becomes packed."""

    name: str  # of the dense parameter
    scheme: Scheme
    sources: list[list[Names]]  # the matrices below each other; a list for each expert, or one
    shape: tuple[int, ...]  # of a source, [N, K] or [E, N, K]
    is_transposed: bool  # the model stores matrices [E, K, N]

    def pack(self, read: Callable[[str], Tensor]) -> PackedWeight:
        """Read the tensors and return the packed parameter.

        Raises:
            ModelError: A tensor is damaged or does not fit.
        """
        rows = []
        for parts in self.sources:
            matrices = [self._pack_source(names, read) for names in parts]
            if not can_cat(matrices):
                raise ModelError(
                    f"{self.name} cannot be merged: its parts differ in groups or in the order of "
                    "their columns",
                    "give a checkpoint with one format for all parts of an expert",
                )
            rows.append(cat(matrices) if len(matrices) > 1 else matrices[0])
        return rows[0] if len(self.shape) == 3 or len(rows) == 1 else stack(rows)

    def _pack_source(self, names: Names, read: Callable[[str], Tensor]) -> PackedWeight:
        tensors = {role: read(name) for role, name in names.items()}
        if self.is_transposed and self.scheme.in_model_layout:
            tensors["values"] = tensors["values"].transpose(1, 2)
        try:
            return self.scheme.pack(tensors, self.shape)
        except ValueError as error:
            raise ModelError(
                f"{names['values']} cannot be read as {self.scheme.name}: {error}", _HINT
            ) from error


class QuantizationPlan(NamedTuple):
    """Packed parameters of a model and the checkpoint's tensors that they use."""

    targets: list[tuple[PackedTarget, PackedWeight]]  # the weights are on the meta device
    used: frozenset[str]  # names of tensors, also of unused scales of activations

    @property
    def size(self) -> int:
        """Size of the packed parameters in bytes."""
        return sum(layout.size for _, layout in self.targets)

    def place(self, model: nn.Module) -> None:
        """Replace the modules of `model`, on the meta device."""
        for target, layout in self.targets:
            path, _, leaf = target.name.rpartition(".")
            module: Any = model.get_submodule(path)
            if leaf == "weight":
                dtype = module.weight.dtype
                model.set_submodule(path, QuantizedLinear(layout, module.bias, dtype))
            else:
                quantize_experts(module, leaf, layout)


def plan_packing(
    scheme: Scheme,
    stored: Mapping[str, StoredTensor],
    model: PreTrainedModel,
    allowed: Collection[nn.Module] | None = None,
) -> QuantizationPlan:
    """Return the plan for a checkpoint and its model on the meta device.

    Args:
        allowed: Modules that a load may quantize; other parameters stay dense. None for a
            quantized checkpoint, where every quantized tensor of the model must become packed.

    Raises:
        ModelError: A matrix has no scales, or a shape other than in the model, or belongs to a
            module that sgnb does not support in packed form.
    """
    matrices = _find_matrices(scheme, stored)
    groups = defaultdict[str, list[tuple[int, Any, Names]]](list)
    rules = NameRules(model)
    for prefix, names in matrices.items():
        name = f"{prefix}{scheme.dense}"
        target, place = rules.find_place(name)
        if place is not None and _accepts(scheme, model, target, name, allowed):
            groups[target].append((place, dot_natural_key(name), names))

    blank = {
        name: torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
        for name, tensor in stored.items()
    }
    targets = [_make_target(scheme, model, name, parts) for name, parts in groups.items()]
    used = {name for parts in groups.values() for *_, names in parts for name in names.values()}
    used |= {name for name in stored if scheme.unused and name.endswith(scheme.unused)}
    layouts = [target.pack(blank.__getitem__) for target in targets]
    return QuantizationPlan(list(zip(targets, layouts, strict=True)), frozenset(used))


def _find_matrices(scheme: Scheme, stored: Mapping[str, StoredTensor]) -> dict[str, Names]:
    """Return the tensors of each quantized matrix by the matrix's name."""
    found = {}
    (ending,) = scheme.roles["values"]
    for name, tensor in stored.items():
        if not name.endswith(ending) or tensor.dtype not in scheme.stored:
            continue
        prefix = name.removesuffix(ending)
        names: Names = {}
        for role, endings in scheme.roles.items():
            present = [f"{prefix}{each}" for each in endings if f"{prefix}{each}" in stored]
            if present:
                names[role] = present[0]
        for role in sorted(scheme.required - names.keys()):
            raise ModelError(
                f"{name} is stored as {scheme.name}, and the checkpoint has no "
                f"{prefix}{scheme.roles[role][0]}",
                _HINT,
            )
        found[prefix] = names
    return found


def _accepts(
    scheme: Scheme,
    model: PreTrainedModel,
    target: str,
    name: str,
    allowed: Collection[nn.Module] | None,
) -> bool:
    """True if the parameter becomes packed. Raises ModelError for an unsupported module of a
    quantized checkpoint."""
    path, _, leaf = target.rpartition(".")
    module = model.get_submodule(path)
    is_linear = type(module) is nn.Linear and leaf == "weight"
    is_expert = leaf in EXPERT_MATRICES and hasattr(module, "is_transposed")
    if allowed is None:
        if is_linear or is_expert:
            return True
        raise ModelError(
            f"{name} is stored as {scheme.name}, which sgnb does not support in "
            f"{type(module).__name__}",
            "give a checkpoint with quantized linear modules and experts only",
        )
    is_router = path.rpartition(".")[2] in ROUTERS
    if not (is_linear or is_expert) or module not in allowed or is_router:
        return False
    tied = model.all_tied_weights_keys
    columns = model.get_parameter(target).shape[-2 if getattr(module, "is_transposed", 0) else -1]
    return target not in tied and target not in tied.values() and columns % 2 == 0


def _make_target(
    scheme: Scheme,
    model: PreTrainedModel,
    name: str,
    parts: list[tuple[int, Any, Names]],
) -> PackedTarget:
    """Return the target for the stored parts of a parameter."""
    shape = tuple(model.get_parameter(name).shape)
    module = model.get_submodule(name.rpartition(".")[0])
    is_transposed = bool(getattr(module, "is_transposed", False))
    if is_transposed:
        shape = shape[0], shape[2], shape[1]
    places = sorted({place for place, *_ in parts})
    columns = [[names for at, _, names in sorted(parts, key=_order) if at == p] for p in places]
    if len(shape) == 3 and len(parts) > 1:
        experts = shape[0]
        if any(len(column) != experts for column in columns):
            raise ModelError(
                f"the checkpoint has {len(parts)} matrices for {name}, not those of "
                f"{experts} experts",
                _HINT,
            )
        shape = shape[1] // len(places), shape[2]
    return PackedTarget(
        name, scheme, list(map(list, zip(*columns, strict=True))), shape, is_transposed
    )


def _order(part: tuple[int, Any, Names]) -> tuple[int, Any]:
    return part[:2]
