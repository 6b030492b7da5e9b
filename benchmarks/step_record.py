"""Files of recorded steps: arrays as safetensors, other fields as JSON in the file's metadata.

A file holds no keys, values or states of earlier steps. Replay all steps of a run in order on an
empty cache: `ModelRunner.compute_logits` then returns the same logits. A record omits the functions
of grammars and penalties. Record without overlap, because a file cannot hold the tokens that the
host has not read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from sgnb.codec import build, parse, reading
from sgnb.engine.attention.cascade import number_nodes
from sgnb.engine.cache.checkpoints import StatePlan
from sgnb.engine.model.decoder_rows import DecoderRows, MaskedRows
from sgnb.engine.step_input import (
    AttentionInput,
    EmbeddingSpan,
    Filters,
    LogitUse,
    SamplingInput,
    SequenceKey,
    StepInput,
)


class Header(NamedTuple):
    """Fields without arrays."""

    states: tuple[StatePlan, ...]
    uses: tuple[LogitUse, ...]
    embeddings: tuple[int, ...]  # first rows of the spans
    parents: tuple[int, ...]  # parent of each prefix node; node 0 is the root
    ends: tuple[int, ...]  # end of each prefix node
    nodes: tuple[int, ...]  # prefix node of each sequence


@dataclass(eq=False)
class RecordedNode:
    """Prefix node read from a file."""

    parent: RecordedNode | None
    end: int


def save_step(step: StepInput, path: Path) -> None:
    """Write a step to a file."""
    attention = step.attention
    numbers, parents, ends = number_nodes(attention.nodes)
    nodes = [numbers.get(node, 0) for node in attention.nodes]
    begins = [span.begin for span in step.embeddings]
    header = Header(
        states=tuple(step.states),
        uses=tuple(step.uses),
        embeddings=tuple(begins),
        parents=tuple(parents),
        ends=tuple(ends),
        nodes=tuple(nodes),
    )

    arrays = {
        "tokens": step.tokens,
        "positions": step.positions,
        "starts": attention.starts,
        "lengths": attention.lengths,
        "new_slots": attention.new_slots,
        "kv_indices": np.concatenate(attention.kv_indices),
        "logit_rows": step.logit_rows,
        "sampled": step.sampled,
        **_sampling_arrays("sampling", step.sampling),
        **_sampling_arrays("drafts", step.drafts),
    }
    tensors = {name: torch.tensor(array) for name, array in arrays.items()}
    for number, span in enumerate(step.embeddings):
        assert isinstance(span.rows, DecoderRows)
        for name, tensor in _row_tensors(span.rows).items():
            tensors[f"embeddings/{number}/{name}"] = tensor.contiguous()
    save_file(tensors, path, {"step": json.dumps(header)})


def load_step(path: Path) -> StepInput:
    """Read a step from a file.

    Raises:
        RecordError: The file is damaged.
    """
    with reading(f"recorded step {path.name}", "record the run again"):
        tensors, metadata = _read(path)
        header = build(Header, parse(metadata["step"]))
        arrays = {name: tensor.numpy() for name, tensor in tensors.items() if "embed" not in name}
        starts, lengths = arrays["starts"], arrays["lengths"]
        borders = (starts + lengths).cumsum()[:-1]
        spans = [
            EmbeddingSpan(begin, _rows(tensors, f"embeddings/{number}/"))
            for number, begin in enumerate(header.embeddings)
        ]
        return StepInput(
            tokens=arrays["tokens"],
            positions=arrays["positions"],
            attention=AttentionInput(
                starts=starts,
                lengths=lengths,
                new_slots=arrays["new_slots"],
                kv_slots=np.split(arrays["kv_indices"], borders),
                keys=_keys(header),
            ),
            states=header.states,
            embeddings=spans,
            logit_rows=arrays["logit_rows"],
            sampled=arrays["sampled"],
            sampling=_sampling_input("sampling", arrays),
            drafts=_sampling_input("drafts", arrays),
            uses=header.uses,
        )


def _row_tensors(rows: DecoderRows) -> dict[str, Tensor]:
    """Return the tensors by name: part of `DecoderRows`, argument, mask, layer."""
    tensors = {"embeddings": rows.embeddings}
    tensors |= {f"aligned/{name}": tensor for name, tensor in rows.aligned.items()}
    for name, (mask, layers) in rows.picked.items():
        tensors |= {f"picked/{name}/{mask}/{i}": layer for i, layer in enumerate(layers)}
    return tensors


def _rows(tensors: dict[str, Tensor], prefix: str) -> DecoderRows:
    """Rebuild the rows of `_row_tensors`, stored under a prefix."""
    aligned, layers = dict[str, Tensor](), dict[tuple[str, str], list[Tensor]]()
    for path in sorted(name for name in tensors if name.startswith(prefix)):
        part, *names = path.removeprefix(prefix).split("/")
        if part == "aligned":
            aligned[names[0]] = tensors[path]
        elif part == "picked":
            layers.setdefault((names[0], names[1]), []).append(tensors[path])
    picked = {name: MaskedRows(mask, tuple(each)) for (name, mask), each in layers.items()}
    return DecoderRows(tensors[f"{prefix}embeddings"], aligned, picked)


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(str(error)) from None


def _keys(header: Header) -> list[SequenceKey]:
    """Rebuild the prefix nodes, parents first."""
    nodes = [RecordedNode(None, 0)]
    for parent, end in zip(header.parents[1:], header.ends[1:], strict=True):
        nodes.append(RecordedNode(nodes[parent], end))
    return [(i, 0, nodes[number], True) for i, number in enumerate(header.nodes)]


def _sampling_arrays(name: str, sampling: SamplingInput) -> dict[str, Any]:
    filters = [(row, *each) for row, each in sampling.filters.items()]
    return {
        f"{name}.temperatures": sampling.temperatures,
        f"{name}.draws": sampling.draws,
        f"{name}.grammar_states": sampling.grammar_states,
        f"{name}.sample_rows": sampling.sample_rows,
        f"{name}.filters": np.array(filters, np.float64).reshape(-1, 4),
    }


def _sampling_input(name: str, arrays: dict[str, Any]) -> SamplingInput:
    filters = {
        int(row): Filters(int(top_k), top_p, min_p)
        for row, top_k, top_p, min_p in arrays[f"{name}.filters"].tolist()
    }
    return SamplingInput(
        temperatures=arrays[f"{name}.temperatures"],
        draws=arrays[f"{name}.draws"],
        grammar_states=arrays[f"{name}.grammar_states"],
        sample_rows=arrays[f"{name}.sample_rows"],
        filters=filters,
        adjustments={},
        masks={},
    )
