"""`ml-bench tasks`: what is there to be solved."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ml_bench_cli.inputs import read_tasks
from ml_bench_cli.options import Revision, Split, Tasks, parse_names

if TYPE_CHECKING:
    from ml_bench_metric.tasks import Task, TaskSet


def tasks(
    task_id: Annotated[str | None, typer.Argument(help="Show this task; without it the tasks are listed.")] = None,
    source: Tasks = None,
    split: Split = "L",
    revision: Revision = None,
    repositories: Annotated[str, typer.Option(help="Only these, separated by commas.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="As JSON lines, with all columns.")] = False,
) -> None:
    """List the tasks of a split, or show one."""
    from ml_bench_dataset import DataError

    found = read_tasks(source, split, revision)
    if repositories:
        found = found.only(parse_names(repositories))
    if task_id is not None:
        if task_id not in found.by_id:
            raise DataError(f"split {split!r} of {found.origin} has no task {task_id!r}; `ml-bench tasks` lists them")
        found = replace(found, tasks=(found.by_id[task_id],))
    if as_json:
        for task in found.tasks:
            print(json.dumps(task.model_dump()))
    elif task_id is not None:
        _show(found.tasks[0])
    else:
        _list(found)


def _list(found: TaskSet) -> None:
    from rich.console import Console

    from ml_bench_metric.printable import printable

    console = Console()
    width = max(len(task.task_id) for task in found.tasks) if found.tasks else 0
    for task in found.tasks:
        line = printable(f"{task.task_id:<{width}}  {task.type:<11}  {task.path or './'}  {task.instruction.strip()}")
        # Cut for an eye only: what goes into a file or `grep` is whole.
        if console.is_terminal and len(line) > console.width:
            line = line[: console.width - 1] + "…"
        print(line)
    origin = printable(found.origin)
    print(f"{len(found.tasks)} tasks of {len(found.repositories)} repositories, from {origin}", file=sys.stderr)


def _show(task: Task) -> None:
    from rich.console import Console

    console = Console()
    facts = {
        "task": task.task_id,
        "type": task.type,
        "repository": f"{task.github} at {task.commit or 'an unknown commit'}",
        "folder": task.working_folder,
        "arguments": ", ".join(f"{name} = {value!r}" for name, value in task.argument_values.items()) or "none",
    }
    for name, value in facts.items():
        console.print(f"[bold]{name:<11}[/] {_plain(value)}", soft_wrap=True)
    for title, text in (
        ("instruction", task.instruction),
        ("prefix_code", task.prefix_code),
        ("oracle", task.oracle),
        ("reference", task.output),
    ):
        console.print(f"\n[bold]{title}[/]")
        console.print("\n".join(_plain(line) for line in text.strip().splitlines()) or "(empty)", soft_wrap=True)


def _plain(text: str) -> str:
    from rich.markup import escape

    from ml_bench_metric.printable import printable

    return escape(printable(text))
