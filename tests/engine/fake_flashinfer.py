"""A stand-in for FlashInfer on a CPU: what of it we call, with its rules, and attention in plain torch."""

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


class BatchPrefillWithPagedKVCacheWrapper:
    """`log` collects (event, wrapper, settings) of all wrappers."""

    log: list[tuple[str, Any, dict[str, Any]]]

    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str = "NHD", backend: str = "auto") -> None:
        assert float_workspace_buffer.dtype == torch.uint8 and len(float_workspace_buffer) and kv_layout == "NHD"
        assert backend in ("fa2", "fa3")
        self.log.append(("made", self, {}))

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
        assert all(
            t.dtype == torch.int32 for t in (qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len)
        )
        assert causal and page_size == 1 and len(qo_indptr) == len(paged_kv_indptr) == len(paged_kv_last_page_len) + 1
        assert int(paged_kv_indptr[-1]) == len(paged_kv_indices) and bool((paged_kv_last_page_len == 1).all())
        self.row_ends, self.ends, self.indices = qo_indptr.clone(), paged_kv_indptr.clone(), paged_kv_indices
        self.shape, self.settings = (num_qo_heads, num_kv_heads, head_dim_qk), settings
        self.log.append(("plan", self, settings))

    def run(self, q: Tensor, pages: Any, out: Tensor, return_lse: bool = False) -> Any:
        self.log.append(("run", self, {}))
        heads, kv_heads, dim = self.shape
        assert q.shape == out.shape == (int(self.row_ends[-1]), heads, dim) and out.is_contiguous()
        left, cap = self.settings["window_left"], self.settings["logits_soft_cap"]
        options = LayerOptions(self.settings["sm_scale"], None if left == -1 else left + 1, cap)
        keys, values = (page.squeeze(1) for page in pages)
        assert keys.shape[1:] == (kv_heads, dim) and keys.dtype == self.settings["kv_data_type"]
        lse = torch.empty(q.shape[:2])
        for i in range(len(self.row_ends) - 1):
            rows = slice(int(self.row_ends[i]), int(self.row_ends[i + 1]))
            seen = self.indices[int(self.ends[i]) : int(self.ends[i + 1])].long()
            assert len(seen) >= rows.stop - rows.start
            per_head = q[rows].transpose(0, 1)
            out[rows] = reference(per_head, keys[seen], values[seen], options).to(out.dtype)
            lse[rows] = _log2_sum(per_head, keys[seen], options)
        return (out, lse) if return_lse else out


def _log2_sum(q: Tensor, k: Tensor, options: LayerOptions) -> Tensor:
    """A sink of score s takes the share 1 / (1 + exp(lse - s)): from what a sink of 0 leaves, the log-sum-exp."""
    ones = torch.ones_like(k)
    left = reference(q, k, ones, options._replace(sinks=torch.zeros(len(q))))[..., 0]
    return torch.logit(left) / math.log(2)


def install(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Put the stand-in where `import flashinfer` finds it. Returns `log` and `built`, what was compiled."""
    record = SimpleNamespace(log=[], built=[], fails=None)

    def get_batch_prefill_module(*args: Any) -> None:
        if record.fails is not None:
            raise record.fails
        record.built.append(args)

    wrapper = BatchPrefillWithPagedKVCacheWrapper
    monkeypatch.setattr(wrapper, "log", record.log, raising=False)
    names: dict[str, dict[str, Any]] = {
        "flashinfer": {wrapper.__name__: wrapper},
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
