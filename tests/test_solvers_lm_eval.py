"""What lm-evaluation-harness is given: documents that hold all that the judge needs, and honest scores."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ml_bench_metric import compute
from ml_bench_metric.tasks import load_tasks
from ml_bench_solvers.lm_eval_tasks import path
from ml_bench_solvers.lm_eval_tasks.ml_bench.utils import KS, judge, load_rows, scores, total


def verdicts(*passed: bool | None) -> list[list[dict[str, Any]]]:
    return [[{"passed": one} for one in passed]]


def test_documents_are_the_tasks_with_their_prompts() -> None:
    tasks = load_tasks("sample", "L")
    rows = load_rows("sample", setting="instruction", rule="strict", pretrained="of the harness")["test"]
    assert rows["task_id"] == [task.task_id for task in tasks.tasks]
    assert all(task.instruction in prompt for task, prompt in zip(tasks.tasks, rows["prompt"], strict=True))
    assert json.loads(rows["row"][0]) == tasks.tasks[0].model_dump()
    assert json.loads(rows["options"][0]) == {"rule": "strict"}
    assert set(load_rows("sample", repositories=["tiny-text"])["test"]["task_id"]) == {
        task.task_id for task in tasks.tasks if task.repository == "tiny-text"
    }


def test_what_cannot_be_judged_or_asked_is_told_before_a_model_is() -> None:
    with pytest.raises(ValueError, match="rule is 'lax'; give one of original, strict"):
        load_rows("sample", rule="lax")
    with pytest.raises(ValueError, match="there is no setting 'whole'"):
        load_rows("sample", setting="whole")


def test_the_judge_gets_the_answers_with_their_rows_and_its_verdicts_keep_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: dict[str, Any] = {}

    def fake(predictions: list[list[str]], references: list[str], **more: Any) -> Mapping[str, Any]:
        given.update(more, predictions=predictions, references=references)
        return {"details": {json.loads(row)["task_id"]: [{"passed": True}] for row in reversed(references)}}

    monkeypatch.setattr(compute, "compute", fake)
    docs = list(load_rows("sample", rule="strict", workers=1, timeout=5.0, image="x")["test"])[:2]
    found = judge([["a", "\ud800"], []], docs)
    assert found == [[{"passed": True}], [{"passed": True}]]
    assert given["predictions"] == [["a", "?"], []]
    assert [json.loads(row)["task_id"] for row in given["references"]] == [doc["task_id"] for doc in docs]
    assert {name: given[name] for name in ("rule", "num_workers", "timeout", "image")} == {
        "rule": "strict",
        "num_workers": 1,
        "timeout": 5.0,
        "image": "x",
    }
    assert judge([], []) == []


def test_a_k_without_enough_answers_has_no_value() -> None:
    assert scores({}, verdicts(True, False)) == {"environment_errors": 0, "pass@1": 0.5, "pass@2": 1.0}
    assert scores({}, verdicts()) == {"environment_errors": 0}


def test_environment_errors_are_no_answers() -> None:
    assert scores({}, verdicts(True, None, None)) == {"environment_errors": 2, "pass@1": 1.0}
    assert total([2, 0, 1]) == 3


def test_the_task_file_has_a_metric_for_everything_that_a_document_scores() -> None:
    text = (Path(path()) / "ml_bench" / "ml_bench.yaml").read_text().replace("!function ", "")
    metrics = [metric["metric"] for metric in yaml.safe_load(text)["metric_list"]]
    assert sorted(metrics) == sorted(scores({}, verdicts(*[True] * max(KS))))


def test_the_folder_that_is_printed_has_the_task() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ml_bench_solvers.lm_eval_tasks"], capture_output=True, text=True, check=True
    )
    assert (Path(done.stdout.strip()) / "ml_bench" / "ml_bench.yaml").is_file()
