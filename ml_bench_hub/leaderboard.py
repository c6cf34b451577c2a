"""The leaderboards on the Hub: what `eval.yaml` of a data set defines, and what model repositories refer to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ml_bench_metric.checks import Rule
from ml_bench_metric.results import RULES

EVAL_FILE = "eval.yaml"

FRAMEWORK = "ml-bench"
"""This package, as `eval.yaml` names it. The Hub takes only frameworks that it lists (huggingface.js, eval.ts)."""

HARBOR_FRAMEWORK = "harbor"
"""What runs the tasks of split A for agents; the Hub lists it."""

HARBOR_TASK_ID = "ml_bench_a"

_DESCRIPTION = (
    "Tasks on repositories of machine-learning code: an instruction is answered with a bash command or a Python "
    "program, which is executed in a container. Values are Pass@k in percent."
)
_HARBOR_DESCRIPTION = (
    "Agents work on repositories of machine-learning code and leave a script, which is executed. Values are the share "
    "of tasks solved, in percent."
)


@dataclass(frozen=True)
class Leaderboard:
    """A leaderboard of ML-Bench-L: values of different rules or k are never in the same one."""

    rule: Rule
    k: int

    @property
    def task_id(self) -> str:
        """Its name in `eval.yaml` and in model repositories."""
        return f"ml_bench_l_{self.rule}_pass_{self.k}"


LEADERBOARDS: tuple[Leaderboard, ...] = tuple(Leaderboard(rule, k) for rule in RULES for k in (1, 2, 5))
"""All leaderboards of ML-Bench-L; the values of k are those that the paper reports."""


def eval_definition() -> dict[str, Any]:
    """Return `eval.yaml` of the data set, in the form that the Hub's documentation gives (Evaluation Results)."""
    tasks = [{"id": board.task_id, "config": "default", "split": "L"} for board in LEADERBOARDS]
    return _definition("ML-Bench-L", _DESCRIPTION, FRAMEWORK, tasks)


def harbor_eval_definition() -> dict[str, Any]:
    """Return `eval.yaml` of the Harbor tasks."""
    tasks = [{"id": HARBOR_TASK_ID, "config": "default", "split": "test"}]
    return _definition("ML-Bench-A", _HARBOR_DESCRIPTION, HARBOR_FRAMEWORK, tasks)


def _definition(name: str, description: str, framework: str, tasks: list[dict[str, str]]) -> dict[str, Any]:
    return {"name": name, "description": description, "evaluation_framework": framework, "tasks": tasks}
