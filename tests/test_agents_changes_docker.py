"""What agents change is taken out of their containers: all that counts, nothing that does harm, and not without end."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.overlay_archive import check
from ml_bench_metric.tasks import load_tasks
from ml_bench_solvers.agents import changes as module
from ml_bench_solvers.agents.budget import Budget, Meter, Purse
from ml_bench_solvers.agents.changes import ChangeLimits, Changes, ChangesTooLarge, read_script
from ml_bench_solvers.agents.docker_workspace import DockerWorkspace, Site
from ml_bench_solvers.agents.trajectory import Trajectory

pytestmark = pytest.mark.docker

ROOT = "workspace/tiny-forecast"

Take = Callable[..., Changes]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "changes.tar"


@pytest.fixture
def take(docker_sandbox: DockerSandbox, sample_image: str, tmp_path: Path, archive: Path) -> Iterator[Take]:
    """Returns what is taken behind a command in the repository's folder."""
    task = load_tasks("sample", "A").by_id["tiny-forecast/9"]
    image = TaskImage(docker_sandbox.image_digest(sample_image))

    def work(command: str, **limits: int) -> Changes:
        site = Site(changes=ChangeLimits.model_validate(limits))
        meter = Meter(Budget(), Purse(None))
        with (
            Trajectory(tmp_path / "t") as steps,
            DockerWorkspace(docker_sandbox, task, image, site, meter, steps) as workspace,
        ):
            ran = workspace.exec(command)
            assert ran.status == 0, ran.output
            return workspace.changes(archive)

    yield work


def members(archive: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(archive) as tar:
        return {member.name.removeprefix(f"{ROOT}/"): member for member in tar}


def content(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as tar:
        file = tar.extractfile(f"{ROOT}/{name}")
        assert file is not None
        return file.read()


EVERYTHING = """
echo text > new.txt; mkdir -p deep/er; echo in > deep/er/file; : > 'a
b'; echo x >> dataset/harbour.csv
ln -s /etc to-etc; ln -s nowhere dangling; echo one > h1; ln h1 h2
cp /bin/true setid; chmod 6755 setid; chmod 000 new.txt
mkfifo pipe; python -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'
rm run.py; rm -r data_provider
rm -r models; echo now a file > models
rm README.md; mkdir README.md; echo in > README.md/in
rm -r utils; mkdir utils; echo new > utils/new.py
rm -r exp; ln -s /etc exp
echo out > ~/outside; echo tmp > /tmp/x
"""


@pytest.mark.parametrize("separately", [64, 0], ids=["one by one", "the whole folder, filtered"])
def test_changes_of_every_kind(take: Take, archive: Path, separately: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SEPARATELY", separately)
    found = take(EVERYTHING)
    there = members(archive)
    kinds = {name: "lf"[member.isreg()] for name, member in there.items() if not member.isdir()}
    assert kinds == {
        **dict.fromkeys(("new.txt", "deep/er/file", "a\nb", "dataset/harbour.csv", "h1", "h2", "setid"), "f"),
        **dict.fromkeys(("models", "README.md/in", "utils/new.py"), "f"),
        **dict.fromkeys(("to-etc", "dangling", "exp"), "l"),
    }
    assert all(there[name].isdir() for name in ("deep", "deep/er", "README.md", "utils"))
    assert (there["to-etc"].linkname, there["exp"].linkname) == ("/etc", "/etc")
    assert content(archive, "h1") == content(archive, "h2") == b"one\n"
    assert content(archive, "dataset/harbour.csv").endswith(b"x\n")
    assert there["setid"].mode == 0o755
    assert {(member.uid, member.gid) for member in there.values()} == {(1000, 1000)}
    gone = {path.removeprefix(f"/{ROOT}/") for path in found.deleted}
    assert {"run.py", "data_provider"} <= gone
    # Of what was put in the place of a folder, the engine may call the folder or what was in it deleted.
    assert {path.partition("/")[0] for path in gone} <= {
        "run.py",
        "data_provider",
        "utils",
        "exp",
        "models",
        "README.md",
    }
    dropped = dict(line.split(": ", 1) for line in found.dropped)
    assert dropped == {
        f"/{ROOT}/pipe": "neither file, folder nor link",
        f"/{ROOT}/sock": "neither file, folder nor link",
        "/home/candidate/outside": "outside",
    }
    overlay = found.overlay(archive)
    assert overlay is not None
    check(overlay)


def test_nothing_is_taken_where_nothing_was_changed(take: Take, archive: Path) -> None:
    found = take("cat README.md > /dev/null; : > x; rm x; echo x > /tmp/run.sh; chmod 700 exp")
    assert (found.digest, found.files, found.deleted, found.dropped) == ("", 0, (), ())
    assert not archive.exists()
    assert read_script(archive, f"/{ROOT}/run.sh") is None


def test_equal_changes_have_equal_digests_whatever_way_they_were_made(take: Take, archive: Path) -> None:
    touch = "touch -d @1700000000 x y; touch -d @1700000000 ."
    first = take(f"echo 1 > x; echo 2 > y; rm run.py; {touch}")
    whole = archive.read_bytes()
    assert take(f"echo 2 > y; rm run.py; echo 0 > x; echo 1 > x; {touch}").digest == first.digest
    assert archive.read_bytes() == whole
    assert take(f"echo 1 > x; echo 2 > y; {touch}").digest != first.digest


def test_a_repository_that_is_replaced_by_a_link_brings_nothing_along(take: Take, archive: Path) -> None:
    found = take("cd /workspace; mv tiny-forecast away; ln -s /etc tiny-forecast")
    assert found.files == 0
    assert found.deleted == (f"/{ROOT}",)
    assert any("no folder any more" in line for line in found.dropped)


@pytest.mark.parametrize(
    ("command", "limits", "message"),
    [
        ("seq 25000 | xargs touch", {}, "more than 20000 files"),
        ("mkdir d; cd d; seq 300 | xargs touch", {"files": 200}, "more than 200 files"),
        (
            "head -c 3000000 /dev/zero > a; head -c 3000000 /dev/zero > b",
            {"bytes": 5_000_000},
            "more than 5000000 bytes",
        ),
        ("truncate -s 8G sparse", {}, "more than 536870912 bytes"),
        ("head -c 3000 /dev/zero > a; ln a b", {"bytes": 5000}, "more than 5000 bytes"),
    ],
    ids=["25,000 files", "files in a folder", "bytes", "a sparse file", "a file under two names"],
)
def test_more_than_may_be_left_is_the_agents_own_failure(
    take: Take, command: str, limits: dict[str, int], message: str
) -> None:
    with pytest.raises(ChangesTooLarge, match=message):
        take(command, **limits)


def test_a_script_is_read_from_what_was_taken_and_only_where_it_is_a_file(take: Take, archive: Path) -> None:
    take("echo hello > run.sh; ln -s run.sh link.sh; mkdir folder.sh; printf '\\377' > bytes.sh")
    assert read_script(archive, f"/{ROOT}/run.sh") == "hello\n"
    assert read_script(archive, f"/{ROOT}/bytes.sh") == "\ufffd"
    for name in ("link.sh", "folder.sh", "run.py"):
        assert read_script(archive, f"/{ROOT}/{name}") is None
    assert read_script(archive, f"/{ROOT}/run.sh", limit=3) is None
