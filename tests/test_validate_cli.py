"""`ml-bench validate` and what `evaluate` makes of it: ceilings, known issues left out, and nothing lost on the way."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ml_bench_cli.main import main
from ml_bench_metric import judge
from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.report.validation import ValidationReport
from ml_bench_metric.sandbox import docker_engine, docker_sandbox
from ml_bench_metric.sandbox.execution import Execution
from ml_bench_metric.sandbox.protocol import Capacity, Job
from ml_bench_metric.store import read_results
from ml_bench_metric.summary import Summary
from ml_bench_metric.validation import STORE_VARIABLE, ValidationStore
from tests.fakes import DIGEST, FakeSandbox, by_program, by_trial
from tests.recipe_builders import RecipeFolder
from tests.result_builders import task

OTHER = "sha256:" + "1" * 64

PASSES, FAILS, HANGS = "exit 0 # run.py x", "exit 1 # run.py x", "python run.py forever"
"""References, as `by_reference` executes them. `HANGS` passes under the original rule alone."""


def by_reference(job: Job) -> Execution:
    if job.program == HANGS:
        return Execution(outcome="still_running", cpu_seconds=0.0)
    return by_program(job)


class _BusySandbox(FakeSandbox):
    """A sandbox on a machine that has other work."""

    client = None
    load = 7.5

    def capacity(self) -> Capacity:
        return replace(super().capacity(), load=self.load)


class CommandLine:
    """The command line in this process, on a sandbox without an engine."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.sandbox = _BusySandbox(self._with_the_jobs_image)
        self.behave: Callable[[Job], Execution] = by_reference
        self.folder, self._monkeypatch, self._capsys = folder, monkeypatch, capsys
        self.images = judge.Images({}, {})
        monkeypatch.setattr(docker_sandbox, "DockerSandbox", lambda: self.sandbox)
        monkeypatch.setattr(docker_engine, "sweep", lambda client: 0)
        monkeypatch.setattr(judge, "find_images", self._find_images)
        monkeypatch.setattr("ml_bench_metric.evaluation._RETRY_SECONDS", 0.0)
        monkeypatch.setenv(STORE_VARIABLE, str(folder / "validations"))
        monkeypatch.chdir(folder)
        self.wanted: dict[str, Any] = {}
        self.output = self.errors = ""

    def _with_the_jobs_image(self, job: Job) -> Execution:
        return self.behave(job).model_copy(update={"image": job.image})

    def _find_images(self, sandbox: object, tasks: object, image: str | None = None, **wanted: Any) -> judge.Images:
        self.wanted = {"image": image, **wanted}
        return self.images

    def tasks(self, **references: str) -> None:
        """Make the tasks: `a_1=PASSES` is task `a/1` with that reference. All are served by the image `DIGEST`."""
        found = {name.replace("_", "/"): reference for name, reference in references.items()}
        rows = [
            task(name).model_copy(update={"output": reference, "github_id": ord(name[0])})
            for name, reference in found.items()
        ]
        (self.folder / "tasks.jsonl").write_text("".join(json.dumps(row.model_dump()) + "\n" for row in rows))
        self.images = judge.Images({name: TaskImage(DIGEST, "stand_in") for name in found}, {})

    def __call__(self, command: str, *options: object) -> int:
        """Run a command on the tasks and return its exit status; what it wrote is in `output` and `errors`."""
        arguments = ["ml-bench", command, "--tasks", "tasks.jsonl", "--workers", "1", "-q", *options]
        self._monkeypatch.setattr("sys.argv", [str(one) for one in arguments])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        self.output, self.errors = self._capsys.readouterr()
        assert "Traceback" not in self.errors
        return int(ended.value.code or 0)

    def validate(self, *options: object) -> tuple[int, ValidationReport]:
        status = self("validate", "--json", *options)
        return status, ValidationReport.from_json(self.output)

    def evaluate(self, *options: object) -> Summary:
        assert self("evaluate", "--references", "--k", "1", "--json", *options) == 0, self.errors
        return Summary.from_json(self.output)


@pytest.fixture
def ml_bench(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    recipe_folder: RecipeFolder,
) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, capsys)


def test_references_are_executed_repeatedly_beside_an_empty_candidate_and_one_that_does_nothing(
    ml_bench: CommandLine,
) -> None:
    ml_bench.tasks(a_1=PASSES, a_2=PASSES)
    status, report = ml_bench.validate("--repeat", 3)
    assert status == 0, ml_bench.errors
    assert sorted(job.program for job in ml_bench.sandbox.run) == sorted([":", *[PASSES] * 3] * 2)
    assert {name: one.found.passed for name, one in report.checked.items()} == {
        "a/1": {"original": 3, "strict": 3},
        "a/2": {"original": 3, "strict": 3},
    }
    # Without arguments to check, doing nothing is of the right type for one rule: told, and no error.
    assert [one.found.no_op_passes for one in report.checked.values()] == [("strict",)] * 2
    assert (report.images[0].image, report.images[0].assets) == (DIGEST, "stand_in")


def test_failing_without_a_known_issue_and_passing_with_one_are_status_1(
    ml_bench: CommandLine, recipe_folder: RecipeFolder
) -> None:
    ml_bench.tasks(a_1=PASSES, a_2=FAILS, b_1=HANGS)
    status, report = ml_bench.validate()
    assert status == 1
    assert report.unexpected == (
        "a/2: both rules: does not pass (exited 1), and has no known issue",
        "b/1: rule strict: does not pass (still_running), and has no known issue",
    )
    known = [
        {"tasks": ["a/2"], "cause": "gpu", "reason": "needs CUDA"},
        {"tasks": ["b/1"], "cause": "reference", "reason": "waits", "rules": ["strict"]},
    ]
    recipe_folder.recipe("a", known_issues=known)
    assert ml_bench.validate()[0] == 0
    recipe_folder.recipe("b", known_issues=[{"tasks": ["a/1"], "cause": "assets", "reason": "weights"}])
    status, report = ml_bench.validate()
    assert status == 1
    assert report.unexpected == ("a/1: both rules: passes, though it has a known issue (assets)",)


def test_a_reference_that_passes_sometimes_is_flaky(ml_bench: CommandLine) -> None:
    ml_bench.tasks(a_1=PASSES)
    statuses = itertools.cycle([0, 1])

    def sometimes(job: Job) -> Execution:
        return Execution(outcome="exited", status=next(statuses)) if job.program == PASSES else by_program(job)

    ml_bench.behave = sometimes
    assert ml_bench("validate") == 1
    assert "flaky 1/2" in ml_bench.output
    assert "a/1: both rules: passes 1 of 2 times, and has no known issue" in " ".join(ml_bench.output.split())


def test_the_run_has_a_folder_with_the_report_in_both_forms_and_goes_on(ml_bench: CommandLine) -> None:
    ml_bench.tasks(a_1=PASSES, a_2=PASSES)
    assert ml_bench.validate("--out", "run")[0] == 0
    files = {path.name for path in (ml_bench.folder / "run").iterdir()}
    assert files >= {"run.json", "results.jsonl", "validation.json", "validation.md"}
    report = ValidationReport.from_json((ml_bench.folder / "run" / "validation.json").read_text())
    assert report.to_json(indent=2) + "\n" == ml_bench.output
    assert "| a/1 | pass | pass |" in (ml_bench.folder / "run" / "validation.md").read_text()
    executed = len(ml_bench.sandbox.run)
    ml_bench.sandbox.load = 0.0
    status, again = ml_bench.validate("--out", "run")
    assert (status, len(ml_bench.sandbox.run)) == (0, executed)
    assert again == report, "what was not executed again was made when and as it was executed"
    status, report = ml_bench.validate("--out", "run", "--repeat", 3)
    assert (status, len(ml_bench.sandbox.run)) == (0, executed + 2)
    assert [len(one.found.outcomes) for one in report.checked.values()] == [3, 3]


def test_evaluations_and_validations_do_not_share_a_folder(ml_bench: CommandLine) -> None:
    ml_bench.tasks(a_1=PASSES)
    assert ml_bench("validate", "--out", "run") == 0
    assert ml_bench("evaluate", "--references", "--out", "run") == 2
    assert "kind: 'validation' -> 'evaluation'" in ml_bench.errors


def test_stopped_early_what_is_known_is_kept_and_the_same_command_goes_on(ml_bench: CommandLine) -> None:
    ml_bench.tasks(a_1=PASSES, a_2=PASSES, a_3=PASSES)
    count = itertools.count()

    def interrupt(job: Job) -> Execution:
        if next(count) == 4:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)  # until the main thread has taken note of it
        return by_program(job)

    ml_bench.behave = interrupt
    assert ml_bench("validate", "--out", "run") == 130
    assert "the same command goes on" in ml_bench.errors
    known = len(list(read_results(ml_bench.folder / "run")))
    assert 4 <= known < 12
    stored = ValidationStore().read(DIGEST)
    assert stored is not None and "a/1" in stored.parts[0].tasks and "a/3" not in stored.parts[0].tasks
    status, report = ml_bench.validate("--out", "run")
    assert (status, list(report.checked)) == (0, ["a/1", "a/2", "a/3"])
    assert f"{known} of 12 candidates have a result in run" in ml_bench.errors


def test_an_engine_that_dies_is_status_3_and_what_was_found_is_kept(ml_bench: CommandLine) -> None:
    ml_bench.tasks(a_1=PASSES, a_2="exit 2 # run.py x")

    def die(job: Job) -> Execution:
        if not job.program.startswith("exit 2"):
            return by_program(job)
        ml_bench.sandbox.answers = False
        return Execution(outcome="environment_error", reason="connection refused")

    ml_bench.behave = die
    assert ml_bench("validate", "--out", "run") == 3
    assert "when the sandbox works again, the same command goes on" in ml_bench.errors
    stored = ValidationStore().read(DIGEST)
    assert stored is not None and list(stored.parts[0].tasks) == ["a/1"]


def test_a_sandbox_that_fails_a_task_is_unexpected_and_one_that_fails_everything_is_status_3(
    ml_bench: CommandLine,
) -> None:
    ml_bench.tasks(a_1=PASSES, a_2=FAILS)
    ml_bench.sandbox.refuse = lambda job: job.program == FAILS
    status, report = ml_bench.validate()
    assert (status, report.unexpected) == (1, ("a/2: environment error: no container could be made",))
    ml_bench.sandbox.refuse = lambda job: True
    assert ml_bench("validate") == 3


def test_tasks_without_an_image_are_named_and_the_others_validated(ml_bench: CommandLine) -> None:
    ml_bench.tasks(a_1=PASSES, b_1=PASSES)
    served = {"a/1": ml_bench.images.by_task["a/1"]}
    ml_bench.images = judge.Images(served, {"b/1": "no image for b: build it"})
    status, report = ml_bench.validate()
    assert (status, list(report.checked)) == (0, ["a/1"])
    assert report.not_validated == {"b/1": "no image for b: build it"}
    assert "not executed: no image for b: build it" in ml_bench.errors
    ml_bench.images = judge.Images({}, {"a/1": "none", "b/1": "none"})
    assert ml_bench("validate") == 3


def test_a_damaged_stored_validation_is_found_before_anything_runs(ml_bench: CommandLine) -> None:
    ml_bench.tasks(a_1=PASSES)
    assert ml_bench("validate") == 0
    ValidationStore().path(DIGEST).write_text("{")
    executed = len(ml_bench.sandbox.run)
    for command in (["validate"], ["evaluate", "--references"]):
        assert ml_bench(*command) == 2
        assert "is no validation of this version" in ml_bench.errors
    assert len(ml_bench.sandbox.run) == executed


def test_what_the_options_ask_for_reaches_images_and_limits(ml_bench: CommandLine) -> None:
    ml_bench.tasks(a_1=PASSES)
    options = ("--assets", "stand-in", "--image", "mine", "--limit-time", 3, "--limit-memory", "1g")
    assert ml_bench("validate", *options) == 0
    assert ml_bench.wanted == {"image": "mine", "assets": "stand_in", "device": "cpu", "bare": False}
    assert {(job.limits.seconds, job.limits.memory_bytes) for job in ml_bench.sandbox.run} == {(3.0, 2**30)}
    assert ml_bench("validate", "--limit-memory", "1k") == 2
    assert ml_bench("validate", "--repeat", 0) == 2


def test_a_broken_machine_validates_nothing_unless_somebody_wants_that_and_then_it_is_told(
    ml_bench: CommandLine,
) -> None:
    ml_bench.tasks(a_1=PASSES)
    ml_bench.sandbox.behave_tried = lambda job: Execution(outcome="exited", status=0)
    assert ml_bench("validate") == 3
    assert "--skip-checks scores all the same" in ml_bench.errors
    assert ValidationStore().read(DIGEST) is None and ml_bench.sandbox.run == []
    status, report = ml_bench.validate("--skip-checks", "--out", "run")
    assert (status, report.made.checks_skipped) == (0, True)
    assert "checks skipped" in (ml_bench.folder / "run" / "validation.md").read_text()
    ml_bench.sandbox.behave_tried = by_trial
    assert not ml_bench.validate()[1].made.checks_skipped


# ---------------------------------------------------------------- evaluate


def test_a_validation_is_the_ceiling_of_evaluations_in_the_same_image_with_the_same_limits(
    ml_bench: CommandLine,
) -> None:
    ml_bench.tasks(a_1=PASSES, a_2=FAILS, a_3=HANGS, b_1=PASSES)
    assert ml_bench.evaluate().executed_ceiling is None
    assert ml_bench("validate", "--repositories", "a") == 1
    ceiling = ml_bench.evaluate("--out", "run").executed_ceiling
    assert ceiling is not None
    assert {rule: (one.passed, one.tasks, one.not_validated) for rule, one in ceiling.items()} == {
        "original": (2, 3, 1),
        "strict": (1, 3, 1),
    }
    stored = Summary.from_json((ml_bench.folder / "run" / "summary.json").read_text())
    assert stored.executed_ceiling == ceiling
    assert ml_bench("validate", "--repositories", "b") == 0
    ceiling = ml_bench.evaluate().executed_ceiling
    assert ceiling is not None and (ceiling["original"].passed, ceiling["original"].not_validated) == (3, 0)
    assert ml_bench.evaluate("--limit-time", 60).executed_ceiling is None
    ml_bench.images = judge.Images(dict.fromkeys(ml_bench.images.by_task, TaskImage(OTHER)), {})
    assert ml_bench.evaluate().executed_ceiling is None


def test_tasks_whose_reference_takes_long_come_first_once_that_is_known(ml_bench: CommandLine) -> None:
    references = {f"a_{number}": f"exit 0 # run.py {number}" for number in range(1, 5)}
    ml_bench.tasks(**references)
    seconds = {references["a_2"]: 0.15, references["a_3"]: 0.3}

    def behave(job: Job) -> Execution:
        time.sleep(seconds.get(job.program, 0.0))
        return by_program(job)

    ml_bench.behave = behave

    def order() -> list[str]:
        """Return the references in the order in which an evaluation executed them."""
        ml_bench.sandbox.run.clear()
        ml_bench.evaluate("--no-cache")
        return [job.program.split()[-1] for job in ml_bench.sandbox.run]

    assert order() == ["1", "2", "3", "4"]
    assert ml_bench("validate", "--repositories", "a") == 0
    assert order()[:2] == ["3", "2"]
    # What is not known may take its whole limit, which is longer.
    ml_bench.tasks(**references, b_1="exit 0 # run.py new")
    assert order()[:3] == ["new", "3", "2"]


def test_the_ceiling_is_over_tasks_without_a_prediction_too(ml_bench: CommandLine) -> None:
    ml_bench.tasks(a_1=PASSES, a_2=PASSES)
    assert ml_bench("validate") == 0
    (ml_bench.folder / "predictions.jsonl").write_text(json.dumps({"task_id": "a/1", "output": [PASSES]}))
    assert ml_bench("evaluate", "predictions.jsonl", "--k", "1", "--json") == 0
    ceiling = Summary.from_json(ml_bench.output).executed_ceiling
    assert ceiling is not None and ceiling["original"].tasks == 2


def test_known_issues_are_left_out_by_the_image_of_each_task(
    ml_bench: CommandLine, recipe_folder: RecipeFolder
) -> None:
    ml_bench.tasks(a_1=PASSES, a_2=PASSES, a_3=PASSES, b_1=PASSES, b_2="no program of that type")
    recipe_folder.recipe("a", known_issues=[{"tasks": ["a/1", "a/2", "a/3"], "cause": "assets", "reason": "weights"}])
    real, stand_in = TaskImage(OTHER, "real"), TaskImage(DIGEST, "stand_in")
    ml_bench.images = judge.Images({"a/1": real, "a/2": stand_in, "b/1": stand_in, "b/2": stand_in}, {"a/3": "none"})
    summary = ml_bench.evaluate("--exclude", "known-issues", "--out", "run")
    # a/3 has no image, so no real weights; b/2 is refused by the static checks of the original rule alone.
    assert [(one.why, one.tasks) for one in summary.excluded] == [("known-issues", ("a/2", "a/3", "b/2"))]
    assert (summary.overall.tasks, summary.overall.candidates) == (2, 2)
    assert "left out: 3 of 5 tasks for their known issues" in ml_bench.errors
    run = json.loads((ml_bench.folder / "run" / "run.json").read_text())
    assert run["excluded"] == run["identity"]["excluded"] == [{"why": "known-issues", "tasks": ["a/2", "a/3", "b/2"]}]
    assert ml_bench("evaluate", "--references", "--out", "run") == 2
    assert "excluded: " in ml_bench.errors


def test_leaving_out_known_issues_changes_nothing_where_there_are_none(ml_bench: CommandLine) -> None:
    ml_bench.tasks(a_1=PASSES)
    summary = ml_bench.evaluate("--exclude", "known-issues")
    assert (summary.excluded, summary.digest) == ((), ml_bench.evaluate().digest)
    assert ml_bench("evaluate", "--references", "--exclude", "hard-ones") == 2


def test_everything_having_a_known_issue_is_bad_input(ml_bench: CommandLine, recipe_folder: RecipeFolder) -> None:
    ml_bench.tasks(a_1=PASSES)
    recipe_folder.recipe("a", known_issues=[{"tasks": ["a/1"], "cause": "gpu", "reason": "needs CUDA"}])
    assert ml_bench("evaluate", "--references", "--exclude", "known-issues") == 2
    assert "known-issues: all 1 tasks" in ml_bench.errors


@pytest.mark.docker
def test_the_samples_references_pass_in_the_samples_image(
    sample_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(STORE_VARIABLE, str(tmp_path / "validations"))
    fixed = ["--tasks", "sample", "--repositories", "tiny-text", "--limit-time", "60", "-q", "--json"]
    monkeypatch.setattr("sys.argv", ["ml-bench", "validate", *fixed, "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as ended:
        main()
    written = capsys.readouterr()
    assert not ended.value.code, written.err
    report = ValidationReport.from_json(written.out)
    assert report.unexpected == () and report.not_validated == {}
    (image,) = report.images
    assert image.assets == "not_needed"
    for checked in image.tasks.values():
        assert checked.found.outcomes == ("exited 0", "exited 0")
        assert checked.found.seconds > 0 and checked.found.peak_memory_bytes
    assert ValidationStore().path(image.image).is_file()
