"""An image gets the same bytes whoever packs them, and a fingerprint changes with every byte that it gets."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from ml_bench_metric.environments.files import fingerprint, packed, packed_file
from ml_bench_metric.environments.recipe import RecipeError


def test_packed_files_do_not_tell_who_packed_them_or_when(tmp_path: Path) -> None:
    for number, name in enumerate(("a", "b")):
        folder = tmp_path / name
        (folder / "inner").mkdir(parents=True)
        (folder / "inner" / "run.sh").write_text("echo hi")
        (folder / "inner" / "run.sh").chmod(0o700 + number * 0o55)
        (folder / "link").symlink_to("inner/run.sh")
        os.utime(folder / "inner" / "run.sh", (number + 1, number + 1))
    with packed(tmp_path / "a", "repo", caches=True) as first, packed(tmp_path / "b", "repo", caches=True) as second:
        content = first.read()
        assert content == second.read()
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = {member.name: member for member in archive}
    assert list(members) == ["repo", "repo/inner", "repo/inner/run.sh", "repo/link"]
    assert {(member.uid, member.gid, member.uname) for member in members.values()} == {(1000, 1000, "")}
    assert members["repo/inner/run.sh"].mode == 0o755
    assert members["repo/link"].linkname == "inner/run.sh"
    assert members["repo"].mtime > 315532800  # 1980, before which zip files cannot go


def test_a_commits_own_caches_are_packed_and_this_machines_are_not(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").touch()
    for caches in (True, False):
        with packed(tmp_path, "repo", caches=caches) as archive, tarfile.open(fileobj=archive) as opened:
            assert ("repo/__pycache__/a.pyc" in opened.getnames()) is caches


def test_links_and_names_that_are_not_unicode_are_part_of_a_fingerprint(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.txt")).touch()
    (tmp_path / "link").symlink_to("one")
    before = fingerprint(tmp_path)
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("two")
    assert fingerprint(tmp_path) != before


def test_a_pipe_among_the_files_is_an_error_and_not_a_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RecipeError, match=r"pipe: is neither"):
        fingerprint(tmp_path)


@pytest.mark.parametrize(("mode", "expected"), [(0o600, 0o644), (0o700, 0o755)])
def test_one_packed_file_does_not_tell_who_packed_it_either(tmp_path: Path, mode: int, expected: int) -> None:
    contents = set()
    for number in range(2):
        file = tmp_path / f"file-{number}"
        file.write_bytes(b"weights")
        file.chmod(mode)
        os.utime(file, (number + 1, number + 1))
        with packed_file(file, "w.bin") as archive:
            contents.add(archive.read())
    (content,) = contents
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        (member,) = archive
        assert (member.name, member.uid, member.gid, member.mode) == ("w.bin", 1000, 1000, expected)
        packed_again = archive.extractfile(member)
        assert packed_again is not None and packed_again.read() == b"weights"
