"""The images that were built: their labels, and finding them. No recipe and no mirror needs to be at hand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docker import DockerClient

BUILDER_VERSION = 1
"""Part of every digest; to be raised when the same recipe has to give another image."""

BUILDER = "ml-bench.builder"
"""On a container in which an image is made: whose it is, see `docker_engine.owner`. Images inherit it, but empty."""
LAYER = "ml-bench.layer"
"""What an image is: `base`, `packages` or `environment`."""
ORIGIN = "ml-bench.origin"
"""What the base was made from: `pull <image>`, `bootstrap <release>` or `tar <SHA-256>`."""
RECIPE = "ml-bench.recipe"
"""SHA-256 (hex) of everything that went into an image."""
RECIPE_NAME = "ml-bench.recipe-name"
REPOSITORIES = "ml-bench.repositories"
"""Names of the repositories that an image serves, separated by commas."""

LATEST = "latest"
"""Tag of the image that was built last of a recipe, or found unchanged."""


@dataclass(frozen=True)
class EnvironmentImage:
    """An image of the engine in which candidates can run."""

    name: str
    """`ml-bench/<recipe>:<12 hex>`."""
    digest: str
    """`sha256:…`, as the engine knows it."""
    recipe: str
    repositories: tuple[str, ...]
    size: int
    """In bytes, shared layers included."""
    created: int
    """Seconds since 1970."""
    current: bool
    """Whether it is the one that was built last of its recipe."""


def content_digest(*parts: object) -> str:
    """Return the SHA-256 (hex) over JSON-like values and the builder's version."""
    text = json.dumps((BUILDER_VERSION, *parts), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def image_name(repository: str, digest: str) -> str:
    """Return `<repository>:<first 12 hex digits of the digest>`."""
    return f"{repository}:{digest[:12]}"


def image_id(client: DockerClient, name: str) -> str | None:
    """Return the engine's digest `sha256:…` of an image; None if it has no such image."""
    from docker.errors import ImageNotFound

    try:
        return str(client.api.inspect_image(name)["Id"])
    except ImageNotFound:
        return None


def list_images(client: DockerClient) -> list[EnvironmentImage]:
    """Return the environment images of the engine, ordered by recipe, the newest first."""
    return sorted(_environment_images(client), key=lambda image: (image.recipe.lower(), -_rank(image)[1], image.name))


def find_image(client: DockerClient, repository: str) -> str | None:
    """Return the name of the image that was built last for a repository, given by its name in the data set.

    None if the engine has none.
    """
    serving = [image for image in _environment_images(client) if repository in image.repositories]
    return max(serving, key=_rank).name if serving else None


def _rank(image: EnvironmentImage) -> tuple[bool, int, str]:
    return (image.current, image.created, image.name)


def _environment_images(client: DockerClient) -> Iterator[EnvironmentImage]:
    for image in client.api.images(filters={"label": f"{LAYER}=environment"}):
        labels = image["Labels"]
        names = image["RepoTags"] or ()
        name = next((name for name in names if name.endswith(":" + labels[RECIPE][:12])), None)
        if name is None:
            continue  # replaced or untagged by hand: no name leads to it
        yield EnvironmentImage(
            name=name,
            digest=image["Id"],
            recipe=labels[RECIPE_NAME],
            repositories=tuple(labels[REPOSITORIES].split(",")),
            size=image["Size"],
            created=image["Created"],
            current=f"{name.rsplit(':', 1)[0]}:{LATEST}" in names,
        )
