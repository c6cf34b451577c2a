"""What the engine has stored: all its images, the layers of which they are made, and what these take on its disk."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_bench_metric.environments.images import LATEST, LAYER, RECIPE

if TYPE_CHECKING:
    from docker import DockerClient


@dataclass(frozen=True)
class StoredImage:
    """An image of the engine, whoever made it."""

    digest: str
    """`sha256:…`, as the engine knows it."""
    names: tuple[str, ...]
    """`<repository>:<tag>`; none for an image that lost its names or never had one."""
    labels: Mapping[str, str] = field(hash=False)
    layers: tuple[str, ...]
    """Digests of its layers, the lowest first."""
    size: int
    """In bytes, shared layers included."""
    user: str = ""
    """As whom its programs run, in the image's own words; empty for root."""

    @property
    def name(self) -> str | None:
        """The name that an image of this project was given when it was made; None for all others.

        Labels alone would not do: what somebody builds on top of our images inherits them.
        """
        recipe = self.labels.get(RECIPE, "")
        for name in self.names if re.fullmatch("[0-9a-f]{64}", recipe) else ():
            kind = self.labels.get(LAYER)
            if kind == "base" and name.startswith("ml-bench/base:"):
                return name
            if kind in ("packages", "environment") and name.startswith("ml-bench/") and name.endswith(recipe[:12]):
                return name
        return None

    @property
    def latest(self) -> str | None:
        """The name that marks an environment image as the one that was built last of its recipe and kind, if it is."""
        if self.name is None or self.labels[LAYER] != "environment" or latest_name(self.name) not in self.names:
            return None
        return latest_name(self.name)

    def stands_on(self, other: StoredImage) -> bool:
        """Return whether it was made by adding layers to another image."""
        return len(self.layers) > len(other.layers) and self.layers[: len(other.layers)] == other.layers


def latest_name(name: str) -> str:
    """Return the name that marks the image built last: `ml-bench/x:gpu-latest` for `ml-bench/x:gpu-<12 hex>`."""
    return name[:-12] + LATEST


def stored_images(client: DockerClient) -> list[StoredImage]:
    """Return all images of the engine, those included that others were made from and that have no name."""
    digests = {record["Id"] for record in client.api.images(all=True)}
    return [image for digest in sorted(digests) if (image := stored_image(client, digest)) is not None]


def stored_image(client: DockerClient, name: str) -> StoredImage | None:
    """Return an image by its name or digest; None if the engine has none such."""
    from docker.errors import ImageNotFound

    try:
        facts = client.api.inspect_image(name)
    except ImageNotFound:
        return None
    config = facts.get("Config") or {}
    return StoredImage(
        digest=facts["Id"],
        names=tuple(facts.get("RepoTags") or ()),
        labels=config.get("Labels") or {},
        layers=tuple((facts.get("RootFS") or {}).get("Layers") or ()),
        size=int(facts["Size"]),
        user=config.get("User") or "",
    )


def exclusive_bytes(client: DockerClient, images: Iterable[StoredImage], others: Iterable[StoredImage] = ()) -> int:
    """Return what some images take on the disk, in bytes: each layer once, and none that others have too."""
    kept = {image.layers[:end] for image in others for end in range(1, len(image.layers) + 1)}
    sizes: dict[tuple[str, ...], int] = {}
    for image in images:
        for end, size in enumerate(_layer_sizes(client, image), 1):
            sizes[image.layers[:end]] = size
    return sum(size for layers, size in sizes.items() if layers not in kept)


def _layer_sizes(client: DockerClient, image: StoredImage) -> list[int]:
    """Return the size of every layer, the lowest first, in bytes.

    The engine tells sizes per step of an image's history, and not which steps made no layer. Where the numbers do not
    fit, everything is put on the highest layer, so that a sum is too large rather than too small.
    """
    history: list[Mapping[str, Any]] = client.api.history(image.digest)
    steps = [int(step["Size"]) for step in reversed(history)]
    for sizes in (steps, [size for size in steps if size]):
        if len(sizes) == len(image.layers):
            return sizes
    return [0] * (len(image.layers) - 1) + [image.size]
