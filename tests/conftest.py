"""Fixtures that every test may use."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from docker import DockerClient

    from ml_bench_metric.environments.build_log import BuildLog
    from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
    from tests.image_builds import ImageBuilds
    from tests.model_server import Serve
    from tests.recipe_builders import RecipeFolder

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_EVALUATE_OFFLINE", "1")
os.environ.setdefault("HF_UPDATE_DOWNLOAD_COUNTS", "0")
# No test meets what this user has validated or downloaded; those that need some have folders of their own.
# No folder can be made there: no test passes because another one has executed the same.
os.environ["ML_BENCH_CACHE"] = "/dev/null/ml-bench-executions"
os.environ["ML_BENCH_VALIDATIONS"] = "/nonexistent/ml-bench-validations"
os.environ["ML_BENCH_ASSETS"] = "/nonexistent/ml-bench-assets"


def pytest_addoption(parser: pytest.Parser) -> None:
    # Here because what a folder of tests adds by itself is read too late where all of them are run.
    parser.addoption("--sandbox", default="docker", help="where the hostile suite runs: docker, podman or process")


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
    from ml_bench_metric.environments.images import list_images, serving_images

    serving = serving_images(list_images(docker_sandbox.client), "tiny-gan", "tiny-gan/1")
    if not serving:
        pytest.fail("the sample's image is not built: run `make images` (or `ml-bench images build sample`)")
    return serving[0].name


@pytest.fixture
def recipe_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecipeFolder:
    """A folder whose recipes and package sets are all that there are."""
    from ml_bench_metric.environments import registry
    from tests.recipe_builders import PACKAGE, RecipeFolder

    folder = RecipeFolder(tmp_path)
    # Without the cache: a test writes recipes and reads them in turn.
    recipes, package_sets = registry.recipes.__wrapped__, registry.package_sets.__wrapped__
    monkeypatch.setattr(registry, "recipes", lambda: recipes(folder.root))
    monkeypatch.setattr(registry, "package_sets", lambda: package_sets(folder.root))
    monkeypatch.setitem(sys.modules, PACKAGE, SimpleNamespace(repositories=lambda: folder.repositories))
    return folder


@pytest.fixture
def build_log(tmp_path: Path) -> Iterator[BuildLog]:
    """The log of a build that is called `x`."""
    from ml_bench_metric.environments.build_log import BuildLog

    with BuildLog(tmp_path / "logs" / "x.log", lambda line: None, "x") as opened:
        yield opened


@pytest.fixture
def client(docker_sandbox: DockerSandbox) -> DockerClient:
    """The real engine."""
    return docker_sandbox.client


@pytest.fixture
def image_builds(
    recipe_folder: RecipeFolder, client: DockerClient, monkeypatch: pytest.MonkeyPatch, sample_image: str
) -> Iterator[ImageBuilds]:
    """Images built from the recipes of a test, with caches and logs of its own; gone behind it."""
    from tests.image_builds import ImageBuilds

    # The sample's image is asked for because its base is needed too.
    monkeypatch.setenv("XDG_CACHE_HOME", str(recipe_folder.root.parent / "cache"))
    builds = ImageBuilds(recipe_folder, client)
    yield builds
    builds.remove_images()
    assert builds.builders() == [], "a container was left behind"


@pytest.fixture
def serve() -> Iterator[Serve]:
    """What starts model servers; they end with the test."""
    from tests.model_server import ModelServer, Script

    with contextlib.ExitStack() as servers:

        def start(script: Script) -> ModelServer:
            return servers.enter_context(ModelServer(script))

        yield start
