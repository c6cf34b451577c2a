"""Why a candidate got its verdict: everything is there, and nothing of it can act on the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ml_bench_metric.report.explanation import explain
from ml_bench_metric.results import Result
from ml_bench_metric.sandbox.execution import Output, Times
from tests.result_builders import BAD, ERROR, FAILING, execution, result

NASTY = "[bold red]x[/]\x1b[2J\x1b]0;title\x07\r:smile:\u202e\ud800\x00\x9b31m\u2028end"
ESCAPED = "[bold red]x[/]\\x1b[2J\\x1b]0;title\\x07\\r:smile:\\u202e\\ud800\\x00\\x9b31m\\u2028end"


def printed(one: Result, *, terminal: bool = False, width: int = 80) -> str:
    file = io.StringIO()
    explain(
        one, Console(file=file, width=width, force_terminal=terminal, color_system="truecolor" if terminal else None)
    )
    return file.getvalue()


def test_everything_that_explains_a_verdict_is_there() -> None:
    ran = execution(
        "still_running",
        cpu_seconds=0.1,
        peak_memory_bytes=3 * 1024 * 1024,
        oom_kills=2,
        image="sha256:abc",
        assets="stand_in",
        times=Times(queue=1.0, start=0.25, run=10.02, teardown=0.05),
        stdout=Output(head="epoch 1\nepoch 2\n", bytes=16),
        stderr=Output(head="warn", tail="ing", bytes=99_999, truncated=True),
    )
    text = printed(result("dgl/1", 2, ran, original=BAD, problems=("flag without a program",)))
    for expected in (
        "dgl/1, candidate 2 (Bash Script)",
        "original   failed: arguments missing: lr=0.001",
        "strict     failed: still running at the limit, but used 0.10 s CPU of 10 s",
        "extraction the whole text",
        "problem    flag without a program",
        "checks     original: type ok, arguments missing lr=0.001",
        "checks     strict: type ok, arguments ok",
        "outcome    still_running, no exit status",
        "run 10.02 s of 10 s (queue 1.00 s, start 0.25 s, teardown 0.05 s)",
        "CPU        0.10 s",
        "peak 3.0 MiB, 2 processes killed at the limit",
        "image      sha256:abc",
        "assets     stand-ins for weights and data; not comparable with runs on the real ones",
        "program, 15 bytes\n  | python train.py\n",
        "stdout, 16 bytes\n  | epoch 1\n  | epoch 2\nstderr",
        "stderr, 99,999 bytes, its beginning\n  | warn\nstderr, its end\n  | ing\n",
    ):
        assert expected in text


def test_the_cause_stands_there_once_or_for_each_rule_and_not_for_what_passes() -> None:
    assert "  cause      other: exit status 1\n" in printed(result(execution=FAILING))
    both = printed(result(execution=execution("still_running", cpu_seconds=0.1), original=BAD))
    assert "  cause      original: argument missing (E3 knowledge manipulation): not in the program: lr=0.001\n" in both
    assert "  cause      strict: waits without computing: still running at the limit" in both
    assert "cause" not in printed(result())


@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_a_candidate_wrote_can_act_on_the_terminal(terminal: bool) -> None:
    ran = execution("killed", reason=NASTY, stdout=Output(head=NASTY, bytes=9), stderr=Output(tail=NASTY, bytes=9))
    one = result(f"{NASTY}/1", execution=ran, text=NASTY, extraction=NASTY, problems=(NASTY,), repository="x")
    text = printed(one, terminal=terminal)
    assert text.count(ESCAPED) == 8
    for character in "\x07\r\u202e\ud800\x00\x9b\u2028":
        assert character not in text
    assert "\x1b[2J" not in text
    assert terminal or "\x1b" not in text
    text.encode("utf-8")


def test_long_lines_are_neither_cut_nor_wrapped_so_that_they_can_be_searched() -> None:
    long = "x" * 5_000
    assert f"  | {long}\n" in printed(result(execution=execution(stdout=Output(head=long, bytes=5_000))))


def test_blank_lines_and_carriage_returns_of_the_output_are_kept() -> None:
    ran = execution(stdout=Output(head="a\r\n\n\nb", bytes=6))
    assert "stdout, 6 bytes\n  | a\\r\n  | \n  | \n  | b\nstderr, 0 bytes\n" in printed(result(execution=ran))


def test_an_answer_without_a_program_has_no_execution_to_show() -> None:
    text = printed(result(text=None))
    assert "original   failed: no program in the answer (nothing: prose only)" in text
    assert "stdout" not in text
    assert "checks" not in text


def test_an_environment_error_gives_its_reason_and_is_no_failure() -> None:
    text = printed(result(execution=ERROR))
    assert "original   unknown: environment error: no image for repo" in text
    assert "failed" not in text


def test_a_program_that_was_cut_says_where_the_rest_is() -> None:
    text = printed(result(text="x" * 100_000))
    assert "program, 100,000 bytes" in text
    assert "… the rest is in the predictions" in text
