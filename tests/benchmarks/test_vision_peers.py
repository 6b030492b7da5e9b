"""Model folders and workload for peers that answer questions about images."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tests.torchvision_stand_in  # noqa: F401  before transformers

# isort: split
import numpy as np
from PIL import Image
from safetensors.torch import load_file
from transformers import AutoConfig, AutoProcessor

from benchmarks.gpu import vision_peers
from benchmarks.gpu.vision import CONFIGS
from benchmarks.gpu.vision_peers import ARCHITECTURES, ROOT, WORK, ask, write_folder

VLLM = """
__version__ = "0.26.0"

class SamplingParams:
    def __init__(self, *, temperature, max_tokens, ignore_eos, detokenize):
        self.new = max_tokens

class Output:
    def __init__(self, new):
        self.outputs, self.token_ids = [self], [7] * new

class LLM:
    def __init__(self, model, *, load_format, dtype, enable_prefix_caching,
                 gpu_memory_utilization, max_model_len, limit_mm_per_prompt):
        print("share", gpu_memory_utilization)
        self.llm_engine = self.engine_core = self
    def generate(self, prompts, params, use_tqdm):
        assert all(prompt["multi_modal_data"]["image"].size[0] > 300 for prompt in prompts)
        return [Output(params.new) for _ in prompts]
    def shutdown(self):
        print("closed")
"""


def read_work(folder: Path) -> dict[str, Any]:
    work: dict[str, Any] = json.loads((folder / WORK).read_text(encoding="utf-8"))
    return work


def test_the_models_are_those_of_the_benchmark() -> None:
    assert list(ARCHITECTURES) == list(CONFIGS)


@pytest.mark.parametrize(
    ("family", "rows", "head"),
    [
        ("llava", 576, "<image>"),
        ("qwen2_5_vl", 256, "<|vision_start|><|image_pad|><|vision_end|>"),
    ],
)
def test_processor_and_config_agree_on_the_placeholder(
    family: str, rows: int, head: str, tmp_path: Path
) -> None:
    write_folder(tmp_path, family, "vllm")
    config = AutoConfig.from_pretrained(tmp_path)
    processor = AutoProcessor.from_pretrained(tmp_path)
    work = read_work(tmp_path)
    assert (config.model_type, work["images"] * work["questions"]) == (family, 384)

    prompt = [*work["head"], *range(1000, 1025)]
    text = processor.tokenizer.decode(prompt)
    assert text.startswith(head)
    assert processor.tokenizer.encode(text, add_special_tokens=False) == prompt
    picture = Image.fromarray(np.zeros((work["side"], work["side"], 3), np.uint8))
    tokens = processor(text=[text], images=[picture])["input_ids"][0]
    assert list(tokens).count(config.image_token_id) == rows
    assert len(tokens) == rows + len(prompt) - 1


def test_weight_files_have_the_names_of_the_first_llava(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vision_peers, "NOISE", 1 << 22)
    write_folder(tmp_path, "llava", "sglang", toy=True)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    weights: dict[str, Any] = {}
    for path in tmp_path.glob("*.safetensors"):
        weights |= load_file(path)
    assert config["architectures"] == ["LlavaLlamaForCausalLM"]
    assert Path(config["mm_vision_tower"], "config.json").exists()
    assert weights["model.mm_projector.0.weight"].shape == (64, 32)
    assert weights["model.layers.1.mlp.down_proj.weight"].shape == (64, 96)
    assert weights["lm_head.weight"].std() > 0


class Recorder:
    """A peer that gives `new` tokens to each prompt, or fewer."""

    def __init__(self, missing: int = 0) -> None:
        self.missing = missing
        self.pairs: list[tuple[tuple[int, ...], bytes]] = []

    def picture(self, image: Image.Image) -> bytes:
        return image.tobytes()

    def answer(self, prompts: list[list[int]], pictures: list[bytes], new: int) -> list[int]:
        self.pairs = [(tuple(p), picture) for p, picture in zip(prompts, pictures, strict=True)]
        return [new - self.missing] * len(prompts)


WORK_OF_TEST = {
    "head": [5, 6], "side": 4, "images": 3, "questions": 7, "question": 11, "answer": 2
}  # fmt: skip


def test_each_turn_asks_all_questions_about_new_images() -> None:
    turns = []
    for turn in range(2):
        peer = Recorder()
        assert ask(peer, WORK_OF_TEST, turn) > 0
        turns.append(peer.pairs)
    for pairs in turns:
        pictures = [picture for _, picture in pairs]
        assert sorted(map(pictures.count, set(pictures))) == [7, 7, 7]
        assert len({prompt for prompt, _ in pairs}) == 21
        assert all(prompt[:2] == (5, 6) and len(prompt) == 13 for prompt, _ in pairs)
    assert not {picture for _, picture in turns[0]} & {picture for _, picture in turns[1]}


def test_short_answers_are_an_error() -> None:
    with pytest.raises(RuntimeError, match="instead of 2"):
        ask(Recorder(missing=1), WORK_OF_TEST, 0)


@pytest.mark.slow
def test_a_peer_answers_in_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "vllm.py").write_text(VLLM, encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks.gpu.vision_peers", "vllm", "--toy"]
    command += ["--site", str(tmp_path), "--options", '{"gpu_memory_utilization": 0.5}']
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("questions: ") == done.stdout.count("closed") == len(ARCHITECTURES)
    assert "share 0.5" in done.stdout
