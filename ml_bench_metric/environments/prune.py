"""Removing images of this project that nothing needs any more, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_bench_metric.environments.build_log import Progress
from ml_bench_metric.environments.engine_calls import patient, told
from ml_bench_metric.environments.images import BUILDER
from ml_bench_metric.environments.labels import missing_labels
from ml_bench_metric.environments.stored import StoredImage, exclusive_bytes, stored_images
from ml_bench_metric.sandbox.docker_engine import one_line
from ml_bench_metric.sandbox.protocol import SandboxError

if TYPE_CHECKING:
    from docker import DockerClient


@dataclass(frozen=True)
class Left:
    """An image that nothing of this project needs, and that is left nevertheless."""

    name: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """What is to be removed."""

    going: tuple[StoredImage, ...]
    """Those that stand on others come first."""
    left: tuple[Left, ...]
    freed_bytes: int
    """What the images that go take on the engine's disk alone."""


def plan_prune(client: DockerClient) -> Plan:
    """Return which images nothing needs: no environment image that was built last of its recipe stands on them.

    Only images count that have this project's label and a name of their own digest. What a container uses, what has
    another name too, and what an image of somebody else stands on is left.

    Raises:
        SandboxError: the engine failed.
    """
    with told("looking for images that can go"):
        images = stored_images(client)
        containers = {record["ImageID"]: str(record["Names"][0]) for record in client.api.containers(all=True)}
        ours = [image for image in images if image.name is not None]
        current = [image for image in ours if _is_current(image)]
        others = [image for image in images if image.name is None and not _is_between(image, images)]
        spare = sorted(
            (image for image in ours if image not in current and not any(one.stands_on(image) for one in current)),
            key=lambda image: (-len(image.layers), str(image.name)),
        )
        left: dict[str, str] = {}
        staying = sorted(others, key=lambda image: not image.names)  # a name says more to a reader
        for image in spare:
            if reason := _reason_to_leave(image, staying, containers):
                left[image.digest] = reason
                staying = [*staying, image]
        going = tuple(image for image in spare if image.digest not in left)
        return Plan(
            going=going,
            left=tuple(Left(str(image.name), left[image.digest]) for image in spare if image.digest in left),
            freed_bytes=exclusive_bytes(client, going, [image for image in [*ours, *others] if image not in going]),
        )


def prune(client: DockerClient, plan: Plan, progress: Progress = lambda line: None) -> tuple[Left, ...]:
    """Remove what is planned, and return what the engine would not remove because it has come into use since.

    Args:
        client: of the engine.
        plan: of `plan_prune`.
        progress: receives a line for every image that is gone.

    Raises:
        SandboxError: an image is being built, or the engine failed.
    """
    from docker.errors import APIError, ImageNotFound

    refused = []
    with patient(client), told("removing images"):
        if any(_builders(client)):
            raise SandboxError("an image is being built, and may need what would be removed; prune when that has ended")
        for image in plan.going:
            try:
                for name in image.names:
                    # By name and without force: an image that got a further name, or into use, stays.
                    client.api.remove_image(name)
            except ImageNotFound:
                continue
            except APIError as error:
                if error.status_code != 409:
                    raise
                refused.append(Left(str(image.name), one_line(error)))
                continue
            progress(f"{image.name} is removed")
    return tuple(refused)


def _is_current(image: StoredImage) -> bool:
    # What an older version made is found by no evaluation.
    return image.latest is not None and not missing_labels(image)


def _is_between(image: StoredImage, images: list[StoredImage]) -> bool:
    """Whether it has no name and is there because one with a name stands on it, so that both go together."""
    return not image.names and any(one.names and one.stands_on(image) for one in images)


def _reason_to_leave(image: StoredImage, staying: list[StoredImage], containers: dict[str, str]) -> str:
    if image.digest in containers:
        return f"container {containers[image.digest].lstrip('/')} uses it"
    further = [name for name in image.names if name not in (image.name, image.latest)]
    if further:
        return f"it has another name, {further[0]}"
    above = next((other for other in staying if other.stands_on(image)), None)
    if above is None:
        return ""
    return f"{above.names[0] if above.names else above.digest[:19] + ', which has no name,'} stands on it"


def _builders(client: DockerClient) -> Iterator[str]:
    """Yield the containers in which images are made now, by whomever."""
    for container in client.api.containers(filters={"label": BUILDER}):
        if container["Labels"][BUILDER]:
            yield container["Id"]
