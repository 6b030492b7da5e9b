"""What a person may get wrong: every error names the value, and gives a hint, before anything
runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    BertConfig,
    FalconConfig,
    PreTrainedModel,
    T5Config,
)

from sgnb.engine import assembly, attention
from sgnb.engine.engine import Engine
from sgnb.engine.options import EngineOptions
from sgnb.errors import ModelError, OptionError, RequestError, SgnbError
from sgnb.sampling import SamplingParams

from ..byte_tokenizers import byte_level
from ..random_models import random_model

MakeEngine = Callable[..., Engine]


def refused(kind: type[SgnbError], value: str, hint: str) -> Any:
    """Expects an error of exactly this kind whose message has `value` and whose hint has `hint`."""
    return pytest.raises(kind, match=rf"(?s){re.escape(value)}.*hint: .*{re.escape(hint)}")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(random_model(), context_length=60, max_total_tokens=50) as engine:
        yield engine


@pytest.mark.parametrize(
    ("options", "value", "hint"),
    [
        (
            {"max_totl_tokens": 5},
            "unknown engine option 'max_totl_tokens'",
            "did you mean 'max_total_tokens'?",
        ),
        (
            {"zzz": 5},
            "unknown engine option 'zzz'",
            "known: approximate_seconds, attention, checkpoint_every",
        ),
        ({"max_total_tokens": 0}, "max_total_tokens=0", "None or an int from 1"),
        ({"max_total_tokens": 10**19}, "max_total_tokens=10000000000000000000", "to 2**53"),
        ({"dtype": ["float16"]}, "unknown dtype", "float16"),
        (
            {"max_total_tokens": 10**14},
            "a KV pool of 100,000,000,000,000 tokens",
            "smaller max_total_tokens",
        ),
        ({"context_length": -5}, "context_length=-5", "an int from 1"),
        ({"max_step_tokens": 2.5}, "max_step_tokens=2.5", "an int from 1"),
        ({"max_running_requests": True}, "max_running_requests=True", "an int from 1"),
        (
            {"max_step_tokens": 8, "max_running_requests": 256},
            "max_step_tokens=8 is less than max_running_requests=256",
            "raise max_step_tokens",
        ),
        ({"prefix_cache": "no"}, "prefix_cache='no'", "True or False"),
        ({"dtype": "float17"}, "unknown dtype 'float17'", "did you mean 'float16'?"),
        ({"schedule_policy": "lmp"}, "unknown schedule_policy 'lmp'", "did you mean 'lpm'?"),
        ({"eviction_policy": "lrru"}, "unknown eviction_policy 'lrru'", "did you mean 'lru'?"),
        ({"attention": "torhc"}, "unknown attention 'torhc'", "did you mean 'torch'?"),
        ({"attention": "triton"}, "attention='triton' needs a GPU", "attention='auto'"),
        ({"deterministic": True}, "deterministic=True needs a GPU", "on a GPU"),
        ({"memory_limit": 0}, "memory_limit=0", "GiB above 0"),
        ({"memory_limit": float("inf")}, "memory_limit=inf", "at most 2**53"),
        ({"overlap": 1}, "overlap=1", "None, True or False"),
    ],
)
def test_engine_options(options: dict[str, Any], value: str, hint: str) -> None:
    with refused(OptionError, value, hint):
        Engine(random_model(), **options)


@pytest.mark.parametrize(
    ("backend", "missing"),
    [("triton", "triton"), ("flashinfer", "flashinfer"), ("flashinfer", "triton")],
)
def test_attention_without_its_packages(
    backend: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine with a GPU. Said before anything is read."""
    monkeypatch.setattr(assembly, "pick_device", lambda name: torch.device("cuda", 0))
    monkeypatch.setattr(
        attention, "find_spec", lambda name: None if name == missing else find_spec("torch")
    )
    with refused(
        OptionError, f"attention={backend!r} needs {missing}, which are not", "'sgnb[cuda]'"
    ):
        Engine("nowhere", attention=backend)


def test_device() -> None:
    with refused(ModelError, "device 'gpu'", "'cpu' or 'cuda'"):
        Engine(random_model(), device="gpu")


@pytest.mark.parametrize(
    ("prompt", "value", "hint"),
    [
        ([], "", ""),
        ([[]], "the prompt is empty", "at least one token"),
        ([5] * 60, "the prompt has 60 tokens, the context holds 60", "shorten"),
        ([5] * 50, "the prompt has 50 tokens, the KV pool holds 50", "larger max_total_tokens"),
        ([5, 97], "token id 97 is outside the vocabulary of 97", "the tokenizer of this model"),
        ([5, -1], "token id -1", "the tokenizer of this model"),
        ([5, 10**5000], "token id <int>", "the tokenizer of this model"),
        ("text", "has no tokenizer", "token ids"),
        (None, "None is not a prompt", "a string or a list"),
        ([[5], None], "None is not a prompt", "a string or a list"),
        ([[5], ["a"]], "['a'] is not a prompt", "a string or a list"),
    ],
)
def test_prompts(engine: Engine, prompt: Any, value: str, hint: str) -> None:
    if prompt == []:
        assert engine.generate(prompt) == []
        return
    with refused(RequestError, value, hint):
        engine.generate(prompt)
    assert engine.stats()["running"] == 0


def test_empty_text() -> None:
    """A tokenizer with a beginning-of-sequence token makes it one token; an empty text is then a
    prompt."""
    with Engine(random_model(vocab_size=400), tokenizer=byte_level()) as engine:
        assert engine.generate("", max_new_tokens=1).prompt_tokens == 1


@pytest.mark.parametrize(
    ("options", "value", "hint"),
    [
        ({"max_new_tokens": -1}, "max_new_tokens=-1", "0 or more"),
        (
            {"max_new_token": 5},
            "unknown sampling option 'max_new_token'",
            "did you mean 'max_new_tokens'?",
        ),
        ({"temperature": -0.5}, "temperature=-0.5", "0 (greedy) or more"),
        ({"temperature": float("nan")}, "temperature=nan", "0 (greedy) or more"),
        ({"top_p": 0}, "top_p=0", "above 0 and at most 1"),
        ({"top_k": 0}, "top_k=0", "-1 (all)"),
        ({"min_p": 2}, "min_p=2", "between 0 and 1"),
        ({"n": 0}, "n=0", "1 or more"),
        ({"stop": ""}, "stop=''", "none empty"),
        ({"min_new_tokens": 9, "max_new_tokens": 3}, "min_new_tokens=9", "max_new_tokens"),
        ({"repetition_penalty": 0}, "repetition_penalty=0", "between 0.01 and 100"),
        ({"seed": -1}, "seed=-1", "0 or more"),
        ({"top_logprobs_num": -1}, "top_logprobs_num=-1", "0 or more"),
        ({"top_logprobs_num": 10**9}, "top_logprobs_num=1000000000", "at most 1024"),
        ({"skip_special_tokens": 0}, "skip_special_tokens=0", "True or False"),
        ({"ignore_eos": "no"}, "ignore_eos='no'", "True or False"),
        ({"return_logprob": 1}, "return_logprob=1", "True or False"),
        ({"temperature": 10**30}, "temperature=1000", "at most 1e6"),
        ({"temperature": 10**400}, "temperature=1000", "at most 1e6"),
        ({"top_k": 2**64}, "top_k=18446744073709551616", "below 2**31"),
        ({"repetition_penalty": 10**30}, "repetition_penalty=1000", "between 0.01 and 100"),
        ({"logit_bias": {1: 10**400}}, "logit_bias={1: 1000", "between -1e6 and 1e6"),
        ({"logit_bias": {1: float("inf")}}, "logit_bias={1: inf}", "between -1e6 and 1e6"),
        ({"logit_bias": {1.5: 1}}, "logit_bias={1.5: 1}", "{id: number}"),
        ({"stop_token_ids": [2.0]}, "stop_token_ids=[2.0]", "a list of token ids"),
        ({"stop": b"x"}, "stop=b'x'", "a string or a list of them"),
        ({"n": 10**5000}, "n=<int>", "at most 65536"),
        ({"seed": 1.0}, "seed=1.0", "an integer of 0 or more"),
    ],
)
def test_sampling(engine: Engine, options: dict[str, Any], value: str, hint: str) -> None:
    with refused(OptionError, value, hint):
        engine.generate([5], **options)


@pytest.mark.parametrize(
    ("options", "value", "hint"),
    [
        ({"stop": "x"}, "stop strings need a tokenizer", "stop_token_ids"),
        ({"logit_bias": {97: 1.0}}, "logit_bias names token 97", "ids of this model"),
        ({"logit_bias": {10**5000: 1}}, "logit_bias names token <int>", "ids of this model"),
        (
            {"stop_token_ids": [4000], "min_new_tokens": 2},
            "stop_token_ids names token 4000",
            "ids of this model",
        ),
        (
            {"return_logprob": True, "logprob_start_len": 2},
            "logprob_start_len=2 is beyond the prompt of 1",
            "a position in the prompt",
        ),
    ],
)
def test_requests(engine: Engine, options: dict[str, Any], value: str, hint: str) -> None:
    with refused(RequestError, value, hint):
        engine.generate([5], **options)


@pytest.mark.parametrize("tokenizer", [5, "tiny", len])
def test_what_is_no_tokenizer(tokenizer: Any) -> None:
    with refused(OptionError, f"tokenizer={tokenizer!r}", "AutoTokenizer"):
        Engine("tiny", tokenizer=tokenizer)


def test_arguments(engine: Engine) -> None:
    with refused(OptionError, "2 sampling_params for 1 prompts", "one per prompt"):
        engine.generate([[5]], [{}, {}])
    for arguments in (([[5]], {}), ([5], {"n": 2})):
        with refused(OptionError, "stream=True takes one prompt", "separately"):
            engine.generate(*arguments, stream=True)


def test_one_bad_prompt_stops_the_list_before_it_runs(engine: Engine) -> None:
    before = engine.stats()["requests"]
    with refused(RequestError, "token id 500", "the tokenizer of this model"):
        engine.generate([[5], [500]])
    assert engine.stats()["requests"] == before


SMALL: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
OTHERS: dict[str, tuple[Any, Any, str]] = {
    "bert": (
        BertConfig(**SMALL, intermediate_size=16, architectures=["BertForMaskedLM"]),
        AutoModelForMaskedLM,
        "BertLMHeadModel",
    ),
    "t5": (
        T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=16, num_layers=2, num_heads=2),
        AutoModelForSeq2SeqLM,
        "T5Config",
    ),
    "falcon": (FalconConfig(**SMALL, alibi=True), AutoModelForCausalLM, "ALiBi"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_models_that_are_no_decoders_on_keys_and_values(name: str, tmp_path: Path) -> None:
    config, kind, named = OTHERS[name]
    torch.manual_seed(0)
    kind.from_config(config).save_pretrained(tmp_path / name)
    with refused(ModelError, named, ""):
        Engine(str(tmp_path / name))


def test_a_model_of_the_users_that_is_refused_stays_as_it_was() -> None:
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(FalconConfig(**SMALL, alibi=True))
    before = model.config._attn_implementation
    with refused(ModelError, "FalconForCausalLM", "Llama"):
        Engine(model)
    assert model.config._attn_implementation == before
    llama = random_model()
    before = llama.config._attn_implementation
    with refused(OptionError, "a KV pool", "smaller"):
        Engine(llama, max_total_tokens=10**14)
    assert llama.config._attn_implementation == before
    llama.generation_config.eos_token_id = [[1]]  # type: ignore[assignment]
    with refused(ModelError, "[1] in eos_token_id is not a token id", "config"):
        Engine(llama)
    assert llama.config._attn_implementation == before and "forward" not in vars(
        llama.model.layers[0]
    )


def test_a_model_without_layers(tmp_path: Path) -> None:
    model = random_model(num_hidden_layers=0)
    with refused(ModelError, "LlamaForCausalLM has no layers", "Llama"):
        Engine(model)
    model.save_pretrained(tmp_path)
    with refused(ModelError, "has no layers", "Llama"):
        Engine(str(tmp_path))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good model with a tokenizer, to be spoilt."""
    random_model(vocab_size=400).save_pretrained(tmp_path / "model")
    byte_level().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_good_folder(folder: Path) -> None:
    for place in (str(folder), folder):
        with Engine(place) as engine:
            assert engine.generate("The", max_new_tokens=3, ignore_eos=True).text is not None
            assert engine.vocab_size == 400 and engine.context_length == 256


SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "no file named"),
    "corrupt weights": (
        lambda f: (f / "model.safetensors").write_bytes(b"\xff" * 50),
        "cannot be loaded",
    ),
    "cut weights": (lambda f: cut(f / "model.safetensors"), "cannot be loaded"),
    "corrupt config": (lambda f: (f / "config.json").write_text("{"), "config"),
    "no config": (lambda f: (f / "config.json").unlink(), "config"),
    "unknown architecture": (
        lambda f: (f / "config.json").write_text(json.dumps({"model_type": "nosuch"})),
        "nosuch",
    ),
    "weights of another shape": (
        lambda f: edit(f / "config.json", hidden_size=32),
        "cannot be loaded",
    ),
    "corrupt tokenizer": (
        lambda f: (f / "tokenizer.json").write_text('{"version": 3}'),
        "tokenizer",
    ),
}


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def edit(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize("damage", SPOILT)
def test_spoilt_folders(damage: str, folder: Path) -> None:
    spoil, value = SPOILT[damage]
    spoil(folder)
    with pytest.raises(ModelError, match=f"(?s){value}.*hint: ") as refusal:
        Engine(str(folder))
    assert folder.name in str(refusal.value) and len(str(refusal.value)) < 900


@pytest.mark.parametrize(
    "file, changes, value",
    [
        (
            "config.json",
            {"num_hidden_layers": 0},
            r"its checkpoint has 2 layers \(model\.layers\), and its config\.json 0",
        ),
        ("config.json", {"max_position_embeddings": 0}, "max_position_embeddings=0"),
        ("config.json", {"max_position_embeddings": -8}, "max_position_embeddings=-8"),
        ("config.json", {"max_position_embeddings": -1}, "max_position_embeddings=-1"),
        ("config.json", {"hidden_size": "wide"}, "'hidden_size'.*'wide'"),
        (
            "generation_config.json",
            {"eos_token_id": [1, "x"]},
            "'x' in eos_token_id is not a token id",
        ),
    ],
)
def test_spoilt_configs(file: str, changes: dict[str, Any], value: str, folder: Path) -> None:
    edit(folder / file, **changes)
    with pytest.raises(ModelError, match=f"(?s){value}.*hint: "):
        Engine(str(folder))


def test_what_no_memory_has_room_for() -> None:
    with refused(ModelError, "can't allocate memory", "smaller max_step_tokens"):
        Engine(random_model(), max_running_requests=10**13)


@pytest.mark.parametrize("device", ["meta", "cuda:99", "gpu", 3.5])
def test_devices_that_are_not_here(device: Any) -> None:
    with refused(ModelError, f"device {device!r} is", "%sglang doctor"):
        Engine(random_model(), device=device)


@pytest.mark.parametrize(
    "name", ["/no/such/folder", "./no/such/folder", "~/no/such/folder", "no/such/folder"]
)
def test_no_such_folder(name: str) -> None:
    with refused(ModelError, f"no model folder at {name!r}", "a hub id, or 'tiny'"):
        Engine(name)


def test_no_such_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with refused(
        ModelError,
        "no model folder at 'tinny', and the hub cannot be reached",
        "did you mean 'tiny'?",
    ):
        Engine("tinny")


def test_a_hub_out_of_reach_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    fetch, local = huggingface_hub.hf_hub_download, []

    def noted(*arguments: Any, local_files_only: bool) -> str:
        local.append(local_files_only)
        return fetch(*arguments, local_files_only=local_files_only)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", noted)
    with refused(
        ModelError,
        "no model folder at 'some/model', and the hub cannot be reached",
        "give a folder",
    ):
        Engine("some/model")
    assert local and all(local), "its library would try again and again"


@pytest.mark.parametrize("model", [None, 3, ""])
def test_what_is_no_model(model: Any) -> None:
    with refused(ModelError, f"{model!r} is not a model", "give a folder"):
        Engine(model)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stop": 5}, "stop must be a string or a list of them"),
        ({"stop_token_ids": 5}, "stop_token_ids must be a list of token ids"),
        ({"logit_bias": {1: float("nan")}}, "logit_bias must be"),
        ({"logit_bias": "warm"}, "logit_bias must be"),
    ],
)
def test_sampling_of_the_wrong_kind(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        SamplingParams.make(options)


def test_numbers_of_numpy_and_torch_are_numbers(engine: Engine) -> None:
    own: dict[str, Any] = {
        "max_new_tokens": 6, "n": 2, "temperature": 0.5, "top_k": 9, "seed": 3, "ignore_eos": True,
        "stop_token_ids": [8, 9], "logit_bias": {7: 1.5}, "repetition_penalty": 1.5,
    }  # fmt: skip
    theirs = {
        "max_new_tokens": np.int64(6), "n": np.uint8(2), "temperature": np.float32(0.5),
        "top_k": torch.tensor(9), "seed": np.int32(3), "ignore_eos": np.bool_(True),
        "stop_token_ids": np.array([8, 9]), "logit_bias": {np.int64(7): np.float64(1.5)},
        "repetition_penalty": torch.tensor(1.5),
    }  # fmt: skip
    assert SamplingParams.make(own) == SamplingParams.make(theirs)
    outputs = [engine.generate([np.int64(5), 6], options) for options in (own, theirs)]
    assert [o.token_ids for o in outputs[0]] == [o.token_ids for o in outputs[1]]
    options = EngineOptions.make({"context_length": np.int64(60), "memory_limit": np.float32(2)})
    assert options == EngineOptions.make({"context_length": 60, "memory_limit": 2.0})


@pytest.mark.parametrize("prompt", [b"abc", {"a": 1}, [b"abc"], None, 5])
def test_what_is_no_prompt(prompt: Any, make_engine: Callable[..., Engine]) -> None:
    with pytest.raises(RequestError, match="is not a prompt"):
        make_engine().generate(prompt)


def test_tensors_are_prompts(make_engine: Callable[..., Engine]) -> None:
    engine = make_engine()
    expected = engine.generate([5, 6, 7], temperature=0, max_new_tokens=4).token_ids
    assert (
        engine.generate(torch.tensor([5, 6, 7]), temperature=0, max_new_tokens=4).token_ids
        == expected
    )
    both = engine.generate(torch.tensor([[5, 6, 7], [5, 6, 7]]), temperature=0, max_new_tokens=4)
    assert [output.token_ids for output in both] == [expected, expected]
