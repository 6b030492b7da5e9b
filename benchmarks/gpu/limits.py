"""How fast a workload could be: counted bytes and operations over the speed of memory and of the tensor cores, as a
large copy and a large product reach them. Weights that are only read can be some percent faster.

Every step takes the longer of the two times. A prefix that calls share is computed once and, while they decode, read
once a step. Calls that need nothing of each other run in the same steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .workloads import Call, Workload

H200_BYTES, H200_OPERATIONS = 4.3e12, 790e12
"""A second, on one H200: a large copy (read and written), and a large bf16 product. Both measured."""


@dataclass(frozen=True)
class Shape:
    """A Llama."""

    hidden: int = 4096
    intermediate: int = 14336
    layers: int = 32
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    vocab: int = 131072
    positions: int = 32768
    parameter_bytes: int = 2

    @property
    def layer_parameters(self) -> int:
        """Of the matrices of all layers."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def step_bytes(self) -> int:
        """Weights that every step reads: all but the embedding."""
        return self.parameter_bytes * (self.layer_parameters + self.hidden * self.vocab)

    @property
    def token_bytes(self) -> int:
        """Keys and values of a token."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.parameter_bytes

    def operations(self, new: float, seen: float, logits: float) -> float:
        """Of a step that computes `new` tokens, which see `seen` ones together, and `logits` rows of logits."""
        attention = 4 * self.heads * self.head_dim * self.layers * seen
        return 2 * self.layer_parameters * new + attention + 2 * self.hidden * self.vocab * logits

    def config(self) -> dict[str, Any]:
        """As a config.json says it."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "vocab_size": self.vocab,
            "max_position_embeddings": self.positions,
            "rope_theta": 500000.0,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "bos_token_id": 1,
            "eos_token_id": 2,
        }


LLAMA_8B = Shape()
TOY = Shape(hidden=64, intermediate=96, layers=2, heads=4, kv_heads=2, head_dim=16, vocab=512, positions=2048)


def limit_seconds(
    workload: Workload, shape: Shape = LLAMA_8B, speed: float = H200_BYTES, operations: float = H200_OPERATIONS
) -> float | None:
    """Seconds that the workload takes at those speeds; None where a schema makes its length unknown."""
    if workload.constrained:
        return None
    total, done = 0.0, []
    sequences = _sequences(workload.calls)
    for level in _levels(workload):
        calls = [workload.calls[number] for number in level]
        prompts = [sequences[number][: len(sequences[number]) - workload.calls[number].new] for number in level]
        before, seen_before = _tree(done)
        after, seen_after = _tree(done + prompts)
        scored = [len(p) - c.score_from for p, c in zip(prompts, calls, strict=True) if c.score_from is not None]
        logits = sum(scored) + len(calls) - len(scored)
        work = shape.operations(after - before, seen_after - seen_before, logits)
        total += max(work / operations, shape.step_bytes / speed)
        total += _decoding(calls, prompts, shape, speed, operations)
        done += [sequences[number][:-1] if workload.calls[number].new else sequences[number] for number in level]
    return total


def _decoding(
    calls: Sequence[Call], prompts: Sequence[list[int]], shape: Shape, speed: float, operations: float
) -> float:
    """Seconds of all steps after the one that made the first tokens."""
    total = 0.0
    for new in sorted({call.new for call in calls if call.new > 1}):
        shorter = max((call.new for call in calls if call.new < new), default=1)
        rows = [prompt for call, prompt in zip(calls, prompts, strict=True) if call.new >= new]
        distinct, _ = _tree(rows)
        length = sum(map(len, rows))
        for step in range(max(shorter, 1), new):
            read = (distinct + len(rows) * step) * shape.token_bytes
            work = shape.operations(len(rows), length + len(rows) * step, len(rows))
            total += max((shape.step_bytes + read) / speed, work / operations)
    return total


def _levels(workload: Workload) -> list[list[int]]:
    """Calls that can run at the same time, in order."""
    if workload.one_at_a_time:
        return [[number] for number in range(len(workload.calls))]
    depths: list[int] = []
    for call in workload.calls:
        depths.append(1 + max((depths[need] for need in call.needs), default=-1))
    return [[n for n, depth in enumerate(depths) if depth == level] for level in range(max(depths) + 1)]


def _sequences(calls: Sequence[Call]) -> list[list[int]]:
    """Prompt and output of every call; what is not known before has negative names of its own."""
    outputs: list[list[int]] = []
    sequences: list[list[int]] = []
    used = 0
    for call in calls:
        begin = [] if call.context is None else sequences[call.context]
        prompt = begin + [name for other in call.joins for name in outputs[other]] + call.tokens
        outputs.append([-1 - used - i for i in range(call.new)])
        used += call.new
        sequences.append(prompt + outputs[-1])
    return sequences


def _tree(sequences: Iterable[list[int]]) -> tuple[int, float]:
    """Tokens of the tree of all sequences, and how many tokens each sees, itself included, summed."""
    count, seen = 0, 0.0
    before: list[int] = []
    for sequence in sorted(sequences):
        common = _common(sequence, before)
        new = len(sequence) - common
        count += new
        seen += new * (common + len(sequence) + 1) / 2
        before = sequence
    return count, seen


def _common(a: list[int], b: list[int]) -> int:
    """Length of the longest common prefix, by halving: comparing slices is quick."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
