"""Rules of transformers from the tensors of a checkpoint to the parameters of a model."""

from __future__ import annotations

from transformers import PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import (
    Concatenate,
    MergeModulelist,
    WeightConverter,
    WeightRenaming,
    rename_source_key,
)


class NameRules:
    """Renamings and merges of a model family. model: may be on the meta device."""

    def __init__(self, model: PreTrainedModel) -> None:
        rules = get_model_conversion_mapping(model)
        self._renamings = [rule for rule in rules if isinstance(rule, WeightRenaming)]
        self._converters = [rule for rule in rules if isinstance(rule, WeightConverter)]
        self._prefix, self._parameters = model.base_model_prefix, model.state_dict()

    def find(self, name: str) -> str:
        """Return the parameter of a tensor; for an unknown tensor, the renamed tensor."""
        return self._find(name)[0]

    def find_place(self, name: str) -> tuple[str, int | None]:
        """Return the parameter of a tensor, and the tensor's place among the parts of the
        parameter; None if the tensor does not become the parameter, or a part, unchanged."""
        target, pattern = self._find(name)
        if target not in self._parameters:
            return target, None
        if pattern is None:
            return target, 0
        for converter in self._converters:
            if pattern in converter.source_patterns:
                return target, _place(converter, pattern)
        return target, None

    def _find(self, name: str) -> tuple[str, str | None]:
        """Return the parameter, and the pattern of the conversion."""
        target, pattern = rename_source_key(
            name, self._renamings, self._converters, self._prefix, self._parameters
        )
        if target not in self._parameters and name in self._parameters:
            return name, None
        return target, pattern


def _place(converter: WeightConverter, pattern: str) -> int | None:
    """Return the place of a pattern in a merge of experts; None for other conversions."""
    operations = converter.operations
    kinds = [type(operation) for operation in operations]
    is_stack = kinds == [MergeModulelist] and len(converter.source_patterns) == 1
    is_merge = is_stack or kinds == [MergeModulelist, Concatenate]
    dims = tuple(getattr(operation, "dim", None) for operation in operations) if is_merge else ()
    if dims not in ((0,), (0, 1)) or len(converter.target_patterns) != 1:
        return None
    return list(converter.source_patterns).index(pattern)
