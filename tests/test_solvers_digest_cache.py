"""A cache gives back what was put in, or nothing: no damage, no other process and no full disk makes it wrong."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ml_bench_cli.main import app
from ml_bench_solvers.digest_cache import INDICES, DigestCache


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


def test_what_is_old_can_be_removed_alone_and_what_is_left_is_counted(cache: DigestCache) -> None:
    assert cache.size() == cache.clear() == (0, 0)
    cache.put(b"old", "old")
    (old,) = cache.folder.iterdir()
    os.utime(old, (0, 0))
    cache.put(b"newer", "new")
    assert cache.size() == (2, 2 * 32 + 8)
    assert cache.clear(older_than_days=1) == (1, 32 + 3)
    assert (cache.get("old"), cache.get("new")) == (None, b"newer")
    assert cache.clear() == (1, 32 + 5)
    assert cache.size() == (0, 0)


def test_the_command_shows_and_clears_them_beside_the_executions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("ML_BENCH_CACHE", str(tmp_path / "executions"))
    DigestCache(INDICES).put(b"x" * 1000, "some index")
    shown = CliRunner().invoke(app, ["cache", "info"])
    assert "1 retrieval indices, 1 kB" in shown.output and "0 repository texts" in shown.output, shown.output
    cleared = CliRunner().invoke(app, ["cache", "clear"])
    assert "removed 1 retrieval indices" in cleared.output, cleared.output
    assert DigestCache(INDICES).size() == (0, 0)
