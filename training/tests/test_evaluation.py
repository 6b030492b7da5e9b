"""The measuring and the training loop: judges that can fail, calibration by hand, a run that stops and goes on."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from sgnb.models import path
from training import train as training
from training.calibration import Bin, Guess, bins, error
from training.evaluate import Row, difference, put_into, table
from training.suites.base import Case, Judge, Suite, contains, same_json
from training.suites.exam import has_word, last_number
from training.suites.reading import says
from training.tokenizer import VOCABULARY


def test_calibration_of_guesses_counted_by_hand() -> None:
    found = bins([Guess(0.9, True), Guess(0.92, False), Guess(0.1, False), Guess(1.0, True)])
    assert found == [Bin(1, 0.1, 0.0), Bin(2, pytest.approx(0.91), 0.5), Bin(1, 1.0, 1.0)]
    assert error(found) == pytest.approx((0.1 + 2 * 0.41 + 0.0) / 4)


@pytest.mark.parametrize(("judge", "right", "wrong", "want"), [
    (same_json, '{"b": 1, "a": [2]}', '{"a": [2]', '{"a": [2], "b": 1}'),
    (contains, "It is Paris.", "It is Parisian.", "paris"),
    (has_word, "Ten birds.", "Often.", "ten"),
    (last_number, "2 * 3 = 6. The answer is 6", "The answer is 16", "6"),
    (says, "Mira told Tom. [2]", "Mira told Tom. [1]", "Tom [2]"),
    (says, "It is the text.", "The text does not say.", "text"),
])
def test_a_judge_tells_right_from_wrong(judge: Judge, right: str, wrong: str, want: str) -> None:
    assert judge(right, want)
    assert not judge(wrong, want)


def test_a_difference_pairs_the_answers_to_a_question() -> None:
    better = [True, True, False, False], [True, False, False, False]  # changes 0, 1, 0, 0: mean 1/4, variance 1/4
    worse = [True, False], [True, True]  # changes 0, -1: mean -1/2, variance 1/2
    points, half = difference([better, worse])
    assert points == pytest.approx(100 * (1 / 4 - 1 / 2) / 2)
    assert half == pytest.approx(196 * ((1 / 4) / 4 + (1 / 2) / 2) ** 0.5 / 2)
    right = [True] * 3 + [False] * 5
    assert difference([(right, right)]) == (0, 0)


def test_the_table_and_its_place(tmp_path: Path) -> None:
    suite = Suite("sums", (Case("1 + 1 =", "2", ()),), contains, bar=0.95)
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- results -->\nold\n<!-- end of results -->\nbelow\n")
    put_into(page, "results", table([Row(suite, 0.5)]))
    text = page.read_text()
    assert "| sums | 50.0 % | 95 % |" in text
    assert "old" not in text
    assert text.startswith("above\n")
    assert text.endswith("\nbelow\n")


def test_a_run_that_was_stopped_ends_with_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = argparse.Namespace(steps=4, tokens=512, lr=1e-3, seed=0, workers=0, save_every=2, device="cpu",
                                 model=path(), out=tmp_path / "whole")
    small = LlamaConfig(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64,
                        num_hidden_layers=2, num_attention_heads=2, tie_word_embeddings=True)
    monkeypatch.setattr(training, "build", lambda tokenizer: LlamaForCausalLM(small))
    monkeypatch.setattr(training, "LENGTHS", (64, 128))
    save = training.save

    def save_and_keep(where: Path, model: nn.Module, optimizers: list[torch.optim.Optimizer], step: int) -> None:
        save(where, model, optimizers, step)
        if step == 2:
            (tmp_path / "half").mkdir()
            shutil.copy(where, tmp_path / "half")

    monkeypatch.setattr(training, "save", save_and_keep)
    whole = training.train(options).state_dict()
    options.out = tmp_path / "half"
    resumed = training.train(options).state_dict()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
