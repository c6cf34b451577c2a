"""`ml-bench import-answers`: answers of another engine as a file of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ml_bench_cli.inputs import read_tasks
from ml_bench_cli.options import UNEXPECTED, Repositories, Revision, Split, Tasks, parse_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from ml_bench_solvers.batch_answers import Answers

_SHOWN = 10


def import_answers(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="OpenAI's batch output and error files, or JSON lines or parquet with task_id and answer(s); several "
            "together are one set of answers."
        ),
    ],
    out: Annotated[Path, typer.Option(help="File of predictions to write.")] = Path("predictions.jsonl"),
    source: Tasks = None,
    split: Split = "L",
    revision: Revision = None,
    repositories: Repositories = "",
    answers: Annotated[
        int | None,
        typer.Option("-n", "--answers", min=1, help="How many each task should have; told where it lacks some."),
    ] = None,
    answer_field: Annotated[
        str | None, typer.Option(help="Field that holds the answers of entries that are no batch's.")
    ] = None,
    requests: Annotated[
        list[Path] | None, typer.Option(help="Files that were sent; with --retry, those without an answer are written.")
    ] = None,
    retry: Annotated[Path | None, typer.Option(help="File to write with the --requests to send again.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace --out and --retry where they are.")] = False,
) -> None:
    """Write a file of predictions, and tell what is missing, errored, unknown, twice there or empty.

    Whatever is fine is kept. Exit status 1 says that answers are missing or could not be read.
    """
    from rich.console import Console

    from ml_bench_solvers import batch
    from ml_bench_solvers.batch_answers import LOST, read_answers, unanswered

    if (retry is None) != (not requests):
        raise typer.BadParameter("--requests and --retry belong together: the files sent, and the file to send again")
    for path in (out, retry):
        if path is not None and path.exists() and not replace:
            raise batch.BatchError(f"{path} is there already; give another place, or --replace")
    console = Console(stderr=True, emoji=False)
    every_task = read_tasks(source, split, revision)
    tasks = every_task.only(parse_names(repositories)) if repositories else every_task
    # Against every task: an answer for another repository of the split is no fault of the file.
    found = read_answers(files, every_task, answer_field=answer_field)
    batch.write_text(found.predictions(tasks), out)
    missing = found.missing(tasks, answers)
    _tell(found, missing, len(tasks.tasks), console)
    console.print(f"predictions are in {out}", soft_wrap=True, markup=False)
    if retry is not None and requests:
        written = batch.write_requests(unanswered(requests, found, every_task), retry, replace=replace)
        paths = " ".join(map(str, written.files))
        console.print(f"{written.requests} requests to send again{': ' + paths if paths else ''}", markup=False)
    if missing or any(problem.kind in LOST for problem in found.problems):
        raise typer.Exit(UNEXPECTED)


def _tell(found: Answers, missing: Mapping[str, int], tasks: int, console: Console) -> None:
    from ml_bench_metric.printable import printable

    numbers = [len(places) for places in found.by_task.values()]
    each = f", {min(numbers)} to {max(numbers)} each" if numbers else ""
    console.print(f"{sum(numbers)} answers to {len(numbers)} of {tasks} tasks{each}", markup=False)
    for kind, count in found.counts().items():
        console.print(f"{count} {kind.replace('_', ' ')}:", markup=False)
        of_kind = [problem for problem in found.problems if problem.kind == kind]
        for problem in of_kind[:_SHOWN]:
            console.print(f"  {printable(f'{problem.where}: {problem.message}')}", soft_wrap=True, markup=False)
        if count > _SHOWN:
            console.print(f"  … and {count - _SHOWN} more", markup=False)
    if missing:
        console.print(f"missing: {sum(missing.values())} answers to {len(missing)} tasks:", markup=False)
        named = [f"{task_id} ({count})" for task_id, count in missing.items()]
        more = f", … and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        console.print(f"  {printable(', '.join(named[:_SHOWN]))}{more}", soft_wrap=True, markup=False)
