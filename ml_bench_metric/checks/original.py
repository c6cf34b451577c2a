"""Upstream's static checks, defects included, so that numbers can be compared with the published ones.

They are substring searches: `1` is found in `10`, in a comment, in prose. Of the 260 public references 23 fail them.
"""

from __future__ import annotations

from ml_bench_metric.tasks import Task


def missing_arguments(program: str, task: Task) -> tuple[str, ...]:
    """Return the names of the arguments whose value, as lower-case text, is not part of the lower-case program."""
    text = program.lower()
    return tuple(name for name, value in task.argument_values.items() if str(value).lower() not in text)


def is_of_type(program: str, task: Task) -> bool:
    """Whether `.sh ` or `.py `, with the blank, is in the program of a bash task, and not in that of a Python task."""
    return (".sh " in program or ".py " in program) == (task.language == "bash")
