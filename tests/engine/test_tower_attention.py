"""Attention of encoders within segments, against one masked call."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.multimodal import as_media
from sgnb.engine.engine import Engine
from sgnb.engine.fusion import encoders
from sgnb.engine.items import EngineItem
from sgnb.engine.model import tower_attention
from sgnb.engine.model.tower_attention import SEGMENTS, segments_attention, use_segments

from ..multimodal_models import multimodal_model
from ..multimodal_models.items import picture


def masked(q: Tensor, k: Tensor, v: Tensor, lengths: list[int], scale: float) -> Tensor:
    """Slow twin: a single call with a mask."""
    segment = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    mask = segment[:, None] == segment[None]
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    return scaled_dot_product_attention(q, k, v, mask, scale=scale).transpose(1, 2)


@given(
    lengths=st.lists(st.sampled_from([0, 1, 3, 4, 16]), min_size=1, max_size=7).filter(any),
    groups=st.sampled_from([1, 2]),
    dim=st.sampled_from([8, 18, 20]),
)
def test_segments_see_only_themselves(lengths: list[int], groups: int, dim: int) -> None:
    draw = torch.Generator().manual_seed(0)
    total = sum(lengths)
    q = torch.randn(1, 2, total, dim, generator=draw)
    k, v = (torch.randn(1, 2 // groups, total, dim, generator=draw) for _ in "kv")
    ends = torch.tensor([0, *lengths]).cumsum(0)
    out, weights = segments_attention(
        nn.Module(), q, k, v, None, scaling=0.3, cu_seq_lens_q=ends, cu_seq_lens_k=ends
    )
    assert weights is None
    torch.testing.assert_close(out, masked(q, k, v, lengths, 0.3))


def test_equal_segments_take_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(*args: Any, **options: Any) -> Tensor:
        calls.append(args[0].shape)
        return scaled_dot_product_attention(*args, **options)

    monkeypatch.setattr(tower_attention, "scaled_dot_product_attention", counted)
    q = torch.randn(1, 2, 384, 8)
    ends = torch.arange(0, 385, 64)
    segments_attention(nn.Module(), q, q, q, None, cu_seq_lens_q=ends, cu_seq_lens_k=ends)
    assert calls == [(6, 2, 64, 8)]


@pytest.mark.parametrize(
    "change",
    [
        {"attention_mask": torch.ones(1, 1, 4, 4)},
        {"is_causal": True},
        {"sliding_window": 2},
        {"cu_seq_lens_k": torch.tensor([0, 1, 4])},
        {"cu_seq_lens_q": torch.tensor([0, 3])},
    ],
    ids=lambda change: next(iter(change)),
)
def test_other_calls_are_errors(change: dict[str, Any]) -> None:
    q, ends = torch.randn(1, 2, 4, 8), torch.tensor([0, 2, 4])
    options = {"attention_mask": None, "cu_seq_lens_q": ends, "cu_seq_lens_k": ends} | change
    with pytest.raises(ValueError, match="the encoder's attention has"):
        segments_attention(nn.Module(), q, q, q, **options)


def towers(model: Any) -> list[Any]:
    return list(tower_attention.tower_attentions(model))


def names(model: Any) -> set[str]:
    return {module.config._attn_implementation for module in towers(model)}


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl", "glm4v"])
def test_an_engine_uses_and_restores(family: str) -> None:
    model, processor = multimodal_model(family)
    before = names(model)
    assert before and SEGMENTS not in before
    with Engine(model, processor=processor, device="cpu", max_total_tokens=2048) as engine:
        assert names(model) == {SEGMENTS}
        assert "image" in engine.modalities
    assert names(model) == before


def test_modules_of_an_encoder_are_fused() -> None:
    model, processor = multimodal_model("qwen2_5_vl")
    visual = model.model.visual
    blocks = [block for block in visual.modules() if hasattr(block, "norm1")]
    assert blocks
    parts = [part for block in blocks for part in (block.mlp, block.norm1, block.attn)]
    rows = []
    for fuse in (True, False):
        with Engine(model, processor=processor, device="cpu", fuse=fuse) as engine:
            replaced = ["forward" in vars(part) for part in (*parts, visual.patch_embed.proj)]
            assert all(replaced) if fuse else not any(replaced)
            encoder: Any = engine.items.encoder  # type: ignore[union-attr]
            content = as_media(picture(3), "image")
            item = EngineItem(content, 0, encoder.process(content))
            encoder.encode([item])
            rows.append(item.rows.embeddings)  # type: ignore[union-attr]
    assert torch.allclose(*rows, atol=1e-4)
    assert not any("forward" in vars(module) for module in model.modules())


def test_another_rotation_keeps_the_own_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "HALVES", encoders.HALVES._replace(interleaved=True))
    model, processor = multimodal_model("qwen2_5_vl")
    with Engine(model, processor=processor, device="cpu", max_total_tokens=2048) as engine:
        blocks = [block for block in model.model.visual.modules() if hasattr(block, "norm1")]
        assert not any("forward" in vars(block.attn) for block in blocks)
        assert all("forward" in vars(block.mlp) for block in blocks)
        assert "image" in engine.modalities


@pytest.mark.parametrize("kind", [nn.Conv2d, nn.Conv3d])
def test_patches_of_the_kernels_size_are_a_product(kind: Any) -> None:
    axes = 2 if kind is nn.Conv2d else 3
    size = (2, 5, 7)[-axes:]
    module = kind(3, 4, size, size)
    forward = encoders.patch_product(module)
    for shape in ((6, 3, *size), (2, 3, *(2 * side for side in size)), (3, *size)):
        x = torch.randn(shape)
        torch.testing.assert_close(forward(x), module(x))
    padded = kind(3, 4, size, size, padding=1)
    x = torch.randn(6, 3, *size)
    torch.testing.assert_close(encoders.patch_product(padded)(x), padded(x))


@pytest.mark.parametrize("fault", ["wrong", "error"])
def test_other_rows_keep_the_own_attention(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(q: Tensor, *rest: Any) -> Tensor:
        if fault == "error":
            raise RuntimeError("no kernel")
        return torch.zeros_like(q)

    monkeypatch.setattr(tower_attention, "attend_by_length", faulty)
    model, processor = multimodal_model("qwen2_5_vl")
    before = names(model)
    with Engine(model, processor=processor, device="cpu", max_total_tokens=2048) as engine:
        assert names(model) == before
        assert "image" in engine.modalities


def test_a_model_without_segments_is_not_encoded() -> None:
    model, _ = multimodal_model("llava")

    def rows() -> Tensor:
        raise AssertionError("no attention to compare")

    with ExitStack() as undo:
        assert not use_segments(model, rows, undo)
