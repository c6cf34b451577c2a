"""The table of a run: it fits the terminal, cuts no number, and shows what the numbers must not be read without."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from ml_bench_metric.report.table import render
from ml_bench_metric.summary import ExecutedCeiling, Summary, summarise
from tests.result_builders import BAD, ERROR, FAILING, GOOD, PASSING, execution, result, task, task_set

NAMES = ("dgl", "External-Attention-pytorch", "Grounded-Segment-Anything")


def run(**kinds: str) -> Summary:
    """A run of three repositories with a task of each type; `t1`, `t2` change the candidates of `dgl/1`, `dgl/2`."""
    tasks = [task(f"{name}/{i}", kind) for name in NAMES for i, kind in ((1, "Bash Script"), (2, "Python Code"))]  # type: ignore[arg-type]
    answers = {one.task_id: kinds.get("t" + one.task_id.removeprefix("dgl/"), "PfffP") for one in tasks}
    executions = {"P": PASSING, "f": FAILING, "E": ERROR}
    results = [
        result(task_id, i, executions[kind])
        for task_id, candidates in answers.items()
        for i, kind in enumerate(candidates)
        if kind != "."
    ]
    checks = {one.task_id: {"original": BAD if one.task_id == "dgl/2" else GOOD, "strict": GOOD} for one in tasks}
    expected = {task_id: len(candidates) for task_id, candidates in answers.items()}
    return summarise(results, task_set(*tasks), expected, ks=[1, 2, 5], reference_checks=checks)  # type: ignore[arg-type]


def printed(summary: Summary, width: int = 80) -> str:
    file = io.StringIO()
    render(summary, Console(file=file, width=width))
    return file.getvalue()


def cells(text: str, name: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(name)]
    return line.removeprefix(name).split()


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_has_all_numbers_of_each_group_on_one_line(width: int) -> None:
    text = printed(run(), width)
    for name in NAMES:
        assert cells(text, name) == ["2", "10", "4", "40.0", "70.0", "100.0", "0", "0"]
    assert cells(text, "Bash Script") == ["3", "15", "6", "40.0", "70.0", "100.0", "0", "0"]
    assert cells(text, "all ") == ["6", "30", "12", "40.0", "70.0", "100.0", "0", "0"]
    blank = [number for number, line in enumerate(text.splitlines()) if not line.strip()]
    assert len(blank) == 3  # after repositories, after types, before the lines below
    assert all(len(line) <= width for line in text.splitlines())
    assert "…" not in text


@pytest.mark.parametrize("width", [1, 20, 40, 60, 79, 80, 120, 300])
@pytest.mark.parametrize("ks", [[1], [1, 2, 5], [1, 2, 5, 10, 100, 1000, 100_000]])
def test_no_number_is_cut_however_narrow_the_terminal(width: int, ks: list[int]) -> None:
    tasks = [f"{NAMES[1]}/{i}" for i in range(400)]
    results = [result(task_id, i) for task_id in tasks for i in range(3)]
    text = printed(summarise(results, task_set(*tasks), dict.fromkeys(tasks, 3), ks=ks), width)
    rows = [line.split()[1:] for line in text.splitlines() if line.startswith("all  ")]
    assert all(row[:3] == ["400", "1200", "1200"] and row[-2:] == ["0", "0"] for row in rows)
    assert [cell for row in rows for cell in row[3:-2]] == ["100.0" if k <= 3 else "-" for k in ks]
    headers = re.findall(r"pass@(\d+)(?= +(?:pass|missing))", text)
    assert headers == [str(k) for k in ks]


def test_without_a_terminal_the_output_is_plain() -> None:
    assert "\x1b" not in printed(run())


def test_the_total_has_its_interval_and_the_other_rule_beside_it() -> None:
    text = printed(run())
    assert "pass@1 40.0%, 95% interval 40.0% to 40.0%\n" in text
    assert "rule original, estimator unbiased" in text
    assert "Rule strict instead: pass@1=40.0, pass@2=70.0, pass@5=100.0" in text


def test_the_ceiling_stands_beside_the_score() -> None:
    assert "Ceiling: 83.3%, since 5 of 6 references pass the static checks of rule original" in printed(run(), 120)


def test_an_undefined_k_is_a_dash_with_its_reason_never_a_number() -> None:
    text = printed(run(t1="PP"))
    assert cells(text, "dgl") == ["2", "7", "4", "70.0", "85.0", "-", "0", "0"]
    assert cells(text, "all ")[5] == "-"
    assert "pass@5 is undefined (tasks with fewer than 5 candidates: 1 of 6)" in text


def test_missing_predictions_are_named() -> None:
    text = printed(run(t2=""))
    assert cells(text, "dgl") == ["2", "5", "2", "20.0", "35.0", "50.0", "1", "0"]
    assert "Tasks without a prediction, which count as failures: 1 (dgl/2)" in text


def test_environment_errors_show_as_bounds() -> None:
    text = printed(run(t1="PEEEE"), 120)
    assert cells(text, "dgl") == ["2", "6", "3", "70.0", "55-85", "100.0", "0", "4"]
    assert "pass@1 50.0%, 95% interval" in text
    assert "between 36.67% and 50.00% whatever the candidates not judged would have done" in text
    assert "pass@2 lies between 65.00% and 75.00% (tasks that hang on candidates not judged: 1 of 6)" in text
    assert "Candidates with an environment error, which are not among n: 4 (dgl/1)" in text


def test_environment_errors_that_are_known_failures_are_told_from_the_others() -> None:
    results = [result("a/1", 0), result("a/1", 1, ERROR), result("a/1", 2, ERROR, original=BAD, strict=BAD)]
    text = printed(summarise(results, task_set("a/1"), {"a/1": 3}, ks=[1]), 120)
    assert cells(text, "all ") == ["1", "2", "1", "50.0", "0", "2"]
    assert "an environment error: 2 (a/1), 1 of them not among n; the others fail the static checks anyway" in " ".join(
        text.split()
    )


def test_a_table_of_some_repositories_says_so() -> None:
    tasks = task_set("a/1", "b/1", "c/1")
    assert "\nonly repositories: a, c\n" in printed(summarise([], tasks.only(["c", "a"]), {}))
    assert "only repositories" not in printed(summarise([], tasks, {}))


def test_a_table_without_some_tasks_says_which_and_why() -> None:
    tasks = task_set("a/1", *(f"b/{number}" for number in range(7)))
    text = printed(summarise([], tasks.without(set(tasks.by_id) - {"a/1"}, "known-issues"), {}), 120)
    assert "\nleft out for known-issues: 7 tasks (b/0, b/1, b/2, b/3, b/4 and 2 more)\n" in text
    assert "left out" not in printed(summarise([], tasks, {}))


@pytest.mark.parametrize(
    ("assets", "line"),
    [
        ("stand_in", "made with stand-ins for weights and data: 2 of 3 executions (b)"),
        ("none", "made without the weights and data that tasks need: 2 of 3 executions (b)"),
        ("real", ""),
        ("not_needed", ""),
    ],
)
def test_numbers_that_were_not_made_on_real_weights_and_data_say_so(assets: str, line: str) -> None:
    results = [
        result("a/1", 0, execution(assets="not_needed")),
        result("b/1", 0, execution(assets=assets)),
        result("b/1", 1, execution(assets=assets)),
    ]
    text = printed(summarise(results, task_set("a/1", "b/1"), {"a/1": 1, "b/1": 2}, ks=[1]), 200)
    warning = f"\n{line}; not comparable with scores on the real weights and data\n"
    assert (warning in text) if line else ("comparable" not in text)


def test_the_executed_ceiling_stands_beside_the_score_or_is_said_to_be_unknown() -> None:
    summary = run()
    assert "Executed ceiling: not known for these images and limits; `ml-bench validate` finds it out" in printed(
        summary, 120
    )
    agents = printed(summary.model_copy(update={"split": "A"}), 200)
    assert "Executed ceiling: not known; `ml-bench evaluate --references --split A` executes them" in agents
    of_rules = {
        "original": ExecutedCeiling(passed=3, flaky=1, tasks=5, not_validated=1, share=0.6),
        "strict": ExecutedCeiling(passed=2, flaky=0, tasks=5, not_validated=1, share=0.4),
    }
    text = printed(summary.model_copy(update={"executed_ceiling": of_rules}), 200)
    assert (
        "Executed ceiling: 60.0%, since 3 of 5 references pass in these images under rule original; "
        "passing sometimes: 1; tasks that were not validated: 1\n"
    ) in text
    text = printed(summary.model_copy(update={"executed_ceiling": of_rules, "rule": "strict"}), 200)
    assert "3 of 5" not in text
    assert "since 2 of 5 references pass in these images under rule strict; tasks that were not validated: 1\n" in text


def test_bounds_in_a_cell_are_rounded_outwards() -> None:
    executions = [PASSING, PASSING, PASSING, PASSING, ERROR, FAILING]
    results = [result(f"dgl/{i}", execution=ran) for i, ran in enumerate(executions)]
    tasks = [one.task_id for one in results]
    text = printed(summarise(results, task_set(*tasks), dict.fromkeys(tasks, 1), ks=[1]))
    assert cells(text, "all ")[3] == "66-84"


def test_why_candidates_failed_stands_below_the_table() -> None:
    text = printed(run(), 200)
    assert "Causes of failures, rule original: other 18\n" in text
    assert "  External-Attention-pytorch: other 6\n" in text


def test_an_incomplete_run_says_so() -> None:
    assert "Candidates not judged yet, which are not among n: 3; this run is not complete" in printed(run(t1="Pf..."))


def test_many_missing_tasks_are_counted_and_some_named() -> None:
    text = printed(summarise([], task_set(*(f"a/{i}" for i in range(9))), {}), 120)
    assert "count as failures: 9 (a/0, a/1, a/2, a/3, a/4 and 4 more)" in text


def test_a_repository_called_like_markup_or_escapes_is_shown_as_it_is() -> None:
    name = "[red]x\x1b[2J:smile:"
    text = printed(summarise([], task_set(f"{name}/1"), {}))
    assert "[red]x\\x1b[2J:smile:" in text
    assert "\x1b" not in text


def test_a_wide_name_is_measured_in_cells() -> None:
    name = "国立国会図書館関西館"
    text = printed(summarise([], task_set(f"{name}/1", "b/1"), {}, ks=[1]))
    assert cells(text, name) == ["1", "0", "0", "0.0", "1", "0"]
