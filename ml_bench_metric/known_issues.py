"""Known issues: the tasks whose reference is known not to pass, with the reason.

There are two sources. What the static checks say of a reference is found out here and now; what its execution says is
in the recipes (`known_issues`), where people wrote it down who looked into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, get_args

from ml_bench_metric.checks import Checks, Rule
from ml_bench_metric.environments import registry
from ml_bench_metric.environments.recipe import Cause, Device
from ml_bench_metric.extraction import Mode
from ml_bench_metric.judge import reference_checks
from ml_bench_metric.results import RULES, JsonRecord
from ml_bench_metric.sandbox.execution import Assets
from ml_bench_metric.tasks import Form, Task, TaskSet

KNOWN_ISSUES = "known-issues"
"""What a set of tasks calls the reason of those that are left out for their issue."""

IssueCause = Literal["checks", Cause]
"""Why a reference does not pass: the static checks refuse it, or what a recipe says of its execution."""

CAUSES: tuple[IssueCause, ...] = ("checks", *get_args(Cause))
"""The causes, in the order in which they are shown."""


class Issue(JsonRecord):
    """That a task's reference is known not to pass, and why."""

    task_id: str
    rules: tuple[Rule, ...]
    """The rules under which it does not pass, at least one."""
    cause: IssueCause
    reason: str
    """One or two sentences."""


def known_issues(
    tasks: TaskSet,
    *,
    extract: Mode = "auto",
    assets_of: Callable[[Task], Assets],
    device: Device,
    form: Form = "answer",
) -> tuple[Issue, ...]:
    """Return the known issues of the references of some tasks.

    They are in the order of the tasks; of one task what the static checks say comes first, then what the recipes say,
    in the order in which they say it.

    Args:
        tasks: the tasks.
        extract: how programs are taken out of the references, as of the candidates.
        assets_of: which weights and data the image of a task has: some issues are there without the real ones only.
        device: what the images are made for: some issues are there without CUDA only.
        form: as what the references are judged.

    Raises:
        ml_bench_metric.environments.recipe.RecipeError: a recipe is faulty.
        ml_bench_metric.syntax.BashMissingError: there is a bash task, and no bash on this machine.
    """
    of_checks = reference_checks(tasks, extract, form)
    of_recipes = [known for recipe in registry.recipes() for known in recipe.known_issues]
    found: list[Issue] = []
    for task in tasks.tasks:
        found += _of_checks(task, of_checks[task.task_id])
        found += (
            Issue(task_id=task.task_id, rules=known.rules or RULES, cause=known.cause, reason=known.reason)
            for known in of_recipes
            if task.task_id in known.tasks and known.applies(assets=assets_of(task), device=device)
        )
    return tuple(found)


def tasks_with_issues(issues: Iterable[Issue]) -> frozenset[str]:
    """Return the `task_id`s of the tasks whose reference does not pass under one rule or another."""
    return frozenset(issue.task_id for issue in issues)


def _of_checks(task: Task, checks: dict[Rule, Checks]) -> Iterator[Issue]:
    reasons = {rule: _why(task, checks[rule]) for rule in RULES if not checks[rule].both}
    for reason in dict.fromkeys(reasons.values()):
        rules = tuple(rule for rule, other in reasons.items() if other == reason)
        yield Issue(task_id=task.task_id, rules=rules, cause="checks", reason=reason)


def _why(task: Task, checks: Checks) -> str:
    reasons = []
    if not checks.arguments:
        reasons.append("the reference does not use " + ", ".join(checks.missing))
    if not checks.type:
        reasons.append(f"the reference is not of the type that the task asks for ({task.type})")
    return "; ".join(reasons)
