"""Building the environments' images, in three layers: base, packages, and the repositories' files.

Every layer is named after the digest of what goes into it, so an unchanged one is never made again, and recipes with
the same packages share them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ml_bench_metric.environments import registry
from ml_bench_metric.environments.base import Base, find_base, make_base
from ml_bench_metric.environments.build_log import BuildLog, Progress, writable
from ml_bench_metric.environments.builder import Builder, StepFailed, sweep
from ml_bench_metric.environments.checkout import checked_out
from ml_bench_metric.environments.files import OWNER, fingerprint, packed
from ml_bench_metric.environments.host_settings import HostSettings, host_settings
from ml_bench_metric.environments.images import (
    LATEST,
    LAYER,
    ORIGIN,
    RECIPE,
    RECIPE_NAME,
    REPOSITORIES,
    content_digest,
    image_id,
    image_name,
)
from ml_bench_metric.environments.recipe import Recipe

if TYPE_CHECKING:
    from docker import DockerClient

CALL_SECONDS = 1800
APT_SECONDS = 900
PIP_SECONDS = 3600
SCRIPT_SECONDS = 600
IMPORT_SECONDS = 300

_APT = """
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends {packages}
apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/*.log /var/log/apt
"""
_PIP = (
    "python -m pip install --no-cache-dir --no-input --progress-bar off --root-user-action ignore "
    "--disable-pip-version-check"
)


@dataclass(frozen=True)
class BuiltImage:
    """The image of a recipe, made now or found unchanged."""

    recipe: str
    name: str
    """`ml-bench/<recipe>:<12 hex>`."""
    digest: str
    """`sha256:…`, as the engine knows it."""
    seconds: float
    """Wall time that it took to make, or to find."""
    size: int
    """In bytes, shared layers included."""
    reused: bool
    """Whether nothing had to be made."""


def build(
    names: Iterable[str],
    client: DockerClient,
    *,
    base: str = "auto",
    repositories: Path | None = None,
    progress: Progress = lambda line: None,
) -> list[BuiltImage]:
    """Build the images of some recipes, and return them. What is unchanged is not made again.

    Args:
        names: of recipes or repositories; empty: all recipes.
        client: of the engine.
        base: `auto` (an existing one, else pulled, else bootstrapped), `pull`, `bootstrap`, or the path of a tar file.
        repositories: folder with git mirrors; a repository that has none there is cloned from its URL.
        progress: receives a line at the beginning and at the end of every step.

    Raises:
        EnvironmentUnknown: a name has no recipe.
        RecipeError: a recipe is faulty.
        BaseUnknown: `base` is none of the above.
        BuildError: an image could not be made; the message ends with the reason.
    """
    chosen = registry.select(names)
    with _patience(client):
        return [_build(recipe, client, base, repositories, progress) for recipe in chosen]


def _build(
    recipe: Recipe, client: DockerClient, base: str, repositories: Path | None, progress: Progress
) -> BuiltImage:
    start = time.monotonic()
    _files_digests(recipe)  # a recipe whose files cannot be had must fail before anything is made
    found = find_base(client, recipe.python, base)
    name = image_name(recipe.image, environment_digest(recipe, found)) if found else ""
    reused = bool(name) and image_id(client, name) is not None
    if not reused:
        with _alone(progress):
            name = _make(recipe, client, base, repositories, progress)
    client.api.tag(name, recipe.image, LATEST)
    facts = client.api.inspect_image(name)
    progress(f"{recipe.name}: {name} {'is unchanged' if reused else 'is ready'}")
    return BuiltImage(recipe.name, name, facts["Id"], time.monotonic() - start, facts["Size"], reused)


def _make(recipe: Recipe, client: DockerClient, way: str, repositories: Path | None, progress: Progress) -> str:
    """Make what is missing of an image's layers, and return its name."""
    sweep(client)
    settings = host_settings()
    with (
        BuildLog(_cache() / "build-logs" / f"{recipe.name}.log", progress, recipe.name) as log,
        _repository_files(recipe, repositories, log) as folders,
    ):
        base = find_base(client, recipe.python, way) or make_base(client, recipe.python, way, settings, log)
        packages = image_name("ml-bench/packages", packages_digest(recipe, base))
        if image_id(client, packages) is None:
            _make_packages(recipe, client, base, packages, settings, log)
        name = image_name(recipe.image, environment_digest(recipe, base))
        if image_id(client, name) is None:
            _make_environment(recipe, client, base, packages, name, folders, log)
        return name


def _make_packages(
    recipe: Recipe, client: DockerClient, base: Base, name: str, settings: HostSettings, log: BuildLog
) -> None:
    with Builder(client, base.digest, log, settings) as builder:
        if recipe.apt:
            builder.run("apt-get install", _APT.format(packages=shlex.join(recipe.apt)), seconds=APT_SECONDS)
        if recipe.pip:
            _install(recipe, builder, log)
        for script in recipe.scripts:
            text = (recipe.folder / script).read_text(encoding="utf-8")
            builder.run(script, 'python -c "$SCRIPT"', seconds=SCRIPT_SECONDS, variables={"SCRIPT": text})
        builder.run("clean up", "find /tmp -mindepth 1 -delete; rm -rf /root/.cache", seconds=SCRIPT_SECONDS)
        builder.commit(name, labels={LAYER: "packages", RECIPE: packages_digest(recipe, base)}, variables={})


def _install(recipe: Recipe, builder: Builder, log: BuildLog) -> None:
    step = f"pip install {len(recipe.pip)} requirements"
    command = f"{_PIP} {shlex.join(recipe.pip)}"
    try:
        builder.run(step, command, seconds=PIP_SECONDS)
    except StepFailed as error:
        # A host with its own index or wheels may be unable to reach the further one, so that comes second.
        if recipe.pip_index is None or "No matching distribution" not in str(error):
            raise
        log.note(f"not everything is to be had from the host's own package sources; asking {recipe.pip_index} too")
        builder.run(
            f"{step}, with {recipe.pip_index}",
            'PIP_EXTRA_INDEX_URL="${PIP_EXTRA_INDEX_URL:-} $INDEX" ' + command,
            seconds=PIP_SECONDS,
            variables={"INDEX": recipe.pip_index},
        )


def _make_environment(
    recipe: Recipe,
    client: DockerClient,
    base: Base,
    packages: str,
    name: str,
    folders: Mapping[str, Path],
    log: BuildLog,
) -> None:
    with Builder(client, packages, log, HostSettings({}, {})) as builder:
        for directory, folder in folders.items():
            caches = recipe.package is None
            with log.step(f"files of {directory}"), packed(folder, directory, caches=caches) as archive:
                builder.put("/workspace", archive)
        if recipe.imports:
            builder.run(
                "import " + ", ".join(recipe.imports),
                # Not in /workspace, where a repository's folder may have a module's name.
                f"cd /; python -c 'import {', '.join(recipe.imports)}'; find /tmp -mindepth 1 -delete",
                seconds=IMPORT_SECONDS,
                user=f"{OWNER}:{OWNER}",
                variables={**recipe.environment, "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"},
            )
        labels = {
            LAYER: "environment",
            RECIPE: environment_digest(recipe, base),
            RECIPE_NAME: recipe.name,
            REPOSITORIES: ",".join(recipe.directories),
            ORIGIN: base.origin,
        }
        builder.commit(name, labels=labels, variables=recipe.environment)


@contextlib.contextmanager
def _repository_files(recipe: Recipe, mirrors: Path | None, log: BuildLog) -> Iterator[dict[str, Path]]:
    """Yield folder in the image -> folder on this machine, which may be temporary, of each repository.

    It comes first in a build, so that a repository that cannot be had fails in seconds.
    """
    if recipe.package is not None:
        yield {directory: recipe.package_folder() / directory for directory in recipe.directories.values()}
        return
    with contextlib.ExitStack() as stack:
        yield {
            checkout.directory: stack.enter_context(checked_out(checkout, mirrors, log))
            for checkout in recipe.checkouts
        }


def packages_digest(recipe: Recipe, base: Base) -> str:
    """Return the SHA-256 (hex) of what goes into the layer of packages: base, packages, scripts."""
    scripts = [(recipe.folder / script).read_text(encoding="utf-8") for script in recipe.scripts]
    return content_digest("packages", base.digest, recipe.apt, recipe.pip, recipe.pip_index, scripts)


def environment_digest(recipe: Recipe, base: Base) -> str:
    """Return the SHA-256 (hex) of what goes into a recipe's image: packages, repositories' files, variables, checks.

    Raises:
        RecipeError: the recipe's package cannot be used.
    """
    parts = (recipe.directories, _files_digests(recipe), recipe.imports, dict(recipe.environment))
    return content_digest("environment", packages_digest(recipe, base), *parts)


def _files_digests(recipe: Recipe) -> dict[str, str]:
    """Return name of each repository -> what tells its files from others: a commit, or a digest."""
    if recipe.package is not None:
        folder = recipe.package_folder()
        return {name: fingerprint(folder / directory) for name, directory in recipe.directories.items()}
    return {checkout.name: checkout.commit for checkout in recipe.checkouts}


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ml-bench"


@contextlib.contextmanager
def _patience(client: DockerClient) -> Iterator[None]:
    """Let a call to the engine take its time: saving an image of some gigabytes on a slow disk does."""
    before = client.api.timeout
    client.api.timeout = max(before or 0, CALL_SECONDS)
    try:
        yield
    finally:
        client.api.timeout = before


@contextlib.contextmanager
def _alone(progress: Progress) -> Iterator[None]:
    """Keep other builds of this user waiting: two that make the same image would replace each other's."""
    with writable(_cache() / "build.lock") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            progress("another build is running; waiting for its end")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
