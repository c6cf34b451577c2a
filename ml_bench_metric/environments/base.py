"""The base image of the environments: Debian 12 with Python, pulled, bootstrapped, or taken from a tar file.

Whatever it is made from, one script makes it the same to a candidate: `base/setup.sh`.
"""

from __future__ import annotations

import hashlib
import os
import queue
import subprocess
import tarfile
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ml_bench_metric.environments.build_log import BuildError, BuildLog
from ml_bench_metric.environments.builder import Builder
from ml_bench_metric.environments.host_settings import HostSettings
from ml_bench_metric.environments.images import LAYER, ORIGIN, RECIPE, content_digest, image_id, image_name
from ml_bench_metric.sandbox.docker_engine import one_line

if TYPE_CHECKING:
    from docker import DockerClient

NAME = "ml-bench/base"
WAYS = ("auto", "pull", "bootstrap")
DEBIAN = "bookworm"
DEBIAN_PYTHON = "3.11"
"""The Python of that release."""

FIRST_ANSWER_SECONDS = 20
"""How long a registry may take for its first word."""
SILENCE_SECONDS = 180
"""How long a pull may go without any progress."""
BOOTSTRAP_SECONDS = 1800
SETUP_SECONDS = 900

_SETUP = Path(__file__).parent / "base" / "setup.sh"
_RAW = "ml-bench/base-raw"
"""Name of what was imported, until the base is made of it."""
_NOT_IMPORTED = ("./dev/*", "./proc/*", "./sys/*", "./var/cache/apt/archives/*.deb")


class BaseUnknown(ValueError):  # noqa: N818 - it names the situation
    """The base was asked for in a way that does not exist. The message says which do."""


@dataclass(frozen=True)
class Base:
    """A base image of the engine."""

    digest: str
    """`sha256:…`."""
    origin: str
    """What it was made from: `pull <image>`, `bootstrap <release>` or `tar <SHA-256>`."""


def find_base(client: DockerClient, python: str, way: str) -> Base | None:
    """Return the engine's base image for a Python version; None if it has none.

    Args:
        client: of the engine.
        python: such as `3.11`.
        way: `auto` (any base will do, the newest counts), `pull`, `bootstrap`, or the path of a tar file.

    Raises:
        BaseUnknown: `way` is none of these.
    """
    origin = _origin(python, way)
    images = client.api.images(filters={"label": [f"{LAYER}=base", f"{RECIPE}={_recipe(python)}"]})
    bases = [
        Base(image["Id"], image["Labels"][ORIGIN]) for image in sorted(images, key=lambda image: -image["Created"])
    ]
    return next((base for base in bases if origin in (None, base.origin)), None)


def make_base(client: DockerClient, python: str, way: str, settings: HostSettings, log: BuildLog) -> Base:
    """Make a base image, and return it.

    Args:
        client: of the engine.
        python: such as `3.11`.
        way: `auto` (pull, else bootstrap), `pull`, `bootstrap`, or the path of a tar file.
        settings: of the host.
        log: of the build.

    Raises:
        BaseUnknown: `way` is none of these.
        BuildError: no way led to an image; the message says what was tried and what to do.
    """
    _origin(python, way)
    failures = []
    for attempt in ("pull", "bootstrap") if way == "auto" else (way,):
        make = {"pull": _pull, "bootstrap": _bootstrap}.get(attempt)
        try:
            raw = make(client, python, log) if make else _from_tar(client, Path(attempt), log)
        except BuildError as error:
            if way != "auto":
                raise
            failures.append(str(error))
            continue
        return _set_up(client, raw, python, _origin(python, attempt) or "", settings, log)
    raise BuildError(
        "\n".join(failures)
        + "\nWithout registry and bootstrap, give a tar file of such a system with --base FILE.tar: "
        f"from docker save, or the files of a Debian {DEBIAN} with python3, python3-pip and python3-venv"
    )


def _recipe(python: str) -> str:
    return content_digest("base", python, _SETUP.read_text(encoding="utf-8"))


def _origin(python: str, way: str) -> str | None:
    if way == "auto":
        return None
    if way == "pull":
        return f"pull python:{python}-slim-{DEBIAN}"
    if way == "bootstrap":
        return f"bootstrap {DEBIAN}"
    try:
        with Path(way).open("rb") as file:
            return f"tar {_sha256(file)}"
    except OSError as error:
        raise BaseUnknown(
            f"base {way!r} is none of {', '.join(WAYS)}, nor a tar file that can be read: {error.strerror}"
        ) from error


def _sha256(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()


def _set_up(client: DockerClient, raw: str, python: str, origin: str, settings: HostSettings, log: BuildLog) -> Base:
    labels = {LAYER: "base", RECIPE: _recipe(python), ORIGIN: origin}
    try:
        with Builder(client, raw, log, settings) as builder:
            builder.run(
                "set up Python and the user",
                _SETUP.read_text(encoding="utf-8"),
                seconds=SETUP_SECONDS,
                variables={"PYTHON_WANTED": python},
            )
            name = image_name(NAME, content_digest(python, origin, _recipe(python)))
            return Base(builder.commit(name, labels=labels, variables={}), origin)
    finally:
        if raw.startswith(_RAW):
            client.api.remove_image(raw)  # its layers stay as long as an image is made of them


def _pull(client: DockerClient, python: str, log: BuildLog) -> str:
    name, tag = "python", f"{python}-slim-{DEBIAN}"
    step = f"pull {name}:{tag}"
    events: queue.SimpleQueue[dict[str, Any] | BaseException | None] = queue.SimpleQueue()

    def pull() -> None:
        try:
            for event in client.api.pull(name, tag, stream=True, decode=True):
                events.put(event)
            events.put(None)
        except BaseException as error:
            events.put(error)

    with log.step(step):
        # The engine waits minutes for a registry that swallows packets, and its API has no limit for it.
        threading.Thread(target=pull, daemon=True).start()
        seconds = FIRST_ANSWER_SECONDS
        while True:
            try:
                event = events.get(timeout=seconds)
            except queue.Empty:
                raise log.error(step, f"the registry said nothing for {seconds} s") from None
            if event is None:
                return f"{name}:{tag}"
            if isinstance(event, BaseException):
                raise event
            if "error" in event:
                raise log.error(step, str(event["error"]))
            seconds = SILENCE_SECONDS


def _bootstrap(client: DockerClient, python: str, log: BuildLog) -> str:
    step = f"bootstrap Debian {DEBIAN}"
    if python != DEBIAN_PYTHON:
        raise BuildError(f"{step}: Debian {DEBIAN} has Python {DEBIAN_PYTHON}, wanted is {python}")
    if os.geteuid() != 0:
        raise BuildError(
            f"{step}: debootstrap needs root. Run this command once as root (sudo), or make a tar file there: "
            f"sudo debootstrap --variant=minbase {DEBIAN} DIR && sudo tar -C DIR -cf base.tar . "
            "and give it with --base base.tar"
        )
    with tempfile.TemporaryDirectory(prefix="ml-bench-base-") as folder:
        with log.step(step):
            # In namespaces of their own its mounts and programs are gone when it ends, however it ends.
            command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "debootstrap", "--variant=minbase"]
            if log.run([*command, DEBIAN, folder], seconds=BOOTSTRAP_SECONDS) != 0:
                raise log.error(step, "debootstrap failed")
        with log.step("import"):
            archive = ["tar", "-C", folder, *(f"--exclude={path}" for path in _NOT_IMPORTED), "-c", "."]
            with subprocess.Popen(archive, stdout=subprocess.PIPE) as tar:
                assert tar.stdout is not None
                name = _import(client, tar.stdout, log)
            if tar.returncode != 0:
                raise log.error("import", f"tar ended with status {tar.returncode}")
            return name


def _from_tar(client: DockerClient, path: Path, log: BuildLog) -> str:
    step = f"load {path}"
    with log.step(step), path.open("rb") as file:
        kind = _kind_of_tar(path)
        if kind == "files":
            return _import(client, file, log)
        if kind != "image":
            raise log.error(step, f"it is {kind}")
        images = client.images.load(file)
        if len(images) != 1:
            raise log.error(step, f"it has {len(images)} images; save one alone")
        return str(images[0].id)


def _kind_of_tar(path: Path) -> str:
    """Return `image` for an archive of `docker save`, `files` for one of a file system, else what is wrong with it."""
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if name == "manifest.json":
                    return "image"
                if name == "etc/passwd":
                    return "files"
    except (tarfile.TarError, OSError, EOFError) as error:
        return "no tar file: " + one_line(error)
    return "neither an image of `docker save` nor the files of a system"


def _import(client: DockerClient, archive: IO[bytes], log: BuildLog) -> str:
    """Import a file system as an image, and return its name."""
    name = f"{_RAW}:{os.getpid()}"
    repository, tag = name.split(":")
    answer = client.api.import_image(iter(lambda: archive.read(1 << 20), b""), repository, tag)
    if image_id(client, name) is None:
        raise log.error("import", f"the engine answered: {answer}")
    return name
