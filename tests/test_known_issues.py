"""Known issues: every reference that is known not to pass is listed with its reason, and can be left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ml_bench_cli.main import main
from ml_bench_metric.environments.recipe import Cause, Device
from ml_bench_metric.known_issues import Issue, known_issues, tasks_with_issues
from ml_bench_metric.results import RULES
from ml_bench_metric.sandbox.execution import Assets
from ml_bench_metric.tasks import Task, TaskSet, load_tasks
from tests.recipe_builders import RecipeFolder
from tests.result_builders import task, task_set


def _task(task_id: str, **columns: object) -> Task:
    """A task whose reference passes the static checks of both rules, if no column is changed."""
    right = {"arguments": "{'lr': 0.5}", "output": "python train.py --lr 0.5", "github_id": ord(task_id[0])}
    return task(task_id).model_copy(update={**right, **columns})


def _faulty() -> TaskSet:
    """`a/1` is right; `a/2` lacks an argument; `b/1` passes the substring search only; `b/2` is of the wrong type."""
    return task_set(
        _task("a/1"),
        _task("a/2", output="python train.py --quiet"),
        _task("b/1", output="python train.py --lr 0.55"),
        _task("b/2", output="python -m train --lr 0.5"),
    )


def issues_of(
    tasks: TaskSet, *, assets: Assets | dict[str, Assets] = "stand_in", device: Device = "cpu"
) -> tuple[Issue, ...]:
    return known_issues(
        tasks, assets_of=lambda one: assets if isinstance(assets, str) else assets[one.task_id], device=device
    )


def test_what_the_static_checks_refuse_is_listed_with_what_is_missing(recipe_folder: RecipeFolder) -> None:
    assert [(issue.task_id, issue.rules, issue.cause, issue.reason) for issue in issues_of(_faulty())] == [
        ("a/2", ("original", "strict"), "checks", "the reference does not use lr=0.5"),
        ("b/1", ("strict",), "checks", "the reference does not use lr=0.5"),
        ("b/2", ("original",), "checks", "the reference is not of the type that the task asks for (Bash Script)"),
    ]


def test_rules_that_miss_different_things_have_an_issue_each(recipe_folder: RecipeFolder) -> None:
    one = _task("a/1", arguments="{'lr': 0.5, 'seed': 7}", output="python train.py --lr 0.55")
    assert [(issue.rules, issue.reason) for issue in issues_of(task_set(one))] == [
        (("original",), "the reference does not use seed=7"),
        (("strict",), "the reference does not use lr=0.5, seed=7"),
    ]


def test_what_recipes_say_follows_in_the_order_of_the_tasks(recipe_folder: RecipeFolder) -> None:
    recipe_folder.recipe(
        "second",
        known_issues=[{"tasks": ["a/2", "other/9"], "cause": "packages", "reason": "no wheel", "rules": ["strict"]}],
    )
    recipe_folder.recipe("first", known_issues=[{"tasks": ["b/2", "a/1"], "cause": "gpu", "reason": "needs CUDA"}])
    assert [(issue.task_id, issue.rules, issue.cause) for issue in issues_of(_faulty())] == [
        ("a/1", RULES, "gpu"),
        ("a/2", RULES, "checks"),
        ("a/2", ("strict",), "packages"),
        ("b/1", ("strict",), "checks"),
        ("b/2", ("original",), "checks"),
        ("b/2", RULES, "gpu"),
    ]


@pytest.mark.parametrize(
    ("cause", "assets", "device", "applies"),
    [
        ("reference", "real", "gpu", True),
        ("packages", "real", "gpu", True),
        ("gpu", "real", "cpu", True),
        ("gpu", "none", "gpu", False),
        ("assets", "stand_in", "gpu", True),
        ("assets", "none", "cpu", True),
        ("assets", "unknown", "cpu", True),
        ("assets", "real", "cpu", False),
    ],
)
def test_an_issue_is_known_only_where_it_applies(
    recipe_folder: RecipeFolder, cause: Cause, assets: Assets, device: Device, applies: bool
) -> None:
    recipe_folder.recipe("a", known_issues=[{"tasks": ["a/1"], "cause": cause, "reason": "because"}])
    assert bool(issues_of(task_set(_task("a/1")), assets=assets, device=device)) is applies


def test_images_of_several_kinds_are_told_apart_by_task(recipe_folder: RecipeFolder) -> None:
    recipe_folder.recipe("a", known_issues=[{"tasks": ["a/1", "b/1"], "cause": "assets", "reason": "weights"}])
    found = issues_of(task_set(_task("a/1"), _task("b/1")), assets={"a/1": "real", "b/1": "stand_in"})
    assert tasks_with_issues(found) == {"b/1"}


def test_one_rule_is_enough_to_leave_a_task_out(recipe_folder: RecipeFolder) -> None:
    assert tasks_with_issues(issues_of(_faulty())) == {"a/2", "b/1", "b/2"}


def test_the_samples_references_have_no_known_issue() -> None:
    for split in ("L", "A"):
        assert issues_of(load_tasks("sample", split)) == ()


def _run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[list[str], list[str]]:
    """Run `ml-bench tasks` without an engine, and return the lines of standard output and error."""
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    monkeypatch.setattr("sys.argv", ["ml-bench", "tasks", "--known-issues", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    written = capsys.readouterr()
    return written.out.splitlines(), written.err.splitlines()


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(one.model_dump()) + "\n" for one in _faulty().tasks))
    return path


def test_the_command_lists_them_and_counts_each_cause(
    recipe_folder: RecipeFolder, rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = [
        {"tasks": ["a/1", "b/2"], "cause": "gpu", "reason": "needs CUDA"},
        {"tasks": ["a/1"], "cause": "assets", "reason": "weights"},
    ]
    recipe_folder.recipe("a", known_issues=known)
    out, errors = _run(monkeypatch, capsys, "--tasks", rows)
    assert out[0] == "a/1  both rules  gpu        needs CUDA"
    assert out[3] == "b/1  strict      checks     the reference does not use lr=0.5"
    assert errors == [
        "checks: 3 tasks (original 2, strict 2)",
        "gpu: 2 tasks (original 2, strict 2)",
        "assets: 1 tasks (original 1, strict 1)",
        f"4 of 4 tasks have a known issue, from {rows}",
    ]
    out, _ = _run(monkeypatch, capsys, "--tasks", rows, "--assets", "real", "--device", "gpu", "--json")
    found = [Issue.from_json(line) for line in out]
    assert [issue.cause for issue in found] == ["checks"] * 3


def test_the_command_shows_those_of_one_task(
    recipe_folder: RecipeFolder, rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, errors = _run(monkeypatch, capsys, "b/2", "--tasks", rows)
    assert [line.split()[0] for line in out] == ["b/2"]
    assert errors[-1].startswith("1 of 1 tasks")


@pytest.mark.real_data
def test_of_the_published_references_23_fail_the_original_checks(real_data: Path) -> None:
    tasks = load_tasks(str(real_data / "upstream"), "full")
    counts = {}
    for extract in ("none", "auto"):
        found = [
            issue
            for issue in known_issues(tasks, extract=extract, assets_of=lambda one: "real", device="gpu")
            if issue.cause == "checks"
        ]
        counts[extract] = [sum(rule in issue.rules for issue in found) for rule in RULES]
    assert counts == {"none": [23, 15], "auto": [23, 13]}
