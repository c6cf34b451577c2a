"""What else happens on the machine, or is made to happen by a candidate, does not decide on a verdict."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.limits import Limits
from ml_bench_metric.sandbox.protocol import Job
from tests.hostile.case import SMALL

pytestmark = pytest.mark.docker


def test_files_that_take_long_to_measure_do_not_hold_up_the_time_limit(
    docker_sandbox: DockerSandbox, sample_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_containers, measured = docker_sandbox.client.api.containers, []

    def as_with_millions_of_files(**options: Any) -> Any:
        if options.get("size"):
            measured.append(time.monotonic())
            time.sleep(5)
        return list_containers(**options)

    monkeypatch.setattr(docker_sandbox.client.api, "containers", as_with_millions_of_files)
    limits = Limits.model_validate({**SMALL, "seconds": 2})
    job = Job("sleep 3600", "bash", sample_image, "/workspace/tiny-gan", limits)
    found = docker_sandbox.prepare(job).run()
    assert measured
    assert found.outcome == "still_running", found.reason


def test_variables_that_another_thread_changes_are_no_fault_of_the_engine(
    docker_sandbox: DockerSandbox, sample_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed_meanwhile() -> dict[str, str]:
        raise KeyError("A_VARIABLE_THAT_HAS_JUST_GONE")

    monkeypatch.setattr("requests.utils.getproxies", changed_meanwhile)
    monkeypatch.setattr("requests.utils.proxy_bypass", lambda host: changed_meanwhile())
    limits = Limits.model_validate(SMALL)
    found = docker_sandbox.prepare(Job("exit 3", "bash", sample_image, "/workspace/tiny-gan", limits)).run()
    assert (found.outcome, found.status) == ("exited", 3), found.reason
