"""The table of model types, for some of them: what was wrong in silence, and the commonest."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import models
from benchmarks.models import Result

EXACT = (
    ("llama", ""), ("llama", "longrope"), ("llama", "dynamic"), ("phi3", "longrope"),
    ("gemma2", ""), ("qwen2_moe", ""), ("phimoe", ""), ("deepseek_v2", ""), ("stablelm", ""),
    ("gpt_neo", ""),
)  # fmt: skip


@pytest.fixture(autouse=True)
def no_proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))


def tried(name: str, rope: str) -> Result:
    model = models.small_model(name, rope)
    return models.compare(model, [models.own_tokens(model, p) for p in models.prompts()])


@pytest.mark.filterwarnings("ignore:.*rotary factors")
@pytest.mark.parametrize("name, rope", EXACT)
def test_the_tokens_of_transformers(name: str, rope: str) -> None:
    assert tried(name, rope) == Result("exact")


@pytest.mark.parametrize("name", ["doge", "diffllama", "falcon"])
def test_what_is_refused_says_why(name: str) -> None:
    result = tried(name, "")
    assert result.verdict == "refused" and "cannot use sgnb's attention: " in result.why


@pytest.mark.slow
def test_each_model_has_a_process_of_its_own() -> None:
    assert models.try_model("no_such_model") == Result("not built", "KeyError: 'no_such_model'")
    assert models.try_model("llama") == Result("exact")
