"""Folders to modules: bitwise what transformers loads, with errors that name the file, and one line
of progress."""

from __future__ import annotations

import gc
import io
import itertools
import json
import re
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedModel

from sgnb import models
from sgnb.engine.device import background, memory
from sgnb.engine.engine import Engine
from sgnb.engine.model import checkpoint, loading, safetensors_reader
from sgnb.engine.model.checkpoint import Entry, find_folder, read_checkpoint, read_header
from sgnb.engine.model.loading import load_module, pick_device, pick_dtype, place_module
from sgnb.engine.model.safetensors_reader import Progress, ReadCancellation, TensorReader
from sgnb.errors import ModelError

from ..interrupts import interrupt_in
from ..random_models import random_model

CPU = torch.device("cpu")


def refused(said: str, hint: str) -> Any:
    return pytest.raises(ModelError, match=rf"(?s){said}.*hint: .*{hint}")


def same_tensors(model: PreTrainedModel, other: PreTrainedModel) -> None:
    """Bitwise: parameters, buffers, also those that are not saved, and which of them are one
    tensor."""
    mine = dict([*model.named_parameters(), *model.named_buffers()])
    theirs = dict([*other.named_parameters(), *other.named_buffers()])
    assert mine.keys() == theirs.keys()
    for name, tensor in mine.items():
        assert tensor.dtype == theirs[name].dtype, name
        assert torch.equal(tensor, theirs[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, None])
@pytest.mark.parametrize("saved", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "family", ["llama", "mixtral", "qwen3_moe", "gemma3_text", "gpt_oss", "gpt2", "deepseek_v3"]
)
def test_the_module_is_the_one_that_transformers_loads(
    family: str, saved: torch.dtype, dtype: torch.dtype | None, tmp_path: Path
) -> None:
    random_model(family).to(saved).save_pretrained(tmp_path, max_shard_size="60KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    module = load_module(str(tmp_path), CPU, dtype)
    same_tensors(module, AutoModelForCausalLM.from_pretrained(tmp_path, dtype=dtype or "auto"))
    assert module.dtype == (dtype or saved)
    assert not module.training
    assert module.config.name_or_path == str(tmp_path)


def test_tied_weights_are_one_tensor(tmp_path: Path) -> None:
    random_model(tie_word_embeddings=True).save_pretrained(tmp_path)
    module = load_module(str(tmp_path), CPU)
    assert module.get_output_embeddings().weight is module.get_input_embeddings().weight


def test_the_generation_config_comes_with_the_folder(tmp_path: Path) -> None:
    random_model().save_pretrained(tmp_path)
    GenerationConfig(eos_token_id=[7, 9]).save_pretrained(tmp_path)
    assert load_module(str(tmp_path), CPU).generation_config.eos_token_id == [7, 9]


def test_a_dtype_that_the_config_does_not_say_is_the_weights(tmp_path: Path) -> None:
    random_model().to(torch.bfloat16).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config.pop("dtype")
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load_module(str(tmp_path), CPU).dtype == torch.bfloat16


def test_a_weights_file_that_the_config_names(tmp_path: Path) -> None:
    random_model().save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "other.safetensors")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(
        json.dumps(config | {"transformers_weights": "../other.safetensors"})
    )
    same_tensors(load_module(str(tmp_path), CPU), random_model())


def test_placing_casts_parameters_and_leaves_rotary_frequencies() -> None:
    model = random_model("llama")
    before = model.model.rotary_emb.inv_freq.clone()
    assert place_module(model, CPU, torch.bfloat16) is model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert torch.equal(model.model.rotary_emb.inv_freq, before)
    assert before.dtype == torch.float32


def test_dtypes() -> None:
    gpu = torch.device("cuda")
    assert pick_dtype("auto", CPU) is torch.float32
    assert pick_dtype("auto", gpu) is None
    assert pick_dtype("bf16", gpu) is pick_dtype("bfloat16", CPU) is torch.bfloat16
    with refused("unknown dtype 'float15'", "did you mean 'float16'"):
        pick_dtype("float15", CPU)


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    random_model().save_pretrained(tmp_path, max_shard_size="60KB")
    return tmp_path


def shard(folder: Path) -> Path:
    return sorted(folder.glob("model-*.safetensors"))[1]


def cut(folder: Path) -> None:
    file = shard(folder)
    file.write_bytes(file.read_bytes()[:-10])


def only_bin(folder: Path) -> None:
    for file in folder.glob("model*"):
        file.unlink()
    (folder / "pytorch_model.bin").write_bytes(b"x")


def lost(folder: Path) -> None:
    """A tensor that neither a shard nor the index has any more."""
    file = shard(folder)
    with safe_open(file, "pt") as opened:
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    tensors.pop("model.layers.0.mlp.down_proj.weight", None) or tensors.popitem()
    save_file(tensors, file, metadata={"format": "pt"})


def header(tensors: dict[str, Any]) -> bytes:
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text + b"\0" * 64


def one(dtype: str, shape: list[int], size: int) -> dict[str, Any]:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}


def spoil(content: bytes) -> Callable[[Path], object]:
    return lambda folder: shard(folder).write_bytes(content)


SPOILT: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "missing shard": (lambda f: shard(f).unlink(), "00002-of-.*is missing", "copy the file again"),
    "cut shard": (cut, r"00002-of-.*it ends after [\d,]+ of [\d,]+ bytes", "copy the file again"),
    "empty shard": (spoil(b""), "00002-of-.*cannot be loaded", "download or copy"),
    "header not JSON": (spoil(struct.pack("<Q", 8) + b"{" * 8), "loaded as safe", "again"),
    "unknown numbers": (spoil(header(one("F3", [], 1))), "numbers of dtype F3", "again"),
    "overlap": (
        spoil(header(one("F32", [2], 8) | {"b": one("F32", [1], 4)["a"]})),
        "'b' overlaps the previous tensor", "again",
    ),
    "wrong offsets": (spoil(header(one("F32", [2], 4))), "4 bytes for \\[2\\]", "again"),
    "spoilt index": (lambda f: (f / checkpoint.INDEX).write_text("[]"), "not an index", "again"),
    "only .bin": (only_bin, r"only \.bin files", "from_pretrained and save_pretrained"),
    "lost tensor": (lost, "no .*which would have random values", "the whole checkpoint"),
}  # fmt: skip


@pytest.mark.parametrize(
    "stored", [torch.int8, torch.int64, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2]
)
def test_weights_that_are_stored_without_their_scales_are_refused(
    stored: torch.dtype, tmp_path: Path
) -> None:
    random_model().save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    name = "model.layers.1.mlp.up_proj.weight"
    save_file(tensors | {name: tensors[name].to(stored)}, file, metadata={"format": "pt"})
    dtype = str(stored).removeprefix("torch.")
    with refused(f"model.safetensors' has weights in {dtype}", "a checkpoint in bfloat16"):
        load_module(str(tmp_path), CPU)


def set_config(folder: Path, **settings: Any) -> str:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | settings))
    return str(folder)


def test_escapes_of_a_config_are_shown_and_not_obeyed(sharded: Path) -> None:
    for name in ("model_type", "dtype", "hidden_act"):
        with pytest.raises(ModelError) as caught:
            load_module(set_config(sharded, **{name: "\x1b]0;evil\x07\u202e"}), CPU)
        said = f"{caught.value}{''.join(caught.value._render_traceback_())}"
        assert r"\x1b]0;evil\x07\u202e" in said
        assert all(c.isprintable() or c == "\n" for c in said)


def test_endless_layers_are_refused(sharded: Path) -> None:
    for deep in (
        {"num_hidden_layers": 10**7},
        {"num_hidden_layers": 2, "text_config": {"n_layers": 10**7}},
    ):
        with refused("asks for 10,000,000 layers", "correct n"):
            load_module(set_config(sharded, **deep), CPU)


def test_an_interrupt_ends_the_building_of_a_model(
    sharded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no reader asks whether it was told to stop."""
    monkeypatch.setattr(background, "STOP_SECONDS", 0.05)
    monkeypatch.setattr(
        loading, "AutoModelForCausalLM", SimpleNamespace(from_config=count_for_ever)
    )
    interrupt_in(0.3)
    with pytest.raises(KeyboardInterrupt):
        load_module(str(sharded), CPU)
    assert not [thread for thread in threading.enumerate() if thread.name == "sgnb-load"]
    assert loading._one_at_a_time.acquire(timeout=1)
    loading._one_at_a_time.release()


def count_for_ever(config: Any) -> None:
    for _ in itertools.count():
        pass


@pytest.mark.parametrize("damage", SPOILT)
def test_spoilt_checkpoints(damage: str, sharded: Path) -> None:
    spoil, said, hint = SPOILT[damage]
    spoil(sharded)
    with refused(said, hint):
        load_module(str(sharded), CPU)


def test_an_error_does_not_keep_what_was_read(sharded: Path) -> None:
    def loaded() -> int:
        gc.collect()
        return sum(type(thing).__name__ == "LlamaForCausalLM" for thing in gc.get_objects())

    lost(sharded)
    before = loaded()
    with pytest.raises(ModelError) as caught:
        Engine(str(sharded), device="cpu")
    assert caught.value.__traceback__ is not None
    assert loaded() == before


def test_headers_say_what_the_library_reads(sharded: Path) -> None:
    found = read_checkpoint(sharded)
    seen = set()
    for file in sharded.glob("*.safetensors"):
        with safe_open(file, "pt") as opened:
            for name in opened.keys():  # noqa: SIM118
                tensor, entry = opened.get_tensor(name), found.entries[name]
                raw = file.read_bytes()[entry.start : entry.start + entry.size]
                assert (entry.file, entry.dtype, entry.shape) == (
                    file,
                    tensor.dtype,
                    tuple(tensor.shape),
                )
                assert raw == tensor.numpy().tobytes()
                seen.add(name)
    assert seen == found.entries.keys()
    numbers = sum(parameter.numel() for parameter in random_model().parameters())
    assert found.size == found.size_in(torch.float32) == 4 * numbers
    assert found.size_in(torch.bfloat16) == 2 * numbers
    assert found.dtype == torch.float32


def test_sizes_in_a_dtype_leave_integers() -> None:
    entries = {
        "a": Entry(Path("f"), 0, 24, torch.int64, (3,)),
        "b": Entry(Path("f"), 24, 8, torch.float32, (2,)),
    }
    found = checkpoint.Checkpoint(Path(), entries)
    assert found.size_in(torch.float16) == 24 + 4
    assert found.dtype == torch.float32


def test_weights_that_do_not_fit_are_refused_before_they_are_read(
    sharded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1000)
    monkeypatch.setattr(TensorReader, "read", lambda *args: pytest.fail("it was read"))
    with refused(
        r"take 0\.0 GiB in float32, and 0\.0 GiB are free on cuda",
        'dtype="bfloat16" for half of the size',
    ):
        load_module(str(sharded), torch.device("cuda"), torch.float32)


@pytest.mark.parametrize("piece_bytes", [1, 7, 4096])
def test_the_reader_joins_pieces(piece_bytes: int, tmp_path: Path) -> None:
    tensors = {
        "matrix": torch.arange(35, dtype=torch.int32).view(5, 7),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "empty": torch.empty(0, 3),
        "flags": torch.tensor([True, False, True]),
        "half": torch.randn(11).to(torch.bfloat16),
    }
    save_file(tensors, tmp_path / "t.safetensors")
    progress = Progress("t", 10, io.StringIO())
    reader = TensorReader(CPU, progress, threads=3, piece_bytes=piece_bytes)
    entries = read_header(tmp_path / "t.safetensors")
    for name, tensor in tensors.items():
        got = reader.read(entries[name])
        assert got.dtype == tensor.dtype and torch.equal(got, tensor)
    assert progress.done == sum(tensor.nbytes for tensor in tensors.values())
    reader.cancel()
    with pytest.raises(ReadCancellation):
        reader.read(entries["matrix"])
    reader.close()


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    reader = TensorReader(CPU)
    with pytest.raises(OSError, match="became shorter"):
        reader.read(Entry(tmp_path / "f", 0, 8, torch.uint8, (8,)))
    reader.close()


def test_an_interrupt_ends_the_reading(sharded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def slow(reader: TensorReader, entry: Entry) -> torch.Tensor:
        begun.set()
        assert stopped.wait(60), "the reader was not told to stop"
        raise ReadCancellation

    def interrupt(progress: Progress) -> None:
        if begun.is_set():
            raise KeyboardInterrupt

    monkeypatch.setattr(TensorReader, "read", slow)
    monkeypatch.setattr(TensorReader, "cancel", lambda reader: stopped.set())
    monkeypatch.setattr(Progress, "draw", interrupt)
    with pytest.raises(KeyboardInterrupt):
        load_module(str(sharded), CPU)
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith(("sgnb-read", "sgnb-load"))]


def test_an_interrupt_waits_for_the_reading_thread(
    sharded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real one, while `load_module` waits."""
    told, finished, reads = threading.Event(), threading.Event(), itertools.count()

    def slow(reader: TensorReader, entry: Entry) -> torch.Tensor:
        if next(reads) == 0:
            interrupt_in(0.1)
        assert told.wait(60), "the reader was not told to stop"
        time.sleep(0.3)
        finished.set()
        raise ReadCancellation

    monkeypatch.setattr(TensorReader, "read", slow)
    monkeypatch.setattr(TensorReader, "cancel", lambda reader: told.set())
    with pytest.raises(KeyboardInterrupt):
        load_module(str(sharded), CPU)
    assert finished.is_set()


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with two GPUs, of which the second is current; then with a context that is
    lost."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    found = {name: str(pick_device(name)) for name in ("auto", "cuda", "cuda:0", "cuda:1", "cpu")}
    assert found == {
        "auto": "cuda:1",
        "cuda": "cuda:1",
        "cuda:0": "cuda:0",
        "cuda:1": "cuda:1",
        "cpu": "cpu",
    }
    with refused("device 'cuda:2' is not usable: torch finds 2 GPUs", "doctor"):
        pick_device("cuda:2")

    def lost() -> int:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "current_device", lost)
    with refused("device 'auto' is not usable: CUDA error: an illegal", "restart the kernel"):
        pick_device("auto")


def test_an_interrupt_does_not_wait_for_another_load(sharded: Path) -> None:
    with loading._one_at_a_time, pytest.raises(KeyboardInterrupt):
        interrupt_in(0.3)
        load_module(str(sharded), CPU)


def test_models_can_be_loaded_side_by_side() -> None:
    """While it loads, transformers leaves out the tying of weights in the whole process."""
    path = models.path("tiny")
    for _ in range(5):
        with ThreadPoolExecutor(3) as pool:
            for module in pool.map(lambda _: load_module(path, CPU), range(3)):
                assert module.lm_head.weight is module.model.embed_tokens.weight


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_drawn_over_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(safetensors_reader.time, "perf_counter", lambda: clock.now)
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        clock.now = -9.0
        progress = Progress("model", 8_000_000_000, stream)
        clock.now = 0.0
        progress.begin()
        progress.add(2_000_000_000)
        clock.now = 1.0
        progress.draw()
        progress.add(6_000_000_000)
        clock.now = 4.0
        progress.draw()
        progress.finish()
    drawn = re.split("[\r\n]+", terminal.getvalue())
    assert [line.rstrip() for line in drawn] == [
        "reading model: 2.0 of 8.0 GB, 2.0 GB/s, 3 s left",
        "reading model: 8.0 of 8.0 GB, 2.0 GB/s, 0 s left",
        "read model: 8.0 GB in 4.0 s, 2.0 GB/s",
        "",
    ]
    assert file.getvalue() == "read model: 8.0 GB in 4.0 s, 2.0 GB/s\n"


def test_small_models_show_nothing(sharded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load_module(str(sharded), CPU)
    assert capsys.readouterr() == ("", "")


def test_large_models_show_the_line(
    sharded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safetensors_reader, "SMALL_BYTES", 0)
    load_module(str(sharded), CPU)
    assert re.fullmatch(r"read .*: 0\.0 GB in \d+\.\d s, \d+\.\d GB/s\n", capsys.readouterr().err)


class Hub:
    """A hub whose repositories are folders; counts what is fetched."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.fetched = folder, []

    def fetch(self, repository: str, name: str, local_files_only: bool) -> str:
        self.fetched.append(name)
        if not (self.folder / name).is_file():
            raise checkpoint.EntryNotFoundError(name)
        return str(self.folder / name)


def test_from_the_hub_only_what_is_needed_is_fetched(
    sharded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Hub(sharded)
    (sharded / "consolidated.safetensors").write_bytes(b"the same again")
    monkeypatch.setattr(checkpoint.huggingface_hub, "hf_hub_download", hub.fetch)
    monkeypatch.setattr(checkpoint, "hub_is_away", lambda: True)
    same_tensors(load_module("some/model", CPU), random_model())
    shards = {file.name for file in sharded.glob("model-*.safetensors")}
    asked = {"config.json", "generation_config.json", checkpoint.SINGLE, checkpoint.INDEX}
    assert set(hub.fetched) == asked | shards


def test_from_the_hub_a_single_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random_model().save_pretrained(tmp_path)
    hub = Hub(tmp_path)
    monkeypatch.setattr(checkpoint.huggingface_hub, "hf_hub_download", hub.fetch)
    monkeypatch.setattr(checkpoint, "hub_is_away", lambda: False)
    assert find_folder("some/model") == tmp_path
    assert hub.fetched == ["config.json", "generation_config.json", checkpoint.SINGLE]


def test_paths_that_are_no_folders() -> None:
    for path in ("/no/such", "./no-such", "~/no-such-model", "a/b/c"):
        with refused("no model folder at", "a hub id"):
            find_folder(path)
