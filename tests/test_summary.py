"""The numbers of a run: honest denominators, bounds, and the same bytes for any order."""

from __future__ import annotations

import itertools
import json
import math
import random
import tracemalloc
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_bench_metric.checks import Rule
from ml_bench_metric.pass_at_k import bootstrap_interval
from ml_bench_metric.results import RULES, Result
from ml_bench_metric.sandbox.execution import Times
from ml_bench_metric.summary import PassAtK, RunningScore, Summary, summarise
from ml_bench_metric.verdicts import verdict
from tests.result_builders import BAD, ERROR, FAILING, GOOD, execution, result, task, task_set

KINDS = {
    "P": {},
    "f": {"execution": FAILING},
    "E": {"execution": ERROR},
    "x": {"execution": ERROR, "original": BAD, "strict": BAD},
    "-": {"text": None},
    "w": {"execution": execution("still_running", cpu_seconds=0.1)},
}
"""Candidates: passes, fails, environment error, the same but fails its checks anyway, no program, waits."""


def results_of(answers: dict[str, str]) -> list[Result]:
    """`{"repo/1": "Pf."}`: what became of each candidate of each task; a dot is one without a result."""
    found = []
    for task_id, kinds in answers.items():
        found += [result(task_id, i, **KINDS[kind]) for i, kind in enumerate(kinds) if kind != "."]  # type: ignore[arg-type]
    return found


def summary_of(answers: dict[str, str], **options: Any) -> Summary:
    expected = {task_id: len(kinds) for task_id, kinds in answers.items()}
    return summarise(results_of(answers), task_set(*answers), expected, **options)


def scores(answers: dict[str, str], **options: Any) -> dict[int, PassAtK]:
    summary = summary_of(answers, **options)
    return {score.k: score for score in summary.leading(summary.overall)}


def test_n_c_and_k_are_explicit_for_all_each_repository_and_each_type() -> None:
    tasks = task_set(task("a/1"), task("a/2", "Python Code"), task("b/1"))
    answers = {"a/1": "PPfff", "a/2": "fffff", "b/1": "PPPPP"}
    summary = summarise(results_of(answers), tasks, dict.fromkeys(answers, 5))
    groups = {"all": summary.overall} | summary.repositories | summary.types
    assert {
        name: (group.tasks, group.candidates, group.scores["original"].passed) for name, group in groups.items()
    } == {
        "all": (3, 15, 7),
        "a": (2, 10, 2),
        "b": (1, 5, 5),
        "Bash Script": (2, 10, 7),
        "Python Code": (1, 5, 0),
    }
    values = {name: [score.value for score in summary.leading(group)] for name, group in groups.items()}
    assert values["a"] == pytest.approx([0.2, 0.35, 0.5])
    assert values["b"] == [1.0, 1.0, 1.0]
    assert values["all"] == pytest.approx([7 / 15, (0.7 + 1) / 3, 2 / 3])


def test_the_ordered_estimator_is_that_of_the_paper() -> None:
    answers = {"a/1": "fPfff", "a/2": "Pffff", "a/3": "ffffP", "a/4": "fffff"}
    assert [score.value for score in scores(answers, estimator="ordered").values()] == [0.25, 0.5, 0.75]
    assert [score.value for score in scores(answers).values()] == pytest.approx([0.15, 0.3, 0.75])


def test_both_rules_are_computed_from_the_same_executions() -> None:
    summary = summary_of({"a/1": "w"}, ks=[1], rule="strict")
    assert [summary.overall.scores[rule].pass_at_k["unbiased"][0].value for rule in RULES] == [1.0, 0.0]
    assert summary.leading(summary.overall)[0].value == 0.0


def test_missing_predictions_count_as_failures() -> None:
    summary = summary_of({"a/1": "PPPPP", "a/2": "", "b/1": ""})
    assert [score.value for score in summary.leading(summary.overall)] == [1 / 3] * 3
    assert summary.missing == ("a/2", "b/1")
    assert (summary.overall.missing, summary.repositories["b"].missing) == (2, 1)
    assert [score.value for score in summary.leading(summary.repositories["b"])] == [0.0, 0.0, 0.0]
    everything = summary.overall.scores["original"].pass_at_k
    assert all(score.lower == score.upper == 1 / 3 for per_k in everything.values() for score in per_k)


def test_no_predictions_at_all_are_zero_and_still_a_summary() -> None:
    summary = summarise([], task_set("a/1", "a/2"), {})
    assert [(score.value, score.interval) for score in summary.leading(summary.overall)] == [(0.0, (0.0, 0.0))] * 3
    assert (summary.overall.candidates, summary.overall.expected) == (0, 0)


def test_answers_without_a_program_are_judged_and_fail() -> None:
    summary = summary_of({"a/1": "P-"}, ks=[1])
    assert summary.leading(summary.overall)[0].value == 0.5
    assert (summary.overall.candidates, summary.overall.outcomes["no_program"]) == (2, 1)


@pytest.mark.parametrize("rule", RULES)
def test_every_candidate_that_was_judged_and_failed_has_one_cause(rule: Rule) -> None:
    summary = summary_of({"a/1": "PfEx-w", "a/2": "", "b/1": "fw.."}, rule=rule)
    for group in (summary.overall, *summary.repositories.values(), *summary.types.values()):
        score = group.scores[rule]
        assert sum(score.causes.values()) == group.candidates - score.passed > 0
    waits = {} if rule == "original" else {"waits": 2}
    assert summary.overall.scores[rule].causes == {
        "refusal_or_empty": 1,
        "argument_missing": 1,
        **waits,
        "other": 2,
    }
    assert summary.overall.scores[rule].paper_classes == {"E3": 1, "E5": 1}
    assert summary.repositories["b"].scores[rule].causes == {**({"waits": 1} if waits else {}), "other": 1}


def test_causes_are_in_the_order_of_their_list_and_of_first_executions_alone() -> None:
    results = [*results_of({"a/1": "f-"}), result("a/1", 1, repeat=1, execution=FAILING)]
    summary = summarise(results, task_set("a/1"), {"a/1": 2})
    assert list(summary.overall.scores["strict"].causes.items()) == [("refusal_or_empty", 1), ("other", 1)]


def test_the_summary_of_a_version_that_knew_no_causes_is_read() -> None:
    stored = json.loads(summary_of({"a/1": "Pf"}).to_json())
    for group in (stored["overall"], *stored["repositories"].values(), *stored["types"].values()):
        for score in group["scores"].values():
            del score["causes"], score["paper_classes"]
    assert Summary.from_json(json.dumps(stored)).overall.scores["strict"].causes == {}


def test_k_larger_than_n_is_absent_never_one() -> None:
    found = scores({"a/1": "PPPPP", "a/2": "PP"})
    assert found[2].value == 1.0
    assert (found[5].value, found[5].lower, found[5].upper, found[5].interval) == (None, None, None, None)
    assert (found[5].short_tasks, found[5].open_tasks) == (1, 0)


def test_a_short_prediction_makes_k_absent_only_where_it_counts() -> None:
    summary = summary_of({"a/1": "PPPPP", "b/1": "P"}, ks=[5])
    assert summary.leading(summary.repositories["a"])[0].value == 1.0
    assert summary.leading(summary.repositories["b"])[0].value is None


def test_environment_errors_never_count_against_a_model() -> None:
    summary = summary_of({"a/1": "PPEEE", "a/2": "ffEff"}, ks=[1])
    (score,) = summary.leading(summary.overall)
    assert score.value == 0.5
    assert (score.lower, score.upper) == pytest.approx((0.2, 0.6))
    assert (summary.overall.candidates, summary.overall.environment_errors) == (6, 4)
    assert summary.environment_errors == {"a/1": 3, "a/2": 1}


def test_a_broken_environment_is_no_score_of_zero() -> None:
    # Two of the five would fail their checks; that must not make the repository's score 0 of 2.
    found = scores({"a/1": "EExxE"}, ks=[1])[1]
    assert (found.value, found.lower, found.upper, found.open_tasks) == (None, 0.0, 0.6, 1)


def test_known_failures_count_although_their_environment_failed() -> None:
    found = scores({"a/1": "PxxxE"}, ks=[1, 2])
    assert [found[k].value for k in (1, 2)] == [0.25, 0.5]
    summary = summary_of({"a/1": "PxxxE."})
    assert (summary.overall.candidates, summary.overall.environment_errors, summary.overall.pending) == (4, 4, 1)
    assert {rule: summary.overall.scores[rule].undecided for rule in RULES} == dict.fromkeys(RULES, 1)


def test_a_failure_that_one_rule_knows_is_undecided_under_the_other() -> None:
    one = result("a/1", 0, ERROR, original=BAD)
    for rule, judged in (("original", 1), ("strict", 0)):
        overall = summarise([one], task_set("a/1"), {"a/1": 1}, ks=[1], rule=rule).overall  # type: ignore[arg-type]
        assert overall.candidates == judged
        assert [overall.scores[r].undecided for r in RULES] == [0, 1]
        assert [overall.scores[r].pass_at_k["unbiased"][0].value for r in RULES] == [0.0, None]


def test_candidates_that_all_fail_their_checks_are_zero_whatever_the_environment_did() -> None:
    found = scores({"a/1": "xxx"}, ks=[1, 3])
    assert [(found[k].value, found[k].upper) for k in (1, 3)] == [(0.0, 0.0)] * 2


def test_environment_errors_never_inflate_a_score_beyond_what_is_possible() -> None:
    # One of one judged passes, but the other is known to fail: at most one of two.
    assert scores({"a/1": "Px"}, ks=[1])[1].value == 0.5


def test_tasks_without_a_judged_candidate_are_not_averaged_away() -> None:
    found = scores({"a/1": "P", "a/2": "E"}, ks=[1])[1]
    assert (found.value, found.lower, found.upper, found.interval) == (None, 0.5, 1.0, None)


def test_a_value_that_no_error_can_change_is_known() -> None:
    assert scores({"a/1": "PEEEE"}, ks=[5])[5].value == 1.0
    assert scores({"a/1": "EfP"}, ks=[3], estimator="ordered")[3].value == 1.0
    assert scores({"a/1": "xff"}, ks=[3], estimator="ordered")[3].value == 0.0


def test_with_the_paper_no_later_candidate_stands_in_for_an_environment_error() -> None:
    found = scores({"a/1": "EPPPP"}, ks=[1], estimator="ordered")[1]
    assert (found.value, found.lower, found.upper) == (None, 0.0, 1.0)


def test_a_run_cut_short_is_not_taken_for_failures() -> None:
    summary = summary_of({"a/1": "P....", "a/2": "....."}, ks=[1])
    (score,) = summary.leading(summary.overall)
    assert (score.value, score.lower, score.upper) == (None, 0.1, 1.0)
    assert (summary.overall.pending, summary.overall.missing, summary.overall.expected) == (9, 0, 10)


answers_of_tasks = st.dictionaries(
    st.sampled_from(["a/1", "a/2", "b/1", "b/2"]), st.text("PfEx-w.", max_size=4), min_size=1, max_size=4
)


def possible_worlds(kinds: str) -> Iterator[str]:
    """Every way in which the candidates that were not judged could have ended."""
    for world in itertools.product(*({"E": "Pf", ".": "Pf", "x": "f"}.get(kind, kind) for kind in kinds)):
        yield "".join(world)


@settings(max_examples=60, deadline=None)
@given(answers_of_tasks, st.integers(1, 4), st.sampled_from(["unbiased", "ordered"]))
def test_bounds_are_the_least_and_the_most_that_any_outcome_of_the_errors_could_give(
    answers: dict[str, str], k: int, estimator: Any
) -> None:
    found = scores(answers, ks=[k], estimator=estimator)[k]
    lowest, highest = Fraction(0), Fraction(0)
    for kinds in answers.values():
        if not kinds:
            continue
        if len(kinds) < k:
            assert (found.value, found.lower, found.upper) == (None, None, None)
            return
        values = [value_of(world, k, estimator) for world in possible_worlds(kinds)]
        lowest += min(values) / len(answers)
        highest += max(values) / len(answers)
    assert (found.lower, found.upper) == pytest.approx((float(lowest), float(highest)))
    if lowest == highest:
        assert found.value is not None
    overall = summary_of(answers, ks=[k]).overall
    assert all(
        overall.candidates + score.undecided + overall.pending == overall.expected for score in overall.scores.values()
    )
    if found.value is not None:
        assert found.lower is not None
        assert found.upper is not None
        assert found.lower <= found.value <= found.upper


def value_of(kinds: str, k: int, estimator: str) -> Fraction:
    passed = [kind in "Pw" for kind in kinds]
    drawn = [passed[:k]] if estimator == "ordered" else list(itertools.combinations(passed, k))
    return Fraction(sum(any(draw) for draw in drawn), len(drawn))


@settings(max_examples=25, deadline=None)
@given(answers_of_tasks, st.randoms(use_true_random=False))
def test_the_order_of_results_never_changes_a_byte(answers: dict[str, str], shuffle: random.Random) -> None:
    expected = {task_id: len(kinds) for task_id, kinds in answers.items()}
    results = [
        one.model_copy(
            update={
                "execution": one.execution.model_copy(
                    update={"times": Times(run=shuffle.random() * 10 ** shuffle.randint(0, 9))}
                )
            }
        )
        if one.execution
        else one
        for one in results_of(answers)
    ]
    first = summarise(results, task_set(*answers), expected).to_json()
    shuffle.shuffle(results)
    assert summarise(results, task_set(*answers), expected).to_json() == first


def test_a_summary_survives_writing_and_holds_plain_numbers_only() -> None:
    summary = summary_of({"a/1": "PPfEx", "b/1": "w-", "b/2": ""})
    assert Summary.from_json(summary.to_json(indent=2)) == summary

    def walk(value: object) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                assert type(key) is str
                walk(inner)
        elif isinstance(value, list | tuple):
            for inner in value:
                walk(inner)
        else:
            assert type(value) in (int, float, str, bool, type(None))
            assert not isinstance(value, float) or math.isfinite(value)

    walk(summary.model_dump())
    assert json.loads(summary.to_json())["overall"]["scores"]["original"]["pass_at_k"]["unbiased"][2]["value"] is None


def test_a_mean_of_equal_values_is_that_value_to_the_last_digit() -> None:
    for tasks in range(1, 12):
        assert scores({f"a/{i}": "Pfffffffff" for i in range(tasks)}, ks=[1])[1].value == 0.1


def test_total_times_do_not_depend_on_the_order_of_results() -> None:
    shuffle = random.Random(0)
    seconds = [shuffle.random() * 10 ** shuffle.randint(-3, 6) for _ in range(300)]
    totals = set()
    for _ in range(20):
        results = [result("a/1", i, execution=execution(times=Times(run=run))) for i, run in enumerate(seconds)]
        totals.add(summarise(results, task_set("a/1"), {"a/1": 300}, ks=[1]).times.run)
        shuffle.shuffle(seconds)
    (total,) = totals
    assert total == pytest.approx(math.fsum(seconds), rel=1e-12)


def test_the_interval_is_that_of_the_values_of_the_tasks() -> None:
    answers = {"a/1": "PPfff", "a/2": "fffff", "a/3": "PPPPP", "a/4": ""}
    assert scores(answers)[1].interval == bootstrap_interval([0.4, 0.0, 1.0, 0.0])


def test_one_task_gives_a_degenerate_interval() -> None:
    assert scores({"a/1": "Pf"}, ks=[1])[1].interval == (0.5, 0.5)


def test_the_ceiling_counts_references_under_each_rule() -> None:
    checks: dict[str, dict[Rule, Any]] = {
        "a/1": {"original": BAD, "strict": GOOD},
        "a/2": {"original": GOOD, "strict": GOOD},
    }
    summary = summary_of({"a/1": "P", "a/2": ""}, reference_checks=checks)
    assert summary.ceiling is not None
    assert {rule: (top.passed, top.tasks, top.share) for rule, top in summary.ceiling.items()} == {
        "original": (1, 2, 0.5),
        "strict": (2, 2, 1.0),
    }
    assert summary_of({"a/1": "P"}).ceiling is None
    with pytest.raises(ValueError, match="reference of task a/2"):
        summary_of({"a/1": "P", "a/2": ""}, reference_checks={"a/1": checks["a/1"]})


def test_times_and_outcomes_are_summed_and_unknown_cpu_time_is_said() -> None:
    known = execution(times=Times(queue=1.0, start=0.1, run=2.5, teardown=0.2), cpu_seconds=0.1)
    results = [result("a/1", i, execution=known) for i in range(10)]
    results += [result("a/1", 10, execution=execution("out_of_memory")), result("a/1", 11, text=None)]
    summary = summarise(results, task_set("a/1"), {"a/1": 12})
    assert summary.times.model_dump() == {
        "queue": 10.0,
        "start": 1.0,
        "run": 25.0,
        "teardown": 2.0,
        "cpu": 1.0,
        "cpu_unknown": 1,
        "reused": 0,
    }
    outcomes = summary.overall.outcomes
    assert (outcomes["exited"], outcomes["out_of_memory"], outcomes["no_program"], outcomes["killed"]) == (10, 1, 1, 0)


@pytest.mark.parametrize(
    ("results", "expected", "message"),
    [
        ([result("a/1"), result("a/1")], {"a/1": 1}, "two results for candidate 0 of task a/1"),
        ([result("a/1", 1)], {"a/1": 1}, "candidate 1 of task a/1, whose prediction has 1"),
        ([result("a/1")], {}, "candidate 0 of task a/1, whose prediction has 0"),
        ([result("z/9")], {"a/1": 1}, "'z/9', which is none of the tasks"),
        ([], {"z/9": 1}, "'z/9', which is no task of split 'full'"),
    ],
)
def test_results_that_do_not_belong_are_refused_by_name(
    results: list[Result], expected: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        summarise(results, task_set("a/1"), expected)


def test_a_summary_says_to_which_repositories_its_tasks_were_cut_down() -> None:
    whole = task_set("a/1", "b/1", "c/1")
    summary = summarise([], whole.only(["c", "a"]), {})
    assert summary.selection == ("a", "c")
    assert summary.digest != summarise([], whole, {}).digest
    assert summarise([], whole, {}).selection == ()


def test_tasks_that_are_left_out_count_nowhere_and_are_named() -> None:
    whole = task_set("a/1", "b/1", "c/1")
    part = whole.without({"b/1"}, "known-issues")
    summary = summarise([result("a/1")], part, {"a/1": 1}, ks=[1])
    assert [(left_out.why, left_out.tasks) for left_out in summary.excluded] == [("known-issues", ("b/1",))]
    assert (summary.overall.tasks, summary.missing, list(summary.repositories)) == (2, ("c/1",), ["a", "c"])
    assert summary.digest != summarise([], whole, {}).digest
    assert Summary.from_json(summary.to_json()) == summary


def test_executions_are_counted_by_the_weights_and_data_of_their_image() -> None:
    results = [
        result("a/1", 0, execution(assets="stand_in")),
        result("a/1", 1, execution("still_running", assets="stand_in")),
        result("a/1", 2, execution("environment_error", assets="stand_in", reason="it broke")),
        result("a/1", 3, text=None),
        result("b/1", 0, execution(assets="not_needed")),
    ]
    summary = summarise(results, task_set("a/1", "b/1", "c/1"), {"a/1": 4, "b/1": 1, "c/1": 1}, ks=[1])
    assert summary.overall.assets == {"not_needed": 1, "stand_in": 2}
    assert {name: group.assets for name, group in summary.repositories.items()} == {
        "a": {"stand_in": 2},
        "b": {"not_needed": 1},
        "c": {},
    }
    assert summary.types["Bash Script"].assets == summary.overall.assets


def test_nothing_to_score_and_a_senseless_k_are_errors() -> None:
    with pytest.raises(ValueError, match="no task"):
        summarise([], task_set(), {})
    with pytest.raises(ValueError, match="k is 0"):
        summarise([], task_set("a/1"), {}, ks=[0])


def test_results_are_taken_one_at_a_time_in_constant_memory() -> None:
    def flood(count: int) -> Iterator[Result]:
        for candidate in range(count):
            yield result("a/1", candidate, text="x" * 20_000)

    tasks = task_set("a/1")
    summarise(flood(10), tasks, {"a/1": 10}, ks=[1])
    tracemalloc.start()
    summarise(flood(2_000), tasks, {"a/1": 2_000}, ks=[1])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3_000_000  # all programs together are 40 MB


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.sampled_from(["a/1", "a/2", "b/1"]), st.text("Pfw-", min_size=1, max_size=4), min_size=1))
def test_the_running_score_ends_at_the_score(answers: dict[str, str]) -> None:
    for rule in RULES:
        running = RunningScore(rule)
        last = None
        for one in reversed(results_of(answers)):
            last = running.add(one)
        assert last == pytest.approx(scores(answers, ks=[1], rule=rule)[1].value)


def test_the_running_score_knows_nothing_of_environment_errors() -> None:
    running = RunningScore("original")
    assert running.add(result("a/1", 0, execution=ERROR)) is None
    assert running.add(result("a/1", 1)) == 1.0
    assert running.add(result("a/2", 0, execution=FAILING)) == 0.5
    assert running.add(result("a/2", 1, execution=ERROR, original=BAD)) == 0.5


def test_the_builders_defaults_pass_so_that_the_tests_above_mean_what_they_say() -> None:
    assert {kind: [verdict(result(**fields), rule).passed for rule in RULES] for kind, fields in KINDS.items()} == {  # type: ignore[arg-type]
        "P": [True, True],
        "f": [False, False],
        "E": [None, None],
        "x": [False, False],
        "-": [False, False],
        "w": [True, False],
    }
