"""Sentences are what a reader takes for one, in prose and in code; together they cover every word."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_bench_solvers.sentences import sentences


def found(text: str, path: str = "README.md") -> list[str]:
    return [text[start:end] for start, end in sentences(path, text)]


def test_lines_of_a_paragraph_belong_together_and_its_sentences_do_not() -> None:
    assert found("One goes\non here. Two is short! Three?\nFour") == [
        "One goes\non here.",
        "Two is short!",
        "Three?",
        "Four",
    ]


def test_headings_lists_and_tables_are_apart() -> None:
    text = "# Train\nRun it:\n- first item\n  goes on. Then more.\n- second\n\n| a | b |\n|---|---|\n| 1 | 2 |\nEnd"
    assert found(text) == [
        *("# Train", "Run it:", "- first item\n  goes on.", "Then more.", "- second", "| a | b |", "| 1 | 2 |", "End"),
    ]


def test_each_line_of_code_is_one_in_a_fence_or_indented() -> None:
    text = "Run.\n```bash\npython a.py \\\n  --lr 0.1\n```\nor\n\n    python b.py. Now\n    exit\n"
    assert found(text) == ["Run.", "python a.py \\", "  --lr 0.1", "or", "    python b.py. Now", "    exit"]


def test_a_fence_that_is_never_closed_makes_the_rest_code() -> None:
    assert found("```\na\nb. C\n") == ["a", "b. C"]


def test_in_a_program_each_line_with_a_word_is_one() -> None:
    assert found("import a. B\n\n)\n#####\nx = 1\n", "a.py") == ["import a. B", "x = 1"]


def test_abbreviations_versions_and_file_names_end_no_sentence() -> None:
    text = "Use e.g. GPT or i.e. That with v1.2 of train.py and vs. others."
    assert found(text) == [text]


def test_chinese_sentences_end_too() -> None:
    assert found("第一句。第二句。第三") == ["第一句。", "第二句。", "第三"]


@pytest.mark.parametrize("text", ["", "\n\n", "---\n***\n", "```\n```"])
def test_without_a_word_there_is_no_sentence(text: str) -> None:
    assert found(text) == []


@given(st.text(alphabet="aB1.!? \n\t#-`|。é", max_size=200), st.sampled_from(["README.md", "a.py"]))
def test_sentences_are_in_order_do_not_overlap_and_cover_every_word(text: str, path: str) -> None:
    spans = list(sentences(path, text))
    assert all(start < end for start, end in spans)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    if "`" not in text:
        covered = {place for start, end in spans for place in range(start, end)}
        assert {match.start() for match in re.finditer(r"[^\W_]", text)} <= covered
