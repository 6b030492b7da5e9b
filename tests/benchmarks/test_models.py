"""Model types against transformers: a quick sample, every type of the committed list, and the
reasons of refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import models
from benchmarks.gpu import models as gpu_models
from benchmarks.gpu import published
from benchmarks.model_settings import VOCAB
from benchmarks.model_shapes import num_draws
from benchmarks.models import Result

QUICK = ("llama", 0, "dynamic"), ("bart", 0, ""), ("gemma4_text", 3, "")
SLOW = (
    ("xglm", 0, ""), ("mamba2", 0, ""), ("qwen3_5_moe", 2, ""), ("llama", 0, ""),
    ("llama", 0, "longrope"), ("phi3", 0, "longrope"), ("stablelm", 0, ""), ("gpt_neo", 0, ""),
    ("falcon", 0, ""), ("lfm2_moe", 0, ""), ("qwen3_5", 1, ""), ("gemma4_text", 1, ""),
    ("gemma4_unified", 1, ""),
)  # fmt: skip
"""Model type, shape, rotary factors: types that were wrong or refused by mistake, and a type of
each kind. Bart has an encoder of another depth; Gemma 4 shares KV in odd shapes."""


@pytest.fixture(autouse=True)
def no_passed_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))


def tried(name: str, draw: int = 0, rope: str = "") -> Result:
    return models.compare(models.small_model(name, draw, models.rope_of(name, rope)))


@pytest.mark.filterwarnings("ignore:.*rotary factors")
@pytest.mark.parametrize(
    "name, draw, rope", [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]
)
def test_the_tokens_of_transformers(name: str, draw: int, rope: str) -> None:
    assert tried(name, draw, rope) == Result("exact")


@pytest.mark.slow
@pytest.mark.parametrize("name", models.listed_types())
def test_exact_types_stay_exact(name: str) -> None:
    """In a shape for each type; `python -m benchmarks models` tries all shapes."""
    assert tried(name, sum(name.encode()) % num_draws(name)) == Result("exact")


def test_types_of_the_quick_sample_are_listed() -> None:
    assert {name for name, _, _ in QUICK} <= set(models.EXACT_LIST.read_text().split())


def test_results_list_no_type_as_exact_and_as_refused() -> None:
    text = (models.EXACT_LIST.parent / "RESULTS.md").read_text(encoding="utf-8")
    sections = {section.partition("\n")[0]: section for section in text.split("\n## ")[1:]}
    lines = [*sections["models"].splitlines(), *sections["hybrid"].splitlines()]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    refused = {row[0] for row in rows if any(cell.startswith("refused") for cell in row[1:])}
    exact = {row[0] for row in rows if "exact" in row[1:]}
    exact |= {name for row in rows if len(row) == 1 for name in row[0].split(", ")}
    assert len(exact) > 100 and refused and not exact & refused
    assert set(models.listed_types()) <= exact


REFUSED = {
    "doge": "uses a custom attention mask",
    "diffllama": "more than one attention",
    "xlstm": "or keep a state in transformers' cache",
    "llama4_text": "uses chunked attention",
    "glm_moe_dsa": "uses sparse attention (layers of kind indexed_attention)",
    "bloom": "uses ALiBi position biases",
    "mpt": "uses ALiBi position biases",
    "xlnet": "layers compute attention through transformers' attention interface",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why(name: str) -> None:
    result = tried(name)
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
    wrong = [(right[0] + 1) % VOCAB, *right[1:]]
    gaps = gpu_models.gaps_below(logits, wrong)
    assert gaps[0] > 0 == gaps[1]
    assert gpu_models.too_far(gaps, 0.0) == 1 and gpu_models.too_far([float("nan")], 9.0) == 1


def test_rounding_is_told_from_wrong_tokens() -> None:
    model = models.small_model("llama")
    right = models.own_tokens(model, [5, 6, 7])
    assert models.is_rounding(model, [5, 6, 7], right)
    assert not models.is_rounding(model, [5, 6, 7], [(right[0] + 1) % VOCAB, *right[1:]])


@pytest.mark.slow
def test_types_run_in_parallel_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst shape counts for a type, and an error ends no model but the faulty one."""
    monkeypatch.setattr(models, "num_draws", lambda name: 1)
    results = models.try_types(["phi3", "no_such_model"], jobs=2)
    assert results["phi3"] == Result("exact")
    assert results["no_such_model"] == Result("not built", "shape 0: KeyError: 'no_such_model'")
    summary, others, exact = models.tables(results)
    assert not summary.met and [row[0] for row in others.rows] == ["no_such_model"]
    assert exact.rows == [("phi3, phi3 (longrope)",)]


TINY = {
    "vocab_size": 1009, "vocab_size_per_layer_input": 1009, "hidden_size": 72, "head_dim": 16,
    "intermediate_size": 88, "num_attention_heads": 6, "num_key_value_heads": 2,
    "max_position_embeddings": 2048, "sliding_window": 63,
}  # fmt: skip


@pytest.mark.parametrize(
    "name, sizes",
    [
        ("Gemma 4 E2B", {"global_head_dim": 32, "hidden_size_per_layer_input": 8}),
        ("Qwen3.5-27B", {
            "linear_num_key_heads": 3, "linear_num_value_heads": 9, "linear_key_head_dim": 10,
            "linear_value_head_dim": 14,
        }),
    ],
    ids=["gemma", "qwen"],
)  # fmt: skip
@pytest.mark.slow
def test_published_models_fit_the_benchmark(name: str, sizes: dict[str, int]) -> None:
    """The CPU runs the script's settings with small widths."""
    row, good = published.try_published(name, "cpu", layers=10, smaller=TINY | sizes)
    assert good and row[1].startswith("10 of")
