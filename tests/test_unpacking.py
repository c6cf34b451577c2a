"""Archives of strangers: what is honest comes out whole, and what is not harms nothing outside the folder."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import os
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Literal

import pytest

from ml_bench_metric.environments import unpacking
from ml_bench_metric.environments.unpacking import UnpackError, gunzip, unpack

Kind = Literal["zip", "tar"]


def tar(path: Path, *members: tarfile.TarInfo | tuple[str, bytes], mode: Literal["w", "w:gz", "w:bz2"] = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zipped(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def zip_member(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info


def unpacked(archive: Path, kind: Kind) -> Path:
    folder = archive.parent / "out" / "folder"
    folder.mkdir(parents=True)
    unpack(archive, kind, folder)
    return folder


def refused(archive: Path, kind: Kind) -> str:
    """Return why an archive is refused; nothing may lie beside the folder then."""
    with pytest.raises(UnpackError) as caught:
        unpacked(archive, kind)
    assert [path.name for path in (archive.parent / "out").iterdir()] == ["folder"]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2"])
def test_a_tar_comes_out_whole(tmp_path: Path, mode: Literal["w", "w:gz", "w:bz2"]) -> None:
    program = tarfile.TarInfo("./bin/run")
    program.mode = 0o4755
    members = (
        special("./", tarfile.DIRTYPE),
        special("./empty", tarfile.DIRTYPE),
        ("./a.txt", b"a"),
        ("b/c.txt", b"c"),
        program,
        special("link", tarfile.SYMTYPE, "b/c.txt"),
        special("dangling", tarfile.SYMTYPE, "b/none"),
        special("copy", tarfile.LNKTYPE, "./a.txt"),
    )
    folder = unpacked(tar(tmp_path / "archive", *members, mode=mode), "tar")
    assert contents(folder) == {
        "a.txt": "a",
        "b/c.txt": "c",
        "bin/run": "",
        "copy": "a",
        "dangling": "-> b/none",
        "link": "-> b/c.txt",
    }
    assert (folder / "empty").is_dir()
    modes = {name: (folder / name).stat().st_mode & 0o7111 for name in ("bin/run", "a.txt")}
    assert modes == {"bin/run": 0o111, "a.txt": 0}, "no set-uid bit, whatever the archive says"


def test_a_zip_comes_out_whole(tmp_path: Path) -> None:
    members = (
        ("empty/", b""),
        ("a.txt", b"a"),
        ("b/c.txt", b"c"),
        (zip_member("bin/run", 0o100755), b""),
        (zip_member("link", 0o120777), b"b/c.txt"),
        ("__MACOSX/._a.txt", b"x"),
    )
    folder = unpacked(zipped(tmp_path / "archive", *members), "zip")
    assert contents(folder) == {"a.txt": "a", "b/c.txt": "c", "bin/run": "", "link": "-> b/c.txt"}
    assert (folder / "empty").is_dir() and os.access(folder / "bin/run", os.X_OK)


def test_a_later_member_of_the_same_name_counts(tmp_path: Path) -> None:
    members = (("a", b"old"), ("a", b"new"), special("b", tarfile.SYMTYPE, "a"), ("b", b"file"))
    assert contents(unpacked(tar(tmp_path / "archive", *members), "tar")) == {"a": "new", "b": "file"}


@pytest.mark.parametrize("name", ["../x", "/tmp/ml-bench-x", "a/../../x", "a/..", "//x"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_member_outside_the_folder_is_refused(tmp_path: Path, name: str, kind: Kind) -> None:
    made = tar(tmp_path / "a", (name, b"x")) if kind == "tar" else zipped(tmp_path / "a", (name, b"x"))
    assert "would lie outside the folder" in refused(made, kind)


@pytest.mark.parametrize(
    "links",
    [
        [("a", "/etc/passwd")],
        [("a", "..")],
        [("a", "../folder-2/x")],
        [("a", "b/../../x")],
        [("d/a", "../.."), ("c", "d/a/x")],
        [("d/d/up", "../.."), ("d/d/b", "up/..")],
        [("one", "two/.."), ("two", "three"), ("three", "..")],
    ],
)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_link_that_leads_out_is_refused(tmp_path: Path, links: list[tuple[str, str]], kind: Kind) -> None:
    if kind == "tar":
        made = tar(tmp_path / "a", ("b/f", b""), ("d/d/f", b""), *(special(n, tarfile.SYMTYPE, t) for n, t in links))
    else:
        entries = ((zip_member(name, 0o120777), target.encode()) for name, target in links)
        made = zipped(tmp_path / "a", ("b/f", b""), ("d/d/f", b""), *entries)
    assert "which leads out" in refused(made, kind)


def test_a_link_may_not_lead_out_of_the_one_folder_that_is_taken_out(tmp_path: Path) -> None:
    made = tar(tmp_path / "a", ("top/f", b"x"), special("top/l", tarfile.SYMTYPE, "../top/f"))
    assert contents(unpacked(made, "tar")) == {"top/f": "x", "top/l": "-> ../top/f"}
    made = tar(tmp_path / "b", ("top/f", b"x"), special("top/l", tarfile.SYMTYPE, ".."))
    with pytest.raises(UnpackError, match="leads out"):
        (tmp_path / "other").mkdir()
        unpack(made, "tar", tmp_path / "other")


def test_a_link_is_not_told_where_the_folder_is_now(tmp_path: Path) -> None:
    inside = str(tmp_path / "out" / "folder" / "f")
    assert "leads out" in refused(tar(tmp_path / "a", ("f", b"x"), special("l", tarfile.SYMTYPE, inside)), "tar")


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    members = (special("d", tarfile.SYMTYPE, str(tmp_path / "outside")), ("d/x", b"x"))
    refused(tar(tmp_path / "a", *members), "tar")
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("target", ["/etc/passwd", "../x", "none", "d", "l"])
def test_a_hard_link_to_anything_but_a_file_before_it_is_refused(tmp_path: Path, target: str) -> None:
    members = (special("d", tarfile.DIRTYPE), special("l", tarfile.SYMTYPE, "d"))
    reason = refused(tar(tmp_path / "a", *members, special("h", tarfile.LNKTYPE, target)), "tar")
    assert "is no file before it" in reason or "outside" in reason


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_a_device_is_refused(tmp_path: Path, kind: bytes) -> None:
    assert "is a device" in refused(tar(tmp_path / "a", special("d", kind)), "tar")


@pytest.mark.parametrize("mode", [0o020666, 0o060666, 0o010666, 0o140666])
def test_a_device_in_a_zip_is_refused(tmp_path: Path, mode: int) -> None:
    assert "is a device" in refused(zipped(tmp_path / "a", (zip_member("d", mode), b"")), "zip")


@pytest.mark.parametrize("second", ["a/b", "a"])
def test_a_path_that_is_both_file_and_folder_is_refused(tmp_path: Path, second: str) -> None:
    first = ("a", b"") if second == "a/b" else special("a", tarfile.DIRTYPE)
    refused(tar(tmp_path / "a", first, (second, b"")), "tar")


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, kind: Kind) -> None:
    name = "x" * 300
    made = tar(tmp_path / "a", (name, b"x")) if kind == "tar" else zipped(tmp_path / "a", (name, b"x"))
    assert "File name too long" in refused(made, kind)


def test_a_name_cannot_paint_on_the_terminal(tmp_path: Path) -> None:
    assert "\x1b" not in refused(tar(tmp_path / "a", ("../\x1b[31mred\n", b"x")), "tar")


# ---------------------------------------------------------------- too much


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "SMALLEST_LIMIT", 100_000)


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_bomb_is_stopped_before_it_is_written(tmp_path: Path, kind: Kind) -> None:
    zeros = bytes(10_000_000)
    made = zipped(tmp_path / "a", ("z", zeros)) if kind == "zip" else tar(tmp_path / "a", ("z", zeros), mode="w:gz")
    assert "too much for its size" in refused(made, kind)
    assert sum(path.stat().st_size for path in (tmp_path / "out").rglob("z")) == 0


@pytest.mark.usefixtures("small_limit")
def test_a_zip_that_lies_about_its_sizes_is_stopped(tmp_path: Path) -> None:
    made = zipped(tmp_path / "a", ("z", bytes(10_000_000)))
    made.write_bytes(made.read_bytes().replace(struct.pack("<L", 10_000_000), struct.pack("<L", 10)))
    refused(made, "zip")
    assert sum(path.stat().st_size for path in (tmp_path / "out").rglob("z")) <= 10


@pytest.mark.usefixtures("small_limit")
def test_many_hard_links_to_a_large_file_are_a_bomb_too(tmp_path: Path) -> None:
    links = [special(f"l{number}", tarfile.LNKTYPE, "z") for number in range(100)]
    made = tar(tmp_path / "a", ("z", bytes(50_000)), *links, mode="w:gz")
    assert "too much for its size" in refused(made, "tar")


def test_too_many_members_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "ENTRIES", 10)
    assert "more than 10 members" in refused(tar(tmp_path / "a", ("/".join("abcdefghijkl"), b"")), "tar")


def test_a_giant_header_is_not_read_into_memory(tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 1 << 40
    made = tmp_path / "a"
    made.write_bytes(gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + bytes(10_000)))
    assert "a header of more than a megabyte" in refused(made, "tar")


def test_endless_headers_end(tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 512
    made = tmp_path / "a"
    made.write_bytes(gzip.compress((header.tobuf(tarfile.GNU_FORMAT) + b"x" * 512) * 5_000))
    assert "is no tar file, or damaged" in refused(made, "tar")


# ---------------------------------------------------------------- damaged


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize("content", [b"", b"<html>" * 100, b"\x1f\x8b" + b"x" * 99, b"BZh9" + b"x" * 99, b"PK"])
def test_what_is_no_archive_is_refused(tmp_path: Path, kind: Kind, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    assert f"is no {kind} file, or damaged" in refused(tmp_path / "a", kind)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2"])
@pytest.mark.parametrize("part", [0.3, 0.7])
def test_a_cut_off_tar_is_refused(tmp_path: Path, mode: Literal["w", "w:gz", "w:bz2"], part: float) -> None:
    made = tar(tmp_path / "a", ("x", os.urandom(100_000)), ("y", os.urandom(100_000)), mode=mode)
    made.write_bytes(made.read_bytes()[: int(made.stat().st_size * part)])
    assert "is no tar file, or damaged" in refused(made, "tar")


def test_a_damaged_member_of_a_zip_is_noticed(tmp_path: Path) -> None:
    made = tmp_path / "a"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("x", b"hello world")
    made.write_bytes(made.read_bytes().replace(b"hello", b"hollo"))
    assert "CRC" in refused(made, "zip")


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    made = zipped(tmp_path / "a", ("x", b"x"))
    content = bytearray(made.read_bytes())
    for magic, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        content[content.index(magic) + offset] |= 1
    made.write_bytes(content)
    assert "is encrypted" in refused(made, "zip")


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_empty_archive_is_refused(tmp_path: Path, kind: Kind) -> None:
    assert "the archive is empty" in refused(zipped(tmp_path / "a") if kind == "zip" else tar(tmp_path / "a"), kind)


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (gzip.compress(bytes(1 << 24)), "too much for its size"),
        (gzip.compress(os.urandom(99))[:-9], "is no gzip file, or damaged"),
        (bz2.compress(b"x"), "is no gzip file, or damaged"),
        (b"", "nothing is in it"),
    ],
)
def test_a_bad_gzip_file_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "a.gz").write_bytes(content)
    with pytest.raises(UnpackError, match=reason):
        gunzip(tmp_path / "a.gz", tmp_path / "a")


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_full_disk_is_not_taken_for_a_bad_archive(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(unpacking._Content, "add_file", full)
    made = zipped(tmp_path / "a", ("x", b"x")) if kind == "zip" else tar(tmp_path / "a", ("x", b"x"))
    with pytest.raises(OSError, match="No space left"):
        unpacked(made, kind)
