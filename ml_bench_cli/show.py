"""`ml-bench show`: why a candidate got its verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from ml_bench_metric.results import Result


def show(
    run: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="Folder of a run.")],
    task_id: Annotated[str, typer.Argument(help="For example dgl/1.")],
    candidate: Annotated[
        int | None, typer.Option(min=0, help="Only this one, counted from 0; by default all of the task.")
    ] = None,
    llm_judge: Annotated[
        str | None,
        typer.Option("--llm-judge", metavar="MODEL", help="Ask this model, too, why a candidate failed: an opinion."),
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="OpenAI-compatible server of --llm-judge.")] = None,
    api_key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Environment variable with its API key.")
    ] = None,
) -> None:
    """Show everything that explains the verdicts on a task's candidates, and what an agent did to get there."""
    from rich.console import Console

    from ml_bench_dataset import DataError
    from ml_bench_metric.report.explanation import explain
    from ml_bench_metric.store import read_results, read_run
    from ml_bench_solvers.agents.transcript import explain_attempt

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
    opinion = _opinion(llm_judge, base_url, api_key_env) if llm_judge else None
    for result in sorted(found, key=lambda result: (result.candidate, result.repeat)):
        explain_attempt(run, result.task_id, result.candidate, console)
        explain(result, console)
        if opinion is not None:
            opinion(result, console)


def _opinion(model: str, base_url: str | None, api_key_env: str | None) -> Callable[[Result, Console], None]:
    """Return what asks a model why a candidate failed, and prints that, once for each rule under which it did."""
    from rich.text import Text

    from ml_bench_metric.causes import by_model, find
    from ml_bench_metric.printable import printable
    from ml_bench_metric.report.causes import in_words
    from ml_bench_solvers.generation.client import endpoint
    from ml_bench_solvers.generation.single import ask_once

    place = endpoint(base_url, None, api_key_env)

    def tell(result: Result, console: Console) -> None:
        for rule in find(result):
            finding = by_model.ask(result, rule, lambda text: ask_once(place, model, text))
            if finding is not None:
                said = printable(f"{model} on {rule}: {in_words(finding)}")
                console.print(Text(f"  {'opinion':<11}{said}"), soft_wrap=True)

    return tell
