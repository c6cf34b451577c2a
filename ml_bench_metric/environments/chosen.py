"""Which of the engine's environment images a person means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ml_bench_metric.environments.images import LAYER, RECIPE_NAME, REPOSITORIES
from ml_bench_metric.environments.registry import select
from ml_bench_metric.environments.stored import StoredImage, stored_images
from ml_bench_metric.sandbox.protocol import SandboxError

if TYPE_CHECKING:
    from docker import DockerClient


def chosen(client: DockerClient, names: Iterable[str]) -> list[StoredImage]:
    """Return environment images, ordered by name, each once.

    Args:
        client: of the engine.
        names: of images, which may be any, or of repositories and recipes, which stand for the images that were built
            last of them, one for each kind; empty: all images that were built last of a recipe.

    Raises:
        EnvironmentUnknown: a name is of nothing that is known.
        SandboxError: the engine has no image of that name, or of that repository or recipe.
    """
    images = sorted(
        (image for image in stored_images(client) if image.name and image.labels[LAYER] == "environment"),
        key=lambda image: str(image.name),
    )
    last = [image for image in images if image.latest]
    found: list[StoredImage] = []
    for name in names:
        if ":" in name:
            meant = [image for image in images if name in (*image.names, image.digest)]
            if not meant:
                raise SandboxError(f"the engine has no environment image {name}; `ml-bench images list` shows all")
        else:
            meant = [image for image in last if name in _serves(image)]
            if not meant:
                select([name])
                raise SandboxError(f"no image of {name} has been built: `ml-bench images build {name}` does it")
        found += meant
    return sorted(dict.fromkeys(found), key=images.index) if found else last


def _serves(image: StoredImage) -> list[str]:
    labels = image.labels
    return [labels.get(RECIPE_NAME, ""), *labels.get(REPOSITORIES, "").split(",")]
