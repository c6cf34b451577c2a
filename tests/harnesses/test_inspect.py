"""Inspect AI asks a model and our judge decides, in real containers, with the real package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import eval as inspect_eval
from inspect_ai import score as inspect_score
from inspect_ai.log import EvalLog
from inspect_ai.model import Model, ModelOutput, ModelUsage, get_model

from ml_bench_metric import judge
from ml_bench_metric.tasks import load_tasks
from ml_bench_solvers.inspect_task import ml_bench, ml_bench_judge
from ml_bench_solvers.prompts import prompts_for

pytestmark = pytest.mark.docker

TASKS = load_tasks("sample", "L")
TEXTS = {prompt.messages[-1]["content"]: task for task, prompt in prompts_for(TASKS.tasks, "oracle")}


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inspect takes the path of a task relative to the current folder only."""
    monkeypatch.chdir(Path(__file__).parents[2])


def model(answer: Callable[[str, int], str]) -> Model:
    """A model whose n-th answer to a task is what `answer` says; it gets the reference and n."""
    asked: Counter[str] = Counter()

    def outputs(messages: list[Any], *others: object) -> ModelOutput:
        task = TEXTS[messages[-1].text]
        output = ModelOutput.from_content("mockllm", answer(task.output, asked[task.task_id]))
        asked[task.task_id] += 1
        # Without it Inspect counts the tokens, with a vocabulary that it fetches from the network.
        output.usage = ModelUsage()
        return output

    return get_model("mockllm/model", custom_outputs=outputs, memoize=False)


def run(
    answer: Callable[[str, int], str],
    logs: Path,
    **arguments: Any,
) -> EvalLog:
    (log,) = inspect_eval(
        "ml_bench_solvers/inspect_task.py",
        model=model(answer),
        task_args={"tasks": "sample", "answers": 1, **arguments},
        log_dir=str(logs),
        display="none",
    )
    assert log.status == "success", log.error
    return log


def scores(log: EvalLog) -> dict[str, tuple[float, int]]:
    """Reducer -> accuracy, and how many tasks are unscored."""
    assert log.results is not None
    return {
        str(score.reducer): (score.metrics["accuracy"].value, score.unscored_samples or 0)
        for score in log.results.scores
    }


def test_every_reference_passes(sample_image: str, tmp_path: Path) -> None:
    log = run(lambda reference, number: reference, tmp_path, rule="strict")
    assert scores(log) == {"pass_at_1": (1.0, 0)}
    assert log.samples is not None
    assert {sample.id for sample in log.samples} == set(TASKS.by_id)
    found = [sample.scores["ml_bench_judge"] for sample in log.samples if sample.scores]
    assert [score.metadata["verdicts"] for score in found if score.metadata] == [
        {"original": True, "strict": True}
    ] * len(TASKS.tasks)
    assert all(score.metadata and score.metadata["outcome"] == "exited" for score in found)


def test_an_empty_answer_is_worth_nothing(sample_image: str, tmp_path: Path) -> None:
    assert scores(run(lambda reference, number: "", tmp_path)) == {"pass_at_1": (0.0, 0)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [({"rule": "lax"}, "rule is 'lax'"), ({"k": 5}, "no k has a value"), ({"setting": "whole"}, "there is no setting")],
)
def test_what_cannot_be_scored_or_asked_is_told_before_a_model_is(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ml_bench(tasks="sample", answers=1, **arguments)


def test_an_installed_package_shows_its_task_to_inspect() -> None:
    (entry,) = [one for one in entry_points(group="inspect_ai") if one.name == "ml_bench_solvers"]
    assert entry.load().ml_bench


def test_epochs_are_the_answers_of_pass_at_k(sample_image: str, tmp_path: Path) -> None:
    log = run(
        lambda reference, number: "" if number else reference,
        tmp_path,
        answers=2,
        k="1,2,5",
        repositories="tiny-text",
    )
    assert scores(log) == {"pass_at_1": (0.5, 0), "pass_at_2": (1.0, 0)}


def test_a_failing_program_is_explained(sample_image: str, tmp_path: Path) -> None:
    log = run(lambda reference, number: f"{reference} --no-such-option", tmp_path, repositories="tiny-forecast")
    assert log.samples is not None
    (score,) = [one.scores["ml_bench_judge"] for one in log.samples if one.id == "tiny-forecast/10" and one.scores]
    assert score.value == "I"
    assert score.explanation is not None
    assert "exit status 2" in score.explanation
    assert "--no-such-option" in score.explanation


def test_environment_errors_are_unscored_and_can_be_judged_again(
    sample_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = judge.find_images

    def without_one_repository(*arguments: Any, **more: Any) -> judge.Images:
        images = whole(*arguments, **more)
        by_task = {name: image for name, image in images.by_task.items() if not name.startswith("tiny-text/")}
        return judge.Images(by_task, {"tiny-text/24": "no image for tiny-text: build one"})

    with monkeypatch.context() as patch:
        patch.setattr(judge, "find_images", without_one_repository)
        log = run(lambda reference, number: reference, tmp_path, repositories=["tiny-text", "tiny-gan"])
    assert scores(log) == {"pass_at_1": (1.0, 9)}
    assert log.samples is not None
    (score,) = [one.scores["ml_bench_judge"] for one in log.samples if one.id == "tiny-text/24" and one.scores]
    assert score.explanation == "environment error: no image for tiny-text: build one"
    assert score.reason == "scoring_failed"
    again = inspect_score(log, ml_bench_judge(tasks="sample"), action="overwrite", display="none")
    assert scores(again) == {"pass_at_1": (1.0, 0)}


def test_without_an_engine_the_answers_are_kept_unscored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    log = run(lambda reference, number: reference, tmp_path, repositories="tiny-text")
    assert log.samples is not None
    assert log.results is not None
    assert log.results.scores[0].unscored_samples == len(log.samples) == 9
    assert all(sample.output.completion for sample in log.samples)
