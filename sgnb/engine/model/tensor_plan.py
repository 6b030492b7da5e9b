"""Division of a model among ranks by transformers' tensor-parallel plan: the part of each
parameter, and modules of the part's size. Knows no processes and no files.

A plan names the style of each module. "colwise" modules keep a part of the outputs, "rowwise"
modules a part of the inputs, with a sum over the ranks. Every rank keeps the whole of all
further modules: norms, embeddings, the head, and attention or MLPs with gathered outputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from ...errors import ModelError
from ..fusion.reduction import Ranks, Reduce, add_reduction
from ..quantization.name_rules import NameRules
from .checkpoint import Entry
from .tensor_part import Range, TensorPart

WHOLE = {
    "embedding_rowwise", "colwise_gather_output", "rowwise_split_input", "replicate",
    "replicated_with_grad_allreduce",
}  # fmt: skip
"""Styles of modules computed whole by every rank."""

EXPERTS = "moe_tp_experts"
"""Style of a module with the parameters of all experts; the outputs are partial sums."""

PACKED = "packed_colwise"
"""Style of the experts' gate and up projections: rows of the gate, then rows of up."""


class TensorPlan:
    """Parts of a model for one rank.

    Attributes:
        parts: Name of a parameter -> the rank's part.
        model: The whole model, on the meta device.
    """

    def __init__(self, name: str, model: PreTrainedModel, rank: int, size: int) -> None:
        """
        Args:
            name: Name of the model, for messages.
            model: The whole model, on the meta device.
            rank: Number of the rank, from 0.
            size: Number of ranks.

        Raises:
            ModelError: The model has no plan, an unknown style, or indivisible sizes.
        """
        self.model, self.parts = model, dict[str, TensorPart]()
        self._name, self._rank, self._size = name, rank, size
        self._sums: list[str] = []  # names of modules with a sum over the ranks

        styles: dict[str, str] = dict(getattr(model, "_tp_plan", None) or {})
        for module_name, module in model.named_modules():
            style = styles.get(_pattern(module_name))
            if style is not None and style not in WHOLE:
                self._divide(module_name, module, style, styles)

        if not self._sums:
            family = type(model).__name__
            raise indivisible(
                f"{name} ({family})", "transformers has no tensor-parallel plan for its layers"
            )

        self._rules = NameRules(model)

    def stored_parts(self, entries: Mapping[str, Entry]) -> dict[str, TensorPart]:
        """Return the rank's parts of the divided tensors of a checkpoint, by name.

        A checkpoint may have a tensor for each expert, and for gate and up; the model has a
        single parameter.
        """
        parts = {name: self._stored_part(name, entry) for name, entry in entries.items()}
        return {name: part for name, part in parts.items() if part is not None}

    def _stored_part(self, stored: str, entry: Entry) -> TensorPart | None:
        """Return the rank's part of a tensor; None for the whole tensor."""
        shape = entry.shape
        name = self._rules.find(stored)
        part = self.parts.get(name)
        if part is None:
            return None

        whole = self._shape_of(name)
        if shape[part.dim] == whole[part.dim]:
            return part
        if len(part.ranges) * shape[part.dim] == whole[part.dim]:  # gate or up alone
            return TensorPart(part.dim, part.ranges[:1])
        return None  # a damaged checkpoint: the report names the shapes

    def family(self, reduce: Reduce) -> Any:
        """Return a class of models with the sizes of the rank's part, for `from_pretrained`.
        reduce: sum over the ranks."""
        family: Any = type(self.model)

        def init(model: Any, config: Any, *args: Any, **kwargs: Any) -> None:
            family.__init__(model, config, *args, **kwargs)
            self._divide_model(model, reduce)
            model.__class__ = family

        return type(family.__name__, (family,), {"__init__": init, "__module__": family.__module__})

    def _divide_model(self, model: nn.Module, reduce: Reduce) -> None:
        """Give a new model the sizes of the rank's part."""
        for name, part in self.parts.items():
            module_name, _, leaf = name.rpartition(".")
            module = model.get_submodule(module_name)
            whole = module.get_parameter(leaf)
            empty = whole.new_empty(part.shape(tuple(whole.shape)))
            setattr(module, leaf, nn.Parameter(empty, requires_grad=False))
            if isinstance(module, nn.Linear):
                module.out_features, module.in_features = module.weight.shape

        for name in self._sums:
            add_reduction(model.get_submodule(name), reduce)
        for attention in map(model.get_submodule, self._attentions()):
            _count_groups(attention)

    def _divide(self, name: str, module: nn.Module, style: str, styles: dict[str, str]) -> None:
        """Add the parts of a module."""
        if style == EXPERTS:
            for leaf, parameter in module.named_parameters(recurse=False):
                own = styles.get(_pattern(f"{name}.{leaf}"))
                if own not in (PACKED, "rowwise") or parameter.dim() != 3:
                    raise self._unknown(f"{name}.{leaf}", own)
                dim, count = (-2, 2) if own == PACKED else (-1, 1)
                self._add(
                    f"{name}.{leaf}", TensorPart(dim, self._ranges(name, parameter, dim, count))
                )
            self._sums.append(name)

        elif style == "colwise" and type(module) is nn.Linear:
            part = TensorPart(-2, self._heads(name, module))
            self._add(f"{name}.weight", part)
            if module.bias is not None:
                self._add(f"{name}.bias", TensorPart(-1, part.ranges))

        elif style == "rowwise" and type(module) is nn.Linear:
            unit = self._head_dim(name)
            ranges = self._ranges(name, module.weight, -1, 1, unit)
            self._add(f"{name}.weight", TensorPart(-1, ranges))
            self._sums.append(name)
        else:
            raise self._unknown(name, style)

    def _heads(self, name: str, module: nn.Linear) -> tuple[Range, ...]:
        """Return the outputs of a rank. Ranks share a head with fewer heads than ranks."""
        unit, size = self._head_dim(name), self._size
        heads = module.out_features // unit
        if unit > 1 and heads < size and size % heads == 0:
            head = self._rank * heads // size
            return ((head * unit, (head + 1) * unit),)
        return self._ranges(name, module.weight, -2, 1, unit)

    def _ranges(
        self, name: str, weight: torch.Tensor, dim: int, count: int, unit: int = 1
    ) -> tuple[Range, ...]:
        """Return the rank's part of each of `count` equal sections of a dimension."""
        section, rank, size = weight.shape[dim] // count, self._rank, self._size
        if section // unit % size:
            units = f"{section // unit} heads" if unit > 1 else f"{section:,} columns"
            raise ModelError(
                f"{self._name} cannot be divided among {size} GPUs: {name} has {units}",
                f"load with a tensor_parallel that divides {section // unit:,}",
            )
        part = section // size
        return tuple(
            (i * section + rank * part, i * section + (rank + 1) * part) for i in range(count)
        )

    def _head_dim(self, name: str) -> int:
        """Return the head size of the attention around a module; 1 elsewhere."""
        parent = self.model.get_submodule(name.rpartition(".")[0])
        return getattr(parent, "head_dim", None) or 1

    def _attentions(self) -> Iterator[str]:
        """Yield the names of divided attention modules."""
        parents = dict.fromkeys(name.rsplit(".", 2)[0] for name in self.parts)
        return (name for name in parents if self._head_dim(f"{name}.x") > 1)

    def _add(self, name: str, part: TensorPart) -> None:
        if part.shape(self._shape_of(name)) != self._shape_of(name):
            self.parts[name] = part

    def _shape_of(self, name: str) -> tuple[int, ...]:
        return tuple(self.model.get_parameter(name).shape)

    def _unknown(self, name: str, style: str | None) -> ModelError:
        reason = f"sgnb does not support the style {style!r} of {name} in transformers' "
        return indivisible(self._name, reason + "tensor-parallel plan")


def _pattern(name: str) -> str:
    """Return the name with `*` for the number of a layer, as in plans."""
    return re.sub(r"\.\d+(?=\.|$)", ".*", name)


def _count_groups(attention: Any) -> None:
    """Correct the number of query heads per KV head, used by the model's own attention."""
    parts = [getattr(attention, name, None) for name in ("q_proj", "k_proj")]
    if hasattr(attention, "num_key_value_groups") and all(isinstance(p, nn.Linear) for p in parts):
        query, key = (part.out_features for part in parts)  # type: ignore[union-attr]
        attention.num_key_value_groups = query // key


def divided(
    name: str, model: PreTrainedModel, entries: Mapping[str, Entry], ranks: Ranks | None
) -> tuple[Any, dict[str, TensorPart]]:
    """Return the class of the rank's model, and the rank's parts of the tensors of a checkpoint.
    Without ranks: the class of `model`, and no parts."""
    if ranks is None:
        return type(model), {}
    plan = TensorPlan(name, model, ranks.rank, ranks.size)
    return plan.family(ranks.reduce), plan.stored_parts(entries)


def indivisible(name: str, reason: str) -> ModelError:
    """Return the error of a model that cannot be divided."""
    return ModelError(
        f"{name} cannot be divided among GPUs: {reason}", "load without tensor_parallel"
    )
