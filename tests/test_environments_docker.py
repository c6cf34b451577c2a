"""Environments on the real engine: what is in an image, what is not, and that no container is ever left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from docker.errors import ImageNotFound

from ml_bench_metric.environments import build as building
from ml_bench_metric.environments import registry
from ml_bench_metric.environments.base import BaseUnknown, find_base
from ml_bench_metric.environments.build import BuiltImage, build, packages_digest
from ml_bench_metric.environments.build_log import BuildError
from ml_bench_metric.environments.builder import sweep
from ml_bench_metric.environments.images import BUILDER, RECIPE, REPOSITORIES, find_image, image_name, list_images
from ml_bench_metric.environments.recipe import read_recipe
from ml_bench_metric.sandbox.docker_engine import owner
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = pytest.mark.docker

NAME = f"test-environment-{os.getpid()}"
REPOSITORY = f"some-repository-{os.getpid()}"


class Recipes:
    """A folder with one recipe, whose facts a test may change, and the images that were built of it."""

    def __init__(self, folder: Path, client: DockerClient) -> None:
        self.client = client
        self.lines: list[str] = []
        self.folder = folder / "recipes" / NAME
        self.folder.mkdir(parents=True)
        self.file = folder / "repositories" / REPOSITORY / "run.py"
        self.file.parent.mkdir(parents=True)
        self.file.write_text("print('first')\n")
        self.write()

    def write(self, script: str = "", **facts: object) -> None:
        """Write the recipe. Its script makes its packages its own."""
        (self.folder / "script.py").write_text(f"# {NAME}\n{script}")
        recipe = {"name": NAME, "python": "3.11", "scripts": ["script.py"], "package": "some_repositories", **facts}
        (self.folder / "environment.yaml").write_text(json.dumps(recipe))

    def build(self, **options: Any) -> BuiltImage:
        registry.recipes.cache_clear()
        (image,) = build([NAME], self.client, progress=self.lines.append, **options)
        return image

    def remove_images(self) -> None:
        ours = [image for image in list_images(self.client) if image.recipe == NAME]
        names = [tag for image in ours for tag in self.client.images.get(image.digest).tags]
        parents = {self.client.api.inspect_image(image.digest)["Parent"] for image in ours}
        base = find_base(self.client, "3.11", "auto")
        assert base is not None
        packages = image_name("ml-bench/packages", packages_digest(read_recipe(self.folder), base))
        for name in [*names, *parents, packages]:
            with contextlib.suppress(ImageNotFound):
                self.client.images.remove(name, force=True)


@pytest.fixture
def client(docker_sandbox: DockerSandbox) -> DockerClient:
    return docker_sandbox.client


@pytest.fixture
def recipes(
    tmp_path: Path, client: DockerClient, monkeypatch: pytest.MonkeyPatch, sample_image: str
) -> Iterator[Recipes]:
    made = Recipes(tmp_path, client)
    package = SimpleNamespace(repositories=lambda: tmp_path / "repositories")
    monkeypatch.setitem(sys.modules, "some_repositories", package)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    read = registry.recipes

    def ours() -> Any:
        return read(made.folder.parent)

    ours.cache_clear = read.cache_clear  # type: ignore[attr-defined]
    monkeypatch.setattr(registry, "recipes", ours)
    yield made
    made.remove_images()
    assert builders(client, os.getpid()) == [], "a container was left behind"


def builders(client: DockerClient, process: int) -> list[str]:
    """Return the containers in which a process makes an image."""
    found = client.api.containers(all=True, filters={"label": BUILDER})
    labels = [(container["Id"], container["Labels"][BUILDER]) for container in found]
    return [identity for identity, label in labels if label and json.loads(label)["pid"] == process]


def output(client: DockerClient, image: str, *command: str, user: str = "1000:1000") -> str:
    raw: bytes = client.containers.run(image, list(command), user=user, network_mode="none", remove=True)
    return raw.decode().strip()


def test_a_candidate_finds_python_and_its_own_files_without_network_or_root(recipes: Recipes) -> None:
    recipes.write(environment={"SOME_VARIABLE": "some value"})
    image = recipes.build()
    assert image.name.startswith(f"ml-bench/{NAME}:")
    assert not image.reused
    program = f"cd {REPOSITORY}; for p in python python3 /usr/bin/python3; do $p run.py; done; touch new; pwd"
    assert output(recipes.client, image.name, "bash", "-ec", program).splitlines() == [
        *["first"] * 3,
        f"/workspace/{REPOSITORY}",
    ]
    facts = "id -un; echo $HOME; test -w $HOME; timeout 1 true; echo | head -n1; pip --version | cut -c1-3"
    assert output(recipes.client, image.name, "bash", "-ec", facts).split() == ["candidate", "/home/candidate", "pip"]
    stat = f"stat -c '%u:%g %Y %a %n' {REPOSITORY} {REPOSITORY}/run.py"
    assert output(recipes.client, image.name, "sh", "-c", stat).splitlines() == [
        f"1000:1000 1577836800 755 {REPOSITORY}",
        f"1000:1000 1577836800 644 {REPOSITORY}/run.py",
    ]
    assert output(recipes.client, image.name, "printenv", "SOME_VARIABLE") == "some value"


def test_steps_see_the_hosts_settings_and_the_image_has_none_of_them(
    recipes: Recipes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "some.whl").touch()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "wheels" / "some.whl"))
    monkeypatch.setenv("http_proxy", "http://user:word@127.0.0.1:1")
    recipes.write(
        "import os, pathlib\n"
        "assert [p.name for p in pathlib.Path(os.environ['PIP_FIND_LINKS']).iterdir()] == ['some.whl']\n"
        "assert pathlib.Path(os.environ['REQUESTS_CA_BUNDLE']).is_file()\n"
        "assert os.environ['http_proxy'] == 'http://user:word@127.0.0.1:1'\n"
        "assert os.getuid() == 0\n"
        "pathlib.Path('/tmp/left').touch()\n"
        "try:\n"
        "    (pathlib.Path(os.environ['PIP_FIND_LINKS']) / 'x').touch()\n"
        "except OSError:\n"
        "    pass\n"
        "else:\n"
        "    raise SystemExit('the folder of the host can be written to')\n"
    )
    image = recipes.build()
    facts = recipes.client.api.inspect_image(image.name)
    config = facts["Config"]
    assert {line.split("=")[0] for line in config["Env"]} <= {"PATH", "HOME", "LANG"} | {
        line.split("=")[0] for line in recipes.client.api.inspect_image(base_of(recipes.client))["Config"]["Env"]
    }
    assert not [line for line in config["Env"] if "proxy" in line.lower() or "PIP_" in line or "CA_BUNDLE" in line]
    assert "user:word" not in json.dumps(facts)
    assert not config.get("Entrypoint")
    assert not config.get("Cmd")
    assert config.get("User", "") in ("", "0")
    assert config["Labels"][BUILDER] == ""
    assert config["Labels"][RECIPE].startswith(image.name.rpartition(":")[2])
    assert config["Labels"][REPOSITORIES] == REPOSITORY
    found = output(recipes.client, image.name, "find", "/run", "/tmp", user="0")
    assert "/run/host" not in found
    assert "/tmp/left" not in found


def base_of(client: DockerClient) -> str:
    base = find_base(client, "3.11", "auto")
    assert base is not None
    return base.digest


def test_an_unchanged_recipe_builds_nothing_in_less_than_a_second(recipes: Recipes) -> None:
    first = recipes.build()
    recipes.lines.clear()
    second = recipes.build()
    assert second.reused
    assert (second.name, second.digest, second.size) == (first.name, first.digest, first.size)
    assert second.seconds < 1
    assert recipes.lines == [f"{NAME}: {first.name} is unchanged"]


def test_changed_files_are_put_on_the_same_packages_and_the_last_build_serves(recipes: Recipes) -> None:
    first = recipes.build()
    recipes.file.write_text("print('second')\n")
    recipes.lines.clear()
    second = recipes.build()
    assert second.name != first.name
    assert not [line for line in recipes.lines if "script.py" in line], "the packages were made again"
    assert output(recipes.client, second.name, "python", f"{REPOSITORY}/run.py") == "second"
    assert find_image(recipes.client, REPOSITORY) == second.name
    recipes.file.write_text("print('first')\n")
    assert recipes.build().reused
    assert find_image(recipes.client, REPOSITORY) == first.name
    assert find_image(recipes.client, NAME) is None


def test_a_failing_step_is_told_with_its_last_words(recipes: Recipes) -> None:
    recipes.write("for n in range(100): print('line', n)\nraise SystemExit('the reason')")
    with pytest.raises(BuildError) as error:
        recipes.build()
    assert f"{NAME}: script.py: ended with status 1" in str(error.value)
    assert str(error.value).endswith("    line 98\n    line 99\n    the reason")
    assert "line 79" not in str(error.value)


def test_an_import_that_fails_makes_no_image(recipes: Recipes) -> None:
    recipes.write(imports=["no_such_module"])
    with pytest.raises(BuildError, match="No module named 'no_such_module'"):
        recipes.build()
    assert find_image(recipes.client, REPOSITORY) is None


def test_a_requirement_that_does_not_exist_is_named(recipes: Recipes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    recipes.write(pip=["no-such-distribution==1.0"])
    with pytest.raises(BuildError, match=r"No matching distribution found for no-such-distribution==1\.0"):
        recipes.build()


def test_a_further_index_is_asked_only_when_the_hosts_own_sources_do_not_do(
    recipes: Recipes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_RETRIES", "0")
    recipes.write(pip=["no-such-distribution==1.0"], pip_index="http://127.0.0.1:1/simple")
    with pytest.raises(BuildError, match=r"with http://127\.0\.0\.1:1/simple: ended with status 1"):
        recipes.build()
    assert [line for line in recipes.lines if "asking http://127.0.0.1:1/simple too" in line]


def test_a_step_that_never_ends_is_stopped_with_all_that_it_started(
    recipes: Recipes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "SCRIPT_SECONDS", 1)
    recipes.write(
        "import signal, subprocess, time\n"
        "for number in (signal.SIGTERM, signal.SIGINT): signal.signal(number, signal.SIG_IGN)\n"
        f"subprocess.Popen(['sleep', '{54321 + os.getpid()}'], start_new_session=True)\n"
        "print('about to hang', flush=True)\n"
        "time.sleep(1000)\n"
    )
    with pytest.raises(BuildError, match=r"not finished after 1 s(.|\n)*about to hang"):
        recipes.build()
    assert str(54321 + os.getpid()) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_container_is_left_however_a_build_is_ended(recipes: Recipes, number: signal.Signals) -> None:
    recipes.write("import time\nprint('in the middle', flush=True)\ntime.sleep(1000)")
    program = (
        "import pathlib, signal, sys, types\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"folder = pathlib.Path({str(recipes.file.parent.parent)!r})\n"
        "sys.modules['some_repositories'] = types.SimpleNamespace(repositories=lambda: folder)\n"
        "from ml_bench_metric.environments import registry\n"
        f"read, root = registry.recipes, pathlib.Path({str(recipes.folder.parent)!r})\n"
        "registry.recipes = lambda: read(root)\n"
        f"sys.argv = ['ml-bench', 'images', 'build', {NAME!r}]\n"
        "from ml_bench_cli.main import main\n"
        "main()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while line := process.stderr.readline():
        if "script.py …" in line:
            break
    assert len(builders(recipes.client, process.pid)) == 1
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == (-number if number == signal.SIGKILL else 130)
    deadline = time.monotonic() + 10  # of a killed one the engine hears when its connection ends
    while builders(recipes.client, process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert builders(recipes.client, process.pid) == []


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


def test_a_base_that_does_not_exist_is_refused_before_anything_is_made(recipes: Recipes) -> None:
    with pytest.raises(BaseUnknown, match="nothing"):
        recipes.build(base="nothing.tar")
    assert recipes.lines == []


def test_the_samples_image_has_what_its_candidates_import(client: DockerClient, sample_image: str) -> None:
    version = output(client, sample_image, "python", "-c", "import numpy; print(numpy.__version__)")
    assert version == "1.26.4"
