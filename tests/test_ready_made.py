"""Images that this project did not make: the repositories and conda environments of upstream's layout are found."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from ml_bench_metric.environments import ready_made
from ml_bench_metric.environments.base import find_base
from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.environments.inside import ask_inside
from ml_bench_metric.environments.ready_made import find, notes
from ml_bench_metric.judge import find_images
from ml_bench_metric.sandbox.docker_engine import list_containers
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.execution import Execution
from ml_bench_metric.sandbox.limits import Limits
from ml_bench_metric.sandbox.protocol import Job, SandboxError
from ml_bench_metric.tasks import WORKSPACE, Task, load_tasks

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = pytest.mark.docker

REPOSITORY = f"tmp-ready-made-{os.getpid()}"

# What conda makes, as far as a candidate sees it: a folder with its own Python, and a module that only that one has.
# {home} has both conda and the repositories.
LAYOUT = """
home={home}
for name in dgl_DS bert_DS; do
    python3 -m venv --without-pip "$home/miniconda3/envs/$name"
    site=$("$home/miniconda3/envs/$name/bin/python" -c "import site; print(site.getsitepackages()[0])")
    echo "name = '$name'" > "$site/environment_module.py"
done
mkdir -p "$home/repos/dgl/examples/gcn" "$home/repos/bert" "$home/repos/esm"
echo "import environment_module; print(environment_module.name)" > "$home/repos/dgl/examples/gcn/train.py"
echo "name = 'of bert'" > "$home/repos/bert/modeling.py"
"""
OF_ROOT = LAYOUT.format(home="/root") + "chmod 700 /root\n"
FOR_ALL = LAYOUT.format(home="/opt/bench") + "chmod -R a+rwX /opt/bench\n"
TO_READ = LAYOUT.format(home="/opt/bench") + "chmod -R a+rX,go-w /opt/bench\n"
ONE_FOLDER_CLOSED = FOR_ALL + "chmod 755 /opt/bench/repos/dgl/examples/gcn\n"
OF_SOMEBODY = (
    LAYOUT.format(home="/home/somebody")
    + "/usr/sbin/groupadd -g 1235 somebody; /usr/sbin/useradd -u 1234 -g 1235 -d /home/somebody somebody\n"
    + "chown -R 1234:1235 /home/somebody; chmod 700 /home/somebody\n"
)


class Images:
    """A system without labels and variables of ours, and images that a script makes of it."""

    def __init__(self, client: DockerClient) -> None:
        self.client = client
        self._api: Any = client.api
        self._made: dict[tuple[str, str], str] = {}
        base = find_base(client, "3.11", "auto")
        assert base is not None
        container = self._api.create_container(base.digest, ["true"])["Id"]
        try:
            self._import(self._api.export(container))
        finally:
            self._api.remove_container(container)

    def _import(self, system: Iterator[bytes]) -> None:
        changes = ["ENV PATH=/usr/local/bin:/usr/bin:/bin", "ENV LD_LIBRARY_PATH=/some/libraries"]
        self._api.import_image_from_data(b"".join(system), REPOSITORY, "system", changes)

    def make(self, script: str, user: str = "") -> str:
        """Return the digest of an image that a script has made, as root; once for each script."""
        if (script, user) not in self._made:
            container = self._api.create_container(f"{REPOSITORY}:system", ["sh", "-ec", script], network_disabled=True)
            try:
                self._api.start(container)
                assert self._api.wait(container)["StatusCode"] == 0, self._api.logs(container)
                tag = f"{len(self._made)}"
                made = self._api.commit(container, REPOSITORY, tag, conf={"User": user, "Cmd": ["no-such-program"]})
                self._made[script, user] = str(made["Id"])
            finally:
                self._api.remove_container(container)
        return self._made[script, user]

    def remove(self) -> None:
        for tag in [*map(str, range(len(self._made))), "system"]:
            self._api.remove_image(f"{REPOSITORY}:{tag}")


@pytest.fixture(scope="module")
def images(docker_sandbox: DockerSandbox) -> Iterator[Images]:
    made = Images(docker_sandbox.client)
    yield made
    made.remove()


def task(github_id: int, path: str, language: str = "Bash Script", address: str = "", number: int = 1) -> Task:
    address = address or {1: "dmlc/dgl", 2: "google-research/bert", 6: "facebookresearch/esm"}[github_id]
    texts = dict.fromkeys(("instruction", "oracle", "prefix_code", "output"), "")
    row = {"github_id": github_id, "github": f"https://github.com/{address}", "repo_id": number, "id": number}
    return Task.from_row({**row, **texts, "path": path, "arguments": "{}", "type": language})


DGL = task(1, "examples/gcn")
BERT = task(2, "./", "Python Code")
ESM = task(6, "./")
LEARNING3D = task(13, "./", address="vinits5/learning3d")


def run(sandbox: DockerSandbox, image: TaskImage, of: Task, program: str) -> Execution:
    """Run a program as `Evaluation` does."""
    job = Job(
        program=program,
        language=of.language,
        image=image.digest,
        working_folder=image.root + of.working_folder.removeprefix(WORKSPACE),
        limits=Limits(seconds=30),
        variables={**image.variables, **of.variables},
        user=image.user,
    )
    return sandbox.prepare(job).run()


BASH_PROGRAM = """
python train.py
python -c 'import sys; print(sys.prefix)'
touch new ../new && echo written
echo "$CONDA_DEFAULT_ENV" "$CONDA_PREFIX" "$(id -u):$(id -g)"
grep -h CapEff /proc/self/status
"""
PYTHON_PROGRAM = """
import environment_module, modeling, os, sys
print(environment_module.name, modeling.name, sys.executable, os.getuid())
"""


@pytest.mark.parametrize(
    ("script", "home", "own", "user"),
    [
        (FOR_ALL, "/opt/bench", "", "1000:1000"),
        (OF_ROOT, "/root", "", "0:0"),
        (OF_ROOT, "/root", "root", "0:0"),
        (TO_READ, "/opt/bench", "", "0:0"),
        (ONE_FOLDER_CLOSED, "/opt/bench", "", "0:0"),
        (OF_SOMEBODY, "/home/somebody", "somebody", "1234:1235"),
    ],
    ids=["for all", "root's home", "root by name", "read only", "one folder read only", "somebody's home"],
)
def test_candidates_run_with_their_repositorys_own_python_as_a_user_who_can_write(
    images: Images, docker_sandbox: DockerSandbox, script: str, home: str, own: str, user: str
) -> None:
    digest = images.make(script, own)
    found, missing = find(images.client, "some/image", digest, [DGL, BERT])
    assert missing == {}
    assert {image.digest for image in found.values()} == {digest}
    assert {image.root for image in found.values()} == {f"{home}/repos"}
    assert {image.assets for image in found.values()} == {"unknown"}
    by_id = {"1000:1000": found[BERT.task_id].user} if script == ONE_FOLDER_CLOSED else {}
    assert found[DGL.task_id].user == user
    assert found[BERT.task_id].user == by_id.get("1000:1000", user)

    bash = run(docker_sandbox, found[DGL.task_id], DGL, BASH_PROGRAM)
    prefix = f"{home}/miniconda3/envs/dgl_DS"
    assert bash.stdout.head.splitlines() == [
        "dgl_DS",
        prefix,
        "written",
        f"dgl_DS {prefix} {user}",
        "CapEff:\t0000000000000000",
    ], bash
    python = run(docker_sandbox, found[BERT.task_id], BERT, PYTHON_PROGRAM)
    uid = found[BERT.task_id].user.partition(":")[0]
    assert python.stdout.head == f"bert_DS of bert {home}/miniconda3/envs/bert_DS/bin/python {uid}\n", python
    if user == "1000:1000":
        assert notes(found.values()) == []
    else:
        (note,) = notes(found.values())
        assert f"run as user {user}" in note


def test_what_the_image_lacks_is_told_for_each_task_with_the_way_out(images: Images) -> None:
    found, missing = find(images.client, "some/image", images.make(FOR_ALL), [DGL, ESM, LEARNING3D])
    assert list(found) == [DGL.task_id]
    assert missing == {
        ESM.task_id: "image some/image has /opt/bench/repos/esm, but no conda environment esm_DS with a Python that "
        "starts; give another --image, or none",
        LEARNING3D.task_id: "image some/image has no folder learning3d, neither in /workspace nor in a folder repos; "
        "give another --image, or none",
    }


def test_a_folder_that_nobody_may_use_is_told_with_the_user(images: Images) -> None:
    digest = images.make(FOR_ALL + "chown -R 4321 /opt/bench/repos/dgl; chmod -R go-w /opt/bench/repos/dgl")
    _, missing = find(images.client, "some/image", digest, [DGL])
    assert "/opt/bench/repos/dgl, but user 0:0 cannot read and write it" in missing[DGL.task_id]


def test_the_image_is_looked_into_once_and_no_container_is_left(
    images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def counted(*arguments: Any, **options: Any) -> str:
        asked.append(options["user"])
        return ask_inside(*arguments, **options)

    monkeypatch.setattr(ready_made, "ask_inside", counted)
    digest = images.make(OF_ROOT + "touch /another")
    first = find(images.client, "some/image", digest, [DGL, BERT])
    assert asked == ["1000:1000", "0:0"]
    assert find(images.client, "another/name", digest, [DGL, BERT]) == first
    assert asked == ["1000:1000", "0:0"]
    assert not [record for record in list_containers(images.client) if record["ImageID"] == digest]


def test_the_hooks_of_an_environment_set_what_conda_activate_would(
    images: Images, docker_sandbox: DockerSandbox
) -> None:
    hooks = "/opt/bench/miniconda3/envs/{}/etc/conda/activate.d"
    script = FOR_ALL + "\n".join(
        [
            f"mkdir -p {hooks.format('dgl_DS')} {hooks.format('bert_DS')}",
            f"echo 'export SOME_DATA=$CONDA_PREFIX/share; echo noise' > {hooks.format('dgl_DS')}/a.sh",
            f"echo 'cat; exit 3' > {hooks.format('bert_DS')}/a.sh",
        ]
    )
    found, missing = find(images.client, "some/image", images.make(script), [DGL, BERT])
    assert run(docker_sandbox, found[DGL.task_id], DGL, "echo $SOME_DATA").stdout.head == (
        "/opt/bench/miniconda3/envs/dgl_DS/share\n"
    )
    assert set(found[DGL.task_id].variables) == {"PATH", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "SOME_DATA"}
    assert "no conda environment bert_DS" in missing[BERT.task_id]


def test_a_python_that_needs_its_environments_libraries_gets_them_before_the_images_own(images: Images) -> None:
    python = "/opt/bench/miniconda3/envs/dgl_DS/bin/python"
    needs = 'case "$LD_LIBRARY_PATH" in /opt/bench/*) exec python3 "$@" ;; *) exit 127 ;; esac'
    script = FOR_ALL + f"rm {python}; printf '#!/bin/sh\\n%s\\n' '{needs}' > {python}; chmod 755 {python}"
    found, _ = find(images.client, "some/image", images.make(script), [DGL, BERT])
    libraries = "/opt/bench/miniconda3/envs/dgl_DS/lib:/some/libraries"
    assert found[DGL.task_id].variables["LD_LIBRARY_PATH"] == libraries
    assert "LD_LIBRARY_PATH" not in found[BERT.task_id].variables


@pytest.mark.parametrize("folder", ["/repos", "/data/repos", "/home/some body/bench/repos"])
def test_repositories_are_found_wherever_the_folder_repos_lies(images: Images, folder: str) -> None:
    script = FOR_ALL + f"mkdir -p '{folder}'; mv /opt/bench/repos/dgl '{folder}'; chmod a+rx '{folder}'"
    found, _ = find(images.client, "some/image", images.make(script), [DGL, BERT])
    assert found[DGL.task_id].root == folder
    assert found[BERT.task_id].root == "/opt/bench/repos"


def test_one_of_our_own_images_serves_with_its_own_python_and_never_as_root(
    docker_sandbox: DockerSandbox, sample_image: str
) -> None:
    client, tasks = docker_sandbox.client, load_tasks("sample", "L").tasks
    digest = docker_sandbox.image_digest(sample_image)
    found, missing = find(client, sample_image, digest, [*tasks, DGL])
    assert found == {task.task_id: TaskImage(digest, "not_needed") for task in tasks}
    assert list(missing) == [DGL.task_id]
    assert "has no folder dgl" in missing[DGL.task_id]
    seen = {user for _, of, user in ready_made._known if of == digest}
    assert seen == {"1000:1000"}


def test_an_image_without_the_programs_that_a_candidate_needs_is_an_error_with_its_reason(images: Images) -> None:
    digest = images.make("rm /usr/bin/timeout")
    with pytest.raises(SandboxError, match="no timeout in the image"):
        find(images.client, "some/image", digest, [DGL])


def test_an_image_that_has_gone_is_named(docker_sandbox: DockerSandbox) -> None:
    with pytest.raises(SandboxError, match="no image some/image"):
        find(docker_sandbox.client, "some/image", "sha256:" + "0" * 64, [DGL])


def test_the_judge_takes_a_given_image_as_it_is_found(images: Images, docker_sandbox: DockerSandbox) -> None:
    digest = images.make(FOR_ALL)
    found = find_images(docker_sandbox, [DGL, ESM], digest)
    assert found.of(DGL).root == "/opt/bench/repos"
    with pytest.raises(SandboxError, match="no conda environment esm_DS"):
        found.of(ESM)
