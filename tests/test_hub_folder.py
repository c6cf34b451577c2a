"""A folder is written whole or not at all, and never over what somebody else wrote."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ml_bench_hub.errors import HubError
from ml_bench_hub.folder import MANIFEST, About, Kind, describe, differences, parse_manifest, read_manifest, writing


def about(kind: Kind = "dataset") -> About:
    return About(kind=kind, name="ml-bench", namespace="me", source="a local folder", digests={"L": "0"}, harness="1")


def write(out: Path, files: dict[str, str], kind: Kind = "dataset") -> None:
    with writing(out, about(kind)) as folder:
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)


def contents(folder: Path) -> dict[str, str]:
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_text() for name, path in found.items() if name != MANIFEST}


def nothing_beside(out: Path) -> bool:
    return [path.name for path in out.parent.iterdir()] in ([out.name], [])


def test_the_manifest_lists_what_was_written(tmp_path: Path) -> None:
    write(tmp_path / "out", {"a.txt": "ä", "b/c.txt": ""})
    manifest = read_manifest(tmp_path / "out")
    assert manifest.files == {"a.txt": describe("ä".encode()), "b/c.txt": describe(b"")}
    assert manifest.files["b/c.txt"].blob == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"  # git's name for nothing
    assert manifest.files["a.txt"].sha256 == hashlib.sha256("ä".encode()).hexdigest()
    assert (manifest.kind, manifest.namespace, manifest.digests) == ("dataset", "me", {"L": "0"})
    assert differences(tmp_path / "out", manifest) == []
    assert nothing_beside(tmp_path / "out")


def test_the_folder_is_as_readable_as_any_other(tmp_path: Path) -> None:
    write(tmp_path / "out", {"a": ""})
    (tmp_path / "other").mkdir()
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_an_own_folder_is_replaced_whole(tmp_path: Path) -> None:
    write(tmp_path / "out", {"a": "1", "old": "1"})
    write(tmp_path / "out", {"a": "2"})
    assert contents(tmp_path / "out") == {"a": "2"}
    assert nothing_beside(tmp_path / "out")


def test_an_empty_folder_and_missing_parents_will_do(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty", {"a": "1"})
    write(tmp_path / "deep" / "er" / "out", {"a": "1"})
    assert contents(tmp_path / "empty") == contents(tmp_path / "deep/er/out") == {"a": "1"}


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_build_that_fails_leaves_everything_as_it_was(tmp_path: Path, error: type[BaseException]) -> None:
    for before in ({}, {"a": "1"}):
        if before:
            write(tmp_path / "out", before)
        with pytest.raises(error), writing(tmp_path / "out", about()) as folder:
            (folder / "a").write_text("half")
            raise error
        assert ((tmp_path / "out").exists() and contents(tmp_path / "out")) == (before or False)
        assert nothing_beside(tmp_path / "out")


def test_a_folder_that_cannot_take_the_place_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "out", {"a": "1"})
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if (self / "a").read_text() == "2":
            raise OSError("the disk has gone")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(HubError, match="the disk has gone"):
        write(tmp_path / "out", {"a": "2"})
    assert contents(tmp_path / "out") == {"a": "1"}
    assert nothing_beside(tmp_path / "out")


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    with pytest.raises(HubError, match=r"thesis\.tex"):
        write(tmp_path / "out", {"a": "1"})
    assert contents(tmp_path / "out") == {"thesis.tex": "mine"}


def test_a_folder_of_somebody_else_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out" / "deep").mkdir(parents=True)
    monkeypatch.setattr(Path, "rglob", None)  # it could be the whole disk
    with pytest.raises(HubError, match="holds 'deep' and no"):
        write(tmp_path / "out", {"a": "1"})


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(HubError, match="no folder"):
        write(tmp_path / "out", {"a": "1"})
    with pytest.raises(HubError, match="cannot be made"):
        write(tmp_path / "out" / "deeper", {"a": "1"})
    assert (tmp_path / "out").read_text() == "mine"


def test_work_of_somebody_else_in_an_own_folder_is_not_lost(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, {"a": "1", "b": "1"})
    (out / "notes").mkdir()
    (out / "notes" / "mine.txt").write_text("mine")
    with pytest.raises(HubError, match=r"notes/mine\.txt is not in"):
        write(out, {"a": "2"})
    (out / "notes" / "mine.txt").unlink()
    (out / "a").write_text("edited")
    with pytest.raises(HubError, match="a was changed after the build"):
        write(out, {"a": "2"})
    assert contents(out) == {"a": "edited", "b": "1"}


def test_work_that_is_done_during_the_build_is_not_lost(tmp_path: Path) -> None:
    with pytest.raises(HubError, match=r"mine\.txt"), writing(tmp_path / "out", about()):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine.txt").write_text("mine")
    assert contents(tmp_path / "out") == {"mine.txt": "mine"}


def test_a_folder_of_another_kind_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "out", {"a": "1"}, kind="harbor")
    with pytest.raises(HubError, match="built as harbor, not as dataset"):
        write(tmp_path / "out", {"a": "2"})


def test_a_link_is_followed_and_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link", {"a": "1"})
    assert (tmp_path / "link").is_symlink() and contents(tmp_path / "real") == {"a": "1"}


def test_every_difference_is_named(tmp_path: Path) -> None:
    write(tmp_path / "out", {"a": "1", "b": "1", "c": "1"})
    manifest = read_manifest(tmp_path / "out")
    (tmp_path / "out" / "a").write_text("2")
    (tmp_path / "out" / "b").unlink()
    (tmp_path / "out" / "c").unlink()
    (tmp_path / "out" / "c").symlink_to("a")
    (tmp_path / "out" / "d").write_text("1")
    found = differences(tmp_path / "out", manifest)
    assert [line.split()[0] for line in found] == ["d", "b", "a", "c"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"kind": "dataset"}', '{"kind": "book"}', "[" * 5000])
def test_a_broken_manifest_is_named(text: str) -> None:
    with pytest.raises(HubError, match="somewhere is no manifest") as error:
        parse_manifest(text.encode(), "somewhere")
    assert "\n" not in str(error.value)


def test_a_folder_without_a_manifest_was_not_built(tmp_path: Path) -> None:
    with pytest.raises(HubError, match="not made by `ml-bench hub build`"):
        read_manifest(tmp_path)
    with pytest.raises(HubError, match="not made by"):
        read_manifest(tmp_path / "nowhere")
