"""Fixtures that every test may use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_EVALUATE_OFFLINE", "1")
os.environ.setdefault("HF_UPDATE_DOWNLOAD_COUNTS", "0")


@pytest.fixture(autouse=True)
def _imports_are_left_as_they_were() -> Iterator[None]:
    """`evaluate.load` puts its module cache on the import path: that of one test must not serve the next one."""
    before = list(sys.path)
    yield
    sys.path[:] = before
    for name in [name for name in sys.modules if name.partition(".")[0] == "evaluate_modules"]:
        del sys.modules[name]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real rows and real answers, which are public but not part of this project."""
    folder = os.environ.get("ML_BENCH_REAL_DATA", "")
    if not folder:
        pytest.skip("ML_BENCH_REAL_DATA is not set: the tests on the real rows did NOT run")
    return Path(folder)


@pytest.fixture(scope="session")
def docker_sandbox() -> Iterator[DockerSandbox]:
    """A sandbox on the real engine. No engine is a failure, not a skip: these tests are what the project is about."""
    from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox

    with DockerSandbox() as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def sample_image(docker_sandbox: DockerSandbox) -> str:
    """The image of the sample's repositories."""
    from ml_bench_metric.environments.images import find_image

    name = find_image(docker_sandbox.client, "tiny-gan")
    if name is None:
        pytest.fail("the sample's image is not built: run `make images` (or `ml-bench images build sample`)")
    return name
