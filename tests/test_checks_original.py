"""Upstream's static checks, to the letter."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_bench_metric.checks import check, original
from ml_bench_metric.tasks import load_tasks
from tests.result_builders import task

BASH, PYTHON = task("dgl/1"), task("dgl/1", "Python Code")


@pytest.mark.parametrize(
    ("arguments", "program", "missing"),
    [
        ({"a": "1"}, "x 10", ()),
        ({"a": 0.1}, "x --lr .10", ("a",)),
        ({"a": -1.0}, "x -1.0", ()),
        ({"a": "Cora"}, "# CORA", ()),
        ({"a": ""}, "", ()),
        ({"a": "b c"}, "b  c", ("a",)),
        ({"long name": 5, "b": "x"}, "y", ("long name", "b")),
        ({"a": "\u0130"}, "i\u0307", ()),
    ],
)
def test_values_are_substrings_in_any_case(
    arguments: dict[str, object], program: str, missing: tuple[str, ...]
) -> None:
    assert original.missing_arguments(program, BASH.model_copy(update={"arguments": str(arguments)})) == missing


@pytest.mark.parametrize(
    ("program", "bash"),
    [
        ("python a.py --x", True),
        ("bash a.sh x", True),
        ("python a.py", False),
        ("python a.py\n", False),
        ("bash a.sh\tx", False),
        ("print('a.py b')", True),
        ("PYTHON A.PY x", False),
        ("", False),
    ],
)
def test_type_is_a_matter_of_two_substrings(program: str, bash: bool) -> None:
    assert original.is_of_type(program, BASH) is bash
    assert original.is_of_type(program, PYTHON) is not bash


@pytest.mark.real_data
@pytest.mark.parametrize(("split", "failures"), [("full", 23), ("quarter", 5)])
def test_real_references_fail_as_often_as_known(real_data: Path, split: str, failures: int) -> None:
    tasks = load_tasks(str(real_data / "upstream"), split).tasks
    assert sum(not check(task.output, task, "original").both for task in tasks) == failures


@pytest.mark.real_data
def test_real_references_that_fail_are_the_known_ones(real_data: Path) -> None:
    tasks = load_tasks(str(real_data / "upstream"), "full").tasks
    arguments: dict[int, list[int]] = {}
    for row in tasks:
        if not check(row.output, row, "original").arguments:
            arguments.setdefault(row.github_id, []).append(row.id)
    assert arguments == {
        2: [31, 34, 42, 46, 49, 59],
        3: [72, 73, 74],
        4: [104, 110, 111, 114],
        9: [262, 266, 268, 269, 270],
        13: [227, 234, 240, 241],
    }
    assert [task.key for task in tasks if not check(task.output, task, "original").type] == [(14, 256)]
