"""A model's opinion on a failure: only a name of the list decides, and no reply can break it."""

from __future__ import annotations

import pytest

from ml_bench_metric.causes import CAUSES
from ml_bench_metric.causes.by_model import ask, prompt
from ml_bench_metric.causes.kinds import Finding
from tests.cause_builders import failed
from tests.result_builders import result

FAILED = failed("python train.py --n 3", "train.py: error: unrecognized arguments: --n 3\n")
BY_RULES = Finding("wrong_argument", "train.py: error: unrecognized arguments: --n 3", "E1")


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        ("missing_file: there is no train.py", Finding("missing_file", "there is no train.py")),
        ("\n crash_in_repository - it divides by zero\n", Finding("crash_in_repository", "it divides by zero")),
        ("other", Finding("other", BY_RULES.evidence)),
        ("It is missing_file.", BY_RULES),
        ("weather: it rains", BY_RULES),
        ("otherwise it would have passed", BY_RULES),
        ("", BY_RULES),
    ],
)
def test_a_reply_counts_where_it_begins_with_a_cause_and_else_the_rules_do(reply: str, wanted: Finding) -> None:
    assert ask(FAILED, "strict", lambda _: reply) == wanted


def test_a_candidate_that_has_not_failed_is_not_asked_about() -> None:
    def model(_: str) -> str:
        raise AssertionError("asked")

    assert ask(result(), "strict", model) is None


def test_the_prompt_has_the_causes_the_program_and_the_end_of_the_output_and_is_bounded() -> None:
    text = prompt(FAILED, "strict")
    for part in (*CAUSES, "python train.py --n 3", "unrecognized arguments", "exit status 1", "Bash Script"):
        assert part in text
    assert len(prompt(failed("x" * 60_000, "y" * 60_000), "strict")) < 12_000
    assert "(none: nothing: prose only)" in prompt(result(text=None), "strict")
