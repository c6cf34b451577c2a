"""A machine on which a promise does not hold is told so, with the way out; one on which all hold is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ml_bench_cli.main import main
from ml_bench_metric import doctor
from ml_bench_metric.doctor import FULL, QUICK, Finding, Patient, full, quick
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.execution import Execution, Output, Times
from ml_bench_metric.sandbox.protocol import Job, do_nothing
from tests.fakes import DIGEST, FakeSandbox

RIGHT: dict[str, Execution] = {
    "a program runs, and its exit status is told": Execution(outcome="exited", status=7),
    "CPU time and memory are told": Execution(outcome="exited", status=0, cpu_seconds=0.2, peak_memory_bytes=10**6),
    "a sleeper is ended at the time limit": Execution(outcome="still_running"),
    "a process that ignores SIGTERM is ended too": Execution(outcome="still_running"),
    "the memory limit holds": Execution(outcome="out_of_memory", status=137),
    "memory files count as memory": Execution(outcome="exited", status=1),
    "the limit on processes holds": Execution(outcome="exited", status=0),
    "the limit on output holds": Execution(outcome="output_limit", stdout=Output(truncated=True)),
    "the limit on disk space holds": Execution(outcome="disk_full"),
    "the size of /tmp is limited": Execution(outcome="exited", status=9),
    "there is no network": Execution(outcome="exited", status=0),
    "a candidate is nobody special": Execution(outcome="exited", status=0),
    "the next candidate does not see what this one leaves": Execution(outcome="exited", status=0),
    "(the same, afterwards)": Execution(outcome="exited", status=0),
}
PROGRAMS = {trial.program: trial.name for trial in (*QUICK, *FULL)}


def healthy(job: Job) -> Execution:
    return RIGHT[PROGRAMS[job.program]]


def patient(behave: Callable[[Job], Execution] = healthy, **info: Any) -> Patient:
    sandbox = FakeSandbox(behave)
    sandbox.behave_tried = behave
    return Patient(sandbox, DIGEST, (), info)


def examined(one: Patient) -> dict[str, Finding]:
    return {finding.name: finding for finding in (*quick(one), *full(one))}


def test_every_trial_is_known_to_these_tests() -> None:
    assert set(RIGHT) == set(PROGRAMS.values())


def test_a_healthy_machine_has_no_fault() -> None:
    found = examined(patient())
    assert [finding for finding in found.values() if finding.state == "fault"] == []
    assert all(found[name].state == "ok" for name in RIGHT)


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize(
    "wrong",
    [Execution(outcome="killed", status=139), Execution(outcome="environment_error", reason="no containers today")],
    ids=["ended otherwise", "sandbox failed"],
)
def test_a_promise_that_does_not_hold_is_a_fault_with_the_way_out(name: str, wrong: Execution) -> None:
    found = examined(patient(lambda job: wrong if PROGRAMS[job.program] == name else healthy(job)))
    faults = [finding for finding in found.values() if finding.state == "fault"]
    assert [finding.name for finding in faults] == [name]
    assert faults[0].remedy
    assert ("no containers today" in faults[0].detail) == (wrong.outcome == "environment_error")


@pytest.mark.parametrize(
    ("name", "passed_by"),
    [
        ("the memory limit holds", Execution(outcome="exited", status=0)),
        ("the limit on processes holds", Execution(outcome="exited", status=3)),
        ("the limit on output holds", Execution(outcome="still_running")),
        ("the limit on disk space holds", Execution(outcome="exited", status=1)),
        ("the size of /tmp is limited", Execution(outcome="exited", status=0)),
        ("there is no network", Execution(outcome="exited", status=1)),
        ("CPU time and memory are told", Execution(outcome="exited", status=0)),
        ("a sleeper is ended at the time limit", Execution(outcome="exited", status=0)),
    ],
)
def test_a_limit_that_is_not_enforced_is_a_fault(name: str, passed_by: Execution) -> None:
    found = examined(patient(lambda job: passed_by if PROGRAMS[job.program] == name else healthy(job)))
    assert found[name].state == "fault"


def test_a_slow_removal_is_a_warning() -> None:
    slow = Execution(outcome="exited", status=7, times=Times(teardown=3.0))
    finding = doctor._tried(QUICK[0], Patient(_Slow(slow), DIGEST, (), {}))
    assert finding.state == "warning" and "3.0 s" in finding.detail


class _Slow(FakeSandbox):
    def __init__(self, execution: Execution) -> None:
        super().__init__()
        self._execution = execution

    def prepare(self, job: Job, slot: object = None) -> Any:
        execution = self._execution

        class Prepared:
            def run(self, freed: Callable[[], None] = do_nothing) -> Execution:
                return execution

        return Prepared()


@pytest.mark.parametrize(
    ("info", "name", "state"),
    [
        ({"MemoryLimit": False}, "cgroup controllers", "fault"),
        ({"PidsLimit": False}, "cgroup controllers", "fault"),
        ({"Driver": "vfs"}, "storage driver", "warning"),
        ({"DockerRootDir": "/"}, "disk", None),
    ],
)
def test_what_the_engine_lacks_is_told(info: dict[str, Any], name: str, state: str | None) -> None:
    finding = {found.name: found for found in quick(patient(**info))}[name]
    assert state in (None, finding.state)


@pytest.mark.docker
def test_the_engine_of_this_machine_keeps_every_promise(docker_sandbox: DockerSandbox, sample_image: str) -> None:
    one = Patient(docker_sandbox, sample_image, ("tiny-attention", "tiny-gan"), dict(docker_sandbox.client.info()))
    faults = [finding for finding in examined(one).values() if finding.state == "fault"]
    assert faults == []


@pytest.mark.docker
def test_the_command_prints_a_line_per_check_and_ends_with_0(
    sample_image: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["ml-bench", "doctor", "--quick", "--json", "--image", sample_image])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    states = [json.loads(line)["state"] for line in capsys.readouterr().out.splitlines()]
    assert len(states) >= 4 and "fault" not in states
