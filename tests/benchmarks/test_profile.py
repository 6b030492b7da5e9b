"""What is made of a profiler's trace."""

from __future__ import annotations

import pytest

from benchmarks.gpu.gaps import Piece
from benchmarks.gpu.profile import KINDS, OTHER, kind_of, longest, run, shares

PIECES = [
    Piece("void gemm_kernel<256, 128>(Params)", 0, 500),
    Piece("attend_tiles", 500, 700),
    Piece("Memcpy HtoD (Pinned -> Device)", 650, 700),
    Piece("attend_tiles", 750, 1000),
]


def test_shares_of_time() -> None:
    kinds = dict(zip([*KINDS, OTHER], shares(PIECES)[1:-1], strict=True))
    assert kinds["products"] == "50.0%"
    assert kinds["attention"] == "45.0%"
    assert kinds["copies"] == "5.0%"
    assert kinds[OTHER] == "0.0%"
    assert (shares(PIECES)[0], shares(PIECES)[-1]) == ("1.0", "5.0%")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_TNN", "products"),
        ("void flashinfer::PrefillWithKVCacheKernel<cutlass::bfloat16_t>(Params)", "attention"),
        ("_rotate_and_store_kernel", "norms, rotary, activations"),
        ("linear_kernel", "products"),
        ("project_kernel", "products"),
        ("_sum_blocks", "choosing"),
        ("void at::native::elementwise_kernel<128>(int)", OTHER),
    ],
)
def test_kinds_of_kernels(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_the_longest_come_first() -> None:
    assert longest(PIECES).split("; ")[:2] == ["gemm_kernel 0.5 (1)", "attend_tiles 0.5 (2)"]
    assert (
        longest([Piece("void at::(anonymous namespace)::softmax<float>(int)", 0, 100)])
        == "at::softmax 0.1 (1)"
    )


def test_without_a_gpu_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert run().rows == []
