"""A folder is a candidate: all of it and nothing else comes along, and what cannot is refused with its name."""

from __future__ import annotations

import os
import socket
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ml_bench_metric import overlay_folder
from ml_bench_metric.overlay_folder import FolderError, read_folder
from ml_bench_metric.sandbox import overlay_archive

TASK = "/workspace/tiny-gan/tools"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "answer"
    made.mkdir()
    (made / "run.sh").write_text("python train.py\n")
    return made


def names(made: Path) -> dict[str, str]:
    """Name -> content, the target of a link, or `/` for a folder."""
    overlay = read_folder(made, TASK).overlay
    if overlay is None:
        return {}
    return {
        entry.facts.name: (entry.facts.linkname or ("/" if entry.facts.isdir() else b"".join(entry.blocks()).decode()))
        for entry in overlay_archive.entries(overlay)
    }


def test_its_files_go_into_the_tasks_folder_and_its_script_is_the_text(folder: Path) -> None:
    (folder / "sub" / "run.sh").parent.mkdir()
    (folder / "sub" / "run.sh").write_text("another")
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "loop").symlink_to(".")
    assert read_folder(folder, TASK).text == "python train.py\n"
    root = TASK[1:]
    assert names(folder) == {
        f"{root}/link": "/etc/passwd",
        f"{root}/loop": ".",
        f"{root}/sub": "/",
        f"{root}/sub/run.sh": "another",
    }


def test_a_folder_with_a_script_alone_brings_nothing(folder: Path) -> None:
    assert read_folder(folder, TASK).overlay is None


def test_equal_contents_make_equal_digests_and_other_ones_do_not(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "run.sh").write_text("something else")
    for made, order in ((folder, ("b", "a")), (other, ("a", "b"))):
        for name in order:
            (made / name).write_text(name)
        os.utime(made / "a", (len(str(made)), 5))

    def digest(made: Path) -> str:
        overlay = read_folder(made, TASK).overlay
        assert overlay is not None
        return overlay.digest

    first = digest(folder)
    assert digest(other) == first
    (other / "a").chmod(0o755)
    assert digest(other) != first
    (folder / "a").rename(folder / "c")
    assert digest(folder) != first


@pytest.mark.parametrize("text", ["", "echo a\r\n", "\ufeffecho a", "echo a\0b", "#" * 20_000_000])
def test_whatever_text_the_script_has_is_taken_as_it_is(folder: Path, text: str) -> None:
    (folder / "run.sh").write_bytes(text.encode())
    assert read_folder(folder, TASK).text == text


def _no_script(folder: Path) -> None:
    (folder / "run.sh").unlink()


def _linked_script(folder: Path) -> None:
    _no_script(folder)
    (folder / "run.sh").symlink_to("/etc/passwd")


def _folder_script(folder: Path) -> None:
    _no_script(folder)
    (folder / "run.sh").mkdir()


def _pipe_script(folder: Path) -> None:
    _no_script(folder)
    os.mkfifo(folder / "run.sh")


def _latin_script(folder: Path) -> None:
    (folder / "run.sh").write_bytes(b"echo caf\xe9")


def _large_script(folder: Path) -> None:
    os.truncate(folder / "run.sh", overlay_folder.MAX_SCRIPT_BYTES + 1)


def _pipe(folder: Path) -> None:
    (folder / "sub").mkdir()
    os.mkfifo(folder / "sub" / "pipe")


def _socket(folder: Path) -> None:
    made = socket.socket(socket.AF_UNIX)
    before = Path.cwd()
    os.chdir(folder)  # a path of a socket must be short
    try:
        made.bind("socket")
    finally:
        os.chdir(before)
        made.close()


def _sparse(folder: Path) -> None:
    with (folder / "weights").open("wb") as file:
        file.truncate(3 * 2**30)


def _many(folder: Path) -> None:
    for number in range(overlay_folder.MAX_FILES + 1):
        (folder / str(number)).touch()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_no_script, r"answer has no run\.sh at its top"),
        (_linked_script, r"run\.sh is a symbolic link, and must be a file"),
        (_folder_script, r"run\.sh is a folder"),
        (_pipe_script, r"run\.sh is a named pipe"),
        (_latin_script, r"run\.sh is not UTF-8 \(byte 9\)"),
        (_large_script, r"run\.sh has 33,554,433 bytes"),
        (_pipe, r"sub/pipe is a named pipe"),
        (_socket, r"socket is a socket"),
        (_sparse, r"more than 1,073,741,824 bytes, at .*weights"),
        (_many, r"more than 20,000 files"),
    ],
)
def test_what_cannot_come_along_is_refused_by_name_and_nothing_is_packed(
    folder: Path, spoil: Callable[[Path], None], message: str
) -> None:
    spoil(folder)
    before = set(overlay_folder._place().iterdir())
    with pytest.raises(FolderError, match=message):
        read_folder(folder, TASK)
    assert set(overlay_folder._place().iterdir()) == before


@pytest.mark.parametrize("path", ["nowhere", "answer/run.sh", "a\0b"])
def test_what_is_no_folder_is_refused(folder: Path, path: str) -> None:
    with pytest.raises(FolderError, match=r"no folder|no path"):
        read_folder(folder.parent / path, TASK)


def test_names_that_are_no_text_come_along(folder: Path) -> None:
    (folder / os.fsdecode(b"\xff")).write_text("x")
    assert names(folder) == {f"{TASK[1:]}/\udcff": "x"}


def test_archives_are_plain_and_of_nobody(folder: Path) -> None:
    (folder / "f").write_text("x")
    (folder / "f").chmod(0o6640)
    overlay = read_folder(folder, TASK).overlay
    assert overlay is not None
    with tarfile.open(overlay.archive, "r:") as archive:
        (member,) = archive.getmembers()
    assert (member.uid, member.gid, member.uname, member.mode) == (0, 0, "", 0o644)
