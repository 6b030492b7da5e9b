"""Small tokenizers made on the spot: byte-level BPE, and pieces with "▁" and byte fallback, as
SentencePiece makes."""

from __future__ import annotations

from functools import cache

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

TEXT = [
    "The quick brown fox jumps over the lazy dog. The answer is 42, the question is not.",
    "Größe und Übermut: die Füchse springen über die Hunde, naïve café façade.",
    "Быстрая лиса прыгает через ленивую собаку. Η γρήγορη αλεπού πηδά.",
    "素早い狐がのろまな犬を飛び越える。敏捷的狐狸跳过了懒狗。",
    "🦊 jumps over 🐶🐶 and 👩‍👩‍👧 laughs — “so what?”\n\tint main() { return 0; }\n",
]
BOS, EOS = "<s>", "</s>"


@cache
def byte_level(vocab_size: int = 400) -> PreTrainedTokenizerFast:
    """Byte-level BPE: the specials, 256 bytes, then merges. No beginning-of-sequence token is
    added."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[BOS, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(TEXT, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=raw, bos_token=BOS, eos_token=EOS)


@cache
def pieces() -> PreTrainedTokenizerFast:
    """BPE over "▁" words with byte fallback; adds a beginning-of-sequence token, as Llama 2's
    does."""
    alphabet = sorted({c for text in TEXT[:2] for c in text.replace(" ", "▁")})
    names = ["<unk>", BOS, EOS, *(f"<0x{b:02X}>" for b in range(256)), *alphabet]
    merges = []
    for left, right in [
        ("▁", "T"),
        ("h", "e"),
        ("▁T", "he"),
        ("▁", "d"),
        ("i", "e"),
        ("▁d", "ie"),
        ("ü", "b"),
        ("▁", "f"),
    ]:
        merges.append((left, right))
        names.append(left + right)
    raw = Tokenizer(
        models.BPE(
            {n: i for i, n in enumerate(names)},
            merges,
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    raw.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    raw.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    raw.add_special_tokens(
        [AddedToken(t, special=True, normalized=False) for t in ("<unk>", BOS, EOS)]
    )
    raw.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token=BOS, eos_token=EOS, unk_token="<unk>"
    )
