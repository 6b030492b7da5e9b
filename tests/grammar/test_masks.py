"""Masks against brute force: every token's bytes, walked one by one, on three tokenizers."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from sgnb import models
from sgnb.engine.request.tokenizer import Tokenizer
from sgnb.errors import GrammarError
from sgnb.grammar import masks
from sgnb.grammar.automaton.automaton import START, Automaton, build
from sgnb.grammar.masks import LruCache, TokenMasks
from sgnb.grammar.regex import parser as regex
from sgnb.grammar.syntax import Rules
from sgnb.grammar.vocabulary import Vocabulary

from .. import byte_tokenizers, large_vocabulary

STRING = r'"([^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-f]{4})*"'
PATTERNS = [
    r'\{"name":' + STRING + r',"n":(0|[1-9][0-9]{0,5})\}',
    STRING.replace("*", "{0,30}"),
    "[a-z]{1,20}",
    ".{0,40}",
    r"\w+( \w+)*",
    r"(true|false|null) ?.*",
    "é+[à-ÿ]{2}|素早い[ぁ-ん]{0,3}",
    "[^a]b",
    "",
]


def test_tokens_by_their_length() -> None:
    vocabulary = Vocabulary([b"", b"a", b"ab", b"abc"] * 20)
    for length in range(4):
        longer = vocabulary.unpacked(vocabulary.longer_than(length))
        assert longer.tolist() == [len(piece) > length for piece in vocabulary.pieces]


def compiled(pattern: str) -> Automaton:
    return build(Rules(regex.parse(pattern)))


@cache
def vocabulary(name: str) -> Vocabulary:
    if name == "large":
        return Vocabulary(large_vocabulary.pieces())
    made = (
        byte_tokenizers.pieces()
        if name == "pieces"
        else AutoTokenizer.from_pretrained(models.path("tiny"))
    )
    tokenizer, special = Tokenizer(made), set(made.all_special_ids)
    return Vocabulary(b"" if i in special else tokenizer.piece(i) for i in range(len(made)))


def allowed(mask: np.ndarray, size: int) -> np.ndarray:
    return np.unpackbits(mask.view(np.uint8), bitorder="little")[:size].astype(np.bool_)


def brute_force(automaton: Automaton, pieces: tuple[bytes, ...], state: int) -> np.ndarray:
    return np.array([bool(piece) and automaton.step(state, piece) != 0 for piece in pieces])


def sample_states(automaton: Automaton, count: int) -> list[int]:
    """The dead one, the first one, and others, of which many lie inside a UTF-8 character."""
    others = range(2, len(automaton.table))
    return [0, START, *random.Random(0).sample(others, min(count, len(others)))]


@pytest.mark.parametrize(("name", "least"), [("tiny", 4096), ("pieces", 300), ("large", 100_000)])
def test_the_vocabularies_and_the_states_are_the_hard_ones(name: str, least: int) -> None:
    """Special tokens, tokens that are not UTF-8 by themselves, and states inside a character."""
    words = vocabulary(name)
    assert words.size >= least and words.pieces.count(b"") >= 3
    assert sum("\ufffd" in piece.decode(errors="replace") for piece in words.pieces) >= 100
    inside = 0
    for automaton in map(compiled, PATTERNS):
        following = map(
            automaton.next_bytes, sample_states(automaton, 4 if name == "large" else 25)
        )
        inside += sum(bool(data) and data[0] >= 0x80 and data[-1] <= 0xBF for data in following)
    assert inside >= 15


@pytest.mark.parametrize("name", ["tiny", "pieces", "large"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_masks_equal_brute_force(name: str, pattern: str) -> None:
    words, automaton = vocabulary(name), compiled(pattern)
    token_masks = TokenMasks(automaton, words)
    for state in sample_states(automaton, 4 if name == "large" else 25):
        mask, expected = token_masks.mask(state), brute_force(automaton, words.pieces, state)
        assert mask.dtype == np.uint32 and len(mask) == -(-words.size // 32)
        assert np.array_equal(allowed(mask, words.size), expected), state
        assert not allowed(mask, len(mask) * 32)[words.size :].any()


def test_every_state_in_a_character_is_exact() -> None:
    """The large vocabulary has tokens that begin and end anywhere in a character."""
    words, automaton = vocabulary("large"), compiled("[é-素]{1,2}x")
    token_masks = TokenMasks(automaton, words)
    inside = automaton.step(START, "素".encode()[:2])
    for state in [
        START,
        inside,
        automaton.step(START, "素".encode()),
        automaton.step(START, "素素".encode()[:4]),
    ]:
        assert np.array_equal(
            allowed(token_masks.mask(state), words.size),
            brute_force(automaton, words.pieces, state),
        )
    partial = words.pieces.index("素".encode()[2:])
    assert allowed(token_masks.mask(inside), words.size)[partial]


@pytest.mark.slow
@pytest.mark.parametrize(
    "limits", [(1, 200, 12), (1, 0, 12), (1, 3, 1), (1, 200, 2), (10**9, 0, 0)]
)
def test_every_way_to_walk_gives_the_same(
    limits: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neighbourhoods of all sizes, the whole tree, and only the nodes that are alive."""
    names = ("WIDE_WALK", "NEIGHBOURHOOD_STATES", "NEIGHBOURHOOD_DEPTH")
    for name, value in zip(names, limits, strict=True):
        monkeypatch.setattr(masks, name, value)
    words = Vocabulary(vocabulary("tiny").pieces)
    for pattern in PATTERNS:
        automaton = compiled(pattern)
        token_masks = TokenMasks(automaton, words)
        for state in sample_states(automaton, 12):
            expected = brute_force(automaton, words.pieces, state)
            assert np.array_equal(allowed(token_masks.mask(state), words.size), expected), (
                pattern,
                state,
            )


PIECES = st.lists(
    st.binary(max_size=4) | st.text("ab1é素", max_size=3).map(str.encode), min_size=1, max_size=80
)


@given(PIECES, st.sampled_from([".*", "[ab]{0,9}1", "(é|素b)+", "[^1]*"]), st.integers(0, 99))
def test_any_vocabulary(pieces: list[bytes], pattern: str, place: int) -> None:
    """Also with bytes that are no UTF-8, duplicates, NUL and nothing but special tokens."""
    automaton, words = compiled(pattern), Vocabulary(pieces)
    state = place % len(automaton.table)
    for wide_walk in (1, masks.WIDE_WALK):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(masks, "WIDE_WALK", wide_walk)
            mask = TokenMasks(automaton, words).mask(state)
        assert np.array_equal(
            allowed(mask, words.size), brute_force(automaton, words.pieces, state)
        )


def test_automata_with_like_strings_share_the_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "WIDE_WALK", 1)
    walks: list[bytes] = []
    whole = masks.walk_neighbourhood
    monkeypatch.setattr(
        masks,
        "walk_neighbourhood",
        lambda tree, near: walks.append(near.shape) or whole(tree, near),
    )
    words = Vocabulary(vocabulary("tiny").pieces)
    for key in ("a", "list of [0-9]{2}"):
        automaton = compiled(rf"\{{{key}:{STRING},\}}")
        body = automaton.step(START, b'{a:"' if key == "a" else b'{list of 12:"')
        mask = TokenMasks(automaton, words).mask(body)
        assert np.array_equal(allowed(mask, words.size), brute_force(automaton, words.pieces, body))
    assert len(walks) == 1


def test_masks_are_kept_and_read_only() -> None:
    token_masks = TokenMasks(compiled("[a-z]+"), vocabulary("tiny"))
    mask = token_masks.mask(START)
    assert token_masks.mask(START) is mask
    with pytest.raises(ValueError):
        mask[0] = 1


def test_masks_with_few_tokens_are_kept_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "RECENT_BYTES", 0)
    pairs = [bytes([first, second]) for first in range(256) for second in range(256)]
    token_masks = TokenMasks(compiled('"key": [ -~]+'), Vocabulary(pairs))
    first, later = token_masks.mask(START), token_masks.mask(START)
    assert first is not later and np.array_equal(first, later) and first.any()
    assert not later.flags.writeable

    free = token_masks.automaton.step(START, b'"key": ')
    assert token_masks.mask(free) is token_masks.mask(free)
    assert token_masks._masks.used < 1.2 * first.nbytes


def test_two_automata_do_not_mix_their_masks() -> None:
    words = vocabulary("tiny")
    letters, digits = TokenMasks(compiled("[a-z]+"), words), TokenMasks(compiled("[0-9]+"), words)
    assert not (letters.mask(START) & digits.mask(START)).any()
    assert letters.mask(START).any() and digits.mask(START).any()


def test_the_cache_is_bounded_and_forgets_what_was_used_least_recently() -> None:
    cache: LruCache[str] = LruCache(10)
    cache.put("a", "A", 4)
    cache.put("b", "B", 4)
    assert cache.get("a") == "A"
    cache.put("c", "C", 4)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), cache.used) == ("A", None, "C", 8)
    cache.put("a", "AA", 6)
    assert (cache.get("a"), cache.get("c"), cache.used) == ("AA", "C", 10)
    cache.put("d", "D", 11)
    assert cache.get("d") is None and cache.used == 0


@given(PIECES)
def test_the_tree_holds_every_prefix_once(pieces: list[bytes]) -> None:
    tree = Vocabulary(pieces).tree
    prefixes: list[bytes] = [b""]
    for node in range(1, len(tree)):
        prefixes.append(prefixes[tree.parent[node]] + tree.data[node : node + 1])
        assert tree.first_child[tree.parent[node]] <= node < tree.first_child[tree.parent[node] + 1]
    expected = {b""} | {piece[:length] for piece in pieces for length in range(len(piece) + 1)}
    assert prefixes == sorted(expected, key=lambda prefix: (len(prefix), prefix))
    for node, prefix in enumerate(prefixes):
        held = tree.tokens[tree.first_token[node] : tree.first_token[node + 1]].tolist()
        assert held == [i for i, piece in enumerate(pieces) if piece and piece == prefix]
    assert [prefixes[node] for node in tree.node_of] == pieces
    assert tree.nodes_below.sum() == len(tree) - 1


def test_longest_match_is_greedy() -> None:
    words = Vocabulary([b"", b"a", b"ab", b"abc", b"b", b"c", b"ab", b"\xc3", b"\xa9"])
    assert words.longest_match(b"") == []
    assert words.longest_match(b"abcab") == [3, 2]
    assert words.longest_match("cé".encode()) == [5, 7, 8]


def test_longest_match_goes_back_where_greed_leads_nowhere() -> None:
    words = Vocabulary([b"a", b"ab", b"bc", b"bcd", b"e"])
    assert words.longest_match(b"abc") == [0, 2]
    assert words.longest_match(b"abcabcde") == [0, 2, 0, 3, 4]
    with pytest.raises(GrammarError) as caught:
        words.longest_match(b"abcdxe")
    assert "b'xe'" in caught.value.message and "byte 4" in caught.value.message


def test_longest_match_of_hopeless_text_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exponentially many ways lead to every place, and none ends; each place is visited once."""
    words = Vocabulary([b"a", b"aa", b"aaa"])
    places: list[int] = []
    matches = words.tree.matches
    monkeypatch.setattr(
        words.tree, "matches", lambda data, place: places.append(place) or matches(data, place)
    )
    with pytest.raises(GrammarError, match="byte 400"):
        words.longest_match(b"a" * 400 + b"b")
    assert sorted(places) == list(range(401))


@given(st.lists(st.sampled_from([b"a", b"ab", b"bc", b"bb", b"cab"]), max_size=12).map(b"".join))
def test_longest_match_finds_a_way_if_there_is_one(data: bytes) -> None:
    words = Vocabulary([b"a", b"ab", b"bc", b"bb", b"cab"])
    assert b"".join(words.pieces[token] for token in words.longest_match(data)) == data


def test_longest_match_of_real_text() -> None:
    words = vocabulary("large")
    data = '{"größe": "素早い", "n": 12}'.encode()
    tokens = words.longest_match(data)
    assert b"".join(words.pieces[token] for token in tokens) == data
    assert len(tokens) < len(data) / 2


def test_fingerprint_tells_vocabularies_apart() -> None:
    lists = [[b"a", b"b"], [b"b", b"a"], [b"ab"], [b"ab", b""], [b"", b"ab"]]
    assert len({Vocabulary(pieces).fingerprint for pieces in lists}) == len(lists)
    assert Vocabulary([b"a"]).fingerprint == Vocabulary((b"a",)).fingerprint
