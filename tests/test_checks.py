"""The record of the static checks."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from ml_bench_metric.checks import Checks, Rule, check
from ml_bench_metric.tasks import Task
from tests.result_builders import task

TASK: Task = task("dgl/1").model_copy(update={"arguments": "{'lr': 0.1, 'fast': '', 'name': 'cora'}"})


@pytest.mark.parametrize("rule", ["original", "strict"])
def test_candidate_without_a_program_fails_everything(rule: Rule) -> None:
    checks = check(None, TASK, rule)
    assert checks == Checks(arguments=False, type=False, missing=("lr=0.1", "fast=", "name=cora"))
    assert not check(None, task("dgl/2"), rule).both


@pytest.mark.parametrize("rule", ["original", "strict"])
def test_missing_arguments_are_named_in_the_tasks_order(rule: Rule) -> None:
    checks = check("python a.py --fast --x cora", TASK, rule)
    assert checks == Checks(arguments=False, type=True, missing=("lr=0.1",))
    assert check("python a.py --fast --lr 0.1 --x cora", TASK, rule).both


def test_both_needs_both() -> None:
    assert [Checks(arguments=a, type=t).both for a in (False, True) for t in (False, True)] == [
        False,
        False,
        False,
        True,
    ]


def test_record_survives_json_and_refuses_what_it_does_not_know() -> None:
    checks = Checks(arguments=False, type=True, missing=("a=1",))
    assert Checks.model_validate_json(checks.model_dump_json()) == checks
    with pytest.raises(ValidationError):
        Checks.model_validate({"arguments": True, "type": True, "both": True})
