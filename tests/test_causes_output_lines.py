"""Reading an output: bounded, without colours, and never a half line as a whole one."""

from __future__ import annotations

import time

from ml_bench_metric.causes import find
from ml_bench_metric.causes.output_lines import KEPT_CHARACTERS, lines
from ml_bench_metric.sandbox.execution import Output
from tests.cause_builders import PYTHON_FILE, failed, output, python_failed, traceback


def test_colours_titles_and_carriage_returns_do_not_hide_a_line() -> None:
    text = "\x1b]0;title\x07 10%|x\r 20%|x\r\n\x1b[1;31mValueError\x1b[0m: no\x1b[K\n"
    assert lines(output(text)) == [" 10%|x", " 20%|x", "ValueError: no", ""]
    assert find(failed("python a.py", "\x1b[1ma.py: error: unrecognized arguments: -x\x1b[0m\n"))["strict"].cause == (
        "wrong_argument"
    )


def test_the_half_line_after_dropped_bytes_is_left_out() -> None:
    cut = Output(head="begin", tail="Error: no\nlast", bytes=9999, truncated=True)
    assert lines(cut) == ["begin", "last"]
    assert lines(cut.model_copy(update={"truncated": False})) == ["beginError: no", "last"]


def test_only_the_end_of_a_huge_output_is_read_and_that_quickly() -> None:
    error = traceback("NameError: name 'x' is not defined", (PYTHON_FILE, "x"))
    for filler in ("spam: eggs ", "\n", "│ ", "a.b.", "x: ", "'", "/path/to/", "\x1b["):
        text = filler * 200_000 + "\n" + error
        assert sum(map(len, lines(output(text)))) <= KEPT_CHARACTERS
        begin = time.process_time()
        assert find(python_failed("x()", text))["strict"].cause == "undefined_name"
        assert time.process_time() - begin < 2
