"""Events about copies: replayed, they give the content of the stores; reasons are recorded."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sgnb.engine.cache.tiers import copy_journal, copy_writer, transfers
from sgnb.engine.cache.tiers.blocks import BLOCK, Block, block_keys, root_key
from sgnb.engine.cache.tiers.copy_journal import STORED, CopyJournal
from sgnb.engine.cache.tiers.disk import DiskBlocks
from sgnb.engine.cache.tiers.folder import FORMAT
from sgnb.engine.cache.tiers.host import HostBlocks
from sgnb.engine.cache.tiers.host_memory import allocate
from sgnb.engine.cache.tiers.other_weights import find_other_weights
from sgnb.engine.cache.tiers.stored_prefixes import Stores
from sgnb.engine.cache.tiers.stored_prompt import ItemSpan, read_prompt
from sgnb.errors import SgnbWarning
from sgnb.events import BlocksNamed, CopiesChanged, PrefixNotLoaded
from sgnb.viz.state.copied_blocks import CopiedBlocks

from .numbered_blocks import make_block, read
from .test_cache_tiers import computed
from .tier_setting import VOCAB, FakeItem, Kind, Memory, Setting, copy_idle, work_all


class Undamaged(Setting):
    """Random work without faults of the stores."""

    def damage(self) -> None:
        pass

    lose = restart = damage


def replay(events: list[Any]) -> CopiedBlocks:
    copies = CopiedBlocks()
    for event in events:
        if isinstance(event, BlocksNamed):
            copies.named(event)
        elif isinstance(event, CopiesChanged):
            copies.changed(event)
    return copies


PAYLOADS: dict[str, dict[str, Any]] = {
    "text": {},
    "images": {"images": True},
    "states": {"hybrid": True},
}


@pytest.mark.parametrize("payloads", PAYLOADS)
@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(("host",), marks=pytest.mark.slow),
        pytest.param(("disk",), marks=pytest.mark.slow),
        ("host", "disk"),
    ],
    ids="+".join,
)
def test_the_events_give_the_content_of_the_stores(kinds: tuple[Kind, ...], payloads: str) -> None:
    setting = Undamaged(1, kinds, **PAYLOADS[payloads])
    for step in range(700):
        setting.step()
        if step == 350:
            setting.tiers.copies.flush()
    work_all(setting)
    copies, journal = replay(setting.events), setting.tiers._journal
    for store in setting.stores:
        numbers = {n for n, block in copies.blocks.items() if store.name in block.stores}
        assert numbers == {journal._blocks[key].number for key in store.blocks} and numbers
        for key in () if setting.items else store.blocks:
            path = np.array(copies.path(journal._blocks[key].number), np.int32)
            assert list(block_keys(b"root", path, {}))[-1] == key
    if setting.items:
        assert any(max(block.tokens) >= VOCAB for block in copies.blocks.values())

    stored = [e for e in setting.events if isinstance(e, CopiesChanged) and e.state == STORED]
    assert sum(len(event.blocks) for event in stored) > 20 and len(journal) == len(copies.blocks)
    setting.tiers.adopt_weights()
    assert not any(block.stores for block in replay(setting.events).blocks.values())
    assert len(journal) == 0


def tokens(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int32) % 50


def journal(prompt: np.ndarray) -> tuple[CopyJournal, list[bytes], list[Any]]:
    events: list[Any] = []
    made = CopyJournal(events.append)
    keys = [b"root", *block_keys(b"root", prompt, {})]
    made.name(keys, prompt)
    return made, keys, events


def test_names_and_known_states_are_reported_once() -> None:
    prompt = tokens(5 * BLOCK + 3)
    made, keys, events = journal(prompt)
    assert events == [BlocksNamed(1, 5, 0, tuple(prompt[: 5 * BLOCK].tolist()))]
    made.name(keys, prompt)
    made.change("host", STORED, keys[1:3])
    made.change("host", STORED, keys[2:4])
    assert events[1:] == [
        CopiesChanged("host", STORED, (1, 2)),
        CopiesChanged("host", STORED, (3,)),
    ]
    longer = tokens(8 * BLOCK)
    longer[6 * BLOCK :] += 1
    more = [b"root", *block_keys(b"root", longer, {})]
    made.name(more, longer)
    assert events[3] == BlocksNamed(6, 3, 5, tuple(longer[5 * BLOCK :].tolist()))
    host = Memory("host")
    made.missing(host, keys[1])
    made.missing(host, keys[5])  # was never there
    host.blocks[keys[2]] = make_block(2)
    made.missing(host, keys[2])  # is there
    made.change("disk", "full", [keys[1], b"unknown"], "No space left on device")
    assert events[4:] == [
        CopiesChanged("host", "gone", (1,)),
        CopiesChanged("disk", "full", (1,), "No space left on device"),
    ]


def test_only_the_latest_absent_blocks_keep_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_journal, "REMEMBERED", 10)
    events: list[Any] = []
    made = CopyJournal(events.append)
    for first in range(40):
        prompt = tokens(4 * BLOCK) + first
        keys = [b"root", *block_keys(b"root", prompt, {})]
        made.name(keys, prompt)
        made.change("host", STORED, keys[1:])
        made.change("host", "room", keys[1:])
    assert 10 <= len(made) <= 14
    made.name(keys, prompt)
    assert sum(isinstance(event, BlocksNamed) for event in events) == 40


def test_host_memory_records_evictions_and_flushes() -> None:
    store = HostBlocks(4 * BLOCK * 3, 3, allocate)
    for number in range(6):
        store.write(make_block(number))
    assert [c.state for c in store.changes].count("room") == 2
    assert not store.write(make_block(9, seconds=0.0)._replace(seconds=-1.0))
    assert store.changes[-1].state == "bound"
    store.flush()
    assert [c.state for c in store.changes].count("flush") == 4
    events: list[Any] = []
    made = CopyJournal(events.append)
    block = make_block(5)
    made.name([b"root", block.key], block.tokens)
    states = Memory("host")
    states.flush()
    states.write(make_block(5))
    made.collect(Stores(b"root", [store], [states]))
    assert not states.changes
    assert not store.changes
    assert [event.state for event in events[1:]] == [STORED, "flush"]


def test_memory_returned_to_the_machine_is_recorded() -> None:
    free = [1 << 40]
    store = HostBlocks(4 * BLOCK * 3, 3, allocate, free_bytes=lambda: free[0])
    for number in range(3):
        store.write(make_block(number))
    free[0] = 0
    store.relieve()
    assert [change.state for change in store.changes] == ["stored"] * 3 + ["memory"] * 3


def test_the_disk_records_evictions_damage_and_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DiskBlocks(tmp_path / "kv", "ab" * 16, 3, 4 * (4096 + 3 * BLOCK))
    blocks = [make_block(number) for number in range(8)]
    for block in blocks:
        store.write(block)
    states = {change.key: change.state for change in store.changes}
    assert {key for key, state in states.items() if state == STORED} == {
        block.key for block in blocks if store.holds(block.key)
    }
    assert "room" in states.values()
    kept = next(block for block in blocks if store.holds(block.key))
    file = Path(store._path(kept.key))
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.warns(SgnbWarning, match="damaged"):
        assert not read(store, kept)
    assert store.changes[-1] == (kept.key, "damaged", "")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(SgnbWarning, match="cannot be written"):
        store.write(kept)
    store.write(make_block(99))  # during the pause
    message = "No space left on device"
    assert [c[1:] for c in store.changes][-2:] == [("full", message), ("full", message)]


def prompt_of(setting: Setting, count: int = 600) -> Any:
    prompt = setting.tokens(count)
    computed(setting, prompt)
    return prompt


def evict_all(setting: Setting) -> None:
    setting.cache.free(setting.cache.tree.flush())


def not_loaded(setting: Setting) -> list[PrefixNotLoaded]:
    return [event for event in setting.events if isinstance(event, PrefixNotLoaded)]


def test_loads_that_do_not_happen_have_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(2, ("disk",))
    costs: Any = setting.tiers.costs
    costs.compute_seconds = lambda begin, end: (end - begin) * 0.01
    prompt = prompt_of(setting)
    copy_idle(setting)
    evict_all(setting)
    assert setting.tiers.prefetch(prompt) > 0
    setting.tiers.cancel()
    [event] = not_loaded(setting)
    assert (event.reason, event.store, event.tokens) == ("cancelled", "disk", 576)
    assert event.compute_seconds == pytest.approx(5.76)

    costs.load_seconds = lambda store, size: 6.0
    assert setting.tiers.prefetch(prompt) == 0
    event = not_loaded(setting)[-1]
    assert event.reason == "compute" and event.seconds > event.compute_seconds > 0
    work_all(setting)


def test_copies_that_cannot_wait_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(3, ("host",))
    prompt_of(setting)
    setting.stores[0].refuses = lambda key: True
    monkeypatch.setattr(copy_writer, "MAX_PENDING_BYTES", 3 * BLOCK * setting.kv.unit_bytes)
    monkeypatch.setattr(transfers, "PART_BYTES", BLOCK * setting.kv.unit_bytes)
    setting.tiers.copies.keep(setting.cache.tree.evict(600))
    [event] = [e for e in setting.events if isinstance(e, CopiesChanged)]
    assert event.state == "busy" and len(event.blocks) == 9 - 3


def test_values_that_are_not_finite_are_reported() -> None:
    setting = Setting(4, ("host",))
    own: Any = setting.tiers._transfer
    own._is_finite = lambda units: torch.zeros(len(units)).bool()
    prompt_of(setting)
    setting.tiers.copies.keep(setting.cache.tree.evict(600))
    work_all(setting)
    [event] = [e for e in setting.events if isinstance(e, CopiesChanged)]
    assert event.state == "not finite" and len(event.blocks) == 9


@pytest.mark.parametrize("with_image", [False, True], ids=["text", "image"])
def test_files_of_other_weights_are_found(tmp_path: Path, with_image: bool) -> None:
    ids, other = tokens(6 * BLOCK), "cd" * 16
    spans = [ItemSpan(20, FakeItem(3, 90, joint=False))] if with_image else []
    here = read_prompt(root_key("ab" * 16), ids, spans)
    there = read_prompt(root_key(other), ids, spans)
    store = DiskBlocks(tmp_path / "kv", other, 3, 1 << 20)
    for i in range(4):
        data, rows = np.zeros((BLOCK, 3), np.uint8), slice(i * BLOCK, (i + 1) * BLOCK)
        store.write(Block(there.keys[i + 1], there.keys[i], there.tokens[rows], 1.0, data))
    (tmp_path / "kv" / FORMAT / "unrelated").mkdir()
    os.mkdir(os.fsencode(tmp_path / "kv" / FORMAT) + b"/\xff")  # no text
    disk = tmp_path / "kv", 1
    assert find_other_weights(disk, here) == (other, 4 * BLOCK)
    shifted = read_prompt(root_key("ab" * 16), ids[5:], [])
    assert find_other_weights(disk, shifted) == ("", 0)
    assert find_other_weights((tmp_path / "absent", 1), here) == ("", 0)
    assert find_other_weights(None, here) == ("", 0)
