"""An agent's container: it may work there as the task asks, for as long as it may, and reaches nothing else."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.sandbox.docker_engine import OWNER_LABEL, list_containers, owner
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.limits import MIB
from ml_bench_metric.tasks import load_tasks
from ml_bench_solvers.agents.budget import Budget, Meter, Purse, Spent
from ml_bench_solvers.agents.docker_workspace import LIMITS, DockerWorkspace, Site, require_network
from ml_bench_solvers.agents.trajectory import Trajectory, read_steps
from ml_bench_solvers.agents.workspace import BudgetSpent, WorkspaceError

pytestmark = pytest.mark.docker

TASK = load_tasks("sample", "A").by_id["tiny-forecast/8"]


@contextlib.contextmanager
def opened(
    sandbox: DockerSandbox, image: str, path: Path, budget: Budget | None = None, site: Site | None = None
) -> Iterator[DockerWorkspace]:
    meter = Meter(budget or Budget(max_turns=None), Purse(None))
    digest = TaskImage(sandbox.image_digest(image))
    with (
        Trajectory(path / "trajectory.jsonl") as steps,
        DockerWorkspace(sandbox, TASK, digest, site or Site(), meter, steps) as workspace,
    ):
        yield workspace


@pytest.fixture
def workspace(docker_sandbox: DockerSandbox, sample_image: str, tmp_path: Path) -> Iterator[DockerWorkspace]:
    with opened(docker_sandbox, sample_image, tmp_path) as one:
        yield one


def workspaces() -> list[str]:
    from ml_bench_metric.sandbox.docker_engine import connect

    return [
        found["Id"]
        for found in list_containers(connect())
        if found["Labels"].get("ml-bench.container") == "workspace" and found["Labels"][OWNER_LABEL] == owner()
    ]


def test_a_command_runs_in_the_tasks_folder_with_its_variables_and_nothing_to_gain(workspace: DockerWorkspace) -> None:
    ran = workspace.exec(
        "pwd; echo $DATA_ROOT; id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; "
        "tail -n +3 /proc/net/dev | cut -d: -f1 | xargs; echo bad >&2; exit 7"
    )
    assert (ran.status, ran.truncated) == (7, False)
    assert ran.output.split() == [
        *("/workspace/tiny-forecast/scripts/forecast", "./dataset", "1000"),
        *("CapEff:", "0000000000000000", "CapBnd:", "0000000000000000", "NoNewPrivs:", "1", "Seccomp:", "2"),
        *("lo", "bad"),
    ]


def test_files_stay_from_one_command_to_the_next_and_shells_do_not(workspace: DockerWorkspace) -> None:
    workspace.exec("X=1; echo kept > file; cd /")
    assert workspace.exec("cat file; echo ${X:-nothing}").output == "kept\nnothing\n"


def test_a_command_is_killed_at_its_limit_with_all_that_it_has_started(workspace: DockerWorkspace) -> None:
    workspace.exec("setsid -f sleep 501")
    began = time.monotonic()
    ran = workspace.exec(
        "setsid -f sleep 502; (trap '' TERM; sleep 503) & env -i setsid -f sleep 504; sleep 505", timeout=1
    )
    assert time.monotonic() - began < 10
    assert ran.status is None
    alive = workspace.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").output
    assert [number for number in range(501, 506) if f"sleep {number}" in alive] == [501]


def test_what_a_command_leaves_behind_does_not_hold_it_up(workspace: DockerWorkspace) -> None:
    began = time.monotonic()
    ran = workspace.exec("sleep 600 & echo started")
    assert (ran.status, ran.output) == (0, "started\n")
    assert time.monotonic() - began < 9


def test_output_is_kept_as_its_ends_in_the_order_of_events(workspace: DockerWorkspace) -> None:
    ran = workspace.exec("echo first >&2; head -c 2000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert ran.truncated
    assert len(ran.output) < LIMITS.kept_bytes + 100
    assert ran.output.startswith("first\nx") and ran.output.endswith("x\nlast\n")


def test_an_agent_cannot_end_its_own_container(workspace: DockerWorkspace) -> None:
    workspace.exec("kill -9 -1")
    assert workspace.exec("kill -9 1 2>&1; echo alive").output.endswith("alive\n")


def test_files_are_read_and_written_with_the_agents_rights(workspace: DockerWorkspace) -> None:
    content = bytes(range(256)) * 3000
    workspace.write_file("new/folder/file", content)
    assert workspace.read_file("new/folder/file") == content
    assert workspace.read_file(f"{workspace.folder}/new/folder/file") == content
    workspace.write_file("/tmp/-n", b"")
    assert workspace.read_file("/tmp/-n") == b""
    assert workspace.exec("stat -c %u new new/folder/file").output == "1000\n1000\n"
    with pytest.raises(FileNotFoundError):
        workspace.read_file("nothing")
    workspace.exec("ln -s /etc/shadow shadow; ln -s /etc etc; mkfifo pipe")
    for path in ("shadow", "new", "pipe", "x\0y"):
        with pytest.raises(OSError):
            workspace.read_file(path)
    for path in ("/etc/x", "etc/x", "new", "shadow", "x\0y"):
        with pytest.raises(OSError):
            workspace.write_file(path, b"x")


def test_of_a_large_file_only_the_beginning_is_read(workspace: DockerWorkspace) -> None:
    workspace.exec("head -c 5000000 /dev/zero > large")
    assert workspace.read_file("large") == bytes(1 << 20)


def test_a_command_that_no_kernel_takes_is_told_to_the_agent(workspace: DockerWorkspace) -> None:
    ran = workspace.exec("# " + "x" * 200_000)
    assert ran.status == 126 and "write it into a file" in ran.output
    assert workspace.exec("a\0b").status == 126


def test_time_that_is_used_up_ends_a_command_and_the_work(
    docker_sandbox: DockerSandbox, sample_image: str, tmp_path: Path
) -> None:
    with opened(docker_sandbox, sample_image, tmp_path, Budget(max_seconds=1.5)) as workspace:
        with pytest.raises(Spent) as caught:
            workspace.exec("echo before; sleep 60")
        assert caught.value.limit == "seconds"
        with pytest.raises(BudgetSpent):
            workspace.write_file("run.sh", b"")
    steps = [step for step in read_steps(tmp_path / "trajectory.jsonl") if step["kind"] == "command"]
    assert str(steps[0]["output"]).startswith("before\n")


def test_a_full_disk_ends_the_work_and_is_the_agents_doing(
    docker_sandbox: DockerSandbox, sample_image: str, tmp_path: Path
) -> None:
    site = Site(limits=LIMITS.model_copy(update={"disk_bytes": 20 * MIB}))
    with opened(docker_sandbox, sample_image, tmp_path, site=site) as workspace:
        with pytest.raises(Spent) as caught:
            workspace.exec("for i in 1 2 3; do head -c 15000000 /dev/zero > file$i; done; sleep 60")
        assert caught.value.limit == "disk"


def test_memory_is_limited_and_the_agent_is_told(
    docker_sandbox: DockerSandbox, sample_image: str, tmp_path: Path
) -> None:
    site = Site(limits=LIMITS.model_copy(update={"memory_bytes": 64 * MIB}))
    with opened(docker_sandbox, sample_image, tmp_path, site=site) as workspace:
        ran = workspace.exec("python -c 'x = bytearray(10**9)'")
        assert ran.status == 137
        assert "out of memory" in ran.output
        assert workspace.exec("echo alive").output == "alive\n"


def test_a_workspace_that_is_aborted_fails_at_once_and_leaves_no_container(
    docker_sandbox: DockerSandbox, sample_image: str, tmp_path: Path
) -> None:
    with opened(docker_sandbox, sample_image, tmp_path) as workspace:
        threading.Timer(1.0, workspace.abort).start()
        began = time.monotonic()
        with pytest.raises(WorkspaceError, match="the run was stopped"):
            workspace.exec("sleep 60")
        assert time.monotonic() - began < 10
    assert workspaces() == []


def test_nothing_is_left_behind_an_exception(docker_sandbox: DockerSandbox, sample_image: str, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), opened(docker_sandbox, sample_image, tmp_path) as workspace:
        assert workspaces() == [workspace.container]
        raise KeyboardInterrupt
    assert workspaces() == []


def test_an_image_without_the_tasks_folder_is_no_fault_of_the_agent(
    docker_sandbox: DockerSandbox, sample_image: str, tmp_path: Path
) -> None:
    digest = TaskImage(docker_sandbox.image_digest(sample_image), root="/nowhere")
    meter = Meter(Budget(), Purse(None))
    with Trajectory(tmp_path / "t") as steps, pytest.raises(WorkspaceError, match="cannot work in image"):
        DockerWorkspace(docker_sandbox, TASK, digest, Site(), meter, steps)
    assert workspaces() == []


def test_the_machines_own_network_is_had_only_by_who_asks_for_it(
    docker_sandbox: DockerSandbox, sample_image: str, tmp_path: Path
) -> None:
    site = Site(network="full", host_network=True)
    require_network(docker_sandbox.client, site, sample_image)
    with opened(docker_sandbox, sample_image, tmp_path, site=site) as workspace:
        here = {line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]}
        there = workspace.exec("tail -n +3 /proc/net/dev | cut -d: -f1").output.split()
        assert here & set(there) - {"lo"} or here == {"lo"}
