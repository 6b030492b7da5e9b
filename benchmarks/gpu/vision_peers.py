"""`python -m benchmarks.gpu.vision_peers vllm|sglang --site DIR`: the questions of
`benchmarks.gpu.vision` to a peer, in a process of its own.

DIR is a folder with the peer's packages, put before all others; without it the installed ones are
used. vLLM 0.26 imports LLaVA with transformers 5.12 and fails with 5.17. Models have the sizes of
`benchmarks.gpu.vision` and random weights. Each turn asks about new images. SGLang's LLaVA needs
weight files: 14 GB in the folder for temporary files.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from .peers import ROOT, peer_environment

ARCHITECTURES = {
    "llava": "LlavaForConditionalGeneration",
    "qwen2_5_vl": "Qwen2_5_VLForConditionalGeneration",
}
WORK = "work.json"
"""Name of the file in a model folder with the sizes of the workload."""

MAX_LENGTH = 4096
"""Tokens of a sequence."""

NOISE = 1 << 28
"""Random numbers from which the matrices of weight files are cut."""

WORDS = 2000
"""Size of the vocabulary of the tokenizer. Questions have ids from 1000."""


def write_folder(folder: Path, family: str, peer: str, toy: bool = False) -> None:
    """Write a model folder for a peer: configuration, processor, tokenizer and workload."""
    from . import vision  # fails in the child: the peer has other transformers

    config, processor = vision.config_and_processor(family, toy)
    tokenizer = processor.tokenizer
    # A peer may decode the prompt and encode the text again: each id needs a text of its own.
    words = [f"<|word{number}|>" for number in range(len(tokenizer), WORDS)]
    tokenizer.add_tokens(words, special_tokens=True)
    processor.save_pretrained(folder)
    config.architectures, config.dtype = [ARCHITECTURES[family]], "bfloat16"
    config.save_pretrained(folder)
    if (family, peer) == ("llava", "sglang"):
        write_original_llava(folder, config)

    head = [config.image_token_id]
    if family == "qwen2_5_vl":
        head = [config.vision_start_token_id, *head, config.vision_end_token_id]
    work = {
        "family": family, "head": head, "side": vision.SIDES[family],
        "images": 3 if toy else vision.NUM_IMAGES, "questions": 4 if toy else vision.NUM_QUESTIONS,
        "question": vision.QUESTION, "answer": vision.ANSWER,
    }  # fmt: skip
    (folder / WORK).write_text(json.dumps(work), encoding="utf-8")


def write_original_llava(folder: Path, config: Any) -> None:
    """Write the configuration and weights in the layout of the first LLaVA, in float16.

    SGLang runs the vision tower CLIP in this layout only, and has no random weights for the tower.
    """
    import torch
    from safetensors.torch import save_file
    from transformers import CLIPVisionModel, LlamaForCausalLM

    text, tower = config.text_config, config.vision_config
    path = folder / "clip"
    CLIPVisionModel(tower).to(torch.float16).save_pretrained(path)
    settings = text.to_dict() | {
        "architectures": ["LlavaLlamaForCausalLM"], "model_type": "llava", "dtype": "float16",
        "image_token_index": config.image_token_id, "image_aspect_ratio": "pad",
        "mm_hidden_size": tower.hidden_size, "mm_vision_tower": str(path),
        "mm_vision_select_layer": -2, "mm_vision_select_feature": "patch",
        "mm_patch_merge_type": "flat", "mm_projector_type": "mlp2x_gelu",
        "vision_config": tower.to_dict(),
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")

    with torch.device("meta"):
        shapes = {name: part.shape for name, part in LlamaForCausalLM(text).state_dict().items()}
    width = text.hidden_size
    for layer, inputs in ((0, tower.hidden_size), (2, width)):
        shapes[f"model.mm_projector.{layer}.weight"] = torch.Size((width, inputs))
        shapes[f"model.mm_projector.{layer}.bias"] = torch.Size((width,))
    noise = torch.randn(NOISE, dtype=torch.float16) * 0.02
    rng = np.random.default_rng(0)

    def weight(shape: torch.Size) -> torch.Tensor:
        if len(shape) == 1:
            return torch.ones(shape, dtype=torch.float16)
        start = int(rng.integers(NOISE - shape.numel()))
        return noise[start : start + shape.numel()].view(shape).clone()

    names = list(shapes)
    for start in range(0, len(names), 32):
        part = {name: weight(shapes[name]) for name in names[start : start + 32]}
        save_file(part, folder / f"model-{start:05}.safetensors", metadata={"format": "pt"})


class VllmPeer:
    name = "vllm"

    def __init__(self, folder: Path, family: str, **options: Any) -> None:
        import vllm

        self.version = vllm.__version__
        settings: dict[str, Any] = {
            "load_format": "dummy", "dtype": "bfloat16", "enable_prefix_caching": True,
            "gpu_memory_utilization": 0.9, "max_model_len": MAX_LENGTH,
            "limit_mm_per_prompt": {"image": 1, "video": 0},
        }  # fmt: skip
        self._llm = vllm.LLM(model=str(folder), **(settings | options))

    def picture(self, image: Image.Image) -> Any:
        return image

    def answer(self, prompts: list[list[int]], pictures: list[Any], new: int) -> list[int]:
        """Return the number of tokens of each answer."""
        from vllm import SamplingParams

        params = SamplingParams(temperature=0, max_tokens=new, ignore_eos=True, detokenize=False)
        asked: list[Any] = [
            {"prompt_token_ids": prompt, "multi_modal_data": {"image": picture}}
            for prompt, picture in zip(prompts, pictures, strict=True)
        ]
        outputs = self._llm.generate(asked, params, use_tqdm=False)
        return [len(output.outputs[0].token_ids) for output in outputs]

    def close(self) -> None:
        self._llm.llm_engine.engine_core.shutdown()


class SglangPeer:
    name = "sglang"

    def __init__(self, folder: Path, family: str, **options: Any) -> None:
        import sglang

        self.version = sglang.__version__
        self._takes_files = family == "llava"
        settings: dict[str, Any] = {
            "load_format": "auto" if self._takes_files else "dummy",
            "dtype": "float16" if self._takes_files else "bfloat16",
            "attention_backend": "flashinfer", "mm_attention_backend": "triton_attn",
            "context_length": MAX_LENGTH, "log_level": "error",
        }  # fmt: skip
        self._engine = sglang.Engine(model_path=str(folder), **(settings | options))

    def picture(self, image: Image.Image) -> Any:
        """Return an image in the cheapest form that the model takes."""
        if not self._takes_files:
            return image
        file = io.BytesIO()
        image.save(file, "BMP")
        return file.getvalue()

    def answer(self, prompts: list[list[int]], pictures: list[Any], new: int) -> list[int]:
        """Return the number of tokens of each answer."""
        params = {"temperature": 0.0, "max_new_tokens": new, "ignore_eos": True}
        outputs = self._engine.generate(
            input_ids=prompts, image_data=pictures, sampling_params=params
        )
        return [len(output["output_ids"]) for output in outputs]

    def close(self) -> None:
        self._engine.shutdown()


PEERS: dict[str, Any] = {peer.name: peer for peer in (VllmPeer, SglangPeer)}


def ask(peer: Any, work: dict[str, Any], turn: int) -> float:
    """Return the time of all questions about new images."""
    side, count, questions = work["side"], work["images"], work["questions"]
    rng = np.random.default_rng(turn)
    pixels = [rng.integers(0, 256, (side, side, 3), np.uint8) for _ in range(count)]
    pictures = [peer.picture(Image.fromarray(image)) for image in pixels]
    rng = np.random.default_rng(7)
    prompts = [
        work["head"] + rng.integers(1000, 2000, work["question"]).tolist()
        for _ in range(count * questions)
    ]
    order = rng.permutation(len(prompts))

    began = time.perf_counter()
    lengths = peer.answer(
        [prompts[place] for place in order],
        [pictures[place // questions] for place in order],
        work["answer"],
    )
    seconds = time.perf_counter() - began
    if lengths != [work["answer"]] * len(prompts):
        raise RuntimeError(f"Answers have {set(lengths)} tokens instead of {work['answer']}.")
    return seconds


def run_child(family: str, toy: bool, arguments: list[str], options: argparse.Namespace) -> int:
    """Run this module once more, in an environment for the peer. Return its exit status."""
    # SGLang's limit for the images of all waiting requests, in seconds.
    environment = peer_environment(options.site) | {"REQUEST_TIMEOUT": "600"}
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder), family, options.peer, toy)
        command = [sys.executable, "-m", "benchmarks.gpu.vision_peers", *arguments]
        command += ["--folder", folder]
        return subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode


def measure(folder: Path, options: argparse.Namespace) -> None:
    """Print the times of a peer."""
    work = json.loads((folder / WORK).read_text(encoding="utf-8"))
    began = time.perf_counter()
    peer = PEERS[options.peer](folder, work["family"], **options.options)
    print(f"  {peer.name} {peer.version}: loaded after {time.perf_counter() - began:.0f} s")
    times = [ask(peer, work, turn) for turn in range(options.turns + 1)]  # the first warms up
    each = ", ".join(f"{seconds:.2f}" for seconds in times)
    print(f"  questions: {min(times[1:]):.2f} s (turns: {each})", flush=True)
    peer.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--site", help="folder with the peer's packages; more follow after a colon")
    parser.add_argument("--models", nargs="+", choices=ARCHITECTURES, default=list(ARCHITECTURES))
    parser.add_argument("--turns", type=int, default=3, help="repetitions")
    parser.add_argument("--toy", action="store_true", help="small models")
    parser.add_argument(
        "--options",
        type=json.loads,
        default={},
        help="JSON object of options for the peer's engine",
    )
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        measure(options.folder, options)
        return 0
    statuses = []
    for family in options.models:
        print(f"{family}{' (toy)' if options.toy else ''}", flush=True)
        statuses.append(run_child(family, options.toy, sys.argv[1:], options))
    return int(any(statuses))


if __name__ == "__main__":
    raise SystemExit(main())
