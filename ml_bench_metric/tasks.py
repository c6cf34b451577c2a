"""Task: one row of the benchmark, typed, with everything the judge derives from it."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

import ml_bench_dataset
from ml_bench_metric.sandbox.execution import Record

Language = Literal["bash", "python"]

Form = Literal["answer", "run.sh"]
"""What a candidate is. `answer`: a program, or a model's text that holds one. `run.sh`: a bash script of this name in
the task's folder, with whatever else was changed there: what an agent leaves."""

SCRIPT = "run.sh"
"""File of the task's folder that is run of an agent's work."""

_SPLITS_OF_AGENTS = ("A", "quarter")
"""Our name and upstream's."""

WORKSPACE = "/workspace"
"""The folder of the sandbox that has the repositories' folders."""

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)

# The second line: what only a shell in the image could tell.
_REFERENCE = re.compile(
    r"\$\{(\w+)\}|\$(\w+)"
    r"|\$[({]|`",
    re.ASCII,
)

_LANGUAGES: Mapping[str, Language] = {"Bash Script": "bash", "Python Code": "python"}


class Task(BaseModel):
    """One row of the data set. Field names and order are the data set's columns; texts are as published."""

    model_config = ConfigDict(frozen=True, ignored_types=(cached_property,))

    github_id: int
    github: str
    repo_id: int
    path: str
    arguments: str
    instruction: str
    oracle: str
    type: Literal["Bash Script", "Python Code"]
    id: int
    prefix_code: str
    output: str
    task_id: str
    repository: str
    commit: str | None
    domain: str | None
    environment: str | None

    @classmethod
    def from_row(cls, row: Mapping[str, object]) -> Task:
        """Return the task of a row of the data set.

        A row with upstream's eleven columns alone is completed by `ml_bench_dataset.complete_row`.

        Raises:
            ml_bench_dataset.DataError: a column is missing or has a wrong type or value; the message names it.
        """
        return cls.model_validate(ml_bench_dataset.complete_row(row))

    @property
    def language(self) -> Language:
        """What runs a candidate of this task: `bash` or `python`."""
        return _LANGUAGES[self.type]

    @property
    def key(self) -> tuple[int, int]:
        """Upstream's key `(github_id, id)`; `id` alone is not unique."""
        return (self.github_id, self.id)

    @cached_property
    def argument_values(self) -> dict[str, object]:
        """The arguments that the instruction asks for: free-text name -> str, int or float."""
        return ml_bench_dataset.parse_arguments(self.arguments)

    @property
    def directory(self) -> str:
        """Name of the repository's folder below `/workspace`: the last part of its URL, in the case shown there."""
        return self.github.rstrip("/").rsplit("/", 1)[-1].removesuffix(".git")

    @property
    def working_folder(self) -> str:
        """Absolute folder in the sandbox in which a candidate runs, `/workspace/<directory>[/<path>]`.

        Raises:
            ml_bench_dataset.DataError: `path` leads out of the repository, or holds a NUL, as no path can.
        """
        if "\0" in self.path:
            raise ml_bench_dataset.DataError(
                f"task {self.task_id}: column path is {self.path!r}, which holds a NUL; no folder has such a name"
            )
        root = posixpath.join(WORKSPACE, self.directory)
        folder = posixpath.normpath(posixpath.join(root, self.path.strip()))
        if folder != root and not folder.startswith(root + "/"):
            raise ml_bench_dataset.DataError(
                f"task {self.task_id}: column path is {self.path!r}, which leads out of the repository; "
                "give a folder relative to the repository's root"
            )
        return folder

    @cached_property
    def variables(self) -> dict[str, str]:
        """Environment variables of the candidate: the `export NAME=value` lines of `prefix_code`.

        The other lines of `prefix_code` install and download; they belong to the image. References to other
        variables inside a value (`$NAME`, `${NAME}`) are resolved among the exports before it, never from the host. A
        variable is left out whose value hangs on anything else, as in `PATH=$PATH:/x` or `HERE=$(pwd)`: only the image
        knows that, and its own `PATH` must stand.
        """
        return _variables(self.prefix_code)


def _variables(code: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in _exports(code):
        resolved = _resolved(value, found)
        if resolved is None:
            found.pop(name, None)
        else:
            found[name] = resolved
    return found


def _exports(code: str) -> Iterator[tuple[str, str]]:
    for line in code.splitlines():
        line = line.strip().removeprefix("$ ").strip()
        if not line.startswith("export "):
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:
            continue
        exports = False
        for before, word in zip((";", *words), words, strict=False):
            if before in (";", "&&"):
                exports = word == "export"
            elif word and not word.strip(";&|") and word not in (";", "&&"):
                break  # whether and where the rest of the line runs is not known
            elif exports:
                name, equals, value = word.partition("=")
                if equals and _NAME.fullmatch(name):
                    yield name, value


def _resolved(value: str, known: Mapping[str, str]) -> str | None:
    """Return a value with its references resolved; None where one is not known."""
    names = [match[1] or match[2] for match in _REFERENCE.finditer(value)]
    if any(name not in known for name in names):
        return None
    return _REFERENCE.sub(lambda match: known[match[1] or match[2]], value)


class Excluded(Record):
    """Tasks that were left out of a set, and why."""

    why: str
    """Its name, such as `known-issues`."""
    tasks: tuple[str, ...]
    """`task_id` of each, in the order of the rows."""


@dataclass(frozen=True)
class TaskSet:
    """The tasks that an evaluation counts, and where they come from."""

    tasks: tuple[Task, ...]
    split: str
    origin: str
    """Where the rows were read: a folder, a file, `sample`, or a Hub repository with its revision."""
    digest: str
    """SHA-256 (hex) over the rows, independent of their storage format; of a cut-down set, over the digest of the
    whole and what it was cut down by."""
    selection: tuple[str, ...] = ()
    """The repositories that the set was cut down to, in the order of the rows; empty where it has all of them."""
    excluded: tuple[Excluded, ...] = ()
    """The tasks that were left out, by why they were; empty where none was."""
    source: str | None = None
    """The source that was asked for, with which the same rows can be read again; a path is absolute."""
    revision: str | None = None
    """Of the Hub repository, as it was asked for."""
    warnings: tuple[str, ...] = ()
    """What is to be known of the rows, such as a changed upstream."""

    @cached_property
    def by_id(self) -> dict[str, Task]:
        """`task_id` -> task."""
        return {task.task_id: task for task in self.tasks}

    @cached_property
    def by_key(self) -> dict[tuple[int, int], Task]:
        """`(github_id, id)` -> task."""
        return {task.key: task for task in self.tasks}

    @property
    def repositories(self) -> tuple[str, ...]:
        """Names of the repositories, in the order of the rows, each once."""
        return tuple(dict.fromkeys(task.repository for task in self.tasks))

    def only(self, repositories: Iterable[str]) -> TaskSet:
        """Return the set cut down to some repositories; the set itself where these are all of its.

        Raises:
            ml_bench_dataset.DataError: no name is given, or one is not among those of the set; the message lists them.
        """
        wanted = tuple(repositories)
        if not wanted:
            raise ml_bench_dataset.DataError(
                f"no repository is named; split {self.split!r} has: " + ", ".join(self.repositories)
            )
        for name in wanted:
            if name not in self.repositories:
                raise ml_bench_dataset.DataError(
                    f"no task of split {self.split!r} belongs to repository {name!r}; there are: "
                    + ", ".join(self.repositories)
                )
        selection = tuple(name for name in self.repositories if name in wanted)
        if selection == self.repositories:
            return self
        tasks = tuple(task for task in self.tasks if task.repository in selection)
        digest = hashlib.sha256(json.dumps([self.digest, *selection]).encode()).hexdigest()
        return replace(self, tasks=tasks, digest=digest, selection=selection)

    def without(self, task_ids: Collection[str], why: str) -> TaskSet:
        """Return the set without some tasks; the set itself where it has none of them.

        Args:
            task_ids: of the tasks; the set need not have all of them.
            why: a name for what they have in common, such as `known-issues`. It goes into the digest.

        Raises:
            ml_bench_dataset.DataError: no task would be left.
        """
        left_out = tuple(task.task_id for task in self.tasks if task.task_id in task_ids)
        if not left_out:
            return self
        tasks = tuple(task for task in self.tasks if task.task_id not in task_ids)
        if not tasks:
            raise ml_bench_dataset.DataError(
                f"{why}: all {len(left_out)} tasks of split {self.split!r} that were chosen would be left out; "
                "choose others"
            )
        digest = hashlib.sha256(json.dumps([self.digest, {why: left_out}]).encode()).hexdigest()
        return replace(self, tasks=tasks, digest=digest, excluded=(*self.excluded, Excluded(why=why, tasks=left_out)))


def form_of(split: str) -> Form:
    """Return what the candidates of a split's tasks are: split A is for agents."""
    return "run.sh" if split in _SPLITS_OF_AGENTS else "answer"


def load_tasks(source: str | None, split: str, *, revision: str | None = None) -> TaskSet:
    """Return the tasks of a split.

    Args:
        source: `sample`, a folder laid out like upstream's Hub repository, a parquet, JSON or JSONL file, or a Hub
            data set id. None takes the environment variable `ML_BENCH_SOURCE`, else upstream's data set.
        split: `full`, `quarter`, `id_train`, `ood_train`; `L` and `A` are the default configuration's names for
            `full` and `quarter`, and the sample's own.
        revision: of the Hub repository.

    Raises:
        ml_bench_dataset.DataError: the source or split does not exist, or a row is faulty.
    """
    loaded = ml_bench_dataset.read_split(source, split, revision=revision)
    return TaskSet(
        tasks=tuple(usable_task(row, loaded.origin) for row in loaded.rows),
        split=split,
        origin=loaded.origin,
        digest=loaded.digest,
        source=str(Path(source).absolute()) if source and Path(source).exists() else source,
        revision=revision,
        warnings=loaded.warnings,
    )


def usable_task(row: Mapping[str, object], origin: str) -> Task:
    """Return a row's task, all of whose parts can be used: a fault must show now, not hours into a run.

    Args:
        row: with all columns, see `ml_bench_dataset.complete_row`.
        origin: where it was read, for messages.

    Raises:
        ml_bench_dataset.DataError: a column has a value that no task can have, `path` leads out of the repository,
            `arguments` cannot be read, or a NUL is in the path or a variable; the message names the column.
    """
    try:
        task = Task.model_validate(row)
        _ = task.working_folder, task.argument_values
        for name, value in _variables(task.prefix_code).items():  # not kept: a changed copy would inherit it
            if "\0" in value:
                raise ml_bench_dataset.DataError(
                    f"task {task.task_id}: column prefix_code sets {name} to {value!r}, which holds a NUL; "
                    "no environment variable can"
                )
    except ml_bench_dataset.DataError:
        raise
    except ValidationError as error:
        fault = error.errors()[0]
        column = ".".join(map(str, fault["loc"]))
        raise ml_bench_dataset.DataError(
            f"{origin}: task {row['task_id']}: column {column} is {fault['input']!r}, which no task can have: "
            f"{fault['msg']}"
        ) from error
    return task
