"""Reading exceptions: where they were raised, boxed ones, and which of several counts."""

from __future__ import annotations

import pytest

from ml_bench_metric.causes import find
from ml_bench_metric.causes.tracebacks import RaisedException, exceptions
from tests.cause_builders import PYTHON_FILE, python_failed, traceback

LIBRARY = "/usr/local/lib/python3.11/dist-packages/torch/nn.py"
REPOSITORY = "/workspace/tiny/tiny/net.py"
BOXED = f"""╭──────── Traceback (most recent call last) ────────╮
│ {PYTHON_FILE}:3 in <module>    │
│                                                   │
│   2 import torch                                  │
│ ❱ 3 net = load(kind="x")                          │
│                                                   │
│ {REPOSITORY}:70 in load              │
│                                                   │
│ ❱ 70 │   raise ValueError(kind)                   │
╰───────────────────────────────────────────────────╯
ValueError: no kind of
'x'
"""


def last(text: str) -> RaisedException:
    return list(exceptions(text.split("\n")))[-1][1]


@pytest.mark.parametrize(
    ("file", "place"),
    [
        (PYTHON_FILE, "program"),
        ("<string>", "program"),
        ("<stdin>", "program"),
        (REPOSITORY, "repository"),
        ("train.py", "repository"),
        (LIBRARY, "library"),
        ("/opt/conda/lib/python3.9/site-packages/a.py", "library"),
        ("<frozen importlib._bootstrap>", "library"),
    ],
)
def test_a_frame_is_in_the_program_the_repository_or_a_library(file: str, place: str) -> None:
    error = last(traceback("ValueError: no", (file, "f()")))
    assert error.raised_in == error.place == place


def test_the_place_of_an_exception_is_its_last_frame_outside_libraries() -> None:
    error = last(traceback("ValueError: no", (PYTHON_FILE, "f()"), (REPOSITORY, "g()"), (LIBRARY, "raise x")))
    assert (error.place, error.raised_in, error.source) == ("repository", "library", "raise x")


def test_boxed_tracebacks_are_read_too() -> None:
    error = last(BOXED)
    assert (error.kind, error.files, error.source) == (
        "ValueError",
        (PYTHON_FILE, REPOSITORY),
        "raise ValueError(kind)",
    )


def test_an_exception_without_a_message_and_one_with_its_module_are_read() -> None:
    assert last(traceback("AssertionError", (REPOSITORY, "assert x"))).message == ""
    assert last(traceback("a.b_c.errors.NotFoundError: /x; gone", (REPOSITORY, "f()"))).kind == "NotFoundError"


def test_lines_of_a_log_are_no_exceptions() -> None:
    for line in ("ERROR:root:bad", "a.py:3: UserWarning: old", "Error rate: 0.3", "val_error: 0.1", "x ValueError: no"):
        assert list(exceptions([line])) == []


def test_of_several_exceptions_the_last_counts_and_what_was_handled_before_does_not() -> None:
    handled = traceback("ModuleNotFoundError: No module named 'apex'", (REPOSITORY, "import apex"))
    fatal = traceback("NameError: name 'x' is not defined", (PYTHON_FILE, "x"))
    assert find(python_failed("x()", handled + "going on without apex\n" + fatal))["strict"].cause == "undefined_name"


def test_an_exception_that_says_nothing_is_explained_by_the_one_that_it_came_from() -> None:
    first = traceback("OSError: Network is unreachable", (LIBRARY, "connect()"))
    then = "\nDuring handling of the above exception, another exception occurred:\n\n"
    second = traceback("OSError: no model x", (LIBRARY, "raise"))
    assert find(python_failed("x()", first + then + second))["strict"].cause == "needs_network"
    wrapped = traceback("ZeroDivisionError: no", (REPOSITORY, "a / b")) + traceback(
        "subprocess.CalledProcessError: Command 'x' returned non-zero exit status 1.", (LIBRARY, "raise")
    )
    found = find(python_failed("x()", wrapped))["strict"]
    assert (found.cause, found.evidence) == ("crash_in_repository", "ZeroDivisionError: no")
