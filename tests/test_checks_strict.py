"""The strict static checks on whole candidates: what a program uses counts, what only has the characters does not."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_bench_metric.checks import check, strict
from ml_bench_metric.extraction import extract
from ml_bench_metric.syntax import BashMissingError
from ml_bench_metric.tasks import Task, load_tasks
from tests.result_builders import task

BASH, PYTHON = task("dgl/1"), task("dgl/1", "Python Code")


def asking(base: Task, prefix_code: str = "", **arguments: object) -> Task:
    return base.model_copy(update={"arguments": str(arguments), "prefix_code": prefix_code})


@pytest.mark.parametrize(
    "program",
    [
        "python a.py --lr 0.1 --data ./x/y.csv --fast",
        "python a.py --lr=1e-1 --data=x//y.csv --fast=1",
        "python a.py \\\n  --lr '.10' \\\n  --data \"x/y.csv\" --fast",
        "LR=0.1; D=x; python a.py --lr $LR --data $D/y.csv --fast",
        "A='--lr 0.1 --fast'; python a.py $A x/y.csv",
        "python a.py --lr 0.1 --data $ROOT/y.csv --fast",
        "python - <<E\nimport a\na.run(lr=0.10, data='x/y.csv', fast=True)\nE",
        "python -c \"import a; a.run(lr=0.10, data='x/y.csv', fast=True)\"",
        "bash -c 'python a.py --lr 0.1 x/y.csv --fast'",
        "cat > c.yaml <<E\nlr: 0.1\ndata: x/y.csv\nfast: true\nE\npython a.py c.yaml",
        "echo --lr 0.1 --data x/y.csv --fast",  # what is only printed cannot be told from what is used
    ],
)
def test_bash_program_that_uses_the_values_passes(program: str) -> None:
    wanted = asking(BASH, "export ROOT=./x", lr=0.1, data="x/y.csv", fast="")
    assert check(program, wanted, "strict").both


@pytest.mark.parametrize(
    "program",
    [
        "python a.py # --lr 0.1 --data x/y.csv --fast",
        "python a.py\n# lr 0.1 x/y.csv fast",
        ": --lr 0.1 --data x/y.csv --fast\npython a.py",
        ": <<'E'\n--lr 0.1 --data x/y.csv --fast\nE\npython a.py",
        "python a.py --lr 0.15 --data x/y.csvs --faster",
        "python a.py --lr 10.1 --data max/y.csv --no_fast",
        "python a.py --lr $LR --data $D/y.csv",
    ],
)
def test_bash_program_that_only_contains_the_characters_misses_all(program: str) -> None:
    wanted = asking(BASH, lr=0.1, data="x/y.csv", fast="")
    assert check(program, wanted, "strict").missing == ("lr=0.1", "data=x/y.csv", "fast=")


@pytest.mark.parametrize(
    ("program", "missing"),
    [
        ("from m import Net\nNet(dim=512, lr=0.10)", ()),
        ("import m\nm.Net(512.0)\nlr = '0.1'", ()),
        ("# Net 512 0.1\nx = 1", ("model=Net", "dim=512", "lr=0.1")),
        ("'''Net 512 0.1'''\nx = 1", ("model=Net", "dim=512", "lr=0.1")),
        ("x = 'Network 5120 0.15'", ("model=Net", "dim=512", "lr=0.1")),
    ],
)
def test_python_program_is_read_by_its_tokens(program: str, missing: tuple[str, ...]) -> None:
    wanted = asking(PYTHON, model="Net", dim="512", lr=0.1)
    assert check(program, wanted, "strict").missing == missing


@pytest.mark.parametrize(
    "program",
    [
        "python a.py --x 1",
        "bash generate.sh",
        "A=1",
        "cd a && ./b",
        "if true; then python a.py; fi",
        "fairseq-train x",
        "--x 1",
        "cat <<E | python\nimport a\nE",
        "python a.py --x <value> --y 1",
    ],
)
def test_bash_is_bash(program: str) -> None:
    assert strict.is_of_type(program, BASH)


@pytest.mark.parametrize(
    "program",
    [
        "",
        " \n",
        "# only a comment",
        "import torch",
        "import os\nimport sys",
        "print('a.py b')",
        "if true; then python a.py",
        "python a.py 'x",
        "```bash\npython a.py\n```",
        "This repo cannot do the task",
        "Sorry, python a.py is missing.",
        "x=1\nimport os\ny=2",
        "import os\nx=1 << 3",
        "python a.py --x <value>",
        "python a.py\0",
        "python a.py\n" * 10_000,
    ],
)
def test_what_is_no_bash_program_is_not_of_type_bash(program: str) -> None:
    assert not strict.is_of_type(program, BASH)


@pytest.mark.parametrize(
    "program", ["import a", "a()", "x = 1", "open('a.py b')", "# python a.py b\nimport a", "x = '\\d'"]
)
def test_python_is_python(program: str) -> None:
    assert strict.is_of_type(program, PYTHON)


@pytest.mark.parametrize(
    "program",
    [
        "",
        "# only a comment",
        "'''only a text'''",
        "Sorry",
        "pass",
        "ls -l",
        "python a.py",
        "!pip install a\nimport a",
        "```python\nimport a\n```",
        "import a\0",
        "x = '\ud800'",
        "x = (" + "1," * 60_000 + ")",
        "x = " + "(" * 90_000,
        "x = 1" + "+1" * 49_000,
        "x = " + "-" * 90_000 + "1",
    ],
)
def test_what_is_no_python_program_is_not_of_type_python(program: str) -> None:
    wanted = strict.is_of_type(program, PYTHON)
    assert not wanted or program.startswith("x = 1+1")  # Python 3.10 parses that depth, later ones refuse it


def test_program_that_is_too_long_to_be_read_misses_everything() -> None:
    assert check("python a.py --x 5 " + " " * 100_000, asking(BASH, x=5), "strict").missing == ("x=5",)


def test_missing_bash_is_an_error_and_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BashMissingError, match="install"):
        check("python a.py", BASH, "strict")
    assert check("import a", PYTHON, "strict").both


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=80), st.sampled_from([BASH, PYTHON]))
def test_any_text_is_checked(program: str, base: Task) -> None:
    strict.missing_arguments(program, asking(base, "export A=b", a="x y", b=1, c=""))


@pytest.mark.parametrize(
    "piece", ["x --a=1 ", "a.b ", "./", "1.", "'x' ", "$A", "f(1,", "A=$A$A;", "{", "x=[1,", "eval "]
)
@pytest.mark.parametrize("base", [BASH, PYTHON])
def test_no_program_takes_long(piece: str, base: Task) -> None:
    started = time.monotonic()
    check((piece * 30_000)[:30_000], asking(base, a="x y", b=1, c="d/e", d="citeseer", e=""), "strict")
    assert time.monotonic() - started < 10


REJECTED = {
    "dgl/15": ("gpu=3",),  # it uses GPU 1
    "PyTorch-GAN/7": ("lr=0.0001", "n_epochs=100", "batch_size=16", "img_size=128"),  # they are in a comment
    "lavis/72": ("argument1=cat",),
    "lavis/73": ("argument1=cat", "argument2=dog"),
    "lavis/74": ("argument1=garbage",),
    "lavis/83": (),  # it ends with a sentence, which is no Python
    "if/104": ("argument2=magic",),
    "if/109": (),  # it is a fenced block with sentences around it
    "if/110": ("argument1=ink",),
    "if/111": ("argument3=7.0",),
    "if/114": ("argument2=8.0",),
    "learning3d/227": ("number of data loading workers=-j 2",),  # -j 8
    "learning3d/234": ("model=rpmnet",),  # it runs the test of masknet2
    "learning3d/240": ("epochs=--epochs 200",),  # --epochs 20
    "learning3d/241": ("add noise=--noise True",),  # --noise avg
}
"""References that fail the strict checks -> what is missing; each asks for something that it does not do."""


@pytest.mark.real_data
def test_real_references_pass_except_for_their_own_faults(real_data: Path) -> None:
    tasks = load_tasks(str(real_data / "upstream"), "full").tasks
    checks = {row.task_id: check(row.output, row, "strict") for row in tasks}
    assert {task_id: found.missing for task_id, found in checks.items() if not found.both} == REJECTED
    assert [task_id for task_id, found in checks.items() if not found.type] == ["lavis/83", "if/109"]
    assert sum(found.both for found in checks.values()) == 245


@pytest.mark.real_data
def test_real_references_that_carry_prose_pass_after_extraction(real_data: Path) -> None:
    tasks = load_tasks(str(real_data / "upstream"), "full").tasks
    passed = [check(extract(row.output, row.language, "auto").program, row, "strict").both for row in tasks]
    assert sum(passed) == 247


@pytest.mark.real_data
def test_answers_of_one_real_task_fail_the_arguments_of_others(real_data: Path) -> None:
    tasks = load_tasks(str(real_data / "upstream"), "full").tasks
    passed = {"original": 0, "strict": 0}
    for row, other in itertools.pairwise(tasks):
        if row.argument_values != other.argument_values:
            passed["original"] += check(other.output, row, "original").arguments
            passed["strict"] += check(other.output, row, "strict").arguments
    assert passed["strict"] <= passed["original"]
