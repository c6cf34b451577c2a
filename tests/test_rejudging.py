"""`ml-bench rejudge`: a stored run judged anew gives the numbers that it would have today, and executes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ml_bench_cli.main import main
from ml_bench_metric import judge, rejudging
from ml_bench_metric.checks import Checks
from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.results import RULES
from ml_bench_metric.sandbox import docker_engine, docker_sandbox
from ml_bench_metric.store import RESULTS_FILE, read_results
from ml_bench_metric.summary import Summary, summarise
from tests.fakes import DIGEST, FakeSandbox
from tests.result_builders import FAILING, result, task_set

Command = Callable[..., tuple[int, str, str]]


class NoEngine(FakeSandbox):
    client = None


@pytest.fixture
def ml_bench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """The command line in this process, on a sandbox without an engine, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(docker_sandbox, "DockerSandbox", lambda: NoEngine())
    monkeypatch.setattr(docker_engine, "sweep", lambda client: 0)
    monkeypatch.setattr(
        judge,
        "find_images",
        lambda sandbox, tasks, image, **_: judge.Images({task.task_id: TaskImage(DIGEST) for task in tasks}, {}),
    )

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["ml-bench", *arguments])
        try:
            main()
            status = 0
        except SystemExit as end:
            status = int(end.code or 0)
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def predictions(folder: Path, **of_tasks: list[str]) -> Path:
    path = folder / "predictions.jsonl"
    lines = [{"task_id": f"tiny-gan/{number[1:]}", "output": texts} for number, texts in of_tasks.items()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


GOOD = "python train.py --dataset spiral --epochs 25 --lr 0.002"


def test_a_run_judged_anew_has_the_same_scores_and_executes_nothing(ml_bench: Command, tmp_path: Path) -> None:
    predictions(tmp_path, t1=[GOOD, "exit 1 # train.py", "hang"], t2=["I cannot."])
    command = ("predictions.jsonl", "--tasks", "sample", "--extract", "none", "--quiet", "--json", "--k", "1,3")
    status, printed, errors = ml_bench("evaluate", *command, "--out", "run", "--repeat", "2")
    assert status == 0, errors
    then = Summary.from_json(printed)
    before = (tmp_path / "run" / RESULTS_FILE).read_bytes()
    for rule in RULES:
        status, printed, errors = ml_bench("rejudge", "run", "--rule", rule, "--k", "1,3", "--json")
        assert status == 0, errors
        now = Summary.from_json(printed)
        assert now.rule == rule
        assert now.overall == then.overall and now.repositories == then.repositories and now.flaky == then.flaky
    assert (tmp_path / "run" / RESULTS_FILE).read_bytes() == before


def test_results_of_answers_that_have_changed_since_are_not_counted(ml_bench: Command, tmp_path: Path) -> None:
    command = ("predictions.jsonl", "--tasks", "sample", "--extract", "none", "--quiet", "--json", "--k", "1")
    predictions(tmp_path, t1=["exit 1 # train.py", "exit 1"])
    ml_bench("evaluate", *command, "--out", "run")
    predictions(tmp_path, t1=[GOOD])
    printed = ml_bench("evaluate", *command, "--out", "run")[1]
    assert len(list(read_results(tmp_path / "run"))) == 2
    _, again, _ = ml_bench("rejudge", "run", "--k", "1", "--json")
    assert Summary.from_json(again).overall == Summary.from_json(printed).overall


def test_only_with_write_the_runs_summary_changes(ml_bench: Command, tmp_path: Path) -> None:
    predictions(tmp_path, t1=[GOOD])
    ml_bench("evaluate", "predictions.jsonl", "--tasks", "sample", "--quiet", "--k", "1", "--out", "run")
    stored = tmp_path / "run" / "summary.json"
    before = stored.read_bytes()
    ml_bench("rejudge", "run", "--rule", "strict", "--k", "1")
    assert stored.read_bytes() == before
    ml_bench("rejudge", "run", "--rule", "strict", "--k", "1", "--write")
    assert Summary.from_json(stored.read_bytes()).rule == "strict"


def test_other_tasks_than_those_of_the_run_are_refused(ml_bench: Command, tmp_path: Path) -> None:
    predictions(tmp_path, t1=[GOOD])
    ml_bench("evaluate", "predictions.jsonl", "--tasks", "sample", "--quiet", "--k", "1", "--out", "run")
    lines = ml_bench("tasks", "--tasks", "sample", "--json")[1]
    (tmp_path / "other.jsonl").write_text(lines.replace("spiral", "circle"))
    status, _, errors = ml_bench("rejudge", "run", "--tasks", "other.jsonl", "--k", "1")
    assert status == 2
    assert "are not those of the run" in errors


def test_a_folder_that_is_no_run_and_a_damaged_line_are_told_in_one_line(ml_bench: Command, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    status, _, errors = ml_bench("rejudge", "empty")
    assert (status, errors.count("\n")) == (2, 1)
    assert "is no run's folder" in errors
    predictions(tmp_path, t1=[GOOD])
    ml_bench("evaluate", "predictions.jsonl", "--tasks", "sample", "--quiet", "--k", "1", "--out", "run")
    path = tmp_path / "run" / RESULTS_FILE
    path.write_text(path.read_text().replace('"status": 0', '"status": 1'))
    status, _, errors = ml_bench("rejudge", "run", "--k", "1")
    assert (status, errors.count("\n")) == (2, 1)
    assert f"{Path('run') / RESULTS_FILE}:1" in errors and "checksum" in errors


def test_checks_are_made_anew_where_the_program_is_stored_whole(
    ml_bench: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictions(tmp_path, t1=[GOOD, GOOD + "\n# " + "x" * 100_000])
    command = ("predictions.jsonl", "--tasks", "sample", "--extract", "none", "--quiet", "--k", "1", "--out", "run")
    ml_bench("evaluate", *command)
    monkeypatch.setattr(rejudging, "check", lambda *_: Checks(arguments=False, type=True, missing=("new",)))
    status, printed, errors = ml_bench("rejudge", "run", "--k", "1", "--json")
    assert status == 0
    assert "1 candidates keep the checks of the run" in errors
    assert "1 candidates have other checks today" in errors
    assert Summary.from_json(printed).overall.scores["original"].passed == 1


def test_flaky_candidates_are_told_and_the_first_execution_counts() -> None:
    results = [result("r/1", 0), result("r/1", 0, FAILING, repeat=1), result("r/1", 1, FAILING)]
    results += [result("r/1", 1, FAILING, repeat=1), result("r/2", 0), result("r/2", 0, repeat=1)]
    summary = summarise(reversed(results), task_set("r/1", "r/2"), {"r/1": 2, "r/2": 1}, ks=[1])
    assert summary.repeats == 2
    assert summary.flaky == {rule: {"r/1": (0,)} for rule in RULES}
    assert summary.overall.scores["original"].passed == 2
    assert summary.overall.expected == 3
