"""The process sandbox keeps the contract as far as a process can, and says what it cannot keep."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import ml_bench_sample
from ml_bench_metric import doctor
from ml_bench_metric.doctor import QUICK
from ml_bench_metric.sandbox import process_host, process_prepared, process_supervisor
from ml_bench_metric.sandbox.docker_engine import owner
from ml_bench_metric.sandbox.execution import Execution
from ml_bench_metric.sandbox.limits import MIB, Limits
from ml_bench_metric.sandbox.process_cgroup import find_cgroup
from ml_bench_metric.sandbox.process_prepared import FOLDER_PREFIX, OWNER_FILE
from ml_bench_metric.sandbox.process_sandbox import ALLOW_VARIABLE, ProcessSandbox, sweep
from ml_bench_metric.sandbox.process_supervisor import descendants
from ml_bench_metric.sandbox.protocol import Job, SandboxError, Slot
from ml_bench_metric.store import read_run
from tests.public_python import as_another, public_python
from tests.sandbox_contract import FOLDER, Runner, SandboxContract

IMAGE = str(ml_bench_sample.repositories())

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives candidates users and cgroups of their own")


@pytest.fixture(autouse=True, scope="module")
def _allowed() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, public_python() as python:
        patch.setenv(ALLOW_VARIABLE, "1")
        patch.setenv(process_host.PYTHON_VARIABLE, python)
        yield


@pytest.fixture(scope="module")
def sandbox(_allowed: None) -> Iterator[ProcessSandbox]:
    with ProcessSandbox(warn=lambda line: None) as made:
        yield made


@pytest.fixture(scope="module")
def run(sandbox: ProcessSandbox) -> Runner:
    return Runner(sandbox, IMAGE)


class TestProcess(SandboxContract):
    """Processes keep the contract."""


def _wait_until_gone(*paths: Path) -> None:
    end = time.monotonic() + 10
    while (left := [path for path in paths if path.exists()]) and time.monotonic() < end:
        time.sleep(0.02)
    assert left == []


@pytest.mark.parametrize("value", [None, "0", "true"])
def test_nothing_runs_before_somebody_has_allowed_it(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ALLOW_VARIABLE)
    if value is not None:
        monkeypatch.setenv(ALLOW_VARIABLE, value)
    with pytest.raises(SandboxError, match=f"^the process sandbox does not stop .* set {ALLOW_VARIABLE}=1 .*$"):
        ProcessSandbox()


def test_it_says_plainly_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with ProcessSandbox():
        pass
    warning = capsys.readouterr().err.splitlines()[0]
    assert warning.startswith("warning: candidates run as processes of this machine, not in containers")


def test_every_word_of_the_environment_is_ours_or_the_tasks(run: Runner) -> None:
    execution = run("env | cut -d= -f1 | sort", variables={"MODEL": "x"})
    # The last three are bash's own.
    assert execution.stdout.head.split() == ["HOME", "LANG", "MODEL", "PATH", "PWD", "SHLVL", "TMPDIR", "_"]


def test_python_is_the_one_with_the_packages_by_each_of_its_names(run: Runner) -> None:
    for program in ("python -c 'import numpy'", "python3 -c 'import numpy'"):
        assert run(program).status == 0
    assert run("import numpy", "python").status == 0


def test_home_and_temporary_files_are_its_own_and_gone_behind_it(run: Runner) -> None:
    execution = run("cd; pwd; touch here; cd $TMPDIR; pwd; touch here; stat -c '%a %U' . ~")
    home, temporary, *_ = execution.stdout.head.split()
    assert Path(home).parent == Path(temporary).parent
    assert FOLDER_PREFIX in home
    _wait_until_gone(Path(home).parent)


def test_the_repository_itself_is_out_of_reach_of_a_change(run: Runner) -> None:
    before = (Path(IMAGE) / "tiny-gan" / "README.md").read_bytes()
    assert run("echo changed > README.md; rm train.py").status == 0
    assert (Path(IMAGE) / "tiny-gan" / "README.md").read_bytes() == before
    assert run("test -e train.py && ! grep -x changed README.md").status == 0


@as_root
def test_a_candidate_is_a_user_whom_nobody_else_is(run: Runner) -> None:
    program = "id -u; id -G; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status | tr -s '\t' ' '"
    first, second = (run(program).stdout.head.splitlines() for _ in range(2))
    assert first[2:] == ["CapEff: 0000000000000000", "CapBnd: 0000000000000000", "NoNewPrivs: 1"]
    assert first[0] == first[1] != second[0]
    assert int(first[0]) > 65535


@as_root
def test_another_candidates_folder_cannot_be_entered(run: Runner) -> None:
    prepared = run.sandbox.prepare(run.job("sleep 60"))
    try:
        folder = prepared._folder  # type: ignore[attr-defined]
        program = f"ls {folder}/workspace || ls {folder}/home || ls {folder}/tmp || ls {folder} || touch {folder}/x"
        assert run(program).status not in (0, None)
    finally:
        prepared.discard()


@as_root
def test_what_it_leaves_in_places_open_to_all_is_removed(run: Runner) -> None:
    names = [Path(place) / f"ml-bench-left-{os.getpid()}" for place in ("/tmp", "/var/tmp", "/dev/shm")]
    program = " ".join(f"mkdir -p {name}/deep && chmod 0 {name} || exit 1;" for name in names)
    assert run(program + "python -c 'import ctypes; ctypes.CDLL(None).shmget(0, 4096, 0o1600)'").status == 0
    _wait_until_gone(*names)
    rows = Path("/proc/sysvipc/shm").read_text(encoding="ascii").splitlines()[1:]
    assert [row for row in rows if int(row.split()[7]) >= process_host.own_uid(0)] == []


@as_root
def test_the_cpus_of_its_slot_cannot_be_left(run: Runner) -> None:
    execution = run.sandbox.prepare(run.job("taskset -pc 0-1 $$ > /dev/null 2>&1; nproc"), Slot((0,))).run()
    assert execution.stdout.head == "1\n"


@as_root
def test_what_is_written_elsewhere_counts_as_disk(run: Runner) -> None:
    place = f"/var/tmp/ml-bench-left-{os.getpid()}"
    program = f"mkdir {place}; for i in 1 2 3 4 5 6; do head -c 20000000 /dev/zero > {place}/$i; done; sleep 8"
    assert run(program, disk_bytes=64 * MIB).outcome == "disk_full"
    _wait_until_gone(Path(place))


@pytest.mark.parametrize("how", ["", "setsid ", "nohup "])
def test_a_daemon_that_was_forked_twice_is_gone_at_the_end(how: str, run: Runner) -> None:
    execution = run(f"({how}sleep 1234.5 < /dev/null > /dev/null 2>&1 & echo $!) ; exit 0")
    assert (execution.outcome, execution.status) == ("exited", 0)
    assert not Path(f"/proc/{execution.stdout.head.strip()}").exists()


def test_a_daemon_is_gone_at_the_time_limit_too(run: Runner) -> None:
    execution = run("(setsid sleep 1234.5 & echo $!); sleep 60", seconds=1)
    assert execution.outcome == "still_running"
    assert not Path(f"/proc/{execution.stdout.head.strip()}").exists()


def test_a_supervisor_that_is_killed_is_an_environment_error_and_nothing_is_left(sandbox: ProcessSandbox) -> None:
    prepared = sandbox.prepare(Job("sleep 1234.5", "bash", IMAGE, FOLDER, Limits(seconds=30)))
    candidate = int(prepared._events["ready"])
    os.kill(prepared._supervisor.pid, signal.SIGKILL)
    execution = prepared.run()
    assert execution.outcome == "environment_error"
    assert "has ended" in execution.reason
    _wait_until_gone(prepared._folder, Path(f"/proc/{candidate}"))


def test_a_folder_that_changes_during_a_run_is_the_environments_fault(tmp_path: Path, sandbox: ProcessSandbox) -> None:
    folder = tmp_path / "repositories"
    shutil.copytree(IMAGE, folder)
    digest = sandbox.image_digest(str(folder))
    job = Job("true", "bash", digest, FOLDER, Limits())
    assert sandbox.prepare(job).run().image == digest
    (folder / "tiny-gan" / "README.md").write_text("other", encoding="utf-8")
    with pytest.raises(SandboxError, match="has changed since"):
        sandbox.prepare(job)
    with ProcessSandbox(warn=lambda line: None) as other:
        assert other.image_digest(str(folder)) != digest


def test_a_digest_tells_folders_apart_and_not_by_where_they_are(tmp_path: Path, sandbox: ProcessSandbox) -> None:
    shutil.copytree(IMAGE, tmp_path / "copy", symlinks=True)
    assert sandbox.image_digest(str(tmp_path / "copy")) == sandbox.image_digest(IMAGE)


def test_a_missing_image_says_what_to_give(sandbox: ProcessSandbox) -> None:
    with pytest.raises(SandboxError, match="is no folder; give one that has the repositories"):
        sandbox.image_digest("ml-bench/sample:latest")


def test_a_working_folder_that_leads_out_of_the_copy_is_refused(tmp_path: Path, sandbox: ProcessSandbox) -> None:
    (tmp_path / "image" / "tiny").mkdir(parents=True)
    (tmp_path / "image" / "tiny" / "out").symlink_to("/etc")
    for folder in ("/workspace/tiny/out", "/workspace/../etc", "/etc", "/workspace"):
        job = Job("true", "bash", str(tmp_path / "image"), folder, Limits())
        with pytest.raises(SandboxError, match="cannot run a candidate"):
            sandbox.prepare(job)


def test_a_gpu_is_refused_with_the_way_out(sandbox: ProcessSandbox) -> None:
    with pytest.raises(SandboxError, match="run without --gpus"):
        sandbox.prepare(Job("true", "bash", IMAGE, FOLDER, Limits(gpus=1)))


def test_a_python_that_candidates_cannot_execute_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(process_host.PYTHON_VARIABLE, "/nonexistent/python")
    with pytest.raises(SandboxError, match=f"cannot execute /nonexistent/python.*{process_host.PYTHON_VARIABLE}"):
        ProcessSandbox(warn=lambda line: None)


@pytest.mark.parametrize("program", ["sleep 60", "sleep 2.5; exit 1", "sleep 2.5"])
def test_a_limit_noticed_far_too_late_is_the_environments_fault(
    program: str, run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = run.sandbox.prepare(run.job(program, seconds=1))
    read, calls = prepared._read, iter(range(1_000_000))  # type: ignore[attr-defined]

    def held_up(seconds: float) -> None:
        if next(calls) == 0:
            time.sleep(4)
        read(seconds)

    monkeypatch.setattr(prepared, "_read", held_up)
    execution = prepared.run()
    assert execution.outcome == "environment_error"
    assert "held up" in execution.reason


def test_a_candidate_that_failed_while_the_harness_was_held_up_has_failed(
    run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = run.sandbox.prepare(run.job("sleep 0.5; echo Traceback; exit 1", seconds=2))
    read, calls = prepared._read, iter(range(1_000_000))  # type: ignore[attr-defined]

    def held_up(seconds: float) -> None:
        if next(calls) == 0:
            time.sleep(3.5)
        read(seconds)

    monkeypatch.setattr(prepared, "_read", held_up)
    execution = prepared.run()
    assert (execution.outcome, execution.status) == ("exited", 1)
    assert execution.stdout.head == "Traceback\n"


def test_a_number_that_has_changed_hands_is_never_signalled() -> None:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        process_supervisor._signal([(stranger.pid, "1")], signal.SIGKILL)
        with pytest.raises(subprocess.TimeoutExpired):
            stranger.wait(0.3)
        process_supervisor._signal([(stranger.pid, descendants(os.getpid())[stranger.pid])], signal.SIGKILL)
        assert stranger.wait(10) == -signal.SIGKILL


def test_a_harness_that_is_killed_leaves_no_process_and_the_next_one_sweeps_its_folder() -> None:
    program = (
        "from ml_bench_metric.sandbox.process_sandbox import ProcessSandbox\n"
        "from ml_bench_metric.sandbox.protocol import Job\nfrom ml_bench_metric.sandbox.limits import Limits\n"
        f"prepared = ProcessSandbox().prepare(Job('sleep 1234.5', 'bash', {IMAGE!r}, {FOLDER!r}, Limits(seconds=60)))\n"
        "print(prepared._folder, prepared._supervisor.pid, flush=True)\nprepared.run()"
    )
    # A place of its own, so that nobody else sweeps it; pytest's is closed to others.
    place = Path(f"/var/tmp/ml-bench-test-{os.getpid()}")
    place.mkdir()
    try:
        harness = subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "TMPDIR": str(place)},
        )
        assert harness.stdout is not None
        with harness.stdout:
            folder, supervisor = harness.stdout.readline().split()
            end = time.monotonic() + 10
            while len(descendants(int(supervisor))) < 3 and time.monotonic() < end:
                time.sleep(0.02)
            alive = [Path(f"/proc/{pid}") for pid in descendants(int(supervisor))]
            assert len(alive) >= 3
            assert sweep(place) == 0
            harness.kill()
            harness.wait()
        _wait_until_gone(*alive, Path(f"/proc/{supervisor}"))
        assert sweep(place) == 1
        assert not Path(folder).exists()
        assert find_cgroup(Path(folder).name).folders == ()
    finally:
        shutil.rmtree(place)


def test_sweeping_takes_no_folder_of_somebody_who_lives_or_is_unknown(tmp_path: Path) -> None:
    dead = owner().replace('"started": "', '"started": "1')
    for name, label in {"dead": dead, "alive": owner(), "unknown": "{}"}.items():
        (tmp_path / f"{FOLDER_PREFIX}{name}").mkdir()
        (tmp_path / f"{FOLDER_PREFIX}{name}" / OWNER_FILE).write_text(label, encoding="utf-8")
    (tmp_path / f"{FOLDER_PREFIX}empty").mkdir()
    assert sweep(tmp_path) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{FOLDER_PREFIX}{name}" for name in ("alive", "empty", "unknown")
    ]


def test_nothing_is_left_behind_by_what_never_ran(run: Runner) -> None:
    with ProcessSandbox(warn=lambda line: None) as sandbox:
        made = [sandbox.prepare(run.job("sleep 60")) for _ in range(2)]
        made[0].discard()
        made[0].discard()
    for prepared in made:
        assert not prepared._folder.exists()
        assert prepared._supervisor.poll() is not None
        assert not any(folder.exists() for folder in prepared._cgroup.folders)


_PLAIN = """
import json, sys
from ml_bench_metric.sandbox.process_sandbox import ProcessSandbox
from ml_bench_metric.sandbox.protocol import Job
from ml_bench_metric.sandbox.limits import Limits
program, language, image, folder, limits = json.loads(sys.argv[1])
with ProcessSandbox(warn=lambda line: None) as sandbox:
    prepared = sandbox.prepare(Job(program, language, image, folder, Limits(**limits)))
    folder = prepared._folder
    print(prepared.run().model_dump_json())
    assert not sandbox.own_users
assert not folder.exists()
"""


class TestWithoutRoot:
    """What an ordinary user has: no user and no cgroup for each candidate."""

    @staticmethod
    def plain(program: str, language: str = "bash", **limits: float) -> Execution:
        chosen = {"seconds": 10, "memory_bytes": 256 * MIB, **limits}
        job = json.dumps([program, language, IMAGE, FOLDER, chosen])
        done = as_another(os.environ[process_host.PYTHON_VARIABLE], _PLAIN, job)
        assert done.returncode == 0, done.stderr
        return Execution.model_validate_json(done.stdout)

    def test_exits_and_signals_are_told(self) -> None:
        assert self.plain("exit 3").status == 3
        assert self.plain("kill -SEGV $$").status == 128 + 11

    def test_facts_come_from_the_kernels_accounts(self) -> None:
        execution = self.plain("x = bytearray(64 * 2**20)\nfor _ in range(10**7): pass", "python")
        assert execution.cpu_seconds is not None and 0.1 < execution.cpu_seconds < 10
        assert execution.peak_memory_bytes is not None and execution.peak_memory_bytes > 64 * MIB

    @pytest.mark.parametrize("trial", QUICK, ids=lambda trial: trial.name)
    def test_what_is_tried_out_before_anything_is_scored_holds(self, trial: doctor._Trial) -> None:
        assert trial.is_right(self.plain(trial.program))

    def test_one_process_cannot_have_more_than_the_memory(self) -> None:
        execution = self.plain("x = bytearray(10**9)", "python")
        assert (execution.outcome, execution.status) == ("exited", 1)
        assert "MemoryError" in execution.stderr.head

    def test_many_processes_together_are_out_of_memory(self) -> None:
        program = (
            "import os, time\n"
            "for _ in range(4):\n    if os.fork() == 0: break\n"
            "x = b'x' * (100 * 2**20)\ntime.sleep(30)"
        )
        execution = self.plain(program, "python", seconds=20)
        assert (execution.outcome, execution.status) == ("out_of_memory", None)

    def test_a_fork_bomb_is_limited_and_gone_at_the_limit(self) -> None:
        program = (
            "import os, time\nprint(os.getppid(), flush=True)\n"
            "while True:\n    try:\n        os.fork()\n    except OSError: time.sleep(0.001)\n"
        )
        execution = self.plain(program, "python", seconds=1, processes=64)
        assert execution.outcome == "still_running"
        assert execution.times.teardown < process_prepared._KILL_SECONDS
        assert execution.cpu_seconds is not None
        assert not Path(f"/proc/{execution.stdout.head.split()[0]}").exists()

    def test_a_daemon_is_gone_and_folders_that_were_closed_are_removed(self) -> None:
        execution = self.plain("mkdir -p closed/deep && chmod 0 closed; (setsid sleep 1234.5 & echo $!)")
        assert (execution.outcome, execution.status) == ("exited", 0)
        assert not Path(f"/proc/{execution.stdout.head.strip()}").exists()


def test_a_root_that_cannot_give_users_never_runs_candidates_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(process_host, "_FIRST_UID", 2**32 - 2**20)
    with pytest.raises(SandboxError, match="run it as an ordinary user"):
        ProcessSandbox(warn=lambda line: None)


def test_the_command_line_runs_processes_and_refuses_without_permission(tmp_path: Path) -> None:
    predictions = tmp_path / "predictions.jsonl"
    predictions.write_text('{"task_id": "tiny-gan/1", "output": ["exit 3", "exit 0"]}\n', encoding="utf-8")
    command = [sys.executable, "-c", "from ml_bench_cli.main import main; main()", "evaluate", str(predictions)]
    options = ["--tasks", "sample", "--sandbox", "process", "--limit-memory", "256m", "--no-cache", "--oversubscribe"]

    def evaluate(**environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *options, "--workers", "1", "--out", str(tmp_path / "run"), "--extract", "none"],
            env={**os.environ, "COLUMNS": "200", **environment},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    refused = evaluate(**{ALLOW_VARIABLE: "0"})
    assert refused.returncode != 0
    assert refused.stderr.splitlines()[-1].startswith("ml-bench: the process sandbox does not stop hostile programs")
    done = evaluate()
    assert done.returncode == 0, done.stderr
    assert "warning: candidates run as processes of this machine" in done.stderr
    results = (tmp_path / "run" / "results.jsonl").read_text(encoding="utf-8")
    assert results.count('"exited"') == 2
    # Before, it was found fit, as containers are.
    assert [part.get("checks") for part in read_run(tmp_path / "run")["parts"]] == ["passed"]
    assert "environment_error" not in results
