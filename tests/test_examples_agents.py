"""Examples of agents bring a repository's texts to the agent, its run.sh to the workspace, and nothing else along."""

from __future__ import annotations

import io
import os
import runpy
import tarfile
from pathlib import Path

import pytest
import yaml

from ml_bench_metric.tasks import load_tasks
from ml_bench_solvers.agents.command import Command
from tests.agent_fakes import FakeWorkspace

EXAMPLES = Path(__file__).parents[1] / "examples" / "agents"

AIDER = """#!/usr/bin/env python3
import os, pathlib, subprocess, sys
options = dict(option.partition("=")[::2] for option in sys.argv[1:])
assert "--no-suggest-shell-commands" in options and "--yes-always" in options
assert not pathlib.Path(os.environ["HOME"]).joinpath(".aider.conf.yml").exists()
pathlib.Path("run.sh").write_text("ls > tried\\n")
print(sorted(str(path) for path in pathlib.Path().rglob("*")), options["--read"])
print(pathlib.Path(options["--message-file"]).read_text())
sys.exit(subprocess.run(options["--test-cmd"], shell=True).returncode)
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeWorkspace:
    programs, place = tmp_path / "bin", tmp_path / "place"
    programs.mkdir()
    place.mkdir()
    (programs / "aider").write_text(AIDER)
    (programs / "mini").write_text('#!/bin/sh\nprintf "%s\\n" "$PYTHONPATH" "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("MODEL", "openai/m")
    (place / "README.md").write_text("read me")
    (place / "model.py").write_text("x = 1")
    (place / ".aider.conf.yml").write_text("test-cmd: touch hostile")
    (place / "link.py").symlink_to("/etc/passwd")
    (place / "weights.bin").write_bytes(b"\0")
    return FakeWorkspace(place)


def test_aider_has_the_texts_and_its_script_is_tried_and_kept_in_the_workspace(workspace: FakeWorkspace) -> None:
    task = load_tasks("sample", "A").tasks[0]
    Command(str(EXAMPLES / "aider" / "run")).solve(task, workspace)
    (said,) = [facts for kind, facts in workspace.steps if kind == "program"]
    assert said["status"] == 0, said["output"]
    assert "['README.md', 'model.py', 'run.sh'] README.md" in said["output"] and task.instruction in said["output"]
    assert (workspace.place / "run.sh").read_text() == "ls > tried\n"
    assert "model.py" in (workspace.place / "tried").read_text()


def test_an_archive_of_the_repository_brings_plain_visible_files_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in ("./a/b.py", "./.aider.conf.yml", "./.git/hooks/x.sh", "./c.py"):
            archive.addfile(member := tarfile.TarInfo(name), io.BytesIO(b""))
            assert member.isfile()
        link = tarfile.TarInfo("./d.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        archive.addfile(tarfile.TarInfo("../outside.py"), io.BytesIO(b""))
    unpack = runpy.run_path(str(EXAMPLES / "aider" / "run"))["unpack"]
    folder = tmp_path / "repository"
    folder.mkdir()
    unpack(packed.getvalue(), folder)
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) == ["a", "a/b.py", "c.py"]
    assert not (tmp_path / "outside.py").exists()
    unpack(packed.getvalue()[:60], folder)
    assert "ends early" in capsys.readouterr().err


def test_mini_is_started_with_the_task_and_an_environment_that_there_is(workspace: FakeWorkspace) -> None:
    task = load_tasks("sample", "A").tasks[0]
    Command(str(EXAMPLES / "mini-swe-agent" / "run")).solve(task, workspace)
    (said,) = [facts for kind, facts in workspace.steps if kind == "program"]
    folder, *words = said["output"].split("\n")
    assert "openai/m" in words and task.instruction in said["output"]
    configuration = yaml.safe_load(Path(words[words.index("-c") + 1]).read_text(encoding="utf-8"))
    module, _, name = configuration["environment"]["environment_class"].partition(".")
    assert f"class {name}:" in (Path(folder) / f"{module}.py").read_text(encoding="utf-8")
