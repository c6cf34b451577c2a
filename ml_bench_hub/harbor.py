"""Split A as a data set repository of Harbor tasks: one folder per task, which an agent framework can run as it is."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from ml_bench_hub.build import about, checked_namespace, licence, write_texts
from ml_bench_hub.card import for_namespace, resource
from ml_bench_hub.errors import HubError
from ml_bench_hub.folder import Manifest, read_manifest, writing
from ml_bench_hub.front_matter import to_yaml
from ml_bench_hub.harbor_image import HarborImage, harbor_image
from ml_bench_hub.harbor_task import instruction, judge_script, slug, solve_script, task_toml
from ml_bench_hub.leaderboard import EVAL_FILE, harbor_eval_definition
from ml_bench_hub.tables import Progress, open_origin
from ml_bench_metric.tasks import Task, load_tasks

HARBOR_NAME = "ml-bench-a-harbor"
"""Name of the repository of Harbor tasks, without its namespace."""

REGISTRY = "registry.json"
REGISTRY_NAME = "ml-bench-a"
VERSION = "1.0.0"
"""Of the tasks as Harbor sees them; to be raised when the same rows give other tasks."""

# What may stand in a Dockerfile without meaning something else there.
_FOLDER = re.compile(r"[\w./+@~-]+", re.ASCII)
_URL = re.compile(r"https?://[^\s'\"\\]+", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def build_harbor(
    out: Path,
    *,
    source: str | None = None,
    revision: str | None = None,
    namespace: str | None = None,
    eval_yaml: bool = True,
    progress: Progress = lambda line: None,
) -> Manifest:
    """Write split A as Harbor tasks into a folder, whole or not at all, and return its manifest.

    Equal rows, recipes and options give equal bytes.

    Args:
        out: new, empty, or written by this function and unchanged since.
        source: where the rows come from, see `ml_bench_dataset.read_split`.
        revision: of the Hub repository that they come from.
        namespace: where the folder will be published; named in the README.
        eval_yaml: whether to define the leaderboard.
        progress: receives a line for each repository.

    Raises:
        HubError: `out` is something else, or a task cannot be one of Harbor's.
        DataError: the source cannot be read, or its rows are faulty.
        RecipeError: a recipe is faulty.
    """
    checked_namespace(namespace)
    origin = open_origin(source, revision, progress)
    tasks = load_tasks(origin.source, "A").tasks
    names = _names(tasks)
    with writing(out, about("harbor", HARBOR_NAME, namespace, origin)) as folder:
        starts: dict[str, str] = {}
        for task, name in zip(tasks, names, strict=True):
            image = harbor_image(task)
            starts[task.repository] = image.start
            _write_task(folder / "tasks" / name, task, image)
        readme = for_namespace(resource("harbor_card.md"), namespace).replace("<version>", VERSION)
        texts = {"README.md": readme, "LICENSE": licence(), REGISTRY: _registry(names)}
        if eval_yaml:
            texts[EVAL_FILE] = to_yaml(harbor_eval_definition())
        write_texts(folder, texts)
    for repository, start in starts.items():
        count = sum(task.repository == repository for task in tasks)
        progress(f"{repository}: {count} tasks, {start}")
    return read_manifest(out)


def _names(tasks: Sequence[Task]) -> list[str]:
    names: dict[str, Task] = {}
    for task in tasks:
        # Harbor makes names of images out of them, in which case does not count.
        other = names.setdefault(slug(task).lower(), task)
        if other is not task:
            raise HubError(f"tasks {other.task_id} and {task.task_id} would have the same folder {slug(task)!r}")
        if not _FOLDER.fullmatch(task.working_folder):
            raise HubError(f"task {task.task_id}: column path is {task.path!r}, which no Dockerfile can name")
        if not _URL.fullmatch(task.github):
            raise HubError(f"task {task.task_id}: column github is {task.github!r}, which no Dockerfile can name")
        if task.commit is not None and not _COMMIT.fullmatch(task.commit):
            raise HubError(f"task {task.task_id}: column commit is {task.commit!r}, which is no name of a commit")
    return [slug(task) for task in tasks]


def _write_task(folder: Path, task: Task, image: HarborImage) -> None:
    write_texts(
        folder,
        {
            "task.toml": task_toml(task, image.start, VERSION),
            "instruction.md": instruction(task, image.start),
            "environment/Dockerfile": image.dockerfile,
            "solution/solve.sh": solve_script(task),
            "tests/test.sh": judge_script(task),
        },
    )
    for name, path in image.folders.items():
        ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(path, folder / "environment" / name, ignore=ignore)
    for name, path in image.files.items():
        shutil.copyfile(path, folder / "environment" / name)
    for name in ("solution/solve.sh", "tests/test.sh"):
        (folder / name).chmod(0o755)


def _registry(names: Sequence[str]) -> str:
    content = {
        "name": REGISTRY_NAME,
        "version": VERSION,
        "description": "ML-Bench-A: agents work end to end on repositories of machine-learning code.",
        "tasks": [{"name": name, "path": f"tasks/{name}"} for name in names],
    }
    return json.dumps([content], indent=1) + "\n"
