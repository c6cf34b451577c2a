"""`ml-bench show`: why a candidate got its verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def show(
    run: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="Folder of a run.")],
    task_id: Annotated[str, typer.Argument(help="For example dgl/1.")],
    candidate: Annotated[
        int | None, typer.Option(min=0, help="Only this one, counted from 0; by default all of the task.")
    ] = None,
) -> None:
    """Show everything that explains the verdicts on a task's candidates."""
    from rich.console import Console

    from ml_bench_dataset import DataError
    from ml_bench_metric.report.explanation import explain
    from ml_bench_metric.store import read_results, read_run

    read_run(run)
    found, known = [], set()
    for result in read_results(run):
        known.add(result.task_id)
        if result.task_id == task_id and candidate in (None, result.candidate):
            found.append(result)
    if not found:
        if task_id not in known:
            some = ", ".join(sorted(known)[:5])
            raise DataError(f"{run} has no result for task {task_id!r}; it has for {some or 'no task'}, …")
        raise DataError(f"{run} has no result for candidate {candidate} of task {task_id!r}")
    console = Console()
    for result in sorted(found, key=lambda result: (result.candidate, result.repeat)):
        explain(result, console)
