"""Sampling and masks on a GPU: the kernels against their slow twins, in a CUDA graph, and that
nothing waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from sgnb.engine.request.request import Request
from sgnb.engine.sampling.host_mask import host_mask
from sgnb.engine.sampling.torch_sampler import pick
from sgnb.engine.step_input import UNCONSTRAINED, RowMask
from sgnb.grammar.vocabulary import Vocabulary
from sgnb.sampling import SamplingParams

from ..large_vocabulary import pieces
from .sampling_rows import sampling_rows
from .test_torch_sampler import CASES

pytestmark = pytest.mark.gpu

CUDA = torch.device("cuda")


@contextmanager
def nothing_waits() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("rows", "vocab"), [(1, 131_072), (64, 131_072), (40, 32_003), (64, 70)])
def test_the_sampling_kernels(rows: int, vocab: int, dtype: torch.dtype) -> None:
    from . import sample_kernel_check as kernels

    kernels.check(rows, vocab, dtype, "cuda", seed=rows + vocab)


def test_the_sampling_kernels_on_the_rest() -> None:
    from . import sample_kernel_check as kernels

    kernels.check_frequencies("cuda", grid=500)
    kernels.check_spoilt_rows("cuda")
    kernels.check_refusals("cuda")


def test_the_mask_kernels() -> None:
    from . import mask_kernel_check as kernels

    compiled = kernels.compile_all()
    kernels.check(Vocabulary(pieces()), compiled, rows=64, device="cuda", seed=0)
    for seed in range(4):
        kernels.check(kernels.small_vocabulary(seed), compiled, rows=12, device="cuda", seed=seed)
    kernels.check_room("cuda")
    kernels.check_resume("cuda")


def test_a_graph_of_mask_sample_and_advance() -> None:
    """Twelve steps by replay: each row's token is allowed, its state is the automaton's, as the
    host finds them."""
    from sgnb.engine.sampling.device_grammars import DeviceGrammars
    from sgnb.engine.sampling.sample_kernel import DeviceSampler

    from . import mask_kernel_check as kernels

    vocabulary, automata, rows = kernels.small_vocabulary(3), kernels.compile_all(), 20
    grammars = DeviceGrammars(vocabulary, [0], CUDA, capacity=4096)
    sampler = DeviceSampler(vocabulary.size, rows, CUDA)
    offsets = [kernels.acquired(grammars, automaton) for automaton in automata]
    places: list[Any] = [None if i % 6 == 5 else (i % 6, 1) for i in range(rows)]

    logits = torch.randn(rows, vocabulary.size, device=CUDA, dtype=torch.bfloat16)
    temperatures = (torch.arange(rows, device=CUDA) % 2).float()
    draws = torch.rand(rows, device=CUDA)
    states = torch.full((rows,), UNCONSTRAINED, dtype=torch.int32, device=CUDA)
    allowed = torch.zeros(rows, vocabulary.size, dtype=torch.uint8, device=CUDA)

    def step() -> torch.Tensor:
        grammars.allowed(states, allowed)
        sampled = sampler(logits, temperatures, draws, allowed, states)
        grammars.advance_(states, sampled.tokens)
        return sampled.allowed

    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        counts = step()
    states.copy_(torch.tensor([kernels._device_state(offsets, place) for place in places]))
    for _ in range(12):
        logits.normal_()
        draws.uniform_()
        masks = [
            kernels._allowed(vocabulary, automata, place, [0])[: vocabulary.size]
            for place in places
        ]
        graph.replay()
        tokens = sampler.tokens.tolist()
        for row, (place, mask) in enumerate(zip(places, masks, strict=True)):
            count = vocabulary.size if place is None else int(mask.sum())
            assert int(counts[row]) == count
            assert place is None or count == 0 or mask[tokens[row]]
            places[row] = kernels._after(vocabulary, automata, place, tokens[row], [0])
        assert states.tolist() == [kernels._device_state(offsets, place) for place in places]


def test_nothing_waits_for_the_device() -> None:
    """Every way to sample, masks of the host, and new grammars on the device."""
    from sgnb.engine.sampling.device_grammars import DeviceGrammars

    from . import mask_kernel_check as kernels

    def row_mask() -> RowMask:
        return RowMask(np.arange(1000) % 3 == 0, np.array([1]), True)

    masks = dict.fromkeys((1, 4), row_mask)
    batch = [Request(i, [1, 2], SamplingParams(**case), 5) for i, case in enumerate(CASES.values())]
    for request in batch:
        request.append(7)
    logits = torch.randn(len(batch), 1000, device=CUDA)
    grammars = DeviceGrammars(kernels.small_vocabulary(0), [0], CUDA, capacity=4096)
    draws = np.random.default_rng(0).random(len(batch))
    automata = kernels.compile_all()
    with nothing_waits():
        sampled = pick(
            logits.clone(), sampling_rows(batch, draws, {3}), host_mask(masks, 1000, CUDA)
        )
        for automaton in automata:
            grammars.acquire(automaton)
    expected = pick(
        logits.cpu(),
        sampling_rows(batch, draws, {3}),
        host_mask(masks, 1000, torch.device("cpu")),
    )
    assert sampled.tokens.tolist() == expected.tokens.tolist()
