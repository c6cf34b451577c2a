"""Podman's Docker-compatible socket, started for a test session, with storage of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

_SERVICE_SECONDS = 30.0

# Podman gives rootful containers 1,048,576 open files, and the API no way to ask for fewer, also where its own root may
# not raise a limit: in such a machine (a container, a small virtual one) no container would start.
_RUNTIME = """#!{python} -IS
import json, os, pathlib, resource, sys
if "--bundle" in sys.argv:
    path = pathlib.Path(sys.argv[sys.argv.index("--bundle") + 1], "config.json")
    config = json.loads(path.read_text())
    for limit in config["process"].get("rlimits", ()):
        hard = resource.getrlimit(getattr(resource, limit["type"]))[1]
        if hard != resource.RLIM_INFINITY:
            limit["hard"] = min(limit["hard"], hard)
            limit["soft"] = min(limit["soft"], limit["hard"])
    path.write_text(json.dumps(config))
os.execvp("runc", ["runc", *sys.argv[1:]])
"""


@dataclass(frozen=True)
class Podman:
    """A service that runs."""

    host: str
    """For `DOCKER_HOST`."""
    image: str
    """Name of the sample's image in it."""


def missing() -> str:
    """Return why Podman cannot be tested on this machine; empty where it can."""
    if os.geteuid() != 0:
        return "Podman is tested as root"
    lacking = [program for program in ("podman", "runc", "docker-init") if shutil.which(program) is None]
    return f"no {', '.join(lacking)}: `apt-get install --no-install-recommends podman runc tini`" if lacking else ""


@contextlib.contextmanager
def podman_service(docker_image: str) -> Iterator[Podman]:
    """Give a Podman service that has a copy of an image of the Docker engine; nothing of it is left behind.

    Raises:
        RuntimeError: it does not start, or cannot start a container; the message has its words.
    """
    # Not pytest's folder: a Unix socket's path may have 107 characters.
    root = Path(tempfile.mkdtemp(prefix="ml-bench-podman-"))
    runtime = root / "runc-within-limits"
    runtime.write_text(_RUNTIME.format(python="/usr/bin/python3"), encoding="utf-8")
    runtime.chmod(0o755)
    engine = {
        "cgroup_manager": "cgroupfs",
        "events_logger": "none",
        # The Docker engine's own: Debian's catatonit is only recommended.
        "init_path": shutil.which("docker-init"),
        "runtime": runtime.name,
    }
    settings = "".join(f"{name} = {json.dumps(value)}\n" for name, value in engine.items())
    configuration = root / "containers.conf"
    configuration.write_text(
        f"[engine]\n{settings}[engine.runtimes]\n{runtime.name} = {json.dumps([str(runtime)])}\n", encoding="utf-8"
    )
    environment = {**os.environ, "CONTAINERS_CONF": str(configuration)}
    folders = [f"--{name}={root / folder}" for name, folder in _FOLDERS.items()]
    command = ["podman", *folders, "--storage-driver=overlay"]

    def call(*arguments: str) -> str:
        done = subprocess.run([*command, *arguments], cwd=root, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"podman {arguments[0]}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    socket = root / "podman.sock"
    service: subprocess.Popen[bytes] | None = None
    try:
        archive = root / "image.tar"
        subprocess.run(["docker", "save", "--output", str(archive), docker_image], check=True, capture_output=True)
        call("load", "--input", str(archive))
        archive.unlink()
        image = f"localhost/{docker_image}"
        call("run", "--rm", "--init", "--network=none", image, "true")
        with (root / "service.log").open("wb") as log:
            service = subprocess.Popen(
                [*command, "system", "service", "--time=0", f"unix://{socket}"],
                # Its conmon writes files into the folder in which it was started.
                cwd=root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + _SERVICE_SECONDS
        while not socket.exists():
            if service.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"podman's service: {(root / 'service.log').read_text(errors='replace').strip()}")
            time.sleep(0.05)
        yield Podman(f"unix://{socket}", image)
    finally:
        if service is not None:
            service.terminate()
            service.wait(_SERVICE_SECONDS)
        with contextlib.suppress(RuntimeError):
            call("rm", "--all", "--force", "--time=0")
        with contextlib.suppress(RuntimeError):
            call("rmi", "--all", "--force")
        _unmount(root)
        shutil.rmtree(root)


_FOLDERS = {"root": "storage", "runroot": "run", "tmpdir": "tmp"}


def _unmount(root: Path) -> None:
    """Unmount what Podman keeps mounted in its folders."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    for mount in sorted((mount for mount in mounts if mount.startswith(f"{root}/")), reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=False)


def skip(reason: str) -> None:
    """Skip a test, and say so where it cannot be overlooked."""
    print(f"PODMAN IS NOT TESTED: {reason}", file=sys.__stderr__)
    pytest.skip(f"the tests on Podman did NOT run: {reason}")
