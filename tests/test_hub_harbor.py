"""Split A as Harbor tasks: complete, readable by Harbor and `datasets`, and judged as ML-Bench judges agents."""

from __future__ import annotations

import io
import json
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import pytest
import yaml

from ml_bench_dataset import DataError, read_split
from ml_bench_hub.check import check_folder
from ml_bench_hub.errors import HubError
from ml_bench_hub.folder import MANIFEST, read_manifest
from ml_bench_hub.harbor import REGISTRY, build_harbor
from ml_bench_hub.harbor_check import _read_toml
from ml_bench_hub.harbor_image import harbor_image
from ml_bench_hub.harbor_task import instruction, judge_script, slug, solve_script, task_toml
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.tasks import Task, load_tasks
from tests.hf_caches import task_rows, write_source
from tests.recipe_builders import RecipeFolder, lock

TASKS = {task.task_id: task for task in load_tasks("sample", "A").tasks}
BASH, PYTHON = TASKS["tiny-gan/1"], TASKS["tiny-gan/6"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "harbor"
    build_harbor(out, source="sample", namespace="lab")
    return out


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """A copy to be broken, without its manifest: what is broken is to be found, not that it was changed."""
    copy = Path(shutil.copytree(built, tmp_path / "harbor"))
    (copy / MANIFEST).unlink()
    return copy


def changed(task: Task, **fields: object) -> Task:
    return Task.model_validate({**task.model_dump(), **fields})


# ---------------------------------------------------------------- the folder


def test_every_task_has_its_files(built: Path) -> None:
    wanted = {"task.toml", "instruction.md", "environment/Dockerfile", "tests/test.sh", "solution/solve.sh"}
    folders = {path.name: path for path in (built / "tasks").iterdir()}
    assert folders.keys() == {slug(task) for task in TASKS.values()}
    for folder in folders.values():
        files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        others = files - wanted
        assert wanted <= files
        assert {name for name in others if not name.startswith("environment/tiny-")} == {
            "environment/0-sample-requirements.txt"
        }
        assert (folder / "tests/test.sh").stat().st_mode & 0o111
    (registry,) = json.loads((built / REGISTRY).read_text())
    assert {task["path"] for task in registry["tasks"]} == {f"tasks/{name}" for name in folders}
    assert not list(built.rglob("__pycache__"))


def test_datasets_reads_it_with_its_own_harbor_builder(built: Path, tmp_path: Path) -> None:
    rows = datasets.load_dataset(str(built), split="test", cache_dir=str(tmp_path))
    assert sorted(rows["name"]) == sorted(f"ml-bench/{slug(task)}" for task in TASKS.values())
    by_id = {row["metadata"]["task_id"]: row for row in rows}
    for task_id, task in TASKS.items():
        assert task.instruction.strip() in by_id[task_id]["instruction"]
        assert by_id[task_id]["config"]["verifier"]["timeout_sec"] > 120
        assert "tests/test.sh" in by_id[task_id]["files"]
    streamed = datasets.load_dataset(str(built), split="test", streaming=True)
    assert len(list(streamed)) == len(TASKS)


def test_a_built_folder_is_fine_and_built_again_the_same(built: Path, tmp_path: Path) -> None:
    assert check_folder(built) == []
    build_harbor(tmp_path / "again", source="sample", namespace="lab")
    assert (tmp_path / "again" / MANIFEST).read_bytes() == (built / MANIFEST).read_bytes()
    assert read_manifest(built).kind == "harbor"
    definition = yaml.safe_load((built / "eval.yaml").read_text())
    assert (definition["evaluation_framework"], definition["tasks"][0]["split"]) == ("harbor", "test")
    assert "eval.yaml" not in build_harbor(tmp_path / "without", source="sample", eval_yaml=False).files


def test_the_readme_names_the_namespace_and_the_version(built: Path) -> None:
    text = (built / "README.md").read_text()
    assert "https://huggingface.co/datasets/lab/ml-bench-a-harbor -d ml-bench-a@1.0.0" in text
    assert "<namespace>" not in text and "<version>" not in text


def test_no_answer_lies_where_the_agent_works(built: Path) -> None:
    for task in TASKS.values():
        folder = built / "tasks" / slug(task)
        told = (folder / "instruction.md").read_text() + (folder / "environment/Dockerfile").read_text()
        assert task.output.strip() not in told


def test_tasks_of_a_source_without_the_split_leave_nothing(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", task_rows(2), None)
    with pytest.raises(DataError, match="quarter"):
        build_harbor(tmp_path / "out", source=str(source))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"path": "./a\nRUN evil"}, "column path is"),
        ({"path": "$HOME"}, "column path is"),
        ({"github": "https://example.org/lab/x\ny/toy-repo"}, "column github is"),
        ({"github": "git@example.org:lab/toy-repo"}, "column github is"),
        ({"commit": "main; evil"}, "column commit is"),
    ],
)
def test_values_that_would_mean_something_else_in_a_dockerfile_are_refused(
    change: dict[str, str], reason: str, tmp_path: Path
) -> None:
    row = {**task_rows(1)[0], **change}
    source = write_source(tmp_path / "source", [row], [row])
    with pytest.raises(HubError, match=reason):
        build_harbor(tmp_path / "out", source=str(source))
    assert not (tmp_path / "out").exists()


@pytest.mark.real_data
def test_the_published_tasks_are_fine(real_data: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    build_harbor(tmp_path / "out", source=str(real_data / "upstream"), progress=lines.append)
    assert check_folder(tmp_path / "out") == []
    assert len(list((tmp_path / "out" / "tasks").iterdir())) == 68
    for row in read_split(str(real_data / "upstream"), "quarter").rows:
        folder = tmp_path / "out" / "tasks" / str(row["task_id"]).replace("/", "__")
        assert f"{row['commit']}" in (folder / "environment/Dockerfile").read_text()


# ---------------------------------------------------------------- faults of a folder


def _no_task_file(folder: Path) -> None:
    (folder / "tasks/tiny-gan__1/task.toml").unlink()
    (folder / REGISTRY).write_text((folder / REGISTRY).read_text().replace("tiny-gan__1", "tiny-gan__6", 2))


def _no_judge(folder: Path) -> None:
    (folder / "tasks/tiny-gan__1/tests/test.sh").unlink()


def _empty_instruction(folder: Path) -> None:
    (folder / "tasks/tiny-gan__1/instruction.md").write_text(" \n")


def _toml(old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "tasks/tiny-gan__1/task.toml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return change


def _registry(text: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / REGISTRY).write_text(text)

    return change


def _no_registry(folder: Path) -> None:
    (folder / REGISTRY).unlink()


def _not_listed(folder: Path) -> None:
    shutil.copytree(folder / "tasks/tiny-gan__1", folder / "tasks/more")
    path = folder / "tasks/more/task.toml"
    path.write_text(path.read_text().replace("tiny-gan__1", "more"))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (_no_task_file, "tasks/tiny-gan__1: has no task.toml"),
        (_no_judge, "tasks/tiny-gan__1: there is no tests/test.sh"),
        (_empty_instruction, "tasks/tiny-gan__1: instruction.md is empty"),
        (_toml("[task]", "[task"), "tasks/tiny-gan__1/task.toml: is not TOML"),
        (_toml("ml-bench/tiny-gan__1", "tiny gan"), "tasks/tiny-gan__1/task.toml: task.name: String should match"),
        (_toml("ml-bench/tiny-gan__1", "ml-bench/tiny-gan__6"), "task.name: ml-bench/tiny-gan__6 is also that of"),
        (_toml("timeout_sec = 1800.0", "timeout_sec = -1"), "tasks/tiny-gan__1/task.toml: agent.timeout_sec"),
        (_toml('"public"', '"full"'), "tasks/tiny-gan__1/task.toml: environment.network_mode"),
        (_toml("cpus = 2", "cpu = 2"), "tasks/tiny-gan__1/task.toml: environment.cpus: Field required"),
        (_toml('schema_version = "1.4"', ""), "tasks/tiny-gan__1/task.toml: schema_version: Field required"),
        (_registry("{"), f"{REGISTRY}: is no list of data sets"),
        (_registry("[3]"), f"{REGISTRY}: is no list of data sets"),
        (_no_registry, f"{REGISTRY}: there is none"),
        (_not_listed, f"{REGISTRY}: does not list tasks/more"),
    ],
)
def test_faults_are_named(folder: Path, change: Callable[[Path], None], line: str) -> None:
    change(folder)
    problems = check_folder(folder)
    assert problems and any(line in problem for problem in problems), problems
    assert all("\n" not in problem for problem in problems)


def test_a_folder_without_tasks(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    assert "tasks: there is no task: no file tasks/*/task.toml" in check_folder(tmp_path)


# ---------------------------------------------------------------- the files of a task


def test_task_toml_holds_every_text_exactly(tmp_path: Path) -> None:
    nasty = 'quotes " \\ \x7f \x01 \t ünï 🛑 \n[agent]\ntimeout_sec = 0'
    task = changed(BASH, domain=nasty)
    (tmp_path / "task.toml").write_text(task_toml(task, "bare", "1.0.0"), encoding="utf-8")
    content = _read_toml(tmp_path / "task.toml")
    assert content["metadata"]["domain"] == nasty and nasty in content["task"]["keywords"]
    assert content["agent"] == {"timeout_sec": 1800.0}
    assert "commit" not in content["metadata"]  # not published: left out, not empty


def test_instructions_tell_the_task_the_folder_and_the_preparation() -> None:
    task = changed(PYTHON, path="./sub/folder", prefix_code="pip install x\n```\necho\n````\n", commit="c" * 40)
    text = instruction(task, "bare")
    assert task.instruction.strip() in text
    assert "`/workspace/tiny-gan/sub/folder`" in text and "c" * 40 in text
    assert "`````\npip install x\n```\necho\n````\n`````" in text
    assert "setting them up is part of the task" in text
    assert "are installed" in instruction(task, "prepared")
    assert "Preparation" not in instruction(changed(BASH, prefix_code=" \n"), "prepared")


def test_names_are_those_that_harbor_takes() -> None:
    assert slug(BASH) == "tiny-gan__1"
    assert slug(changed(BASH, task_id="two words/1#2")) == "two-words__1-2"


def test_tasks_that_would_share_a_folder_are_refused(tmp_path: Path) -> None:
    rows = [{**task_rows(1)[0], "github": f"https://example.org/{name}"} for name in ("a+b", "a b")]
    rows = [{**row, "github_id": number} for number, row in enumerate(rows)]
    source = write_source(tmp_path / "source", rows, rows)
    with pytest.raises(HubError, match=r"a\+b/1 and a b/1 would have the same folder|which no Dockerfile can name"):
        build_harbor(tmp_path / "out", source=str(source))


def run_solution(task: Task, tmp_path: Path) -> Path:
    """Run `solve.sh` with its folder moved, and return that folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    script = solve_script(task).replace(f"cd {shlex.quote(task.working_folder)}", f"cd {shlex.quote(str(folder))}")
    subprocess.run(["bash", "-c", script], check=True)
    return folder


@pytest.mark.parametrize(
    "text",
    ["echo 'a'", 'echo "$HOME" `id`', "END_OF_FILE\necho x\nEND_OF_FILE_", "a\\\n  b", "x\n", "printf 'ä🛑'", "a\r\nb"],
)
def test_the_reference_arrives_in_run_sh_as_it_is(text: str, tmp_path: Path) -> None:
    task = changed(BASH, output=text, prefix_code="export NAME='a b'\nexport B=$NAME/c\npip install x")
    content = (run_solution(task, tmp_path) / "run.sh").read_bytes().decode()
    assert content == f"export NAME='a b'\nexport B='a b/c'\n{text}\n"


def test_a_python_reference_is_run_as_a_file_in_the_folder(tmp_path: Path) -> None:
    program = "import sys, pathlib\nprint(sys.path[0] == str(pathlib.Path.cwd()), '$x')"
    folder = run_solution(changed(PYTHON, output=program), tmp_path)
    assert (folder / "ml_bench_reference.py").read_text() == program + "\n"
    script = (folder / "run.sh").read_text().replace("python ", f"{sys.executable} ")
    ran = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    assert ran.stdout == "True $x\n"


def test_scripts_are_well_formed() -> None:
    for task in TASKS.values():
        for script in (judge_script(task), solve_script(task)):
            subprocess.run(["bash", "-n"], input=script, text=True, check=True)


# ---------------------------------------------------------------- environments


def test_a_repository_with_a_recipe_is_prepared_by_it() -> None:
    image = harbor_image(BASH)
    assert image.start == "prepared"
    lines = image.dockerfile.splitlines()
    assert lines[:2] == ["ARG BASE=python:3.11-slim-bookworm", "FROM ${BASE}"]
    file = "0-sample-requirements.txt"
    install = f"python -m pip install --no-cache-dir --no-deps --require-hashes -r /tmp/{file}"
    assert lines[2:4] == [f'COPY ["{file}", "/tmp/{file}"]', f"RUN {install} && rm /tmp/{file}"]
    assert image.files[file].read_text().startswith("numpy==1.26.4 ")
    assert 'COPY ["tiny-gan", "/workspace/tiny-gan"]' in lines
    assert lines[-1] == "WORKDIR /workspace/tiny-gan"
    assert [path.name for path in image.folders.values()] == ["tiny-gan"]


def test_all_layers_of_a_recipe_come_in_their_order_each_with_its_own_files(recipe_folder: RecipeFolder) -> None:
    # A script and a name that are there twice must not become one file.
    low = {**lock("a==1"), "fix.py": "print('fix')"}
    recipe_folder.package_set("low", low, apt=["libgl1"], scripts=["fix.py"], imports=["a"])
    recipe_folder.package_set("some", lock("b==1"), extends="low", pip_index="https://example.org/simple")
    recipe_folder.recipe(
        "some",
        {**lock("c==1"), "fix.py": "print('another')"},
        extends="some",
        scripts=["fix.py"],
        imports=["a", "c"],
        environment={"A": "$x"},
        repositories=["dgl"],
    )
    image = harbor_image(changed(BASH, github="https://github.com/dmlc/dgl", repository="dgl", commit="a" * 40))
    steps = [line for line in image.dockerfile.splitlines() if line.startswith(("RUN", "ENV"))]
    lock_file = "requirements.txt"
    wanted = [*("git", "libgl1"), f"0-low-{lock_file}", "0-low-fix.py", f"1-some-{lock_file}", f"2-some-{lock_file}"]
    wanted += ["2-some-fix.py", 'ENV A="\\$x"', "git fetch", "python -c 'import a, c'"]
    assert [part for part, step in zip(wanted, steps, strict=True) if part not in step] == []
    assert [step for step in steps if "--extra-index-url https://example.org/simple" in step] == steps[4:5]
    texts = {name: path.read_text().split(" ")[0] for name, path in image.files.items()}
    assert texts == {
        f"0-low-{lock_file}": "a==1",
        f"1-some-{lock_file}": "b==1",
        f"2-some-{lock_file}": "c==1",
        "0-low-fix.py": "print('fix')",
        "2-some-fix.py": "print('another')",
    }


def test_a_task_with_a_recipe_of_its_own_is_prepared_by_that(recipe_folder: RecipeFolder) -> None:
    recipe_folder.repository("tiny-gan")
    recipe_folder.recipe("part", tasks=[BASH.task_id], environment={"PART": "yes"})
    recipe_folder.recipe("whole")
    assert "ENV PART" in harbor_image(BASH).dockerfile
    assert "ENV PART" not in harbor_image(PYTHON).dockerfile


def test_a_repository_without_one_is_bare_at_its_commit() -> None:
    task = changed(BASH, github="https://github.com/lab/other", repository="other", commit="a" * 40, path="x/y/")
    image = harbor_image(task)
    assert (image.start, dict(image.folders), dict(image.files)) == ("bare", {}, {})
    assert f"git fetch -q --depth=1 https://github.com/lab/other {'a' * 40}" in image.dockerfile
    assert image.dockerfile.splitlines()[-1] == "WORKDIR /workspace/other/x/y"


# ---------------------------------------------------------------- the judge, in a container


class Box:
    """A container as Harbor starts it, in which a script is judged."""

    def __init__(self, client: Any, image: str) -> None:
        self._api = client.api
        host = self._api.create_host_config(network_mode="none", auto_remove=True)
        self._id = self._api.create_container(image, ["sh", "-c", "sleep infinity"], host_config=host, entrypoint=[])[
            "Id"
        ]
        self._api.start(self._id)

    def run(self, command: str) -> str:
        run = self._api.exec_create(self._id, ["bash", "-c", command], user="0:0")["Id"]
        return str(self._api.exec_start(run).decode())

    def put(self, path: str, text: str) -> None:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            member = tarfile.TarInfo(path.lstrip("/"))
            member.size, member.mode = len(text.encode()), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
        self._api.put_archive(self._id, "/", buffer.getvalue())

    def judge(self, task: Task, seconds: int = 120) -> tuple[str, str]:
        """Return reward and reason, as Harbor's verifier comes to them."""
        self.put("/tests/test.sh", judge_script(task, seconds))
        self.run("mkdir -p /logs/verifier; /tests/test.sh > /logs/verifier/test-stdout.txt 2>&1")
        files = self.run("ls /logs/verifier").split()
        assert "reward.json" not in files, "Harbor would believe it before reward.txt"
        reason = self.run("tail -n 1 /logs/verifier/test-stdout.txt").strip()
        return self.run("cat /logs/verifier/reward.txt").strip(), reason

    def remove(self) -> None:
        self._api.remove_container(self._id, force=True)


@pytest.fixture
def box(docker_sandbox: DockerSandbox, sample_image: str) -> Iterator[Box]:
    box = Box(docker_sandbox.client, sample_image)
    yield box
    box.remove()


@pytest.mark.docker
class TestJudge:
    def test_nothing_done_is_no_reward(self, box: Box) -> None:
        assert box.judge(BASH) == ("0", "there is no run.sh in /workspace/tiny-gan")

    @pytest.mark.parametrize("task", [BASH, PYTHON], ids=["bash", "python"])
    def test_the_reference_is_rewarded(self, box: Box, task: Task) -> None:
        box.put("/solution/solve.sh", solve_script(task))
        assert box.run("bash /solution/solve.sh") == ""
        assert box.judge(task) == ("1", "run.sh ended with status 0")

    @pytest.mark.parametrize(
        ("script", "reward", "reason"),
        [
            ("exit 3", "0", "run.sh ended with status 3"),
            ("exit 124", "0", "run.sh ended with status 124"),
            ("kill -9 $$", "0", "run.sh ended with status 137"),
            ("if", "0", "run.sh ended with status 2"),
            ("cat; exit 0", "1", "run.sh ended with status 0"),
            ("yes | head -c 50000000", "1", "run.sh ended with status 0"),
            ("sleep 1000", "1", "run.sh was still running after 1 s"),
            ("trap '' TERM; while :; do sleep 1; done", "1", "run.sh was still running after 1 s"),
            ("echo '{\"reward\": 1}' > /logs/verifier/reward.json; exit 1", "0", "run.sh ended with status 1"),
            ("mkdir -p /logs/verifier/reward.txt/x; exit 1", "0", "run.sh ended with status 1"),
            (
                "(setsid bash -c 'while :; do echo 1 > /logs/verifier/reward.txt; done' &) ; sleep 0.2; exit 1",
                "0",
                "run.sh ended with status 1",
            ),
        ],
    )
    def test_scripts(self, box: Box, script: str, reward: str, reason: str) -> None:
        box.put("/workspace/tiny-gan/run.sh", script)
        assert box.judge(BASH, seconds=1) == (reward, reason)
        assert int(box.run("stat -c %s /logs/verifier/run.log")) <= 1_000_000

    def test_what_the_agent_left_running_has_ended_before_run_sh_begins(self, box: Box) -> None:
        box.run("setsid bash -c 'while :; do date > /workspace/tiny-gan/alive; done' > /dev/null 2>&1 &")
        box.put("/workspace/tiny-gan/run.sh", "rm alive; sleep 0.3; test ! -e alive")
        assert box.judge(BASH, seconds=5) == ("1", "run.sh ended with status 0")


@pytest.mark.docker
def test_the_environment_builds_and_its_oracle_is_rewarded(
    built: Path, docker_sandbox: DockerSandbox, sample_image: str
) -> None:
    folder = built / "tasks" / slug(PYTHON)
    image, _ = docker_sandbox.client.images.build(
        path=str(folder / "environment"), buildargs={"BASE": sample_image}, network_mode="none", rm=True
    )
    try:
        box = Box(docker_sandbox.client, str(image.id))
        try:
            assert box.run("pwd").strip() == PYTHON.working_folder
            assert box.judge(PYTHON)[0] == "0"
            box.put("/solution/solve.sh", (folder / "solution/solve.sh").read_text())
            box.run("bash /solution/solve.sh")
            assert box.judge(PYTHON)[0] == "1"
        finally:
            box.remove()
    finally:
        docker_sandbox.client.images.remove(str(image.id), force=True)
