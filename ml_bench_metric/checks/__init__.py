"""Static checks of a candidate: does it use the arguments that the task asks for, and is it of the task's type?

`original` is upstream's rule, `strict` is ours. Both look at the text alone; nothing is run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from ml_bench_metric.checks import original, strict
from ml_bench_metric.sandbox.execution import Record
from ml_bench_metric.tasks import Language, Task

Rule = Literal["original", "strict"]


class Checks(Record):
    """What the static checks found out about one candidate under one rule."""

    arguments: bool
    """True where no argument is missing."""
    type: bool
    """True where the candidate is of the task's type, `Bash Script` or `Python Code`."""
    missing: tuple[str, ...] = ()
    """The task's arguments that the candidate does not use, as `name=value`, in the task's order."""

    @property
    def both(self) -> bool:
        """Whether the candidate passes the static checks."""
        return self.arguments and self.type


def check(program: str | None, task: Task, rule: Rule) -> Checks:
    """Return what the static checks of a rule say about a program.

    Args:
        program: the candidate's program; None, where none was found in the candidate's text, fails everything.
        task: the task that it answers.
        rule: `original` or `strict`; see the modules of these names.

    Raises:
        ml_bench_metric.syntax.BashMissingError: rule `strict`, a bash task, and no bash on this machine.
    """
    arguments = task.argument_values
    if program is None:
        missing, of_type = tuple(arguments), False
    else:
        module = original if rule == "original" else strict
        missing, of_type = module.missing_arguments(program, task), module.is_of_type(program, task)
    return Checks(
        arguments=program is not None and not missing,
        type=of_type,
        missing=tuple(f"{name}={arguments[name]}" for name in missing),
    )


def check_script(program: str | None, task: Task, rule: Rule, others: Iterable[tuple[str, Language]] = ()) -> Checks:
    """Return what the static checks of a rule say about a `run.sh`, which is bash whatever the task's type.

    Under `original` any will do, as in the published runs of agents. Under `strict` every argument must be used: by the
    script itself, or by what else is known of it.

    Args:
        program: the script's text; None, where there is none, fails everything.
        task: the task that it answers.
        rule: `original` or `strict`.
        others: commands that it has started, as bash words, and scripts that it names; each with its language.
    """
    if program is None:
        return check(None, task, rule)
    if rule == "original":
        return Checks(arguments=True, type=True)
    arguments = task.argument_values
    missing = strict.missing_everywhere([(program, "bash"), *others], task)
    return Checks(arguments=not missing, type=True, missing=tuple(f"{name}={arguments[name]}" for name in missing))
