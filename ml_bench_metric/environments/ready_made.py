"""An image that is given for all tasks: where it has their repositories, and how candidates run in it.

It may be one of ours, with the repositories below `/workspace`, or one laid out like upstream's
`public.ecr.aws/i5g0m1f6/ml-bench`: the repositories in a folder `repos`, and a conda environment for each.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ml_bench_metric.environments.engine_calls import told
from ml_bench_metric.environments.files import OWNER
from ml_bench_metric.environments.images import ASSETS, TaskImage
from ml_bench_metric.environments.inside import ask_inside
from ml_bench_metric.environments.stored import stored_image
from ml_bench_metric.sandbox.execution import Assets
from ml_bench_metric.sandbox.protocol import SandboxError
from ml_bench_metric.tasks import WORKSPACE, Task

if TYPE_CHECKING:
    from docker import DockerClient

LOOK_SECONDS = 300
"""How long one look into an image may take: repositories with their data have some ten thousand folders."""

CANDIDATE = f"{OWNER}:{OWNER}"

_LOOK = Path(__file__).with_suffix(".sh")
_OF_THE_SHELL = ("_", "SHLVL", "PWD", "OLDPWD")
"""Variables that a shell sets for itself."""

_known: dict[tuple[str, str, str], _Seen] = {}
_lock = threading.Lock()


def find(
    client: DockerClient, image: str, digest: str, tasks: Iterable[Task]
) -> tuple[dict[str, TaskImage], dict[str, str]]:
    """Return how each task's candidates run in a given image, and why those of some tasks cannot.

    Candidates run as user 1000. Where that user cannot read or write a repository of an image that this project did not
    make, they run as the image's own user, still without capabilities, new privileges and network; see `notes`.

    Args:
        client: of the engine.
        image: name of the image, for messages.
        digest: of the image. It is looked into once in a process.
        tasks: the tasks.

    Returns:
        `task_id` -> image, and for all other tasks `task_id` -> what is missing and what to do.

    Raises:
        SandboxError: the engine failed, or the image cannot be looked into.
    """
    with told(f"image {image}"):
        stored = stored_image(client, digest)
    if stored is None:
        raise SandboxError(f"the engine has no image {image} any more")
    assets = cast(Assets, stored.labels.get(ASSETS, "unknown"))
    # What this project makes serves user 1000. Where it does not, it is broken, and nobody else is to be tried.
    users = [CANDIDATE] if stored.name else [CANDIDATE, stored.user or "0:0"]
    placed: dict[str, TaskImage] = {}
    missing: dict[str, str] = {}
    left = list(tasks)
    for user in users:
        if not left:
            break
        seen = _look(client, digest, user)
        for task in left:
            place = _place(seen, task)
            if isinstance(place, str):
                missing[task.task_id] = f"image {image} {place}; give another --image, or none"
            else:
                placed[task.task_id] = TaskImage(digest, assets, place.root, place.variables, seen.user)
        left = [task for task in left if task.task_id not in placed]
    return placed, {task.task_id: missing[task.task_id] for task in left}


def notes(images: Iterable[TaskImage]) -> list[str]:
    """Return what is to be said of given images before candidates run in them: a line for each unusual user."""
    users = [image.user for image in images if image.user != CANDIDATE]
    return [
        f"the candidates of {users.count(user)} tasks run as user {user}, the image's own, because user {CANDIDATE} "
        "cannot read or write their repositories; capabilities, new privileges and network stay off"
        for user in dict.fromkeys(users)
    ]


@dataclass(frozen=True)
class _Place:
    root: str
    variables: Mapping[str, str]


@dataclass(frozen=True)
class _Seen:
    """What a user finds in an image."""

    user: str
    """uid and gid."""
    repositories: dict[str, dict[str, bool]] = field(default_factory=dict)
    """Name of a repository's folder -> the folder that it is in -> whether the user can read and write it."""
    environments: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Name of a conda environment -> the variables that activating it sets."""


def _place(seen: _Seen, task: Task) -> _Place | str:
    """Return where and how a task's candidates run, or what the image lacks for it."""
    roots = seen.repositories.get(task.directory, {})
    if not roots:
        return f"has no folder {task.directory}, neither in {WORKSPACE} nor in a folder repos"
    root = next((root for root, usable in roots.items() if usable), None)
    if root is None:
        return f"has {next(iter(roots))}/{task.directory}, but user {seen.user} cannot read and write it"
    variables = seen.environments.get(task.environment or "")
    if variables is None and task.environment and root != WORKSPACE:
        return f"has {root}/{task.directory}, but no conda environment {task.environment} with a Python that starts"
    return _Place(root, variables or {})


def _look(client: DockerClient, digest: str, user: str) -> _Seen:
    key = (str(client.api.base_url), digest, user)
    with _lock:
        if key not in _known:
            program = _LOOK.read_text(encoding="utf-8")
            _known[key] = _read(ask_inside(client, digest, program, user=user, seconds=LOOK_SECONDS))
        return _known[key]


def _read(answer: str) -> _Seen:
    """Return what the records of `ready_made.sh` say."""
    records = [record.split("\0") for record in answer.removesuffix("\0\0").split("\0\0")]
    user = next(fields[0] for kind, *fields in records if kind == "user")
    before = next(set(fields) for kind, *fields in records if kind == "variables")
    seen = _Seen(user)
    for kind, *fields in records:
        if kind == "repository":
            root, name, usable = fields
            seen.repositories.setdefault(name, {}).setdefault(root, usable == "yes")
        elif kind == "environment":
            name, *variables = fields
            changed = dict(item.split("=", 1) for item in variables if item not in before and "=" in item)
            seen.environments.setdefault(name, {k: v for k, v in changed.items() if k not in _OF_THE_SHELL})
    return seen
