"""`compute` refuses what it cannot use before anything runs, and returns plain values that mean what they say."""

from __future__ import annotations

import doctest
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import ml_bench_metric
from ml_bench_metric import compute as module
from ml_bench_metric import judge
from ml_bench_metric.compute import checked_row, compute
from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.evaluation import Settings
from ml_bench_metric.sandbox import docker_engine
from ml_bench_metric.sandbox.execution import Execution
from ml_bench_metric.sandbox.protocol import SandboxError
from ml_bench_metric.tasks import load_tasks
from tests.fakes import DIGEST, FakeSandbox

ROW = load_tasks("sample", "L").by_id["tiny-gan/3"].model_dump()
GOOD = "python train.py --dataset grid --loss lsgan --quiet"


@pytest.mark.parametrize(
    ("prediction", "message"),
    [
        ("python train.py", r"predictions\[3\]"),
        (None, r"predictions\[3\] is None"),
        (5, r"predictions\[3\]"),
        (b"python train.py", r"predictions\[3\]"),
        ({"task_id": "tiny-gan/3"}, r"predictions\[3\]"),
        (["a", 3], r"predictions\[3\]\[1\] is 3"),
        ([["a"]], r"predictions\[3\]\[0\]"),
    ],
)
def test_every_row_is_checked_and_named(prediction: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked_row(prediction, "tiny-gan/3", 3)


@pytest.mark.parametrize("reference", [None, 7, ["a"], {"github_id": object()}])
def test_a_reference_is_a_task_id_or_a_row(reference: object) -> None:
    with pytest.raises(ValueError, match=r"references\[0\]"):
        checked_row(["a"], reference, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": [0]}, "0"),
        ({"k": []}, "k"),
        ({"rule": "lenient"}, "original, strict"),
        ({"references": ["tiny-gan/999"]}, "tiny-gan/999"),
        (
            {"references": ["tiny-gan/3", "tiny-gan/3"], "predictions": [["a"], ["b"]]},
            "all candidates of a task in one",
        ),
        ({"references": ["tiny-gan/3"], "predictions": []}, "give one for each"),
        ({"references": [], "predictions": []}, "no row"),
        ({"references": ['{"github_id": 1}']}, r"references\[0\] is no row"),
        ({"split": "full"}, "full"),
        ({"k": 0}, "k is 0"),
        ({"k": None}, "k is None"),
        ({"timeout": -1}, r"^timeout is -1 \(int\): .* greater than 0$"),
        ({"timeout": float("inf")}, r"^timeout is inf"),
        ({"timeout": 1e12}, r"^timeout is 1e\+12|^timeout is 1000000000000\.0"),
        ({"extract": "xx"}, r"^extract is 'xx' \(str\): .*'auto' or 'none'$"),
        ({"references": [json.dumps(ROW | {"path": "../x"})]}, r"references\[0\].*column path .* out of the"),
        ({"references": [json.dumps(ROW | {"path": "a\0b"})]}, r"references\[0\].*column path .* NUL"),
        ({"references": [json.dumps(ROW | {"arguments": "{'a': [1]}"})]}, r"references\[0\].*column arguments"),
        ({"references": [json.dumps(ROW | {"prefix_code": "export A=x\0"})]}, r"references\[0\].*sets A .* NUL"),
        ({"references": ["{" * 100_000]}, r"references\[0\] is no row"),
        ({"estimator": "best"}, "best"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(
    options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    arguments: dict[str, Any] = {"predictions": [["a"]], "references": ["tiny-gan/3"], "tasks": "sample"} | options
    with pytest.raises(ValueError, match=message):
        compute(**arguments)


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 1e12, 0.0, -1.0])
def test_a_time_limit_that_no_run_can_keep_is_refused(seconds: float) -> None:
    with pytest.raises(ValidationError, match="seconds"):
        Settings(seconds=seconds)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeSandbox:
    """A sandbox without an engine that `compute` uses."""
    sandbox = FakeSandbox()
    sandbox.client = None  # type: ignore[attr-defined]
    images = judge.Images({"tiny-gan/3": TaskImage(DIGEST)}, {})
    monkeypatch.setattr(module, "DockerSandbox", lambda: sandbox)
    monkeypatch.setattr(docker_engine, "sweep", lambda client: 0)
    monkeypatch.setattr(judge, "find_images", lambda *_, **__: images)
    return sandbox


def test_a_broken_machine_is_refused_unless_somebody_wants_its_scores_which_say_so(fake: FakeSandbox) -> None:
    arguments: dict[str, Any] = {"predictions": [[GOOD]], "references": ["tiny-gan/3"], "tasks": "sample", "k": 1}
    result = compute(**arguments)
    assert (result["pass@1"], result["checks_skipped"], len(fake.trials)) == (1.0, False, 2)
    fake.behave_tried = lambda job: Execution(outcome="exited", status=0)
    with pytest.raises(SandboxError, match="exit status is told") as refused:
        compute(**arguments)
    assert "skip_checks=True scores all the same" in str(refused.value)
    assert len(fake.run) == 1
    result = compute(**arguments, skip_checks=True)
    assert (result["pass@1"], result["checks_skipped"], len(fake.run)) == (1.0, True, 2)


def test_the_evaluate_module_hands_the_choice_on(fake: FakeSandbox) -> None:
    import evaluate

    metric = evaluate.load(ml_bench_metric.path())
    rows = {"predictions": [[GOOD]], "references": ["tiny-gan/3"]}
    assert metric.compute(**rows, tasks="sample", k=1, skip_checks=True)["checks_skipped"]
    assert fake.trials == []


def test_of_split_a_candidates_are_scripts_or_folders(fake: FakeSandbox, tmp_path: Path) -> None:
    import evaluate

    (tmp_path / "run.sh").write_text("python mine.py")
    (tmp_path / "mine.py").write_text("print(1)")
    rows = [[tmp_path, {"folder": str(tmp_path)}, {"folder": tmp_path}, "exit 0", f"\0folder:{tmp_path}"]]
    metric = evaluate.load(ml_bench_metric.path())
    found = metric.compute(predictions=rows, references=[ROW], split="A", k=1, skip_checks=True, num_workers=1)
    jobs = sorted(fake.run, key=lambda job: job.program)
    assert [(job.program, job.overlay is not None) for job in jobs] == [
        (f"\0folder:{tmp_path}", False),
        ("exit 0", False),
        *[("python mine.py", True)] * 3,
    ]
    assert {(job.form, job.limits.seconds) for job in jobs} == {("run.sh", 120.0)}
    assert found["passed"] == 5 and found["ceiling"] == 1.0


@pytest.mark.parametrize(
    ("candidate", "split", "message"),
    [
        (Path("/nonexistent/x"), "A", r"predictions\[0\]\[1\]: /nonexistent/x is no folder"),
        ({"folder": "/nonexistent/x"}, "L", r"predictions\[0\]\[1\] is a folder; .*split='A'"),
        ({"folder": 3}, "A", r"predictions\[0\]\[1\] is \{'folder': 3\}"),
        ({"folder": "x", "more": 1}, "A", r"predictions\[0\]\[1\]"),
        ({"folder": "\ud800"}, "A", r"predictions\[0\]\[1\] .*no UTF-8"),
    ],
)
def test_a_folder_that_is_no_candidate_is_named(fake: FakeSandbox, candidate: object, split: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        texts, reference = checked_row(["true", candidate], "tiny-gan/1", 0)
        compute([texts], [reference], tasks="sample", split=split)
    assert fake.run == []


@pytest.mark.docker
def test_numbers_are_plain_and_denominators_honest(sample_image: str) -> None:
    row = load_tasks("sample", "L").by_id["tiny-gan/4"].model_dump()
    result = compute(
        [[GOOD, "python train.py --dataset grid", GOOD], []],
        ["tiny-gan/3", json.dumps(row)],
        k=[1, 2, 3, 5],
        tasks="sample",
    )
    assert result["pass@1"] == pytest.approx((2 / 3 + 0) / 2)
    assert result["pass@3"] == 0.5
    assert "pass@5" not in result
    assert (result["tasks"], result["candidates"], result["passed"]) == (2, 3, 2)
    assert result["missing"] == ["tiny-gan/4"]
    assert result["assets"] == result["repositories"]["tiny-gan"]["assets"] == {"not_needed": 3}
    assert [detail["passed"] for detail in result["details"]["tiny-gan/3"]] == [True, False, True]
    assert list(_numpy_values(result)) == []
    assert json.loads(json.dumps(result)) == result


def _numpy_values(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for part in value.values():
            yield from _numpy_values(part)
    elif isinstance(value, list):
        for part in value:
            yield from _numpy_values(part)
    elif type(value).__module__ == "numpy":
        yield value


@pytest.mark.docker
def test_the_examples_of_the_evaluate_module_are_true(sample_image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from ml_bench_metric import ml_bench

    parser = doctest.DocTestParser()
    examples = parser.get_doctest(ml_bench._INPUTS, {}, "ml_bench", ml_bench_metric.path(), 0)
    assert len(examples.examples) >= 6
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    output: list[str] = []
    runner.run(examples, out=output.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(output)


@pytest.mark.docker
def test_the_module_loads_from_its_folder_and_combines(
    sample_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import evaluate

    monkeypatch.chdir(tmp_path)
    (tmp_path / "ml_bench").symlink_to(Path(ml_bench_metric.path()).parent)
    metric = evaluate.load("ml_bench")
    combined = evaluate.combine([metric])
    result = combined.compute(predictions=[[GOOD]], references=["tiny-gan/3"], k=[1], tasks="sample")
    assert result["pass@1"] == 1.0


def test_the_module_names_a_faulty_row_that_evaluate_itself_would_let_pass() -> None:
    import evaluate

    metric = evaluate.load(ml_bench_metric.path())
    with pytest.raises(ValueError, match=r"predictions\[1\]\[0\] is 3"):
        metric.compute(predictions=[["a"], [3]], references=["tiny-gan/3", "tiny-gan/4"])
    with pytest.raises(ValueError, match="2 predictions and 1 references"):
        metric.add_batch(predictions=[["a"], ["b"]], references=["tiny-gan/3"])
    with pytest.raises(ValueError, match="prediction"):
        metric.compute(predictions=[["a"]])
    with pytest.raises((TypeError, ValueError), match="passk"):
        metric.compute(predictions=[["a"]], references=["tiny-gan/3"], passk=[1])
