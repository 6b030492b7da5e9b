"""How large a pool is made, and what errors mean; a GPU is only pretended."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from sgnb.engine import sizing
from sgnb.engine.cache.kv_cache import KVCache, LayerShape
from sgnb.engine.cache.state_pool import StateShape
from sgnb.engine.device import memory
from sgnb.engine.device.faults import hint_for, is_device_lost, is_out_of_memory
from sgnb.engine.device.memory import (
    GIB,
    check_weights_fit,
    free_host_bytes,
    release_device_memory,
    weight_bytes,
)
from sgnb.engine.engine import Engine
from sgnb.engine.options import EngineOptions
from sgnb.engine.sizing import (
    activation_bytes,
    logit_bytes,
    make_pools,
    num_states,
    pool_tokens,
    work_bytes,
)
from sgnb.errors import ModelError, OptionError

from ..random_models import random_model

GPU = torch.device("cuda", 0)
LLAMA_8B = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32}
LAYERS = {layer: LayerShape(8, 128, 128) for layer in range(32)}
EACH = 32 * 8 * 256 * 2


def fake_decoder(device: torch.device = GPU, **config: Any) -> Any:
    """The 8B shape with weights of 16 GiB that take no memory."""
    settings = SimpleNamespace(**(LLAMA_8B | config))
    settings.get_text_config = lambda: settings
    model = nn.Module()
    model.register_parameter(
        "weight", nn.Parameter(torch.empty(8 * GIB, dtype=torch.bfloat16, device="meta"))
    )
    model.config = settings
    return SimpleNamespace(
        model=model, shapes=LAYERS, states={}, dtype=torch.bfloat16, device=device,
        vocab_size=128_256, items=None, scratch_bytes=0, ranks=None,
    )  # fmt: skip


def options(**given: Any) -> EngineOptions:
    return EngineOptions(**given).on("cuda")


@pytest.fixture(autouse=True)
def no_flashinfer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated GPU has no FlashInfer, whatever build of torch runs the tests."""
    monkeypatch.setattr(sizing, "refusal", lambda shapes, dtype, device: "there is no GPU")


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Says how many GiB the GPU has free."""

    def set_free(gib: float) -> None:
        for module in (sizing, memory):
            monkeypatch.setattr(module, "free_bytes", lambda device: int(gib * GIB))

    return set_free


def test_without_a_limit_the_pool_takes_most_of_what_is_free(free: Callable[[float], None]) -> None:
    decoder, given = fake_decoder(), options()
    for gib in (30, 60, 120):
        free(gib)
        assert (
            pool_tokens(decoder, given)
            == (int(gib * GIB * 0.9) - work_bytes(decoder, given)) // EACH
        )
    free(10_000)
    assert pool_tokens(decoder, given) == sizing.GPU_POOL_TOKENS


def test_a_pool_in_fp8_holds_twice_as_many_tokens(free: Callable[[float], None]) -> None:
    free(60)
    dense, fp8 = (pool_tokens(fake_decoder(), options(kv_dtype=x)) for x in ("auto", "fp8"))
    each = KVCache.bytes_per_token(LAYERS, torch.bfloat16, "fp8")
    assert each == EACH // 2 + 2 * 2 * sum(shape.heads for shape in LAYERS.values())
    assert fp8 == dense * EACH // each or 0 <= fp8 - dense * EACH // each <= EACH // each
    assert 1.96 < fp8 / dense < 1.97


def test_a_limit_counts_weights_pool_and_work(free: Callable[[float], None]) -> None:
    decoder = fake_decoder()
    free(120)
    given = options(memory_limit=40)
    total = (
        pool_tokens(decoder, given) * EACH
        + work_bytes(decoder, given)
        + weight_bytes(decoder.model)
    )
    assert 40 * GIB - EACH < total <= 40 * GIB
    free(20)  # others have the rest
    assert pool_tokens(decoder, given) == (20 * GIB - work_bytes(decoder, given)) // EACH


def test_encoders_of_items_take_memory_from_the_pool(free: Callable[[float], None]) -> None:
    """The cache of rows, and what a call works on beyond a step, because calls run between
    steps."""
    free(60)
    decoder, given = fake_decoder(), options(encoder_cache=0.5, max_step_tokens=2048)
    text = pool_tokens(decoder, given) * EACH
    step = sizing.activation_bytes(decoder, 2048)
    for call in (0, step // 2, 3 * step):
        decoder.items = SimpleNamespace(token_bytes=call / 2048)
        lost = text - pool_tokens(decoder, given) * EACH
        assert abs(lost - GIB // 2 - max(0, call - step)) <= EACH


def test_two_engines_share_a_card(free: Callable[[float], None]) -> None:
    decoder, given, card = fake_decoder(), options(memory_limit=38), 80.0
    for _ in range(2):
        free(card - 16)
        used = pool_tokens(decoder, given) * EACH + 16 * GIB + work_bytes(decoder, given)
        card -= used / GIB
    assert card == pytest.approx(80 - 2 * 38, abs=0.01)


@pytest.mark.parametrize(
    ("gib", "given", "said", "hint"),
    [
        (
            2.0,
            {},
            r"of 1,024 tokens \(0\.1 GiB\).*\(16\.0 GiB\), 2\.0 GiB are free on cuda:0",
            "smaller max_step_tokens or max_running_requests, or unload another",
        ),
        (
            90,
            {"memory_limit": 17},
            r"memory_limit is 17 GiB, and a step of 8,192 tokens for 1,024 req",
            "smaller max_step_tokens or max_running_requests, or with a larger memory_limit",
        ),
        (
            90,
            {"memory_limit": 24, "max_total_tokens": 10**6},
            r"1,000,000 tokens \(122\.1 GiB\)",
            "smaller max_total_tokens, or with a larger memory_limit",
        ),
        (0.1, {}, "0.1 GiB are free on cuda:0", "a smaller model, or unload another"),
    ],
)
def test_no_room_is_said_with_figures(
    gib: float, given: dict[str, Any], said: str, hint: str, free: Callable[[float], None]
) -> None:
    free(gib)
    with pytest.raises(OptionError, match=rf"(?s){said}.*hint: load (with )?(a )?{hint}"):
        pool_tokens(fake_decoder(), options(**given))


def test_a_pool_of_the_users_size(free: Callable[[float], None]) -> None:
    free(30)
    for given in ({}, {"memory_limit": 40}):
        assert pool_tokens(fake_decoder(), options(max_total_tokens=500, **given)) == 500


def test_on_a_cpu_a_pool_beyond_the_memory_is_refused() -> None:
    """It would be loaded, as it is taken only when it is written, and die then."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < free_host_bytes() <= machine
    model = random_model()
    with pytest.raises(OptionError, match=r"(?s)a KV pool.*are free.*max_total_tokens, at most"):
        Engine(model, max_total_tokens=machine // 256)  # 512 bytes each
    assert model.config._attn_implementation != "sgnb"


def test_on_a_cpu_with_little_memory_the_pool_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = fake_decoder(torch.device("cpu"))
    each = KVCache.bytes_per_token(decoder.shapes, decoder.dtype)
    monkeypatch.setattr(sizing, "free_host_bytes", lambda: 1000 * each)
    assert pool_tokens(decoder, EngineOptions().on("cpu")) == 1000
    assert pool_tokens(decoder, EngineOptions(max_total_tokens=1000).on("cpu")) == 1000
    with pytest.raises(OptionError, match=r"(?s)a KV pool of 1,001 tokens.*at most 1,000"):
        pool_tokens(decoder, EngineOptions(max_total_tokens=1001).on("cpu"))


@pytest.mark.parametrize("version", [0, 1])
def test_what_a_control_group_leaves(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its limit less what is used, of which the cache of files gives way."""
    _, limit, usage, total = memory.CONTROL_GROUPS[version]
    monkeypatch.setattr(memory, "CONTROL_GROUPS", ((tmp_path, limit, usage, total),))
    (tmp_path / limit).write_text("max\n")
    (tmp_path / usage).write_text("900000\n")
    (tmp_path / "memory.stat").write_text(f"{total}active_file 50000\n{total}inactive_file 1000\n")
    assert free_host_bytes() > 1_000_000
    (tmp_path / limit).write_text("1000000\n")
    assert free_host_bytes() == 151_000
    (tmp_path / limit).write_text("100000\n")
    assert free_host_bytes() == 0


def test_on_a_cpu_the_pool_is_modest() -> None:
    decoder = fake_decoder(torch.device("cpu"))
    given = EngineOptions().on("cpu")
    assert pool_tokens(decoder, given) == sizing.CPU_POOL_BYTES // EACH
    assert pool_tokens(decoder, EngineOptions(max_total_tokens=7).on("cpu")) == 7
    decoder.shapes = {0: LayerShape(1, 8, 8)}
    assert pool_tokens(decoder, given) == sizing.CPU_POOL_TOKENS


def test_the_work_of_a_step() -> None:
    """Llama 8B in bf16, by hand: per token 3 x 4096 x 2 of hidden states and 4 x 14336 x 2 of the
    feed-forward."""
    decoder = fake_decoder()
    assert activation_bytes(decoder, 1) == 3 * 4096 * 2 + 4 * 14336 * 2
    assert activation_bytes(decoder, 8192) == 8192 * activation_bytes(decoder, 1)
    assert logit_bytes(decoder, 100) == 100 * 128_256 * (2 + 4 + 4 + 40)
    assert logit_bytes(decoder, 1000) == 128_256 * (1000 * 10 + 256 * 40)
    eager = options(cuda_graphs=False)
    assert work_bytes(decoder, options()) - work_bytes(decoder, eager) == 1024 * (
        activation_bytes(decoder, 1) + 128_256 * (10 + 2)
    )
    dense = work_bytes(decoder, options()), work_bytes(decoder, eager)
    decoder.scratch_bytes = 1000  # in a step, and in the memory of graphs
    assert work_bytes(decoder, options()) == dense[0] + 2000
    assert work_bytes(decoder, eager) == dense[1] + 1000
    decoder.scratch_bytes = 0
    small = options(max_step_tokens=1024, max_running_requests=8)
    assert work_bytes(decoder, small) < work_bytes(decoder, options()) / 4


def test_what_flashinfer_wants_brought_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Hopper, keys and values of 8 heads of 128 in bf16, 4 for each token of a step."""
    monkeypatch.setattr(sizing, "refusal", lambda shapes, dtype, device: "it is not installed")
    without = work_bytes(fake_decoder(), options())
    monkeypatch.setattr(sizing, "refusal", lambda shapes, dtype, device: None)
    monkeypatch.setattr(sizing, "most_gathered", lambda device: 4)
    gathered = work_bytes(fake_decoder(), options()) - without
    assert gathered == 4 * 8192 * 2 * 8 * 128 * 2
    for given in ({"attention": "triton"}, {"deterministic": True}):
        assert work_bytes(fake_decoder(), options(**given)) == without
    monkeypatch.setattr(sizing, "most_gathered", lambda device: 0)
    assert work_bytes(fake_decoder(), options()) == without


def test_the_work_of_experts_and_of_wide_heads() -> None:
    dense = activation_bytes(fake_decoder(), 1)
    experts = fake_decoder(num_experts_per_tok=8, moe_intermediate_size=2048)
    assert activation_bytes(experts, 1) == 3 * 4096 * 2 + 8 * 3 * (4096 + 2048) * 2 > dense
    narrow = fake_decoder(intermediate_size=64)
    assert activation_bytes(narrow, 1) == 3 * 4096 * 2 + (5 * 32 * 128 + 3 * 8 * 256) * 2
    per_layer = fake_decoder(intermediate_size=[64, 14336])
    assert activation_bytes(per_layer, 1) == dense


@pytest.mark.parametrize(
    "family", ["llama", "gpt2", "opt", "mixtral", "qwen3_moe", "gemma3_text", "deepseek_v3"]
)
def test_every_family_has_figures(family: str) -> None:
    model = random_model(family)
    shapes = {0: LayerShape(2, 16, 16)}
    decoder = SimpleNamespace(
        model=model, shapes=shapes, states={}, dtype=torch.float32, vocab_size=97
    )
    assert activation_bytes(decoder, 1) > 4 * 64 * 3


def test_states_of_recurrent_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the memory beside keys and values, all of it without; never fewer than one request
    needs."""
    monkeypatch.setattr(sizing, "_room", lambda decoder, options: 10 * GIB)
    decoder = fake_decoder()
    decoder.states = {0: [StateShape("recurrent", 0, (1 << 28,), torch.float32)]}  # 1 GiB
    assert num_states(decoder, options()) == 5
    assert num_states(decoder, options(max_states=10)) == 10
    with pytest.raises(OptionError, match=r"max_states=3 is too few.*\n.*max_states=4 or more"):
        num_states(decoder, options(max_states=3))
    with pytest.raises(
        OptionError, match=r"11 states .*\(11\.0 GiB\).*: 10\.0 GiB are left\n.* from 4 to 10"
    ):
        num_states(decoder, options(max_states=11))
    decoder.shapes = {}
    assert num_states(decoder, options()) == 10
    monkeypatch.setattr(sizing, "_room", lambda decoder, options: 3 * GIB)
    with pytest.raises(OptionError, match=r"4 states .*: 3\.0 GiB are left\n.*smaller model"):
        num_states(decoder, options())


def test_tied_weights_count_once() -> None:
    apart, tied = random_model(), random_model(tie_word_embeddings=True)
    assert weight_bytes(apart) - weight_bytes(tied) == apart.lm_head.weight.nbytes


def test_weights_against_the_free_memory(
    free: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    free(20)
    check_weights_fit("m", 16 * GIB, torch.bfloat16, GPU, None)
    check_weights_fit("m", 16 * GIB, torch.bfloat16, GPU, 16)
    with pytest.raises(
        ModelError, match=r"'m' take 32\.0 GiB in float32, and 20\.0 GiB are free on.*\n.*bfloat16"
    ):
        check_weights_fit("m", 32 * GIB, torch.float32, GPU, None)
    with pytest.raises(
        ModelError,
        match=r"take 16\.0 GiB in bfloat16, and memory_limit is 12 GiB\n.*: load with a larger",
    ):
        check_weights_fit("m", 16 * GIB, torch.bfloat16, GPU, 12)
    monkeypatch.setattr(memory, "free_host_bytes", lambda: 8 * GIB)
    check_weights_fit("m", 8 * GIB, torch.bfloat16, torch.device("cpu"), None)
    with pytest.raises(ModelError, match=r"take 9\.0 GiB, and 8\.0 GiB are free on this machine"):
        check_weights_fit("m", 9 * GIB, None, torch.device("cpu"), 99)


def test_the_cache_is_of_that_size_and_known_while_it_lives() -> None:
    decoder = fake_decoder(torch.device("cpu"))
    decoder.shapes = {0: LayerShape(1, 8, 4)}
    cache, states = make_pools(decoder, EngineOptions(max_total_tokens=7).on("cpu"))
    assert states is None
    assert cache.slots == 7 and cache.keys[0].shape == (8, 1, 8) and cache in memory.pools
    gone = weakref.ref(cache)
    del cache
    gc.collect()
    assert gone() is None
    with pytest.raises(
        OptionError,
        match=r"of 100,000,000,000,000 tokens .* does not fit.*\n.*smaller max_total_tokens",
    ):
        make_pools(decoder, EngineOptions(max_total_tokens=10**14).on("cpu"))


def test_workspaces_go_with_the_last_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(memory, "pools", weakref.WeakSet())
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.accelerator, "empty_host_cache", lambda: None, raising=False)
    for home, name in ((torch.cuda, "synchronize"), (torch.cuda, "empty_cache"),
                       (torch._C, "_cuda_clearCublasWorkspaces")):  # fmt: skip
        monkeypatch.setattr(home, name, lambda name=name: done.append(name), raising=False)
    other = KVCache({}, 1, torch.float32, torch.device("cpu"))
    memory.pools.add(other)
    release_device_memory()
    assert done == ["empty_cache"]
    del other
    release_device_memory()
    assert done == ["empty_cache", "synchronize", "_cuda_clearCublasWorkspaces", "empty_cache"]


def test_a_lost_device_has_nothing_to_give_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", fail)
    monkeypatch.setattr(torch.cuda, "synchronize", fail)
    release_device_memory()


TORCHS_ADVICE = """
CUDA kernel errors might be asynchronously reported at some other API call, \
so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""

ERRORS = [
    (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True, False),
    (RuntimeError("CUDA error: out of memory"), True, False),
    (
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"),
        True,
        False,
    ),
    (
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
        True,
        False,
    ),
    (MemoryError(), True, False),
    (RuntimeError("CUDA error: an illegal memory access was encountered"), False, True),
    (
        RuntimeError("CUDA error: device-side assert triggered\nCompile with TORCH_USE_CUDA_DSA"),
        False,
        True,
    ),
    (RuntimeError("Triton Error [CUDA]: misaligned address"), False, True),
    (RuntimeError("CUDA error: device-side assert triggered" + TORCHS_ADVICE), False, True),
    (RuntimeError("CUDA error: invalid argument"), False, False),
    (
        RuntimeError(
            "CUDA error: operation not permitted when stream is capturing" + TORCHS_ADVICE
        ),
        False,
        False,
    ),
    (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False, False),
    (ValueError("an illegal memory access"), False, False),
]  # fmt: skip


@pytest.mark.parametrize(("error", "memory_ran_out", "lost"), ERRORS)
def test_kinds_of_errors(error: Exception, memory_ran_out: bool, lost: bool) -> None:
    assert is_out_of_memory(error) is memory_ran_out
    assert is_device_lost(error) is lost
    expected = (
        "smaller max_step_tokens"
        if memory_ran_out
        else "restart the kernel"
        if lost
        else "the engine continues"
    )
    assert expected in hint_for(error)


def test_an_unknown_error_of_a_gpu_that_answers_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("CUDA error: something new")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", fail)
    assert is_device_lost(RuntimeError("CUDA error: something new"))
    assert not is_device_lost(RuntimeError("something new"))
