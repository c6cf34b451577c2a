"""Text of strangers on a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_bench_metric.printable import printable
from tests.result_builders import quick


@quick
@given(st.text(st.characters(exclude_categories=())))
def test_nothing_is_left_that_acts_on_a_terminal_or_breaks_a_line(text: str) -> None:
    shown = printable(text)
    assert not any(unicodedata.category(c).startswith("C") for c in shown)
    assert len(shown.splitlines()) <= 1
    shown.encode("utf-8")


@pytest.mark.parametrize("text", ["", "lr=0.001", "é 図書館 😀", "[red] \\n"])
def test_visible_text_is_left_as_it_was(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", "a\\nb"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\u202e", "\\u202e"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_the_rest_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
