"""The static report counts candidates and tasks, and can be read by a machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ml_bench_metric.predictions import read_predictions
from ml_bench_metric.static import StaticReport, static_report
from ml_bench_metric.tasks import load_tasks
from tests.result_builders import task, task_set

TASKS = task_set(
    task("dgl/1").model_copy(update={"arguments": "{'lr': 0.1}"}),
    task("dgl/2", "Python Code").model_copy(update={"arguments": "{'model': 'Net'}"}),
    task("dgl/3"),
)

PREDICTIONS = [
    {"task_id": "dgl/1", "output": ["python a.py --lr 0.15", "python a.py --lr 1e-1", "Sorry.", "sh a.sh 0.1"]},
    {"task_id": "dgl/2", "output": ["```python\nNet()\n```", "x = 'Network'", "Net()"]},
    {"task_id": "dgl/9", "output": ["a"]},
    {"task_id": "dgl/1", "output": []},
]


def report(mode: str) -> StaticReport:
    return static_report(read_predictions(PREDICTIONS, TASKS), TASKS, "none" if mode == "none" else "auto")


def test_counts_of_candidates_and_tasks() -> None:
    expected = {
        "candidates": 7,
        "programs": 6,
        "tasks": 2,
        "missing_tasks": ["dgl/3"],
        "unknown_tasks": ["dgl/9"],
        "rules": {
            "original": {
                "arguments": 5,
                "type": 6,
                "both": 5,
                "tasks": {"first": 2, "first_two": 2, "any": 2},
            },
            "strict": {
                "arguments": 4,
                "type": 6,
                "both": 4,
                "tasks": {"first": 1, "first_two": 2, "any": 2},
            },
        },
    }
    found = json.loads(report("auto").model_dump_json())
    problems = found.pop("problems")
    assert found == expected
    assert [(problem["where"], problem["kind"]) for problem in problems] == [
        ("predictions[2]", "unknown_task"),
        ("predictions[3]", "empty"),
    ]


def test_extraction_makes_a_difference() -> None:
    none, auto = report("none").rules["strict"], report("auto").rules["strict"]
    assert (none.type, auto.type) == (5, 6)
    assert none.tasks.first == 0
    assert report("none").programs == 7


def test_report_survives_json() -> None:
    assert StaticReport.model_validate_json(report("auto").model_dump_json()) == report("auto")


def test_nothing_to_count_counts_as_nothing() -> None:
    empty = static_report(read_predictions([], task_set()), task_set(), "auto")
    assert (empty.candidates, empty.tasks, empty.rules["strict"].tasks.any) == (0, 0, 0)


@pytest.mark.real_data
def test_real_answers_have_the_known_counts(real_data: Path) -> None:
    tasks = load_tasks(str(real_data / "upstream"), "full")
    found = read_predictions(real_data / "predictions" / "gpt4_agent_pass5.jsonl", tasks)
    numbers = json.loads(static_report(found, tasks, "none").model_dump_json())
    assert len(numbers.pop("problems")) == len(numbers.pop("unknown_tasks")) == 20
    assert len(numbers.pop("missing_tasks")) == 207
    assert numbers == {
        "candidates": 265,
        "programs": 265,
        "tasks": 53,
        "rules": {
            "original": {
                "arguments": 178,
                "type": 189,
                "both": 134,
                "tasks": {"first": 26, "first_two": 33, "any": 38},
            },
            "strict": {
                "arguments": 184,
                "type": 183,
                "both": 138,
                "tasks": {"first": 27, "first_two": 35, "any": 39},
            },
        },
    }
