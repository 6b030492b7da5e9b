"""The bundled weights and this folder belong together: the same text, the same tokenizer."""

from __future__ import annotations

import json

import pytest
from tokenizers import Tokenizer

from training.corpus import Batches
from training.forms import CHAT_TEMPLATE
from training.tokenizer import DOCUMENTS, MODEL, train
from training.train import LENGTHS, RECORD


@pytest.mark.slow
def test_the_generators_still_make_the_text_of_the_weights() -> None:
    made = json.loads((MODEL / RECORD).read_text(encoding="utf-8"))
    data = Batches(MODEL / "tokenizer.json", made["seed"], made["steps"], made["tokens"], LENGTHS)
    assert {step: data.fingerprint(int(step)) for step in made["batches"]} == made["batches"]


@pytest.mark.slow
def test_the_tokenizer_is_the_generators_own() -> None:
    made, shipped = train(DOCUMENTS), Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    assert made.get_vocab() == shipped.get_vocab()


def test_the_chat_template_is_this_one() -> None:
    config = json.loads((MODEL / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert config["chat_template"] == CHAT_TEMPLATE
