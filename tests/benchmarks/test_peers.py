"""The runners of the peers against fakes of vLLM and SGLang that take the arguments which the real
ones take."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu.model import FORMATS, write_folder
from benchmarks.gpu.peers import ROOT
from benchmarks.gpu.ready import CACHES, READY, cold_environment
from benchmarks.gpu.shapes import TOY

VLLM = """
import json, pathlib
__version__ = "0.20.0"

class SamplingParams:
    def __init__(self, *, temperature, max_tokens, detokenize, output_kind, structured_outputs=None,
                 ignore_eos=False, prompt_logprobs=None):
        self.max_tokens, self.bound, self.kind = max_tokens, structured_outputs, output_kind
        assert temperature == 0 and ignore_eos == (structured_outputs is None)

class Out:
    def __init__(self, name, tokens):
        self.request_id, self.finished, self.outputs = name, True, [self]
        self.token_ids = tokens

class LLM:
    def __init__(self, model, *, load_format, dtype, skip_tokenizer_init, enable_prefix_caching,
                 gpu_memory_utilization, structured_outputs_config):
        self.config = json.loads((pathlib.Path(model) / "config.json").read_text())
        self.tokenizer = not skip_tokenizer_init
        assert self.tokenizer == (pathlib.Path(model) / "tokenizer.json").exists()
        self.llm_engine = self.engine_core = self
        self.waiting, self.flushed = [], 0
    def add_request(self, name, prompt, params):
        assert params.bound is None or self.tokenizer
        assert all(0 <= token < self.config["vocab_size"] for token in prompt["prompt_token_ids"])
        self.waiting.append((name, params))
    def step(self):
        name, params = self.waiting.pop(0)
        return [Out(name, [7] * params.max_tokens)]
    def reset_prefix_cache(self):
        self.flushed += 1
        return self.flushed > 1
    def shutdown(self):
        assert not self.waiting
"""
VLLM_PARAMS = """
import json
class RequestOutputKind:
    FINAL_ONLY = 2
class StructuredOutputsParams:
    def __init__(self, *, json):
        import json as module
        assert module.loads(json)["type"] == "object"
"""
SGLANG = """
import asyncio, json, pathlib
__version__ = "0.5.11"

class Flushed:
    success = True

class Engine:
    def __init__(self, *, model_path, load_format, dtype, skip_tokenizer_init, attention_backend,
                 constrained_json_disable_any_whitespace, log_level):
        self.loop = asyncio.new_event_loop()
        self.tokenizer = not skip_tokenizer_init
        assert self.tokenizer == (pathlib.Path(model_path) / "tokenizer.json").exists()
    async def async_generate(self, *, input_ids, sampling_params, return_logprob=None,
                             logprob_start_len=None):
        await asyncio.sleep(0)
        assert all(p["temperature"] == 0 for p in sampling_params)
        assert all(("json_schema" in p) != ("ignore_eos" in p) for p in sampling_params)
        assert self.tokenizer or not any("json_schema" in p for p in sampling_params)
        assert (return_logprob is None) == all(p["max_new_tokens"] > 0 for p in sampling_params)
        return [{"output_ids": [7] * p["max_new_tokens"]} for p in sampling_params]
    def flush_cache(self):
        return Flushed()
    def shutdown(self):
        pass
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "site" / "vllm").mkdir(parents=True)
    (tmp_path / "site" / "vllm" / "__init__.py").write_text(VLLM, encoding="utf-8")
    (tmp_path / "site" / "vllm" / "sampling_params.py").write_text(VLLM_PARAMS, encoding="utf-8")
    (tmp_path / "site" / "sglang.py").write_text(SGLANG, encoding="utf-8")
    return tmp_path / "site"


@pytest.mark.slow
@pytest.mark.parametrize(("peer", "version"), [("vllm", "0.20.0"), ("sglang", "0.5.11")])
def test_peers_run_the_workloads_in_a_process_of_their_own(
    peer: str, version: str, site: Path
) -> None:
    for only, cold in (
        ("tree;chat, short;HellaSwag;prefill", False),
        (READY, True),
        ("JSON, 128", False),
    ):
        if only.startswith("JSON"):
            pytest.importorskip("mistral_common")
        out = site / "out.json"
        command = [sys.executable, "-m", "benchmarks.gpu.peers", peer, "--site", str(site), "--toy"]
        command += ["--repetitions", "1", "--only", only, "--out", str(out)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
        assert done.returncode == 0, done.stderr[-2000:]
        assert "failed" not in done.stdout, done.stdout + done.stderr
        entry = json.loads(out.read_text(encoding="utf-8"))[peer]
        assert entry["version"] == version
        assert len(entry["results"]) == (4 if not cold and "tree" in only else 1)
        assert all(result["figure"] > 0 for result in entry["results"].values())


@pytest.mark.slow
def test_a_peer_gets_the_shape_that_was_asked_for(site: Path) -> None:
    out = site / "out.json"
    command = [sys.executable, "-m", "benchmarks.gpu.serving", "--peer", f"vllm={site}", "--toy"]
    command += ["--shape", "gemma-3-4b", "--repetitions", "1", "--only", "decode"]
    command += ["--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    systems = json.loads(out.read_text(encoding="utf-8"))
    assert {name: entry["model"] for name, entry in systems.items()} == {
        "sgnb": "gemma-3-4b",
        "vllm": "gemma-3-4b",
    }
    assert "Serving, Gemma-3-4B (GPU), toy sizes" in done.stdout


@pytest.mark.slow
def test_a_peer_with_packed_weights_has_figures_of_its_own(site: Path) -> None:
    out = site / "out.json"
    command = [sys.executable, "-m", "benchmarks.gpu.peers", "vllm", "--site", str(site), "--toy"]
    command += ["--repetitions", "1", "--only", "batch 64", "--format", "fp8", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    assert list(json.loads(out.read_text(encoding="utf-8"))) == ["fp8, vllm"]


@pytest.mark.parametrize("name", FORMATS)
def test_the_config_names_the_format(name: str, tmp_path: Path) -> None:
    write_folder(tmp_path, TOY, False, name)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert config["quantization_config"] == FORMATS[name]


def test_cold_caches_are_folders_that_are_not_there(tmp_path: Path) -> None:
    environment = cold_environment(tmp_path)
    assert set(environment) == set(CACHES)
    assert len(set(environment.values())) == len(CACHES)
    assert not any(Path(folder).exists() for folder in environment.values())
