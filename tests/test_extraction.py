"""Programs are taken out of what models write, and prose never becomes one."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ml_bench_metric.extraction import Extraction, extract
from ml_bench_metric.predictions import read_predictions
from ml_bench_metric.tasks import Language, load_tasks


def program(text: str, language: Language = "bash") -> str | None:
    found = extract(textwrap.dedent(text), language, "auto").program
    return None if found is None else found.strip("\n")


def source(text: str, language: Language = "bash") -> str:
    return extract(textwrap.dedent(text), language, "auto").source


@pytest.mark.parametrize("text", ["", "I cannot.\r\n", "```bash\nls\n```", "\ufeff$ ls"])
def test_mode_none_touches_nothing(text: str) -> None:
    assert extract(text, "bash", "none") == Extraction(text, "whole text")


# Fences


@pytest.mark.parametrize(
    "tag",
    [
        "bash",
        "sh",
        "shell",
        "console",
        "zsh",
        "BASH",
        " bash",
        "{.bash}",
        "bash title='x'",
        "language-bash",
        "",
        "code",
    ],
)
@pytest.mark.parametrize("fence", ["```", "~~~", "`````"])
def test_tags_and_fences_of_all_kinds_are_read(tag: str, fence: str) -> None:
    assert program(f"Use this:\n\n{fence}{tag}\npython a.py --x 1\n{fence}\n\nIt is the one.") == "python a.py --x 1"


@pytest.mark.parametrize("tag", ["python", "py", "python3", "Python", "{.python}", "ipython", ""])
def test_python_tags_of_all_kinds_are_read(tag: str) -> None:
    assert program(f"Here:\n```{tag}\nimport a\na.b()\n```", "python") == "import a\na.b()"


@pytest.mark.parametrize(
    "text",
    [
        "```bash\npython a.py --x 1",
        "1. Run\n   ```bash\n   python a.py --x 1\n   ```",
        "- ```bash\n  python a.py --x 1\n  ```",
        "\t```\n\tpython a.py --x 1\n\t```",
        "Run this: ```bash\npython a.py --x 1\n```\nIt is good.",
        "```bash\npython a.py --x 1```\nIt is good.",
        "```bash\r\npython a.py --x 1\r\n```\r\n",
        "```python\npython a.py --x 1\n```",
        "`python a.py --x 1`",
        "```python a.py --x 1```",
        "bash\npython a.py --x 1",
        "<think>First ```bash\nrm -r b\n``` then.</think>python a.py --x 1",
        "\ufeffpython a.py --x 1",
        "$ python a.py --x 1",
        "!python a.py --x 1",
    ],
)
def test_program_is_found_however_it_is_wrapped(text: str) -> None:
    assert program(text) == "python a.py --x 1"


def test_blocks_are_joined_in_their_order_as_steps_of_one_session() -> None:
    text = "First\n```bash\npip install a\ncd b\n```\nthen\n```python\nimport c\n```\nand\n```sh\npython a.py\n```\n"
    assert program(text) == "pip install a\ncd b\npython a.py"
    assert source(text) == "joined fenced blocks 1, 3 of 3 (bash)"
    assert program(text, "python") == "import c"
    assert source(text, "python") == "fenced block 2 of 3 (python)"


def test_block_that_another_one_contains_is_a_quotation() -> None:
    whole, part = "```python\nimport a\nfor b in a:\n    b.c()\n```\n", "```python\nb.c()\n```\n"
    text = f"{whole}The call\n{part}and again\n{part}"
    assert program(text, "python") == "import a\nfor b in a:\n    b.c()"
    assert source("```sh\nls\n```\nor\n```sh\nls\n```") == "fenced block 1 of 2 (bash)"


def test_outputs_in_blocks_are_not_programs() -> None:
    assert program("```bash\npython a.py\n```\n```\nEpoch 1: loss 0.1\n```\n```text\nls\n```") == "python a.py"
    assert program("```\nimport a\nprint(a)\n```\nprints\n```\ntensor([1])\n```", "python") == "import a\nprint(a)"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("```json\n{}\n```", "bash"),
        ("```python\nimport a\n```", "bash"),
        ("```bash\nThen you run the script.\n```", "bash"),
        ("```\nThen you run the script.\n```", "bash"),
        ("```python\npython a.py --x 1\n```", "python"),
        ("```\nno program\n```", "python"),
        ("```bash\n```", "bash"),
    ],
)
def test_blocks_of_another_kind_are_no_program(text: str, language: Language) -> None:
    assert program(text, language) is None
    assert source(text, language).startswith("none: fenced blocks without")


def test_tag_admits_programs_that_are_not_known_and_broken_python() -> None:
    assert program("```bash\nesm-fold -i a\n```") == "esm-fold -i a"
    assert program("```py\nimport a\na.b(\n```", "python") == "import a\na.b("


def test_longer_fence_holds_a_shorter_one() -> None:
    text = "````bash\ncat > a.md <<E\n```\nx\n```\nE\npython a.py\n````"
    assert program(text) == "cat > a.md <<E\n```\nx\n```\nE\npython a.py"


def test_fence_in_a_string_does_not_cut_a_python_program() -> None:
    text = "x = '''\n```python\nno\n```\n'''\nprint(x)"
    assert program(text, "python") == text


# No fences


@pytest.mark.parametrize(
    "text",
    [
        "python a.py --x 1",
        "#!/bin/bash\nset -e\nexport A=1\nfor i in 1 2; do\n  python a.py --seed $i\ndone",
        "f() {\n  python a.py $1\n}\nf 3",
        "if [ -f a ]; then\n  python a.py\nfi",
        "python - <<'E'\nimport a\nprint('this is the one that you want')\nE",
        'python -c "\nimport a\nprint(a)\n"',
        "cat <<E | bash a.sh\nimport a\nE",
        "cd a && python b.py | tee log",
        "# This is the training of the model, as you asked\npython a.py",
        "python a.py \\ \n --x 1",
        "python a.py\n--x 1\n--y 2",
        "--x 1 --y 2",
        "python a.py --x <value>",
        "python a.py --text a photo of a cat",
        "bash run.sh\n\necho 'I am done with it.'",
    ],
)
def test_plain_commands_are_taken_whole(text: str) -> None:
    assert extract(text, "bash", "auto") == Extraction(text, "whole text")


PROSE = [
    "I'm sorry, but I can't run `rm -rf a` for you.",
    "This repo cannot do the task (request > 5)",
    "Run `python a.py --x 1` to train.",
    "You can use $(touch a) for this.",
    "`python a.py` trains the model and `python b.py` tests it.",
    "To train: python a.py --x 1",
    "python is the language that you need",
    "test `python a.py` first",
    "the model, `python a.py`",
    "The command:\n\n`python a.py --x 1`\n\nIt keeps its progress in the log.",
    "python a.py --x 1 to train the model.",
    "Yes",
    "yes",
    "--lr float Adam optimizer learning rate",
    "find out more about `touch a` here",
    "Sure! Here is how you do it: first install, then `touch a`; done",
    "make sure `touch a` works",
    "which is `touch a`",
    "echo `touch a`",
]


@pytest.mark.parametrize("text", [*PROSE, "\n\n".join(PROSE)])
def test_prose_never_becomes_a_bash_program(text: str) -> None:
    assert program(text) is None


def test_only_unmistakable_commands_are_taken_from_among_sentences() -> None:
    text = """\
        Don't worry, here's how to train:

        cd examples
        CUDA_VISIBLE_DEVICES=0 python train.py \\
          --lr 0.1

        That's it. First run `pip install x` if you need it.
        """
    assert program(text) == "cd examples\nCUDA_VISIBLE_DEVICES=0 python train.py \\\n  --lr 0.1"
    assert source(text) == "whole text; sentences dropped"
    assert program("You need to do this:\ncd examples\nThat is all.") is None
    assert program("You need to do this:\npython a.py\nwhatever comes") is None


@pytest.mark.parametrize(
    "text", ["import torch", "from a import b\nb(c=1)", "import torch\nx = torch.randn(\n", "x = 5"]
)
def test_python_is_no_bash_program(text: str) -> None:
    assert program(text) is None


def test_broken_quotes_stay_for_bash_to_complain_about() -> None:
    assert extract('python a.py --x "1', "bash", "auto") == Extraction(
        'python a.py --x "1', "whole text; not valid bash"
    )
    assert program("```bash\npython a.py --x '1\n```") == "python a.py --x '1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$ cd a\n$ python b.py \\\n>   --x 1\nloss 0.1\n", "cd a\npython b.py \\\n  --x 1"),
        ("(base) me@host:~/a$ python b.py\nloss 0.1", "python b.py"),
        ("%cd a\n!python b.py", "cd a\npython b.py"),
    ],
)
def test_prompts_marks_and_outputs_are_dropped_for_bash(text: str, expected: str) -> None:
    assert program(text) == expected
    assert program(f"```console\n{text}\n```") == expected
    assert "dropped" in source(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (">>> import a\n>>> for b in a:\n...     b()\n...\n3\n", "import a\nfor b in a:\n    b()"),
        ("!pip install a\n%matplotlib inline\nimport a\na.b(c % d)", "import a\na.b(c % d)"),
        ("    import a\n    a.b()", "import a\na.b()"),
        ("python\nimport a", "import a"),
        ("Here is the code:\n\nimport a\na.b()\n\nIt prints the shape of the output.", "import a\na.b()"),
        ("`a.b()`", "a.b()"),
    ],
)
def test_what_is_not_the_program_is_dropped_for_python(text: str, expected: str) -> None:
    assert program(text, "python") == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "none: empty"),
        (" \n", "none: empty"),
        ("I cannot do this.", "none: prose"),
        ("No", "none: nothing to run"),
        ("'a text'", "none: nothing to run"),
        ("# a comment", "none: nothing to run"),
        ("a" * 100_001, "none: longer than 100,000 characters"),
    ],
)
def test_without_a_python_program_it_says_why(text: str, why: str) -> None:
    assert extract(text, "python", "auto") == Extraction(None, why)


@pytest.mark.parametrize("text", ["import a\na.b(", "python a.py --x 1", "class A:\n\nx = 1"])
def test_broken_python_stays_for_python_to_complain_about(text: str) -> None:
    assert extract(text, "python", "auto") == Extraction(text, "whole text; not valid Python")


# Properties

_PIECES = [
    *(
        "```",
        "```bash\n",
        "```python\n",
        "~~~",
        "\n",
        "\n\n",
        "    ",
        "$ ",
        ">>> ",
        "... ",
        "!",
        "%",
        "`",
        "'",
        '"',
        "\\\n",
    ),
    *(
        "python a.py --x 1",
        "import a",
        "a.b()",
        "x = 1",
        "ls",
        "cd b",
        "The model is the one.",
        "I can't",
        "tensor([1])",
    ),
    *("<<E\n", "E\n", "$(", ")", "(", "#", "|", "é", "\U0001f600", "\0", "\ud800", "\r\n", "<think>", "</think>"),
]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(_PIECES), max_size=14).map("".join), st.sampled_from(["bash", "python"]))
@example("bash\n\n", "bash")
def test_any_text_is_extracted_from_and_nothing_is_invented(text: str, language: Language) -> None:
    found = extract(text, language, "auto")
    assert (found.program is None) == found.source.startswith("none: ")
    lines = [line.strip() for line in text.replace("\r", "\n").split("\n")]
    for line in (found.program or "").split("\n"):
        assert any(line.strip() in whole for whole in lines), line
    assert extract(text, language, "auto") == found


_WORDS = [
    "the",
    "you",
    "this",
    "model",
    "train",
    "it",
    "is",
    "run",
    "to",
    "with",
    "of",
    "we",
    "can",
    "python",
    "script",
]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(_WORDS), min_size=3),
    st.sampled_from(["`touch a`", "$(touch a)", "`python a.py --x 1`", "'b"]),
)
def test_sentences_around_code_stay_prose(words: list[str], code: str) -> None:
    sentence = " ".join(["The", *words, code, "is", "the", "one."])
    assert program(sentence) is None


@pytest.mark.parametrize(
    "piece", ["```\nls\n", "`", "$ ls\n", "the ", "python a.py\n", "x = [\n", "'", " ", "```bash\nls\n```\n"]
)
@pytest.mark.parametrize("language", ["bash", "python"])
def test_no_text_takes_long(piece: str, language: Language) -> None:
    started = time.monotonic()
    extract((piece * 30_000)[:30_000], language, "auto")
    extract(piece * 1_000_000, language, "auto")
    assert time.monotonic() - started < 10


@pytest.mark.real_data
def test_real_answers_are_read_as_they_are_meant(real_data: Path) -> None:
    tasks = load_tasks(str(real_data / "upstream"), "full")
    predictions = read_predictions(real_data / "predictions" / "gpt4_agent_pass5.jsonl", tasks)
    kinds: dict[tuple[str, str], int] = {}
    for task_id, prediction in predictions.items.items():
        language = tasks.by_id[task_id].language
        for text in prediction.candidates:
            # Whether broken Python is told from prose depends on the running Python's grammar; neither is bash.
            key = language, extract(text, language, "auto").source.partition(":")[0]
            kinds[key] = kinds.get(key, 0) + 1
    assert kinds == {
        ("bash", "whole text"): 84,
        ("bash", "none"): 76,  # all of them Python: 62 that parses, one of it fenced, 14 that does not
        ("python", "whole text"): 100,
        ("python", "whole text; not valid Python"): 4,
        ("python", "fenced block 1 of 1 (python)"): 1,
    }


@pytest.mark.real_data
def test_real_references_are_programs_and_real_instructions_are_none(real_data: Path) -> None:
    tasks = load_tasks(str(real_data / "upstream"), "full").tasks
    other = [task.task_id for task in tasks if extract(task.output, task.language, "auto").program != task.output]
    assert other == ["lavis/83", "if/109"]  # a note after the program; a fence with prose around
    assert all(extract(task.output, task.language, "auto").program is not None for task in tasks)
    assert not [task.task_id for task in tasks if extract(task.instruction, "bash", "auto").program is not None]
