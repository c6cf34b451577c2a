"""The base image: what is taken for one, and what is said where none can be had."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, ImageNotFound
from requests.exceptions import ConnectionError as RequestsConnectionError

from ml_bench_metric.environments import base
from ml_bench_metric.environments.base import Base, BaseUnknown, find_base, installed_python, make_base
from ml_bench_metric.environments.build_log import BuildError, BuildLog
from ml_bench_metric.environments.host_settings import NO_SETTINGS
from ml_bench_metric.environments.images import ORIGIN
from tests.recipe_builders import FakeEngine


def base_record(digit: str, origin: str, created: int, names: list[str] | None = None) -> dict[str, Any]:
    names = [f"ml-bench/base:{digit}"] if names is None else names
    return {"Id": digit, "Labels": {ORIGIN: origin}, "Created": created, "RepoTags": names}


def test_any_base_will_do_unless_one_is_asked_for() -> None:
    engine: Any = FakeEngine(
        base_record("a", "pull python:3.11-slim-bookworm", 1), base_record("b", "bootstrap bookworm", 2)
    )
    for way, digest in (("auto", "b"), ("pull", "a"), ("bootstrap", "b")):
        found = find_base(engine, "3.11", way)
        assert found is not None
        assert (found.digest, found.name) == (digest, f"ml-bench/base:{digest}")


def test_a_base_that_lost_its_name_is_not_taken() -> None:
    engine: Any = FakeEngine(base_record("a", "bootstrap bookworm", 1, []))
    assert find_base(engine, "3.11", "auto") is None


def test_bases_of_another_python_or_platform_are_not_asked_for() -> None:
    asked: list[tuple[str, ...]] = []

    def images(filters: dict[str, list[str]]) -> list[dict[str, Any]]:
        asked.append(tuple(filters["label"]))
        return []

    engine: Any = FakeEngine()
    engine.api.images = images
    for python, platform in (("3.11", ""), ("3.7", ""), ("3.11", "linux/arm64")):
        assert find_base(engine, python, "auto", platform) is None
    assert len(set(asked)) == 3


def test_a_tar_file_is_known_again_by_its_content(tmp_path: Path) -> None:
    file = tmp_path / "base.tar"
    file.write_bytes(b"x")
    digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"  # sha256sum of x
    engine: Any = FakeEngine(base_record("a", f"tar {digest}", 1))
    assert find_base(engine, "3.11", str(file)) == Base("a", f"tar {digest}", "", "ml-bench/base:a")
    file.write_bytes(b"y")
    assert find_base(engine, "3.11", str(file)) is None


def test_a_base_that_is_no_way_and_no_file_is_refused() -> None:
    engine: Any = FakeEngine()
    with pytest.raises(BaseUnknown, match=r"'nothing\.tar' is none of auto, pull, bootstrap"):
        find_base(engine, "3.11", "nothing.tar")


def test_where_nothing_gives_a_base_every_reason_and_the_way_out_are_told(
    build_log: BuildLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    engine: Any = FakeEngine()
    with pytest.raises(BuildError) as error:
        make_base(engine, "3.11", "auto", NO_SETTINGS, build_log)
    for part in ("no such host", "debootstrap needs root", "sudo", "--base FILE.tar"):
        assert part in str(error.value)


@pytest.mark.parametrize("content", [b"", b"no tar", b"\x1f\x8b broken"])
def test_a_base_file_that_is_no_archive_of_a_system_is_refused(
    build_log: BuildLog, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "base.tar"
    file.write_bytes(content)
    engine: Any = FakeEngine()
    with pytest.raises(BuildError, match=r"it is (no tar file|neither an image)"):
        make_base(engine, "3.11", str(file), NO_SETTINGS, build_log)


# ---------------------------------------------------------------- registries


def refused(build_log: BuildLog, pull: Any) -> str:
    """Return what is said, in its first line, where a pull ends in such a way."""
    engine: Any = FakeEngine()
    engine.api.pull = pull
    with pytest.raises(BuildError) as error:
        make_base(engine, "3.11", "pull", NO_SETTINGS, build_log)
    return str(error.value).splitlines()[0]


def says(text: str) -> Any:
    def pull(*_: object, **__: object) -> Iterator[dict[str, str]]:
        yield {"status": "Pulling from library/python"}
        yield {"error": text}

    return pull


def raises(error: Exception) -> Any:
    def pull(*_: object, **__: object) -> Iterator[dict[str, str]]:
        raise error

    return pull


LIMIT = "toomanyrequests: You have reached your pull rate limit."


@pytest.mark.parametrize(
    "pull",
    [
        says(LIMIT),
        raises(APIError(LIMIT)),
        raises(APIError("received unexpected HTTP status: 429 Too Many Requests")),
    ],
)
def test_a_registry_that_limits_pulls_is_told_with_the_way_out(build_log: BuildLog, pull: Any) -> None:
    said = refused(build_log, pull)
    for part in ("x: pull python:3.11-slim-bookworm: ", "docker login", "--base bootstrap"):
        assert part in said


@pytest.mark.parametrize(
    "pull",
    [
        says("Get https://registry-1.docker.io/v2/: dial tcp: lookup registry-1.docker.io: no such host"),
        raises(APIError("Get https://registry-1.docker.io/v2/: dial tcp 1.2.3.4:443: connect: connection refused")),
        raises(APIError("Get https://registry-1.docker.io/v2/: net/http: TLS handshake timeout")),
    ],
)
def test_a_registry_that_does_not_answer_is_told_with_the_way_out(build_log: BuildLog, pull: Any) -> None:
    assert "The network does not answer" in refused(build_log, pull)


def test_a_registry_that_swallows_packets_is_given_up(build_log: BuildLog, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def silent(*_: object, **__: object) -> Iterator[dict[str, str]]:
        over.wait(30)
        yield from ()

    monkeypatch.setattr(base, "FIRST_ANSWER_SECONDS", 0.1)
    said = refused(build_log, silent)
    over.set()
    assert "the registry said nothing for 0.1 s" in said
    assert "The network does not answer" in said


def test_a_pull_that_stops_in_its_middle_is_given_up(build_log: BuildLog, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def stops(*_: object, **__: object) -> Iterator[dict[str, str]]:
        yield {"status": "Downloading"}
        over.wait(30)

    monkeypatch.setattr(base, "SILENCE_SECONDS", 0.1)
    said = refused(build_log, stops)
    over.set()
    assert "said nothing for 0.1 s" in said


def test_an_engine_that_goes_away_in_the_middle_of_a_pull_is_told(build_log: BuildLog) -> None:
    said = refused(build_log, raises(RequestsConnectionError("Connection aborted.")))
    assert said.startswith("x: pull python:3.11-slim-bookworm: the engine failed: Connection aborted.")


# ---------------------------------------------------------------- a Python of this machine


def pythons(folder: Path, *names: str) -> Path:
    """Make folders like those of pyenv and uv."""
    for name in names:
        version = ".".join(name.removeprefix("cpython-").split("-")[0].split(".")[:2])
        program = folder / name / "bin" / f"python{version}"
        program.parent.mkdir(parents=True)
        program.touch()
    return folder


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_the_newest_python_of_pyenv_or_uv_is_found(tmp_path: Path, homeless: Path) -> None:
    pyenv = pythons(tmp_path / "pyenv" / "versions", "3.7.9", "3.7.16", "3.8.18", "3.71.1")
    uv = pythons(
        tmp_path / "uv",
        "cpython-3.7.5-linux-x86_64-gnu",
        "cpython-3.8.20-linux-x86_64-gnu",
        "cpython-3.9.1-linux-x86_64-musl",
        "cpython-3.9.2-macos-aarch64-none",
    )
    environ = {"PYENV_ROOT": str(tmp_path / "pyenv"), "UV_PYTHON_INSTALL_DIR": str(uv)}
    assert installed_python("3.7", environ) == pyenv / "3.7.16"
    assert installed_python("3.8", environ) == uv / "cpython-3.8.20-linux-x86_64-gnu"
    for absent in ("3.9", "3.1", "3.10"):  # of another C library or system; part of another's number
        assert installed_python(absent, environ) is None
    assert installed_python("3.8", {"PYENV_ROOT": str(tmp_path / "pyenv")}) == pyenv / "3.8.18"


def test_pyenv_and_uv_are_looked_for_at_home(homeless: Path) -> None:
    assert installed_python("3.7", {}) is None
    uv = pythons(homeless / ".local/share/uv/python", "cpython-3.7.9-linux-x86_64-gnu")
    assert installed_python("3.7", {}) == uv / "cpython-3.7.9-linux-x86_64-gnu"
    pyenv = pythons(homeless / ".pyenv/versions", "3.7.16")
    assert installed_python("3.7", {}) == pyenv / "3.7.16"


def test_a_broken_installation_is_passed_over(homeless: Path) -> None:
    pyenv = pythons(homeless / ".pyenv/versions", "3.7.9")
    (pyenv / "3.7.16" / "bin").mkdir(parents=True)
    assert installed_python("3.7", {}) == pyenv / "3.7.9"


def test_a_python_that_neither_debian_nor_this_machine_has_is_told_with_what_brings_it(
    build_log: BuildLog, homeless: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYENV_ROOT", "UV_PYTHON_INSTALL_DIR"):
        monkeypatch.delenv(name, raising=False)
    engine: Any = FakeEngine()
    with pytest.raises(BuildError, match=r"has Python 3\.11, wanted is 3\.7.*`uv python install 3\.7`"):
        make_base(engine, "3.7", "bootstrap", NO_SETTINGS, build_log)


def test_a_python_of_this_machine_is_not_put_on_another_platform(
    build_log: BuildLog, homeless: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYENV_ROOT", str(pythons(homeless / "versions", "3.7.16").parent))
    engine: Any = FakeEngine()
    with pytest.raises(BuildError, match="does not run on linux/arm64; take --base pull"):
        make_base(engine, "3.7", "bootstrap", NO_SETTINGS, build_log, "linux/arm64")


def test_a_copied_python_comes_without_packages_caches_and_what_names_its_old_place(tmp_path: Path) -> None:
    installed = tmp_path / "3.7.16"
    for name in (
        *("bin/python3.7", "bin/pip", "bin/pydoc3.7", "bin/python3.7-config", "include/Python.h"),
        *("lib/libpython3.7m.so.1.0", "lib/libpython3.7m.a", "lib/python3.7/os.py", "lib/python3.7/test/support.py"),
        *("lib/python3.7/__pycache__/os.pyc", "lib/python3.7/site-packages/numpy/x.py"),
        *("lib/python3.7/ensurepip/_bundled/pip.whl", "lib/python3.7/EXTERNALLY-MANAGED"),
    ):
        (installed / name).parent.mkdir(parents=True, exist_ok=True)
        (installed / name).write_text(name)
    (installed / "bin" / "python3").symlink_to("python3.7")
    system = tmp_path / "system"
    (system / "usr/local/bin").mkdir(parents=True)
    base._copy_python(installed, "3.7", system)
    local = system / "usr/local"
    assert {path.relative_to(local).as_posix() for path in local.rglob("*") if not path.is_dir()} == {
        *("bin/python3.7", "bin/python3", "include/Python.h", "lib/libpython3.7m.so.1.0", "lib/python3.7/os.py"),
        "lib/python3.7/ensurepip/_bundled/pip.whl",  # setup.sh takes pip from there
    }
    assert (local / "bin/python3").read_text() == "bin/python3.7"
    assert (local / "lib/python3.7/site-packages").is_dir()


@pytest.mark.parametrize(
    ("platform", "architecture"),
    [
        *(("linux/amd64", "amd64"), ("linux/arm64", "arm64"), ("linux/arm64/v8", "arm64"), ("linux/arm/v7", "armhf")),
        *(("linux/arm/v6", "armel"), ("linux/386", "i386"), ("linux/ppc64le", "ppc64el"), ("linux/s390x", "s390x")),
    ],
)
def test_a_platform_is_bootstrapped_under_debians_word_for_it(
    build_log: BuildLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, architecture: str
) -> None:
    program = tmp_path / "unshare"
    program.write_text('#!/bin/sh\necho "$@"\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    engine: Any = FakeEngine()
    with pytest.raises(BuildError, match="debootstrap failed"):
        make_base(engine, "3.11", "bootstrap", NO_SETTINGS, build_log, platform)
    assert f" --arch={architecture} " in build_log.path.read_text()


@pytest.mark.parametrize("platform", ["", "linux/arm64"])
def test_a_platform_reaches_the_registry_and_the_import(
    build_log: BuildLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    asked: dict[str, Any] = {}

    def pull(*_: object, **options: Any) -> Iterator[dict[str, str]]:
        asked["pull"] = options["platform"]
        yield {"error": "no such host"}

    def post(url: str, *, data: Iterator[bytes], params: dict[str, str], headers: dict[str, str]) -> SimpleNamespace:
        asked["import"] = params.get("platform")
        assert b"".join(data) == b"x"
        return SimpleNamespace(text="not for us")

    def no_image(name: str) -> None:
        raise ImageNotFound(name)

    engine: Any = FakeEngine()
    engine.api.pull, engine.api.post, engine.api.inspect_image = pull, post, no_image
    engine.api._url = lambda path: path
    monkeypatch.setattr(base, "_kind_of_tar", lambda path: "files")
    (tmp_path / "base.tar").write_bytes(b"x")
    for way in ("pull", str(tmp_path / "base.tar")):
        with pytest.raises(BuildError):
            make_base(engine, "3.11", way, NO_SETTINGS, build_log, platform)
    assert asked == {"pull": platform or None, "import": platform or None}
