"""The table of model types, for some of them: what was wrong in silence, and the commonest."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import models
from benchmarks.gpu import models as gpu_models
from benchmarks.models import Result

EXACT = (
    ("llama", ""), ("llama", "longrope"), ("llama", "dynamic"), ("phi3", "longrope"),
    ("stablelm", ""), ("gpt_neo", ""), ("falcon", ""), ("xglm", ""), ("bart", ""), ("mamba2", ""),
    ("lfm2_moe", ""),
    *(
        pytest.param(name, "", marks=pytest.mark.slow)
        for name in ("gemma2", "qwen2_moe", "phimoe", "deepseek_v2")
    ),
)  # fmt: skip


@pytest.fixture(autouse=True)
def no_proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))


def tried(name: str, rope: str) -> Result:
    return models.compare(models.small_model(name, models.ROPE.get(rope)))


@pytest.mark.filterwarnings("ignore:.*rotary factors")
@pytest.mark.parametrize("name, rope", EXACT)
def test_the_tokens_of_transformers(name: str, rope: str) -> None:
    assert tried(name, rope) == Result("exact")


REFUSED = {
    "doge": "hides tokens by a mask of its own",
    "diffllama": "more than one attention",
    "xlstm": "or keep a state in transformers' cache",
    "llama4_text": "lets a token see only its own chunk of the text",
    "glm_moe_dsa": "chooses which earlier tokens it reads (layers of kind indexed_attention)",
    "bloom": "lowers its scores by the distance between tokens (ALiBi)",
    "mpt": "lowers its scores by the distance between tokens (ALiBi)",
    "xlnet": "only 0 of 4 layers compute attention through transformers' attention interface",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why(name: str) -> None:
    result = tried(name, "")
    assert result.verdict == "refused" and REFUSED[name] in result.why


def test_a_cache_that_forgets_what_the_masks_show_is_refused() -> None:
    model = models.small_model("moshi")
    model.config.sliding_window = 8
    assert "more tokens than transformers' cache keeps" in models.compare(model).why


@pytest.mark.slow
def test_a_family_of_the_benchmark_for_a_gpu() -> None:
    row, good = gpu_models.try_family("llama", "float32", "cpu")
    tokens, equal, retracted = row[2], row[3], row[-2]
    assert good and tokens == equal > 0 and retracted > 0


def test_tokens_are_judged_by_the_models_own_forward() -> None:
    model = models.small_model("llama")
    right = models.own_tokens(model, [5, 6, 7])
    logits = gpu_models.own_logits(model, [5, 6, 7], right)
    assert gpu_models.gaps_below(logits, right) == [0.0] * len(right)
    wrong = [(right[0] + 1) % models.VOCAB, *right[1:]]
    gaps = gpu_models.gaps_below(logits, wrong)
    assert gaps[0] > 0 == gaps[1]
    assert gpu_models.too_far(gaps, 0.0) == 1 and gpu_models.too_far([float("nan")], 9.0) == 1


@pytest.mark.slow
def test_each_model_has_a_process_of_its_own() -> None:
    assert models.try_model("no_such_model") == Result("not built", "KeyError: 'no_such_model'")
    assert models.try_model("llama") == Result("exact")
