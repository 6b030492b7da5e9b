"""Trains the tokenizer on the generators' own text and writes its files: `python -m training.tokenizer`.

Byte-level BPE, digits one by one, so every Unicode string comes back as it went in.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from .corpus import document
from .forms import BOS, CHAT_TEMPLATE, END, PAD, SPECIAL
from .items import JOINT

VOCABULARY = 4096
CONTEXT = 4096
DOCUMENTS = 40_000
MODEL = Path(__file__).parents[1] / "sgnb" / "models" / "tiny"


def texts(count: int, seed: int = 1) -> Iterator[str]:
    for index in range(count):
        text = document(Random(f"tokenizer/{seed}/{index}")).text.replace(JOINT, "")
        for mark in SPECIAL:
            text = text.replace(mark, " ")
        yield text


def train(count: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=list(SPECIAL), show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts(count), trainer)
    return tokenizer


def write(tokenizer: Tokenizer, folder: Path) -> None:
    """tokenizer.json and tokenizer_config.json, the chat template inside."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "eos_token": END, "pad_token": PAD,
              "model_max_length": CONTEXT, "clean_up_tokenization_spaces": False, "chat_template": CHAT_TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--out", type=Path, default=MODEL)
    options = parser.parse_args()
    tokenizer = train(options.documents)
    write(tokenizer, options.out)
    print(f"{tokenizer.get_vocab_size()} tokens -> {options.out}")


if __name__ == "__main__":
    main()
