"""Environments: recipes, what goes into an image, host settings, checkouts, and finding images. No engine needed."""

from __future__ import annotations

import dataclasses
import io
import os
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ml_bench_dataset
import ml_bench_sample
from ml_bench_cli import main as command
from ml_bench_metric.environments import base, checkout, registry
from ml_bench_metric.environments.base import Base, BaseUnknown, find_base, make_base
from ml_bench_metric.environments.build import environment_digest, packages_digest
from ml_bench_metric.environments.build_log import BuildError, BuildLog
from ml_bench_metric.environments.checkout import checked_out, find_mirrors
from ml_bench_metric.environments.files import fingerprint, packed
from ml_bench_metric.environments.host_settings import HostSettings, host_settings
from ml_bench_metric.environments.images import (
    LAYER,
    ORIGIN,
    RECIPE,
    RECIPE_NAME,
    REPOSITORIES,
    find_image,
    list_images,
)
from ml_bench_metric.environments.recipe import Checkout, Recipe, RecipeError, read_recipe
from ml_bench_metric.environments.registry import EnvironmentUnknown, recipe_for, recipes, select

BASE = Base("sha256:" + "0" * 64, "bootstrap bookworm")


def write_recipe(root: Path, name: str, text: str) -> Path:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "environment.yaml").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def log(tmp_path: Path) -> Iterator[BuildLog]:
    with BuildLog(tmp_path / "logs" / "x.log", lambda line: None, "x") as opened:
        yield opened


# ---------------------------------------------------------------- recipes


def test_every_repository_of_the_sample_has_an_environment_at_its_own_folder() -> None:
    tasks = ml_bench_dataset.read_split("sample", "L").rows
    for name in {str(row["repository"]) for row in tasks}:
        recipe = recipe_for(name)
        assert recipe.name == "sample"
        assert (ml_bench_sample.repositories() / recipe.directories[name]).is_dir()


def test_a_benchmark_repository_comes_at_the_commit_and_folder_that_the_data_set_says() -> None:
    recipe = recipe_for("External-Attention-pytorch")
    (found,) = recipe.checkouts
    assert found.commit == "90e774ed4a2a734fe91dde6a4a737de0f0c54122"
    assert found.url == "https://github.com/xmu-xiaoma666/External-Attention-pytorch"
    assert recipe.directories == {"External-Attention-pytorch": "External-Attention-pytorch"}
    assert recipe.image == "ml-bench/external-attention-pytorch"


def test_an_unknown_repository_names_the_known_ones_and_the_likely_one() -> None:
    with pytest.raises(EnvironmentUnknown) as error:
        recipe_for("external-attention-pytorh")
    assert "Did you mean External-Attention-pytorch?" in str(error.value)
    assert "tiny-gan" in str(error.value)


def test_selection_takes_recipes_and_repositories_each_once() -> None:
    assert [recipe.name for recipe in select(["tiny-gan", "sample", "tiny-text"])] == ["sample"]
    assert select([]) == recipes()
    with pytest.raises(EnvironmentUnknown):
        select(["sample", "nothing"])


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "must be a mapping"),
        ("name: [x", "is not YAML"),
        ('python: "3.11"\npackage: p', "name:"),
        ("name: r\npython: 3.11\npackage: p", "python:"),
        ('name: r\npython: "2.7"\npackage: p', "python:"),
        ('name: r\npython: "3.11"\npip: [numpy]\npackage: p', "pip[0]:"),
        ('name: r\npython: "3.11"\npip: [numpy==1.0, "a==1; rm -rf /"]\npackage: p', "pip[1]:"),
        ('name: r\npython: "3.11"\npip: ["--index-url==1"]\npackage: p', "pip[0]:"),
        ('name: r\npython: "3.11"\napt: ["-o X"]\npackage: p', "apt[0]:"),
        ('name: r\npython: "3.11"\nimports: ["os; evil()"]\npackage: p', "imports[0]:"),
        ('name: r\npython: "3.11"\nscripts: [../../etc/passwd]\npackage: p', "scripts[0]:"),
        ('name: r\npython: "3.11"\nscripts: [nothing.py]\npackage: p', "scripts: there is no file"),
        ('name: r\npython: "3.11"\nenvironment: {A: 1}\npackage: p', "environment.A:"),
        ('name: r\npython: "3.11"\nenvironment: {A B: x}\npackage: p', "environment.A B"),
        ('name: r\npython: "3.11"\ncolour: blue\npackage: p', "colour:"),
        ('name: r\npython: "3.11"\nfolder: /tmp\npackage: p', "folder:"),
        ('name: r\npython: "3.11"\nrepositories: [DAGNN]', "no commit of 'DAGNN'"),
        ('name: r\npython: "3.11"', "either repositories or package"),
        ('name: r\npython: "3.11"\nrepositories: [dgl]\npackage: p', "either repositories or package"),
        ('name: other\npython: "3.11"\npackage: p', "name: is 'other', but the folder is 'r'"),
    ],
)
def test_a_faulty_recipe_is_refused_with_file_and_field(tmp_path: Path, text: str, field: str) -> None:
    folder = write_recipe(tmp_path, "r", text)
    with pytest.raises(RecipeError) as error:
        read_recipe(folder)
    assert str(folder / "environment.yaml") in str(error.value)
    assert field in str(error.value)


@pytest.mark.parametrize("name", ["base", "Packages"])
def test_a_recipe_cannot_take_the_name_of_a_layer(tmp_path: Path, name: str) -> None:
    write_recipe(tmp_path, name, f'name: {name}\npython: "3.11"\npackage: p')
    with pytest.raises(RecipeError, match="reserved"):
        recipes(tmp_path)


def test_recipes_that_differ_in_case_only_are_refused_because_their_images_would_be_one(tmp_path: Path) -> None:
    for name in ("one", "ONE"):
        write_recipe(tmp_path, name, f'name: {name}\npython: "3.11"\npackage: p')
    with pytest.raises(RecipeError, match="case only"):
        recipes(tmp_path)


@pytest.mark.parametrize("package", ["no_such_package", "json"])
def test_a_package_without_repositories_is_a_fault_of_the_recipe(tmp_path: Path, package: str) -> None:
    recipe = read_recipe(write_recipe(tmp_path, "r", f'name: r\npython: "3.11"\npackage: {package}'))
    with pytest.raises(RecipeError, match=f"package: {package} cannot be used"):
        _ = recipe.directories


# ---------------------------------------------------------------- what tells one image from another


@pytest.fixture
def repositories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repositories"
    (folder / "one").mkdir(parents=True)
    (folder / "one" / "a.py").write_text("print(1)\n")
    monkeypatch.setitem(sys.modules, "some_repositories", SimpleNamespace(repositories=lambda: folder))
    return folder


RECIPE_TEXT = 'name: r\npython: "3.11"\npip: [numpy==1.26.4]\nscripts: [s.py]\npackage: some_repositories\n'


@pytest.fixture
def recipe(tmp_path: Path, repositories: Path) -> Recipe:
    folder = write_recipe(tmp_path, "r", RECIPE_TEXT)
    (folder / "s.py").write_text("print('script')")
    return read_recipe(folder)


def change_file(recipe: Recipe, repositories: Path) -> None:
    (repositories / "one" / "a.py").write_text("print(2)\n")


def add_file(recipe: Recipe, repositories: Path) -> None:
    (repositories / "one" / "b.py").touch()


def add_repository(recipe: Recipe, repositories: Path) -> None:
    (repositories / "two").mkdir()


def make_executable(recipe: Recipe, repositories: Path) -> None:
    (repositories / "one" / "a.py").chmod(0o755)


def change_script(recipe: Recipe, repositories: Path) -> None:
    (recipe.folder / "s.py").write_text("print('another')")


Change = Callable[[Recipe, Path], None]


@pytest.mark.parametrize("change", [change_file, add_file, add_repository, make_executable, change_script])
def test_every_change_of_content_gives_the_image_another_name(
    recipe: Recipe, repositories: Path, change: Change
) -> None:
    before = environment_digest(recipe, BASE)
    change(recipe, repositories)
    assert environment_digest(recipe, BASE) != before


@pytest.mark.parametrize(
    ("update", "packages_change"),
    [
        ({"pip": ("numpy==1.26.3",)}, True),
        ({"apt": ("procps",)}, True),
        ({"pip_index": "https://example.org/simple"}, True),
        ({"scripts": ()}, True),
        ({"imports": ("numpy",)}, False),
        ({"environment": {"A": "b"}}, False),
    ],
)
def test_a_changed_recipe_makes_only_its_own_layers_again(
    recipe: Recipe, update: dict[str, Any], packages_change: bool
) -> None:
    changed = recipe.model_copy(update=update)
    assert environment_digest(changed, BASE) != environment_digest(recipe, BASE)
    assert (packages_digest(changed, BASE) != packages_digest(recipe, BASE)) is packages_change


def test_another_base_makes_everything_again(recipe: Recipe) -> None:
    other = dataclasses.replace(BASE, digest="sha256:" + "1" * 64)
    assert packages_digest(recipe, other) != packages_digest(recipe, BASE)
    assert environment_digest(recipe, other) != environment_digest(recipe, BASE)


def test_what_does_not_go_into_an_image_does_not_change_its_name(recipe: Recipe, repositories: Path) -> None:
    before = environment_digest(recipe, BASE)
    cache = repositories / "one" / "__pycache__"
    cache.mkdir()
    (cache / "a.pyc").write_bytes(b"x")
    os.utime(repositories / "one" / "a.py", (1, 1))
    assert environment_digest(recipe.model_copy(update={"notes": "more"}), BASE) == before


# ---------------------------------------------------------------- files


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


# ---------------------------------------------------------------- settings of the host


def settings(listing: str, **environ: str) -> HostSettings:
    return host_settings(environ, listing)


def test_wheels_indexes_certificates_and_constraints_are_mounted_and_named_as_the_container_sees_them(
    tmp_path: Path,
) -> None:
    for name in ("wheels", "index/simple"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("ca.pem", "constraints.txt"):
        (tmp_path / name).touch()
    found = settings(
        f"global.find-links='{tmp_path}/wheels https://example.org/wheels'\n"
        f"global.extra-index-url='file://{tmp_path}/index/simple https://user:word@example.org/simple'\n"
        f"global.constraint='{tmp_path}/constraints.txt'\n"
        f":env:.cert='{tmp_path}/ca.pem'\n",
        REQUESTS_CA_BUNDLE=f"{tmp_path}/ca.pem",
    )
    inside = f"/run/host{tmp_path}"
    assert found.variables == {
        "PIP_FIND_LINKS": f"{inside}/wheels https://example.org/wheels",
        "PIP_EXTRA_INDEX_URL": f"file://{inside}/index/simple https://user:word@example.org/simple",
        "PIP_CONSTRAINT": f"{inside}/constraints.txt",
        "PIP_CERT": f"{inside}/ca.pem",
        "REQUESTS_CA_BUNDLE": f"{inside}/ca.pem",
    }
    # The pages of an index link to files beside its folder, so that folder's parent is needed.
    mounted = (f"{tmp_path}/ca.pem", f"{tmp_path}/constraints.txt", f"{tmp_path}/index", f"{tmp_path}/wheels")
    assert found.mounts == {path: "/run/host" + path for path in mounted}


def test_pips_own_order_of_precedence_holds() -> None:
    listing = ":env:.index-url='https://c'\ninstall.index-url='https://b'\nglobal.index-url='https://a'\n"
    assert settings(listing).variables == {"PIP_INDEX_URL": "https://c"}
    assert settings("\n".join(listing.splitlines()[1:])).variables == {"PIP_INDEX_URL": "https://b"}


def test_settings_about_where_to_install_stay_on_the_host() -> None:
    listing = (
        "global.target='/x'\ninstall.user='true'\n:env:.require-virtualenv='1'\n:env:.cache-dir='/c'\n"
        "download.index-url='https://not-for-install'\n:env:.no-index='1'"
    )
    assert settings(listing).variables == {"PIP_NO_INDEX": "1"}


def test_proxies_are_handed_on_in_either_case() -> None:
    found = settings("", http_proxy="http://p:1", HTTPS_PROXY="http://p:2", no_proxy="", OTHER="x")
    assert found == HostSettings({"http_proxy": "http://p:1", "HTTPS_PROXY": "http://p:2"}, {})


def test_a_path_that_is_not_there_is_left_for_pip_to_complain_about() -> None:
    assert settings("global.cert='/nowhere/ca.pem'") == HostSettings({"PIP_CERT": "/nowhere/ca.pem"}, {})


def test_a_file_within_a_mounted_folder_is_not_mounted_twice(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    found = settings("", SSL_CERT_DIR=str(tmp_path), SSL_CERT_FILE=f"{tmp_path}/ca.pem")
    assert list(found.mounts) == [str(tmp_path)]
    assert found.variables["SSL_CERT_FILE"] == f"/run/host{tmp_path}/ca.pem"


def test_pip_itself_is_asked_where_no_listing_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://example.org/simple")
    assert host_settings({}).variables["PIP_INDEX_URL"] == "https://example.org/simple"


# ---------------------------------------------------------------- checkouts


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose attributes would change what `git archive` and a user's settings give."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "run.sh").write_bytes(b"echo hi\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "left-out.txt").write_bytes(b"$Format:%H$\n")
    (folder / ".gitattributes").write_bytes(b"left-out.txt export-ignore\n")
    (folder / "link").symlink_to("run.sh")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def pinned(origin: Path, commit: str | None = None) -> Checkout:
    return Checkout("Some-Repo", origin.as_uri(), commit or git(origin, "rev-parse", "HEAD"), "Some-Repo")


def listing(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


EXPECTED = {
    "run.sh": b"echo hi\n",
    "link": b"echo hi\n",
    "left-out.txt": b"$Format:%H$\n",
    ".gitattributes": b"left-out.txt export-ignore\n",
}


def test_a_clone_has_exactly_the_commits_files_whatever_git_is_configured_to_do(
    origin: Path, log: BuildLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = tmp_path / "gitconfig"
    configuration.write_text("[core]\n\tautocrlf = true\n\tsymlinks = false\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    repository = pinned(origin)
    (origin / "later.txt").touch()
    git(origin, "add", "-A")
    git(origin, "commit", "-qm", "second")
    with checked_out(repository, None, log) as folder:
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
    origin: Path, log: BuildLog, tmp_path: Path, place: str, bare: bool
) -> None:
    mirror = tmp_path / "mirrors" / place
    git(tmp_path, "clone", "-q", *(["--bare"] if bare else []), str(origin), str(mirror))
    nowhere = dataclasses.replace(pinned(origin), url="file:///nowhere")
    with checked_out(nowhere, tmp_path / "mirrors", log) as folder:
        assert listing(folder) == EXPECTED


@pytest.mark.parametrize("place", ["Other-Some-Repo", "Some-Repo-2", "x/Some", "1/2/3/Some-Repo"])
def test_a_repository_of_another_name_is_no_mirror(origin: Path, tmp_path: Path, place: str) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(origin), str(tmp_path / "mirrors" / place))
    assert find_mirrors(tmp_path / "mirrors", "Some-Repo") == []


def test_a_mirror_without_the_commit_is_an_error_that_says_how_to_get_it(
    origin: Path, log: BuildLog, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(origin), str(tmp_path / "mirrors" / "Some-Repo"))
    absent = "1" * 40
    with pytest.raises(BuildError) as error, checked_out(pinned(origin, absent), tmp_path / "mirrors", log):
        pass
    assert f"git fetch {origin.as_uri()} {absent}" in str(error.value)
    assert str(tmp_path / "mirrors" / "Some-Repo") in str(error.value)


def test_of_two_mirrors_the_one_with_the_commit_is_taken(origin: Path, log: BuildLog, tmp_path: Path) -> None:
    mirrors = tmp_path / "mirrors"
    empty = mirrors / "a+Some-Repo"
    empty.mkdir(parents=True)
    git(empty, "init", "-q")
    git(tmp_path, "clone", "-q", "--bare", str(origin), str(mirrors / "b+Some-Repo"))
    with checked_out(pinned(origin), mirrors, log) as folder:
        assert listing(folder) == EXPECTED


def test_a_mirror_that_lacks_a_file_is_an_error_that_names_the_file(
    origin: Path, log: BuildLog, tmp_path: Path
) -> None:
    mirror = tmp_path / "mirrors" / "Some-Repo"
    git(tmp_path, "clone", "-q", str(origin), str(mirror))
    blob = git(mirror, "rev-parse", "HEAD:run.sh")
    (mirror / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with (
        pytest.raises(BuildError, match=r"lacks files of commit(.|\n)*run\.sh"),
        checked_out(pinned(origin), tmp_path / "mirrors", log),
    ):
        pass


def test_a_build_within_a_hook_of_git_does_not_touch_that_repository(
    origin: Path, log: BuildLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", str(origin), str(other))
    before = (other / ".git" / "index").read_bytes()
    repository = pinned(origin)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    with checked_out(repository, None, log) as folder:
        assert listing(folder) == EXPECTED
    assert (other / ".git" / "index").read_bytes() == before


def test_a_url_that_does_not_answer_is_an_error_that_offers_mirrors(log: BuildLog, tmp_path: Path) -> None:
    absent = Checkout("Some-Repo", (tmp_path / "nowhere").as_uri(), "1" * 40, "Some-Repo")
    with pytest.raises(BuildError, match="--repositories DIR"), checked_out(absent, None, log):
        pass


def test_a_git_that_hangs_is_stopped(
    origin: Path, log: BuildLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "git"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    repository = pinned(origin)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setattr(checkout, "GIT_SECONDS", 0.2)
    with pytest.raises(BuildError, match="not finished after"), checked_out(repository, None, log):
        pass


# ---------------------------------------------------------------- log and errors


def test_an_error_ends_with_the_last_lines_of_its_own_step(log: BuildLog) -> None:
    with log.step("earlier"):
        log.write(b"not this\n")
    with log.step("later"):
        log.write(b"".join(b"line %d\n" % number for number in range(30)) + b"1 %\r100 %\n\xff\n")
    text = str(log.error("later", "ended with status 1"))
    assert text.startswith("x: later: ended with status 1.")
    assert str(log.path) in text
    assert text.splitlines()[1:4] == ["    line 13", "    line 14", "    line 15"]
    assert text.endswith("    1 %\n    100 %\n    \N{REPLACEMENT CHARACTER}")
    assert "not this" not in text


def test_a_full_disk_is_named_with_the_way_out(log: BuildLog) -> None:
    with log.step("pip"):
        log.write(b"OSError: [Errno 28] No space left on device\n")
    assert "docker system df" in str(log.error("pip", "ended with status 1"))


def test_a_program_of_the_host_is_stopped_with_its_children(log: BuildLog, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    script = f"trap '' TERM INT; (sleep 1; touch {mark}) & sleep 60"
    with pytest.raises(BuildError, match="not finished after"):
        log.run(["sh", "-c", script], seconds=0.2)
    time.sleep(1.2)
    assert not mark.exists()


def test_a_log_that_cannot_be_written_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "x.log").mkdir()
    with pytest.raises(BuildError, match=r"x\.log: Is a directory; .*XDG_CACHE_HOME"):
        BuildLog(tmp_path / "x.log", lambda line: None, "x")


def test_a_program_that_is_not_installed_is_named(log: BuildLog) -> None:
    with pytest.raises(BuildError, match="no-such-program is not installed"):
        log.run(["no-such-program"], seconds=1)


# ---------------------------------------------------------------- the engine's images


def record(recipe: str, digit: str, created: int, *, latest: bool = False, repositories: str = "") -> dict[str, Any]:
    digest = digit * 64
    name = f"ml-bench/{recipe}:{digest[:12]}"
    labels = {LAYER: "environment", RECIPE: digest, RECIPE_NAME: recipe, REPOSITORIES: repositories or recipe}
    return {
        "Id": "sha256:" + digest,
        "RepoTags": [f"ml-bench/{recipe}:latest", name] if latest else [name],
        "Labels": labels,
        "Created": created,
        "Size": 1,
    }


class FakeEngine:
    """Answers with given records of images, and with nothing else."""

    def __init__(self, *records: dict[str, Any]) -> None:
        self.api = SimpleNamespace(images=lambda filters: list(records), pull=self.pull)

    def pull(self, *_: object, **__: object) -> Iterator[dict[str, str]]:
        yield {"error": "no such host"}


def test_the_image_built_last_serves_a_repository_even_if_another_is_younger() -> None:
    # A recipe that went back to an earlier state finds the earlier image unchanged.
    engine: Any = FakeEngine(record("r", "a", 1, latest=True), record("r", "b", 2), record("s", "c", 3, latest=True))
    assert find_image(engine, "r") == "ml-bench/r:aaaaaaaaaaaa"


def test_without_that_mark_the_youngest_image_serves() -> None:
    engine: Any = FakeEngine(record("r", "a", 1), record("r", "b", 2))
    assert find_image(engine, "r") == "ml-bench/r:bbbbbbbbbbbb"


def test_an_image_serves_the_repositories_of_its_label_and_no_other() -> None:
    engine: Any = FakeEngine(record("sample", "a", 1, repositories="tiny-gan,tiny-text"))
    assert find_image(engine, "tiny-text") == "ml-bench/sample:aaaaaaaaaaaa"
    assert find_image(engine, "tiny") is None
    assert find_image(engine, "sample") is None


def test_an_image_that_lost_its_name_is_not_offered() -> None:
    nameless = {**record("r", "a", 1), "RepoTags": None}
    engine: Any = FakeEngine(nameless, {**record("r", "b", 2), "RepoTags": ["other:tag"]})
    assert find_image(engine, "r") is None
    assert list_images(engine) == []


def test_images_are_listed_by_recipe_the_youngest_first() -> None:
    engine: Any = FakeEngine(record("s", "a", 5, latest=True), record("r", "b", 1), record("r", "c", 2, latest=True))
    assert [(image.recipe, image.created, image.current) for image in list_images(engine)] == [
        ("r", 2, True),
        ("r", 1, False),
        ("s", 5, True),
    ]


# ---------------------------------------------------------------- the base


def base_record(digit: str, origin: str, created: int) -> dict[str, Any]:
    return {"Id": digit, "Labels": {ORIGIN: origin}, "Created": created}


def test_any_base_will_do_unless_one_is_asked_for() -> None:
    engine: Any = FakeEngine(
        base_record("a", "pull python:3.11-slim-bookworm", 1), base_record("b", "bootstrap bookworm", 2)
    )
    for way, digest in (("auto", "b"), ("pull", "a"), ("bootstrap", "b")):
        found = find_base(engine, "3.11", way)
        assert found is not None
        assert found.digest == digest


def test_a_tar_file_is_known_again_by_its_content(tmp_path: Path) -> None:
    file = tmp_path / "base.tar"
    file.write_bytes(b"x")
    digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"  # sha256sum of x
    engine: Any = FakeEngine(base_record("a", f"tar {digest}", 1))
    assert find_base(engine, "3.11", str(file)) == Base("a", f"tar {digest}")
    file.write_bytes(b"y")
    assert find_base(engine, "3.11", str(file)) is None


def test_a_base_that_is_no_way_and_no_file_is_refused() -> None:
    engine: Any = FakeEngine()
    with pytest.raises(BaseUnknown, match=r"'nothing\.tar' is none of auto, pull, bootstrap"):
        find_base(engine, "3.11", "nothing.tar")


def test_where_nothing_gives_a_base_every_reason_and_the_way_out_are_told(
    log: BuildLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    engine: Any = FakeEngine()
    with pytest.raises(BuildError) as error:
        make_base(engine, "3.11", "auto", HostSettings({}, {}), log)
    for part in ("no such host", "debootstrap needs root", "sudo", "--base FILE.tar"):
        assert part in str(error.value)


def test_a_python_that_debian_has_not_cannot_be_bootstrapped(log: BuildLog) -> None:
    engine: Any = FakeEngine()
    with pytest.raises(BuildError, match=r"has Python 3\.11, wanted is 3\.7"):
        make_base(engine, "3.7", "bootstrap", HostSettings({}, {}), log)


def test_a_registry_that_swallows_packets_is_given_up(log: BuildLog, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def silent(*_: object, **__: object) -> Iterator[dict[str, str]]:
        over.wait(30)
        yield from ()

    monkeypatch.setattr(base, "FIRST_ANSWER_SECONDS", 0.1)
    engine: Any = FakeEngine()
    engine.api.pull = silent
    with pytest.raises(BuildError, match="said nothing"):
        make_base(engine, "3.11", "pull", HostSettings({}, {}), log)
    over.set()


@pytest.mark.parametrize("content", [b"", b"no tar", b"\x1f\x8b broken"])
def test_a_base_file_that_is_no_archive_of_a_system_is_refused(log: BuildLog, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "base.tar"
    file.write_bytes(content)
    engine: Any = FakeEngine()
    with pytest.raises(BuildError, match=r"it is (no tar file|neither an image)"):
        make_base(engine, "3.11", str(file), HostSettings({}, {}), log)


# ---------------------------------------------------------------- the command line


def _status(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr("sys.argv", ["ml-bench", "images", *arguments])
    with pytest.raises(SystemExit) as ended:
        command.main()
    return ended.value.code


def test_an_unknown_repository_on_the_command_line_is_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _status(monkeypatch, "build", "nothing") == 2
    assert "no environment for repository 'nothing'" in capsys.readouterr().err


def test_a_faulty_recipe_on_the_command_line_is_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_recipe(tmp_path, "r", "name: r")
    monkeypatch.setattr(registry, "recipes", lambda: recipes(tmp_path))
    assert _status(monkeypatch, "build") == 2
    assert "python: Field required" in capsys.readouterr().err
