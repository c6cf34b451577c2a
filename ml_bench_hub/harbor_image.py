"""The environment of a Harbor task: a Dockerfile, and the files that it copies."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ml_bench_hub.harbor_task import Start
from ml_bench_metric.environments import registry
from ml_bench_metric.environments.recipe import REQUIREMENTS, Recipe
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
        recipe = recipe_for(task.repository, task.task_id)
    except EnvironmentUnknown:
        steps = [*_base(_BARE_PYTHON), _apt(_BARE_PACKAGES), _checkout(task), _folder(task)]
        return HarborImage("bare", "\n".join(steps) + "\n", {}, {})
    return _prepared(task, recipe)


def _prepared(task: Task, recipe: Recipe) -> HarborImage:
    from_git = recipe.package is None
    layers = registry.layers(recipe)
    steps = _base(layers[0].python or _BARE_PYTHON)
    files: dict[str, Path] = {}
    if from_git:
        steps.append(_apt(("ca-certificates", "git")))
    for number, layer in enumerate(layers):
        # A recipe may have the name of the set on which it stands, and both a script of the same name.
        prefix = f"{number}-{layer.name}-"
        if layer.apt:
            steps.append(_apt(layer.apt))
        if layer.requirements("cpu"):
            name = prefix + REQUIREMENTS
            files[name] = layer.folder / REQUIREMENTS
            extra = f" --extra-index-url {shlex.quote(layer.pip_index)}" if layer.pip_index else ""
            install = f"python -m pip install --no-cache-dir --no-deps --require-hashes{extra} -r /tmp/{name}"
            steps += [_copy(name, f"/tmp/{name}"), f"RUN {install} && rm /tmp/{name}"]
        for script in layer.scripts:
            name = prefix + script
            files[name] = layer.folder / script
            steps += [_copy(name, f"/tmp/{name}"), f"RUN python /tmp/{name} && rm /tmp/{name}"]
    steps += [f"ENV {name}={_quoted(value)}" for name, value in recipe.environment.items()]
    if from_git:
        steps.append(_checkout(task))
    else:
        steps.append(_copy(task.directory, f"/workspace/{task.directory}"))
    imports = dict.fromkeys(name for layer in layers for name in layer.imports)
    if imports:
        steps.append(f"RUN python -c {shlex.quote('import ' + ', '.join(imports))}")
    return HarborImage(
        start="prepared",
        dockerfile="\n".join([*steps, _folder(task)]) + "\n",
        folders={} if from_git else {task.directory: recipe.package_folder() / recipe.directories[task.repository]},
        files=files,
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
