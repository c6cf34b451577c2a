"""Parsing is safe for any text, runs nothing, and does not depend on the judge's surroundings."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_bench_metric import syntax

DEEP = [
    "1" + "+1" * 49_000,
    "a" + ".b" * 49_000,
    "f" + "()" * 49_000,
    "-" * 99_000 + "1",
    "(" * 99_000,
    "not " * 24_000,
]


@pytest.mark.parametrize(
    "text", [*DEEP, "\0", "import a\0", "x = '\ud800'", "9" * 5_000, "if", "\x00\xff", "a" * 100_001]
)
def test_no_text_breaks_the_parser(text: str) -> None:
    syntax.python_tree(text)
    assert not syntax.is_python_program(text) or "()" in text  # what is not too deep for it is a chain of calls


def test_texts_that_could_crash_the_interpreter_are_not_parsed() -> None:
    assert syntax.python_tree("1" + "+1" * 200_000) is None
    assert not syntax.bash_accepts("true\n" * 30_000)


def test_warnings_as_errors_change_no_decision() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert syntax.python_tree("x = '\\d'\nif x is 1: pass") is not None


def test_warnings_of_a_candidate_are_not_shown(recwarn: pytest.WarningsRecorder) -> None:
    syntax.python_tree("x = '\\d'")
    assert not recwarn.list


@pytest.mark.parametrize(
    "text", ["", "# only a comment", "'''text'''", "Sorry", "No, thanks", "ls -l", "pass", "1", "..."]
)
def test_idle_texts_do_nothing(text: str) -> None:
    tree = syntax.python_tree(text)
    assert tree is not None
    assert not syntax.does_something(tree)


@pytest.mark.parametrize("text", ["import a", "a = 1", "a()", "def f(): pass", "for a in b: pass", "a.b(c)"])
def test_programs_do_something(text: str) -> None:
    tree = syntax.python_tree(text)
    assert tree is not None
    assert syntax.does_something(tree)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("import torch", True), ("f(1)", True), ("class A: pass", True), ("A=1", False), ("ls -l", False), ("a b", False)],
)
def test_only_what_is_meant_as_python_is_a_python_program(text: str, expected: bool) -> None:
    assert syntax.is_python_program(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python a.py --x 1", True),
        ("if true; then a; fi", True),
        ("cat <<E\n$(\nE", True),
        ("if true; then a", False),
        ("a 'b", False),
        ("print(a)", False),
        ("a (b > 5)", False),
        ("a\0b", False),
        ("x é \ud800", True),
    ],
)
def test_bash_decides_about_bash(text: str, expected: bool) -> None:
    assert syntax.bash_accepts(text) is expected


@pytest.mark.parametrize(
    "text", ["touch {0}", "set +n\ntouch {0}", "$(touch {0})", "trap 'touch {0}' EXIT", "exec touch {0}"]
)
def test_bash_runs_nothing(text: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    syntax.bash_accepts(text.format(trace))
    assert not trace.exists()


def test_environment_of_the_judge_does_not_get_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASHOPTS", "extglob")  # with it, bash takes this for a pattern
    assert not syntax.bash_accepts("ls !(a)")


def test_missing_bash_is_an_error_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(syntax.BashMissingError, match="install"):
        syntax.bash_accepts("true")


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_any_text_can_be_asked_about(text: str) -> None:
    syntax.is_python_program(text)
    syntax.has_statement(text)
