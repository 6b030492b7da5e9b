"""Search for the passage of a cached text that a prompt repeats at other positions."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.engine.cache.radix import Ints, RadixTree
from sgnb.engine.cache.splice import GRAM, MIN_REUSED, Splice, find_splice, window

VOCAB = 1000


class Cache:
    """A radix tree whose slot of a token is a running number."""

    def __init__(self) -> None:
        self.tree, self.next = RadixTree(), 0
        self.tokens: dict[int, int] = {}  # by slot

    def add(self, text: Ints, namespace: str = "") -> None:
        slots = np.arange(self.next, self.next + len(text), dtype=np.int32)
        self.next += len(text)
        self.tokens.update(zip(slots.tolist(), text.tolist(), strict=True))
        self.tree.insert(text, slots, namespace)

    def find(self, prompt: Ints, namespace: str = "") -> Splice | None:
        node = self.tree.match(prompt[:-1], namespace)
        return find_splice(prompt, namespace, node, VOCAB)


def text(seed: int, length: int, vocab: int = VOCAB) -> Ints:
    return np.random.default_rng(seed).integers(0, vocab, length).astype(np.int32)


def check(cache: Cache, prompt: Ints, splice: Splice) -> None:
    """The reused slots hold the prompt's tokens, at the stated positions."""
    margin, node = window(len(prompt)), cache.tree.match(prompt[:-1])
    found = [cache.tokens[slot] for slot in splice.slots.tolist()]
    assert found == prompt[splice.begin : splice.end].tolist()
    assert splice.begin >= node.end + margin and splice.end <= len(prompt) - margin
    assert splice.end - splice.begin >= MIN_REUSED
    first = splice.begin - splice.shift
    path = splice.donor.path_slots()[first : first + len(splice.slots)]
    assert path.tolist() == splice.slots.tolist()


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(0, 300),
    st.integers(0, 40),
    st.integers(0, 40),
    st.integers(150, 600),
    st.sampled_from([3, 30, VOCAB]),
)
def test_one_edit_reuses_the_whole_rest(
    seed: int, prefix: int, removed: int, added: int, rest: int, vocab: int
) -> None:
    head, tail = text(seed, prefix, vocab), text(seed + 1, rest, vocab)
    old, new = text(seed + 2, removed, vocab), text(seed + 3, added, vocab)
    cache = Cache()
    cache.add(np.concatenate([head, old, tail]))
    prompt = np.concatenate([head, new, tail])
    splice = cache.find(prompt)
    if splice is not None:
        check(cache, prompt, splice)
    if vocab == VOCAB and not np.array_equal(old, new) and rest > 2 * window(len(prompt)) + 70:
        assert splice is not None and splice.shift == added - removed
        assert splice.end == len(prompt) - window(len(prompt))
        # The prefix may end later by tokens that agree by chance.
        assert splice.begin <= prefix + added + window(len(prompt)) + GRAM


def test_the_longest_of_several_passages() -> None:
    a, b, c = text(1, 400), text(2, 900), text(3, 300)
    cache = Cache()
    cache.add(np.concatenate([text(4, 50), a, text(5, 30), b, text(6, 10), c]))
    prompt = np.concatenate([text(4, 50), text(7, 20), a, text(8, 31), b, text(9, 10), c])
    splice = cache.find(prompt)
    assert splice is not None
    check(cache, prompt, splice)
    margin = window(len(prompt))
    assert (splice.begin, splice.end) == (50 + 20 + 400 + 31 + margin, 50 + 20 + 400 + 31 + 900)
    assert splice.shift == 20 + 31 - 30


def test_a_closer_text_comes_first() -> None:
    """A text with a longer common prefix is preferred to a later text."""
    head, middle, rest = text(1, 100), text(2, 100), text(3, 500)
    cache = Cache()
    cache.add(np.concatenate([head, middle, text(4, 5), rest]))
    cache.add(np.concatenate([head, text(5, 7), rest]))
    splice = cache.find(np.concatenate([head, middle, text(6, 6), rest]))
    assert splice is not None and splice.shift == 1


def test_nothing_in_common() -> None:
    cache = Cache()
    assert cache.find(text(1, 500)) is None
    cache.add(text(2, 500))
    assert cache.find(text(1, 500)) is None
    assert cache.find(text(1, 8)) is None
    assert cache.find(np.zeros(400, np.int32)) is None


def test_other_namespaces_and_images_are_no_donors() -> None:
    rest = text(1, 500)
    cache = Cache()
    cache.add(np.concatenate([text(2, 9), rest]), "other")
    prompt = np.concatenate([text(3, 11), rest])
    assert cache.find(prompt) is None
    assert cache.find(prompt, "other") is not None
    cache.add(np.concatenate([text(2, 9), np.full(20, VOCAB, np.int32), rest]))
    assert cache.find(prompt) is None
    cache.add(np.concatenate([text(2, 9), rest]))
    assert cache.find(prompt) is not None


def test_the_window_grows_with_the_prompt() -> None:
    assert [window(n) for n in (10, 1600, 1601, 20000)] == [32, 32, 33, 400]
