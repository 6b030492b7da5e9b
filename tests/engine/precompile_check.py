"""What precompiling compiles, beside what random steps would launch. Run as a program: for a GPU
that is not there.

Triton is told of a GPU, and of each kernel only the key is noted under which it would be kept:
nothing is compiled, and nothing runs. The driver holds for the whole process, so it needs one of
its own.
"""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from sgnb.engine import fusion
from sgnb.engine.attention.triton_backend import TritonAttention, precompile_layers
from sgnb.engine.cache.kv_cache import KVCache
from sgnb.engine.cache.kv_dtype import KVDtype
from sgnb.engine.device.precompile import precompiling
from sgnb.engine.fusion import skinny
from sgnb.engine.fusion.operations import pick_operations
from sgnb.engine.graphs import SIZES
from sgnb.engine.model import decoder as decoder_module
from sgnb.engine.model.decoder import load_decoder
from sgnb.engine.model.layer_probe import LayerProbe
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.request_state import RequestState
from sgnb.engine.request.step_builder import attention_input, step_input
from sgnb.engine.runner import ModelRunner
from sgnb.engine.sampling.sampler import TritonSampler
from sgnb.engine.sizing import graph_bytes

from ..random_models import random_model
from .test_attention import SLOTS, random_batch

FAMILIES = ("llama", "gemma2", "qwen3", "mixtral")

ATTENTION = "attend_tiles", "extend_tiles", "merge_states"
"""The kernels that are begun before the model is matched."""

noted: dict[str, tuple[str, str]] = {}
"""Key -> the kernel's name, and what it was compiled for."""


def note(kernel: JITFunction, *args: Any, grid: Any, **constants: Any) -> None:
    *_, binder = kernel.device_caches[0]
    _, specialization, options = binder(*args, **constants)
    noted[f"{kernel.__name__} {specialization} {options}"] = (
        kernel.__name__,
        f"{specialization} {options}",
    )


def pretend() -> None:
    gpu = SimpleNamespace(
        get_current_device=lambda: 0,
        get_current_stream=lambda device=None: 0,
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
    )
    driver.set_active(gpu)
    JITFunction.warmup = note
    torch.cuda.graph_pool_handle = lambda: (0, 0)  # type: ignore[assignment, return-value]
    on_gpu = pick_operations(torch.device("cuda"), torch.bfloat16, None)
    fusion.pick_operations = lambda *arguments: on_gpu  # type: ignore[attr-defined]
    match = fusion._match

    def match_all(candidates: Any, trace: Any, *rest: Any) -> Any:
        """The second time too nothing can run."""
        if trace.trusts:
            return match(candidates, trace, *rest)
        with precompiling():
            return match(candidates, trace.trustful(), *rest)

    fusion._match = match_all  # type: ignore[attr-defined]


class _NoProducts(TorchFunctionMode):
    """Zeros instead: what is launched does not depend on them, and bfloat16 is slow on most
    processors."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear:
            return args[0].new_zeros(*args[0].shape[:-1], len(args[1]))
        return args[0] if func is Tensor.addmm_ else func(*args, **(kwargs or {}))


def step(rng: random.Random) -> Batch:
    """Decodes, forced tokens and prompts."""
    return random_batch(rng, 0.7)


def check(
    family: str,
    most: int = SIZES[-1],
    batch_invariant: bool = False,
    processors: int = 132,
    kv_dtype: KVDtype = "auto",
) -> None:
    """most: requests that run at a time. batch_invariant: attention's option. processors: of the
    device."""
    noted.clear()
    skinny._sm_count = lambda device: processors  # type: ignore[assignment]
    network = random_model(family, vocab_size=1000, max_position_embeddings=4 * SLOTS).to(
        torch.bfloat16
    )
    begun: set[str] = set()

    def begin(probe: LayerProbe, device: torch.device) -> None:
        layers = probe.shapes, probe.heads, probe.options, probe.dtype
        precompile_layers(*layers, device, batch_invariant, kv_dtype)
        begun.update(noted)

    decoder_module.check_logits = lambda *args: None  # type: ignore[assignment]  # no kernel runs
    decoder = load_decoder(network, "cpu", "bfloat16", probed=begin)
    assert any(swap.kind == "layer" for swap in decoder.fused)
    if family == "llama":
        matched = Counter(name for name, _ in noted.values())
        assert {"project_kernel", "_gate_kernel"} <= set(matched) and matched[
            "linear_kernel"
        ] > 3, "matched unseen"
    noted.clear()
    kv = KVCache(decoder.shapes, SLOTS, decoder.dtype, decoder.device, kv_dtype)
    attention = TritonAttention(kv, decoder.heads, batch_invariant=batch_invariant)
    sampler = TritonSampler(decoder.vocab_size, most, decoder.device, frozenset(), None)
    room = graph_bytes(decoder, most)
    runner = ModelRunner(decoder, attention, sampler, max_rows=most, graph_bytes=room)
    runner.precompile()
    precompiled = set(noted)
    assert begun == {key for key in precompiled if noted[key][0] in ATTENTION}, (
        f"{family}: what was begun early"
    )
    rng, graphs = random.Random(family), runner._graphs
    assert graphs is not None and len(precompiled) > 20
    with precompiling(), torch.inference_mode(), _NoProducts():
        for rows in graphs._sizes:
            some = step(rng).part(0, rows)
            decode = Batch(some.requests, some.ends - 1, [1] * len(some))
            attention.plan(attention_input(decode), rows)
            graphs._step(rows, True, False)
        for _ in range(100):
            batch = step(rng).part(0, most)
            for request in batch.requests:
                RequestState(request, None, frozenset(), lambda output: None)
            runner.compute_logits(step_input(batch))
    is_projected = family != "qwen3" and kv_dtype == "auto"
    assert ("project_kernel" in {name for name, _ in noted.values()}) == is_projected, family
    missed = {noted[key] for key in set(noted) - precompiled}
    assert not missed, f"{family}: not precompiled: {missed}"


if __name__ == "__main__":
    pretend()
    for family in FAMILIES:
        check(family)
    for most in (1, 3):
        check("llama", most)
    check("llama", batch_invariant=True)
    check("llama", kv_dtype="fp8")
    check("llama", processors=1)  # columns enough for tensor cores
    print("all precompiled")
