"""`ml-bench rejudge`: the numbers of a run once more, from what was executed then."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ml_bench_cli.inputs import read_tasks
from ml_bench_cli.options import RuleOption, parse_ks


def rejudge(
    run: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="Folder of a run.")],
    source: Annotated[
        str | None, typer.Option("--tasks", help="Where the tasks are; by default where the run had them from.")
    ] = None,
    k: Annotated[str, typer.Option(help="Values of k, separated by commas.")] = "1,2,5",
    rule: RuleOption = "original",
    ordered: Annotated[bool, typer.Option("--ordered", help="Lead with the paper's order-based pass@k.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Replace the run's summary.json.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON instead of the table.")] = False,
) -> None:
    """Compute verdicts and scores of a run again, with today's checks and rules. Nothing is executed."""
    from rich.console import Console

    from ml_bench_metric import rejudging
    from ml_bench_metric.report.table import render
    from ml_bench_metric.store import write_summary

    ks = parse_ks(k)
    told = rejudging.told_by(run)
    tasks = rejudging.tasks_of(told, read_tasks(source or told.source, told.split, told.revision))
    found = rejudging.rejudge(run, told, tasks, ks=ks, rule=rule, estimator="ordered" if ordered else "unbiased")
    if write:
        write_summary(run, found.summary)
    if as_json:
        print(found.summary.to_json(indent=2))
    else:
        render(found.summary, Console())
    console = Console(stderr=True, emoji=False)
    if found.kept:
        console.print(
            f"{found.kept} candidates keep the checks of the run: their programs are too long to be stored whole"
        )
    if found.changed:
        console.print(f"{found.changed} candidates have other checks today than when the run was made")
