"""The container in which a layer is made: what its steps have, and that none of it is ever left."""

from __future__ import annotations

import io
import json
import os
import tarfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ml_bench_metric.environments.build_log import BuildError, BuildLog
from ml_bench_metric.environments.builder import Builder, StepFailed, sweep
from ml_bench_metric.environments.host_settings import NO_SETTINGS, HostSettings
from ml_bench_metric.environments.images import BUILDER
from ml_bench_metric.sandbox.docker_engine import owner

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = pytest.mark.docker


def ours(client: DockerClient) -> list[str]:
    found = client.api.containers(all=True, filters={"label": BUILDER})
    return [one["Id"] for one in found if one["Labels"][BUILDER] == owner()]


@pytest.fixture(autouse=True)
def _nothing_is_left(client: DockerClient) -> object:
    yield
    assert ours(client) == []


def said(log: BuildLog) -> str:
    return log.path.read_text().rpartition("==> ")[2].partition("\n")[2].strip()


@pytest.mark.parametrize(("network", "interfaces"), [(False, "lo"), (True, None)])
def test_steps_have_the_hosts_network_or_none(
    client: DockerClient, sample_image: str, build_log: BuildLog, network: bool, interfaces: str | None
) -> None:
    with Builder(client, sample_image, build_log, NO_SETTINGS, network=network) as builder:
        builder.run("look", "ls /sys/class/net", seconds=60)
        on_the_host = sorted(path.name for path in Path("/sys/class/net").iterdir())
        assert said(build_log).split() == ([interfaces] if interfaces else on_the_host)


def test_a_step_is_root_or_who_it_is_told_and_sees_the_hosts_settings_and_its_own(
    client: DockerClient, sample_image: str, build_log: BuildLog
) -> None:
    settings = HostSettings({"PIP_NO_INDEX": "1", "OWN": "of the host"}, {})
    with Builder(client, sample_image, build_log, settings) as builder:
        builder.run("root", "id -u; echo $HOME $PIP_NO_INDEX $OWN", seconds=60)
        assert said(build_log) == "0\n/root 1 of the host"
        variables = {"OWN": "x y", "HOME": "/tmp"}
        builder.run("candidate", "id -u; echo $HOME $OWN", seconds=60, user="1000:1000", variables=variables)
        assert said(build_log) == "1000\n/tmp x y"


def test_a_step_fails_at_its_first_failing_command_and_the_container_goes_on(
    client: DockerClient, sample_image: str, build_log: BuildLog
) -> None:
    with Builder(client, sample_image, build_log, NO_SETTINGS) as builder:
        with pytest.raises(StepFailed, match="x: step: ended with status 7"):
            builder.run("step", "(exit 7)\necho not reached", seconds=60)
        with pytest.raises(StepFailed):
            builder.run("step", "echo $NO_SUCH_VARIABLE", seconds=60)
        builder.run("step", "echo fine", seconds=60)
        assert said(build_log) == "fine"


def test_files_are_put_as_the_archive_says(client: DockerClient, sample_image: str, build_log: BuildLog) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("some.txt")
        member.uid, member.size, member.mode = 1000, 1, 0o640
        archive.addfile(member, io.BytesIO(b"x"))
    buffer.seek(0)
    with Builder(client, sample_image, build_log, NO_SETTINGS) as builder:
        builder.put("/opt/assets", buffer)
        builder.run("look", "stat -c %u:%a /opt/assets/some.txt", seconds=60)
        assert said(build_log) == "1000:640"


def test_a_build_that_is_stopped_from_another_thread_ends_the_step_that_runs(
    client: DockerClient, sample_image: str, tmp_path: Path
) -> None:
    stop = threading.Event()

    def hear(line: str) -> None:
        if line.endswith(": sleep …"):
            threading.Timer(0.5, stop.set).start()

    with (
        BuildLog(tmp_path / "y.log", hear, "y", stop) as log,
        pytest.raises(BuildError, match="y: the build was stopped"),
        Builder(client, sample_image, log, NO_SETTINGS) as builder,
    ):
        builder.run("sleep", "sleep 1000", seconds=1000)


def test_an_image_that_does_not_exist_is_one_line(client: DockerClient, build_log: BuildLog) -> None:
    with (
        pytest.raises(BuildError, match=r"x: start a container: the engine failed: .*[Nn]o such image"),
        Builder(client, f"ml-bench/no-such-image-{os.getpid()}:1", build_log, NO_SETTINGS),
    ):
        pytest.fail("it started")


def test_a_builder_that_its_killed_process_never_started_is_swept_and_no_other(
    client: DockerClient, sample_image: str
) -> None:
    dead = json.dumps({**json.loads(owner()), "pid": 2**22 + 1})
    labels = {"dead": dead, "alive": owner(), "none": ""}
    made = {key: client.api.create_container(sample_image, ["true"], labels={BUILDER: label})["Id"]
            for key, label in labels.items()}  # fmt: skip
    try:
        sweep(client)
        left = {container["Id"] for container in client.api.containers(all=True, filters={"label": BUILDER})}
        assert {key for key, identity in made.items() if identity in left} == {"alive", "none"}
    finally:
        for key in ("alive", "none"):
            client.api.remove_container(made[key])
