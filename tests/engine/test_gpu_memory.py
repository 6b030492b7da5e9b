"""Loading to an NVIDIA GPU, the memory that an engine takes there, and that it gives all of it
back."""

from __future__ import annotations

import copy
import gc
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from sgnb.engine import sizing
from sgnb.engine.cache.kv_cache import KVCache
from sgnb.engine.device.faults import is_device_lost, is_out_of_memory
from sgnb.engine.device.memory import GIB, release_device_memory, weight_bytes
from sgnb.engine.engine import Engine
from sgnb.engine.model import loading
from sgnb.engine.model.decoder import load_decoder
from sgnb.engine.model.loading import load_module
from sgnb.engine.model.safetensors_reader import TensorReader
from sgnb.engine.sizing import activation_bytes, logit_bytes, work_bytes
from sgnb.errors import ModelError, OptionError

from ..random_models import random_model

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

WIDE: dict[str, Any] = {
    "vocab_size": 32_000, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 4,
    "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128,
    "max_position_embeddings": 8192,
}  # fmt: skip
RETURNED = 200 << 20


@pytest.fixture(autouse=True)
def empty() -> None:
    gc.collect()
    release_device_memory()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """About 0.7 GB in bf16, in shards."""
    made = tmp_path_factory.mktemp("wide")
    random_model("llama", **WIDE).to(torch.bfloat16).save_pretrained(made, max_shard_size="200MB")
    return made


@pytest.mark.parametrize("family", ["llama", "mixtral", "qwen3_moe", "gemma3_text", "gpt_oss"])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_the_weights_are_those_that_transformers_loads(
    family: str, dtype: torch.dtype | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "TensorReader", partial(TensorReader, piece_bytes=1000))
    random_model(family).save_pretrained(tmp_path, max_shard_size="60KB")
    expected = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=dtype or "auto")
    module = load_module(str(tmp_path), torch.device("cuda", 0), dtype)
    for own, other in ((module.named_parameters(), expected.named_parameters()),
                       (module.named_buffers(), expected.named_buffers())):  # fmt: skip
        for (name, tensor), (_, reference) in zip(own, other, strict=True):
            assert tensor.is_cuda and torch.equal(tensor.cpu(), reference), name


def test_large_tensors_come_whole_through_the_buffers(folder: Path) -> None:
    """Every buffer is used again and again: a piece overwritten before it was copied would show."""
    expected = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    for _ in range(3):
        module = load_module(str(folder), torch.device("cuda", 0))
        for (name, tensor), (_, reference) in zip(
            module.named_parameters(), expected.named_parameters(), strict=True
        ):
            assert torch.equal(tensor.cpu(), reference), name


def test_loading_takes_little_more_than_the_weights(folder: Path) -> None:
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    module = load_module(str(folder), torch.device("cuda", 0))
    weights = weight_bytes(module)
    assert torch.cuda.memory_allocated() - before < weights * 1.01 + (16 << 20)
    assert torch.cuda.max_memory_allocated() - before < weights * 1.01 + (150 << 20)


@pytest.mark.parametrize("source", ["folder", "module"])
def test_ten_engines_give_everything_back(source: str, folder: Path) -> None:
    """The first also fetches what CUDA keeps for good; none of the later ones may leave more."""
    reserved, free = [], []
    own = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    for _ in range(10):
        model = str(folder) if source == "folder" else copy.deepcopy(own)
        engine = Engine(model, device="cuda", tokenizer=None, memory_limit=4)
        prompts = [[5 + i, *range(10, 200)] for i in range(24)]
        engine.generate(prompts, max_new_tokens=8, ignore_eos=True)
        assert torch.cuda.memory_reserved() > GIB
        engine.close()
        del engine, model
        gc.collect()
        if (
            source == "module"
        ):  # it outlived the engine: what its owner then drops, torch keeps in its cache
            torch.cuda.empty_cache()
        reserved.append(torch.cuda.memory_reserved())
        free.append(torch.cuda.mem_get_info()[0])
    assert max(reserved) < RETURNED
    assert max(reserved[2:]) <= reserved[1] + (2 << 20), reserved
    assert free[1] - min(free[2:]) < RETURNED, free


def test_an_engine_stays_within_its_limit(folder: Path) -> None:
    torch.cuda.reset_peak_memory_stats()
    with Engine(str(folder), device="cuda", tokenizer=None, memory_limit=4) as engine:
        assert engine.pool_tokens > 10_000
        prompts = [[5 + i, *range(10, 1000)] for i in range(64)]
        engine.generate(prompts, max_new_tokens=16, temperature=1, top_p=0.9, ignore_eos=True)
        assert torch.cuda.max_memory_allocated() < 4 * GIB


def test_two_engines_share_the_gpu(folder: Path) -> None:
    engines = [Engine(str(folder), device="cuda", tokenizer=None, memory_limit=4) for _ in range(2)]
    outputs = [
        e.generate([5, 6, 7], temperature=0, max_new_tokens=8, ignore_eos=True).token_ids
        for e in engines
    ]
    assert outputs[0] == outputs[1]
    engines[0].close()
    again = engines[1].generate([5, 6, 8], temperature=0, max_new_tokens=8, ignore_eos=True)
    assert len(again.token_ids) == 8
    engines[1].close()


def test_a_limit_that_is_too_small_leaves_nothing_behind(folder: Path) -> None:
    with pytest.raises(ModelError, match=r"memory_limit is 0\.1 GiB"):
        Engine(str(folder), device="cuda", tokenizer=None, memory_limit=0.1)
    with pytest.raises(OptionError, match=r"a KV pool of 1,024 tokens .* memory_limit is 1 GiB"):
        Engine(str(folder), device="cuda", tokenizer=None, memory_limit=1)
    gc.collect()
    release_device_memory()
    assert torch.cuda.memory_reserved() < RETURNED


@pytest.mark.parametrize(("tokens", "rows"), [(4096, 64), (1024, 256)])
def test_a_step_works_on_no_more_than_is_set_aside(folder: Path, tokens: int, rows: int) -> None:
    """One pass of transformers' own modules over `tokens` tokens, unfused, and the sampling of
    `rows` of its logits."""
    decoder = load_decoder(str(folder), "cuda", "auto", False)
    kv = KVCache(decoder.shapes, 1, decoder.dtype, decoder.device)
    backend = SimpleNamespace(
        store=lambda *a: None, attend=lambda layer, q, options: q.clone(), kv=kv
    )
    ids = torch.zeros(1, tokens, dtype=torch.long, device="cuda")
    keep = torch.arange(rows, device="cuda")
    torch.cuda.synchronize()
    peaks = []
    for filtered in (False, True):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with torch.inference_mode():
            out = decoder.model(
                input_ids=ids, position_ids=torch.arange(tokens, device="cuda")[None],
                use_cache=False, logits_to_keep=keep, sgnb=backend,
                attention_mask=torch.zeros(1, 1, 1, 1, device="cuda"),
            )  # fmt: skip
            logits = out.logits[0].float()
            logprobs = logits.log_softmax(-1)
            if filtered:
                ordered = logits[:256].sort(dim=-1, descending=True, stable=True)
                ordered.values.softmax(-1).cumsum(-1)
            torch.cuda.synchronize()
            peaks.append(torch.cuda.max_memory_allocated() - before)
            del out, logits, logprobs
    formula = [
        activation_bytes(decoder, tokens) + logit_bytes(decoder, rows, sampled)
        for sampled in (False, True)
    ]
    print(
        [
            f"{peak / 1e6:.0f} of {set_aside / 1e6:.0f} MB"
            for peak, set_aside in zip(peaks, formula, strict=True)
        ]
    )
    for peak, set_aside in zip(peaks, formula, strict=True):
        assert peak <= set_aside + sizing.WORKSPACE_BYTES / 2
        assert set_aside <= 3 * peak + sizing.WORKSPACE_BYTES, "too much is kept from the pool"
    decoder.release()


def test_an_engine_s_largest_steps_stay_within_what_is_set_aside(folder: Path) -> None:
    options = {"max_step_tokens": 4096, "max_running_requests": 256}
    with Engine(
        str(folder), device="cuda", tokenizer=None, max_total_tokens=100_000, **options
    ) as engine:
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        prompts = [[5 + i, *range(10, 300)] for i in range(256)]
        engine.generate(prompts, max_new_tokens=4, temperature=1, top_p=0.9, ignore_eos=True)
        peak = torch.cuda.max_memory_allocated() - before
    decoder = load_decoder(str(folder), "cuda", "auto")
    set_aside = work_bytes(decoder, engine.options)
    print(f"{peak / 1e6:.0f} of {set_aside / 1e6:.0f} MB")
    assert peak <= set_aside
    decoder.release()


LOST = """
import torch
from sgnb.engine.engine import Engine
from sgnb.errors import ModelError
from sgnb.engine.device.faults import hint_for, is_device_lost, is_out_of_memory
from sgnb.engine.device.memory import release_device_memory
try:
    torch.zeros(2, device="cuda")[torch.tensor([5], device="cuda")].sum().item()
except RuntimeError as error:
    assert is_device_lost(error) and not is_out_of_memory(error), error
    assert "restart the kernel" in hint_for(error)
    release_device_memory()
try:
    Engine("tiny")
except ModelError as error:
    assert "restart the kernel" in error.hint
    print("lost and said")
"""


def test_a_lost_gpu_is_known_and_the_end_is_clean() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=100)
    assert done.stdout == "lost and said\n", done.stderr[-2000:]


def test_a_request_for_more_than_the_gpu_has_is_out_of_memory() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    assert is_out_of_memory(caught.value)
    assert not is_device_lost(caught.value)


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_graphs_work_in_one_place(family: str) -> None:
    """Steps of ever more rows: the logits of each are larger than all that was before, and none
    takes memory anew.

    Gemma 2 caps its logits, which takes them twice.
    """
    model = random_model(family, vocab_size=100_000)
    with Engine(
        model,
        device="cuda",
        dtype="bfloat16",
        max_total_tokens=8192,
        max_running_requests=512,
        max_step_tokens=512,
    ) as engine:
        for temperature, more in ((0, {}), (1, {"top_p": 0.9})):
            taken = []
            for rows in (1, 2, 64, 128, 256, 512):
                params = {
                    "temperature": temperature,
                    "max_new_tokens": 4,
                    "ignore_eos": True,
                    **more,
                }
                engine.generate([[5]] * rows, params)
                torch.cuda.synchronize()
                taken.append(torch.cuda.memory_reserved())
            graphs = engine._loop._runner._graphs
            assert graphs is not None and len(graphs._graphs) >= 6
            largest = 512 * 100_000 * 2
            if not more:  # sampling with filters works outside of graphs, on memory of its own
                assert taken[-1] - taken[1] < largest / 2
        assert sum(graph.pool() == graphs._memory for graph, _ in graphs._graphs.values()) == len(
            graphs._graphs
        )
