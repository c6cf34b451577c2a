"""lm-evaluation-harness asks a model and our judge decides, in real containers, with the real package."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

from ml_bench_metric import judge
from ml_bench_metric.tasks import load_tasks
from ml_bench_solvers.lm_eval_tasks import path
from ml_bench_solvers.prompts import prompts_for

pytestmark = pytest.mark.docker

TASKS = load_tasks("sample", "L")
TEXTS = {
    "\n\n".join(message["content"] for message in prompt.messages): task
    for task, prompt in prompts_for(TASKS.tasks, "oracle")
}


class Model(LM):
    """A model whose n-th answer to a task is what `answer` says; it gets the reference and n."""

    def __init__(self, answer: Callable[[str, int], str]) -> None:
        super().__init__()
        self.answer = answer
        self.asked: Counter[str] = Counter()

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        found = []
        for request in requests:
            task = TEXTS[request.args[0]]
            found.append(self.answer(task.output, self.asked[task.task_id]))
            self.asked[task.task_id] += 1
        return found

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        raise NotImplementedError


def run(answer: Callable[[str, int], str], **metadata: object) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Return the metrics that have a value, without their errors, and the logged samples."""
    manager = TaskManager(include_path=path(), include_defaults=False, metadata={"tasks": "sample", **metadata})
    found = simple_evaluate(Model(answer), tasks=["ml_bench"], task_manager=manager, bootstrap_iters=0)
    metrics = {
        name.removesuffix(",ml_bench"): value
        for name, value in found["results"]["ml_bench"].items()
        if name.endswith(",ml_bench") and "_stderr" not in name
    }
    return metrics, found["samples"]["ml_bench"]


def test_every_reference_passes(sample_image: str) -> None:
    metrics, samples = run(lambda reference, number: reference, rule="strict")
    assert metrics == {"pass@1": 1.0, "pass@2": 1.0, "pass@5": 1.0, "environment_errors": 0}
    assert [sample["doc"]["task_id"] for sample in samples] == list(TASKS.by_id)
    verdicts = [verdict for sample in samples for verdict in sample["filtered_resps"][0]]
    assert len(verdicts) == 5 * len(TASKS.tasks)
    assert {verdict["outcome"] for verdict in verdicts} == {"exited"}
    json.dumps(samples)


def test_an_empty_answer_is_worth_nothing(sample_image: str) -> None:
    metrics, _ = run(lambda reference, number: "")
    assert metrics == {"pass@1": 0.0, "pass@2": 0.0, "pass@5": 0.0, "environment_errors": 0}


def test_repeats_are_the_answers_of_pass_at_k(sample_image: str) -> None:
    metrics, _ = run(lambda reference, number: "" if number % 5 else reference, repositories=["tiny-text"])
    assert metrics == pytest.approx({"pass@1": 0.2, "pass@2": 0.4, "pass@5": 1.0, "environment_errors": 0})


def test_environment_errors_count_neither_for_nor_against_a_model(
    sample_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = judge.find_images

    def without_one_repository(*arguments: Any, **more: Any) -> judge.Images:
        images = whole(*arguments, **more)
        by_task = {name: image for name, image in images.by_task.items() if not name.startswith("tiny-text/")}
        return judge.Images(by_task, {})

    monkeypatch.setattr(judge, "find_images", without_one_repository)
    metrics, _ = run(lambda reference, number: reference, repositories=["tiny-gan", "tiny-text"])
    assert metrics == {"pass@1": 1.0, "pass@2": 1.0, "pass@5": 1.0, "environment_errors": 45}


def test_the_command_line_finds_the_task_by_its_folder(sample_image: str, tmp_path: Path) -> None:
    folder = subprocess.run(
        [sys.executable, "-m", "ml_bench_solvers.lm_eval_tasks"], capture_output=True, text=True, check=True
    ).stdout.strip()
    command = ["-m", "lm_eval", "--model", "dummy", "--include_path", folder, "--tasks", "ml_bench", "--limit", "2"]
    metadata = ["--metadata", json.dumps({"tasks": "sample", "setting": "instruction"})]
    done = subprocess.run(
        [sys.executable, *command, *metadata, "--output_path", str(tmp_path), "--log_samples"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (results,) = tmp_path.rglob("results_*.json")
    assert json.loads(results.read_text())["results"]["ml_bench"]["pass@1,ml_bench"] == 0.0
