"""The store of real weights and data: nothing half or wrong is taken for whole, and nothing is downloaded twice."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections import namedtuple
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from ml_bench_metric.environments import download
from ml_bench_metric.environments.assets import AssetError, AssetStore, needed, unpacked
from ml_bench_metric.environments.recipe import Asset
from tests.asset_server import File, FileServer, Mishap, wait_until
from tests.recipe_builders import RecipeFolder

CONTENT = random.Random(0).randbytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OTHER = random.Random(1).randbytes(300_000)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """No proxy of this machine stands between; pauses are not waited, but listed."""
    pauses: list[float] = []
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr("ml_bench_metric.environments.download.time.sleep", pauses.append)
    return pauses


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer() as running:
        running.files["/weights.bin"] = File(CONTENT)
        yield running


@pytest.fixture
def store(tmp_path: Path) -> AssetStore:
    return AssetStore(tmp_path / "store")


def asset(server: FileServer | None = None, path: str = "/weights.bin", **changes: Any) -> Asset:
    url = {"url": server.url(path)} if server else {"how": "ask the authors"}
    return Asset.model_validate({"name": "weights", "to": "/opt/assets/weights", **url, **changes})


def fetched(store: AssetStore, *wanted: Asset) -> tuple[list[str], list[str]]:
    """Return the errors of a fetch, and its progress lines."""
    lines: list[str] = []
    failures = store.fetch([("bert", one) for one in wanted], lines.append)
    return [str(failure) for failure in failures], lines


def the_file_is_here(store: AssetStore, wanted: Asset, content: bytes = CONTENT) -> bool:
    path = store.path(wanted)
    return (
        path is not None
        and path.read_bytes() == content
        and store.sha256(wanted) == hashlib.sha256(content).hexdigest()
        and left_over(store) == []
    )


def left_over(store: AssetStore) -> list[str]:
    """Return the kinds of what a finished fetch should have removed."""
    return sorted(path.suffix for path in (store.folder / "partial").iterdir())


def part_of(store: AssetStore) -> bytes:
    (part,) = (store.folder / "partial").glob("*.part")
    return part.read_bytes()


def leave_a_part(server: FileServer, store: AssetStore, wanted: Asset, size: int = 200_000) -> None:
    """Make a download end early for good."""
    path = wanted.url[len(server.url("")) :] if wanted.url else ""
    server.mishaps[path] = [Mishap(sends=size), Mishap(status=404)]
    failures, _ = fetched(store, wanted)
    assert "404" in failures[0] and store.path(wanted) is None
    assert part_of(store) == server.files[path].content[:size]
    server.requests.clear()


# ---------------------------------------------------------------- a whole file


@pytest.mark.parametrize("sha256", [SHA256, None], ids=["hash of the recipe", "no hash"])
def test_a_file_is_fetched_once(server: FileServer, store: AssetStore, sha256: str | None) -> None:
    wanted = asset(server, sha256=sha256)
    assert store.sha256(wanted) is None and store.path(wanted) is None
    failures, lines = fetched(store, wanted)
    assert failures == [] and the_file_is_here(store, wanted)
    assert lines == ["bert/weights: downloading 300 kB …", f"bert/weights: done, sha256 {SHA256}"]
    assert fetched(store, wanted) == ([], []) and len(server.requests) == 1


def test_assets_with_the_same_content_share_one_file(server: FileServer, store: AssetStore) -> None:
    server.files["/mirror/weights.bin"] = File(CONTENT)
    fetched(store, asset(server, sha256=SHA256))
    assert the_file_is_here(store, asset(server, "/mirror/weights.bin", sha256=SHA256))
    assert store.path(asset(server, "/mirror/weights.bin")) is None, "without a hash only its own address tells"


def test_redirects_are_followed(server: FileServer, store: AssetStore) -> None:
    server.mishaps["/old.bin"] = [Mishap(status=302, headers={"Location": "/weights.bin"})]
    assert fetched(store, asset(server, "/old.bin"))[0] == []
    assert the_file_is_here(store, asset(server, "/old.bin"))


def test_the_file_itself_is_stored_and_not_what_is_in_it(server: FileServer, store: AssetStore) -> None:
    packed = gzip.compress(CONTENT)
    server.files["/corpus.txt.gz"] = File(packed, headers={"Content-Encoding": "gzip"})
    assert fetched(store, asset(server, "/corpus.txt.gz", unpack="gz"))[0] == []
    assert the_file_is_here(store, asset(server, "/corpus.txt.gz", unpack="gz"), packed)


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"ML_BENCH_ASSETS": "/data/assets", "XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/data/assets"),
        ({"ML_BENCH_ASSETS": "~/assets", "HOME": "/h"}, "/h/assets"),
        ({"ML_BENCH_ASSETS": "", "XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c/ml-bench/assets"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/ml-bench/assets"),
    ],
)
def test_the_store_is_in_the_cache_or_where_a_variable_says(
    variables: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ML_BENCH_ASSETS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert AssetStore().folder == Path(folder)


# ---------------------------------------------------------------- going on


def test_a_later_fetch_goes_on_where_the_first_one_ended(server: FileServer, store: AssetStore) -> None:
    leave_a_part(server, store, asset(server))
    failures, lines = fetched(store, asset(server))
    assert failures == [] and the_file_is_here(store, asset(server))
    ((_, headers),) = server.asked()
    assert (headers["range"], headers["if-range"]) == ("bytes=200000-", '"first"')
    assert lines[0] == "bert/weights: going on at 200 kB of 300 kB"


def test_a_broken_connection_is_taken_up_at_once(
    server: FileServer, store: AssetStore, no_waiting: list[float]
) -> None:
    server.mishaps["/weights.bin"] = [Mishap(sends=100_000), Mishap(sends=50_000)]
    failures, lines = fetched(store, asset(server))
    assert failures == [] and the_file_is_here(store, asset(server))
    assert [headers.get("range") for _, headers in server.asked()] == [None, "bytes=100000-", "bytes=150000-"]
    assert no_waiting == [1, 2] and lines[1].endswith("; trying again in 1 s")


def test_a_server_that_sends_less_than_it_was_asked_for_is_asked_for_the_rest(
    server: FileServer, store: AssetStore
) -> None:
    server.files["/weights.bin"].longest_range = 40_000
    leave_a_part(server, store, asset(server))
    assert fetched(store, asset(server))[0] == [] and the_file_is_here(store, asset(server))
    assert [headers["range"] for _, headers in server.asked()] == [f"bytes={n}-" for n in (200_000, 240_000, 280_000)]


def test_a_server_without_ranges_starts_again(server: FileServer, store: AssetStore) -> None:
    server.files["/weights.bin"].ranges = False
    leave_a_part(server, store, asset(server))
    failures, lines = fetched(store, asset(server))
    assert failures == [] and the_file_is_here(store, asset(server))
    assert lines[0] == "bert/weights: downloading 300 kB …"


@pytest.mark.parametrize("heeds_if_range", [True, False])
def test_a_file_that_has_changed_meanwhile_is_not_joined(
    server: FileServer, store: AssetStore, heeds_if_range: bool
) -> None:
    leave_a_part(server, store, asset(server))
    server.files["/weights.bin"] = File(OTHER, etag='"second"')
    server.heeds_if_range = heeds_if_range
    assert fetched(store, asset(server))[0] == []
    assert the_file_is_here(store, asset(server), OTHER)


def test_a_file_of_another_size_is_not_joined(server: FileServer, store: AssetStore) -> None:
    server.files["/weights.bin"].etag = None
    wanted = asset(server, sha256=SHA256)
    leave_a_part(server, store, wanted)
    server.files["/weights.bin"].content = CONTENT + b"more"
    failures, _ = fetched(store, wanted)
    assert "has sha256" in failures[0] and store.path(wanted) is None
    assert [headers.get("range") for _, headers in server.asked()] == ["bytes=200000-", None]


@pytest.mark.parametrize(
    ("etag", "headers", "continues"),
    [
        (None, {}, False),
        ('W/"weak"', {}, False),
        (None, {"Last-Modified": "yesterday"}, True),
        (None, {"Last-Modified": "now"}, False),
        (None, {"Last-Modified": "no date"}, False),
    ],
)
def test_without_a_hash_only_a_strong_sign_of_the_same_file_joins_pieces(
    server: FileServer, store: AssetStore, etag: str | None, headers: dict[str, str], continues: bool
) -> None:
    now = datetime.now(timezone.utc)
    times = {
        "yesterday": format_datetime(now - timedelta(days=1), usegmt=True),
        "now": format_datetime(now, usegmt=True),
    }
    file = server.files["/weights.bin"]
    file.etag, file.headers = etag, {name: times.get(value, value) for name, value in headers.items()}
    leave_a_part(server, store, asset(server))
    fetched(store, asset(server))
    ((_, sent),) = server.asked()
    assert sent.get("range") == ("bytes=200000-" if continues else None)
    assert sent.get("if-range") == (file.headers["Last-Modified"] if continues else None)
    assert the_file_is_here(store, asset(server))


def test_with_a_hash_pieces_are_joined_without_any_sign(server: FileServer, store: AssetStore) -> None:
    server.files["/weights.bin"].etag = None
    leave_a_part(server, store, asset(server, sha256=SHA256))
    assert fetched(store, asset(server, sha256=SHA256))[0] == []
    assert [headers["range"] for _, headers in server.asked()] == ["bytes=200000-"]
    assert the_file_is_here(store, asset(server, sha256=SHA256))


def test_pieces_that_make_the_wrong_file_are_replaced_by_one(server: FileServer, store: AssetStore) -> None:
    wanted = asset(server, sha256=SHA256)
    leave_a_part(server, store, wanted)
    (part,) = (store.folder / "partial").glob("*.part")
    part.write_bytes(OTHER[:200_000])
    failures, lines = fetched(store, wanted)
    assert failures == [] and the_file_is_here(store, wanted)
    assert [headers.get("range") for _, headers in server.asked()] == ["bytes=200000-", None]
    assert "downloading it in one" in lines[1]


@pytest.mark.parametrize("size", [300_000, 300_001])
def test_a_part_that_is_whole_or_too_long_does_no_harm(server: FileServer, store: AssetStore, size: int) -> None:
    leave_a_part(server, store, asset(server))
    (part,) = (store.folder / "partial").glob("*.part")
    part.write_bytes((CONTENT + b"x")[:size])
    assert fetched(store, asset(server))[0] == []
    assert the_file_is_here(store, asset(server))
    assert len(server.asked()) == (0 if size == 300_000 else 2)


def test_a_broken_record_of_a_part_means_a_new_start(server: FileServer, store: AssetStore) -> None:
    leave_a_part(server, store, asset(server))
    (record,) = (store.folder / "partial").glob("*.json")
    record.write_text('{"validator": ')
    assert fetched(store, asset(server))[0] == []
    assert the_file_is_here(store, asset(server)) and "range" not in server.asked()[0][1]


_FETCH = """
import sys
from pathlib import Path
from ml_bench_metric.environments.assets import AssetStore
from ml_bench_metric.environments.recipe import Asset
asset = Asset(name="weights", url=sys.argv[1], to="/opt/assets/weights")
print(AssetStore(Path(sys.argv[2])).fetch([("bert", asset)], print))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_fetch_leaves_its_part_for_the_next_one(
    server: FileServer, store: AssetStore, number: signal.Signals
) -> None:
    server.mishaps["/weights.bin"] = [Mishap(sends=200_000, silent=True)]
    command = [sys.executable, "-c", _FETCH, server.url("/weights.bin"), str(store.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert server.silent.wait(30)
        wait_until(lambda: sum(path.stat().st_size for path in store.folder.glob("partial/*.part")) == 3 * 65536)
        process.send_signal(number)
        output, _ = process.communicate(timeout=30)
    assert process.returncode not in (0, None) and store.path(asset(server)) is None
    if number == signal.SIGINT:
        assert "interrupted; 197 kB are kept for the next time" in output
    assert fetched(store, asset(server))[0] == []
    assert the_file_is_here(store, asset(server))
    assert server.asked()[-1][1]["range"] == "bytes=196608-"


# ---------------------------------------------------------------- servers that fail


@pytest.mark.parametrize("status", [429, 500, 503, 408])
def test_a_busy_server_is_asked_again_later(
    server: FileServer, store: AssetStore, no_waiting: list[float], status: int
) -> None:
    server.mishaps["/weights.bin"] = [Mishap(status=status), Mishap(status=status)]
    failures, lines = fetched(store, asset(server))
    assert failures == [] and the_file_is_here(store, asset(server)) and no_waiting == [1, 2]
    assert f"the server answers {status}" in lines[0] and "trying again in 1 s" in lines[0]


@pytest.mark.parametrize("as_date", [False, True])
def test_a_server_is_given_the_time_that_it_asks_for(
    server: FileServer, store: AssetStore, no_waiting: list[float], as_date: bool
) -> None:
    until = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=100), usegmt=True)
    server.mishaps["/weights.bin"] = [Mishap(status=429, headers={"Retry-After": until if as_date else "100"})]
    assert fetched(store, asset(server))[0] == []
    assert no_waiting == [100] if not as_date else 90 < no_waiting[0] <= 100


def test_a_server_that_asks_for_too_much_time_ends_the_fetch(
    server: FileServer, store: AssetStore, no_waiting: list[float]
) -> None:
    server.mishaps["/weights.bin"] = [Mishap(status=503, headers={"Retry-After": "7200"})]
    (failure,), _ = fetched(store, asset(server))
    assert "asks to wait 7200 s; run the same command again later" in failure and no_waiting == []


def test_tries_are_bounded(server: FileServer, store: AssetStore, no_waiting: list[float]) -> None:
    server.mishaps["/weights.bin"] = [Mishap(status=500)] * 9
    (failure,), _ = fetched(store, asset(server))
    assert failure == (
        f"asset bert/weights ({server.url('/weights.bin')}): the server answers 500 Internal Server Error, 5 times in "
        "a row; run the same command again later, it goes on with what is here"
    )
    assert no_waiting == [1, 2, 4, 8]


def test_a_download_that_gets_on_is_not_given_up(
    server: FileServer, store: AssetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "STEP", 10_000)
    server.mishaps["/weights.bin"] = [Mishap(sends=20_000)] * 12
    assert fetched(store, asset(server))[0] == []
    assert the_file_is_here(store, asset(server))


def test_a_server_that_falls_silent_is_not_waited_for_without_end(
    server: FileServer, store: AssetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "SILENCE_SECONDS", 0.2)
    server.mishaps["/weights.bin"] = [Mishap(sends=200_000, silent=True)]
    failures, lines = fetched(store, asset(server))
    assert failures == [] and the_file_is_here(store, asset(server))
    assert "127.0.0.1" in lines[1] and "has sent nothing for 0 s; trying again" in lines[1]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "gives the file only to those who have logged in"),
        (403, "gives the file only to those who have logged in"),
        (404, "the file is no longer there"),
        (410, "the file is no longer there"),
        (304, "which is no file"),
        (400, "which is no file"),
    ],
)
def test_what_will_not_pass_is_said_at_once_with_another_way(
    server: FileServer, store: AssetStore, no_waiting: list[float], status: int, reason: str
) -> None:
    server.mishaps["/weights.bin"] = [Mishap(status=status)]
    (failure,), _ = fetched(store, asset(server))
    assert reason in failure and failure.endswith("give it to `ml-bench assets add bert weights FILE`")
    assert "\n" not in failure and server.url("/weights.bin") in failure and no_waiting == []


def test_a_server_that_cannot_be_reached_is_given_up_for_all_its_files(
    store: AssetStore, no_waiting: list[float]
) -> None:
    with FileServer() as gone:
        one, other = asset(gone, "/one"), asset(gone, "/other", name="other")
    failures, _ = fetched(store, one, other)
    assert [re.search(r"127\.0\.0\.1:\d+ cannot be reached \(.*refused\)", line) is not None for line in failures] == [
        True,
        True,
    ]
    assert no_waiting == [1, 2]


@pytest.mark.parametrize(
    "url", ["http://", "http://[::1", "https://exa mple.org/".replace(" ", "%"), "http://a.invalid:x/"]
)
def test_an_address_that_is_none_is_one_line(store: AssetStore, url: str) -> None:
    wanted = Asset.model_construct(name="weights", url=url, to="/x", sha256=None, bytes=None, unpack="none", tasks=())
    (failure,), _ = fetched(store, wanted)
    assert failure.startswith(f"asset bert/weights ({url}): ") and "\n" not in failure


def test_a_missing_file_of_certificates_is_no_fault_of_the_store(
    server: FileServer, store: AssetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere.pem")
    url = server.url("/weights.bin").replace("http:", "https:")
    (failure,), _ = fetched(store, asset().model_copy(update={"url": url}))
    assert "/nowhere.pem; correct REQUESTS_CA_BUNDLE" in failure


def test_other_assets_are_fetched_where_one_fails(server: FileServer, store: AssetStore) -> None:
    (failure,), _ = fetched(store, asset(server, "/none", name="none"), asset(server))
    assert "bert/none" in failure and the_file_is_here(store, asset(server))


def test_endless_redirects_end(server: FileServer, store: AssetStore) -> None:
    server.mishaps["/loop"] = [Mishap(status=302, headers={"Location": "/loop"})] * 100
    (failure,), _ = fetched(store, asset(server, "/loop"))
    assert "the address cannot be used (Exceeded 30 redirects.)" in failure


# ---------------------------------------------------------------- wrong files


def test_a_wrong_hash_is_never_taken(server: FileServer, store: AssetStore) -> None:
    wanted = asset(server, sha256="0" * 64)
    (failure,), _ = fetched(store, wanted)
    assert f"has sha256 {SHA256}, and not the recipe's, {'0' * 64}; get the file in another way" in failure
    assert store.path(wanted) is None and left_over(store) == [] and len(server.requests) == 1


def test_without_a_hash_the_first_download_is_the_measure(server: FileServer, store: AssetStore) -> None:
    wanted = asset(server)
    fetched(store, wanted)
    lock = store.folder / "assets.lock.json"
    assert json.loads(lock.read_text()) == {wanted.url: SHA256}
    path = store.path(wanted)
    assert path is not None
    path.unlink()
    server.files["/weights.bin"] = File(OTHER)
    (failure,), _ = fetched(store, wanted)
    assert f"not that of the first download, which {lock} records" in failure and store.path(wanted) is None
    lock.write_text("{}")
    assert fetched(store, wanted)[0] == [] and the_file_is_here(store, wanted, OTHER)


def test_the_recipes_hash_counts_more_than_the_first_download(server: FileServer, store: AssetStore) -> None:
    fetched(store, asset(server))
    server.files["/weights.bin"] = File(OTHER)
    wanted = asset(server, sha256=hashlib.sha256(OTHER).hexdigest())
    assert store.path(wanted) is None
    assert fetched(store, wanted)[0] == [] and the_file_is_here(store, wanted, OTHER)


@pytest.mark.parametrize("text", ["[", "[]", '{"http://x": 1}', '{"http://x": "abc"}', "\udcff"])
def test_a_broken_lock_file_is_named(store: AssetStore, text: str) -> None:
    store.folder.mkdir()
    (store.folder / "assets.lock.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(AssetError, match=r"assets\.lock\.json.*mend or remove it"):
        store.sha256(asset(name="any"))


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (
            File(b"<html>log in", headers={"Content-Type": "text/html; charset=utf-8"}),
            "a web page in place of the file",
        ),
        (File(gzip.compress(CONTENT), headers={"Content-Encoding": "gzip"}), "only in a compressed form"),
        (File(b""), "an empty file"),
        (File(b"", chunked=True), "an empty file"),
        (File(CONTENT, says_length=False), "does not say how long the file is"),
    ],
)
def test_what_is_surely_not_the_whole_file_is_refused(
    server: FileServer, store: AssetStore, file: File, reason: str
) -> None:
    server.files["/weights.bin"] = file
    (failure,), _ = fetched(store, asset(server))
    assert reason in failure and store.path(asset(server)) is None
    assert not (store.folder / "assets.lock.json").exists()


@pytest.mark.parametrize("file", [File(CONTENT, chunked=True), File(CONTENT, says_length=False)])
def test_a_file_of_unknown_length_is_whole_if_its_hash_says_so(
    server: FileServer, store: AssetStore, file: File
) -> None:
    server.files["/weights.bin"] = file
    wanted = asset(server, sha256=SHA256)
    assert fetched(store, wanted)[0] == [] and the_file_is_here(store, wanted)


def test_a_chunked_answer_that_breaks_off_is_not_whole(server: FileServer, store: AssetStore) -> None:
    server.files["/weights.bin"].chunked = True
    server.mishaps["/weights.bin"] = [Mishap(sends=100_000)]
    assert fetched(store, asset(server))[0] == [] and the_file_is_here(store, asset(server))
    assert len(server.asked()) == 2


@pytest.mark.parametrize("unpack", ["zip", "tar", "gz"])
def test_the_first_download_is_no_measure_if_it_is_not_even_an_archive(
    server: FileServer, store: AssetStore, unpack: str
) -> None:
    (failure,), _ = fetched(store, asset(server, unpack=unpack))
    assert f"what the server sends is no {unpack} file" in failure
    assert not (store.folder / "assets.lock.json").exists() and left_over(store) == []


@pytest.mark.parametrize(
    ("told", "chunked", "taken"),
    [
        (290_000, False, True),
        (310_000, False, True),
        (3_000_000, False, False),
        (30_000, False, False),
        (290_000, True, True),
        (30_000, True, False),
    ],
)
def test_a_file_far_from_the_recipes_size_is_refused_and_a_rounded_size_will_do(
    server: FileServer, store: AssetStore, told: int, chunked: bool, taken: bool
) -> None:
    server.files["/weights.bin"].chunked = chunked
    failures, _ = fetched(store, asset(server, bytes=told))
    assert (failures == []) == taken and (store.path(asset(server)) is not None) == taken


def test_a_file_that_somebody_has_written_to_is_verified_again(server: FileServer, store: AssetStore) -> None:
    wanted = asset(server, sha256=SHA256)
    fetched(store, wanted)
    path = store.path(wanted)
    assert path is not None and path.stat().st_mode & 0o222 == 0
    os.utime(path)
    assert store.path(wanted) == path, "touched only"
    path.chmod(0o644)
    path.write_bytes(OTHER)
    assert store.path(wanted) is None and store.sha256(wanted) is None
    assert fetched(store, wanted)[0] == [] and the_file_is_here(store, wanted)


# ---------------------------------------------------------------- two at once


def test_two_fetches_at_once_download_once(server: FileServer, store: AssetStore) -> None:
    server.mishaps["/weights.bin"] = [Mishap(sends=200_000, silent=True)]
    results: list[tuple[list[str], list[str]]] = []
    first = threading.Thread(target=lambda: results.append(fetched(store, asset(server))))
    first.start()
    assert server.silent.wait(30)

    def release(line: str) -> None:
        assert line == "bert/weights: another process is at it; waiting for its end" or line.endswith("is here now")
        server.released.set()

    assert store.fetch([("bert", asset(server))], release) == ()
    first.join(30)
    assert results[0][0] == [] and the_file_is_here(store, asset(server))
    assert [headers.get("range") for _, headers in server.asked()] == [None, "bytes=200000-"]


def test_many_fetches_of_many_files_at_once_lose_nothing(server: FileServer, store: AssetStore) -> None:
    wanted = []
    for number in range(6):
        server.files[f"/{number}"] = File(CONTENT[number:])
        wanted.append(asset(server, f"/{number}", name=f"n{number}"))
    threads = [threading.Thread(target=fetched, args=(AssetStore(store.folder), *wanted)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all(the_file_is_here(store, one, CONTENT[number:]) for number, one in enumerate(wanted))
    assert len(server.asked()) == 6 and len(json.loads((store.folder / "assets.lock.json").read_text())) == 6


# ---------------------------------------------------------------- the disk


def test_a_disk_that_fills_up_keeps_what_is_there_and_says_so(
    server: FileServer, store: AssetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(download, "_write", _fails_after(100_000, errno.ENOSPC))
        with pytest.raises(AssetError) as caught:
            fetched(store, asset(server), asset(server, "/other", name="other"))
    message = str(caught.value)
    assert "\n" not in message and "bert/weights" in message and "of 300 kB are here and stay" in message
    assert "ML_BENCH_ASSETS" in message and store.path(asset(server)) is None and 0 < len(part_of(store)) <= 100_000
    assert fetched(store, asset(server))[0] == [] and the_file_is_here(store, asset(server))


def test_a_disk_that_fills_up_with_a_file_of_unknown_size_is_freed(
    server: FileServer, store: AssetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/weights.bin"].chunked = True
    monkeypatch.setattr(download, "_write", _fails_after(100_000, errno.ENOSPC))
    with pytest.raises(AssetError, match="whose size is not known; they are removed"):
        fetched(store, asset(server))
    assert left_over(store) == []


def test_a_disk_that_breaks_is_not_called_full(
    server: FileServer, store: AssetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_write", _fails_after(100_000, errno.EIO))
    with pytest.raises(AssetError, match=r"bert/weights .* cannot be read or written: Input/output error; mend that"):
        fetched(store, asset(server))


def _fails_after(size: int, number: int) -> Any:
    write, room = download._write, [size]

    def fails(function: Any, chunk: bytes, part: download.Part, facts: Any) -> None:
        def limited(data: memoryview) -> int:
            if not room[0]:
                raise OSError(number, os.strerror(number))
            taken = min(room[0], len(data))
            room[0] -= taken
            return int(function(data[:taken]))

        write(limited, chunk, part, facts)

    return fails


def test_nothing_is_downloaded_where_there_is_no_room(
    server: FileServer, store: AssetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9 - 250_000, 250_000))
    plan = store.plan([("bert", asset(server))])
    with pytest.raises(AssetError, match=r"300 kB are still to come.*250 kB free; free some, or set ML_BENCH_ASSETS"):
        store.require_room(plan)
    with pytest.raises(AssetError, match=r"bert/weights .* 300 kB are still to come"):
        fetched(store, asset(server))
    assert left_over(store) == []


def test_what_is_here_already_needs_no_room(
    server: FileServer, store: AssetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_a_part(server, store, asset(server))
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9 - 150_000, 150_000))
    plan = store.plan([("bert", asset(server))])
    assert plan.size == 100_000
    store.require_room(plan)
    assert fetched(store, asset(server))[0] == []


def test_a_store_that_cannot_be_made_is_one_line(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AssetError, match=r"cannot be read or written: .*ML_BENCH_ASSETS"):
        fetched(AssetStore(tmp_path / "file" / "store"), asset(server))


# ---------------------------------------------------------------- the plan


def test_the_plan_knows_what_is_missing_and_how_much_it_is(server: FileServer, store: AssetStore) -> None:
    server.files["/more.bin"] = File(OTHER)
    server.files["/shy.bin"] = File(OTHER, answers_head=False)
    fetched(store, asset(server))
    server.requests.clear()
    wanted = [
        asset(server),
        asset(server, "/told.bin", name="told", bytes=1_000),
        asset(server, "/more.bin", name="asked"),
        asset(server, "/more.bin", name="the same"[:3]),
        asset(server, "/shy.bin", name="shy"),
        asset(name="gated"),
    ]
    plan = store.plan([("bert", one) for one in wanted])
    assert [(one.asset.name, one.size, one.present) for one in plan.downloads] == [
        ("told", 1_000, 0),
        ("asked", 300_000, 0),
        ("shy", None, 0),
    ]
    assert [one.name for _, one in plan.present] == ["weights"] and [one.name for _, one in plan.by_hand] == ["gated"]
    assert (plan.size, plan.unknown) == (301_000, 1)
    assert server.asked() == [] and [path for path, _ in server.asked("HEAD")] == ["/more.bin", "/shy.bin"]


def test_a_server_that_does_not_answer_is_asked_for_one_size_only(
    store: AssetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FileServer() as gone:
        wanted = [asset(gone, f"/{number}", name=f"n{number}") for number in range(3)]
    asked: list[str] = []
    from requests import Session

    request = Session.request

    def counted(self: Session, method: str, url: str, **options: Any) -> Any:
        asked.append(f"{method} {url}")
        return request(self, method, url, **options)

    monkeypatch.setattr(Session, "request", counted)
    assert store.plan([("bert", one) for one in wanted]).unknown == 3
    assert asked == [f"HEAD {wanted[0].url}"]


# ---------------------------------------------------------------- by hand


def test_a_file_that_a_person_has_got_is_taken_over(store: AssetStore, tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    file.write_bytes(CONTENT)
    wanted = asset()
    path = store.add("bert", wanted, file)
    assert path == store.path(wanted) and the_file_is_here(store, wanted) and file.read_bytes() == CONTENT
    file.write_bytes(OTHER)
    with pytest.raises(AssetError, match=r"not that of the first one, see .*, or give --replace if this one is right"):
        store.add("bert", wanted, file)
    assert the_file_is_here(store, wanted)
    store.add("bert", wanted, file, replace=True)
    assert the_file_is_here(store, wanted, OTHER)


def test_a_file_by_hand_serves_in_place_of_a_download(server: FileServer, store: AssetStore, tmp_path: Path) -> None:
    leave_a_part(server, store, asset(server))
    (tmp_path / "weights.bin").write_bytes(CONTENT)
    store.add("bert", asset(server), tmp_path / "weights.bin")
    assert the_file_is_here(store, asset(server)) and fetched(store, asset(server)) == ([], [])


@pytest.mark.parametrize("replace", [False, True])
def test_a_file_by_hand_must_be_the_recipes(store: AssetStore, tmp_path: Path, replace: bool) -> None:
    (tmp_path / "weights.bin").write_bytes(OTHER)
    with pytest.raises(
        AssetError, match=r"bert/weights \(to be got by hand\): .*and not the recipe's.*get the right file$"
    ):
        store.add("bert", asset(sha256=SHA256), tmp_path / "weights.bin", replace=replace)
    assert store.path(asset(sha256=SHA256)) is None and left_over(store) == []


def test_a_file_by_hand_needs_room(store: AssetStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights.bin").write_bytes(CONTENT)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9 - 250_000, 250_000))
    with pytest.raises(AssetError, match=r"bert/weights .*300 kB are still to come.*ML_BENCH_ASSETS"):
        store.add("bert", asset(), tmp_path / "weights.bin")
    assert left_over(store) == []


@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "no archive"])
def test_what_is_no_such_file_is_refused(store: AssetStore, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "it"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(b"" if kind == "empty" else CONTENT)
    with pytest.raises(AssetError, match="is no zip file" if kind == "no archive" else "is no file, or empty"):
        store.add("bert", asset(unpack="zip"), path)
    assert left_over(store) == []


# ---------------------------------------------------------------- which, and how they are unpacked


def test_only_what_the_chosen_tasks_need_is_needed(recipe_folder: RecipeFolder) -> None:
    for name in ("bert", "esm"):
        recipe_folder.repository(name)
    tasks = {"all": (), "one": ("bert/1",), "both": ("bert/1", "bert/2")}
    listed = [asset(name=name, tasks=ids).model_dump() for name, ids in tasks.items()]
    recipe = recipe_folder.recipe("bert", assets=listed)

    def names_of(*task_ids: str) -> list[str]:
        return [one.name for _, one in needed([recipe], task_ids)]

    assert [(name, one.name) for name, one in needed([recipe])] == [("bert", name) for name in tasks]
    assert names_of("bert/1") == ["all", "one", "both"]
    assert names_of("bert/2") == ["all", "both"]
    assert names_of("bert/3", "unknown/1") == ["all"]
    assert names_of("unknown/1") == [] and names_of() == []


def test_a_task_that_another_recipe_serves_needs_nothing_of_this_one(recipe_folder: RecipeFolder) -> None:
    recipe_folder.repository("bert")
    recipes = [
        recipe_folder.recipe("bert", assets=[asset().model_dump()]),
        recipe_folder.recipe("bert-large", assets=[asset().model_dump()], tasks=["bert/2"]),
    ]
    assert [name for name, _ in needed(recipes, ["bert/1"])] == ["bert"]
    assert [name for name, _ in needed(recipes, ["bert/2"])] == ["bert-large"]


def test_a_file_that_is_not_packed_is_handed_on_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(CONTENT)
    with unpacked(asset(), tmp_path / "weights") as ready:
        assert ready == tmp_path / "weights"


def test_a_gzip_file_is_unpacked_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "weights.gz").write_bytes(gzip.compress(CONTENT))
    with unpacked(asset(unpack="gz"), tmp_path / "weights.gz") as ready:
        assert ready.read_bytes() == CONTENT
    assert not ready.exists()


@pytest.mark.parametrize("unpack", ["zip", "tar"])
@pytest.mark.parametrize(
    ("members", "found"),
    [
        (["weights/a", "weights/sub/b"], ["a", "sub", "sub/b"]),
        (["other/a"], ["other", "other/a"]),
        (["weights/a", "b"], ["b", "weights", "weights/a"]),
        (["weights"], ["weights"]),
    ],
)
def test_an_archive_of_one_folder_that_is_called_like_its_place_is_taken_without_it(
    tmp_path: Path, unpack: str, members: list[str], found: list[str]
) -> None:
    path = tmp_path / "archive"
    if unpack == "zip":
        with zipfile.ZipFile(path, "w") as made:
            for name in members:
                made.writestr(name, name)
    else:
        with tarfile.open(path, "w:gz") as packed:
            for name in members:
                member = tarfile.TarInfo(name)
                member.size = len(name)
                packed.addfile(member, io.BytesIO(name.encode()))
    with unpacked(asset(unpack=unpack), path) as ready:
        assert sorted(one.relative_to(ready).as_posix() for one in ready.rglob("*")) == found
    assert not ready.exists()


def test_what_cannot_be_unpacked_names_the_asset_and_the_way_out(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(CONTENT)
    reason = r"asset weights \(http://.*\) cannot be unpacked: it is no zip file.*ml-bench assets add"
    with pytest.raises(AssetError, match=reason), unpacked(asset(server, unpack="zip"), tmp_path / "archive"):
        pass
    assert list(tmp_path.iterdir()) == [tmp_path / "archive"]


def test_a_full_disk_names_the_folder_that_it_is_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("ml_bench_metric.environments.unpacking.gunzip", full)
    reason = r"asset weights .* cannot be unpacked: No space left on device: .*TMPDIR"
    with pytest.raises(AssetError, match=reason), unpacked(asset(unpack="gz"), tmp_path / "weights.gz"):
        pass
