"""One evaluation counts only what belongs to it: its candidates, its images, its selection of the tasks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ml_bench_metric.evaluation import Settings
from ml_bench_metric.judge import Images, Judgement, about, identity
from ml_bench_metric.predictions import Prediction, Predictions
from ml_bench_metric.sandbox.protocol import Capacity
from ml_bench_metric.store import RunFolder
from ml_bench_metric.workers import Workers
from tests.fakes import DIGEST, FakeSandbox
from tests.result_builders import ERROR, execution, result, task_set

NEW = "sha256:" + "1" * 64


def _predictions(*task_ids: str) -> Predictions:
    return Predictions(
        items={name: Prediction(task_id=name, candidates=("python train.py",), where="") for name in task_ids},
        problems=[],
    )


def test_stored_results_of_another_image_are_executed_again_and_not_counted(tmp_path: Path) -> None:
    names = ("a/1", "b/1", "c/1", "d/1")
    stored = [
        result("a/1", execution=execution(image=DIGEST)),
        result("b/1", execution=execution(image=NEW)),
        result("c/1", execution=execution(image=DIGEST)),
        result("d/1", execution=ERROR),
    ]
    with RunFolder(tmp_path, {}, {}) as folder:
        for one in stored:
            folder.append(one)
        digests = {"a": NEW, "b": NEW, "d": NEW}
        judgement = Judgement(_predictions(*names), task_set(*names), Settings(extract="none"), folder, digests)
        assert [one.task_id for one in judgement.results()] == ["b/1", "c/1", "d/1"]
        todo = judgement.todo()
        assert [candidate.task.task_id for candidate in todo] == ["a/1"]
        images = Images(dict.fromkeys("abcd", DIGEST), {})
        assert len(list(judgement.execute(todo, FakeSandbox(), images, Workers(((0,),), "")))) == 1
        assert judgement.todo(retry_errors=True)[-1].task.task_id == "d/1"


def test_a_candidate_whose_text_changed_is_executed_again(tmp_path: Path) -> None:
    with RunFolder(tmp_path, {}, {}) as folder:
        folder.append(result("a/1", text="another program"))
        judgement = Judgement(_predictions("a/1"), task_set("a/1"), Settings(extract="none"), folder)
        assert list(judgement.results()) == []
        assert len(judgement.todo()) == 1


def test_a_selection_of_repositories_is_part_of_a_runs_identity_and_facts() -> None:
    whole = task_set("a/1", "b/1")
    images = Images({"a": DIGEST}, {"b": "none"})
    every = identity(Settings(), whole, images)
    assert every["selection"] == []
    assert identity(Settings(), replace(whole, selection=("b",)), images)["selection"] == ["b"]
    assert {key: value for key, value in every.items() if key.startswith("image of")} == {"image of a": DIGEST}
    capacity = Capacity(cpus=(0,), memory_bytes=1, description="fake")
    facts = about(["ml-bench"], capacity, Workers(((0,),), ""), replace(whole, selection=("a",)))
    assert facts["selection"] == ["a"]
