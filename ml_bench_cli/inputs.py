"""Reading what a command is given, and showing what is wrong with it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from ml_bench_metric.predictions import Problem
    from ml_bench_metric.tasks import TaskSet

_SHOWN = 10


def read_tasks(source: str | None, split: str, revision: str | None) -> TaskSet:
    """Return the tasks of a split; what is to be known of its rows goes to standard error."""
    from ml_bench_metric.printable import printable
    from ml_bench_metric.tasks import load_tasks

    tasks = load_tasks(source, split, revision=revision)
    for warning in tasks.warnings:
        print(f"ml-bench: {printable(warning)}", file=sys.stderr)
    return tasks


def print_problems(problems: Sequence[Problem], console: Console) -> None:
    """Print the first problems of a file, and how many there are of each kind."""
    from rich.markup import escape

    from ml_bench_metric.printable import printable

    if not problems:
        return
    counts = Counter(problem.kind for problem in problems)
    kinds = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in sorted(counts.items()))
    said = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
    console.print(f"[yellow]{said} in the predictions[/] ({kinds}); the rest goes on:")
    for problem in problems[:_SHOWN]:
        console.print(f"  {escape(printable(problem.where))}: {escape(printable(problem.message))}", soft_wrap=True)
    if len(problems) > _SHOWN:
        console.print(f"  … and {len(problems) - _SHOWN} more; --strict-input stops at them")
