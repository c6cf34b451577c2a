"""What every sandbox must do, whatever stands behind it: the tests that Docker, Podman and processes all run.

A sandbox runs them by a class of its own that inherits `SandboxContract` (`ContainerContract` where it makes
containers) and gives it a `Runner` as the fixture `run`. Where one cannot do something, its class says so by another
test of the same name.
"""

from __future__ import annotations

import gc
import os
import tarfile
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ml_bench_metric.sandbox.docker_engine import list_containers
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.execution import Execution
from ml_bench_metric.sandbox.limits import MIB, Limits
from ml_bench_metric.sandbox.overlay import Overlay
from ml_bench_metric.sandbox.protocol import Job, Sandbox, SandboxError, Slot
from ml_bench_metric.tasks import Language
from tests.overlay_builders import folder, link, member, overlay

FOLDER = "/workspace/tiny-gan"
HERE = FOLDER.removeprefix("/")


class Runner:
    """Runs programs in the sample's image under small limits."""

    def __init__(self, sandbox: Sandbox, image: str) -> None:
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

    def changed(self, program: str, changes: Overlay, **options: Any) -> Execution:
        """Run a `run.sh` with an overlay."""
        return self.sandbox.prepare(replace(self.job(program, **options), overlay=changes, form="run.sh")).run()

    def __call__(self, program: str, language: Language = "bash", **options: Any) -> Execution:
        return self.sandbox.prepare(self.job(program, language, **options)).run()


class DockerRunner(Runner):
    """Runs them on an engine that speaks Docker's API."""

    sandbox: DockerSandbox

    def __init__(self, sandbox: DockerSandbox, image: str) -> None:
        super().__init__(sandbox, image)


class SandboxContract:
    """What holds for every sandbox."""

    def test_an_exit_status_is_a_fact_and_output_is_kept_apart(self, run: Runner) -> None:
        execution = run("echo out; echo err >&2; exit 3")
        assert (execution.outcome, execution.status) == ("exited", 3)
        assert (execution.stdout.head, execution.stderr.head) == ("out\n", "err\n")
        assert execution.image.startswith("sha256:")

    def test_python_runs_in_the_tasks_folder_and_imports_from_it(self, run: Runner) -> None:
        program = (
            "import importlib.util, os, sys\nassert importlib.util.find_spec('gan')\n"
            "print(os.getcwd() == sys.path[0], os.path.basename(os.getcwd()), __name__)"
        )
        execution = run(program, "python")
        assert execution.stdout.head == "True tiny-gan __main__\n", execution.stderr.head

    def test_standard_input_is_empty(self, run: Runner) -> None:
        assert run("wc -c").stdout.head.strip() == "0"

    def test_the_tasks_variables_are_there_and_the_hosts_are_not(
        self, run: Runner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SECRET_OF_THE_HOST", "open sesame")
        execution = run("env", variables={"MODEL_DIR": "/models/tiny model"})
        assert "MODEL_DIR=/models/tiny model\n" in execution.stdout.head
        assert "SECRET_OF_THE_HOST" not in execution.stdout.head

    def test_a_busy_candidate_is_still_running_and_its_cpu_time_tells_it_from_a_sleeper(self, run: Runner) -> None:
        busy, asleep = run("while :; do :; done", seconds=1.5), run("sleep 60", seconds=1.5)
        assert (busy.outcome, busy.status) == (asleep.outcome, asleep.status) == ("still_running", None)
        assert busy.cpu_seconds is not None and busy.ready_seconds is not None
        # Whatever else this machine does, the busy one was ready to run all the time.
        assert 1.0 < busy.ready_seconds < 2.5
        assert 0 < busy.cpu_seconds <= busy.ready_seconds + 0.1
        assert asleep.cpu_seconds is not None and asleep.ready_seconds is not None
        assert asleep.cpu_seconds < 0.5 and asleep.ready_seconds < 0.75

    def test_threads_that_wait_for_each_other_do_not_look_like_a_long_computation(self, run: Runner) -> None:
        program = (
            "import threading, time\nend = time.monotonic() + 0.3\n"
            "def spin():\n    while time.monotonic() < end: pass\n    time.sleep(60)\n"
            "for _ in range(40): threading.Thread(target=spin).start()\n"
        )
        execution = run.sandbox.prepare(run.job(program, "python", seconds=4), Slot((0,))).run()
        assert execution.outcome == "still_running"
        assert execution.ready_seconds is not None and execution.ready_seconds < 2

    def test_the_time_limit_is_kept(self, run: Runner) -> None:
        # On a busy machine one may be noticed late; that all are is a fault.
        times = [run("while :; do :; done", seconds=1.5).times.run for _ in range(3)]
        assert 1.5 <= min(times) < 2.5

    def test_a_candidate_that_ignores_signals_ends_at_the_limit_and_is_gone_at_once(self, run: Runner) -> None:
        execution = run("trap '' TERM INT HUP; while :; do sleep 0.1; done", seconds=1)
        assert execution.outcome == "still_running"
        assert execution.times.teardown < 1

    def test_closing_its_output_does_not_end_a_candidate_early(self, run: Runner) -> None:
        execution = run("exec >&- 2>&-; sleep 1; exit 4")
        assert (execution.outcome, execution.status) == ("exited", 4)
        assert execution.times.run >= 1
        assert run("exec >&- 2>&-; sleep 60", seconds=1).outcome == "still_running"

    def test_a_daemon_that_holds_the_output_open_does_not_hold_the_verdict(self, run: Runner) -> None:
        execution = run("setsid sleep 60 & disown; exit 0")
        assert (execution.outcome, execution.status) == ("exited", 0)
        assert execution.times.run < 5

    def test_memory_beyond_the_limit_is_out_of_memory_and_not_a_mere_kill(self, run: Runner) -> None:
        execution = run("x = bytearray(10**9)", "python")
        assert (execution.outcome, execution.status) == ("out_of_memory", 137)
        assert execution.peak_memory_bytes is not None and execution.peak_memory_bytes <= 256 * MIB

    def test_a_child_that_runs_out_of_memory_counts_where_the_candidate_fails_by_it(self, run: Runner) -> None:
        program = (
            "import subprocess, sys\n"
            "child = subprocess.run([sys.executable, '-c', 'x = bytearray(10**9)'])\n"
            "sys.exit(child.returncode != 0)"
        )
        execution = run(program, "python")
        assert (execution.outcome, execution.status) == ("out_of_memory", 1)
        assert execution.oom_kills >= 1

    def test_a_signal_is_told_from_an_exit(self, run: Runner) -> None:
        execution = run("kill -SEGV $$")
        assert (execution.outcome, execution.status) == ("killed", 128 + 11)

    def test_killing_everything_within_reach_fails_and_nothing_else(self, run: Runner) -> None:
        assert run("kill -9 -1; sleep 5").outcome == "killed"
        assert run("echo fine").outcome == "exited"

    def test_a_flood_of_output_is_stopped_and_kept_small(self, run: Runner) -> None:
        execution = run("yes", output_bytes=4 * MIB, kept_bytes=1024)
        assert execution.outcome == "output_limit"
        assert execution.stdout.bytes > 4 * MIB
        assert execution.stdout.truncated
        assert len(execution.stdout.head) + len(execution.stdout.tail) <= 1024

    def test_much_output_below_the_limit_does_not_block_the_candidate(self, run: Runner) -> None:
        execution = run("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo end >&2; exit 7")
        assert (execution.outcome, execution.status) == ("exited", 7)
        assert execution.stdout.bytes == 20_000_001

    def test_a_filled_disk_is_noticed(self, run: Runner) -> None:
        program = "for i in 1 2 3 4 5 6; do head -c 20000000 /dev/zero > part$i; done; sleep 5"
        assert run(program, disk_bytes=64 * MIB).outcome == "disk_full"

    def test_a_folder_too_deep_to_be_measured_hides_nothing(self, run: Runner) -> None:
        program = (
            "import os, time\n"
            "for _ in range(40):\n    os.mkdir('d' * 200); os.chdir('d' * 200)\n"
            "for i in range(6):\n    open(str(i), 'wb').write(b'x' * 20_000_000)\n"
            "time.sleep(8)"
        )
        assert run(program, "python", disk_bytes=64 * MIB).outcome == "disk_full"

    def test_deleted_files_that_stay_open_count(self, run: Runner) -> None:
        program = (
            "import os, time\nkept = []\n"
            "for i in range(6):\n"
            "    file = open(f'part{i}', 'wb'); os.remove(f'part{i}'); kept.append(file)\n"
            "    file.write(b'x' * 20_000_000); file.flush()\n"
            "time.sleep(8)"
        )
        assert run(program, "python", disk_bytes=64 * MIB).outcome == "disk_full"

    def test_a_fork_bomb_meets_the_limit_of_processes(self, run: Runner) -> None:
        program = (
            "import os\nn = 0\n"
            "try:\n    while True:\n        n += 1\n"
            "        if os.fork() == 0:\n            import time; time.sleep(30)\n"
            "except BlockingIOError:\n    print(n)"
        )
        execution = run(program, "python", processes=32)
        assert execution.status == 0
        assert int(execution.stdout.head) == 32

    def test_a_candidate_never_sees_what_another_one_wrote(self, run: Runner) -> None:
        places = " ".join(f"{folder}/left-{os.getpid()}" for folder in ("$PWD", "/tmp", "/dev/shm", "$HOME"))
        assert run(f"for f in {places}; do echo x > $f || exit 1; done").status == 0
        assert run(f"for f in {places}; do [ ! -e $f ] || exit 1; done").status == 0

    def test_twenty_megabytes_of_program_arrive_whole(self, run: Runner) -> None:
        assert run("#" + "x" * 20_000_000 + "\necho arrived").stdout.head == "arrived\n"

    @pytest.mark.parametrize("text", ["print('\u00e9\U0001f40d')", "print('a')\r\nprint('b')\r\n", "\ufeffprint(1)"])
    def test_unusual_characters_arrive_as_they_are(self, run: Runner, text: str) -> None:
        execution = run(text, "python", variables={"PYTHONIOENCODING": "utf-8"})
        assert execution.status == 0, execution.stderr.head

    @pytest.mark.parametrize("text", ["print('\ud800')", "print('a\0b')", ""])
    def test_what_no_file_can_hold_is_the_candidates_fault_or_nothing_and_never_ours(
        self, run: Runner, text: str
    ) -> None:
        assert run(text, "python").outcome == "exited"

    def test_a_missing_folder_is_the_environments_fault(self, run: Runner) -> None:
        with pytest.raises(SandboxError, match="/workspace/no/such"):
            run("true", folder="/workspace/no/such")

    def test_no_file_stays_open_behind_a_candidate(self, run: Runner) -> None:
        def open_files() -> int:
            return len(list(Path("/proc/self/fd").iterdir()))

        run("true")
        gc.disable()
        try:
            before = open_files()
            for _ in range(8):
                run("true")
            run.sandbox.prepare(run.job("true")).discard()
            # What removes behind the candidates may still be at it.
            end = time.monotonic() + 10
            while open_files() > before + 2 and time.monotonic() < end:
                time.sleep(0.05)
            assert open_files() <= before + 2
        finally:
            gc.enable()

    def test_a_run_that_is_discarded_from_another_thread_returns_at_once(self, run: Runner) -> None:
        prepared = run.sandbox.prepare(run.job("sleep 60", seconds=30))
        threading.Timer(0.5, prepared.discard).start()
        began = time.monotonic()
        assert prepared.run().outcome in ("environment_error", "killed")
        assert time.monotonic() - began < 10

    def test_owned_cpus_are_what_a_candidate_sees(self, run: Runner) -> None:
        execution = run.sandbox.prepare(run.job("nproc; taskset -p $$ | sed 's/.*: //'"), Slot((1,))).run()
        assert execution.stdout.head.split() == ["1", "2"]

    def test_what_a_candidate_owned_is_free_once_and_before_all_is_known_of_its_end(self, run: Runner) -> None:
        freed: list[float] = []
        execution = run.sandbox.prepare(run.job("sleep 0.5; echo end")).run(lambda: freed.append(time.monotonic()))
        assert (execution.status, execution.stdout.head) == (0, "end\n")
        assert len(freed) == 1 and freed[0] <= time.monotonic()

    # ------------------------------------------------ overlays

    def test_an_overlay_adds_replaces_and_removes_and_nobody_else_sees_it(self, run: Runner, tmp_path: Path) -> None:
        changes = overlay(
            tmp_path / "changes.tar",
            [
                member(f"{HERE}/README.md", "mine"),
                member(f"{HERE}/tool", "#!/bin/sh\necho tool", mode=0o755),
                folder(f"{HERE}/new"),
                folder(f"{HERE}/new/deeper", mode=0o700),
                member(f"{HERE}/new/deeper/f", "deep"),
                link(f"{HERE}/shortcut", "new/deeper"),
            ],
            [f"{FOLDER}/train.py", f"{FOLDER}/gan", f"{FOLDER}/never-was"],
        )
        program = (
            "cat README.md new/deeper/f shortcut/f; ./tool; [ ! -e train.py ] && [ ! -e gan ] && "
            "stat -c %a new/deeper tool && echo more >> README.md && touch shortcut/g new/h && ls new/deeper"
        )
        execution = run.changed(program, changes)
        assert (execution.status, execution.stderr.head) == (0, "")
        assert execution.stdout.head == "minedeepdeeptool\n700\n755\nf\ng\n"
        assert run("[ -e train.py ] && [ -d gan ] && [ ! -e tool ]").status == 0

    def test_what_is_removed_is_gone_before_the_rest_comes(self, run: Runner, tmp_path: Path) -> None:
        changes = overlay(
            tmp_path / "changes.tar",
            [
                folder(f"{HERE}/gan"),
                member(f"{HERE}/gan/only.py", "x"),
                member(f"{HERE}/implementations", "a file now"),
                folder(f"{HERE}/README.md"),
                member(f"{HERE}/README.md/a folder now", "y"),
            ],
            [f"{FOLDER}/gan", f"{FOLDER}/implementations", f"{FOLDER}/README.md"],
        )
        execution = run.changed("ls gan; cat implementations; ls README.md", changes)
        assert execution.stdout.head == "only.py\na file nowa folder now\n", execution.stderr.head

    def test_kinds_change_without_a_word_too(self, run: Runner, tmp_path: Path) -> None:
        members = [
            member(f"{HERE}/gan", "file"),
            folder(f"{HERE}/train.py"),
            link(f"{HERE}/README.md", "/nowhere"),
        ]
        execution = run.changed(
            "cat gan; ls -d train.py/; readlink README.md", overlay(tmp_path / "changes.tar", members)
        )
        assert execution.stdout.head == "filetrain.py/\n/nowhere\n", execution.stderr.head

    def test_a_module_that_an_overlay_replaces_is_the_one_that_is_imported(self, run: Runner, tmp_path: Path) -> None:
        changes = overlay(tmp_path / "changes.tar", [member(f"{HERE}/gan/training.py", "print('replaced')")])
        assert run.changed("python -c 'import gan.training'", changes).stdout.head == "replaced\n"

    def test_nothing_has_another_users_rights(self, run: Runner, tmp_path: Path) -> None:
        changes = overlay(
            tmp_path / "changes.tar", [member(f"{HERE}/tool", "x", mode=0o6755), folder(f"{HERE}/f", mode=0o3000)]
        )
        execution = run.changed("stat -c '%a %u' tool f; id -u", changes)
        tool, made, user = execution.stdout.head.splitlines()
        assert [tool, made] == [f"755 {user}", f"700 {user}"]

    @pytest.mark.parametrize(
        "members",
        [
            [link(f"{HERE}/out", "/etc"), member(f"{HERE}/out/f", "x")],
            [link(f"{HERE}/out", ".."), folder(f"{HERE}/out/f")],
            [member(f"{HERE}/a/f", "x"), link(f"{HERE}/a", "/etc")],
            [member(f"{HERE}/a", "x"), member(f"{HERE}/a/f", "x")],
            [member(f"{HERE}/a", "x"), member(f"{HERE}/./a", "y")],
            [member(f"/{HERE}/a", "x")],
            [member(f"{HERE}/../../etc/a", "x")],
            [member("..", "x")],
            [link(f"{HERE}/fifo", "", tarfile.FIFOTYPE)],
            [link(f"{HERE}/disk", "", tarfile.BLKTYPE)],
            [link(f"{HERE}/null", "", tarfile.CHRTYPE)],
            [member(f"{HERE}/a", "x"), link(f"{HERE}/b", f"{HERE}/a", tarfile.LNKTYPE)],
        ],
    )
    def test_an_overlay_that_leads_elsewhere_is_refused(
        self, run: Runner, tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]]
    ) -> None:
        with pytest.raises(SandboxError, match="the overlay is refused"):
            run.changed("true", overlay(tmp_path / "changes.tar", members))

    @pytest.mark.parametrize("path", ["/", "relative", f"{FOLDER}/../x", f"{FOLDER}//x", f"{FOLDER}/a\0b"])
    def test_what_is_removed_is_named_plainly_or_refused(self, run: Runner, tmp_path: Path, path: str) -> None:
        with pytest.raises(SandboxError, match="no plain absolute path"):
            run.changed("true", overlay(tmp_path / "changes.tar", deleted=[path]))

    def test_links_of_an_overlay_stay_links_and_what_is_removed_is_the_link(self, run: Runner, tmp_path: Path) -> None:
        members = [link(f"{HERE}/password", "/etc/passwd"), link(f"{HERE}/above", "../..")]
        execution = run.changed("readlink password above", overlay(tmp_path / "changes.tar", members))
        assert execution.stdout.head == "/etc/passwd\n../..\n"

    def test_a_damaged_archive_is_the_environments_fault(self, run: Runner, tmp_path: Path) -> None:
        whole = overlay(tmp_path / "changes.tar", [member(f"{HERE}/a", "x" * 5000)])
        data = whole.archive.read_bytes()
        for cut in (b"", b"no archive at all" * 100, data[:2000]):
            whole.archive.write_bytes(cut)
            with pytest.raises(SandboxError, match="archive"):
                run.changed("true", whole)
        whole.archive.unlink()
        with pytest.raises(SandboxError, match="archive"):
            run.changed("true", whole)

    def test_ten_thousand_files_with_names_of_all_kinds_come_and_go(self, run: Runner, tmp_path: Path) -> None:
        odd = [
            "a b",
            "-rf",
            "$(id)",
            "new\nline",
            "'\"",
            "\u00e9\U0001f40d",
            b"\xff".decode("utf-8", "surrogateescape"),
        ]
        long = "/".join(["d" * 100] * 3)
        members = [folder(f"{HERE}/many")]
        members += [member(f"{HERE}/many/{number}", str(number)) for number in range(10_000)]
        members += [member(f"{HERE}/many/{name}", "odd") for name in odd]
        members += [folder(f"{HERE}/{long[:end]}") for end in (100, 201, 302)] + [member(f"{HERE}/{long}/f", "far")]
        changes = overlay(
            tmp_path / "changes.tar",
            members,
            [f"{FOLDER}/{name}" for name in odd] + [f"{FOLDER}/{number}" for number in range(10_000)],
        )
        execution = run.changed(f"ls -1b many | wc -l; cat many/9999 {long}/f", changes)
        assert execution.stdout.head == f"{10_000 + len(odd)}\n9999far", execution.stderr.head

    def test_an_overlay_is_no_part_of_what_the_candidate_writes(self, run: Runner, tmp_path: Path) -> None:
        changes = overlay(tmp_path / "changes.tar", [member(f"{HERE}/big", b"x" * 60 * MIB)])
        write = "head -c {} /dev/urandom > mine; sleep 3"
        assert run.changed(write.format(20_000_000), changes, disk_bytes=64 * MIB).outcome == "exited"
        program = "for i in 1 2 3 4 5; do head -c 20000000 /dev/urandom > part$i; done; sleep 5"
        assert run.changed(program, changes, disk_bytes=64 * MIB).outcome == "disk_full"

    def test_a_script_is_run_in_its_folder_under_its_own_name(self, run: Runner, tmp_path: Path) -> None:
        program = "echo $0; tail -n 1 run.sh; echo; pwd | xargs basename # its last line"
        job = replace(run.job(program), form="run.sh")
        said = run.sandbox.prepare(job).run().stdout.head.splitlines()
        assert said == ["run.sh", program, "tiny-gan"]

    @pytest.mark.parametrize(
        "members",
        [
            [link(f"{HERE}/run.sh", "/etc/passwd")],
            [folder(f"{HERE}/run.sh"), member(f"{HERE}/run.sh/f", "x")],
            [member(f"{HERE}/run.sh", "echo of the overlay", mode=0o000)],
        ],
    )
    def test_whatever_an_overlay_has_in_its_place_the_script_is_what_runs(
        self, run: Runner, tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]]
    ) -> None:
        execution = run.changed("echo mine", overlay(tmp_path / "changes.tar", members))
        assert execution.stdout.head == "mine\n", execution.stderr.head

    def test_the_commands_of_a_script_are_seen_and_none_of_the_sandboxs_own(self, run: Runner) -> None:
        program = "bash -c 'sleep 0.6; true' lr=0.001 'a b' & python -c 'import time; time.sleep(0.6)' --n 5; wait"
        execution = run.sandbox.prepare(replace(run.job(program, seconds=17), form="run.sh")).run()
        assert execution.status == 0, execution.stderr.head
        assert "bash -c 'sleep 0.6; true' lr=0.001 'a b'" in execution.commands
        assert any(line.endswith("-c 'import time; time.sleep(0.6)' --n 5") for line in execution.commands)
        # Numbers of the sandbox's own, such as those of its time limit and of the program's length, would be arguments.
        words = {word for line in execution.commands for word in line.split()}
        assert not words & {"--signal=KILL", "17", "17.0", "22.000", str(len(program))}
        assert run("sleep 0.3").commands == ()

    def test_overhead_stays_small(self, run: Runner) -> None:
        began = time.monotonic()
        execution = run("true")
        assert execution.times.teardown < 0.5
        assert time.monotonic() - began < 5


class ContainerContract(SandboxContract):
    """What holds for every sandbox that makes containers."""

    def test_what_the_image_has_for_tmp_is_there_and_is_the_candidates_own(self, run: DockerRunner) -> None:
        job = replace(run.job("diff -r . /tmp | grep -v 'Only in' ; rm -r /tmp/* && ls -A /tmp"), tmp_folder=FOLDER)
        execution = run.sandbox.prepare(job).run()
        assert (execution.status, execution.stderr.head) == (0, "")
        assert execution.stdout.head.strip() in ("", "ml_bench_candidate.sh")
        nothing = replace(run.job("ls -A /tmp"), tmp_folder="/opt/assets/tmp/nothing/1")
        assert run.sandbox.prepare(nothing).run().stdout.head.strip() == "ml_bench_candidate.sh"

    def test_tmp_and_shm_have_their_size(self, run: DockerRunner) -> None:
        execution = run("df --output=size -B1 /tmp /dev/shm | tail -n 2", tmp_bytes=32 * MIB, shm_bytes=16 * MIB)
        assert execution.stdout.head.split() == [str(32 * MIB), str(16 * MIB)]

    def test_no_network_no_privileges_no_other_user(self, run: DockerRunner) -> None:
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

    def test_a_missing_image_is_the_environments_fault_and_says_what_to_do(self, run: DockerRunner) -> None:
        job = Job("true", "bash", "no/such:image", FOLDER, Limits())
        with pytest.raises(SandboxError, match="ml-bench images build"):
            run.sandbox.prepare(job)

    def test_a_container_removed_from_outside_is_an_environment_error(self, run: DockerRunner) -> None:
        prepared = run.sandbox.prepare(run.job("sleep 60", seconds=30))
        run.sandbox.client.api.remove_container(prepared._container, force=True)
        assert prepared.run().outcome == "environment_error"

    def test_an_overlays_programs_are_the_candidates_and_never_the_sandboxs(
        self, run: DockerRunner, tmp_path: Path
    ) -> None:
        forged = [member(f"{HERE}/{name}", "#!/bin/sh\necho forged $0; exit 0", 0o755) for name in ("bash", "timeout")]
        forged += [member(f"{HERE}/{name}", "#!/bin/sh\nexit 1", 0o755) for name in ("head", "rm", "chmod", "cp")]
        changes = overlay(tmp_path / "changes.tar", forged, [f"{FOLDER}/train.py"])
        variables = {"PATH": f"{FOLDER}:/usr/bin:/bin"}
        execution = run.changed("head; echo $?; [ -e train.py ] || exit 3", changes, variables=variables)
        assert (execution.outcome, execution.status, execution.stdout.head) == ("exited", 3, "1\n")

    def test_what_the_candidates_user_cannot_remove_is_told(self, run: DockerRunner, tmp_path: Path) -> None:
        with pytest.raises(SandboxError, match="user 1000 cannot remove /etc/passwd"):
            run.changed("true", overlay(tmp_path / "changes.tar", deleted=["/etc/passwd"]))

    @pytest.mark.parametrize("target", ["/nowhere", "/etc"])
    def test_an_overlay_that_makes_the_folder_useless_fails_its_candidate(
        self, run: DockerRunner, tmp_path: Path, target: str
    ) -> None:
        changes = overlay(tmp_path / "changes.tar", [link(HERE, target)], [FOLDER])
        execution = run.changed("true", changes)
        assert (execution.outcome, execution.status) == ("exited", 1)
        assert "cannot" in execution.stderr.head

    def test_nothing_is_left_behind(self, run: DockerRunner) -> None:
        with DockerSandbox(run.sandbox.client) as sandbox:
            sandbox.prepare(run.job("true")).run()
            sandbox.prepare(run.job("sleep 60"))
            ours = set(sandbox._alive)
        left = {record["Id"] for record in list_containers(run.sandbox.client)}
        assert not left & ours
