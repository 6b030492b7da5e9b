"""Bound of a disk cache: evictions, several processes on one folder, killed writers."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sgnb.engine.cache.tiers import janitor
from sgnb.engine.cache.tiers.disk import DiskBlocks
from sgnb.engine.cache.tiers.folder import forget, stored_models
from sgnb.errors import OptionError

from .numbered_blocks import read
from .test_disk_blocks import MODEL, OTHER, SIZE, UNIT, age, files_of, make, open_store, path_of

ROOT = Path(__file__).parent.parent.parent


def held(store: DiskBlocks, numbers: range) -> list[int]:
    return [number for number in numbers if store.holds(make(number).key)]


def total(root: Path) -> int:
    """Return the bytes of all files of all formats; files may vanish meanwhile."""
    size = 0
    for path, _, names in os.walk(root / "kv"):
        for name in names if Path(path) != root / "kv" else ():
            with suppress(FileNotFoundError):
                size += os.lstat(f"{path}/{name}").st_size
    return size


@settings(max_examples=30)
@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 50)), max_size=25),
)
def test_the_least_saved_time_per_age_is_evicted(
    tmp_path_factory: Any, size: int, writes: list[tuple[int, int, int]]
) -> None:
    """Compared with a dictionary. Each file gets an age of some hours after the write."""
    root = tmp_path_factory.mktemp("janitor")
    store = open_store(root, blocks=size)
    oracle: dict[int, tuple[int, int]] = {}

    def value(number: int) -> float:
        seconds, hours = oracle[number]
        return seconds / (hours + 1)

    for step, (number, cost, hours) in enumerate(writes):
        seconds, hours = cost * 29 + step + 1, hours * 29 + step
        assume(len({round(value(each), 3) for each in oracle}) == len(oracle))  # no ties
        if number not in oracle and len(oracle) == size:
            del oracle[
                min(oracle, key=lambda n: (oracle[n][0] / (oracle[n][1] + 1), -oracle[n][1]))
            ]
        assert store.write(make(number, seconds))
        oracle[number] = oracle.get(number, (seconds, 0))[0], hours
        age(path_of(store, number), 3600.0 * hours)
        assert held(store, range(10)) == sorted(oracle)


def test_other_formats_and_unused_models_are_evicted_first(tmp_path: Path) -> None:
    other = open_store(tmp_path, model=OTHER)
    for number in range(4):
        other.write(make(number, 1000.0))
    for number, days in enumerate((2, 3, 0, 0)):
        age(path_of(other, number), 86_400.0 * days)
    future = tmp_path / "kv" / "v2" / "anything"
    future.parent.mkdir()
    future.write_bytes(bytes(SIZE))

    store = open_store(tmp_path, blocks=6)
    store.write(make(10, 1.0))
    age(path_of(store, 10), 86_400.0 * 9)
    order = []
    for number in range(11, 15):
        assert store.write(make(number, 1e6))
        order.append((future.exists(), held(other, range(4)), store.holds(make(10).key)))
    assert order == [
        (False, [0, 1, 2, 3], True),
        (False, [0, 2, 3], True),
        (False, [2, 3], True),
        (False, [2, 3], False),
    ]


def test_a_read_and_a_write_set_the_time_at_most_hourly(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.write(make(1))
    path = path_of(store, 1)
    for use in (lambda: read(store, make(1)), lambda: store.write(make(1))):
        for seconds, fresh in ((3000, False), (4000, True)):
            age(path, seconds)
            assert use()
            assert (time.time() - path.stat().st_mtime < 100) == fresh


def test_a_used_file_is_no_victim_any_more(tmp_path: Path) -> None:
    store = open_store(tmp_path, blocks=4)
    store._janitor._share = 2 * SIZE
    for number in range(4):
        store.write(make(number))
        age(path_of(store, number), 7200 - number)
    store.write(make(4))
    assert held(store, range(5)) == [1, 2, 3, 4] and store._janitor._victims
    read(store, make(1))
    store.write(make(5))
    assert held(store, range(6)) == [1, 3, 4, 5]


def test_a_lower_limit_deletes_some_files_per_write(tmp_path: Path) -> None:
    big = open_store(tmp_path)
    for number in range(60):
        big.write(make(number))
    store = open_store(tmp_path, blocks=10)
    left = []
    while not store.write(make(100)):
        left.append(len(files_of(tmp_path)))
    assert left == [44, 28, 12] and len(files_of(tmp_path)) == 10
    assert not open_store(tmp_path, blocks=0).write(make(101))
    assert len(files_of(tmp_path)) == 10, "a limit below one block deletes nothing"


def test_stale_temporary_files_are_removed(tmp_path: Path) -> None:
    store = open_store(tmp_path, blocks=3)
    store.write(make(0))
    drafts = [path_of(store, 0).with_name(f"{name}.tmp") for name in ("stale", "fresh")]
    for draft in drafts:
        draft.write_bytes(bytes(SIZE))
    age(drafts[0], janitor.STALE_SECONDS + 5)
    for number in range(1, 6):
        store.write(make(number))
        assert total(tmp_path) <= 3 * SIZE
    assert [draft.exists() for draft in drafts] == [False, True]


def test_a_deleted_folder_stays_deleted(tmp_path: Path) -> None:
    """A folder without the tag would be refused at the next load."""
    store = open_store(tmp_path, blocks=3)
    assert store.write(make(0))
    shutil.rmtree(tmp_path / "kv")
    assert not any(store.write(make(number)) for number in range(1, 9))
    assert not (tmp_path / "kv").exists()
    assert open_store(tmp_path, blocks=3).write(make(1))


def test_writes_do_not_wait_for_a_janitor(tmp_path: Path, monkeypatch: Any) -> None:
    """Another process scans: blocks within the share are written, others are refused at once."""

    def sleep(seconds: float) -> None:
        raise AssertionError("a write waits")

    store = open_store(tmp_path, blocks=200)
    assert store.write(make(0))
    monkeypatch.setattr(time, "sleep", sleep)
    with FileLock(tmp_path / "kv" / "janitor.lock"):
        written = [number for number in range(1, 20) if store.write(make(number))]
        assert written == [1, 2, 3, 4]
        assert read(store, make(3))
    assert store.write(make(19))


def test_stored_models(tmp_path: Path) -> None:
    for model, count in ((MODEL, 3), (OTHER, 2)):
        store = open_store(tmp_path, model=model)
        for number in range(count):
            store.write(make(number))
            age(path_of(store, number), 5000 if model == MODEL else 100)
    foreign = os.fsencode(tmp_path / "kv" / "v1") + b"/\xff"  # no text
    os.mkdir(foreign)
    Path(os.fsdecode(foreign + b"/a.safetensors")).touch()
    rows = stored_models(tmp_path / "kv")
    assert [row[:3] for row in rows] == [(OTHER, 2, 2 * SIZE), (MODEL, 3, 3 * SIZE)]
    assert abs(rows[0].last_use - time.time() + 100) < 60

    for wrong in ("ef" * 32, "..", f"../v1/{MODEL}", ""):
        with pytest.raises(OptionError, match="is not a model in") as info:
            forget(tmp_path / "kv", wrong)
        assert MODEL in info.value.hint
    assert forget(tmp_path / "kv", OTHER) == 2 * SIZE
    assert [row.fingerprint for row in stored_models(tmp_path / "kv")] == [MODEL]
    (tmp_path / "kv" / "v0").mkdir()
    (tmp_path / "kv" / "v0" / "file").write_bytes(bytes(10))
    assert forget(tmp_path / "kv") == 3 * SIZE + 10 and stored_models(tmp_path / "kv") == []
    assert store.write(make(1)), "a store goes on after `forget`"


def test_the_default_folder(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))
    assert stored_models() == [] and forget() == 0
    store = DiskBlocks(None, MODEL, UNIT, 10 * SIZE)
    store.write(make(1))
    assert files_of(tmp_path) and stored_models()[0].blocks == 1
    assert forget(fingerprint=MODEL) == SIZE


WRITER = """
import random, sys, time
from pathlib import Path
from tests.engine.test_disk_blocks import make, open_store
from tests.engine.numbered_blocks import read

root, blocks, seed, writes = Path(sys.argv[1]), *map(int, sys.argv[2:])
store, rng = open_store(root, blocks), random.Random(seed)

def never(seconds):
    raise AssertionError("waits")

time.sleep = never
print("ready", flush=True)
written = hits = 0
while written < writes:
    number = rng.randrange(10 * blocks)
    hits += read(store, make(number))
    written += store.write(make(number, rng.random()))
print(hits)
"""


def start_writer(root: Path, blocks: int, seed: int, writes: int) -> subprocess.Popen[str]:
    arguments = map(str, (root, blocks, seed, writes))
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_two_processes_keep_the_bound(tmp_path: Path) -> None:
    """Sum of the files, counted while both write: below the bound and 5 %. No process waits."""
    blocks = 20
    processes = [start_writer(tmp_path, blocks, seed, 10 * blocks) for seed in (0, 1)]
    largest = 0
    while any(process.poll() is None for process in processes):
        for process in processes:  # an exact count needs stopped writers
            process.send_signal(signal.SIGSTOP)
        largest = max(largest, total(tmp_path))
        for process in processes:
            process.send_signal(signal.SIGCONT)
        time.sleep(0.005)
    largest = max(largest, total(tmp_path))
    assert 0.9 * blocks * SIZE <= largest <= 1.05 * blocks * SIZE

    store = open_store(tmp_path, blocks)
    for process in processes:
        assert process.stdout is not None and process.returncode == 0
        assert int(process.stdout.read()) > 0, "both read"
    assert all(read(store, make(number)) for number in held(store, range(10 * blocks)))


@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked children")
def test_killed_writers_leave_no_damage(tmp_path: Path, kills: int) -> None:
    """A process is killed at a random moment; each file reads right or is absent."""
    rng, blocks, left = random.Random(0), 30, 0
    for _ in range(kills):
        child = os.fork()
        if child == 0:  # no return to pytest
            store = open_store(tmp_path, blocks)
            while True:
                number = rng.randrange(100)
                store.write(make(number, 1.0))
                path_of(store, rng.randrange(100)).unlink(missing_ok=True)
        time.sleep(rng.uniform(0.002, 0.03))
        rng.random()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

        store = open_store(tmp_path, blocks)
        for number in range(100):
            if store.holds(make(number).key):
                assert read(store, make(number)), "no error, and no damaged file"
        left += len(list(tmp_path.rglob("*.tmp")))
        assert total(tmp_path) <= 1.05 * blocks * SIZE
        for draft in tmp_path.rglob("*.tmp"):
            age(draft, janitor.STALE_SECONDS + 1)
    assert store.write(make(200)), "no lock survives a killed process"
    assert left or kills < 100, "the kills never hit a write"
