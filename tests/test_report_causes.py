"""Causes in words: all of them have some, the most frequent come first, and one repository is not named twice."""

from __future__ import annotations

from ml_bench_metric.causes import CAUSES, PAPER_CLASSES, Finding
from ml_bench_metric.report.causes import PAPER_WORDS, WORDS, in_words, lines
from ml_bench_metric.results import Result
from ml_bench_metric.summary import Summary, summarise
from tests.cause_builders import failed
from tests.result_builders import BAD, FAILING, PASSING, execution, result, task_set


def summary(*results: Result) -> Summary:
    task_ids = list(dict.fromkeys(one.task_id for one in results))
    expected = {task_id: sum(one.task_id == task_id for one in results) for task_id in task_ids}
    return summarise(results, task_set(*task_ids), expected, ks=[1])


def test_every_cause_and_class_has_words() -> None:
    assert tuple(WORDS) == CAUSES
    assert len(set(WORDS.values())) == len(CAUSES)
    assert tuple(PAPER_WORDS) == PAPER_CLASSES


def test_a_run_shows_its_causes_the_most_frequent_first_and_three_of_each_repository() -> None:
    python, waits = "import torch\nprint(torch.ones(3))", execution("still_running", cpu_seconds=0.1)
    found = summary(
        result("a/1", 0, FAILING),
        result("a/1", 1, FAILING),
        result("a/1", 2, original=BAD),
        failed(python, task_id="a/1", candidate=3),
        result("a/1", 4, execution("out_of_memory")),
        result("b/1", 0, original=BAD),
        result("b/1", 1, waits),
        result("c/1", 0, PASSING),
    )
    assert list(lines(found)) == [
        "Causes of failures, rule original: argument missing 2, other 2, wrong language 1, out of memory 1",
        "Of the paper's classes: E3 knowledge manipulation 2, no class 4",
        "  a: other 2, wrong language 1, argument missing 1, others 1",
        "  b: argument missing 1",
    ]


def test_a_run_of_one_repository_has_no_line_for_it_and_one_without_failures_none_at_all() -> None:
    assert len(list(lines(summary(result("a/1", 0, FAILING))))) == 2
    assert list(lines(summary(result("a/1", 0)))) == []


def test_a_finding_is_told_with_its_class_and_its_evidence() -> None:
    assert in_words(Finding("syntax_error", "x = (", "E4")) == "syntax error (E4 syntax): x = ("
    assert in_words(Finding("other", "exit status 1")) == "other: exit status 1"
