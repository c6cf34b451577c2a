"""The images that were built: their labels, and finding them. No recipe and no mirror needs to be at hand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast

from ml_bench_metric.environments.recipe import Device
from ml_bench_metric.sandbox.execution import Assets

if TYPE_CHECKING:
    from docker import DockerClient

BUILDER_VERSION = 2
"""Part of every digest; to be raised when the same recipe has to give another image."""

BUILDER = "ml-bench.builder"
"""On a container in which an image is made: whose it is, see `docker_engine.owner`. Images inherit it, but empty."""
LAYER = "ml-bench.layer"
"""What an image is: `base`, `packages` or `environment`."""
ASSETS = "ml-bench.assets"
"""Which weights and data an environment has, see `Assets`."""
DEVICE = "ml-bench.device"
"""What its packages are made for: `cpu` or `gpu`."""
GPU = "ml-bench.gpu"
"""Whether its references use CUDA: `none`, `optional` or `required`."""
TASKS = "ml-bench.tasks"
"""The only tasks that it serves, separated by commas; empty: all those of its repositories that no other names."""
LACKING = "ml-bench.lacking-tasks"
"""Tasks that it cannot serve for want of an asset that they need, separated by commas."""
PLATFORM = "ml-bench.platform"
"""What it was built for, such as `linux/arm64`; empty for the engine's own."""
CHECKOUT = "ml-bench.checkout"
"""Whether the repositories' files are in it: `yes`, or `no` for their packages alone; `bare` for them alone, without
packages, which agents set up by themselves. Versions that know nothing of bare images take `yes` alone for
candidates."""
PARENT = "ml-bench.parent"
"""Name of the image that it was made from."""
MISSING = "ml-bench.missing-files"
"""Number of files of the repositories' commits that the git mirrors lacked."""
ORIGIN = "ml-bench.origin"
"""What the base was made from: `pull <image>`, `bootstrap <release>` or `tar <SHA-256>`."""
RECIPE = "ml-bench.recipe"
"""SHA-256 (hex) of everything that went into an image."""
RECIPE_NAME = "ml-bench.recipe-name"
REPOSITORIES = "ml-bench.repositories"
"""Names of the repositories that an image serves, separated by commas."""

LATEST = "latest"
"""Tag, behind an image's kind, of the image that was built last of a recipe, or found unchanged."""

AssetsWanted = Literal["auto", "none", "stand_in", "real"]
"""Which assets an evaluation wants in its images; `auto`: the best that was built."""

_READ = {RECIPE_NAME, REPOSITORIES, TASKS, ASSETS, DEVICE, GPU, LACKING, PLATFORM, CHECKOUT, MISSING}
_BEST_FIRST: tuple[Assets, ...] = ("real", "not_needed", "stand_in", "none")


@dataclass(frozen=True)
class TaskImage:
    """The image in which a task's candidates run, and how they run in it."""

    digest: str
    """`sha256:…`."""
    assets: Assets = "unknown"
    root: str = "/workspace"
    """The folder in the image that has the repositories' folders."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that candidates need to run in it, below the task's own."""
    user: str = "1000:1000"
    """uid and gid of the candidate."""


@dataclass(frozen=True)
class EnvironmentImage:
    """An image of the engine in which candidates can run."""

    name: str
    """`ml-bench/<recipe>:<kind>-<12 hex>`; without a kind for a CPU and tasks that need no assets."""
    digest: str
    """`sha256:…`, as the engine knows it."""
    recipe: str
    repositories: tuple[str, ...]
    tasks: tuple[str, ...]
    """The only tasks that it serves; empty: all of its repositories that no other image names."""
    assets: Assets
    device: Device
    uses_gpu: str
    """Whether its references use CUDA: `none`, `optional` or `required`."""
    lacking_tasks: tuple[str, ...]
    """Tasks that it cannot serve, for want of an asset that they need."""
    platform: str
    """What it was built for; empty for the engine's own."""
    checkout: bool
    """Whether the repositories' files are in it, which evaluations need."""
    missing_files: int
    """Files of the repositories' commits that are not in it."""
    size: int
    """In bytes, shared layers included."""
    created: int
    """Seconds since 1970."""
    current: bool
    """Whether it is the one that was built last of its recipe."""
    bare: bool = False
    """Whether it has nothing but a base and the repositories' files; it is for agents that set everything up."""


def content_digest(*parts: object) -> str:
    """Return the SHA-256 (hex) over JSON-like values and the builder's version."""
    text = json.dumps((BUILDER_VERSION, *parts), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def image_name(repository: str, digest: str, kind: str = "") -> str:
    """Return `<repository>:[<kind>-]<first 12 hex digits of the digest>`."""
    return f"{repository}:{kind}{'-' if kind else ''}{digest[:12]}"


def image_kind(assets: Assets, device: Device, platform: str = "", *, checkout: bool = True, bare: bool = False) -> str:
    """Return what an image's tag says besides its digest: `gpu`, the platform's architecture, which assets it has.

    Of a bare one it says that alone: assets are part of what an agent sets up.
    """
    of_assets = {"stand_in": "stand-in", "none": "no-assets", "real": "real"}.get(assets, "")
    parts = (
        "gpu" if device == "gpu" and not bare else "",
        platform.partition("/")[2].replace("/", "-"),
        "bare" if bare else of_assets if checkout else "packages-only",
    )
    return "-".join(filter(None, parts))


def image_id(client: DockerClient, name: str) -> str | None:
    """Return the engine's digest `sha256:…` of an image; None if it has no such image."""
    from docker.errors import ImageNotFound

    try:
        return str(client.api.inspect_image(name)["Id"])
    except ImageNotFound:
        return None


def list_images(client: DockerClient) -> list[EnvironmentImage]:
    """Return the environment images of the engine, ordered by recipe, the newest first."""
    return sorted(_environment_images(client), key=lambda image: (image.recipe.lower(), -image.created, image.name))


def serving_images(
    images: Iterable[EnvironmentImage],
    repository: str,
    task_id: str,
    *,
    assets: AssetsWanted = "auto",
    device: Device = "cpu",
    bare: bool = False,
) -> list[EnvironmentImage]:
    """Return those of some images that serve a task, the one to take first.

    Args:
        images: see `list_images`.
        repository: of the task, by its name in the data set.
        task_id: images that name it go before those that serve its repository.
        assets: which the image is to have; an image whose tasks need none always will do. `auto`: real ones go before
            stand-ins, these before none.
        device: what it is made for; an image whose references use no CUDA always will do.
        bare: whether it is to be a bare one, for which neither assets nor device matter; no other call finds these.
    """
    of_repository = [
        image
        for image in images
        if repository in image.repositories
        and image.bare == bare
        and (bare or image.device == device or image.uses_gpu == "none")
        and image.checkout
        and not image.platform
        and task_id not in image.lacking_tasks
        and (bare or assets == "auto" or image.assets in (assets, "not_needed"))
    ]
    named = [image for image in of_repository if task_id in image.tasks]
    return sorted(
        named or [image for image in of_repository if not image.tasks],
        key=lambda image: (
            _BEST_FIRST.index(image.assets),
            image.device != device,
            not image.current,
            -image.created,
            image.name,
        ),
    )


def _environment_images(client: DockerClient) -> Iterator[EnvironmentImage]:
    for image in client.api.images(filters={"label": f"{LAYER}=environment"}):
        labels = image["Labels"]
        names = image["RepoTags"] or ()
        name = next((name for name in names if name.endswith(labels[RECIPE][:12])), None)
        if name is None or not _READ.issubset(labels):
            continue  # replaced or untagged by hand, so that no name leads to it; or made by an older version
        assets, device = cast(Assets, labels[ASSETS]), cast(Device, labels[DEVICE])
        yield EnvironmentImage(
            name=name,
            digest=image["Id"],
            recipe=labels[RECIPE_NAME],
            repositories=_listed(labels[REPOSITORIES]),
            tasks=_listed(labels[TASKS]),
            assets=assets,
            device=device,
            uses_gpu=labels[GPU],
            lacking_tasks=_listed(labels[LACKING]),
            platform=labels[PLATFORM],
            checkout=labels[CHECKOUT] != "no",
            missing_files=int(labels[MISSING]),
            size=image["Size"],
            created=image["Created"],
            current=f"{name[: -len(labels[RECIPE][:12])]}{LATEST}" in names,
            bare=labels[CHECKOUT] == "bare",
        )


def _listed(label: str) -> tuple[str, ...]:
    return tuple(filter(None, label.split(",")))
