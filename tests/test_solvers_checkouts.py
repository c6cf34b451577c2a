"""A repository's text is that of its commit, wherever it comes from; where it cannot be had, the way out is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_bench_metric.environments import checkout
from ml_bench_metric.sandbox.docker_engine import list_containers
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.protocol import SandboxError
from ml_bench_metric.tasks import Task, load_tasks
from ml_bench_solvers import checkouts
from ml_bench_solvers.checkouts import RepositoryTexts
from ml_bench_solvers.digest_cache import DigestCache
from ml_bench_solvers.prompt_error import RepositoryError
from ml_bench_solvers.repository_text import RepositoryText
from ml_bench_solvers.text_files import TextFile
from tests.recipe_builders import git, take_away
from tests.task_builders import task


@pytest.fixture(autouse=True)
def _own_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A git repository in whose work tree lies more than in its commit."""
    folder = tmp_path / "mirrors" / "somebody+Some-Repo"
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "README.md").write_bytes(b"# Title\r\n")
    (folder / "a.py").write_text("x = 1\n")
    (folder / "picture.png").write_bytes(b"\x89PNG\0")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    (folder / "later.py").write_text("not in the commit")
    (folder / "a.py").write_text("changed since")
    return folder


def pinned(origin: Path, **changes: object) -> Task:
    return task(
        **{"github": (origin.parent / "Some-Repo").as_uri(), "commit": git(origin, "rev-parse", "HEAD"), **changes}
    )


def listing(text: RepositoryText) -> dict[str, str]:
    return {file.path: file.text for file in text.files}


COMMITTED = {"README.md": "# Title", "a.py": "x = 1"}


@pytest.mark.parametrize("bare", [False, True])
def test_from_a_mirror_the_text_is_that_of_the_commit_and_not_of_the_work_tree(
    origin: Path, tmp_path: Path, bare: bool
) -> None:
    mirrors = origin.parent
    if bare:
        mirrors = tmp_path / "bare"
        git(tmp_path, "clone", "-q", "--bare", str(origin), str(mirrors / "Some-Repo.git"))
    assert listing(RepositoryTexts(mirrors).text_of(pinned(origin))) == COMMITTED


def test_without_a_mirror_the_repository_is_cloned(origin: Path) -> None:
    git(origin, "config", "uploadpack.allowAnySHA1InWant", "true")
    found = RepositoryTexts().text_of(pinned(origin, github=origin.as_uri()))
    assert listing(found) == COMMITTED


def test_a_folder_that_is_no_git_repository_is_taken_as_it_is_which_is_said(tmp_path: Path) -> None:
    (tmp_path / "Some-Repo").mkdir()
    (tmp_path / "Some-Repo" / "b.py").write_text("y = 2")
    said: list[str] = []
    texts = RepositoryTexts(tmp_path, progress=said.append)
    assert listing(texts.text_of(task())) == {"b.py": "y = 2"}
    assert ["taken as it is" in line for line in said] == [True]


def test_the_samples_repositories_come_with_their_package() -> None:
    sample = next(iter(load_tasks("sample", "L").tasks))
    found = RepositoryTexts().text_of(sample)
    assert found.files[0].path == "README.md"
    assert "train.py" in listing(found)
    assert not [file.path for file in found.files if file.path.endswith(".npz")]


def test_a_text_in_the_cache_is_not_checked_out_again(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = DigestCache("texts", tmp_path)
    first = RepositoryTexts(origin.parent, cache=cache).text_of(pinned(origin))
    monkeypatch.setattr(checkouts, "checked_out", None)
    assert RepositoryTexts(origin.parent, cache=cache).text_of(pinned(origin)) == first


def test_a_commit_and_a_mirror_that_lacks_files_have_texts_of_their_own(origin: Path, tmp_path: Path) -> None:
    cache = DigestCache("texts", tmp_path)
    first = pinned(origin)
    RepositoryTexts(origin.parent, cache=cache).text_of(first)
    git(origin, "add", "-A")
    git(origin, "commit", "-qm", "second")
    assert "later.py" in listing(RepositoryTexts(origin.parent, cache=cache).text_of(pinned(origin)))
    take_away(origin, f"{first.commit}:README.md")
    said: list[str] = []
    assert listing(RepositoryTexts(origin.parent, cache=cache, progress=said.append).text_of(first)) == {
        "a.py": "x = 1"
    }
    assert any("lacks 1 files" in line for line in said)


@pytest.mark.parametrize("content", [b"", b"x", b"\0" * 100])
def test_a_damaged_entry_of_the_cache_is_made_again(origin: Path, tmp_path: Path, content: bytes) -> None:
    cache = DigestCache("texts", tmp_path)
    RepositoryTexts(origin.parent, cache=cache).text_of(pinned(origin))
    (entry,) = cache.folder.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(content)
    assert listing(RepositoryTexts(origin.parent, cache=cache).text_of(pinned(origin))) == COMMITTED
    assert entry.read_bytes() == whole


def test_an_entry_that_another_version_wrote_is_made_again(origin: Path, tmp_path: Path) -> None:
    class OtherVersions(DigestCache):
        def get(self, *parts: object) -> bytes:
            return b"whole, but of another form"

    found = RepositoryTexts(origin.parent, cache=OtherVersions("texts", tmp_path)).text_of(pinned(origin))
    assert listing(found) == COMMITTED


def test_what_failed_is_told_again_without_being_tried_again(
    origin: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unknown = pinned(origin, commit="0" * 40)
    texts = RepositoryTexts(origin.parent)
    with pytest.raises(RepositoryError, match="commit 0000") as first:
        texts.text_of(unknown)
    monkeypatch.setattr(checkout, "find_mirrors", None)
    with pytest.raises(RepositoryError) as second:
        texts.text_of(unknown)
    assert str(first.value) == str(second.value)


def test_a_repository_of_which_nothing_is_known_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match=r"no commit is known; give --repositories DIR with a folder Some-Repo"):
        RepositoryTexts(tmp_path).text_of(task())


def test_more_repositories_than_fit_into_memory_are_read_again(tmp_path: Path) -> None:
    names = [f"r{number}" for number in range(6)]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text(name)
    texts = RepositoryTexts(tmp_path)
    for name in (*names, *names):
        asked = task(github=f"https://example.org/{name}", repository=name)
        assert listing(texts.text_of(asked)) == {"a.py": name}


@pytest.mark.docker
def test_from_an_image_the_text_is_the_same_and_no_container_is_left(
    docker_sandbox: DockerSandbox, sample_image: str, tmp_path: Path
) -> None:
    sample = next(iter(load_tasks("sample", "L").tasks))
    before = {record["Id"] for record in list_containers(docker_sandbox.client)}
    cache = DigestCache("texts", tmp_path)
    found = RepositoryTexts(from_images=True, cache=cache).text_of(sample)
    assert found == RepositoryTexts().text_of(sample)
    assert {record["Id"] for record in list_containers(docker_sandbox.client)} <= before
    assert RepositoryTexts(from_images=True, cache=cache).text_of(sample) == found


def test_tasks_that_run_in_different_images_have_the_text_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.recipe_builders import FakeEngine, environment_record

    engine = FakeEngine(
        environment_record("general", "a", repositories="Some-Repo"),
        environment_record("special", "b", repositories="Some-Repo", tasks="Some-Repo/2"),
    )
    monkeypatch.setattr("ml_bench_metric.sandbox.docker_engine.connect", lambda: engine)
    monkeypatch.setattr(checkouts, "_in_image", lambda image, folder: (TextFile(image, folder),))
    texts = RepositoryTexts(from_images=True)
    found = [texts.text_of(task(id=number, task_id=f"Some-Repo/{number}")).files[0] for number in (1, 2, 3)]
    assert found[0] == found[2] != found[1]
    assert found[0].text == "/workspace/Some-Repo"


def test_an_engine_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refuse() -> None:
        asked.append(1)
        raise SandboxError("no answer from the engine")

    monkeypatch.setattr("ml_bench_metric.sandbox.docker_engine.connect", refuse)
    texts = RepositoryTexts(from_images=True)
    for _ in range(3):
        with pytest.raises(RepositoryError, match="no answer from the engine"):
            texts.text_of(task())
    assert len(asked) == 1


@pytest.mark.docker
def test_a_repository_without_an_image_is_an_error_that_says_how_to_build_it(docker_sandbox: DockerSandbox) -> None:
    with pytest.raises(RepositoryError, match="ml-bench images build Some-Repo"):
        RepositoryTexts(from_images=True).text_of(task())
