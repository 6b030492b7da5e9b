"""Long texts in chunks: the same tokens as in one piece, and nothing done twice."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

import pytest
from tokenizers import Tokenizer as Fast
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import sgnb.models
from sgnb.engine.request import chunks
from sgnb.engine.request import tokenizer as tokenizer_module
from sgnb.engine.request.tokenizer import Tokenizer
from sgnb.segment import Segment

from .. import large_vocabulary
from ..byte_tokenizers import TEXT, byte_level, pieces

PARTS = [
    *"ab1 2\n.,é🦊狐。'_-<>|\t\r",
    *[" the", " can't", "\n\n", "  ", "   ", " 123", "1000", "foo", "\u0301", "\u200d", "İ", "Σ"],
    *["。\n", "</s>", "<s>", "[INST]", "[UNK]", " x", "<|im_end|>", "\r\n", "5\n5"],
]


def random_text(rng: random.Random) -> str:
    parts = [*PARTS, *(word for text in TEXT for word in text.split())]
    return "".join(
        rng.choice(parts) + " " * (rng.random() < 0.3) for _ in range(rng.randint(2, 60))
    )


@cache
def bundled() -> PreTrainedTokenizerFast:
    return AutoTokenizer.from_pretrained(sgnb.models.path("tiny"))  # type: ignore[return-value]


@cache
def unigram() -> PreTrainedTokenizerFast:
    fast = Fast(models.Unigram())
    fast.normalizer, fast.decoder = normalizers.NFKC(), decoders.Metaspace()
    fast.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>"]
    fast.train_from_iterator(
        TEXT,
        trainers.UnigramTrainer(
            vocab_size=300, special_tokens=special, unk_token="<unk>", show_progress=False
        ),
    )
    return PreTrainedTokenizerFast(tokenizer_object=fast, unk_token="<unk>", bos_token="<s>")


@cache
def word_pieces() -> PreTrainedTokenizerFast:
    fast = Fast(models.WordPiece(unk_token="[UNK]"))
    fast.normalizer, fast.decoder = normalizers.BertNormalizer(), decoders.WordPiece()
    fast.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[UNK]", "[CLS]", "[SEP]"]
    fast.train_from_iterator(
        TEXT, trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    )
    fast.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=fast, unk_token="[UNK]", cls_token="[CLS]")


SMALL = {
    "bundled": bundled,
    "byte level": byte_level,
    "pieces": pieces,
    "unigram": unigram,
    "word pieces": word_pieces,
}
LARGE = {
    "131,072 tokens": large_vocabulary.tokenizer,
    "SentencePiece with byte fallback": large_vocabulary.sentence_pieces,
}


def same_tokens(made: PreTrainedTokenizerFast, texts: int) -> int:
    """Compare so many random texts, cut wherever one may be; how many cuts there were."""
    tokenizer, rng, cuts = Tokenizer(made), random.Random(1), 0
    encoder = tokenizer._chunks
    for _ in range(texts):
        text, special = random_text(rng), rng.random() < 0.3
        cuts += len(encoder._cut(text)) - 1
        assert encoder.encode([text], special) == tokenizer._encode_whole([text], special), text
    return cuts


@pytest.mark.parametrize("name", SMALL)
def test_chunks_have_the_tokens_of_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 1)
    assert same_tokens(SMALL[name](), 600) > 600


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_more_texts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 1)
    assert same_tokens((SMALL | LARGE)[name](), 2_000) > 2_000


@pytest.mark.parametrize("make", [byte_level, pieces])
def test_text_after_text_is_the_whole(
    make: Callable[[], PreTrainedTokenizerFast], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However a program appends it."""
    monkeypatch.setattr(chunks, "CHUNK", 4)
    tokenizer, rng = Tokenizer(make()), random.Random(2)
    for _ in range(300):
        text = random_text(rng)
        places = sorted(rng.randint(0, len(text)) for _ in range(rng.randint(1, 5)))
        ends = zip([0, *places], [*places, len(text)], strict=True)
        parts = [Segment(text[begin:end]) for begin, end in ends]
        assert tokenizer.encode([parts]) == tokenizer.encode([text])


def test_texts_that_begin_alike_share_the_work() -> None:
    tokenizer = Tokenizer(byte_level())
    document = " ".join(f"word{i}" for i in range(3000))
    first = tokenizer.encode([document])
    encoded: list[str] = []
    whole = tokenizer._chunks._encode
    tokenizer._chunks._encode = lambda texts, special: (
        encoded.extend(texts) or whole(texts, special)
    )
    [again] = tokenizer.encode([document + " and a question"])
    assert again[: len(first[0]) - 10] == first[0][:-10]
    assert sum(map(len, encoded)) < 2 * chunks.CHUNK


def test_a_vocabulary_with_tokens_across_words_is_not_cut() -> None:
    fast = Fast(models.BPE())
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    fast.train_from_iterator(["of the people by the people for the people"] * 9, trainer)
    tokenizer = Tokenizer(PreTrainedTokenizerFast(tokenizer_object=fast))
    text = "of the people by the people " * 50
    assert tokenizer._chunks._cuts is None or " " not in tokenizer._chunks._cuts.pattern
    assert tokenizer.encode([text]) == tokenizer._encode_whole([text], True)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 8)
    monkeypatch.setattr(chunks, "REMEMBERED", 20)
    tokenizer = Tokenizer(byte_level())
    for start in range(0, 2000, 100):
        text = " ".join(f"word{i}" for i in range(start, start + 100))
        assert tokenizer.encode([text]) == tokenizer._encode_whole([text], True)
        assert len(tokenizer._chunks._known) <= 20


def test_whole_texts_are_remembered_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_module, "REMEMBERED", 40)
    tokenizer = Tokenizer(byte_level())
    for texts in (["a few words"], ["one", "two", "three"], ["long " * 20], ["short"]):
        tokens = [tokenizer._encode_whole([text], True)[0] for text in texts]
        assert tokenizer.encode(texts) == tokenizer.encode(texts) == tokens
        assert sum(len(segments[0].text) for segments in tokenizer._begun) <= 40
    assert len(tokenizer._begun) == 1  # that which is too long is not kept, what came before goes
