"""Text that grows token by token, and stop strings in it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken

from sgnb.engine.request.byte_alphabet import cut_bytes, name_bytes
from sgnb.engine.request.detokenizer import Detokenizer
from sgnb.engine.request.stop_strings import StopStrings
from sgnb.engine.request.tokenizer import Tokenizer
from sgnb.errors import RequestError
from tests.counting import calls

from ..byte_tokenizers import BOS, EOS, TEXT, byte_level, pieces
from .test_kv_cache import needs_proc, resident_mb

quick = settings(max_examples=60, deadline=None, derandomize=True, database=None)
texts = st.one_of(
    st.text(max_size=30),
    st.lists(st.sampled_from("aé🦊дß狐 \n"), max_size=20).map("".join),
    st.sampled_from(TEXT),
)


@pytest.fixture(scope="module")
def bytes_() -> Tokenizer:
    return Tokenizer(byte_level())


@pytest.fixture(scope="module")
def pieces_() -> Tokenizer:
    return Tokenizer(pieces())


def grow(tokenizer: Tokenizer, prompt: list[int], tokens: list[int], seed: int = 0) -> list[str]:
    """What is shown when `tokens` come one, two or three at a time."""
    rng, shown = random.Random(seed), []
    detokenizer = Detokenizer(tokenizer, prompt)
    while tokens:
        count = rng.randint(1, 3)
        shown.append(detokenizer.push(tokens[:count]))
        tokens = tokens[count:]
    return [*shown, detokenizer.finish()]


@quick
@given(texts, texts, st.integers(0, 9))
def test_bytes_grow_by_whole_characters(
    bytes_: Tokenizer, before: str, text: str, seed: int
) -> None:
    [prompt, tokens] = bytes_.encode([before, text])
    shown = grow(bytes_, prompt, tokens, seed)
    assert "".join(shown) == text.replace(BOS, "").replace(EOS, "")
    assert "\ufffd" in text or not any("\ufffd" in part for part in shown)


@quick
@given(st.lists(st.integers(0, 399), max_size=40), st.integers(0, 9))
def test_bytes_that_are_no_text(bytes_: Tokenizer, tokens: list[int], seed: int) -> None:
    """Whatever a model puts out: the parts are the whole."""
    assert "".join(grow(bytes_, [], tokens, seed)) == bytes_.decode(tokens)


@quick
@given(
    st.lists(
        st.sampled_from(["The", "die", "über", "fast", "🦊", "x", "狐", BOS, EOS]), max_size=12
    ),
    st.integers(0, 9),
    st.integers(0, 6),
)
def test_pieces_keep_their_spaces(
    pieces_: Tokenizer, words: list[str], seed: int, cut: int
) -> None:
    """Also next to special tokens, which are no text."""
    tokens = [t for word in words for t in (pieces_.hf.encode(word, add_special_tokens=False))]
    prompt, rest = tokens[:cut], tokens[cut:]
    before = pieces_.decode(prompt)
    if before.endswith("\ufffd"):
        return
    assert "".join(grow(pieces_, prompt, rest, seed)) == pieces_.decode(tokens)[len(before) :]


@quick
@given(texts)
def test_the_bytes_of_tokens_are_the_text(bytes_: Tokenizer, pieces_: Tokenizer, text: str) -> None:
    [tokens] = bytes_.encode([text])
    assert b"".join(map(bytes_.piece, tokens)) == (text or BOS).encode()
    if (
        text
        and not text.startswith(BOS)
        and "<unk>" not in text
        and EOS not in text
        and BOS not in text
    ):
        [[first, *tokens]] = pieces_.encode([text])
        assert pieces_.piece(first) == BOS.encode()
        assert b"".join(map(pieces_.piece, tokens)) == f" {text}".replace("▁", " ").encode()


def test_added_tokens_are_text_as_they_stand() -> None:
    raw = byte_level.__wrapped__()
    raw.add_tokens([AddedToken("é à"), AddedToken("ĠĀ")])
    tokenizer = Tokenizer(raw)
    [tokens] = tokenizer.encode(["xé àyĠĀz"])
    assert len(tokens) == 5
    assert b"".join(map(tokenizer.piece, tokens)) == "xé àyĠĀz".encode()


def test_beginning_of_sequence_comes_once(bytes_: Tokenizer, pieces_: Tokenizer) -> None:
    assert (
        pieces_.encode(["The", "The"])
        == pieces_.encode([f"{BOS}The", f"{BOS}The"])
        == pieces_.encode(["The", f"{BOS}The"])
    )
    assert pieces_.encode([""]) == [[1]]
    assert bytes_.encode(["", ""]) == [[0], [0]]
    assert pieces_.eos_token_ids == {2} and bytes_.eos_token_ids == {1}
    assert bytes_.piece(9999) == b"<9999>"


ALPHABET = st.text(alphabet="abc", max_size=14)
STOPS = st.lists(st.text(alphabet="abc", min_size=1, max_size=4), min_size=1, max_size=3)


@quick
@given(ALPHABET, STOPS, st.randoms(use_true_random=False), st.integers(0, 5))
def test_stop_strings(text: str, stops: list[str], rng: random.Random, ignored: int) -> None:
    """Found as soon as one is complete, at its first place; nothing of it was shown before."""
    finder, grown, shown = StopStrings(tuple(stops)), "", ""
    while len(grown) < len(text):
        grown = text[: len(grown) + rng.randint(1, 3)]
        if len(grown) <= ignored:
            finder.ignore(grown)
            begin = len(grown)
        else:
            begin = locals().get("begin", 0)
        places = [p for s in stops if (p := grown.find(s, begin)) >= 0]
        found = finder.find(grown)
        if found is not None:
            place, stop = found
            assert place == min(places) and len(shown) <= place
            assert stop == max((s for s in stops if grown.startswith(s, place)), key=len)
            return
        assert not places
        safe = finder.safe_length(grown)
        assert grown.startswith(shown) and safe >= len(shown), "what was shown does not change"
        shown = grown[:safe]
        tail = grown[max(safe, begin) :]
        assert not tail or any(s.startswith(tail) for s in stops), (
            "no more is held back than need be"
        )


def test_a_token_costs_the_same_with_many_stop_strings() -> None:
    rng = random.Random(0)
    text, *stops = ("".join(rng.choices("abcdefgh", k=rng.randint(10, 40))) for _ in range(5001))

    def read(count: int) -> int:
        finder = StopStrings(tuple(stops[:count]))

        def grow() -> None:
            for end in range(1, len(text) + 1):
                assert finder.find(text[:end]) is None
                finder.safe_length(text[:end])

        return calls(grow)

    assert read(5000) < 2 * read(5)


def test_characters_of_several_tokens_are_held_back(bytes_: Tokenizer) -> None:
    detokenizer = Detokenizer(bytes_, [])
    single: list[Any] = [
        t for t in range(400) if bytes_.piece(t) in (b"\xf0", b"\x9f", b"\xa6", b"\x8a")
    ]
    by_byte = {bytes_.piece(t): t for t in single}
    fox = [by_byte[bytes([b])] for b in "🦊".encode()]
    assert [detokenizer.push([t]) for t in fox] == ["", "", "", "🦊"]
    assert detokenizer.push(fox[:2]) == "" and detokenizer.finish() == "\ufffd"


def test_half_a_surrogate_pair_is_refused(bytes_: Tokenizer, pieces_: Tokenizer) -> None:
    for tokenizer in (bytes_, pieces_):
        with pytest.raises(RequestError, match=r"character 3 of the prompt is '\\udc80'"):
            tokenizer.encode(["fine", "abc\udc80"])


@pytest.mark.parametrize("when", ["in its file", "later, by who shares it"])
def test_padding_and_truncation_do_not_touch_what_is_encoded(when: str) -> None:
    raw = byte_level.__wrapped__()
    [whole] = Tokenizer(byte_level()).encode([TEXT[0]])
    shared = Tokenizer(raw)
    ways: list[Callable[[Tokenizer], Sequence[int]]] = [
        lambda tokenizer: tokenizer.encode([TEXT[0]])[0],
        lambda tokenizer: tokenizer.write(TEXT[0].encode()),
    ]
    for write in ways:
        raw.backend_tokenizer.enable_truncation(4)
        raw.backend_tokenizer.enable_padding(length=64)
        assert list(write(Tokenizer(raw) if when == "in its file" else shared)) == whole


def test_a_token_that_cannot_be_named_is_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = Tokenizer(pieces())
    known, named = tokenizer.pieces([5, 6]), tokenizer._bytes

    def failing(token: int, name: str) -> bytes:
        return named(token, name) if token != 5 else bytes.fromhex(name)

    monkeypatch.setattr(tokenizer, "_bytes", failing)
    assert tokenizer.pieces([5, 6]) == [b"<5>", known[1]]


def test_the_bytes_of_many_tokens_are_those_of_each(bytes_: Tokenizer) -> None:
    names = bytes_.hf.convert_ids_to_tokens([*range(len(bytes_.hf))])
    each = [bytes_._bytes(token, name) for token, name in enumerate(names)]
    plain = [token for token in range(len(names)) if token not in bytes_._literal]
    assert len(plain) > 200 and len(plain) < len(names)
    assert bytes_.pieces(plain) == cut_bytes([names[token] for token in plain])
    assert bytes_.pieces(plain) == [each[token] for token in plain]
    assert bytes_.pieces([*range(len(names)), len(names)])[:-1] == each  # the last has no name
    with pytest.raises(UnicodeEncodeError):
        cut_bytes(["ab", "\u4e2d"])
    assert name_bytes("a\u4e2d\u0120") == "a\u4e2d ".encode()


def test_a_thread_that_pads_and_cuts_changes_nothing() -> None:
    """With the transformers tokenizer that the engine was given, all the time."""
    raw = byte_level.__wrapped__()
    raw.pad_token = EOS
    tokenizer, over = Tokenizer(raw), threading.Event()
    [whole] = tokenizer.encode([TEXT[0]])

    def pad() -> None:
        while not over.is_set():
            raw(["a", TEXT[0]], padding="max_length", truncation=True, max_length=4)
            raw(["a"])

    thread = threading.Thread(target=pad)
    thread.start()
    try:
        assert all(tokenizer.encode([TEXT[0]]) == [whole] for _ in range(3000))
    finally:
        over.set()
        thread.join()


@needs_proc
def test_words_met_long_ago_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tokenizers library keeps the tokens of words, on each of its threads."""
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # all on this thread
    tokenizer = Tokenizer(byte_level.__wrapped__())

    def encode_words(first: int, last: int) -> None:
        for begin in range(first, last, 50):
            words = [f"{number:0200}" for number in range(begin, begin + 50)]
            tokenizer.encode([" ".join(words)])

    encode_words(0, 2_000)  # fills both caches: of words, and of whole texts
    before = resident_mb()
    encode_words(2_000, 12_000)
    assert resident_mb() - before < 45  # 77 with the default capacity for words


@quick
@given(texts)
def test_bytes_are_written_as_the_tokenizer_would(bytes_: Tokenizer, text: str) -> None:
    """With the library around it or without."""
    without = Tokenizer(bytes_.hf)
    without._fast = None
    tokens = bytes_.write(text.encode())
    assert (
        tokens
        == without.write(text.encode())
        == tuple(bytes_.hf.encode(text, add_special_tokens=False))
    )


def test_the_vocabulary_changes_no_piece() -> None:
    for raw in (byte_level(), pieces()):
        before, after = Tokenizer(raw), Tokenizer(raw)
        assert after.vocabulary.size == len(raw)
        assert [after.piece(token) for token in range(len(raw) + 2)] == [
            before.piece(token) for token in range(len(raw) + 2)
        ]


def test_threads_share_one_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, own = Tokenizer(byte_level()), Tokenizer._bytes

    def slow(self: Tokenizer, token: int, name: str) -> bytes:
        time.sleep(1e-5)
        return own(self, token, name)

    monkeypatch.setattr(Tokenizer, "_bytes", slow)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: tokenizer.vocabulary, range(4)))
    assert all(vocabulary is found[0] for vocabulary in found)


def test_text_that_is_complete_is_not_decoded_again(
    bytes_: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    [tokens] = bytes_.encode(["all of it"])
    detokenizer = Detokenizer(bytes_, np.array(tokens[:2], np.int32))
    assert detokenizer.push(tokens[2:])
    monkeypatch.setattr(bytes_, "decode", lambda *_: pytest.fail("decoded again"))
    assert detokenizer.finish() == ""
