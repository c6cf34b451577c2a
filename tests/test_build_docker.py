"""Images on the real engine: what is in them, what is shared, and what happens where one cannot be made."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ml_bench_metric.environments import layers as layering
from ml_bench_metric.environments import recipe as recipes
from ml_bench_metric.environments.base import BaseUnknown, find_base
from ml_bench_metric.environments.build_log import BuildError
from ml_bench_metric.environments.images import BUILDER, LACKING, MISSING, PARENT, RECIPE, REPOSITORIES, TASKS
from ml_bench_metric.environments.recipe import GPU_REQUIREMENTS, REQUIREMENTS, Checkout
from tests.image_builds import ImageBuilds, make_wheel
from tests.recipe_builders import PACKAGE, git, lock, take_away

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = pytest.mark.docker


# ---------------------------------------------------------------- what is in an image


def test_a_candidate_finds_python_and_its_own_files_without_network_or_root(image_builds: ImageBuilds) -> None:
    repository = image_builds.repository
    image_builds.write(environment={"SOME_VARIABLE": "some value"})
    image = image_builds.build_one()
    assert image.name.startswith(f"ml-bench/{image_builds.name}:")
    assert not image.reused
    program = f"cd {repository}; for p in python python3 /usr/bin/python3; do $p run.py; done; touch new; pwd"
    assert image_builds.output(image.name, "bash", "-ec", program).splitlines() == [
        *["first"] * 3,
        f"/workspace/{repository}",
    ]
    facts = (
        "id -un; echo $HOME; test -w $HOME; test -w /opt/assets; timeout 1 true; echo | head -n1; "
        "pip --version | cut -c1-3"
    )
    assert image_builds.output(image.name, "bash", "-ec", facts).split() == ["candidate", "/home/candidate", "pip"]
    stat = f"stat -c '%u:%g %Y %a %n' {repository} {repository}/run.py"
    assert image_builds.output(image.name, "sh", "-c", stat).splitlines() == [
        f"1000:1000 1577836800 755 {repository}",
        f"1000:1000 1577836800 644 {repository}/run.py",
    ]
    assert image_builds.output(image.name, "printenv", "SOME_VARIABLE") == "some value"


def test_steps_see_the_hosts_settings_and_the_image_has_none_of_them(
    image_builds: ImageBuilds, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "some.whl").touch()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "wheels" / "some.whl"))
    monkeypatch.setenv("http_proxy", "http://user:word@127.0.0.1:1")
    image_builds.write(
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
    image = image_builds.build_one()
    facts = image_builds.client.api.inspect_image(image.name)
    config = facts["Config"]
    base = find_base(image_builds.client, "3.11", "auto")
    assert base is not None
    assert {line.split("=")[0] for line in config["Env"]} <= {"PATH", "HOME", "LANG"} | {
        line.split("=")[0] for line in image_builds.client.api.inspect_image(base.digest)["Config"]["Env"]
    }
    assert not [line for line in config["Env"] if "proxy" in line.lower() or "PIP_" in line or "CA_BUNDLE" in line]
    assert "user:word" not in json.dumps(facts)
    assert not config.get("Entrypoint")
    assert not config.get("Cmd")
    assert config.get("User", "") in ("", "0")
    assert config["Labels"][BUILDER] == ""
    assert config["Labels"][RECIPE].startswith(image.name.rpartition(":")[2])
    assert config["Labels"][REPOSITORIES] == image_builds.repository
    assert config["Labels"][TASKS] == config["Labels"][LACKING] == ""
    assert config["Labels"][PARENT].startswith(f"ml-bench/packages:{image_builds.name}-")
    found = image_builds.output(image.name, "find", "/run", "/tmp", user="0")
    assert "/run/host" not in found
    assert "/tmp/left" not in found


def test_imports_are_tried_as_the_candidate_without_network_and_leave_nothing(image_builds: ImageBuilds) -> None:
    image_builds.write(
        "import site, pathlib\n"
        "pathlib.Path(site.getsitepackages()[0], 'some_module.py').write_text('''\n"
        "import os, pathlib\n"
        'assert os.getuid() == 1000 and os.environ["SOME_VARIABLE"] == "x"\n'
        'assert len(list(pathlib.Path("/sys/class/net").iterdir())) == 1\n'
        'pathlib.Path.home().joinpath("left").touch()\n'
        "''')\n",
        imports=["some_module"],
        environment={"SOME_VARIABLE": "x"},
    )
    image = image_builds.build_one()
    assert image_builds.output(image.name, "find", "/tmp", "/home/candidate", "-name", "left") == ""


def test_the_samples_image_has_what_its_candidates_import(image_builds: ImageBuilds, sample_image: str) -> None:
    version = image_builds.output(sample_image, "python", "-c", "import numpy; print(numpy.__version__)")
    assert version == "1.26.4"


# ---------------------------------------------------------------- what is made again


def test_an_unchanged_recipe_builds_nothing(image_builds: ImageBuilds) -> None:
    first = image_builds.build_one()
    image_builds.lines.clear()
    second = image_builds.build_one()
    assert second.reused
    assert (second.name, second.digest, second.size) == (first.name, first.digest, first.size)
    assert image_builds.lines == [f"{image_builds.name}: {first.name} is unchanged"]


def test_changed_files_are_put_on_the_same_packages_and_the_last_build_serves(image_builds: ImageBuilds) -> None:
    first = image_builds.build_one()
    image_builds.file.write_text("print('second')\n")
    image_builds.lines.clear()
    second = image_builds.build_one()
    assert second.name != first.name
    assert image_builds.steps("script.py") == [], "the packages were made again"
    assert image_builds.output(second.name, "python", f"{image_builds.repository}/run.py") == "second"
    assert [image.name for image in image_builds.serving()] == [second.name, first.name]
    image_builds.file.write_text("print('first')\n")
    assert image_builds.build_one().reused
    assert [image.name for image in image_builds.serving()] == [first.name, second.name]


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where pip looks for packages."""
    (tmp_path / "wheels").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return tmp_path / "wheels"


def test_a_changed_requirement_makes_its_own_layer_again_and_no_other(image_builds: ImageBuilds, wheels: Path) -> None:
    low = image_builds.write_set("print('low')", {REQUIREMENTS: make_wheel(wheels, "some_low", text="value = 1")})
    one, two = (make_wheel(wheels, "some_high", f"{number}.0", f"value = {number}") for number in (1, 2))
    image_builds.write("print('own')", {REQUIREMENTS: one}, extends=low, imports=["some_low", "some_high"])
    first = image_builds.build_one()
    assert image_builds.steps(f"pip install 1 requirements of {low}") != []
    image_builds.lines.clear()
    image_builds.write("print('own')", {REQUIREMENTS: f"# why\n{two}"}, extends=low, imports=["some_low", "some_high"])
    second = image_builds.build_one()
    assert image_builds.steps(f"pip install 1 requirements of {low}") == []
    assert len(image_builds.steps(f"pip install 1 requirements of {image_builds.name}")) == 1
    program = "import some_low, some_high; print(some_low.value, some_high.value)"
    assert image_builds.output(first.name, "python", "-c", program) == "1 1"
    assert image_builds.output(second.name, "python", "-c", program) == "1 2"
    lowest = [image_builds.labels(image_builds.labels(image.name)[PARENT])[PARENT] for image in (first, second)]
    assert lowest[0] == lowest[1]
    assert lowest[0].startswith(f"ml-bench/packages:{low}-")


@pytest.mark.parametrize("jobs", [1, 2])
def test_recipes_that_need_the_same_packages_make_them_once(image_builds: ImageBuilds, jobs: int) -> None:
    shared = image_builds.write_set("import time; time.sleep(2)")
    for name in ("", "-two"):
        image_builds.write(name=name, extends=shared, scripts=[], environment={"NAME": f"x{name}"})
    first, second = image_builds.build(image_builds.name, image_builds.name + "-two", jobs=jobs)
    assert len(image_builds.steps("script.py")) == 1
    assert image_builds.labels(first.name)[PARENT] == image_builds.labels(second.name)[PARENT]
    waited = [line for line in image_builds.lines if "waiting for ml-bench/packages:" in line]
    assert len(waited) == jobs - 1
    assert image_builds.output(second.name, "printenv", "NAME") == "x-two"


def test_an_image_for_a_gpu_has_its_own_packages_and_name(image_builds: ImageBuilds, wheels: Path) -> None:
    cpu, gpu = (make_wheel(wheels, "some_module", f"{number}.0", f"value = {number}") for number in (1, 2))
    files = {REQUIREMENTS: cpu, GPU_REQUIREMENTS: gpu}
    image_builds.write(files=files, gpu="optional")
    built = image_builds.build_one(device="gpu")
    assert f":gpu-{image_builds.labels(built.name)[RECIPE][:12]}" in built.name
    assert image_builds.output(built.name, "python", "-c", "import some_module; print(some_module.value)") == "2"
    assert image_builds.serving() == []
    assert [image.name for image in image_builds.serving(device="gpu")] == [built.name]
    image_builds.write(files=files, gpu="none")
    assert ":gpu-" not in image_builds.build_one(device="gpu").name, "nothing in it uses one"


def test_an_image_without_repositories_has_packages_and_is_offered_to_no_evaluation(image_builds: ImageBuilds) -> None:
    bare = image_builds.build_one(checkout=False)
    assert f"/{image_builds.name}:packages-only-" in bare.name
    assert image_builds.output(bare.name, "sh", "-c", "ls /workspace; ls /workspace/*; stat -c %U /workspace/*") == (
        f"{image_builds.repository}\ncandidate"
    )
    assert image_builds.serving() == []
    whole = image_builds.build_one()
    assert [image.name for image in image_builds.serving()] == [whole.name]


# ---------------------------------------------------------------- repositories from git mirrors


@pytest.fixture
def mirror(image_builds: ImageBuilds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror of the repository that the recipe serves, which is nowhere else."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "-q")
    for name in ("run.py", "weights.bin"):
        (origin / name).write_text(f"print({name!r})\n")
    git(origin, "add", "-A")
    git(origin, "commit", "-qm", "first")
    name = image_builds.repository
    folder = tmp_path / "mirrors" / f"owner+{name}"
    git(tmp_path, "clone", "-q", "--bare", str(origin), str(folder))
    commit = git(origin, "rev-parse", "HEAD")
    known = {name: Checkout(name, "https://127.0.0.1:1/nowhere", commit, "its-folder")}
    monkeypatch.setattr(recipes, "_pinned", lambda: known)
    image_builds.write(repositories=[name])
    return folder


def test_files_that_a_mirror_lacks_are_not_in_the_image_which_says_so(image_builds: ImageBuilds, mirror: Path) -> None:
    whole = image_builds.build_one(repositories=mirror.parent)
    assert whole.missing_files == 0
    take_away(mirror, "HEAD:weights.bin")
    part = image_builds.build_one(repositories=mirror.parent)
    assert part.missing_files == 1
    assert part.name != whole.name
    assert [image_builds.labels(image.name)[MISSING] for image in (whole, part)] == ["0", "1"]
    assert image_builds.output(whole.name, "ls", "its-folder") == "run.py\nweights.bin"
    assert image_builds.output(part.name, "ls", "its-folder") == "run.py"
    (told,) = (line for line in image_builds.lines if "lacks" in line)
    assert told.endswith(f"{mirror} lacks 1 files of the commit, which are left out: weights.bin")
    assert image_builds.serving()[0].missing_files == 1


def test_a_mirror_without_the_commit_fails_before_anything_is_made_and_costs_no_other_image(
    image_builds: ImageBuilds, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = image_builds.repository
    known = {name: Checkout(name, "https://127.0.0.1:1/nowhere", "1" * 40, name)}
    monkeypatch.setattr(recipes, "_pinned", lambda: known)
    image_builds.write(repositories=[name])
    other = image_builds.write(name="-other", scripts=[]).name
    with pytest.raises(BuildError) as error:
        image_builds.build(image_builds.name, other, repositories=mirror.parent)
    assert f"commit {'1' * 40} is not in {mirror}; bring the mirror up to date" in str(error.value)
    assert "1 of 2 images are ready; the same command goes on" in str(error.value)
    assert image_builds.steps("script.py") == []
    assert [image.recipe for image in image_builds.serving()] == [other]


# ---------------------------------------------------------------- what goes wrong


def test_a_failing_step_is_told_with_its_last_words(image_builds: ImageBuilds) -> None:
    image_builds.write("for n in range(100): print('line', n)\nraise SystemExit('the reason')")
    with pytest.raises(BuildError) as error:
        image_builds.build()
    assert f"{image_builds.name}: script.py: ended with status 1" in str(error.value)
    assert str(error.value).endswith("    line 98\n    line 99\n    the reason")
    assert "line 79" not in str(error.value)


def test_one_image_that_cannot_be_made_costs_no_other(image_builds: ImageBuilds) -> None:
    image_builds.write("raise SystemExit('the first reason')")
    names = [image_builds.name]
    for name, script in (("-fine", ""), ("-worse", "raise SystemExit('the last reason')"), ("-well", "")):
        names.append(image_builds.write(script, name=name).name)
    with pytest.raises(BuildError) as error:
        image_builds.build(*names, jobs=2)
    said = str(error.value)
    assert "the first reason" in said and "the last reason" in said
    assert said.endswith("\n2 of 4 images are ready; the same command goes on")
    assert {image.recipe for image in image_builds.serving()} == {names[1], names[3]}
    image_builds.write()
    assert [image.reused for image in image_builds.build(*names[:2])] == [False, True]


def test_an_import_that_fails_makes_no_image(image_builds: ImageBuilds) -> None:
    image_builds.write(imports=["no_such_module"])
    with pytest.raises(BuildError, match="No module named 'no_such_module'"):
        image_builds.build()
    assert image_builds.serving() == []


def test_a_requirement_that_does_not_exist_is_named(image_builds: ImageBuilds, wheels: Path) -> None:
    image_builds.write(files=lock("no-such-distribution==1.0"))
    with pytest.raises(BuildError, match=r"No matching distribution found for no-such-distribution==1\.0"):
        image_builds.build()


def test_a_further_index_is_asked_only_when_the_hosts_own_sources_do_not_do(
    image_builds: ImageBuilds, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_RETRIES", "0")
    index = "http://127.0.0.1:1/simple"
    image_builds.write(files={REQUIREMENTS: make_wheel(wheels, "some_module")}, pip_index=index)
    image_builds.build()
    assert [line for line in image_builds.lines if index in line] == []
    image_builds.write(files=lock("no-such-distribution==1.0"), pip_index=index)
    with pytest.raises(BuildError, match=r"with http://127\.0\.0\.1:1/simple: ended with status 1"):
        image_builds.build()
    assert [line for line in image_builds.lines if f"asking {index} too" in line]


def test_a_package_that_is_not_the_locked_one_is_not_installed_and_the_way_out_is_told(
    image_builds: ImageBuilds, wheels: Path
) -> None:
    pin = make_wheel(wheels, "some_module", text="value = 1")
    make_wheel(wheels, "some_module", text="raise SystemExit('somebody else was here')")
    image_builds.write(files={REQUIREMENTS: pin})
    with pytest.raises(BuildError) as error:
        image_builds.build()
    first_line = str(error.value).splitlines()[0]
    assert f"pip install 1 requirements of {image_builds.name}: ended with status 1" in first_line
    assert "not the one that requirements.txt names" in first_line
    assert "lock the requirements again" in first_line
    assert "some_module==1.0 from" in str(error.value)
    assert image_builds.serving() == []


def test_a_step_that_never_ends_is_stopped_with_all_that_it_started(
    image_builds: ImageBuilds, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = f"sleep 54321.{image_builds.name.rpartition('-')[2]}"
    monkeypatch.setattr(layering, "SCRIPT_SECONDS", 1)
    image_builds.write(
        "import signal, subprocess, time\n"
        "for number in (signal.SIGTERM, signal.SIGINT): signal.signal(number, signal.SIG_IGN)\n"
        f"subprocess.Popen({mark.split()}, start_new_session=True)\n"
        "print('about to hang', flush=True)\n"
        "time.sleep(1000)\n"
    )
    with pytest.raises(BuildError, match=r"not finished after 1 s(.|\n)*about to hang"):
        image_builds.build()
    assert mark not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout


def test_a_base_that_does_not_exist_is_refused_before_anything_is_made(image_builds: ImageBuilds) -> None:
    with pytest.raises(BaseUnknown, match="nothing"):
        image_builds.build(base="nothing.tar")
    assert image_builds.lines == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_container_is_left_however_a_parallel_build_is_ended(
    image_builds: ImageBuilds, client: DockerClient, number: signal.Signals
) -> None:
    script = "import time\nprint('in the middle', flush=True)\ntime.sleep(1000)"
    names = [image_builds.write(script, name=name).name for name in ("", "-two", "-three")]
    program = (
        "import pathlib, signal, sys, types\n"
        "from ml_bench_metric.environments import registry\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"folder = pathlib.Path({str(image_builds.folder.repositories)!r})\n"
        f"sys.modules[{PACKAGE!r}] = types.SimpleNamespace(repositories=lambda: folder)\n"
        f"root = pathlib.Path({str(image_builds.folder.root)!r})\n"
        "recipes, package_sets = registry.recipes, registry.package_sets\n"
        "registry.recipes, registry.package_sets = lambda: recipes(root), lambda: package_sets(root)\n"
        f"sys.argv = ['ml-bench', 'images', 'build', '--jobs', '2', *{names!r}]\n"
        "from ml_bench_cli.main import main\n"
        "main()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            running, line = 0, "nothing"
            while running < 2 and (line := process.stderr.readline()):
                running += "script.py …" in line
            assert len(image_builds.builders(process.pid)) == 2, line
            process.send_signal(number)
            process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == (-number if number == signal.SIGKILL else 130)
    deadline = time.monotonic() + 10  # of a killed one the engine hears when its connection ends
    while image_builds.builders(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert image_builds.builders(process.pid) == []


def test_a_build_waits_for_the_one_that_runs(image_builds: ImageBuilds) -> None:
    image_builds.write("import time; time.sleep(3)")
    program = (
        "import fcntl, pathlib, sys\n"
        f"path = pathlib.Path({str(image_builds.folder.root.parent / 'cache' / 'ml-bench' / 'build.lock')!r})\n"
        "path.parent.mkdir(parents=True)\n"
        "file = path.open('wb')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None and other.stdout is not None
        other.stdout.readline()
        holding = other.stdin

        def note(line: str) -> None:
            image_builds.lines.append(line)
            if "another build is running" in line:
                assert image_builds.builders() == []
                holding.close()

        image_builds.progress = note
        assert not image_builds.build_one().reused
    assert image_builds.lines[0] == "another build is running; waiting for its end"
