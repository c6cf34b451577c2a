"""A folder of repositories that plays the part of an image, for the process sandbox."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.sandbox.protocol import Sandbox
from ml_bench_metric.tasks import Task


def find(sandbox: Sandbox, folder: Path, tasks: Iterable[Task]) -> tuple[dict[str, TaskImage], dict[str, str]]:
    """Return the image of each task whose repository a folder has, and what to do about the others.

    Args:
        sandbox: whose images are folders.
        folder: in it each repository is a folder of its own, named as in `Task.directory`.
        tasks: the tasks.

    Returns:
        `task_id` -> image, and for all other tasks `task_id` -> what is missing and what to do.

    Raises:
        SandboxError: there is no such folder, or it cannot be read.
    """
    image = TaskImage(sandbox.image_digest(str(folder)))
    placed: dict[str, TaskImage] = {}
    missing: dict[str, str] = {}
    for task in tasks:
        if (folder / task.directory).is_dir():
            placed[task.task_id] = image
        else:
            missing[task.task_id] = (
                f"{folder} has no folder {task.directory}: put the repository there, or give --image"
            )
    return placed, missing
