"""What a candidate gets, and what is said of it, in real containers: the contract, and what is Docker's alone."""

from __future__ import annotations

import time

import pytest

from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.evaluation import Candidate, Evaluation, Settings
from ml_bench_metric.sandbox.docker_engine import OWNER_LABEL, is_dead, list_containers, owner, remove_container, sweep
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.limits import MIB, Limits
from ml_bench_metric.sandbox.protocol import Job, SandboxError, Slot
from ml_bench_metric.workers import Workers
from tests.result_builders import task
from tests.sandbox_contract import FOLDER, ContainerContract, DockerRunner

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def run(docker_sandbox: DockerSandbox, sample_image: str) -> DockerRunner:
    return DockerRunner(docker_sandbox, sample_image)


class TestDocker(ContainerContract):
    """Docker keeps the contract."""


def test_a_candidate_that_failed_while_the_harness_was_held_up_has_failed(
    run: DockerRunner, monkeypatch: pytest.MonkeyPatch
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
    program: str, run: DockerRunner, monkeypatch: pytest.MonkeyPatch
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


def test_an_image_without_what_the_prelude_needs_is_the_environments_fault(run: DockerRunner) -> None:
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


def _remove_image(run: DockerRunner, image: str) -> None:
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


def test_a_gpu_that_the_engine_cannot_give_is_an_environment_error_with_the_way_out_and_leaves_nothing(
    run: DockerRunner,
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


def test_sweeping_removes_what_dead_harnesses_left_and_nothing_else(run: DockerRunner) -> None:
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
