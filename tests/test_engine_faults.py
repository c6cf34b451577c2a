"""Faults of a real engine cost no verdict: each ends in an environment error or an early end, and the run goes on."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ml_bench_metric import evaluation as evaluation_module
from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.evaluation import Settings
from ml_bench_metric.judge import Images, Judgement, identity
from ml_bench_metric.predictions import Prediction, Predictions
from ml_bench_metric.results import Result
from ml_bench_metric.sandbox import docker_engine, docker_sandbox
from ml_bench_metric.sandbox.docker_engine import OWNER_LABEL, owner
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.docker_time import engine_seconds
from ml_bench_metric.sandbox.execution import Execution
from ml_bench_metric.sandbox.limits import MIB, Limits
from ml_bench_metric.sandbox.protocol import Job, SandboxError, Slot
from ml_bench_metric.store import RunFolder, read_results
from ml_bench_metric.workers import Workers
from tests.result_builders import task_set
from tests.sandbox_contract import FOLDER
from tests.second_engine import Gate, SecondEngine, missing, second_engine, skip

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = pytest.mark.docker

TASKS = task_set("tiny-gan/1", "tiny-gan/2")
PROGRAMS = tuple(
    f": train.sh ; {rest}"  # of the type that the tasks ask for
    for rest in ("sleep 0.6; exit 0", "sleep 0.6; exit 3", "sleep 60", "trap 'exit 0' TERM; sleep 0.7 & wait; exit 4")
)
PREDICTIONS = Predictions(
    items={task.task_id: Prediction(task_id=task.task_id, candidates=PROGRAMS, where="") for task in TASKS.tasks},
    problems=[],
)
SMALL = Limits(memory_bytes=128 * MIB)
SETTINGS = Settings(extract="none", seconds=1.5, limits=SMALL)
WORKERS = Workers((Slot((0,)), Slot((1,))), "")

DISK_BYTES = 700 * MIB
"""The sample's image takes half of it."""

Disturb = Callable[[], object]


@pytest.fixture(scope="module")
def archive(sample_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if reason := missing():
        skip(reason)
    path = tmp_path_factory.mktemp("image") / "image.tar"
    subprocess.run(["docker", "save", "--output", str(path), sample_image], check=True)
    yield path
    path.unlink()


@pytest.fixture(scope="module")
def engine(archive: Path) -> Iterator[SecondEngine]:
    with second_engine() as engine:
        engine.load(archive)
        yield engine


@pytest.fixture(scope="module")
def digest(engine: SecondEngine) -> str:
    return engine.command("image", "ls", "--quiet", "--no-trunc").split()[0]


@pytest.fixture(autouse=True)
def _short_pause_before_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation_module, "_RETRY_SECONDS", 0.2)


@pytest.fixture(scope="module")
def undisturbed(engine: SecondEngine, digest: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    return judge(engine.client(), digest, tmp_path_factory.mktemp("undisturbed") / "run")


def judge(
    client: DockerClient, digest: str, folder: Path, disturb: Disturb | None = None, *, retry_errors: bool = False
) -> str:
    """Go on with a run, disturb it when the first result is known, and return its scores as JSON."""
    images = Images({task.task_id: TaskImage(digest) for task in TASKS.tasks}, {})
    with (
        DockerSandbox(client) as sandbox,
        RunFolder(folder, identity(SETTINGS, TASKS, images), {}) as kept,
    ):
        judgement = Judgement(PREDICTIONS, TASKS, SETTINGS, kept)
        todo = judgement.todo(retry_errors=retry_errors)
        for number, _ in enumerate(judgement.execute(todo, sandbox, images, WORKERS)):
            if number == 0 and disturb is not None:
                disturb()
        return scores(judgement.summary(ks=(1, 2, 4), rule="original", estimator="unbiased").to_json())


def scores(summary: str) -> str:
    """Return a summary without the times that it took."""
    return json.dumps({name: value for name, value in json.loads(summary).items() if name != "times"}, sort_keys=True)


def prepare(sandbox: DockerSandbox, digest: str, program: str, **limits: Any) -> docker_sandbox.DockerPrepared:
    chosen = {"seconds": 10, "memory_bytes": 128 * MIB, **limits}
    return sandbox.prepare(Job(program, "bash", digest, FOLDER, Limits(**chosen)))


def run_disturbed(prepared: docker_sandbox.DockerPrepared, disturb: Disturb, after: float = 0.5) -> Execution:
    timer = threading.Timer(after, disturb)
    timer.start()
    try:
        return prepared.run()
    finally:
        timer.join()


def outcomes(results: Iterator[Result]) -> list[str]:
    return [result.execution.outcome for result in results if result.execution]


def test_the_undisturbed_run_has_verdicts_of_every_kind(undisturbed: str) -> None:
    overall = json.loads(undisturbed)["overall"]
    assert overall["outcomes"] | {"exited": 6, "still_running": 2} == overall["outcomes"]
    assert overall["scores"]["original"]["passed"] == 4


# ---------------------------------------------------------------- the engine goes


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_engine_that_goes_ends_the_run_and_the_same_run_goes_on(
    number: signal.Signals, engine: SecondEngine, digest: str, undisturbed: str, tmp_path: Path
) -> None:
    try:
        with pytest.raises(SandboxError):
            judge(engine.client(), digest, tmp_path / "run", lambda: engine.stop(number))
    finally:
        engine.start()
    known = outcomes(read_results(tmp_path / "run"))
    assert 1 <= len(known) < 8 and "environment_error" not in known
    assert judge(engine.client(), digest, tmp_path / "run") == undisturbed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_engine_that_restarts_behind_a_socket_that_waits_for_it_costs_no_verdict(
    number: signal.Signals, engine: SecondEngine, digest: str, undisturbed: str, tmp_path: Path
) -> None:
    import docker

    gate = Gate(engine)
    try:

        def restart() -> None:
            engine.stop(number)
            engine.start()

        client = docker.DockerClient(base_url=gate.host, timeout=30)
        judge(client, digest, tmp_path / "run", restart)
    finally:
        gate.close()
    # While it shuts down it answers, and makes no container: that is an environment error, and no verdict.
    assert judge(engine.client(), digest, tmp_path / "run", retry_errors=True) == undisturbed


def test_a_socket_that_hangs_is_reported_and_ends_the_run(
    engine: SecondEngine, digest: str, undisturbed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_engine, "CALL_SECONDS", 1)
    monkeypatch.setattr(docker_sandbox, "_START_SECONDS", 1.0)
    monkeypatch.setattr(evaluation_module, "_PREPARE_PATIENCE", 0.3)
    monkeypatch.setattr(evaluation_module, "_RUN_PATIENCE", 0.3)
    gate = Gate(engine)
    monkeypatch.setenv("DOCKER_HOST", gate.host)
    images = Images({task.task_id: TaskImage(digest) for task in TASKS.tasks}, {})
    said: list[str] = []
    began = 0.0
    try:
        with RunFolder(tmp_path / "run", identity(SETTINGS, TASKS, images), {}) as kept:
            judgement = Judgement(PREDICTIONS, TASKS, SETTINGS, kept)
            with DockerSandbox() as sandbox, pytest.raises(SandboxError, match="gives no information"):
                for _ in judgement.execute(judgement.todo(), sandbox, images, WORKERS, report=said.append):
                    began = began or time.monotonic()
                    gate.shut()
        assert time.monotonic() - began < 20
        assert any("the engine may have stalled" in line for line in said)
    finally:
        gate.close()
    assert "environment_error" not in outcomes(read_results(tmp_path / "run"))
    assert judge(engine.client(), digest, tmp_path / "run") == undisturbed


# ---------------------------------------------------------------- somebody else's hand


@pytest.mark.parametrize(
    "command", [("kill",), ("kill", "--signal", "TERM"), ("stop",), ("restart",), ("rm", "--force")], ids=" ".join
)
@pytest.mark.parametrize("program", ["sleep 60", "trap 'exit 0' TERM; sleep 60 & wait"])
def test_a_container_that_somebody_else_ends_is_an_environment_error(
    command: tuple[str, ...], program: str, engine: SecondEngine, digest: str
) -> None:
    with DockerSandbox(engine.client()) as sandbox:
        prepared = prepare(sandbox, digest, program)

        def end() -> None:
            # `docker restart` can meet that the sandbox has removed what it wants to start again.
            with contextlib.suppress(subprocess.CalledProcessError):
                engine.command(*command, prepared._container)

        execution = run_disturbed(prepared, end)
    assert execution.outcome == "environment_error", execution
    assert execution.times.run < 8


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("program", ["sleep 60", "sleep 1; exit 1"])
def test_a_container_that_somebody_else_pauses_is_an_environment_error(
    again: bool, program: str, engine: SecondEngine, digest: str
) -> None:
    with DockerSandbox(engine.client()) as sandbox:
        prepared = prepare(sandbox, digest, program, seconds=2)

        def pause() -> None:
            engine.command("pause", prepared._container)
            if again:
                engine.command("unpause", prepared._container)

        execution = run_disturbed(prepared, pause)
    assert execution.outcome == "environment_error", execution
    assert "paused" in execution.reason


def test_what_a_candidate_does_to_itself_is_its_own(engine: SecondEngine, digest: str) -> None:
    with DockerSandbox(engine.client()) as sandbox:
        ended = {
            program: prepare(sandbox, digest, program).run()
            for program in ("kill -9 $$", "kill -TERM $$", "exit 137", "kill -9 -1")
        }
    assert {program: execution.outcome for program, execution in ended.items()} == dict.fromkeys(ended, "killed")


def test_an_image_that_is_removed_costs_no_verdict(
    engine: SecondEngine, digest: str, undisturbed: str, archive: Path, tmp_path: Path
) -> None:
    def remove() -> None:
        # The engine keeps an image whose containers run: until none does, the next candidate's may have been made.
        for _ in range(50):
            if left := engine.command("ps", "--all", "--quiet").split():
                subprocess.run(["docker", "--host", engine.host, "rm", "--force", *left], capture_output=True)
            if not subprocess.run(["docker", "--host", engine.host, "rmi", "--force", digest]).returncode:
                return
        pytest.fail("the image cannot be removed")

    try:
        judge(engine.client(), digest, tmp_path / "run", remove)
    finally:
        engine.load(archive)
    stored = [result.execution for result in read_results(tmp_path / "run") if result.execution]
    failed = [execution.reason for execution in stored if execution.outcome == "environment_error"]
    # How many there are left when it can be removed is chance.
    assert failed
    assert all("ml-bench images build" in reason for reason in failed)
    assert judge(engine.client(), digest, tmp_path / "run", retry_errors=True) == undisturbed


# ---------------------------------------------------------------- a full disk


def test_a_full_disk_of_the_engine_costs_no_verdict(archive: Path) -> None:
    with second_engine(DISK_BYTES) as engine:
        engine.load(archive)
        digest = engine.command("image", "ls", "--quiet", "--no-trunc").split()[0]
        writes = "head -c 600000000 /dev/zero > part"
        with DockerSandbox(engine.client()) as sandbox:
            assert prepare(sandbox, digest, "head -c 1000000 /dev/zero > part").run().status == 0
        for program in (writes, f"{writes} || {{ sleep 0.3; rm part; sleep 0.3; exit 1; }}", f"{writes}; sleep 60"):
            # One for each: it has removed its container, and made room again, when it is closed.
            with DockerSandbox(engine.client()) as sandbox:
                execution = prepare(sandbox, digest, program, seconds=4).run()
            assert execution.outcome == "environment_error", (program, execution)
            assert "the disk of the engine was full" in execution.reason
        with DockerSandbox(engine.client()) as sandbox:
            waiting = prepare(sandbox, digest, "echo x > file || exit 1; head -c 9000000 /dev/zero > part")
            filler = engine.data / "filler"
            fill(filler)
            assert waiting.run().outcome == "environment_error"
        # Its removal has made a little room.
        fill(filler)
        with DockerSandbox(engine.client()) as sandbox:
            judged = _one(sandbox, digest, "exit 0")
            assert judged.execution is not None
            assert judged.execution.outcome == "environment_error", judged.execution
            assert "no space left" in judged.execution.reason
            filler.unlink()
            judged = _one(sandbox, digest, "exit 0")
            assert judged.execution is not None and judged.execution.status == 0, judged.execution


def fill(path: Path) -> None:
    """Write a file until the disk is full, also with what deleted files give back a little later."""
    for _ in range(20):
        for size in (MIB, 4096):
            with contextlib.suppress(OSError), path.open("ab", buffering=0) as file:
                while True:
                    file.write(bytes(size))
        subprocess.run(["sync", "--file-system", str(path)], check=True)
        if not os.statvfs(path).f_bavail:
            return
    pytest.fail("the disk cannot be filled")


def _one(sandbox: DockerSandbox, digest: str, program: str) -> Result:
    candidate = evaluation_module.Candidate(TASKS.tasks[0], 0, program)
    (judged,) = evaluation_module.Evaluation(sandbox, SETTINGS, lambda task: TaskImage(digest), WORKERS).run(
        [candidate]
    )
    return judged


# ---------------------------------------------------------------- clocks


@pytest.mark.parametrize("days", [1, -1])
def test_a_jump_of_this_machines_clock_changes_nothing(
    days: int, engine: SecondEngine, digest: str, undisturbed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = time.time, itertools.count()
    monkeypatch.setattr(time, "time", lambda: real() + (days * 86400 if next(calls) % 2 else 0))
    assert judge(engine.client(), digest, tmp_path / "run") == undisturbed


@pytest.mark.parametrize("days", [1, -1])
def test_a_jump_of_the_engines_clock_during_a_candidate_that_is_seen_late_is_an_environment_error(
    days: int, engine: SecondEngine, digest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = engine_seconds, itertools.count()
    # When it ended is asked for first, when it began second.
    monkeypatch.setattr(
        docker_sandbox, "engine_seconds", lambda text: real(text) + (0 if next(calls) % 2 else days * 86400)
    )
    with DockerSandbox(engine.client()) as sandbox:
        prepared = prepare(sandbox, digest, "sleep 0.3; exit 1", seconds=1)
        receive, turns = prepared._receive, itertools.count()

        def held_up(seconds: float) -> bytes | None:
            if next(turns) == 0:
                time.sleep(1.3)
            return receive(seconds)

        monkeypatch.setattr(prepared, "_receive", held_up)
        execution = prepared.run()
    assert execution.outcome == "environment_error", execution
    assert "clock" in execution.reason


# ---------------------------------------------------------------- the harness goes


def test_a_killed_harness_is_gone_on_with_to_the_same_scores_and_only_its_containers_are_swept(
    engine: SecondEngine, digest: str, tmp_path: Path
) -> None:
    predictions = tmp_path / "predictions.jsonl"
    predictions.write_text(json.dumps({"task_id": "tiny-gan/1", "output": PROGRAMS}) + "\n", encoding="utf-8")

    def command(out: str) -> list[str]:
        arguments = ["evaluate", str(predictions), "--tasks", "sample", "--extract", "none", "--limit-time", "2"]
        arguments += ["--k", "1,2", "--no-cache", "--image", digest, "--out", str(tmp_path / out)]
        return [sys.executable, "-c", "from ml_bench_cli.main import main; main()", *arguments]

    environment = {**os.environ, "DOCKER_HOST": engine.host}
    options: dict[str, Any] = {"env": environment, "cwd": Path.cwd(), "text": True}
    subprocess.run(command("whole"), check=True, capture_output=True, **options)
    harness = subprocess.Popen(command("run"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    results = tmp_path / "run" / "results.jsonl"
    end = time.monotonic() + 30
    while not (results.exists() and results.read_text().count("\n")):
        assert harness.poll() is None and time.monotonic() < end
        time.sleep(0.02)
    harness.kill()
    harness.wait()
    assert results.read_text().count("\n") < len(PROGRAMS)
    api = engine.client().api
    ours = {container["Id"] for container in api.containers(all=True)}
    assert ours
    strangers = {
        api.create_container(digest, ["true"], labels=labels)["Id"] for labels in ({OWNER_LABEL: owner()}, {"a": "b"})
    }
    again = subprocess.run(command("run"), check=True, capture_output=True, **options)
    assert "removed " in again.stderr
    assert {container["Id"] for container in api.containers(all=True)} == strangers
    for container in strangers:
        api.remove_container(container)
    summaries = [scores((tmp_path / out / "summary.json").read_text()) for out in ("whole", "run")]
    assert summaries[0] == summaries[1]
