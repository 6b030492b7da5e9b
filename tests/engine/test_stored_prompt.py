"""Keys of prompts with images, and ends of loads."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgnb.engine.cache.sequence import CachedSequence, CacheScope
from sgnb.engine.cache.tiers.blocks import BLOCK
from sgnb.engine.cache.tiers.load_report import LoadReport
from sgnb.engine.cache.tiers.stored_prompt import ItemSpan, StoredPrompt, read_prompt
from sgnb.engine.items.item_facts import ItemFacts

from .test_cache_tiers import computed
from .tier_setting import SLOTS, VOCAB, FakeItem, Setting, copy_idle, work_all

SIZES = 1, 63, 64, 130
PARTS = st.lists(st.one_of(st.integers(0, 3), st.sampled_from("abcd")), min_size=1, max_size=8)


def read(parts: list[Any], shift: int = 0) -> tuple[list[str], StoredPrompt]:
    """Return names of the tokens, and the prompt with ids of images from `VOCAB + shift` on."""
    ids, names, spans = list[int](), list[str](), list[ItemSpan]()
    for part in parts:
        if isinstance(part, int):
            ids += [part] * 40
            names += [str(part)] * 40
            continue
        number = "abcd".index(part)
        item = FakeItem(number, SIZES[number], joint=False)
        first = VOCAB + shift + 1000 * number
        spans.append(ItemSpan(len(ids), item))
        ids += range(first, first + item.count)
        names += [f"{part}{i}" for i in range(item.count)]
    return names, read_prompt(b"root", np.array(ids, np.int32), spans)


@given(PARTS, PARTS, st.integers(0, 500))
def test_equal_keys_mean_equal_contents(one: list[Any], two: list[Any], shift: int) -> None:
    (names, prompt), (others, other) = read(one), read(two, shift)
    blocks = min(len(prompt.keys), len(other.keys))
    for i in range(1, blocks):
        same = names[: i * BLOCK] == others[: i * BLOCK]
        assert (prompt.keys[i] == other.keys[i]) == same
        if same:
            assert (prompt.tokens[: i * BLOCK] == other.tokens[: i * BLOCK]).all()
    assert len(prompt.keys) == len(names) // BLOCK + 1


def test_a_block_with_one_token_of_an_image_has_the_whole_digest() -> None:
    """The ids of a token have 31 bits; keys must not collide as often."""
    text = np.arange(63, dtype=np.int32)
    keys = set()
    for number in range(2):
        item = FakeItem(number, 80, joint=False)
        tokens = np.concatenate([text, np.full(80, 900, np.int32)])
        prompt = read_prompt(b"root", tokens, [ItemSpan(63, item)])
        ids = prompt.tokens.copy()
        assert (ids[63:] < 0).all() and (tokens == 900).sum() == 80, "a copy"
        item.key = item.key[:31] + b"\x09"
        keys |= {prompt.keys[1], read_prompt(b"root", tokens, [ItemSpan(63, item)]).keys[1]}
    assert len(keys) == 3


def test_a_load_ends_before_an_item_with_a_damaged_block() -> None:
    setting = Setting(1, ("disk",), images=True)
    item = next(each for each in setting.items if each.blocks and each.count == 150)
    begin = 5 * BLOCK + 40
    parts = [*setting.tokens(begin).tolist(), item, *setting.tokens(200).tolist()]
    document = setting.encode(parts)
    computed(setting, document)
    computed(setting, document)
    copy_idle(setting)
    keys = setting.tiers.prefixes.read(document).keys

    # The tokens 362 to 508 see each other, so loads may not end at 384 and 448.
    for damaged, expected in ((6, 5), (7, 5), (8, 5), (9, 8), (len(keys) - 1, len(keys) - 2)):
        setting.restart()
        setting.stores[0].damaged = {keys[damaged]}
        request = CachedSequence(setting.encode(parts), 1000, CacheScope())
        request.id = damaged
        assert not setting.tiers.ready(request, True, SLOTS)
        work_all(setting)
        assert setting.cache.look_up(request).length == expected * BLOCK
        setting.check()


def test_a_cached_prefix_that_ends_in_an_item_is_loaded_from_before() -> None:
    """Otherwise the tree would keep the part before the load, and lose the rest."""
    setting = Setting(1, ("disk",), images=True)
    item = next(each for each in setting.items if each.blocks and each.count == 90)
    tokens = setting.encode([*setting.tokens(300).tolist(), item, *setting.tokens(300).tolist()])
    prompt = setting.tiers.prefixes.read(tokens)
    assert not prompt.permits(320) and prompt.permits(256) and prompt.permits(384 + BLOCK)
    computed(setting, tokens)
    computed(setting, tokens)
    copy_idle(setting)
    report = LoadReport(setting.tiers._journal, setting.events.append, 0)
    plan = setting.tiers._planner.plan(prompt, 330, 330, report)
    assert plan is not None and plan.first == 4 and plan.end == len(tokens) // BLOCK


@given(st.integers(1, 300), st.integers(1, 3), st.integers(0, 10**6), st.lists(st.integers(0, 299)))
def test_facts_survive(count: int, axes: int, advance: int, cuts: list[int]) -> None:
    blocks = [(cut, count) for cut in cuts if cut < count]
    positions = np.arange(axes * count).reshape(axes, count) % 1000
    facts = ItemFacts(count, blocks, positions, advance)
    again = ItemFacts.unpack(facts.pack())
    assert (again.positions == positions).all() and again.positions.dtype == np.int64
    assert again._replace(positions=positions) == facts


@pytest.mark.parametrize(
    "data",
    {
        "empty": b"",
        "no json": b"[1, [], 1, 1",
        "fields": b'{"a": 1}\nx',
        "size": b"[0, [], 1, 1]\n",
        "huge": b"[99999999, [], 3, 1]\n",
        "block": b"[3, [[0, 9]], 1, 1]\n",
        "pair": b"[3, [[0]], 1, 1]\n",
        "number": b"[3, [5], 1, 1]\n",
        "null": b"[3, [[null, 1]], 1, 1]\n",
        "infinite": b"[Infinity, [], 1, 1]\n",
        "nested": b"[" * 200_000,
        "advance": b"[1, [], 1, 9223372036854775807]\n" + zlib.compress(bytes(4)),
        "texts": b'[3, ["ab"], 1, 1]\n',
        "positions": b"[3, [], 1, 1]\nabc",
        "short": ItemFacts(2, [], np.zeros((1, 2)), 1).pack().replace(b"[2,", b"[3,"),
        "long": ItemFacts(4, [], np.zeros((1, 4)), 1).pack().replace(b"[4,", b"[3,"),
    }.items(),
    ids=lambda case: case[0],
)
def test_damaged_facts(data: tuple[str, bytes]) -> None:
    with pytest.raises(ValueError):
        ItemFacts.unpack(data[1])
