"""The commands do what their help says: right exit status, one clear line for bad input, nothing lost."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

import ml_bench_sample
from ml_bench_cli.main import main
from ml_bench_cli.progress import EvaluationProgress
from ml_bench_metric import judge
from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.execution_cache import FOLDER_VARIABLE, ExecutionCache
from ml_bench_metric.sandbox import docker_engine, docker_sandbox
from ml_bench_metric.sandbox.docker_engine import list_containers
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.execution import Execution, Times
from ml_bench_metric.sandbox.protocol import Job, Slot
from ml_bench_metric.store import read_results, read_run
from ml_bench_metric.summary import Summary
from ml_bench_metric.tasks import load_tasks
from tests.fakes import DIGEST, FakeSandbox, by_program, by_trial
from tests.result_builders import ERROR, PASSING, result

NO_PROGRAM = "I am sorry, but I cannot help with that."

COMMAND = [sys.executable, "-c", "from ml_bench_cli.main import main; main()"]


def _run(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "100", **environment},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def _predictions(folder: Path, *rows: object) -> Path:
    path = folder / "predictions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def bash_task() -> str:
    return _first_task("Bash Script")


def _first_task(kind: str) -> str:
    with (ml_bench_sample.path() / "tasks_l.jsonl").open(encoding="utf-8") as lines:
        return next(str(row["task_id"]) for row in map(json.loads, lines) if row["type"] == kind)


def test_help_loads_no_heavy_library(tmp_path: Path) -> None:
    program = (
        "import sys\nsys.argv = ['ml-bench', '--help']\n"
        "from ml_bench_cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'datasets', 'evaluate', 'docker', 'numpy', 'pyarrow', 'pandas', 'huggingface_hub', 'pydantic'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "evaluate" in done.stdout


def test_tasks_lists_every_task_and_shows_one(tmp_path: Path, bash_task: str) -> None:
    listed = _run("tasks", "--tasks", "sample", cwd=tmp_path)
    assert listed.returncode == 0
    assert bash_task in listed.stdout
    shown = _run("tasks", bash_task, "--tasks", "sample", cwd=tmp_path)
    assert "instruction" in shown.stdout and "/workspace/" in shown.stdout
    rows = [json.loads(line) for line in _run("tasks", "--json", "--tasks", "sample", cwd=tmp_path).stdout.splitlines()]
    assert rows[0]["task_id"] == bash_task


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tasks", "no/1", "--tasks", "sample"], "has no task 'no/1'"),
        (["tasks", "--tasks", "sample", "--split", "full"], "full"),
        (["tasks", "--tasks", "no-such-folder/"], "no-such-folder"),
        (["tasks", "--tasks", "sample", "--repositories", "dgl"], "dgl"),
        (["check", "missing.jsonl", "--tasks", "sample"], "missing.jsonl"),
        (["evaluate", "missing.jsonl", "--tasks", "sample"], "missing.jsonl"),
        (["evaluate", "--tasks", "sample"], "--references"),
        (["evaluate", "p.jsonl", "--references", "--tasks", "sample"], "not both"),
        (["evaluate", "p.jsonl", "--k", "1,x"], "1,2,5"),
        (["evaluate", "p.jsonl", "--k", "0"], "starts at 1"),
        (["evaluate", "p.jsonl", "--limit-memory", "much"], "512m"),
        (["evaluate", "p.jsonl", "--limit-memory", "1k"], "memory_bytes"),
        (["evaluate", "p.jsonl", "--workers", "0"], "workers"),
        (["show", "nowhere", "a/1"], "nowhere"),
    ],
)
def test_bad_input_is_named_and_exits_with_2(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "p.jsonl").write_text("")
    done = _run(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_no_engine_exits_with_3_and_says_what_to_do(tmp_path: Path, bash_task: str) -> None:
    path = _predictions(tmp_path, {"task_id": bash_task, "output": ["exit 0"]})
    done = _run("evaluate", path, "--tasks", "sample", cwd=tmp_path, DOCKER_HOST="tcp://127.0.0.1:1")
    assert done.returncode == 3
    assert "DOCKER_HOST" in done.stderr and "Traceback" not in done.stderr


def test_check_counts_and_reports_without_an_engine(tmp_path: Path, bash_task: str) -> None:
    path = _predictions(tmp_path, {"task_id": bash_task, "output": ["nothing"]}, {"task_id": "no/1", "output": ["x"]})
    done = _run("check", path, "--tasks", "sample", "--json", cwd=tmp_path, DOCKER_HOST="tcp://127.0.0.1:1")
    report = json.loads(done.stdout)
    assert report["candidates"] == 1
    assert [task for task in report["unknown_tasks"] if "no/1" in str(task)]
    assert _run("check", path, "--tasks", "sample", "--strict-input", cwd=tmp_path).returncode == 2


def test_a_terminal_that_is_not_utf8_is_no_reason_to_crash(tmp_path: Path, bash_task: str) -> None:
    done = _run(
        "tasks", bash_task + "\u2026", "--tasks", "sample", cwd=tmp_path, PYTHONIOENCODING="ascii", PYTHONUTF8="0"
    )
    assert done.returncode == 2
    assert "\\u2026" in done.stderr


class _InProcess:
    """The command line in this process, on a sandbox without an engine."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.sandbox = FakeSandbox()
        self.sandbox.client = None  # type: ignore[attr-defined]
        self.folder, self._monkeypatch, self._capsys = folder, monkeypatch, capsys
        tasks = load_tasks("sample", "L").tasks
        self.images = judge.Images({task.task_id: TaskImage(DIGEST) for task in tasks}, {})
        monkeypatch.setattr(docker_sandbox, "DockerSandbox", lambda: self.sandbox)
        monkeypatch.setattr(docker_engine, "sweep", lambda client: 0)
        monkeypatch.setattr(judge, "find_images", lambda *_, **__: self.images)
        monkeypatch.chdir(folder)

    def evaluate(self, outputs: list[str], *options: object, task: str) -> tuple[int, str]:
        """Return the exit status, and what was written to standard error."""
        path = _predictions(self.folder, {"task_id": task, "output": outputs})
        fixed = ["ml-bench", "evaluate", path, "--tasks", "sample", "--k", "1", "--workers", "1", "-q"]
        self._monkeypatch.setattr(sys, "argv", [str(one) for one in (*fixed, *options)])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), self._capsys.readouterr().err


@pytest.fixture()
def in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> _InProcess:
    monkeypatch.setattr("ml_bench_metric.evaluation._RETRY_SECONDS", 0.0)
    return _InProcess(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("outputs", "refused", "status"),
    [
        (["python a.py", NO_PROGRAM], "", 3),
        (["python a.py", "python b.py"], "b.py", 0),
        ([NO_PROGRAM, NO_PROGRAM], "", 0),
    ],
)
def test_exit_status_3_says_that_nothing_was_executed(
    in_process: _InProcess, bash_task: str, outputs: list[str], refused: str, status: int
) -> None:
    in_process.sandbox.refuse = lambda job: refused in job.program
    found, errors = in_process.evaluate(outputs, task=bash_task)
    assert found == status, errors


def test_an_engine_that_dies_keeps_the_results_and_says_how_to_go_on(in_process: _InProcess, bash_task: str) -> None:
    def die(job: Job) -> Execution:
        if job.program != "exit 2":
            return by_program(job)
        in_process.sandbox.answers = False
        return Execution(outcome="environment_error", reason="connection refused")

    in_process.sandbox.behave = die
    options = ("--extract", "none", "--out", "run")
    status, errors = in_process.evaluate([f"exit {i}" for i in range(5)], *options, task=bash_task)
    assert status == 3
    assert "2 of 5 candidates have a result in run; when the sandbox works again, the same command goes on\n" in errors
    assert "Traceback" not in errors
    assert json.loads((in_process.folder / "run" / "summary.json").read_text())["overall"]["pending"] == 3
    in_process.sandbox.behave, in_process.sandbox.answers = by_program, True
    status, errors = in_process.evaluate([f"exit {i}" for i in range(5)], *options, task=bash_task)
    assert (status, len(read_run(in_process.folder / "run")["parts"])) == (0, 2)
    assert "2 of 5 candidates have a result in run; 3 to go" in errors


def test_restart_puts_the_folder_aside_that_one_is_in(
    in_process: _InProcess, bash_task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = in_process.folder / "run"
    run.mkdir()
    monkeypatch.chdir(run)
    options = ("--out", ".", "--extract", "none")
    assert in_process.evaluate(["exit 0"], *options, task=bash_task)[0] == 0
    status, errors = in_process.evaluate(["exit 0"], *options, "--limit-time", 3, "--restart", task=bash_task)
    assert status == 0, errors
    assert read_run(run)["identity"]["settings"]["seconds"] == 3
    assert read_run(in_process.folder / "run.1")["identity"]["settings"]["seconds"] is None


def test_another_selection_of_repositories_never_replaces_the_numbers_of_the_whole(
    in_process: _InProcess, bash_task: str
) -> None:
    options = ("--out", "run", "--extract", "none")
    assert in_process.evaluate(["exit 0"], *options, task=bash_task)[0] == 0
    chosen = ("--repositories", bash_task.split("/")[0])
    status, errors = in_process.evaluate(["exit 0"], *options, *chosen, task=bash_task)
    assert status == 2
    assert f"selection: [] -> ['{chosen[1]}']" in errors


def test_gpus_reach_the_candidates_in_images_that_are_made_for_them(
    in_process: _InProcess, bash_task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, object] = {}
    monkeypatch.setattr(judge, "find_images", lambda *_, **options: asked.update(options) or in_process.images)
    in_process.sandbox.gpus = ("GPU-a", "GPU-b", "GPU-c")
    options = ("--gpus", 2, "--out", "run", "--extract", "none")
    status, errors = in_process.evaluate(["exit 0"], *options, task=bash_task)
    assert status == 0, errors
    assert asked["device"] == "gpu"
    # The first one tries the GPUs out.
    assert in_process.sandbox.slots == [Slot((0,), ("GPU-a", "GPU-b"))] * 2
    assert [job.limits.gpus for job in in_process.sandbox.prepared] == [2, 2]
    assert [job.program for job in in_process.sandbox.run] == ["exit 0"]
    assert in_process.sandbox.open == 0
    run = read_run(in_process.folder / "run")
    assert (run["gpus"], run["identity"]["settings"]["limits"]["gpus"]) == (3, 2)


def test_without_gpus_images_are_those_for_a_cpu(
    in_process: _InProcess, bash_task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, object] = {}
    monkeypatch.setattr(judge, "find_images", lambda *_, **options: asked.update(options) or in_process.images)
    in_process.sandbox.gpus = ("GPU-a",)
    assert in_process.evaluate(["exit 0"], "--extract", "none", task=bash_task)[0] == 0
    assert asked["device"] == "cpu"
    assert in_process.sandbox.slots == [Slot((0,))]


def test_gpus_that_the_engine_has_not_end_it_before_anything_runs(in_process: _InProcess, bash_task: str) -> None:
    status, errors = in_process.evaluate(["exit 0"], "--gpus", 1, "--out", "run", task=bash_task)
    assert status == 3
    assert errors.startswith("ml-bench: each candidate is to own 1 GPU, and the engine has none: ")
    assert errors.count("\n") == 1 and "nvidia-container-toolkit" in errors
    assert in_process.sandbox.prepared == [] and not (in_process.folder / "run").exists()


def test_an_engine_that_gives_no_gpu_to_containers_says_so_once(in_process: _InProcess, bash_task: str) -> None:
    in_process.sandbox.gpus, in_process.sandbox.refuse = ("GPU-a",), lambda job: True
    outputs = [f"exit {i}" for i in range(9)]
    status, errors = in_process.evaluate(outputs, "--gpus", 1, "--extract", "none", task=bash_task)
    assert status == 3
    assert errors.splitlines()[-1] == "ml-bench: no container could be made"
    assert len(in_process.sandbox.prepared) == 1


# ---------------------------------------------------------------- the machine is tried out first


def _statuses_get_lost(job: Job) -> Execution:
    return Execution(outcome="exited", status=0, cpu_seconds=0.2, peak_memory_bytes=10**6)


def _cpu_time_is_not_told(job: Job) -> Execution:
    return by_trial(job).model_copy(update={"cpu_seconds": None})


_BROKEN = [
    (_statuses_get_lost, "a program runs, and its exit status is told", "`docker run --rm IMAGE true` must work"),
    (_cpu_time_is_not_told, "CPU time and memory are told", "the cgroup files of containers must be readable here"),
]


@pytest.mark.parametrize(("behave", "name", "remedy"), _BROKEN)
def test_a_broken_machine_is_refused_with_each_failed_check_and_its_remedy(
    in_process: _InProcess, bash_task: str, behave: Callable[[Job], Execution], name: str, remedy: str
) -> None:
    in_process.sandbox.behave_tried = behave
    status, errors = in_process.evaluate(["exit 0"], "--out", "run", "--extract", "none", task=bash_task)
    assert status == 3
    refusal = errors[errors.index("ml-bench: ") :]
    assert [line.strip().split(":")[0] for line in refusal.splitlines()[1:-1:2]] == [name]
    assert remedy in refusal and "--skip-checks scores all the same" in refusal
    assert in_process.sandbox.run == in_process.sandbox.prepared == [] and in_process.sandbox.open == 0
    assert not (in_process.folder / "run" / "summary.json").exists()
    # Mended, the same command goes on.
    in_process.sandbox.behave_tried = by_trial
    assert in_process.evaluate(["exit 0"], "--out", "run", "--extract", "none", task=bash_task)[0] == 0
    assert [part.get("checks") for part in read_run(in_process.folder / "run")["parts"]] == [None, "passed"]


def test_who_wants_it_scores_on_a_broken_machine_and_every_record_says_so(
    in_process: _InProcess, bash_task: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(in_process.folder / "cache"))
    in_process.sandbox.behave_tried = _statuses_get_lost
    run = in_process.folder / "run"
    options = ("--out", "run", "--extract", "none")
    status, errors = in_process.evaluate(["exit 0"], *options, "--skip-checks", task=bash_task)
    assert status == 0 and "checks skipped: " in errors
    assert in_process.sandbox.trials == []
    assert [part["checks"] for part in read_run(run)["parts"]] == ["skipped"]
    assert Summary.from_json((run / "summary.json").read_bytes()).checks_skipped
    # Nobody else is to meet what was executed there.
    assert ExecutionCache().size().executions == 0
    # What was skipped stays so, whoever goes on with the run or judges it anew.
    in_process.sandbox.behave_tried = by_trial
    assert in_process.evaluate(["exit 0", "exit 1"], *options, task=bash_task)[0] == 0
    assert [part["checks"] for part in read_run(run)["parts"]] == ["skipped", "passed"]
    assert Summary.from_json((run / "summary.json").read_bytes()).checks_skipped
    monkeypatch.setattr(sys, "argv", ["ml-bench", "rejudge", "run", "--tasks", "sample", "--k", "1"])
    with pytest.raises(SystemExit):
        main()
    assert "checks skipped: " in capsys.readouterr().out


def test_a_healthy_machine_costs_two_executions_which_are_those_of_a_candidate(
    in_process: _InProcess, bash_task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    image = TaskImage(DIGEST, root="/home/lab/repos", variables={"PATH": "/env/bin:/bin"}, user="7:8")
    in_process.images = judge.Images(dict.fromkeys(in_process.images.by_task, image), {})
    options = ("--out", "run", "--extract", "none", "--limit-memory", "1g", "--limit-time", 0.5)
    status, errors = in_process.evaluate([f"exit {i}" for i in range(4)], *options, task=bash_task)
    assert status == 0 and len(in_process.sandbox.run) == 4
    assert len(in_process.sandbox.trials) == 2
    (candidate, *_) = in_process.sandbox.prepared
    for job, slot in in_process.sandbox.trials:
        assert (job.image, job.user, job.working_folder) == (DIGEST, "7:8", candidate.working_folder)
        assert job.variables == candidate.variables and job.language == "bash"
        # A second must be enough for them, whatever candidates have.
        assert (job.limits.memory_bytes, job.limits.seconds) == (2**30, 60.0)
        assert slot == Slot((0,))
    assert not Summary.from_json((in_process.folder / "run" / "summary.json").read_bytes()).checks_skipped
    assert "warning" not in errors


def test_where_nothing_is_executed_nothing_is_tried_out(
    in_process: _InProcess, bash_task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(in_process.folder / "cache"))
    options = ("--out", "run", "--extract", "auto")
    assert in_process.evaluate(["python a.py"], *options, task=bash_task)[0] == 0
    in_process.sandbox.trials.clear()
    in_process.sandbox.behave_tried = _statuses_get_lost
    # All have a result; there is no program; the execution is known.
    assert in_process.evaluate(["python a.py"], *options, "--skip-checks", task=bash_task)[0] == 0
    assert in_process.evaluate([NO_PROGRAM], task=bash_task)[0] == 0
    assert in_process.evaluate(["python a.py"], task=bash_task)[0] == 0
    assert in_process.sandbox.trials == []
    assert [part.get("checks") for part in read_run(in_process.folder / "run")["parts"]] == ["passed", None]
    assert in_process.evaluate(["python a.py", "python b.py"], task=bash_task)[0] == 3


def test_what_is_slow_but_right_is_said_and_does_not_stop_anything(in_process: _InProcess, bash_task: str) -> None:
    slow = Times(teardown=3.0)
    in_process.sandbox.behave_tried = lambda job: by_trial(job).model_copy(update={"times": slow})
    status, errors = in_process.evaluate(["exit 0"], "--extract", "none", task=bash_task)
    assert status == 0
    assert errors.count("removing it took 3.0 s; the engine is slow: see its log") == 2


def test_a_path_is_shown_as_it_is(in_process: _InProcess, bash_task: str) -> None:
    status, errors = in_process.evaluate(["exit 0"], "--out", "r[red]n[/x]:x:", "--extract", "none", task=bash_task)
    assert status == 0, errors
    assert "results, summary and settings are in r[red]n[/x]:x:\n" in errors


def test_a_results_file_that_cannot_be_written_exits_with_2(in_process: _InProcess, bash_task: str) -> None:
    assert in_process.evaluate(["exit 0"], "--out", "run", task=bash_task)[0] == 0
    (in_process.folder / "run" / "results.jsonl").unlink()
    (in_process.folder / "run" / "results.jsonl").mkdir()
    status, errors = in_process.evaluate(["exit 0"], "--out", "run", task=bash_task)
    assert status == 2
    assert "results.jsonl cannot be written" in errors and "Traceback" not in errors


def test_the_live_line_counts_environment_errors_beside_the_score() -> None:
    written = io.StringIO()
    console = Console(file=written, width=100)
    with EvaluationProgress(console, 2, "original", visible=True) as progress:
        progress.advance(result("a/1", execution=PASSING))
        progress.advance(result("a/2", execution=ERROR))
    assert written.getvalue() == "2 of 2 candidates, pass@1 so far 100.0 %, 1 environment error\n"


@pytest.mark.docker
def test_evaluate_keeps_results_goes_on_and_shows_why(tmp_path: Path, bash_task: str, sample_image: str) -> None:
    options = ["--tasks", "sample", "--k", "1,2", "--extract", "none", "--out", tmp_path / "run", "--limit-time", 20]
    first = _run(
        "evaluate", _predictions(tmp_path, {"task_id": bash_task, "output": ["exit 7"]}), *options, cwd=tmp_path
    )
    assert first.returncode == 0, first.stderr
    path = _predictions(
        tmp_path, {"task_id": bash_task, "output": ["exit 7", "exit 8"]}, {"task_id": "no/1", "output": "x"}
    )
    second = _run("evaluate", path, *options, "--json", cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    assert "1 of 2 candidates have a result" in second.stderr
    assert "predictions.jsonl:2" in second.stderr
    summary = json.loads(second.stdout)
    assert summary == json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["overall"]["candidates"] == 2
    assert len((tmp_path / "run" / "results.jsonl").read_text().splitlines()) == 2
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert all(value.startswith("sha256:") for key, value in run["identity"].items() if key.startswith("image of"))
    shown = _run("show", tmp_path / "run", bash_task, "--candidate", "1", cwd=tmp_path)
    assert "exit status 8" in shown.stdout
    assert _run("show", tmp_path / "run", "no/1", cwd=tmp_path).returncode == 2
    other = _run("evaluate", path, *options[:-1], 19, cwd=tmp_path)
    assert other.returncode == 2 and "another run" in other.stderr
    anew = _run("evaluate", path, *options[:-1], 19, "--restart", cwd=tmp_path)
    assert anew.returncode == 0, anew.stderr
    assert len(list(read_results(tmp_path / "run"))) == len(list(read_results(tmp_path / "run.1"))) == 2


@pytest.mark.docker
def test_another_repository_of_the_split_is_left_out_and_no_fault(tmp_path: Path, sample_image: str) -> None:
    rows = [{"task_id": name, "output": ["exit 0"]} for name in ("tiny-gan/1", "tiny-text/24")]
    options = ["--tasks", "sample", "--repositories", "tiny-text", "--strict-input", "--k", "1", "--json"]
    done = _run("evaluate", _predictions(tmp_path, *rows), *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["overall"]["candidates"] == 1
    assert list(summary["repositories"]) == ["tiny-text"]


@pytest.mark.docker
def test_strict_input_stops_before_anything_runs(tmp_path: Path, bash_task: str, sample_image: str) -> None:
    path = _predictions(tmp_path, {"task_id": bash_task, "output": ["exit 0"]}, {"task_id": "no/1", "output": ["x"]})
    done = _run("evaluate", path, "--tasks", "sample", "--strict-input", "--out", tmp_path / "run", cwd=tmp_path)
    assert done.returncode == 2
    assert not (tmp_path / "run" / "results.jsonl").exists()


@pytest.mark.docker
def test_an_image_that_does_not_exist_exits_with_3(tmp_path: Path, bash_task: str) -> None:
    path = _predictions(tmp_path, {"task_id": bash_task, "output": ["exit 0"]})
    done = _run("evaluate", path, "--tasks", "sample", "--image", "no/such:image", cwd=tmp_path)
    assert done.returncode == 3
    assert "no/such:image" in done.stderr and "Traceback" not in done.stderr


@pytest.fixture()
def long_run(tmp_path: Path, bash_task: str, sample_image: str) -> Iterator[subprocess.Popen[str]]:
    path = _predictions(tmp_path, {"task_id": bash_task, "output": [f"sleep 2; exit {i}" for i in range(40)]})
    options = ["--tasks", "sample", "--extract", "none", "--out", str(tmp_path / "run"), "--k", "1"]
    process = subprocess.Popen(
        [*COMMAND, "evaluate", str(path), *options],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def _wait_for_results(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        path = folder / "results.jsonl"
        if path.exists() and path.read_text().count("\n") >= count:
            return
        time.sleep(0.1)
    pytest.fail(f"{folder} has not got {count} results")


@pytest.mark.docker
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_keeps_what_is_known_and_leaves_nothing(
    times: int, long_run: subprocess.Popen[str], tmp_path: Path, docker_sandbox: DockerSandbox
) -> None:
    _wait_for_results(tmp_path / "run", 2)
    for _ in range(times):
        long_run.send_signal(signal.SIGINT)
        time.sleep(0.3)
    _, errors = long_run.communicate(timeout=30)
    assert long_run.returncode == 130, errors
    assert "the same command goes on" in errors
    assert "Traceback" not in errors
    known = list(read_results(tmp_path / "run"))
    assert 2 <= len(known) < 40
    assert all(r.execution and r.execution.outcome == "exited" for r in known)
    labels = [record["Labels"]["ml-bench.owner"] for record in list_containers(docker_sandbox.client)]
    assert not [label for label in labels if f'"pid": {long_run.pid},' in label]


@pytest.mark.docker
def test_a_killed_harness_loses_nothing_and_the_next_run_sweeps_what_it_left(
    long_run: subprocess.Popen[str], tmp_path: Path, docker_sandbox: DockerSandbox
) -> None:
    _wait_for_results(tmp_path / "run", 1)
    long_run.kill()
    long_run.communicate()
    known = len(list(read_results(tmp_path / "run")))
    left = [
        r for r in list_containers(docker_sandbox.client) if f'"pid": {long_run.pid},' in r["Labels"]["ml-bench.owner"]
    ]
    assert left
    path = _predictions(tmp_path, {"task_id": _first_task("Bash Script"), "output": ["sleep 2; exit 0"]})
    options = ["--tasks", "sample", "--extract", "none", "--out", tmp_path / "run", "--k", "1"]
    again = _run("evaluate", path, *options, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    swept = re.search(r"removed (\d+) containers", again.stderr)
    # One more may have come to be after it was killed: the engine had been asked for it.
    assert swept is not None and int(swept[1]) >= len(left)
    assert len(list(read_results(tmp_path / "run"))) >= known
    assert not [
        r for r in list_containers(docker_sandbox.client) if f'"pid": {long_run.pid},' in r["Labels"]["ml-bench.owner"]
    ]
