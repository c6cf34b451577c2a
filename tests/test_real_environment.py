"""An environment of the benchmark, built from registry packages alone and validated: what a user of a real recipe does.

The repository is not in the image (`--without-checkout`): its code comes from the package that its authors published.
The tasks are our own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ml_bench_cli.main import main
from ml_bench_metric.environments.build import BuiltImage, Options, build
from ml_bench_metric.environments.build_log import BuildError
from ml_bench_metric.report.validation import ValidationReport
from ml_bench_metric.sandbox import docker_engine
from ml_bench_metric.validation import STORE_VARIABLE, ValidationStore

REPOSITORY = "External-Attention-pytorch"

NOT_TO_BE_HAD = ("No matching distribution found for torch==", "The network does not answer")
"""How a build ends where no index has a CPU build of torch, or there is no network."""

pytestmark = pytest.mark.docker


def build_it() -> BuiltImage:
    (image,) = build([REPOSITORY], docker_engine.connect(), Options(checkout=False), progress=print)
    return image


@pytest.fixture(scope="module")
def image() -> Iterator[BuiltImage]:
    try:
        yield build_it()
    except BuildError as error:
        if any(sign in str(error) for sign in NOT_TO_BE_HAD):
            pytest.skip(f"torch cannot be had here: the real environment was NOT built. {str(error).splitlines()[0]}")
        raise


def row(number: int, arguments: dict[str, str], code: str) -> dict[str, Any]:
    return {
        "github_id": 9,
        "github": "https://github.com/xmu-xiaoma666/External-Attention-pytorch",
        "repo_id": number,
        "path": "./",
        "arguments": repr(arguments),
        "instruction": f"Build the layer with {', '.join(arguments.values())}, and print the shape of what it returns.",
        "oracle": "",
        "type": "Python Code",
        "id": number,
        "prefix_code": "",
        "output": code,
    }


ROWS = [
    row(
        9001,
        {"d_model": "64", "S": "8"},
        "import torch\n"
        "from fightingcv_attention.attention.ExternalAttention import ExternalAttention\n"
        "layer = ExternalAttention(d_model=64, S=8)\n"
        "assert layer(torch.randn(2, 49, 64)).shape == (2, 49, 64)\n",
    ),
    row(
        9002,
        {"channel": "128", "G": "4"},
        "import torch\n"
        "from fightingcv_attention.attention.ShuffleAttention import ShuffleAttention\n"
        "layer = ShuffleAttention(channel=128, G=4)\n"
        "assert layer(torch.randn(2, 128, 7, 7)).shape == (2, 128, 7, 7)\n",
    ),
    row(
        9003,
        {"channel": "32"},
        "import torch\n"
        "from fightingcv_attention.attention.SEAttention import SEAttention\n"
        "layer = SEAttention(channel=32, reduction=8)\n"
        "assert layer(torch.randn(2, 33, 7, 7)).shape == (2, 32, 7, 7)\n",
    ),
]
"""The third one is wrong: the input has a channel too many."""


def test_a_second_build_finds_everything_made(image: BuiltImage) -> None:
    again = build_it()
    assert again.reused
    assert (again.name, again.digest) == (image.name, image.digest)


def test_validation_in_the_real_environment_tells_right_references_from_a_wrong_one(
    image: BuiltImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("".join(json.dumps(line) + "\n" for line in ROWS), encoding="utf-8")
    monkeypatch.setenv(STORE_VARIABLE, str(tmp_path / "validations"))
    command = ["ml-bench", "validate", "--tasks", str(tasks), "--split", "full", "--image", image.name]
    # A CPU build of torch takes seconds to import on a busy machine; the limit is not what is tested here.
    monkeypatch.setattr("sys.argv", [*command, "--out", str(tmp_path / "run"), "--limit-time", "120", "--quiet"])
    with pytest.raises(SystemExit) as end:
        main()
    printed = capsys.readouterr()
    assert end.value.code == 1, printed.err
    report = ValidationReport.from_json((tmp_path / "run" / "validation.json").read_bytes())
    (unexpected,) = report.unexpected
    assert unexpected.startswith(f"{REPOSITORY}/9003: ")
    stored = ValidationStore(tmp_path / "validations").read(image.digest)
    assert stored is not None
    outcomes = {task_id: of_task.outcomes for part in stored.parts for task_id, of_task in part.tasks.items()}
    assert outcomes == {
        f"{REPOSITORY}/9001": ("exited 0", "exited 0"),
        f"{REPOSITORY}/9002": ("exited 0", "exited 0"),
        f"{REPOSITORY}/9003": ("exited 1", "exited 1"),
    }
