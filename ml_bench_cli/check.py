"""`ml-bench check`: the static checks alone, without an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ml_bench_cli.inputs import print_problems, read_tasks
from ml_bench_cli.options import Extract, Revision, Split, Tasks


def check(
    predictions: Annotated[Path, typer.Argument(help="JSONL or JSON file of predictions.")],
    source: Tasks = None,
    split: Split = "L",
    revision: Revision = None,
    extract: Extract = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    strict_input: Annotated[bool, typer.Option(help="Stop at faulty lines and unknown tasks.")] = False,
) -> None:
    """Check arguments and type of every candidate under both rules; nothing is executed.

    Of split A a candidate is a run.sh: rule strict looks for its arguments, and rule original for nothing.
    """
    from ml_bench_metric.predictions import read_predictions, require_clean
    from ml_bench_metric.static import static_report

    tasks = read_tasks(source, split, revision)
    found = read_predictions(predictions, tasks)
    if strict_input:
        require_clean(found)
    report = static_report(found, tasks, extract)
    if as_json:
        print(report.model_dump_json(indent=2))
        return

    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("rule", "arguments", "type", "both", "tasks: first", "first two", "any"):
        table.add_column(name, justify="left" if name == "rule" else "right")
    for rule, counts in report.rules.items():
        by_task = counts.tasks
        numbers = (counts.arguments, counts.type, counts.both, by_task.first, by_task.first_two, by_task.any)
        table.add_row(rule, *map(str, numbers))
    console = Console()
    console.print(table)
    mode = extract if found.form == "answer" else "none"
    console.print(f"{report.candidates} candidates of {report.tasks} tasks (extraction: {mode})")
    if found.form == "run.sh":
        console.print("run.sh: rule original looks at the execution alone, and the type is always bash")
    print_problems(found.problems, console)
