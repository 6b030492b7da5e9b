"""A stand-in for FlashInfer on a CPU: what of it we call, with its rules, and attention in plain
torch."""

from __future__ import annotations

import math
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from sgnb.engine.attention import LayerOptions

from .test_attention import reference


class Wrapper:
    """What the two kinds share. `log` collects (event, wrapper, settings) of all wrappers."""

    log: list[tuple[str, Any, dict[str, Any]]]

    def __init__(
        self, float_workspace_buffer: Tensor, kv_layout: str = "NHD", backend: str = "auto"
    ) -> None:
        assert (
            float_workspace_buffer.dtype == torch.uint8
            and len(float_workspace_buffer)
            and kv_layout == "NHD"
        )
        assert backend in ("fa2", "fa3")
        self.log.append(("made", self, {}))

    def _plan(
        self, row_ends: Tensor, ends: Tensor, shape: tuple[int, int, int], settings: dict[str, Any]
    ) -> None:
        assert row_ends.dtype == ends.dtype == torch.int32 and len(row_ends) == len(ends)
        self.row_ends, self.ends, self.shape, self.settings = (
            row_ends.clone(),
            ends.clone(),
            shape,
            settings,
        )
        self.log.append(("plan", self, settings))

    def _run(self, q: Tensor, keys: Tensor, values: Tensor, out: Tensor, return_lse: bool) -> Any:
        """keys and values lie as the requests see them."""
        self.log.append(("run", self, {}))
        heads, kv_heads, dim = self.shape
        assert q.shape == out.shape == (int(self.row_ends[-1]), heads, dim) and out.is_contiguous()
        assert keys.shape == values.shape == (int(self.ends[-1]), kv_heads, dim)
        assert keys.dtype == self.settings["kv_data_type"]
        left, cap = self.settings["window_left"], self.settings["logits_soft_cap"]
        options = LayerOptions(self.settings["sm_scale"], None if left == -1 else left + 1, cap)
        lse = torch.empty(q.shape[:2])
        for i in range(len(self.row_ends) - 1):
            rows = slice(int(self.row_ends[i]), int(self.row_ends[i + 1]))
            seen = slice(int(self.ends[i]), int(self.ends[i + 1]))
            assert seen.stop - seen.start >= rows.stop - rows.start
            per_head = q[rows].transpose(0, 1)
            out[rows] = reference(per_head, keys[seen], values[seen], options).to(out.dtype)
            lse[rows] = _log2_sum(per_head, keys[seen], options)
        return (out, lse) if return_lse else out


class BatchPrefillWithPagedKVCacheWrapper(Wrapper):
    def plan(
        self,
        qo_indptr: Tensor,
        paged_kv_indptr: Tensor,
        paged_kv_indices: Tensor,
        paged_kv_last_page_len: Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        page_size: int,
        *,
        causal: bool,
        **settings: Any,
    ) -> None:
        assert paged_kv_indices.dtype == paged_kv_last_page_len.dtype == torch.int32
        assert causal and page_size == 1 and len(paged_kv_indptr) == len(paged_kv_last_page_len) + 1
        assert int(paged_kv_indptr[-1]) == len(paged_kv_indices) and bool(
            (paged_kv_last_page_len == 1).all()
        )
        self.indices = paged_kv_indices
        self._plan(qo_indptr, paged_kv_indptr, (num_qo_heads, num_kv_heads, head_dim_qk), settings)

    def run(self, q: Tensor, pages: Any, out: Tensor, return_lse: bool = False) -> Any:
        keys, values = (page.squeeze(1)[self.indices.long()] for page in pages)
        return self._run(q, keys, values, out, return_lse)


class BatchPrefillWithRaggedKVCacheWrapper(Wrapper):
    def plan(
        self,
        qo_indptr: Tensor,
        kv_indptr: Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        *,
        causal: bool,
        **settings: Any,
    ) -> None:
        assert causal
        self._plan(qo_indptr, kv_indptr, (num_qo_heads, num_kv_heads, head_dim_qk), settings)

    def run(self, q: Tensor, k: Tensor, v: Tensor, out: Tensor, return_lse: bool = False) -> Any:
        assert k.is_contiguous() and v.is_contiguous()
        return self._run(q, k, v, out, return_lse)


def _log2_sum(q: Tensor, k: Tensor, options: LayerOptions) -> Tensor:
    """A sink of score s takes the share 1 / (1 + exp(lse - s)): from what a sink of 0 leaves, the
    log-sum-exp."""
    ones = torch.ones_like(k)
    left = reference(q, k, ones, options._replace(sinks=torch.zeros(len(q))))[..., 0]
    return torch.logit(left) / math.log(2)


def install(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Put the stand-in where `import flashinfer` finds it. Returns `log` and `built`, what was
    compiled."""
    record = SimpleNamespace(log=[], built=[], fails=None)

    def get_batch_prefill_module(*args: Any) -> None:
        if record.fails is not None:
            raise record.fails
        record.built.append(args)

    wrappers = BatchPrefillWithPagedKVCacheWrapper, BatchPrefillWithRaggedKVCacheWrapper
    monkeypatch.setattr(Wrapper, "log", record.log, raising=False)
    names: dict[str, dict[str, Any]] = {
        "flashinfer": {wrapper.__name__: wrapper for wrapper in wrappers},
        "flashinfer.prefill": {"get_batch_prefill_module": get_batch_prefill_module},
        "flashinfer.jit": {},
        "flashinfer.jit.core": {},
    }
    for name, contents in names.items():
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None, is_package=True)
        module.__dict__.update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    return record
