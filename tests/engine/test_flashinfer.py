"""The FlashInfer backend without a GPU: a stand-in plans and runs, and what we ask of it is tested.

`test_gpu_flashinfer.py` runs the real ones.
"""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from sgnb.engine.attention import LayerOptions, flashinfer_backend, flashinfer_kernels
from sgnb.engine.attention.flashinfer_backend import FlashInferAttention, LayerKind
from sgnb.engine.attention.flashinfer_check import largest_error, verify
from sgnb.engine.attention.flashinfer_kernels import AttentionKernel, build_attention, refusal
from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.cache.kv_dtype import KVDtype
from sgnb.engine.cache.sequence import SHARED
from sgnb.engine.request.batch import Batch
from sgnb.engine.request.step_builder import attention_input

from . import fake_flashinfer
from .test_attention import OPTIONS, SLOTS, batch_of_spans, each, random_batch, reference

CPU = torch.device("cpu")


@pytest.fixture
def flashinfer(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    return fake_flashinfer.install(monkeypatch)


def random_kv(
    layers: int = 1, kv_heads: int = 2, dim: int = 8, kv_dtype: KVDtype = "auto"
) -> KVCache:
    shapes = {i: LayerShape(kv_heads, dim, dim) for i in range(layers)}
    kv = KVCache(shapes, SLOTS, torch.float32, CPU, kv_dtype)
    for layer in shapes:
        for rows in kv.rows(layer):
            rows.write((0, SLOTS), torch.randn(SLOTS, kv_heads, dim))
    return kv


def expected(kv: KVCache, layer: int, q: Tensor, batch: Batch, options: LayerOptions) -> Tensor:
    """[T, heads, dim] of the rows that belong to requests, in float64."""
    parts = []
    for span in each(batch):
        seen = torch.from_numpy(span.request.slots[: span.end]).long()
        rows = q[span.rows].transpose(0, 1)
        keys, values = (part.read(seen) for part in kv.rows(layer))
        parts.append(reference(rows, keys, values, options))
    return torch.cat(parts)


_ids = itertools.count()


def new_batch(*sizes: tuple[int, int]) -> Batch:
    """Requests with slots of their own: (tokens in all, new ones)."""
    free, spans = torch.randperm(SLOTS).int().numpy(), []
    for total, new in sizes:
        request = SimpleNamespace(
            id=next(_ids), version=0, slots=free[:total], node=None, cache_scope=SHARED, items=None
        )
        spans.append((request, total - new, new))
        free = free[total:]
    return batch_of_spans(spans)


def events(record: SimpleNamespace) -> list[str]:
    return [name for name, *_ in record.log]


def check(
    attention: FlashInferAttention, kv: KVCache, batch: Batch, layers: list[LayerOptions]
) -> None:
    """The next step, with random queries: each layer against the reference."""
    attention.plan(attention_input(batch))
    rows = batch.num_tokens
    for layer, options in enumerate(layers):
        q = torch.randn(rows, 3 * 4, 8)[:, :4]  # a slice, as of merged projections
        out = torch.full((rows, 4, 8), torch.nan)
        attention.attend(layer, q, options, out)
        torch.testing.assert_close(
            out.double(), expected(kv, layer, q, batch, options), atol=2e-5, rtol=1e-4
        )


@pytest.mark.parametrize("kind", sorted(OPTIONS))
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("generation", ["fa2", "fa3"])
def test_random_batches(
    generation: str,
    kv_heads: int,
    kind: str,
    flashinfer: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flashinfer_backend, "extend_generation", lambda device: generation)
    rng = random.Random(f"{kind} {kv_heads}")
    torch.manual_seed(0)
    kv = random_kv(kv_heads=kv_heads)
    attention = FlashInferAttention(kv)
    for _ in range(8):
        check(attention, kv, random_batch(rng, 0.5), [OPTIONS[kind]])
    assert [event for event in events(flashinfer) if event != "made"] == ["plan", "run"] * 8
    gathers = generation == "fa3" and OPTIONS[kind].window is None
    assert events(flashinfer).count("made") == (2 if gathers else 1), (
        "a wrapper for each way to read"
    )


def test_what_is_brought_together(
    flashinfer: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Hopper, where there are few keys and values for a new token; a wrapper is planned only in
    its own steps."""
    monkeypatch.setattr(flashinfer_backend, "extend_generation", lambda device: "fa3")
    torch.manual_seed(0)
    kv, layers = random_kv(), [OPTIONS["plain"]]
    attention = FlashInferAttention(kv)
    for sizes in [(40, 10)], [(20, 20), (60, 3)], [(41, 10)], [(39, 1)], [(30, 30)]:
        check(attention, kv, new_batch(*sizes), layers)
    used = [type(wrapper).__name__ for event, wrapper, _ in flashinfer.log if event == "run"]
    ragged, paged = (f"BatchPrefillWith{kind}KVCacheWrapper" for kind in ("Ragged", "Paged"))
    assert used == [ragged, ragged, paged, paged, ragged]
    assert events(flashinfer).count("plan") == 5
    check(FlashInferAttention(kv), kv, new_batch((20, 20)), [OPTIONS["window"]])
    assert type(flashinfer.log[-1][1]).__name__ == paged, (
        "a window reads little, and would be copied whole"
    )


def test_keys_in_fp8_are_gathered(
    flashinfer: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernels read no scales: layers with a window are gathered too, and steps with too many
    keys are for other kernels."""
    monkeypatch.setattr(flashinfer_backend, "extend_generation", lambda device: "fa3")
    torch.manual_seed(0)
    kv, layers = random_kv(2, kv_dtype="fp8"), [OPTIONS["plain"], OPTIONS["window"]]
    backend = FlashInferAttention(kv)
    for sizes, served in (([(40, 10)], True), ([(41, 10)], False), ([(20, 20), (60, 3)], True)):
        batch = new_batch(*sizes)
        assert backend.serves(attention_input(batch)) == served
        assert FlashInferAttention(random_kv()).serves(attention_input(batch))
        if served:
            check(backend, kv, batch, layers)
    kinds = {type(wrapper).__name__ for event, wrapper, _ in flashinfer.log if event == "run"}
    assert kinds == {"BatchPrefillWithRaggedKVCacheWrapper"}


def test_layers_that_differ_have_plans_of_their_own(flashinfer: SimpleNamespace) -> None:
    torch.manual_seed(0)
    kv, layers = random_kv(layers=3), [OPTIONS["plain"], OPTIONS["window"], OPTIONS["plain"]]
    attention = FlashInferAttention(kv)
    check(attention, kv, new_batch((5, 5), (40, 8)), layers)
    assert events(flashinfer) == ["made", "plan", "run", "made", "plan", "run", "run"]
    del flashinfer.log[:]
    check(attention, kv, new_batch((30, 7)), layers)
    assert events(flashinfer) == ["plan"] * 2 + ["run"] * 3, (
        "what is known is planned before the first layer"
    )


def test_a_step_must_be_planned(flashinfer: SimpleNamespace) -> None:
    q = torch.randn(2, 4, 8)
    with pytest.raises(RuntimeError, match="nothing was planned"):
        FlashInferAttention(random_kv()).attend(0, q, OPTIONS["plain"], q.clone())


def test_verify(flashinfer: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [LayerKind(4, 2, 8, 0.3, None, None), LayerKind(4, 1, 8, 0.5, 7, 3.0)]
    verify(kinds, torch.float32, CPU)
    assert all(largest_error(kind, torch.float32, CPU) < 1e-5 for kind in kinds)
    run = fake_flashinfer.Wrapper._run
    monkeypatch.setattr(fake_flashinfer.Wrapper, "_run", lambda *args: run(*args).mul_(1.05))
    with pytest.raises(ArithmeticError, match=r"off by 0\.05"):
        verify(kinds, torch.float32, CPU)


@pytest.mark.parametrize("wrong", ["Ragged", "Paged"])
def test_verify_tries_both_ways(
    wrong: str, flashinfer: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flashinfer_backend, "extend_generation", lambda device: "fa3")
    wrapper = getattr(fake_flashinfer, f"BatchPrefillWith{wrong}KVCacheWrapper")
    run = wrapper.run
    monkeypatch.setattr(
        wrapper, "run", lambda self, *args, **settings: run(self, *args, **settings).mul_(1.05)
    )
    with pytest.raises(ArithmeticError, match=r"off by 0\.05"):
        verify([LayerKind(4, 2, 8, 0.3, None, None)], torch.float32, CPU)


SHAPES = [LayerShape(8, 128, 128), LayerShape(4, 256, 256)]
GPU = torch.device("cuda", 0)


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine on which nothing speaks against FlashInfer."""
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(flashinfer_kernels, "installed_version", lambda: "0.6.8.post1")
    monkeypatch.setattr(flashinfer_kernels.shutil, "which", lambda name: __file__)
    return monkeypatch


def test_nothing_against_it(hopper: pytest.MonkeyPatch) -> None:
    assert refusal(SHAPES, torch.bfloat16, GPU) is None
    assert flashinfer_kernels.extend_generation(GPU) == "fa3"


@pytest.mark.parametrize("version", [None, "0.5.3", "0.6.0", "0.7.2.post1", "1.0"])
def test_versions(hopper: pytest.MonkeyPatch, version: str | None) -> None:
    hopper.setattr(flashinfer_kernels, "installed_version", lambda: version)
    reason = refusal(SHAPES, torch.float16, GPU)
    assert reason is not None
    assert ("not installed" if version is None else f"FlashInfer {version} is not tested") in reason


def test_what_it_cannot_do(hopper: pytest.MonkeyPatch) -> None:
    assert "not in float32" in str(refusal(SHAPES, torch.float32, GPU))
    assert "not of 192 and 128" in str(refusal([LayerShape(8, 192, 128)], torch.bfloat16, GPU))
    assert "width 96" in str(refusal([*SHAPES, LayerShape(8, 96, 96)], torch.bfloat16, GPU))
    assert "the device is cpu" in str(refusal(SHAPES, torch.bfloat16, CPU))
    hopper.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert "has 7.5" in str(refusal(SHAPES, torch.bfloat16, GPU))
    hopper.setattr(torch.version, "cuda", None)
    assert "NVIDIA" in str(refusal(SHAPES, torch.bfloat16, GPU))


def test_compilers_that_are_missing(hopper: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_HOME", "CUDA_PATH", "FLASHINFER_NVCC"):
        hopper.delenv(name, raising=False)
    hopper.setattr(flashinfer_kernels.Path, "exists", lambda self: False)
    assert "nvcc" in str(refusal(SHAPES, torch.bfloat16, GPU))
    hopper.setattr(flashinfer_kernels.shutil, "which", lambda name: None)
    assert "ninja" in str(refusal(SHAPES, torch.bfloat16, GPU))


@pytest.mark.parametrize(
    "capability, toolkit, generation",
    [((9, 0), "12.1", "fa2"), ((8, 0), "13.0", "fa2"), ((10, 0), "13.0", "fa2")],
)
def test_hopper_kernels_are_for_hopper(
    hopper: pytest.MonkeyPatch, capability: tuple[int, int], toolkit: str, generation: str
) -> None:
    hopper.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    hopper.setattr(torch.version, "cuda", toolkit)
    assert flashinfer_kernels.extend_generation(GPU) == generation


def test_what_is_compiled_is_what_is_planned(
    hopper: pytest.MonkeyPatch, flashinfer: SimpleNamespace
) -> None:
    bf16 = torch.bfloat16
    kernel = LayerKind(32, 8, 128, 0.1, 4096, None).kernel(bf16, GPU)
    assert kernel == AttentionKernel("fa3", bf16, 128, True, False)
    build_attention(kernel)
    assert flashinfer.built == [
        ("fa3", bf16, bf16, bf16, torch.int32, 128, 128, 0, True, False, False)
    ]
    assert AttentionKernel("fa3", bf16, 64, True, True).job().name == "fa3 64 window softcap"
