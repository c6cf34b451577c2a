"""The report of a validation: what contradicts the known issues is told, and no table spoils a text or a number."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.known_issues import Issue
from ml_bench_metric.report.validation import ValidationReport, render, report_of, to_markdown
from ml_bench_metric.results import RULES
from ml_bench_metric.tasks import TaskSet
from ml_bench_metric.validation import Findings, TaskValidation
from tests.fakes import DIGEST
from tests.result_builders import task_set
from tests.test_validation import OTHER, found_of, made


def issue(task_id: str, cause: Any = "gpu", rules: Any = RULES, reason: str = "It needs CUDA.") -> Issue:
    return Issue(task_id=task_id, rules=rules, cause=cause, reason=reason)


def report(
    tasks: TaskSet,
    found: dict[str, TaskValidation],
    *issues: Issue,
    failed: dict[str, str] | None = None,
    **images: str,
) -> ValidationReport:
    """A report; tasks whose repository has an image `<repository>=DIGEST` are served by it, others by `DIGEST`."""
    by_task = {
        one.task_id: TaskImage(images.get(one.repository, DIGEST), "stand_in" if one.repository == "a" else "real")
        for one in tasks.tasks
    }
    pending = tuple(task_id for task_id in by_task if task_id not in found and task_id not in (failed or {}))
    return report_of(Findings(found, failed or {}, pending), tasks, by_task, {}, issues, repeat=2, made=made())


def unexpected(found: TaskValidation, *issues: Issue) -> list[str]:
    return [line.removeprefix("a/1: ") for line in report(task_set("a/1"), {"a/1": found}, *issues).unexpected]


@pytest.mark.parametrize(
    ("facts", "issues", "lines"),
    [
        ({}, [], []),
        (
            {"passed": 0, "outcomes": ("exited 1", "still_running")},
            [],
            ["both rules: does not pass (1x exited 1, 1x still_running), and has no known issue"],
        ),
        ({"passed": 0}, [issue("a/1")], []),
        (
            {"passed": 0, "outcomes": ("exited 1", "exited 1")},
            [issue("a/1", rules=("original",))],
            ["rule strict: does not pass (exited 1), and has no known issue"],
        ),
        ({"strict": 0}, [issue("a/1", rules=("strict",))], []),
        (
            {},
            [issue("a/1"), issue("a/1", "checks", ("strict",))],
            [
                "rule original: passes, though it has a known issue (gpu)",
                "rule strict: passes, though it has a known issue (gpu, checks)",
            ],
        ),
        (
            {"strict": 1},
            [],
            ["rule strict: passes 1 of 2 times, and has no known issue"],
        ),
        ({"passed": 1}, [issue("a/1")], []),
        ({"empty_passes": ("original",)}, [], ["rule original: the empty candidate passes"]),
        ({"no_op_passes": RULES}, [], []),
    ],
)
def test_what_contradicts_the_known_issues_is_unexpected(
    facts: dict[str, Any], issues: list[Issue], lines: list[str]
) -> None:
    assert unexpected(found_of(**facts), *issues) == lines


def test_what_the_sandbox_failed_is_unexpected_and_what_is_pending_is_not() -> None:
    found = report(task_set("a/1", "a/2", "a/3"), {"a/3": found_of("a/3")}, failed={"a/2": "no space left"})
    assert found.not_validated == {"a/1": "not executed to its end", "a/2": "environment error: no space left"}
    assert found.unexpected == ("a/2: environment error: no space left",)


def test_a_report_survives_writing() -> None:
    one = report(task_set("a/1", "b/1"), {"a/1": found_of(), "b/1": found_of("b/1")}, issue("a/1"), b=OTHER)
    assert [(image.image, image.assets, list(image.tasks)) for image in one.images] == [
        (DIGEST, "stand_in", ["a/1"]),
        (OTHER, "real", ["b/1"]),
    ]
    assert ValidationReport.from_json(one.to_json(indent=2)) == one
    assert json.loads(one.to_json())["images"][0]["tasks"]["a/1"]["known"][0]["cause"] == "gpu"


def example() -> ValidationReport:
    tasks = task_set("a/1", "a/2", "a/3", "b/1", "b/2")
    found = {
        "a/1": found_of("a/1", seconds=1.234, cpu_seconds=None, peak_memory_bytes=3 * 2**20),
        "a/2": found_of("a/2", passed=1, no_op_passes=("original",)),
        "a/3": found_of("a/3", passed=0, outcomes=("exited 1", "exited 1")),
        "b/1": found_of("b/1", strict=0),
    }
    known = [issue("a/3", reason="A | B `[red]x[/]`\x1b[2J"), issue("b/1", "checks", ("strict",), "It lacks lr=0.5")]
    return report(tasks, found, *known, b=OTHER)


def printed(one: ValidationReport, width: int = 160) -> str:
    file = io.StringIO()
    render(one, Console(file=file, width=width))
    return file.getvalue()


def test_the_terminal_shows_counts_images_and_remarks() -> None:
    text = printed(example())
    rows = [line.split() for line in text.splitlines()]
    assert ["a", "3", "3", "1", "1", "1", "1"] in rows
    assert ["b", "2", "1", "1", "0", "0", "0"] in rows
    assert ["all", "5", "4", "2", "1", "1", "1"] in rows
    assert f"{DIGEST} (stand-ins for weights and data)" in text and f"{OTHER} (real weights and data)" in text
    assert ["a/1", "pass", "pass", "exited", "0", "1.23", "-", "3"] in rows
    assert ["a/2", "flaky", "1/2", "flaky", "1/2", "exited", "0", "1.00", "0.50", "0"] in rows
    assert "\na/2: UNEXPECTED; a no-op passes here (original)\n" in text
    assert "\na/3: known gpu: A | B `[red]x[/]`\\x1b[2J" in text
    assert "\nb/1: known checks (strict): It lacks lr=0.5\n" in text
    assert "Unexpected\n  a/2: both rules: passes 1 of 2 times, and has no known issue" in text
    assert "Not validated\n  b/2: not executed to its end" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("width", [20, 40, 80])
def test_numbers_are_whole_in_a_narrow_terminal(width: int) -> None:
    words = printed(example(), width).split()
    assert words.count("1.23") == 1
    assert words.count("1/2") == 2
    assert all(header in words for header in ("validated", "unexpected", "strict", "MiB"))


def test_markdown_shows_the_same_and_texts_as_they_are() -> None:
    text = to_markdown(example())
    lines = text.splitlines()
    assert lines[0] == "# Validation of split L: references executed 2 times"
    assert "- load of the machine before: 0.2" in lines
    assert "| a | 3 | 3 | 1 | 1 | 1 | 1 |" in lines
    assert "| a/1 | pass | pass | exited 0 | 1.23 | - | 3 |  |" in lines
    (row,) = [line for line in lines if line.startswith("| a/3 ")]
    assert row.endswith("| known gpu: A \\| B \\`\\[red\\]x\\[/\\]\\`\\\\x1b\\[2J |")
    tables = [line for line in lines if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in tables if line.count("---") or "a/" in line} <= {8, 9}
    assert "- a/2: both rules: passes 1 of 2 times, and has no known issue" in lines
