"""Whether a folder of Harbor tasks is one that Harbor and `datasets` can read.

The schema is that of Harbor 0.26 (`harbor.models.task.config`), as far as these tasks use it. The package itself needs
Python 3.12 and a long list of others, so it is no dependency.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ml_bench_hub.errors import HubError, one_line
from ml_bench_hub.harbor import REGISTRY
from ml_bench_hub.viewer import read_readme

_FILES = ("instruction.md", "environment/Dockerfile", "tests/test.sh", "solution/solve.sh")

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Section(BaseModel):
    # Harbor ignores what it does not know; here it is a typing error.
    model_config = ConfigDict(extra="forbid")


class _Package(_Section):
    name: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*$")]
    version: Annotated[str, StringConstraints(min_length=1)]
    description: str = ""
    keywords: list[str] = []


class _Timeout(_Section):
    timeout_sec: Seconds


class _Environment(_Section):
    build_timeout_sec: Seconds
    cpus: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    memory_mb: Annotated[int, Field(gt=0)]
    storage_mb: Annotated[int, Field(gt=0)]
    network_mode: Literal["no-network", "public", "allowlist"]
    workdir: Annotated[str, StringConstraints(pattern="^/")]


class _TaskFile(_Section):
    schema_version: Annotated[str, StringConstraints(pattern=r"^1\.\d+$")]
    task: _Package
    metadata: dict[str, Any] = {}
    agent: _Timeout
    verifier: _Timeout
    environment: _Environment


class _RegistryTask(_Section):
    name: str
    path: str


class _Registry(_Section):
    name: str
    version: str
    description: str
    tasks: list[_RegistryTask]


def check_harbor(folder: Path) -> list[str]:
    """Return one line for each thing that keeps a folder of tasks from being read by Harbor or `datasets`."""
    problems: list[str] = []
    try:
        read_readme(folder)
    except HubError as error:
        problems.append(str(error))
    tasks = sorted(path.parent for path in (folder / "tasks").glob("*/task.toml"))
    if not tasks:
        return [*problems, "tasks: there is no task: no file tasks/*/task.toml"]
    names: dict[str, Path] = {}
    for task in tasks:
        problems += _check_task(folder, task, names)
    strangers = set((folder / "tasks").iterdir()) - set(tasks)
    problems += [f"tasks/{path.name}: has no task.toml" for path in sorted(strangers)]
    problems += _check_registry(folder, {f"tasks/{task.name}" for task in tasks})
    return problems or list(_check_loading(folder, len(tasks)))


def _check_task(folder: Path, task: Path, names: dict[str, Path]) -> Iterator[str]:
    where = task.relative_to(folder).as_posix()
    for name in _FILES:
        path = task / name
        if not path.is_file():
            yield f"{where}: there is no {name}"
        elif not path.read_bytes().strip():
            yield f"{where}: {name} is empty"
    try:
        content = _TaskFile.model_validate(_read_toml(task / "task.toml"))
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            yield f"{where}/task.toml: {'.'.join(map(str, fault['loc']))}: {fault['msg']}"
        return
    except ValueError as error:
        yield f"{where}/task.toml: is not TOML: {error}"
        return
    other = names.setdefault(content.task.name.lower(), task)
    if other is not task:
        yield f"{where}/task.toml: task.name: {content.task.name} is also that of tasks/{other.name}"


def _read_toml(path: Path) -> Mapping[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(path.read_bytes().decode())


def _check_registry(folder: Path, tasks: set[str]) -> Iterator[str]:
    try:
        entries = json.loads((folder / REGISTRY).read_text(encoding="utf-8"))
        registries = [_Registry.model_validate(entry) for entry in entries]
    except FileNotFoundError:
        yield f"{REGISTRY}: there is none: `harbor run --repo` needs it"
        return
    except (OSError, ValueError, TypeError) as error:
        yield f"{REGISTRY}: is no list of data sets: {one_line(error)}"
        return
    listed = {task.path for registry in registries for task in registry.tasks}
    for path in sorted(listed - tasks):
        yield f"{REGISTRY}: lists {path}, which has no task"
    for path in sorted(tasks - listed):
        yield f"{REGISTRY}: does not list {path}"


def _check_loading(folder: Path, count: int) -> Iterator[str]:
    import datasets

    if not hasattr(datasets.packaged_modules, "harbor"):
        return  # Before 5.1 `datasets` has no reader for tasks.
    try:
        rows = datasets.load_dataset(str(folder), split="test", streaming=True)
        found = sum(1 for _ in rows)
    except Exception as error:  # Whatever `datasets` raises here, its users meet.
        yield f"load_dataset fails: {type(error).__name__}: {one_line(error)}"
        return
    if found != count:
        yield f"load_dataset finds {found} tasks of {count}"
