"""The base image on the real engine, made of a Debian that another Python is copied into."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ml_bench_metric.environments import base
from ml_bench_metric.environments.base import find_base, installed_python, make_base
from ml_bench_metric.environments.build_log import BuildLog
from ml_bench_metric.environments.host_settings import NO_SETTINGS
from tests.image_builds import ImageBuilds

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = pytest.mark.docker


@pytest.fixture
def no_debootstrap(client: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of debootstrap, which needs a Debian mirror: the system of the existing base, without its Python."""
    found = find_base(client, base.DEBIAN_PYTHON, "auto")
    assert found is not None
    container = client.api.create_container(found.digest, ["true"])["Id"]
    with (tmp_path / "system.tar").open("wb") as file:
        file.writelines(client.api.export(container))
    client.api.remove_container(container)
    program = tmp_path / "bin" / "debootstrap"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\nfor folder; do :; done\n"
        f"exec tar -xf {tmp_path}/system.tar -C $folder --exclude 'usr/local/bin/*' --exclude 'usr/bin/python3*'\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    # Another recipe than the real one, so that nobody takes what the test makes for a base.
    setup = tmp_path / "setup.sh"
    setup.write_text(base._SETUP.read_text() + f"# {os.getpid()}\n")
    monkeypatch.setattr(base, "_SETUP", setup)


def test_a_python_of_this_machine_works_in_the_base_it_is_copied_into(
    image_builds: ImageBuilds, no_debootstrap: None, build_log: BuildLog
) -> None:
    if installed_python("3.7") is None:
        pytest.skip("no Python 3.7 of pyenv or uv: that a copied one works in a base was NOT looked at")
    if os.geteuid() != 0:
        pytest.skip("not root, so no base can be bootstrapped: that a copied Python works in one was NOT looked at")
    client = image_builds.client
    made = make_base(client, "3.7", "bootstrap", NO_SETTINGS, build_log)
    try:
        assert find_base(client, "3.7", "auto") == find_base(client, "3.7", "bootstrap") == made
        assert [line for line in build_log.path.read_text().splitlines() if "copy Python 3.7 from" in line]
        for name in ("python", "python3", "/usr/bin/python3"):
            assert image_builds.output(made.digest, name, "--version").startswith("Python 3.7."), name
        modules = (
            "import bz2, ctypes, curses, hashlib, lzma, readline, sqlite3, ssl, uuid, zlib; print(ssl.OPENSSL_VERSION)"
        )
        assert image_builds.output(made.digest, "python", "-c", modules).startswith("OpenSSL")
        installed = image_builds.output(made.digest, "pip", "list", "--format=freeze", "--disable-pip-version-check")
        assert {line.partition("==")[0] for line in installed.splitlines()} == {"pip", "setuptools"}
        assert image_builds.output(made.digest, "head", "-n1", "/usr/local/bin/pip3").startswith("#!/usr/local/bin/py")
        left = [tag for image in client.api.images(name=base._RAW) for tag in image["RepoTags"] or ()]
        assert [tag for tag in left if tag.startswith(f"{base._RAW}:{os.getpid()}-")] == []
    finally:
        client.images.remove(made.name)
