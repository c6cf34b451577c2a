"""What an answer's text says by itself: refusals, the other language, Markdown, placeholders."""

from __future__ import annotations

import pytest

from ml_bench_metric.causes import answer, find
from tests.cause_builders import failed, python_failed

UNKNOWN = "bash: line 1: x: command not found\n"


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nfor x in range(3):\n    print(x)",
        # No valid Python, and meant as Python still.
        "# load\nimport torch\nparams = {\n    'a': 1,\n}}\nprint(params)",
        "from net import Net\nclass A(Net):\n    def f(self:\n        pass",
        "Here is the code:\n\n```python\nimport torch\nprint(torch.ones(3))\n```",
    ],
)
def test_python_for_a_bash_task_is_the_wrong_language(text: str) -> None:
    assert find(failed(text, UNKNOWN))["strict"].cause == "wrong_language"


@pytest.mark.parametrize(
    "text", ["python train.py --n 3", "cd src\npython train.py --n 3", "```bash\npython train.py --n 3\n```"]
)
def test_commands_for_a_python_task_are_the_wrong_language(text: str) -> None:
    assert find(python_failed(text, "SyntaxError: invalid syntax\n"))["strict"].cause == "wrong_language"


@pytest.mark.parametrize(
    "text",
    [
        "python - <<EOF\nimport torch\nprint(torch.ones(3))\nEOF",
        "python -c 'import torch; torch.ones(3)'",
        "from=3\npython train.py --from $from",
    ],
)
def test_bash_that_has_python_in_it_is_of_its_language(text: str) -> None:
    assert answer.fault(failed(text, UNKNOWN)) is None


def test_broken_python_for_a_python_task_is_a_syntax_error_and_no_wrong_language() -> None:
    found = find(python_failed("import torch\nx = (3", "SyntaxError: '(' was never closed\n"))["strict"]
    assert (found.cause, found.paper_class) == ("syntax_error", "E4")


@pytest.mark.parametrize("text", ["", " \n\t\n"])
def test_an_empty_answer_that_was_run_is_no_answer(text: str) -> None:
    found = find(python_failed(text))["strict"]
    assert (found.cause, found.paper_class) == ("refusal_or_empty", "E5")


def test_markdown_around_the_right_language_is_a_syntax_error() -> None:
    found = find(failed("```bash\npython train.py --n 3\n```", "bash: line 9: x: command not found\n"))["strict"]
    assert (found.cause, found.evidence) == ("syntax_error", "```bash")


@pytest.mark.parametrize(
    "line",
    [
        "python train.py --data /path/to/data",
        "python train.py --data path_to_your_data",
        "python train.py --data YOUR_DATASET",
        "python train.py --data gs://bucket/your-data.bin",
        'python train.py --data "<DATASET_NAME>"',
        "python train.py --data <your data>",
        "python train.py --data '[your dataset]'",
        "python train.py --key INSERT_KEY",
        "python train.py --key API_KEY_HERE",
    ],
)
def test_what_was_to_be_filled_in_is_a_placeholder(line: str) -> None:
    found = find(failed(line, "ValueError: nothing to train on\n"))["strict"]
    assert (found.cause, found.evidence, found.paper_class) == ("placeholder", line, "E2")


@pytest.mark.parametrize(
    "line",
    [
        "python train.py --data data/faces",
        "python train.py  # give /path/to/data here",
        "python fill.py --text 'A <mask> here, <b>bold</b> <|endoftext|>'",
        "python train.py --colour yours",
        "python train.py < input.txt > out.txt",
        'for f in *; do test "$a" \\< "$b"; done',
    ],
)
def test_what_only_looks_like_it_is_no_placeholder(line: str) -> None:
    assert answer.placeholder(line, "") is None


def test_a_named_fault_comes_before_a_placeholder_that_the_error_does_not_name() -> None:
    program = "python train.py --rate 3 --data /path/to/data"
    assert find(failed(program, "t.py: error: unrecognized arguments: --rate 3\n"))["strict"].cause == "wrong_argument"
    assert find(failed(program, "t.py: error: argument --data: bad /path/to/data\n"))["strict"].cause == "placeholder"
    assert find(failed(program, "NotFoundError: /path/to; No such file\n"))["strict"].cause == "placeholder"


def test_a_placeholder_that_bash_takes_for_a_redirection_is_a_placeholder() -> None:
    stderr = "bash: line 1: syntax error near unexpected token `newline'\n"
    assert find(failed("python train.py --data <dataset_name>", stderr))["strict"].cause == "placeholder"
