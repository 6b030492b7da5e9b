"""A model with recurrent layers in a notebook: its options, what the cache says of its states, and
why a prompt was computed again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

import sgnb
from sgnb import models
from tests.hybrid_models import hybrid_model

STATES = 16
GUIDE = "Answer in one word, and never guess. " * 3
CELL = """%%sglang -o {name} --temperature 0
s += guide + "Q: What is the capital of {country}?\\nA:" + gen("answer", max_tokens=3)"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random model with the bundled model's tokenizer."""
    folder, tiny = tmp_path_factory.mktemp("models") / "hybrid", models.path("tiny")
    size = len(AutoTokenizer.from_pretrained(tiny))
    hybrid_model("lfm2", vocab_size=size).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny / name, folder)
    return folder


@pytest.fixture
def loaded(shell: Any, folder: Path) -> Iterator[Any]:
    before = sgnb.load("tiny")
    shell(f"%sglang load {folder} --max-states {STATES} --checkpoint-every 64")
    shell.ns["guide"] = GUIDE
    yield sgnb.load(str(folder), max_states=STATES, checkpoint_every=64)
    sgnb.unload("hybrid")
    sgnb.set_default_backend(before)


def test_what_the_cache_says(shell: Any, loaded: Any) -> None:
    assert (loaded.options.max_states, loaded.options.checkpoint_every) == (STATES, 64)
    for name, country in (("first", "France"), ("second", "Spain"), ("third", "Italy")):
        shell(CELL.format(name=name, country=country))
    reasons = [sgnb.why_no_hit(shell.ns[name]).lookups[0] for name in ("first", "second", "third")]
    first, second, third = reasons
    assert first.recomputed_tokens == first.cached_tokens == second.cached_tokens == 0
    assert second.recomputed_tokens == third.cached_tokens > 30 and not third.recomputed_tokens
    assert "no state of it was kept" in second.reasons[0].text
    said = repr(sgnb.why_no_hit(shell.ns["second"]))
    assert "no state" in said and "checkpoint_every" in said
    stats = sgnb.cache.stats()
    assert stats["states"] == STATES == stats["free_states"] + stats["kept_states"]
    assert stats["kept_states"] == sum(node["checkpoint"] for node in loaded.tree()) >= 4
    assert "states" not in sgnb.load("tiny").stats(), "a model of attention alone"


def test_a_dry_run_says_that_states_may_be_missing(shell: Any, loaded: Any) -> None:
    report = shell(CELL.format(name="s", country="Peru").replace("-o s", "--dry"))
    assert "the model has recurrent layers" in repr(report)
