"""The files in the package: the tokenizer, the chat template, and a model that answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

import sgnb.models
from sgnb.errors import ModelError
from sgnb.lang.chat import from_render

FOLDER = sgnb.models.path("tiny")
MARKS = (
    "<|bos|>",
    "<|end|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<think>",
    "</think>",
    "<|pad|>",
)
TOKENIZER: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(FOLDER)


@pytest.fixture(scope="module")
def model() -> Any:
    return AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()


def test_names_and_paths() -> None:
    assert sgnb.models.names() == ("tiny", "tiny-vision")
    assert (FOLDER / "model.safetensors").is_file()
    with pytest.raises(ModelError, match=r"'tinny'(.|\n)*did you mean 'tiny'"):
        sgnb.models.path("tinny")


def test_the_package_data_is_small() -> None:
    assert max(file.stat().st_size for file in FOLDER.iterdir()) < 16e6
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 24e6


def test_the_card_is_printed() -> None:
    out = subprocess.run(
        [sys.executable, "-m", "sgnb.models"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    ).stdout
    assert "## Measured" in out
    assert "| facts, chat |" in out


@settings(max_examples=300, deadline=None)
@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_marks_and_digits() -> None:
    assert [TOKENIZER.convert_tokens_to_ids(mark) for mark in MARKS] == list(range(len(MARKS)))
    assert TOKENIZER.encode("".join(MARKS)) == list(range(len(MARKS)))
    assert TOKENIZER.tokenize("12 + 345") == ["1", "2", "Ġ+", "Ġ", "3", "4", "5"]
    assert (TOKENIZER.bos_token, TOKENIZER.eos_token, TOKENIZER.pad_token) == (
        "<|bos|>",
        "<|end|>",
        "<|pad|>",
    )


def test_the_chat_template_can_be_taken_apart() -> None:
    def render(messages: Any) -> str:
        return str(TOKENIZER.apply_chat_template(messages, tokenize=False))

    table = from_render("tiny", render)
    assert table.begin == "<|bos|>"
    assert table.roles == {
        role: (f"<|{role}|>\n", "<|end|>\n") for role in ("system", "user", "assistant")
    }
    messages = [
        {"role": "system", "content": " a \n"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "\nc "},
        {"role": "user", "content": ""},
    ]
    pieces = [
        table.roles[m["role"]][0] + m["content"] + table.roles[m["role"]][1] for m in messages
    ]
    assert render(messages) == table.begin + "".join(pieces)
    opened = TOKENIZER.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert opened == render(messages) + table.roles["assistant"][0]


def test_the_chat_template_refuses_other_roles() -> None:
    with pytest.raises(Exception, match="unknown role: wizard"):
        TOKENIZER.apply_chat_template([{"role": "wizard", "content": "x"}], tokenize=False)


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        ("Q: What is the capital of France?\nA:", " Paris\n"),
        ("Q: What is the capital of France?\nA: ", "Paris\n"),
        ("The capital of Japan is", " Tokyo."),
        ("12 + 30 =", " 42"),
        (
            "<|bos|><|user|>\nHow many legs does a spider have?<|end|>\n<|assistant|>\n",
            "A spider has eight legs.<|end|>",
        ),
    ],
)
def test_it_answers(model: Any, prompt: str, answer: str) -> None:
    ids = TOKENIZER(prompt, return_tensors="pt").input_ids
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=16, do_sample=False
    )
    assert str(TOKENIZER.decode(out[0, ids.shape[1] :])).startswith(answer)
