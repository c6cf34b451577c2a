"""The environment of a Harbor task: a Dockerfile, and the files that it copies."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ml_bench_hub.harbor_task import Start
from ml_bench_metric.environments.recipe import Recipe
from ml_bench_metric.environments.registry import EnvironmentUnknown, recipe_for
from ml_bench_metric.tasks import Task

_BARE_PYTHON = "3.11"
_BARE_PACKAGES = ("build-essential", "ca-certificates", "git", "procps")


@dataclass(frozen=True)
class HarborImage:
    """What is in a task's folder `environment/`."""

    start: Start
    dockerfile: str
    folders: Mapping[str, Path]
    """Folder beside the Dockerfile -> the folder on this machine that it is a copy of."""
    files: Mapping[str, Path]
    """File beside the Dockerfile -> the file on this machine that it is a copy of."""


def harbor_image(task: Task) -> HarborImage:
    """Return the environment of a task: prepared where the package has a recipe for its repository, else bare.

    Raises:
        RecipeError: the recipe is faulty.
    """
    try:
        recipe = recipe_for(task.repository)
    except EnvironmentUnknown:
        steps = [*_base(_BARE_PYTHON), _apt(_BARE_PACKAGES), _checkout(task), _folder(task)]
        return HarborImage("bare", "\n".join(steps) + "\n", {}, {})
    return _prepared(task, recipe)


def _prepared(task: Task, recipe: Recipe) -> HarborImage:
    from_git = recipe.package is None
    packages = (*recipe.apt, *(("ca-certificates", "git") if from_git else ()))
    steps = _base(recipe.python)
    if packages:
        steps.append(_apt(packages))
    if recipe.pip:
        extra = f" --extra-index-url {shlex.quote(recipe.pip_index)}" if recipe.pip_index else ""
        steps.append(f"RUN python -m pip install --no-cache-dir{extra} {' '.join(map(shlex.quote, recipe.pip))}")
    for script in recipe.scripts:
        steps += [_copy(script, f"/tmp/{script}"), f"RUN python /tmp/{script} && rm /tmp/{script}"]
    steps += [f"ENV {name}={_quoted(value)}" for name, value in recipe.environment.items()]
    if from_git:
        steps.append(_checkout(task))
    else:
        steps.append(_copy(task.directory, f"/workspace/{task.directory}"))
    if recipe.imports:
        steps.append(f"RUN python -c {shlex.quote('import ' + ', '.join(recipe.imports))}")
    return HarborImage(
        start="prepared",
        dockerfile="\n".join([*steps, _folder(task)]) + "\n",
        folders={} if from_git else {task.directory: recipe.package_folder() / recipe.directories[task.repository]},
        files={script: recipe.folder / script for script in recipe.scripts},
    )


def _base(python: str) -> list[str]:
    # An argument, so that a machine without a registry can name an image that it has.
    return [f"ARG BASE=python:{python}-slim-bookworm", "FROM ${BASE}"]


def _apt(packages: tuple[str, ...]) -> str:
    return (
        "RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "
        f"{' '.join(dict.fromkeys(packages))} && rm -rf /var/lib/apt/lists/*"
    )


def _quoted(value: str) -> str:
    # A Dockerfile's quotes are those of JSON, but that `$` has a meaning in them.
    return json.dumps(value, ensure_ascii=False).replace("$", "\\$")


def _copy(source: str, target: str) -> str:
    return f"COPY {json.dumps([source, target])}"


def _checkout(task: Task) -> str:
    """Return the step that fetches the repository at its commit; at its head where no commit is known."""
    folder = shlex.quote(f"/workspace/{task.directory}")
    return (
        f"RUN git init -q {folder} && cd {folder} && git fetch -q --depth=1 {shlex.quote(task.github)} "
        f"{task.commit or 'HEAD'} && git checkout -q FETCH_HEAD"
    )


def _folder(task: Task) -> str:
    return f"WORKDIR {task.working_folder}"
