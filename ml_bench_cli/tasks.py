"""`ml-bench tasks`: what is there to be solved."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ml_bench_cli.inputs import read_tasks
from ml_bench_cli.options import Extract, Revision, Split, Tasks, parse_names

if TYPE_CHECKING:
    from ml_bench_metric.known_issues import Issue
    from ml_bench_metric.sandbox.execution import Assets
    from ml_bench_metric.tasks import Task, TaskSet


def tasks(
    task_id: Annotated[str | None, typer.Argument(help="Show this task; without it the tasks are listed.")] = None,
    source: Tasks = None,
    split: Split = "L",
    revision: Revision = None,
    repositories: Annotated[str, typer.Option(help="Only these, separated by commas.")] = "",
    issues: Annotated[
        bool, typer.Option("--known-issues", help="List the tasks whose reference is known not to pass, and why.")
    ] = False,
    assets: Annotated[
        Literal["none", "stand-in", "real"],
        typer.Option(help="With --known-issues: as in images with such weights and data."),
    ] = "stand-in",
    device: Annotated[
        Literal["cpu", "gpu"], typer.Option(help="With --known-issues: as in images made for it.")
    ] = "cpu",
    extract: Extract = "auto",
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
    if issues:
        from ml_bench_metric.known_issues import known_issues

        kind: Assets = "stand_in" if assets == "stand-in" else assets
        _list_issues(known_issues(found, extract=extract, assets_of=lambda task: kind, device=device), found, as_json)
    elif as_json:
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


def _list_issues(issues: Sequence[Issue], found: TaskSet, as_json: bool) -> None:
    from ml_bench_metric.known_issues import CAUSES, tasks_with_issues
    from ml_bench_metric.printable import printable
    from ml_bench_metric.results import RULES

    width = max((len(issue.task_id) for issue in issues), default=0)
    for issue in issues:
        rules = "both rules" if issue.rules == RULES else ", ".join(issue.rules)
        line = printable(f"{issue.task_id:<{width}}  {rules:<10}  {issue.cause:<9}  {issue.reason}")
        print(issue.to_json() if as_json else line)
    for cause in CAUSES:
        of_cause = [issue for issue in issues if issue.cause == cause]
        of_rules = ", ".join(
            f"{rule} {len(tasks_with_issues(issue for issue in of_cause if rule in issue.rules))}" for rule in RULES
        )
        if of_cause:
            print(f"{cause}: {len(tasks_with_issues(of_cause))} tasks ({of_rules})", file=sys.stderr)
    origin = printable(found.origin)
    print(
        f"{len(tasks_with_issues(issues))} of {len(found.tasks)} tasks have a known issue, from {origin}",
        file=sys.stderr,
    )


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
