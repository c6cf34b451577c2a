"""What a candidate's checks and execution mean under a rule."""

from __future__ import annotations

from typing import get_args

import pytest

from ml_bench_metric.checks import Checks, Rule
from ml_bench_metric.results import RULES
from ml_bench_metric.sandbox.execution import Execution, Outcome, Output
from ml_bench_metric.verdicts import Verdict, verdict
from tests.result_builders import BAD, ERROR, GOOD, execution, result

WRONG_TYPE = Checks(arguments=True, type=False, missing=())


@pytest.mark.parametrize("rule", RULES)
def test_only_exit_status_0_passes(rule: Rule) -> None:
    for status in range(256):
        found = verdict(result(execution=execution(status=status)), rule)
        assert found == Verdict(status == 0, f"exit status {status}")


@pytest.mark.parametrize("rule", RULES)
def test_an_exit_whose_status_is_unknown_does_not_pass(rule: Rule) -> None:
    assert verdict(result(execution=execution(status=None)), rule) == Verdict(False, "exit status unknown")


VERDICTS: dict[Outcome, tuple[bool | None, bool | None]] = {
    "exited": (True, True),
    "still_running": (True, False),
    "out_of_memory": (False, False),
    "killed": (False, False),
    "output_limit": (False, False),
    "disk_full": (False, False),
    "environment_error": (None, None),
}
"""Of each outcome under rule original and strict, with exit status 0 and no CPU time known."""


@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_every_outcome_has_a_verdict_under_every_rule(outcome: Outcome) -> None:
    ran = result(execution=execution(outcome))
    assert (verdict(ran, "original").passed, verdict(ran, "strict").passed) == VERDICTS[outcome]


@pytest.mark.parametrize(
    ("cpu", "limit", "passed"),
    [
        (0.0, 10.0, False),
        (4.99, 10.0, False),
        (5.0, 10.0, True),
        (9.9, 10.0, True),
        (40.0, 10.0, True),
        (2.0, 4.0, True),
    ],
)
def test_a_wait_is_not_a_computation_under_the_strict_rule(cpu: float, limit: float, passed: bool) -> None:
    ran = result(execution=execution("still_running", cpu_seconds=cpu), limit_seconds=limit)
    assert verdict(ran, "strict").passed is passed
    assert verdict(ran, "original").passed is True


def test_a_busy_machine_does_not_turn_training_into_a_wait() -> None:
    starved = result(execution=execution("still_running", cpu_seconds=0.6, ready_seconds=2.9), limit_seconds=3.0)
    assert verdict(starved, "strict").passed
    assert "busy machine" in verdict(starved, "strict").reason
    asleep = result(execution=execution("still_running", cpu_seconds=0.1, ready_seconds=0.4), limit_seconds=3.0)
    assert verdict(asleep, "strict").passed is False


def test_the_reason_of_a_wait_has_the_figures() -> None:
    ran = result(execution=execution("still_running", cpu_seconds=0.1), limit_seconds=3.0)
    assert verdict(ran, "strict").reason == (
        "still running at the limit, but used 0.10 s CPU of 3 s: a wait, not a computation"
    )


def test_an_unknown_cpu_time_never_passes_under_the_strict_rule() -> None:
    found = verdict(result(execution=execution("still_running", cpu_seconds=None)), "strict")
    assert found.passed is False
    assert "CPU time is unknown" in found.reason


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("ran", [execution(), execution("still_running", cpu_seconds=10.0)])
def test_a_failed_check_fails_whatever_the_execution_did(rule: Rule, ran: Execution) -> None:
    for checks in (BAD, WRONG_TYPE, Checks(arguments=False, type=False, missing=("a=1", "b=2"))):
        assert verdict(result(execution=ran, original=checks, strict=checks), rule).passed is False


def test_each_rule_looks_at_its_own_checks() -> None:
    ran = result(original=GOOD, strict=BAD)
    assert verdict(ran, "original").passed is True
    assert verdict(ran, "strict") == Verdict(False, "arguments missing: lr=0.001")


def test_every_failed_check_is_named() -> None:
    checks = Checks(arguments=False, type=False, missing=("a=1", "b=2"))
    assert verdict(result(original=checks), "original").reason == (
        "arguments missing: a=1, b=2; not of the type that the task asks for (Bash Script)"
    )


@pytest.mark.parametrize("rule", RULES)
def test_an_environment_error_is_never_a_failure_of_the_candidate(rule: Rule) -> None:
    found = verdict(result(execution=ERROR), rule)
    assert found == Verdict(None, "environment error: no image for repo")


@pytest.mark.parametrize("rule", RULES)
def test_an_environment_error_does_not_hide_that_the_checks_fail(rule: Rule) -> None:
    found = verdict(result(execution=ERROR, original=BAD, strict=BAD), rule)
    assert found.passed is False
    assert found.reason.startswith("arguments missing: lr=0.001; an environment error")


@pytest.mark.parametrize("rule", RULES)
def test_an_answer_without_a_program_fails(rule: Rule) -> None:
    found = verdict(result(text=None), rule)
    assert found == Verdict(False, "no program in the answer (nothing: prose only)")


@pytest.mark.parametrize(
    ("status", "name"), [(137, "SIGKILL"), (139, "SIGSEGV"), (134, "SIGABRT"), (255, "a signal"), (None, "a signal")]
)
def test_a_signal_is_named(status: int | None, name: str) -> None:
    ran = Execution(outcome="killed", status=status)
    assert verdict(result(execution=ran), "original") == Verdict(False, f"killed by {name}")


def test_the_output_limit_says_how_much_was_written() -> None:
    ran = execution("output_limit", stdout=Output(bytes=70_000_000), stderr=Output(bytes=5))
    assert "70,000,005 bytes" in verdict(result(execution=ran), "original").reason


@pytest.mark.parametrize("nasty", ["a\nb\r\x1b[2J", "\u202eevil", "\ud800", "x" * 10_000, "\x00"])
def test_a_reason_is_one_short_printable_line_whatever_is_in_it(nasty: str) -> None:
    checks = Checks(arguments=False, type=True, missing=(nasty,))
    for ran in (
        result(original=checks),
        result(execution=execution("environment_error", reason=nasty)),
        result(text=None, extraction=nasty),
    ):
        reason = verdict(ran, "original").reason
        assert reason.isprintable()
        assert len(reason) < 500
