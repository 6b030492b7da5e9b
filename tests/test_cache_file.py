"""Files of the cache: damaged ones read as absent, writers replace them at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sgnb import cache_file
from sgnb.cache_file import CacheFile


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SGNB_CACHE", str(tmp_path))
    return tmp_path


def test_every_flipped_bit_and_every_truncation_reads_as_absent() -> None:
    file = CacheFile("things", 1, "key")
    assert file.read() is None
    file.write(b"content")
    stored = file.path.read_bytes()
    assert file.read() == b"content" == CacheFile("things", 1, "key").read()

    changed = [stored[:length] for length in range(len(stored))]
    for at in range(8 * len(stored)):
        flipped = bytearray(stored)
        flipped[at // 8] ^= 1 << at % 8
        changed.append(bytes(flipped))
    for data in (*changed, stored + b"\0", b"", stored * 2):
        file.path.write_bytes(data)
        assert file.read() is None
    file.write(b"content")
    assert file.read() == b"content"


def test_a_file_of_another_key_or_version_is_absent() -> None:
    file, other = CacheFile("things", 1, "key"), CacheFile("things", 2, "key")
    file.write(b"")
    assert file.path != other.path and file.read() == b""
    other.path.write_bytes(file.path.read_bytes())
    assert other.read() is None


def test_readers_beside_writers_see_whole_files() -> None:
    contents = [bytes([number]) * 50_000 for number in range(4)]
    file = CacheFile("things", "shared")
    file.write(contents[0])

    def write(content: bytes) -> None:
        for _ in range(25):
            file.write(content)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert file.read() in contents
    assert [one.name for one in file.path.parent.iterdir()] == [file.path.name]


def test_the_oldest_files_of_a_kind_are_evicted(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_file, "MAX_FILES", 2)
    for number in range(4):
        CacheFile("things", number).write(b"")
    CacheFile("others", 0).write(b"")
    assert len(list((cache / "things").iterdir())) == 2
    assert len(list((cache / "others").iterdir())) == 1


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGNB_CACHE", "~no-such-account/cache")
    file = CacheFile("things", "key")
    file.write(b"content")
    assert file.read() is None
