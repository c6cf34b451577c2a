"""The base image of the environments: Debian 12 with Python, pulled, bootstrapped, or taken from a tar file.

Whatever it is made from, one script makes it the same to a candidate: `base/setup.sh`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import re
import shutil
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ml_bench_metric.environments.build_log import BuildError, BuildLog
from ml_bench_metric.environments.builder import Builder
from ml_bench_metric.environments.host_settings import HostSettings
from ml_bench_metric.environments.images import LAYER, ORIGIN, RECIPE, content_digest, image_id, image_kind, image_name
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
_PYTHON_LIBRARIES = (
    *("ca-certificates", "netbase", "tzdata", "libssl3", "libffi8", "libsqlite3-0", "libbz2-1.0", "liblzma5"),
    *("libreadline8", "zlib1g", "libncursesw6"),
)
"""Debian packages that a Python from elsewhere needs: the libraries of its modules, and what the python images have."""
_NOT_COPIED = ("site-packages", "__pycache__", "test", "EXTERNALLY-MANAGED")
"""Of a Python from elsewhere; the last: uv's mark that forbids pip to install."""
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
    platform: str
    """Such as `linux/arm64`; empty for the engine's own."""
    name: str


def find_base(client: DockerClient, python: str, way: str, platform: str = "") -> Base | None:
    """Return the engine's base image for a Python version; None if it has none.

    Args:
        client: of the engine.
        python: such as `3.11`.
        way: `auto` (any base will do, the newest counts), `pull`, `bootstrap`, or the path of a tar file.
        platform: such as `linux/arm64`; empty for the engine's own.

    Raises:
        BaseUnknown: `way` is none of these.
    """
    origin = _origin(python, way)
    images = client.api.images(filters={"label": [f"{LAYER}=base", f"{RECIPE}={_recipe(python, platform)}"]})
    bases = [
        Base(image["Id"], image["Labels"][ORIGIN], platform, name)
        for image in sorted(images, key=lambda image: -image["Created"])
        # What somebody makes from a base by hand inherits its labels, and is none.
        for name in image["RepoTags"] or ()
        if name.startswith(f"{NAME}:")
    ]
    return next((base for base in bases if origin in (None, base.origin)), None)


def make_base(
    client: DockerClient, python: str, way: str, settings: HostSettings, log: BuildLog, platform: str = ""
) -> Base:
    """Make a base image, and return it.

    Args:
        client: of the engine.
        python: such as `3.11`.
        way: `auto` (pull, else bootstrap), `pull`, `bootstrap`, or the path of a tar file.
        settings: of the host.
        log: of the build.
        platform: such as `linux/arm64`; empty for the engine's own.

    Raises:
        BaseUnknown: `way` is none of these.
        BuildError: no way led to an image; the message says what was tried and what to do.
    """
    _origin(python, way)
    failures = []
    for attempt in ("pull", "bootstrap") if way == "auto" else (way,):
        make = {"pull": _pull, "bootstrap": _bootstrap}.get(attempt)
        try:
            raw = make(client, python, log, platform) if make else _from_tar(client, Path(attempt), log, platform)
        except BuildError as error:
            if way != "auto":
                raise
            failures.append(str(error))
            continue
        return _set_up(client, raw, python, _origin(python, attempt) or "", settings, log, platform)
    raise BuildError(
        "\n".join(failures)
        + "\nWithout registry and bootstrap, give a tar file of such a system with --base FILE.tar: "
        f"from docker save, or the files of a Debian {DEBIAN} with Python {python} and its pip"
    )


def _recipe(python: str, platform: str) -> str:
    return content_digest("base", python, platform, _SETUP.read_text(encoding="utf-8"))


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


def _set_up(
    client: DockerClient, raw: str, python: str, origin: str, settings: HostSettings, log: BuildLog, platform: str
) -> Base:
    recipe = _recipe(python, platform)
    labels = {LAYER: "base", RECIPE: recipe, ORIGIN: origin}
    try:
        with Builder(client, raw, log, settings, platform=platform) as builder:
            builder.run(
                "set up Python and the user",
                _SETUP.read_text(encoding="utf-8"),
                seconds=SETUP_SECONDS,
                variables={"PYTHON_WANTED": python},
            )
            name = image_name(NAME, content_digest(origin, recipe), image_kind("not_needed", "cpu", platform))
            return Base(builder.commit(name, labels=labels, variables={}), origin, platform, name)
    finally:
        if raw.startswith(_RAW):
            client.api.remove_image(raw)  # its layers stay as long as an image is made of them


def _pull(client: DockerClient, python: str, log: BuildLog, platform: str) -> str:
    name, tag = "python", f"{python}-slim-{DEBIAN}"
    step = f"pull {name}:{tag}"
    events: queue.SimpleQueue[dict[str, Any] | BaseException | None] = queue.SimpleQueue()

    def pull() -> None:
        try:
            for event in client.api.pull(name, tag, stream=True, decode=True, platform=platform or None):
                events.put(event)
            events.put(None)
        except BaseException as error:
            events.put(error)

    with log.step(step):
        # The engine waits minutes for a registry that swallows packets, and its API has no limit for it.
        threading.Thread(target=pull, daemon=True).start()
        seconds = FIRST_ANSWER_SECONDS
        received: list[dict[str, Any] | BaseException | None] = []

        def has_come(pause: float) -> bool:
            with contextlib.suppress(queue.Empty):
                received.append(events.get(timeout=pause))
            return bool(received)

        while True:
            if not log.ended(has_come, seconds):
                raise log.error(step, f"the registry said nothing for {seconds} s")
            event = received.pop()
            if event is None:
                return f"{name}:{tag}"
            if isinstance(event, BaseException):
                raise event
            if "error" in event:
                raise log.error(step, str(event["error"]))
            seconds = SILENCE_SECONDS


def _bootstrap(client: DockerClient, python: str, log: BuildLog, platform: str) -> str:
    step = f"bootstrap Debian {DEBIAN}"
    installed = None if python == DEBIAN_PYTHON else installed_python(python)
    if installed is None and python != DEBIAN_PYTHON:
        raise BuildError(
            f"{step}: Debian {DEBIAN} has Python {DEBIAN_PYTHON}, wanted is {python}, and this machine has none that "
            f"could be copied; `pyenv install {python}` or `uv python install {python}` brings one"
        )
    if installed and platform:
        raise BuildError(f"{step}: the Python {python} of this machine does not run on {platform}; take --base pull")
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
            if platform:
                command.append(f"--arch={_debian_architecture(platform)}")
            if installed:
                command.append(f"--include={','.join(_PYTHON_LIBRARIES)}")
            if log.run([*command, DEBIAN, folder], seconds=BOOTSTRAP_SECONDS) != 0:
                raise log.error(step, "debootstrap failed")
        if installed:
            with log.step(f"copy Python {python} from {installed}"):
                _copy_python(installed, python, Path(folder))
        with log.step("import"):
            archive = ["tar", "-C", folder, *(f"--exclude={path}" for path in _NOT_IMPORTED), "-c", "."]
            with subprocess.Popen(archive, stdout=subprocess.PIPE) as tar:
                assert tar.stdout is not None
                name = _import(client, tar.stdout, log, platform)
            if tar.returncode != 0:
                raise log.error("import", f"tar ended with status {tar.returncode}")
            return name


def installed_python(python: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of a Python of this machine that pyenv or uv installed; None if there is none.

    Such an installation is one folder that works wherever it is copied, but for the paths in its scripts.

    Args:
        python: such as `3.7`.
        environ: environment variables, of which `PYENV_ROOT` and `UV_PYTHON_INSTALL_DIR` count.
    """
    home = Path.home()
    pyenv = Path(environ.get("PYENV_ROOT") or home / ".pyenv") / "versions"
    uv = Path(environ.get("UV_PYTHON_INSTALL_DIR") or home / ".local/share/uv/python")
    found = [
        folder
        for pattern, root in ((f"{python}.*", pyenv), (f"cpython-{python}.*-linux-*gnu", uv))
        for folder in root.glob(pattern)
        if (folder / "bin" / f"python{python}").is_file()
    ]
    return max(found, key=lambda folder: _numbers(folder.name), default=None)


def _numbers(name: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", name))


def _copy_python(installed: Path, python: str, system: Path) -> None:
    """Copy a Python into `/usr/local` of a system, without the packages that were installed into it."""
    place = system / "usr/local"
    shutil.copytree(
        installed,
        place,
        symlinks=True,
        dirs_exist_ok=True,
        ignore=lambda folder, names: [name for name in names if name in _NOT_COPIED or name.endswith(".a")],
    )
    for script in (place / "bin").iterdir():
        # Their first lines name the folder that they were installed in; setup.sh makes those that are needed.
        if script.name not in (f"python{python}", "python3"):
            script.unlink()
    (place / "lib" / f"python{python}" / "site-packages").mkdir()
    if not (place / "bin" / "python3").exists():
        (place / "bin" / "python3").symlink_to(f"python{python}")


def _debian_architecture(platform: str) -> str:
    """Return Debian's word for the architecture of a platform such as `linux/arm64`."""
    architecture = platform.partition("/")[2].replace("/", "")
    return {"armv7": "armhf", "armv6": "armel", "386": "i386", "ppc64le": "ppc64el", "armv8": "arm64"}.get(
        architecture, architecture.removesuffix("v8") if architecture.startswith("arm64") else architecture
    )


def _from_tar(client: DockerClient, path: Path, log: BuildLog, platform: str) -> str:
    step = f"load {path}"
    with log.step(step), path.open("rb") as file:
        kind = _kind_of_tar(path)
        if kind == "files":
            return _import(client, file, log, platform)
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


def _import(client: DockerClient, archive: IO[bytes], log: BuildLog, platform: str) -> str:
    """Import a file system as an image, and return its name."""
    name = f"{_RAW}:{os.getpid()}-{threading.get_ident()}"
    repository, tag = name.split(":")
    # Not `client.api.import_image`: it knows no platform.
    api: Any = client.api
    answer = api.post(
        api._url("/images/create"),
        data=iter(lambda: archive.read(1 << 20), b""),
        params={"repo": repository, "tag": tag, "fromSrc": "-", **({"platform": platform} if platform else {})},
        headers={"Content-Type": "application/tar"},
    )
    if image_id(client, name) is None:
        raise log.error("import", f"the engine answered: {answer.text}")
    return name
