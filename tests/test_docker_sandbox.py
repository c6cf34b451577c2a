"""What a candidate gets, and what is said of it, in real containers."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.evaluation import Candidate, Evaluation, Settings
from ml_bench_metric.sandbox.docker_engine import OWNER_LABEL, is_dead, list_containers, owner, remove_container, sweep
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.execution import Execution
from ml_bench_metric.sandbox.limits import MIB, Limits
from ml_bench_metric.sandbox.protocol import Job, SandboxError, Slot
from ml_bench_metric.tasks import Language
from ml_bench_metric.workers import Workers
from tests.result_builders import task

pytestmark = pytest.mark.docker

FOLDER = "/workspace/tiny-gan"


class Runner:
    """Runs programs in the sample's image under small limits."""

    def __init__(self, sandbox: DockerSandbox, image: str) -> None:
        self.sandbox, self.image = sandbox, image

    def job(
        self,
        program: str,
        language: Language = "bash",
        *,
        folder: str = FOLDER,
        variables: Mapping[str, str] | None = None,
        **limits: Any,
    ) -> Job:
        chosen: dict[str, Any] = {"seconds": 10, "memory_bytes": 256 * MIB, **limits}
        return Job(program, language, self.image, folder, Limits(**chosen), variables or {})

    def __call__(self, program: str, language: Language = "bash", **options: Any) -> Execution:
        return self.sandbox.prepare(self.job(program, language, **options)).run()


@pytest.fixture(scope="module")
def run(docker_sandbox: DockerSandbox, sample_image: str) -> Runner:
    return Runner(docker_sandbox, sample_image)


def test_an_exit_status_is_a_fact_and_output_is_kept_apart(run: Runner) -> None:
    execution = run("echo out; echo err >&2; exit 3")
    assert (execution.outcome, execution.status) == ("exited", 3)
    assert (execution.stdout.head, execution.stderr.head) == ("out\n", "err\n")
    assert execution.image.startswith("sha256:")


def test_python_runs_in_the_tasks_folder_and_imports_from_it(run: Runner) -> None:
    execution = run("import os, sys\nprint(os.getcwd(), sys.path[0], __name__)", "python")
    assert execution.stdout.head == f"{FOLDER} {FOLDER} __main__\n"


def test_what_the_image_has_for_tmp_is_there_and_is_the_candidates_own(run: Runner) -> None:
    job = replace(run.job("diff -r . /tmp | grep -v 'Only in' ; rm -r /tmp/* && ls -A /tmp"), tmp_folder=FOLDER)
    execution = run.sandbox.prepare(job).run()
    assert (execution.status, execution.stderr.head) == (0, "")
    assert execution.stdout.head.strip() in ("", "ml_bench_candidate.sh")
    nothing = replace(run.job("ls -A /tmp"), tmp_folder="/opt/assets/tmp/nothing/1")
    assert run.sandbox.prepare(nothing).run().stdout.head.strip() == "ml_bench_candidate.sh"


def test_standard_input_is_empty(run: Runner) -> None:
    assert run("wc -c").stdout.head.strip() == "0"


def test_the_tasks_variables_are_there_and_the_hosts_are_not(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "open sesame")
    execution = run("env", variables={"MODEL_DIR": "/models/tiny model"})
    assert "MODEL_DIR=/models/tiny model\n" in execution.stdout.head
    assert "SECRET_OF_THE_HOST" not in execution.stdout.head


def test_a_busy_candidate_is_still_running_and_its_cpu_time_tells_it_from_a_sleeper(run: Runner) -> None:
    busy, asleep = run("while :; do :; done", seconds=1.5), run("sleep 60", seconds=1.5)
    assert (busy.outcome, busy.status) == (asleep.outcome, asleep.status) == ("still_running", None)
    assert busy.cpu_seconds is not None and busy.ready_seconds is not None
    # Whatever else this machine does, the busy one was ready to run all the time.
    assert 1.0 < busy.ready_seconds < 2.5
    assert 0 < busy.cpu_seconds <= busy.ready_seconds + 0.1
    assert asleep.cpu_seconds is not None and asleep.ready_seconds is not None
    assert asleep.cpu_seconds < 0.5 and asleep.ready_seconds < 0.75


def test_threads_that_wait_for_each_other_do_not_look_like_a_long_computation(run: Runner) -> None:
    program = (
        "import threading, time\nend = time.monotonic() + 0.3\n"
        "def spin():\n    while time.monotonic() < end: pass\n    time.sleep(60)\n"
        "for _ in range(40): threading.Thread(target=spin).start()\n"
    )
    execution = run.sandbox.prepare(run.job(program, "python", seconds=4), Slot((0,))).run()
    assert execution.outcome == "still_running"
    assert execution.ready_seconds is not None and execution.ready_seconds < 2


def test_the_time_limit_is_kept(run: Runner) -> None:
    busy = run("while :; do :; done", seconds=1.5)
    assert 1.5 <= busy.times.run < 2.5


def test_a_candidate_that_ignores_signals_ends_at_the_limit_and_is_gone_at_once(run: Runner) -> None:
    execution = run("trap '' TERM INT HUP; while :; do sleep 0.1; done", seconds=1)
    assert execution.outcome == "still_running"
    assert execution.times.teardown < 1


def test_closing_its_output_does_not_end_a_candidate_early(run: Runner) -> None:
    execution = run("exec >&- 2>&-; sleep 1; exit 4")
    assert (execution.outcome, execution.status) == ("exited", 4)
    assert execution.times.run >= 1
    assert run("exec >&- 2>&-; sleep 60", seconds=1).outcome == "still_running"


def test_a_daemon_that_holds_the_output_open_does_not_hold_the_verdict(run: Runner) -> None:
    execution = run("setsid sleep 60 & disown; exit 0")
    assert (execution.outcome, execution.status) == ("exited", 0)
    assert execution.times.run < 5


def test_memory_beyond_the_limit_is_out_of_memory_and_not_a_mere_kill(run: Runner) -> None:
    execution = run("x = bytearray(10**9)", "python")
    assert (execution.outcome, execution.status) == ("out_of_memory", 137)
    assert execution.peak_memory_bytes is not None and execution.peak_memory_bytes <= 256 * MIB


def test_a_child_that_runs_out_of_memory_counts_where_the_candidate_fails_by_it(run: Runner) -> None:
    program = (
        "import subprocess, sys\n"
        "child = subprocess.run([sys.executable, '-c', 'x = bytearray(10**9)'])\n"
        "sys.exit(child.returncode != 0)"
    )
    execution = run(program, "python")
    assert (execution.outcome, execution.status) == ("out_of_memory", 1)
    assert execution.oom_kills >= 1


def test_a_signal_is_told_from_an_exit(run: Runner) -> None:
    execution = run("kill -SEGV $$")
    assert (execution.outcome, execution.status) == ("killed", 128 + 11)


def test_killing_everything_within_reach_fails_and_nothing_else(run: Runner) -> None:
    assert run("kill -9 -1; sleep 5").outcome == "killed"
    assert run("echo fine").outcome == "exited"


def test_a_flood_of_output_is_stopped_and_kept_small(run: Runner) -> None:
    execution = run("yes", output_bytes=4 * MIB, kept_bytes=1024)
    assert execution.outcome == "output_limit"
    assert execution.stdout.bytes > 4 * MIB
    assert execution.stdout.truncated
    assert len(execution.stdout.head) + len(execution.stdout.tail) <= 1024


def test_much_output_below_the_limit_does_not_block_the_candidate(run: Runner) -> None:
    execution = run("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo end >&2; exit 7")
    assert (execution.outcome, execution.status) == ("exited", 7)
    assert execution.stdout.bytes == 20_000_001


def test_a_filled_disk_is_noticed(run: Runner) -> None:
    program = "for i in 1 2 3 4 5 6; do head -c 20000000 /dev/zero > part$i; done; sleep 5"
    assert run(program, disk_bytes=64 * MIB).outcome == "disk_full"


def test_a_folder_too_deep_to_be_measured_hides_nothing(run: Runner) -> None:
    program = (
        "import os, time\n"
        "for _ in range(40):\n    os.mkdir('d' * 200); os.chdir('d' * 200)\n"
        "for i in range(6):\n    open(str(i), 'wb').write(b'x' * 20_000_000)\n"
        "time.sleep(8)"
    )
    assert run(program, "python", disk_bytes=64 * MIB).outcome == "disk_full"


def test_deleted_files_that_stay_open_count(run: Runner) -> None:
    program = (
        "import os, time\nkept = []\n"
        "for i in range(6):\n"
        "    file = open(f'part{i}', 'wb'); os.remove(f'part{i}'); kept.append(file)\n"
        "    file.write(b'x' * 20_000_000); file.flush()\n"
        "time.sleep(8)"
    )
    assert run(program, "python", disk_bytes=64 * MIB).outcome == "disk_full"


def test_tmp_and_shm_have_their_size(run: Runner) -> None:
    execution = run("df --output=size -B1 /tmp /dev/shm | tail -n 2", tmp_bytes=32 * MIB, shm_bytes=16 * MIB)
    assert execution.stdout.head.split() == [str(32 * MIB), str(16 * MIB)]


def test_a_fork_bomb_meets_the_limit_of_processes(run: Runner) -> None:
    program = (
        "import os\nn = 0\n"
        "try:\n    while True:\n        n += 1\n        if os.fork() == 0:\n            import time; time.sleep(30)\n"
        "except BlockingIOError:\n    print(n)"
    )
    execution = run(program, "python", processes=32)
    assert execution.status == 0
    assert int(execution.stdout.head) == 32


def test_no_network_no_privileges_no_other_user(run: Runner) -> None:
    program = (
        "id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status | tr -s '\\t' ' '; "
        "ls /sys/class/net; hostname; getent hosts localhost > /dev/null && echo resolves"
    )
    said = run(program).stdout.head.splitlines()
    assert said == [
        "1000",
        "CapEff: 0000000000000000",
        "CapBnd: 0000000000000000",
        "NoNewPrivs: 1",
        "lo",
        "localhost",
        "resolves",
    ]


def test_a_candidate_never_sees_what_another_one_wrote(run: Runner) -> None:
    places = f"{FOLDER}/left /tmp/left /dev/shm/left $HOME/left"
    assert run(f"for f in {places}; do echo x > $f || exit 1; done").status == 0
    assert run(f"for f in {places}; do [ ! -e $f ] || exit 1; done").status == 0


def test_twenty_megabytes_of_program_arrive_whole(run: Runner) -> None:
    assert run("#" + "x" * 20_000_000 + "\necho arrived").stdout.head == "arrived\n"


@pytest.mark.parametrize("text", ["print('\u00e9\U0001f40d')", "print('a')\r\nprint('b')\r\n", "\ufeffprint(1)"])
def test_unusual_characters_arrive_as_they_are(run: Runner, text: str) -> None:
    execution = run(text, "python", variables={"PYTHONIOENCODING": "utf-8"})
    assert execution.status == 0, execution.stderr.head


@pytest.mark.parametrize("text", ["print('\ud800')", "print('a\0b')", ""])
def test_what_no_file_can_hold_is_the_candidates_fault_or_nothing_and_never_ours(run: Runner, text: str) -> None:
    assert run(text, "python").outcome == "exited"


def test_a_missing_folder_is_the_environments_fault(run: Runner) -> None:
    with pytest.raises(SandboxError, match="/workspace/no/such"):
        run("true", folder="/workspace/no/such")


def test_a_missing_image_is_the_environments_fault_and_says_what_to_do(run: Runner) -> None:
    job = Job("true", "bash", "no/such:image", FOLDER, Limits())
    with pytest.raises(SandboxError, match="ml-bench images build"):
        run.sandbox.prepare(job)


def test_a_container_removed_from_outside_is_an_environment_error(run: Runner) -> None:
    prepared = run.sandbox.prepare(run.job("sleep 60", seconds=30))
    run.sandbox.client.api.remove_container(prepared._container, force=True)
    assert prepared.run().outcome == "environment_error"


def test_a_candidate_that_failed_while_the_harness_was_held_up_has_failed(
    run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = run.sandbox.prepare(run.job("sleep 0.5; echo Traceback; exit 1", seconds=2))
    receive, calls = prepared._receive, iter(range(1_000_000))

    def held_up(seconds: float) -> bytes | None:
        if next(calls) == 0:
            time.sleep(3.5)
        return receive(seconds)

    monkeypatch.setattr(prepared, "_receive", held_up)
    execution = prepared.run()
    assert (execution.outcome, execution.status) == ("exited", 1)
    assert execution.stdout.head == "Traceback\n"


@pytest.mark.parametrize("program", ["sleep 60", "sleep 2.5; exit 1", "sleep 2.5"])
def test_a_limit_noticed_far_too_late_is_the_environments_fault(
    program: str, run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = run.sandbox.prepare(run.job(program, seconds=1))
    receive, calls = prepared._receive, iter(range(1_000_000))

    def held_up(seconds: float) -> bytes | None:
        if next(calls) == 0:
            time.sleep(4)
        return receive(seconds)

    monkeypatch.setattr(prepared, "_receive", held_up)
    execution = prepared.run()
    assert execution.outcome == "environment_error"
    assert "held up" in execution.reason


def test_an_image_without_what_the_prelude_needs_is_the_environments_fault(run: Runner) -> None:
    client = run.sandbox.client
    offline = client.api.create_host_config(network_mode="none")
    made = client.api.create_container(run.image, ["rm", "/usr/bin/timeout"], user="0", host_config=offline)["Id"]
    try:
        client.api.start(made)
        client.api.wait(made)
        image = str(client.api.commit(made)["Id"])
    finally:
        remove_container(client, made)
    try:
        job = Job("true", "bash", image, FOLDER, Limits())
        with pytest.raises(SandboxError, match="no timeout in the image"):
            run.sandbox.prepare(job)
    finally:
        _remove_image(run, image)


def _remove_image(run: Runner, image: str) -> None:
    # The sandbox removes its containers in the background, and an image in use cannot go.
    deadline = time.monotonic() + 10
    while True:
        try:
            run.sandbox.client.api.remove_image(image)
            return
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def test_no_file_stays_open_behind_a_candidate(run: Runner) -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    run("true")
    gc.disable()
    try:
        before = open_files()
        for _ in range(8):
            run("true")
        run.sandbox.prepare(run.job("true")).discard()
        assert open_files() <= before + 2
    finally:
        gc.enable()


def test_a_run_that_is_discarded_from_another_thread_returns_at_once(run: Runner) -> None:
    prepared = run.sandbox.prepare(run.job("sleep 60", seconds=30))
    threading.Timer(0.5, prepared.discard).start()
    began = time.monotonic()
    assert prepared.run().outcome in ("environment_error", "killed")
    assert time.monotonic() - began < 10


def test_owned_cpus_are_what_a_candidate_sees(run: Runner) -> None:
    execution = run.sandbox.prepare(run.job("nproc; taskset -p $$ | sed 's/.*: //'"), Slot((1,))).run()
    assert execution.stdout.head.split() == ["1", "2"]


def test_a_gpu_that_the_engine_cannot_give_is_an_environment_error_with_the_way_out_and_leaves_nothing(
    run: Runner,
) -> None:
    # No machine has this GPU, so an engine with GPUs fails as one without them does.
    workers = Workers((Slot((0,), ("GPU-00000000-0000-0000-0000-000000000000",)),), "")
    image = TaskImage(run.sandbox.image_digest(run.image))
    chosen = Settings(extract="none", limits=Limits(memory_bytes=256 * MIB, gpus=1))
    before = {record["Id"] for record in list_containers(run.sandbox.client)}
    with DockerSandbox() as sandbox:
        evaluation = Evaluation(sandbox, chosen, lambda task: image, workers)
        (judged,) = evaluation.run([Candidate(task("tiny-gan/1"), 0, "true")])
    assert judged.execution is not None
    assert (judged.execution.outcome, judged.execution.gpus) == ("environment_error", 0)
    assert "the engine gives no GPU: install NVIDIA's driver" in judged.execution.reason
    assert "\n" not in judged.execution.reason
    left = [record for record in list_containers(run.sandbox.client) if record["Id"] not in before]
    assert [record["Id"] for record in left if record["Labels"][OWNER_LABEL] == owner()] == []


def test_nothing_is_left_behind(run: Runner, sample_image: str) -> None:
    with DockerSandbox() as sandbox:
        sandbox.prepare(run.job("true")).run()
        sandbox.prepare(run.job("sleep 60"))
        ours = set(sandbox._alive)
    left = {record["Id"] for record in list_containers(run.sandbox.client)}
    assert not left & ours


def test_sweeping_removes_what_dead_harnesses_left_and_nothing_else(run: Runner) -> None:
    api = run.sandbox.client.api
    dead = owner().replace('"started": "', '"started": "1')
    labels = {"dead": dead, "alive": owner(), "stranger": dead.replace('"host": "', '"host": "another-')}
    made = {
        name: api.create_container(run.image, ["true"], labels={OWNER_LABEL: label})["Id"]
        for name, label in labels.items()
    }
    try:
        assert sweep(run.sandbox.client) == 1
        left = {record["Id"] for record in list_containers(run.sandbox.client)}
        assert made["dead"] not in left
        assert {made["alive"], made["stranger"]} <= left
    finally:
        for container in made.values():
            remove_container(run.sandbox.client, container)


@pytest.mark.parametrize("label", ["", "{}", "nonsense", '{"pid": 1}', "[]", "null"])
def test_a_label_that_says_nothing_is_never_called_dead(label: str) -> None:
    assert not is_dead(label)


def test_overhead_stays_small(run: Runner) -> None:
    began = time.monotonic()
    execution = run("true")
    assert execution.times.teardown < 0.5
    assert time.monotonic() - began < 5
