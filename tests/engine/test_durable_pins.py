"""Durable pins: kept by the janitor, listed and loaded by new processes, bounded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgnb.engine.cache.tiers import durable_pins
from sgnb.engine.cache.tiers.durable_pins import (
    DurablePin,
    DurablePins,
    pinned_names,
    pinned_tokens,
)
from sgnb.engine.cache.tiers.folder import forget
from sgnb.errors import OptionError

from .test_disk_blocks import MODEL, OTHER, SIZE, make, open_store, path_of
from .test_disk_cache import DOCUMENT, answer, engine
from .test_disk_janitor import held
from .test_stored_payloads import continued, hybrid, tokens_of

ROOT = Path(__file__).parent.parent.parent


def pin_of(numbers: range, owner: str = "user") -> DurablePin:
    names = tuple(make(number).key.hex() for number in numbers)
    return DurablePin(owner, tuple(range(64 * len(numbers))), names, SIZE)


def folder_of(root: Path) -> Path:
    return root / "kv"


@settings(max_examples=25)
@given(
    st.integers(6, 12),
    st.lists(st.integers(0, 5), max_size=3, unique=True),
    st.lists(st.integers(0, 30), min_size=1, max_size=40),
)
def test_pinned_blocks_survive_all_writes_and_the_bound_holds(
    tmp_path_factory: Any, size: int, pinned: list[int], writes: list[int]
) -> None:
    root = tmp_path_factory.mktemp("pins")
    store = open_store(root, blocks=size)
    pinned = pinned[: size // 2]
    for number in pinned:
        assert store.write(make(number, 0.001))  # of the least value
        store.pins.add(pin_of(range(number, number + 1)))
    for number in writes:
        store.write(make(number, 5.0))
    assert all(store.holds(make(number).key) for number in pinned)
    assert len(held(store, range(31))) <= size
    assert {pin.names[0] for pin in store.pins.all()} == {make(n).key.hex() for n in pinned}
    # Without marks, the same writes evict the blocks of least value.
    assert len(store.pins.remove(lambda pin: True)) == len(pinned)
    for number in range(100, 100 + size):
        store.write(make(number, 5.0))
    if len(pinned) < size:
        assert not any(store.holds(make(number).key) for number in pinned)


def test_a_pin_protects_blocks_that_a_scan_had_chosen(tmp_path: Path) -> None:
    store = open_store(tmp_path, blocks=8)
    for number in range(8):
        store.write(make(number, 1.0 + number))
    store.write(make(20, 50.0))  # scans, and evicts block 0
    chosen = [Path(file.path) for file in store._janitor._victims]
    number = next(n for n in range(8) if path_of(store, n) in chosen or store.holds(make(n).key))
    os.utime(path_of(store, number), (1e9, 1e9))
    store._janitor._scan()
    store.pins.add(pin_of(range(number, number + 1)))
    for other in range(30, 50):
        store.write(make(other, 60.0))
    assert store.holds(make(number).key)


def test_pins_use_at_most_half_of_the_disk_cache(tmp_path: Path) -> None:
    store = open_store(tmp_path, blocks=8)
    store.pins.add(pin_of(range(3)))
    store.pins.add(pin_of(range(3), "again"))  # the same blocks need nothing
    with pytest.raises(OptionError) as caught:
        store.pins.add(pin_of(range(10, 12)))
    need, room, used = 2 * SIZE / 2**20, 4 * SIZE / 2**20, 3 * SIZE / 2**20
    assert f"needs {need:,.1f} MiB more" in caught.value.message
    assert f"may use {room:,.1f} MiB, half of the disk cache" in caught.value.message
    assert f"{used:,.1f} MiB are in use" in caught.value.message
    assert len(store.pins.all()) == 2
    store.pins.add(pin_of(range(10, 11)))


def test_pins_of_other_models_count_and_are_kept(tmp_path: Path) -> None:
    store, other = open_store(tmp_path, blocks=8), open_store(tmp_path, blocks=8, model=OTHER)
    other.write(make(0, 0.001))
    other.pins.add(pin_of(range(1)))
    os.utime(path_of(other, 0), (1e9, 1e9))  # unused for years
    for number in range(1, 40):
        store.write(make(number, 9.0))
    assert other.holds(make(0).key) and not store.pins.all()
    assert pinned_tokens(folder_of(tmp_path)) == {OTHER: 64}
    store.pins.add(pin_of(range(1, 4)))
    with pytest.raises(OptionError, match="half of the disk cache"):
        store.pins.add(pin_of(range(4, 5)))


def test_forget_deletes_the_marks(tmp_path: Path) -> None:
    for fingerprint in (MODEL, None):
        store = open_store(tmp_path, blocks=8)
        store.write(make(0))
        store.pins.add(pin_of(range(1)))
        assert pinned_names(folder_of(tmp_path))
        assert forget(folder_of(tmp_path), fingerprint) > SIZE
        assert not pinned_names(folder_of(tmp_path)) and not store.pins.all()


GOOD = {
    "format": "sgnb-pin-1",
    "owner": "x",
    "file_bytes": 9,
    "state_bytes": 0,
    "names": ["0" * 32],
    "tokens": [1] * 64,
}


@pytest.mark.parametrize(
    "change",
    [
        {"format": "sgnb-pin-2"},
        {"owner": 5},
        {"file_bytes": -1},
        {"file_bytes": True},
        {"names": []},
        {"names": ["../../etc/passwd"]},
        {"names": ["0" * 31 + "G"]},
        {"names": "0" * 32},
        {"tokens": [1.5]},
        {"tokens": {"a": 1}},
        {"tokens": [2**70] * 64},
        {"tokens": [2**31] * 64},
        {"tokens": [1] * 63},
        {"tokens": []},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_damaged_mark_protects_nothing(tmp_path: Path, change: dict[str, Any]) -> None:
    pins = DurablePins(tmp_path, MODEL, 1000 * SIZE)
    pins.add(pin_of(range(2)))
    folder = tmp_path / "pins" / MODEL
    (folder / "good.json").write_text(json.dumps(GOOD))
    assert len(pins.all()) == 2
    (folder / "good.json").write_text(json.dumps(GOOD | change))
    (folder / "text.json").write_text("[[[")
    (folder / "nested.json").write_text("[" * 200_000)
    os.mkfifo(folder / "pipe.json")
    (folder / "bytes.json").write_bytes(b"\xff\xfe")
    (folder / "folder.json").mkdir()
    os.symlink("/etc/passwd", folder / "link.json")
    assert [pin.names for pin in pins.all()] == [pin_of(range(2)).names]
    assert pinned_names(tmp_path) == set(pin_of(range(2)).names)


def test_a_mark_that_vanishes_hides_no_other_mark(tmp_path: Path, monkeypatch: Any) -> None:
    """Another process undoes a pin while the marks are listed."""
    pins = DurablePins(tmp_path, MODEL, 1000 * SIZE)
    pins.add(pin_of(range(2)))
    gone, iterate = tmp_path / "pins" / MODEL / "gone.json", Path.iterdir

    def list_all(folder: Path) -> Any:
        return iter([*iterate(folder), gone]) if folder.name == MODEL else iterate(folder)

    monkeypatch.setattr(Path, "iterdir", list_all)
    assert pinned_names(tmp_path) == set(pin_of(range(2)).names)


def test_a_mark_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: Any) -> None:
    pins = DurablePins(tmp_path, MODEL, 1000 * SIZE)
    pins.add(pin_of(range(2)))

    def fail(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OptionError, match=r"pin cannot be written .* No space left on device"):
        pins.add(pin_of(range(3)))
    assert len(list((tmp_path / "pins" / MODEL).iterdir())) == 1


def test_only_the_user_may_read_marks(tmp_path: Path) -> None:
    pins = DurablePins(tmp_path, MODEL, 1000 * SIZE)
    pins.add(pin_of(range(2)))
    for path in (tmp_path / "pins").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)


def wait_for(tiny: Any, tokens: int) -> None:
    for _ in range(1000):
        if tiny.pins() and tiny.pins()[0]["durable"] >= tokens:
            return
        time.sleep(0.02)
    raise AssertionError(tiny.pins())


def test_a_pin_survives_a_restart(tmp_path: Path) -> None:
    with engine(tmp_path / "kv") as tiny:
        exact = answer(tiny)
        pinned = tiny.pin(DOCUMENT, "me", durable=True)
        wait_for(tiny, pinned // 64 * 64)  # at once: without half a second of idle time
        (row,) = tiny.pins()
        assert row["owner"] == "me" and row["tokens"] == pinned

    with engine(tmp_path / "kv") as tiny:
        (row,) = tiny.pins()
        assert row == {"node": None, "owner": "me", "tokens": pinned // 64 * 64} | {
            "durable": pinned // 64 * 64
        }
        assert tiny.restore_pins() == pinned // 64 * 64
        (row,) = tiny.pins()
        assert row["node"] is not None and row["durable"] == pinned // 64 * 64
        assert tiny.stats()["loads"] == 1 and tiny.restore_pins() == 0
        assert answer(tiny) == exact and tiny.stats()["pinned"] == pinned // 64 * 64
        assert tiny.unpin() == 1 and not tiny.pins()
        assert tiny.stats()["pinned"] == 0

    with engine(tmp_path / "kv") as tiny:
        assert not tiny.pins() and tiny.restore_pins() == 0


@pytest.mark.parametrize(
    "way", ["owner", *(pytest.param(way, marks=pytest.mark.slow) for way in ("node", "other"))]
)
def test_unpin_deletes_the_marks_of_its_pins(tmp_path: Path, way: str) -> None:
    with engine(tmp_path / "kv") as tiny:
        answer(tiny)
        tiny.pin(DOCUMENT, "me", durable=True)
        tiny.pin(DOCUMENT, "you", durable=True)
        node = tiny.pins()[0]["node"]
        count = {
            "owner": lambda: tiny.unpin(owner="me"),
            "node": lambda: tiny.unpin(node),
            "other": lambda: tiny.unpin(owner="nobody"),
        }[way]()
        assert count == {"owner": 1, "node": 2, "other": 0}[way]
        assert len(tiny.pins()) == 2 - count
        assert len(list((tmp_path / "kv" / "pins").rglob("*.json"))) == 2 - count


@pytest.mark.slow
def test_a_pin_that_yields_in_memory_stays_on_the_disk(tmp_path: Path) -> None:
    with engine(tmp_path / "kv") as tiny:
        answer(tiny)
        pinned = tiny.pin(DOCUMENT, durable=True)
        wait_for(tiny, pinned // 64 * 64)
        tiny.generate(list(range(5, 4000)), max_tokens=8)  # needs the whole pool
        assert tiny.pins() == [
            {"node": None, "owner": "user", "tokens": pinned // 64 * 64}
            | {"durable": pinned // 64 * 64}
        ]


def test_durable_pins_need_a_disk_cache_and_a_cached_text(tmp_path: Path) -> None:
    with engine(tmp_path / "kv", disk_cache=False) as tiny:
        answer(tiny)
        with pytest.raises(OptionError, match="durable=True needs a disk cache"):
            tiny.pin(DOCUMENT, durable=True)
        assert not tiny.pins() and tiny.restore_pins() == 0
        assert tiny.pin(DOCUMENT) and tiny.pins()[0]["durable"] == 0

    with engine(tmp_path / "kv") as tiny:
        with pytest.raises(OptionError, match=r"cached text of 256 tokens, .* 0 tokens are cached"):
            tiny.pin(DOCUMENT, durable=True)
        answer(tiny)
        with pytest.raises(OptionError, match="durable="):
            tiny.pin(DOCUMENT, durable="yes")  # type: ignore[arg-type]
        assert not tiny.pins()


@pytest.mark.slow
def test_an_engine_reports_the_figures_of_the_bound(tmp_path: Path) -> None:
    with engine(tmp_path / "kv", disk_cache=0.01) as tiny:
        pass
    os.environ["SGNB_CACHE"], before = str(tmp_path), os.environ.get("SGNB_CACHE", "")
    try:
        with engine(tmp_path / "kv", disk_cache=0.002) as tiny:
            answer(tiny)
            with pytest.raises(OptionError, match=r"pins may use 1\.0 MiB, half of the disk"):
                tiny.pin(DOCUMENT, durable=True)
            assert not tiny.pins()
    finally:
        os.environ["SGNB_CACHE"] = before


CHILD = """
import sys, time
from tests.engine.test_disk_cache import DOCUMENT, answer, engine
from pathlib import Path
tiny = engine(Path(sys.argv[1]))
print(answer(tiny), flush=True)
pinned = tiny.pin(DOCUMENT, durable=True)
while tiny.pins()[0]["durable"] < pinned // 64 * 64:
    time.sleep(0.01)
print(pinned // 64 * 64, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_a_killed_process_keeps_its_pins(tmp_path: Path) -> None:
    folder = tmp_path / "kv"
    command = [sys.executable, "-c", CHILD, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        exact = json.loads(child.stdout.readline())
        stored = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
    with engine(folder) as tiny:
        assert tiny.pins()[0]["durable"] == stored and tiny.restore_pins() == stored
        assert answer(tiny) == exact and tiny.stats()["loaded_tokens"] == stored


def test_marks_above_the_limit_are_not_read(tmp_path: Path, monkeypatch: Any) -> None:
    pins = DurablePins(tmp_path, MODEL, 1000 * SIZE)
    pins.add(pin_of(range(2)))
    monkeypatch.setattr(durable_pins, "MAX_BYTES", 20)
    assert not pins.all()


@pytest.mark.slow
@pytest.mark.parametrize("family", ["qwen3_next", "lfm2"])
def test_a_pin_of_a_hybrid_keeps_the_states(family: str, tmp_path: Path) -> None:
    ids = tokens_of(1, 500)
    with hybrid(family, tmp_path, host_cache=0.1) as tiny:  # keeps states at block ends
        exact, _ = continued(tiny, ids)
        tiny.pin(ids, "me", durable=True)
        for _ in range(1000):
            if tiny.pins()[0]["durable"] == 448 and list(tmp_path.rglob("*.state")):
                break
            time.sleep(0.02)
        [pin] = durable_pins.DurablePins(tmp_path, fingerprint_in(tmp_path), 1 << 30).all()
        states = [path for path in tmp_path.rglob("*.state") if path.stem == pin.names[-1]]
        assert pin.state_bytes == states[0].stat().st_size
    with hybrid(family, tmp_path) as tiny:
        assert tiny.restore_pins() == 448
        assert continued(tiny, ids) == (exact, 448)


def fingerprint_in(folder: Path) -> str:
    [path] = (folder / "pins").iterdir()
    return path.name


@pytest.mark.slow
def test_a_pin_writes_blocks_again_that_were_evicted(tmp_path: Path) -> None:
    with engine(tmp_path / "kv") as tiny:
        answer(tiny)
        pinned = tiny.pin(DOCUMENT, durable=True)
        wait_for(tiny, pinned // 64 * 64)
        files = list((tmp_path / "kv").rglob("*.safetensors"))
        for path in files[:3]:
            path.unlink()
        tiny.unpin()
        tiny.pin(DOCUMENT, durable=True)
        wait_for(tiny, pinned // 64 * 64)
        assert sorted((tmp_path / "kv").rglob("*.safetensors")) == sorted(files)
