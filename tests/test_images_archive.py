"""Archives of images: nothing reaches the engine that is not whole, or that is not this project's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ml_bench_metric.environments.archive import ArchiveError, read_archive
from ml_bench_metric.environments.images import LAYER
from tests.image_archives import labels, write_archive

NAMES = ("ml-bench/r:aaaaaaaaaaaa", "ml-bench/r:latest")
OURS = (NAMES, labels())


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_what_is_in_an_archive_is_told_without_an_engine(tmp_path: Path, mode: str) -> None:
    path = write_archive(
        tmp_path / "x.tar", [OURS, (["ml-bench/s:latest", "ml-bench/s:bbbbbbbbbbbb"], labels("s", "b"))], mode=mode
    )
    first, second = read_archive(path)
    assert (first.name, first.names, first.labels) == (NAMES[0], NAMES, labels())
    assert first.layers == ("sha256:" + "1" * 64,)
    assert second.name == "ml-bench/s:bbbbbbbbbbbb"


def test_every_byte_that_is_read_is_told(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "x.tar", [OURS])
    counts: list[int] = []
    read_archive(path, counts.append)
    assert sum(counts) == path.stat().st_size


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("part", [0.01, 0.3, 0.6, 0.9])
def test_a_cut_archive_is_refused_wherever_it_was_cut(tmp_path: Path, mode: str, part: float) -> None:
    # Not to be compressed: the cut must meet the layer in both forms.
    layer = b"".join(bytes([n * n % 251]) + str(n).encode() for n in range(100_000))
    path = write_archive(tmp_path / "x.tar", [OURS], mode=mode, layer=layer)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(ArchiveError, match=r"x\.tar .*whole"):
        read_archive(path)


@pytest.mark.parametrize("name", ["manifest.json", "1/layer.tar"])
def test_an_archive_that_was_cut_between_two_files_is_refused(tmp_path: Path, name: str) -> None:
    path = write_archive(tmp_path / "x.tar", [OURS], leave_out=[name])
    with pytest.raises(ArchiveError, match=rf"not whole|{name}"):
        read_archive(path)


def test_an_engine_that_failed_while_it_wrote_is_noticed(tmp_path: Path) -> None:
    # It appends its error to what it has written, and ends the answer as usual.
    path = write_archive(tmp_path / "x.tar", [OURS], leave_out=["manifest.json"])
    content = path.read_bytes().rstrip(b"\0")
    path.write_bytes(content + b"\0" * (-len(content) % 512) + json.dumps({"error": "no space left"}).encode())
    with pytest.raises(ArchiveError, match="not whole"):
        read_archive(path)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["python:3.11"], {}),
        (["python:3.11"], labels()),
        (["ml-bench/r:bbbbbbbbbbbb"], labels()),
        (["ml-bench/r:latest"], labels()),
        ([], labels()),
        (["ml-bench/r:aaaaaaaaaaaa", "python:3.11"], labels()),
        (["ml-bench/base:aaaaaaaaaaaa"], labels(**{LAYER: "base"})),
    ],
    ids=[
        "foreign",
        "made of ours",
        "another digest",
        "without its own name",
        "nameless",
        "a further name",
        "no environment",
    ],
)
def test_an_archive_with_anything_else_is_refused_whole(
    tmp_path: Path, names: list[str], found: dict[str, str]
) -> None:
    path = write_archive(tmp_path / "x.tar", [OURS, (names, found)])
    with pytest.raises(ArchiveError, match=r"no environment of ml-bench.*nothing was loaded"):
        read_archive(path)


@pytest.mark.parametrize("content", [b"", b"text " * 1000, b"\0" * 10_240, b"\x1f\x8b\x08 and no more"])
def test_a_file_that_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match=r"x\.tar .*whole"):
        read_archive(path)


def test_an_archive_of_no_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="has no images"):
        read_archive(write_archive(tmp_path / "x.tar", []))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"x\.tar cannot be read: No such file"):
        read_archive(tmp_path / "x.tar")
