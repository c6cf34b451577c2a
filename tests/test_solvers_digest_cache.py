"""A cache gives back what was put in, or nothing: no damage, no other process and no full disk makes it wrong."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ml_bench_solvers.digest_cache import DigestCache


@pytest.fixture
def cache(tmp_path: Path) -> DigestCache:
    return DigestCache("things", tmp_path)


def test_what_was_stored_is_found_under_the_same_values_only(cache: DigestCache) -> None:
    cache.put(b"data", 1, "commit", None)
    assert cache.get(1, "commit", None) == b"data"
    assert cache.get(1, "commit") is None
    assert cache.get("1", "commit", None) is None


@pytest.mark.parametrize("place", [0, 31, 32, 40, -1])
def test_a_damaged_entry_is_not_there_and_can_be_written_again(cache: DigestCache, place: int) -> None:
    cache.put(b"some data that matters", "key")
    (file,) = cache.folder.iterdir()
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)
    assert cache.get("key") is None
    cache.put(b"some data that matters", "key")
    assert cache.get("key") == b"some data that matters"


@pytest.mark.parametrize("length", [0, 10, 32, 40])
def test_an_entry_that_was_cut_short_is_not_there(cache: DigestCache, length: int) -> None:
    cache.put(b"some data that matters", "key")
    (file,) = cache.folder.iterdir()
    file.write_bytes(file.read_bytes()[:length])
    assert cache.get("key") is None


def test_where_nothing_can_be_written_nothing_is_stored_and_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = DigestCache("things", tmp_path / "file")
    cache.put(b"data", "key")
    assert cache.get("key") is None


def test_many_writers_and_readers_at_a_time_never_see_half_an_entry(cache: DigestCache) -> None:
    contents = [bytes([number]) * 200_000 for number in range(8)]
    seen: set[bytes | None] = set()

    def use(content: bytes) -> None:
        for _ in range(20):
            cache.put(content, "key")
            seen.add(cache.get("key"))

    threads = [threading.Thread(target=use, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen <= set(contents)
    assert [path.name for path in cache.folder.iterdir() if path.name.endswith(".new")] == []
