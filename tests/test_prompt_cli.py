"""`ml-bench prompt`: shows one prompt, explains a search, writes all prompts, and says what is missing."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ml_bench_cli.main import main
from ml_bench_metric.tasks import load_tasks
from ml_bench_solvers.prompt import SETTINGS
from tests.task_builders import task

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run `ml-bench prompt` with arguments on the sample, caches of its own; return status, output and error."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ML_BENCH_SOURCE", "sample")

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ml-bench", "prompt", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


def tasks_file(folder: Path, *ids: int, **changes: object) -> Path:
    """Write tasks of repositories that cannot be had, and one of the sample."""
    rows = [task(id=number, repo_id=number, task_id=f"Some-Repo/{number}", **changes).model_dump() for number in ids]
    rows.append(load_tasks("sample", "L").tasks[0].model_dump())
    path = folder / "full.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_prompt_is_shown_message_by_message(prompt: Run, setting: str) -> None:
    status, out, err = prompt("tiny-gan/1", "--setting", setting)
    assert status == 0
    assert out.index("[system]\nYou write") < out.index("[user]\n")
    assert "```bash" in out
    assert f"tiny-gan/1, setting {setting}, template ml-bench/" in err


def test_all_settings_can_be_shown_as_json_lines(prompt: Run) -> None:
    status, out, _ = prompt("tiny-gan/1", "--setting", "all", "--json")
    assert status == 0
    assert [json.loads(line)["setting"] for line in out.splitlines()] == list(SETTINGS)


def test_explain_shows_passages_with_falling_scores_and_the_first_is_the_prompts(prompt: Run) -> None:
    arguments = ("tiny-gan/1", "--setting", "retrieval")
    status, out, _ = prompt(*arguments, "--explain", "--top", 3, "--json")
    assert status == 0
    found = [json.loads(line) for line in out.splitlines()]
    scores = [passage["score"] for passage in found]
    assert len(found) == 3
    assert scores == sorted(scores, reverse=True)
    assert found[0]["text"] in prompt(*arguments)[1]
    shown = prompt(*arguments, "--explain", "--top", 2)[1]
    assert shown.startswith(f"1. score {scores[0]:.3f}, passage {found[0]['place']}, in {found[0]['path']}\n")
    assert "\n3. score" not in shown


def test_window_stride_limit_and_unit_reach_the_search(prompt: Run) -> None:
    def places(*arguments: object) -> list[int]:
        out = prompt("tiny-gan/1", "--setting", "retrieval", "--explain", "--top", 9999, "--json", *arguments)[1]
        return sorted(json.loads(line)["place"] for line in out.splitlines())

    assert len(places("--limit", 30)) == 21
    assert len(places("--limit", 30, "--window", 5)) == 26
    assert len(places("--limit", 30, "--window", 5, "--stride", 5)) == 6
    assert 0 < len(places("--unit", "chunk")) < len(places())


def test_a_budget_cuts_and_a_preset_has_a_name(prompt: Run) -> None:
    out, err = prompt("tiny-gan/1", "--setting", "code", "--budget", "500")[1:]
    assert "500 characters of the repository, cut" in err
    assert "It was cut" in out
    assert "cut" not in prompt("tiny-gan/1", "--setting", "code", "--budget", "400k")[2]


def test_a_users_template_is_used_and_its_faults_are_bad_input(prompt: Run, tmp_path: Path) -> None:
    file = tmp_path / "short.jinja"
    file.write_text("Do this: {{ task.instruction }}")
    status, out, err = prompt("tiny-gan/1", "--template", file)
    assert (status, out.startswith("[user]\nDo this: ")) == (0, True)
    assert "template short/0-" in err
    file.write_text("\n{{ nothing }}")
    status, _, err = prompt("tiny-gan/1", "--template", file)
    assert status == 2
    assert err == f"ml-bench: {file}:2: 'nothing' is undefined\n"


def test_all_prompts_of_all_settings_become_a_table(prompt: Run, tmp_path: Path) -> None:
    out = tmp_path / "prompts.parquet"
    status, _, err = prompt("--all", "--setting", "all", "--out", out)
    assert status == 0
    rows = pq.read_table(out).to_pylist()
    expected = [(one.task_id, setting) for one in load_tasks("sample", "L").tasks for setting in SETTINGS]
    assert [(row["task_id"], row["setting"]) for row in rows] == expected
    assert all([message["role"] for message in row["messages"]] == ["system", "user"] for row in rows)
    assert f"{len(expected)} prompts, in {out}" in err


def test_without_a_file_all_prompts_go_to_standard_output(prompt: Run) -> None:
    status, out, _ = prompt("--all", "--only", "tiny-gan", "--setting", "instruction")
    assert status == 0
    assert {json.loads(line)["task_id"].partition("/")[0] for line in out.splitlines()} == {"tiny-gan"}


def test_repositories_that_cannot_be_had_are_listed_and_the_others_prompts_are_made(
    prompt: Run, tmp_path: Path
) -> None:
    source = tasks_file(tmp_path, 1, 2)
    out = tmp_path / "prompts.jsonl"
    arguments = ("--tasks", source, "--split", "full", "--setting", "all")
    status, _, err = prompt("--all", *arguments, "--out", out)
    assert status == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted({(row["task_id"], row["setting"]) for row in rows if row["task_id"] == "Some-Repo/1"}) == [
        ("Some-Repo/1", "instruction"),
        ("Some-Repo/1", "oracle"),
    ]
    assert len(rows) == 4 + 2 * 2
    assert "Some-Repo: 4 prompts left out: Some-Repo: no commit is known" in err
    assert "8 prompts, 4 left out for want of 1 repositories" in err
    assert prompt("Some-Repo/1", "--tasks", source, "--split", "full", "--setting", "code")[0] == 2


def test_where_no_prompt_can_be_made_at_all_that_is_an_error(prompt: Run, tmp_path: Path) -> None:
    source = tasks_file(tmp_path, 1)
    status, out, err = prompt(
        *("--all", "--tasks", source, "--split", "full", "--setting", "code", "--only", "Some-Repo")
    )
    assert (status, out) == (2, "")
    assert err.endswith("ml-bench: no prompt could be made, 1 were left out\n")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "name a task, or give --all"),
        (("tiny-gan/1", "--all"), "name a task, or give --all"),
        (("tiny-gan/999",), "no task 'tiny-gan/999'"),
        (("tiny-gan/1", "--explain"), "--explain is for one task"),
        (("tiny-gan/1", "--out", "x.parquet"), "go with --all"),
        (("tiny-gan/1", "--budget", "lots"), "write 100k, 400k"),
        (("--all", "--out", "x.csv"), "must end with"),
    ],
)
def test_what_makes_no_sense_is_bad_input(prompt: Run, arguments: tuple[str, ...], reason: str) -> None:
    status, out, err = prompt(*arguments)
    assert (status, out) == (2, "")
    assert reason in " ".join(err.replace("│", " ").split())


def test_nothing_of_a_repository_moves_the_cursor_of_a_terminal(
    prompt: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tasks_file(tmp_path, 1, oracle="red \x1b[31m\tand\u202e back")
    arguments = ("Some-Repo/1", "--tasks", source, "--split", "full")
    assert "red \x1b[31m\tand\u202e back" in prompt(*arguments)[1]  # a file or pipe gets what a model would
    monkeypatch.setattr("ml_bench_cli.prompt._is_terminal", lambda: True)
    shown = prompt(*arguments)[1]
    assert "red \\x1b[31m" in shown
    assert "and\\u202e back" in shown
    assert set("\x1b\t\u202e") & set(shown) == set()
