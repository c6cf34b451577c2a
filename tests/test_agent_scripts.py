"""A `run.sh` is judged by all that it uses: its own text, the scripts that it names, the commands that it starts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ml_bench_metric.agent_scripts import check_all, named_scripts, reference_script
from ml_bench_metric.checks import Checks
from ml_bench_metric.sandbox.overlay import Overlay
from ml_bench_metric.tasks import Task
from tests.overlay_builders import folder, link, member, overlay
from tests.result_builders import task

TASK = task("repo/1").model_copy(update={"arguments": "{'lr': 0.001, 'data': 'grid'}", "path": "./tools/"})
ROOT = "workspace/repo"


@pytest.mark.parametrize("rule", ["original", "strict"])
def test_nothing_is_no_script(rule: str) -> None:
    found = check_all(None, TASK, rule, {})  # type: ignore[arg-type]
    assert found == Checks(arguments=False, type=False, missing=("lr=0.001", "data=grid"))


@pytest.mark.parametrize("program", ["true", "sleep 200 # lr=0.001 grid", "x" * 20_000_000, "import torch"])
def test_under_the_original_rule_any_script_will_do(program: str) -> None:
    assert check_all(program, TASK, "original", {}) == Checks(arguments=True, type=True)


@pytest.mark.parametrize(
    ("program", "missing"),
    [
        ("python train.py --lr 1e-3 --data grid", ()),
        ("sleep 200 # lr=0.001 grid", ("lr=0.001", "data=grid")),
        ("cat > t.py <<'E'\nfit(lr=0.001)\nE\npython t.py grid", ()),
        ("python train.py --lr 0.0011 --data gridiron", ("lr=0.001", "data=grid")),
        ("python train.py --lr 0.001\r\n# grid", ("data=grid",)),
        ("\ufeffpython train.py --lr 0.001 grid\0", ()),
    ],
)
def test_under_the_strict_rule_every_argument_is_used(program: str, missing: tuple[str, ...]) -> None:
    assert check_all(program, TASK, "strict", {}) == Checks(arguments=not missing, type=True, missing=missing)


def test_commands_and_scripts_count_each_for_what_it_uses() -> None:
    program = "python mine.py $RATE"
    assert check_all(program, TASK, "strict", {}, ("python mine.py 0.001",)).missing == ("data=grid",)
    scripts = {"/workspace/repo/tools/mine.py": "# lr 0.001\nfit('grid')"}
    assert check_all(program, TASK, "strict", scripts).missing == ("lr=0.001",)
    assert check_all(program, TASK, "strict", scripts, ("python mine.py 0.001",)).arguments
    assert not check_all(program, TASK, "strict", {}, ("bash -c 'sleep 200 # 0.001 grid'",)).arguments
    # A value of several parts is not put together from several places.
    two = task("repo/1").model_copy(update={"arguments": "{'size': '8,10'}"})
    assert not check_all("true", two, "strict", {}, ("a 8", "10 b")).arguments
    # What is too long to be read hides nothing else.
    assert check_all("x" * 200_000, TASK, "strict", {}, ("python mine.py 0.001 grid",)).arguments


@pytest.fixture
def brought(tmp_path: Path) -> Overlay:
    return overlay(
        tmp_path / "changes.tar",
        [
            folder(f"{ROOT}/tools"),
            member(f"{ROOT}/tools/mine.py", "mine"),
            member(f"{ROOT}/tools/run.sh", "python mine.py"),
            member(f"{ROOT}/other/train.sh", b"caf\xe9"),
            member(f"{ROOT}/other/config.yaml", "lr: 0.001"),
            member(f"{ROOT}/other/huge.py", "x" * 1_000_000),
            link(f"{ROOT}/tools/link.py", "mine.py"),
        ],
    )


@pytest.mark.parametrize(
    ("program", "names"),
    [
        ("python mine.py", ["tools/mine.py"]),
        ("python ./mine.py", ["tools/mine.py"]),
        ("cd .. && python tools/mine.py", ["tools/mine.py"]),
        ("python /workspace/repo/tools/mine.py", ["tools/mine.py"]),
        ('python "$(dirname $0)/mine.py"', ["tools/mine.py"]),
        ("bash ../other/train.sh; python mine.py", ["other/train.sh", "tools/mine.py"]),
        ("bash run.sh", []),
        ("python in_mine.py", []),
        ("echo # mine.py", []),
        ("python -m mine", []),
        ("cat ../other/config.yaml ../other/huge.py link.py", []),
        ("python elsewhere/mine.py", []),
    ],
)
def test_scripts_of_the_overlay_are_found_by_the_end_of_their_path(
    program: str, names: list[str], brought: Overlay
) -> None:
    assert [path.removeprefix(f"/{ROOT}/") for path in named_scripts(program, brought, TASK)] == names


def test_their_texts_are_read_whatever_they_are(brought: Overlay) -> None:
    assert named_scripts("bash train.sh", brought, TASK) == {f"/{ROOT}/other/train.sh": "caf\ufffd"}


def test_of_no_overlay_and_of_a_damaged_one_there_are_none(brought: Overlay) -> None:
    assert named_scripts("python mine.py", None, TASK) == {}
    brought.archive.write_bytes(b"no archive" * 100)
    assert named_scripts("python mine.py", brought, TASK) == {}


def test_a_reference_in_bash_stays_and_one_in_python_is_written_and_run(tmp_path: Path) -> None:
    assert reference_script(TASK) == TASK.output
    text = "import sys\nprint('END_OF_FILE', \"$HOME\", `x` if 0 else 'a\\\\n')\n'''\nEND_OF_FILE\n'''".replace(
        "`x`", "1"
    )
    script = reference_script(_python(text))
    (tmp_path / "run.sh").write_text(script)
    ran = subprocess.run(["bash", "run.sh"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "END_OF_FILE $HOME a\\n\n"), ran.stderr


def test_what_a_python_reference_uses_is_found_in_its_script() -> None:
    assert check_all(reference_script(_python("fit('grid', lr=1e-3)")), TASK, "strict", {}).arguments


def _python(output: str) -> Task:
    return TASK.model_copy(update={"type": "Python Code", "output": output})
