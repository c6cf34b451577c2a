"""The sample benchmark through the whole judge in real containers: every trap gets the verdict that it deserves."""

from __future__ import annotations

import json

import pytest

import ml_bench_sample
from ml_bench_metric.evaluation import Settings
from ml_bench_metric.judge import Judgement, find_images, references
from ml_bench_metric.predictions import read_predictions
from ml_bench_metric.results import RULES
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.limits import MIB, Limits
from ml_bench_metric.summary import Summary
from ml_bench_metric.tasks import load_tasks
from ml_bench_metric.verdicts import verdict
from ml_bench_metric.workers import allot

pytestmark = pytest.mark.docker

LIMITS = Limits(memory_bytes=512 * MIB)


def _judge(judgement: Judgement, sandbox: DockerSandbox) -> Summary:
    images = find_images(sandbox, judgement.tasks.tasks)
    workers = allot(None, LIMITS, sandbox.capacity())
    for _ in judgement.execute(judgement.todo(), sandbox, images, workers):
        pass
    return judgement.summary(ks=(1, 2, 5), rule="strict", estimator="unbiased")


@pytest.mark.parametrize("extract", ["auto", "none"])
def test_every_trap_gets_its_verdict_under_both_rules(
    extract: str, docker_sandbox: DockerSandbox, sample_image: str
) -> None:
    tasks = load_tasks("sample", "L")
    predictions = read_predictions(ml_bench_sample.predictions(), tasks)
    assert predictions.problems == []
    settings = Settings.model_validate({"extract": extract, "seconds": 5, "limits": LIMITS})
    judgement = Judgement(predictions, tasks, settings)
    summary = _judge(judgement, docker_sandbox)
    assert summary.overall.environment_errors == summary.overall.pending == summary.overall.missing == 0

    found: dict[tuple[str, int], dict[str, object]] = {}
    reasons = {}
    for result in judgement.results():
        key = (result.task_id, result.candidate)
        found[key] = {str(rule): verdict(result, rule).passed for rule in RULES}
        reasons[key] = [verdict(result, rule).reason for rule in RULES]
        if extract == "auto":
            found[key]["outcome"] = result.execution.outcome if result.execution else None
    expected = _expected(extract)
    wrong = {key: (expected[key], found[key], reasons[key]) for key in expected if expected[key] != found[key]}
    assert wrong == {}


def _expected(extract: str) -> dict[tuple[str, int], dict[str, object]]:
    """Return what each candidate deserves; a field with suffix `_none` says where it differs without extraction."""
    expected: dict[tuple[str, int], dict[str, object]] = {}
    suffix = "_none" if extract == "none" else ""
    for line in (ml_bench_sample.path() / "expected.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        wanted = {str(rule): row.get(rule + suffix, row[rule]) for rule in RULES}
        expected[row["task_id"], row["candidate"]] = wanted if suffix else {**wanted, "outcome": row["outcome"]}
    return expected


def test_every_script_of_split_a_gets_its_verdict_under_both_rules(
    docker_sandbox: DockerSandbox, sample_image: str
) -> None:
    tasks = load_tasks("sample", "A")
    predictions = read_predictions(ml_bench_sample.scripts(), tasks)
    assert predictions.problems == []
    judgement = Judgement(predictions, tasks, Settings(seconds=5, limits=LIMITS))
    _judge(judgement, docker_sandbox)
    found = {
        (result.task_id, result.candidate): {
            "outcome": result.execution.outcome if result.execution else None,
            **{str(rule): verdict(result, rule).passed for rule in RULES},
        }
        for result in judgement.results()
    }
    lines = (ml_bench_sample.path() / "expected_a.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert found == {
        (row["task_id"], row["candidate"]): {name: row[name] for name in ("outcome", *RULES)} for row in rows
    }


def test_every_reference_passes_under_both_rules(docker_sandbox: DockerSandbox, sample_image: str) -> None:
    for split in ("L", "A"):
        tasks = load_tasks("sample", split)
        summary = _judge(Judgement(references(tasks), tasks, Settings(limits=LIMITS)), docker_sandbox)
        assert summary.overall.outcomes["exited"] == len(tasks.tasks)
        assert {rule: score.passed for rule, score in summary.overall.scores.items()} == dict.fromkeys(
            RULES, len(tasks.tasks)
        )
