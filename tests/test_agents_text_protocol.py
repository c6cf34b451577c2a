"""Blocks of a reply's text are taken for what the model meant by them, and for nothing else."""

from __future__ import annotations

import pytest

from ml_bench_solvers.agents.text_protocol import read_blocks, results_text
from ml_bench_solvers.agents.tools import Outcome


def found(text: str) -> list[tuple[str, dict[str, object]]]:
    return [(action.name, dict(action.arguments)) for action in read_blocks(text, 1)]


@pytest.mark.parametrize("kind", ["bash", "sh", "shell", "BASH", " bash", "bash  "])
def test_a_shell_block_is_a_command(kind: str) -> None:
    assert found(f"Look:\n```{kind}\nls\npwd\n```\nthen") == [("bash", {"command": "ls\npwd"})]


def test_blocks_are_done_in_their_order() -> None:
    text = "```read a b.txt\n```\n~~~write run.sh\nx\n~~~\n```bash\nbash run.sh\n```\n```submit\n```"
    assert found(text) == [
        ("read_file", {"path": "a b.txt"}),
        ("write_file", {"path": "run.sh", "content": "x\n"}),
        ("bash", {"command": "bash run.sh"}),
        ("submit", {}),
    ]
    assert [action.id for action in read_blocks(text, 3)] == [f"text-3-{number}" for number in (1, 2, 3, 4)]


def test_longer_fences_hold_shorter_ones() -> None:
    assert found("````write a.md\n```bash\nrm x\n```\n````") == [
        ("write_file", {"path": "a.md", "content": "```bash\nrm x\n```\n"})
    ]
    assert found("```bash\ncat <<E\n~~~\nE\n```") == [("bash", {"command": "cat <<E\n~~~\nE"})]


@pytest.mark.parametrize(
    "text",
    ["", "ls", "```python\nprint(1)\n```", "```\nls\n```", "`bash ls`", "say ```bash\nls\n```", "```json\n{}\n```"],
)
def test_other_text_is_talk(text: str) -> None:
    assert found(text) == []


def test_a_block_of_another_kind_hides_what_is_in_it() -> None:
    assert found("```markdown\n~~~bash\nls\n~~~\n```\n```bash\npwd\n```") == [("bash", {"command": "pwd"})]


@pytest.mark.parametrize("text", ["```bash\nrm -rf bui", "```write run.sh\necho", "```submit"])
def test_a_block_without_an_end_is_not_tried(text: str) -> None:
    (action,) = read_blocks(text, 1)
    assert "has no end" in action.fault and not action.arguments


def test_a_file_without_a_path_is_told() -> None:
    (action,) = read_blocks("```write\nx\n```", 1)
    assert "says no path" in action.fault


def test_a_path_may_stand_in_the_block() -> None:
    assert found("```read\nREADME.md\n```") == [("read_file", {"path": "README.md"})]


@pytest.mark.parametrize(
    ("body", "content"), [("", ""), ("\n", "\n"), ("a\n", "a\n"), ("a\u2028b\x0c\n", "a\u2028b\x0c\n")]
)
def test_a_files_content_is_what_is_between_the_fences(body: str, content: str) -> None:
    assert found(f"```write f\n{body}```") == [("write_file", {"path": "f", "content": content})]


def test_line_ends_of_windows_are_line_ends() -> None:
    assert found("```bash\r\nls\r\n```\r\n") == [("bash", {"command": "ls"})]


def test_what_a_model_has_only_thought_of_is_not_done() -> None:
    assert found("<think>\n```bash\nrm x\n```\n</think>\n```bash\nls\n```") == [("bash", {"command": "ls"})]
    assert found("<think>\n```bash\nrm x\n```\n") == []


def test_results_are_told_by_block() -> None:
    actions = read_blocks("```bash\nls\n```\n```read x\n```", 1)
    text = results_text(actions, [Outcome("[exit status 0]\n"), Outcome("words")])
    assert text == "Result of block 1 (bash):\n[exit status 0]\n\n\nResult of block 2 (read_file):\nwords"
