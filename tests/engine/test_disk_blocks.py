"""Block store in files: damaged and foreign files, kills, full disks, several processes."""

from __future__ import annotations

import errno
import itertools
import os
import random
import shutil
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from sgnb.engine.cache.tiers import disk, folder, janitor
from sgnb.engine.cache.tiers.blocks import BLOCK, BlockStore
from sgnb.engine.cache.tiers.disk import HEADER_BYTES, DiskBlocks
from sgnb.engine.cache.tiers.folder import forget, stored_models
from sgnb.errors import OptionError, SgnbWarning

from .numbered_blocks import make_block, read

UNIT = 4
SIZE = HEADER_BYTES + BLOCK * UNIT
MODEL, OTHER = "ab" * 32, "cd" * 32


def open_store(root: Path, blocks: int = 1000, model: str = MODEL) -> DiskBlocks:
    return DiskBlocks(root / "kv", model, UNIT, blocks * SIZE)


def make(number: int, seconds: float = 1.0) -> Any:
    return make_block(number, UNIT, seconds)


def files_of(root: Path) -> list[Path]:
    return sorted((root / "kv" / "v1").rglob("*.safetensors"))


def path_of(store: DiskBlocks, number: int) -> Path:
    return Path(store._path(make(number).key))


def age(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


def test_a_block_survives_the_store(tmp_path: Path) -> None:
    store: BlockStore = open_store(tmp_path)
    block = make(1, 0.25)
    assert not store.holds(block.key) and not read(store, block) and store.seconds(block.key) == 0
    assert store.write(block) and store.write(block)
    store.close()

    other = open_store(tmp_path)
    assert other.holds(block.key) and read(other, block) and other.seconds(block.key) == 0.25
    assert other.write(make(2)._replace(data=np.asfortranarray(make(2).data)))
    assert read(other, make(2))

    os.unlink(path_of(store, 1))  # by another process
    assert not other.holds(block.key) and not read(other, block) and other.write(block)
    other.flush()
    assert not files_of(tmp_path) and not other.holds(block.key) and other.write(block)


def test_the_files_are_safetensors(tmp_path: Path) -> None:
    store, block = open_store(tmp_path), make(1, 0.25)
    store.write(block)
    (path,) = files_of(tmp_path)
    assert path.relative_to(tmp_path / "kv").parts[:2] == ("v1", MODEL)
    assert path.parent.name == path.name[:2] and path.stem == block.key.hex()
    assert (load_file(path)["data"] == block.data).all()
    with safe_open(path, "numpy") as file:
        metadata = file.metadata()
    assert metadata["tokens"].split() == [str(token) for token in block.tokens]
    assert (metadata["parent"], metadata["seconds"]) == (block.parent.hex(), "0.250000")


def test_the_header_holds_the_largest_ids(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    tokens = np.full(BLOCK, -(2**31), np.int32)
    block = make(1)._replace(tokens=tokens, parent=bytes(64), seconds=1e12)
    assert store.write(block) and read(store, block)
    assert store.seconds(block.key) == folder.MAX_SECONDS


def test_states_of_a_block_are_a_file_of_their_own(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    states, block = store.for_states(7), make(1)
    state = make_block(1, 7)
    assert store.write(block) and not states.holds(block.key)
    assert states.write(state) and read(states, state) and read(store, block)
    assert {path.suffix for path in (tmp_path / "kv" / "v1").rglob("*.s*")} == {
        ".safetensors",
        ".state",
    }
    [model] = folder.stored_models(tmp_path / "kv")
    assert model.blocks == 1 and model.bytes == 2 * HEADER_BYTES + BLOCK * (UNIT + 7)

    store.flush()
    assert not read(states, state)


def test_all_files_share_the_bound(tmp_path: Path) -> None:
    """Blocks, larger states and small records."""
    store = open_store(tmp_path, blocks=60)
    states, rng = store.for_states(500), random.Random(0)
    for number in range(300):
        store.write(make(number))
        if rng.random() < 0.3:
            states.write(make_block(number, 500, 99.0))
        store.records.write(bytes([number % 256]) * 32, 1.0, rng.randbytes(rng.randrange(900)))
        if number % 4 == 0:
            size = sum(path.stat().st_size for path in (tmp_path / "kv" / "v1").rglob("*.*"))
            assert size <= 60 * SIZE
    kinds = {path.suffix for path in (tmp_path / "kv" / "v1").rglob("*.*")}
    assert kinds == {".safetensors", ".state", ".item"} and size > 40 * SIZE


def test_only_the_user_may_read(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = open_store(tmp_path)
        store.write(make(1))
    finally:
        os.umask(before)
    for path in (tmp_path / "kv", *(tmp_path / "kv").rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    assert (tmp_path / "kv" / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f597d28d1")


def link(root: Path) -> None:
    (root / "target").mkdir()
    (root / "kv").symlink_to(root / "target")


def share(root: Path) -> None:
    (root / "kv").mkdir()
    (root / "kv").chmod(0o770)


def fill(root: Path) -> None:
    (root / "kv" / "v1").mkdir(parents=True)
    (root / "kv" / "v1" / "thesis.txt").write_text("years of work")


UNSAFE: dict[str, tuple[Callable[[Path], object], str]] = {
    "link": (link, "is a symbolic link"),
    "shared": (share, "other users may write"),
    "file": (lambda root: (root / "kv").write_text(""), "is not a folder"),
    "foreign": (fill, "has other files"),
}


@pytest.mark.parametrize("case", UNSAFE)
def test_unsafe_folders_are_refused(tmp_path: Path, case: str) -> None:
    prepare, message = UNSAFE[case]
    prepare(tmp_path)
    with pytest.raises(OptionError, match=message) as info:
        open_store(tmp_path)
    assert str(tmp_path / "kv") in info.value.message and info.value.hint
    assert forget(tmp_path / "kv") == 0 and stored_models(tmp_path / "kv") == []
    if case == "foreign":
        assert (tmp_path / "kv" / "v1" / "thesis.txt").exists()


def test_the_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "kv").mkdir(0o700)
    user = os.geteuid()
    monkeypatch.setattr(folder.os, "geteuid", lambda: user + 1)
    with pytest.raises(OptionError, match=f"user {user} owns it"):
        open_store(tmp_path)


def test_a_folder_that_cannot_be_created(monkeypatch: Any) -> None:
    monkeypatch.setenv("SGNB_CACHE", os.devnull)
    with pytest.raises(OptionError, match="/dev/null/kv"):
        DiskBlocks(None, MODEL, UNIT, 1 << 20)


class Damage:
    """Ways to damage the file of block 1. Block 2, a file of another model, and states of the same
    block lie next to it."""

    def __init__(self, root: Path, rng: random.Random, states: bool) -> None:
        self.root, self.rng = root, rng
        shutil.rmtree(root / "kv", ignore_errors=True)
        stores = [open_store(root), open_store(root, model=OTHER)]
        self.store, other = (store.for_states(UNIT) for store in stores) if states else stores
        for number in (1, 2):
            self.store.write(make(number))
        other.write(make(1))
        self.path, self.other = path_of(self.store, 1), path_of(other, 1)
        self.content = self.path.read_bytes()

    def cut(self) -> None:
        self.path.write_bytes(self.content[: self.rng.randrange(SIZE)])

    def extend(self) -> None:
        self.path.write_bytes(self.content + b"\0" * self.rng.randint(1, 9000))

    def zero(self) -> None:
        """A page that the disk never got: zeros."""
        begin = self.rng.randrange(SIZE)
        end = self.rng.randint(begin + 1, SIZE)
        self.overwrite(begin, bytes(end - begin))

    def flip(self) -> None:
        at = self.rng.choice([self.rng.randrange(SIZE), self.rng.randrange(1200)])
        self.overwrite(at, bytes([self.content[at] ^ 1 << self.rng.randrange(8)]))

    def noise(self) -> None:
        self.path.write_bytes(self.rng.randbytes(SIZE))

    def swap(self) -> None:
        os.replace(path_of(self.store, 2), self.path)

    def other_model(self) -> None:
        os.replace(self.other, self.path)

    def other_version(self) -> None:
        self.overwrite(0, self.content.replace(b"sgnb-kv-v1", b"sgnb-kv-v2"))

    def other_shape(self) -> None:
        self.overwrite(0, self.content.replace(b"[64,4]", b"[32,8]"))

    def link(self) -> None:
        target = self.root / "kv" / "link"
        os.replace(self.path, target)
        self.path.symlink_to(target)

    def huge_header(self) -> None:
        length = self.rng.choice([2**63, 2**64 - 1, 10**9, 4089, 0, 1])
        self.overwrite(0, length.to_bytes(8, "little"))

    def nested_header(self) -> None:
        self.overwrite(8, b"[" * 4088)

    def pipe(self) -> None:
        self.path.unlink()
        os.mkfifo(self.path)

    def empty(self) -> None:
        self.path.write_bytes(b"")

    def overwrite(self, at: int, data: bytes) -> None:
        self.path.write_bytes((self.content[:at] + data + self.content[at + len(data) :])[:SIZE])


WAYS = [name for name, way in vars(Damage).items() if callable(way) and name[0] != "_"]
WAYS.remove("overwrite")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [4, pytest.param(45, marks=pytest.mark.slow)])
@pytest.mark.parametrize("states", [False, True], ids=["blocks", "states"])
def test_a_damaged_file_is_a_miss(tmp_path: Path, way: str, states: bool, count: int) -> None:
    misses = 0
    for seed in range(count):
        damage = Damage(tmp_path, random.Random(seed), states)
        getattr(damage, way)()
        changed = damage.path.is_fifo() or damage.path.read_bytes() != damage.content
        changed |= damage.path.is_symlink()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            hit = read(damage.store, make(1))
        flipped_seconds = way in ("flip", "zero") and hit
        assert flipped_seconds or hit != changed, "the damage is missed"
        misses += not hit
        if not hit:
            assert not os.path.lexists(damage.path), "the file is deleted"
            assert [each.category for each in caught] == [SgnbWarning]
            assert "damaged" in str(caught[0].message)
            assert damage.store.write(make(1)) and read(damage.store, make(1))
        assert way == "swap" or read(damage.store, make(2))
    assert misses >= 0.7 * count


def test_flipped_bits_are_found(tmp_path: Path) -> None:
    """A flipped bit of data or header is found, except in the digits of the seconds."""
    store = open_store(tmp_path)
    store.write(make(1))
    path = path_of(store, 1)
    content = path.read_bytes()
    unnoticed = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for bit in itertools.chain(range(0, 8 * 1300, 5), range(8 * HEADER_BYTES, 8 * SIZE, 5)):
            changed = bytearray(content)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            if read(store, make(1)):
                unnoticed.add(bit // 8)
    begin = content.index(b'"seconds":"') + len(b'"seconds":"')
    assert unnoticed <= set(range(begin, begin + len("1.000000")))


def test_damage_is_reported_once(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with pytest.warns(SgnbWarning) as caught:
        for number in range(5):
            store.write(make(number))
            path_of(store, number).write_bytes(b"")
            assert not read(store, make(number))
    assert len(caught) == 1


def test_a_failing_disk_is_a_miss_and_keeps_the_file(tmp_path: Path, monkeypatch: Any) -> None:
    store = open_store(tmp_path)
    store.write(make(1))

    def fail(path: str, flags: int) -> int:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch, pytest.warns(SgnbWarning, match="Input/output") as caught:
        patch.setattr(disk, "open_safely", fail)
        assert not read(store, make(1)) and not read(store, make(1))
        assert store.seconds(make(1).key) == 0
    assert len(caught) == 1 and read(store, make(1))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for 20 blocks."""
    root = tmp_path / "disk"
    root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={20 * 8192}", "tmpfs", str(root)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system")
    yield root
    subprocess.run(["umount", str(root)], check=True)


def test_a_full_file_system(small_disk: Path, monkeypatch: Any) -> None:
    now = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(janitor, "RESERVE_BYTES", 0)
    store = open_store(small_disk)
    with pytest.warns(SgnbWarning, match="No space left on device.*again after 60 s") as caught:
        written = [number for number in range(40) if store.write(make(number))]
        now[0] += 61
        assert not store.write(make(40))
    assert len(caught) == 1 and 5 < len(written) < 20
    assert len(files_of(small_disk)) == len(written) and not list(small_disk.rglob("*.tmp"))
    assert all(read(store, make(number)) for number in written)

    for number in written:
        path_of(store, number).unlink()
    assert not store.write(make(50))
    now[0] += 61
    assert store.write(make(50))


def test_a_full_device(tmp_path: Path, monkeypatch: Any) -> None:
    now = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    store = open_store(tmp_path)
    assert store.write(make(100))
    create, calls = folder.tempfile.mkstemp, []

    def create_full(*args: Any, **options: Any) -> tuple[int, str]:
        calls.append(1)
        handle, path = create(*args, **options)
        os.close(handle)
        return os.open("/dev/full", os.O_WRONLY), path

    with monkeypatch.context() as patch:
        patch.setattr(folder.tempfile, "mkstemp", create_full)
        with pytest.warns(SgnbWarning, match="No space left"):
            assert not any(store.write(make(number)) for number in range(9))
        assert len(calls) == 1, "no write during the pause"
        assert read(store, make(100)), "reads go on"
        now[0] += 61
        assert not store.write(make(0)) and len(calls) == 2
    assert not store.write(make(0))
    now[0] += 61
    assert store.write(make(0))
    assert not list(tmp_path.rglob("*.tmp"))
