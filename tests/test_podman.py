"""Podman through its Docker-compatible socket keeps the contract; where it differs is said here, test by test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from tests.podman_engine import missing, podman_service, skip
from tests.sandbox_contract import ContainerContract, DockerRunner

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def run(sample_image: str) -> Iterator[DockerRunner]:
    if reason := missing():
        skip(reason)
    with podman_service(sample_image) as podman, pytest.MonkeyPatch.context() as patch:
        # As a user says it: nothing else tells the sandbox what it talks to.
        patch.setenv("DOCKER_HOST", podman.host)
        with DockerSandbox() as sandbox:
            yield DockerRunner(sandbox, podman.image)


class TestPodman(ContainerContract):
    """Podman keeps the contract."""
