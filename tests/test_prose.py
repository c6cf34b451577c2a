"""Sentences are told from commands."""

from __future__ import annotations

import pytest

from ml_bench_metric import prose, shell


def reading(text: str) -> prose.Reading:
    script = shell.read(text)
    return prose.reading(script.commands[-1], script.functions)


@pytest.mark.parametrize(
    "text",
    [
        "python train.py --lr 0.1",
        "python3 -u run.py --model x",
        "CUDA_VISIBLE_DEVICES=0 python train.py",
        "python -m torch.distributed.run --nproc_per_node=8 train.py",
        "python -c 'import a'",
        "bash run.sh a b",
        "./run.sh",
        "scripts/train.sh 1",
        "torchrun --nproc_per_node 2 train.py",
        "accelerate launch train.py --x 1",
        "/opt/conda/bin/python3.10 train.py",
        "timeout 5 python train.py",
        "env A=1 nohup python train.py",
        "then python train.py",
        "python demo.py -t a photo of the cat that is here",
    ],
)
def test_interpreters_with_a_script_are_unmistakable(text: str) -> None:
    assert reading(text) == "unmistakable"


@pytest.mark.parametrize(
    "text",
    [
        "cd examples/pytorch",
        "pip install torch",
        "export A=1",
        "A=1",
        "git clone https://example.org/a",
        "echo This is the text that you see.",
        "for i in a b",
        "done",
        "--batch_size=16 --lr 0.1",
        "$PYTHON train",
        "fairseq-train data --arch x",
        "python -",
        "[ -f a ]",
        "f() { a; }; f 1",
    ],
)
def test_commands_are_commands(text: str) -> None:
    assert reading(text) == "command"


@pytest.mark.parametrize(
    "text",
    [
        "Run the script",
        "This repo cannot do the task",
        "Sorry",
        "python is a language",
        "python train.py is the script that you need",
        "python train.py trains it for hours",
        "test the model",
        "make sure that python exists",
        "Train the model with python train.py",
        "for the first time",
        "if you want to",
        "then run the following:",
        "find out more.",
        "1. Install it",
        "- item",
        "sudo",
        "`python train.py`",
        "$(python train.py)",
        "--lr float Adam optimizer learning rate",
        "--lr what it is",
    ],
)
def test_sentences_are_sentences(text: str) -> None:
    assert reading(text) == "sentence"


@pytest.mark.parametrize(
    "text",
    ["fairseq-train data", "mytool", "python train", "MyTool ./a", "use python a.py --x 1", "Use python a.py --x 1"],
)
def test_programs_that_are_not_listed_stay_open(text: str) -> None:
    assert reading(text) == "unknown"


def test_long_rows_of_wrappers_and_keywords_do_no_harm() -> None:
    assert reading("sudo " * 30_000) == "sentence"
    assert reading("if " * 30_000) == "command"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Here is the code:", True),
        ("Note: Make sure to replace `a` with the path.", True),
        ("That's it.", True),
        ("I\u2019m sorry.", True),
        ("This prints 1", False),
        ("Explanation follows below here.", True),
        ("model.to(device).on(this)", False),
        ("x = the + this", True),
        ("if x is not None and y in z:", False),
        ("# This is the comment of a program", False),
        ("print('this is the one')", False),
        ("", False),
    ],
)
def test_sentences_around_python_are_told(line: str, expected: bool) -> None:
    assert prose.is_sentence(line) is expected
