"""A repository's files are those of its commit, wherever they come from, and what a mirror lacks of them is listed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ml_bench_metric.environments import checkout
from ml_bench_metric.environments.build_log import BuildError, BuildLog
from ml_bench_metric.environments.checkout import Source, checked_out, find_mirrors, find_source
from ml_bench_metric.environments.recipe import Checkout
from tests.recipe_builders import git, take_away


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose attributes would change what `git archive` and a user's settings give."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "origin"
    (folder / "data").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "run.sh").write_bytes(b"echo hi\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "left-out.txt").write_bytes(b"$Format:%H$\n")
    (folder / ".gitattributes").write_bytes(b"left-out.txt export-ignore\n")
    (folder / "link").symlink_to("run.sh")
    (folder / "data" / "large ü.bin").write_bytes(b"large\n")
    (folder / "data" / "the same.bin").write_bytes(b"large\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def pinned(origin: Path, commit: str | None = None) -> Checkout:
    return Checkout("Some-Repo", origin.as_uri(), commit or git(origin, "rev-parse", "HEAD"), "Some-Repo")


@contextlib.contextmanager
def files_of(repository: Checkout, mirrors: Path | None, log: BuildLog) -> Iterator[Path]:
    with checked_out(find_source(repository, mirrors), log) as folder:
        yield folder


def listing(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


SMALL = {
    "run.sh": b"echo hi\n",
    "link": b"echo hi\n",
    "left-out.txt": b"$Format:%H$\n",
    ".gitattributes": b"left-out.txt export-ignore\n",
}
EXPECTED = {**SMALL, "data/large ü.bin": b"large\n", "data/the same.bin": b"large\n"}


def test_a_clone_has_exactly_the_commits_files_whatever_git_is_configured_to_do(
    origin: Path, build_log: BuildLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = tmp_path / "gitconfig"
    configuration.write_text("[core]\n\tautocrlf = true\n\tsymlinks = false\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    repository = pinned(origin)
    (origin / "later.txt").touch()
    git(origin, "add", "-A")
    git(origin, "commit", "-qm", "second")
    with files_of(repository, None, build_log) as folder:
        assert listing(folder) == EXPECTED
        assert (folder / "link").is_symlink()
        assert (folder / "run.sh").stat().st_mode & 0o100
    assert not folder.exists()


@pytest.mark.parametrize(
    "place",
    ["Some-Repo", "some-repo.git", "owner+Some-Repo/repo", "owner__Some-Repo", "owner/Some-Repo.git", "a/b/Some-Repo"],
)
@pytest.mark.parametrize("bare", [True, False])
def test_a_mirror_is_found_by_the_repositorys_name(
    origin: Path, build_log: BuildLog, tmp_path: Path, place: str, bare: bool
) -> None:
    mirror = tmp_path / "mirrors" / place
    git(tmp_path, "clone", "-q", *(["--bare"] if bare else []), str(origin), str(mirror))
    nowhere = dataclasses.replace(pinned(origin), url="file:///nowhere")
    with files_of(nowhere, tmp_path / "mirrors", build_log) as folder:
        assert listing(folder) == EXPECTED


@pytest.mark.parametrize("place", ["Other-Some-Repo", "Some-Repo-2", "x/Some", "1/2/3/Some-Repo"])
def test_a_repository_of_another_name_is_no_mirror(origin: Path, tmp_path: Path, place: str) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(origin), str(tmp_path / "mirrors" / place))
    assert find_mirrors(tmp_path / "mirrors", "Some-Repo") == []


def test_a_repository_without_a_mirror_is_cloned(origin: Path, tmp_path: Path) -> None:
    (tmp_path / "mirrors" / "Other-Repo").mkdir(parents=True)
    for mirrors in (None, tmp_path / "mirrors"):
        assert find_source(pinned(origin), mirrors) == Source(pinned(origin), None, ())


def test_a_mirror_without_the_commit_is_an_error_that_says_how_to_get_it(origin: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(origin), str(tmp_path / "mirrors" / "Some-Repo"))
    absent = "1" * 40
    with pytest.raises(BuildError) as error:
        find_source(pinned(origin, absent), tmp_path / "mirrors")
    assert f"git fetch {origin.as_uri()} {absent}" in str(error.value)
    assert str(tmp_path / "mirrors" / "Some-Repo") in str(error.value)
    assert "\n" not in str(error.value)


def test_of_two_mirrors_the_one_with_the_commit_is_taken(origin: Path, build_log: BuildLog, tmp_path: Path) -> None:
    mirrors = tmp_path / "mirrors"
    empty = mirrors / "a+Some-Repo"
    empty.mkdir(parents=True)
    git(empty, "init", "-q")
    git(tmp_path, "clone", "-q", "--bare", str(origin), str(mirrors / "b+Some-Repo"))
    with files_of(pinned(origin), mirrors, build_log) as folder:
        assert listing(folder) == EXPECTED


# ---------------------------------------------------------------- mirrors that lack a part


@pytest.fixture(params=[True, False], ids=["bare", "with files"])
def mirror(origin: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A mirror in the folder `mirrors`, its objects in files of their own."""
    folder = tmp_path / "mirrors" / "Some-Repo"
    git(tmp_path, "clone", "-q", *(["--bare"] if request.param else []), str(origin), str(folder))
    return folder


def test_files_that_a_mirror_lacks_are_listed_and_left_out(mirror: Path, origin: Path, tmp_path: Path) -> None:
    take_away(mirror, "HEAD:data/the same.bin")
    source = find_source(pinned(origin), tmp_path / "mirrors")
    assert source.missing == ("data/large ü.bin", "data/the same.bin")
    notes: list[str] = []
    with BuildLog(tmp_path / "y.log", notes.append, "y") as log, checked_out(source, log) as folder:
        assert listing(folder) == SMALL
    (note,) = (line for line in notes if "lacks" in line)
    assert note == (f"y: {mirror} lacks 2 files of the commit, which are left out: data/large ü.bin, data/the same.bin")


def test_of_many_missing_files_the_number_and_some_are_told(tmp_path: Path, build_log: BuildLog) -> None:
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "-q")
    for number in range(9):
        (origin / f"{number}.bin").write_text(str(number))
    git(origin, "add", "-A")
    git(origin, "commit", "-qm", "first")
    mirrors = tmp_path / "mirrors"
    git(tmp_path, "clone", "-q", "--bare", str(origin), str(mirrors / "Some-Repo"))
    take_away(mirrors / "Some-Repo", *(f"HEAD:{number}.bin" for number in range(1, 9)))
    with files_of(pinned(origin), mirrors, build_log) as folder:
        assert listing(folder) == {"0.bin": b"0"}
    told = build_log.path.read_text()
    assert "lacks 8 files of the commit, which are left out: 1.bin, 2.bin, 3.bin, 4.bin, 5.bin and 3 more" in told


def test_an_incomplete_checkout_is_told_from_the_complete_one_and_from_other_incomplete_ones(
    mirror: Path, origin: Path, tmp_path: Path
) -> None:
    digests = [find_source(pinned(origin), tmp_path / "mirrors").digest]
    for name in ("HEAD:data/the same.bin", "HEAD:left-out.txt"):
        take_away(mirror, name)
        digests.append(find_source(pinned(origin), tmp_path / "mirrors").digest)
    assert digests[0] == find_source(pinned(origin), None).digest == pinned(origin).commit
    assert len(set(digests)) == 3
    assert find_source(pinned(origin), tmp_path / "mirrors").digest == digests[2]


@pytest.mark.parametrize("part", ["HEAD:data", "HEAD^{tree}"])
def test_a_mirror_that_lacks_a_folder_is_an_error_with_the_way_out(
    mirror: Path, origin: Path, tmp_path: Path, part: str
) -> None:
    take_away(mirror, part)
    with pytest.raises(BuildError, match=r"lacks folders of commit \w+; bring it up to date, or leave out --reposit"):
        find_source(pinned(origin), tmp_path / "mirrors")


# ---------------------------------------------------------------- what else can go wrong


def test_a_build_within_a_hook_of_git_does_not_touch_that_repository(
    origin: Path, build_log: BuildLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, lacking = tmp_path / "other", tmp_path / "mirrors" / "Some-Repo"
    git(tmp_path, "clone", "-q", str(origin), str(other))
    git(tmp_path, "clone", "-q", "--bare", str(origin), str(lacking))
    take_away(lacking, "HEAD:data/the same.bin")
    before = (other / ".git" / "index").read_bytes()
    repository = pinned(origin)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    with files_of(repository, None, build_log) as folder:
        assert listing(folder) == EXPECTED
    with files_of(repository, tmp_path / "mirrors", build_log) as folder:
        assert listing(folder) == SMALL
    assert (other / ".git" / "index").read_bytes() == before


def test_a_url_that_does_not_answer_is_an_error_that_offers_mirrors(build_log: BuildLog, tmp_path: Path) -> None:
    absent = Checkout("Some-Repo", (tmp_path / "nowhere").as_uri(), "1" * 40, "Some-Repo")
    with pytest.raises(BuildError, match="--repositories DIR"), files_of(absent, None, build_log):
        pass


def fake_git(folder: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "bin").mkdir()
    file = folder / "bin" / "git"
    file.write_text(program)
    file.chmod(0o755)
    monkeypatch.setenv("PATH", str(file.parent), prepend=os.pathsep)


def test_a_git_that_hangs_is_stopped(
    origin: Path, build_log: BuildLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = pinned(origin)
    fake_git(tmp_path, "#!/bin/sh\nexec sleep 60\n", monkeypatch)
    monkeypatch.setattr(checkout, "GIT_SECONDS", 0.2)
    with pytest.raises(BuildError, match="not finished after"), files_of(repository, None, build_log):
        pass


def test_a_machine_without_git_is_told_so(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = pinned(origin)
    (tmp_path / "mirrors" / "Some-Repo" / ".git").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="git is not installed"):
        find_source(repository, tmp_path / "mirrors")
