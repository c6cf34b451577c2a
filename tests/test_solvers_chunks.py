"""Chunks keep together what belongs together, are of bounded length, and lose nothing."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_bench_solvers.chunks import LONGEST, chunks


def found(text: str, path: str = "a.py") -> list[str]:
    return [text[start:end] for start, end in chunks(path, text)]


def function(name: str, lines: int = 30, indent: str = "") -> str:
    body = "".join(f"{indent}    value_{number} = compute({number})\n" for number in range(lines))
    return f"{indent}# about {name}\n{indent}@decorated\n{indent}def {name}():\n{body}\n"


def test_functions_stay_whole_with_their_comments_and_decorators() -> None:
    parts = [function(name, 50) for name in "abc"]
    assert found("".join(parts)) == [part.strip() for part in parts]


def test_small_neighbours_become_one_chunk() -> None:
    assert len(found("import a\nimport b\n\n\ndef f():\n    pass\n")) == 1


def test_a_class_that_is_too_long_falls_apart_into_its_methods() -> None:
    methods = [function(name, 50, "    ") for name in "abc"]
    parts = found("class Model:\n    '''About it.'''\n\n" + "".join(methods))
    assert [re.findall(r"def (\w)", part) for part in parts if "def" in part] == [["a"], ["b"], ["c"]]
    assert parts[0].startswith("class Model:")


def test_a_function_that_is_too_long_falls_apart_between_statements() -> None:
    parts = found(function("long", 300))
    assert len(parts) > 3
    assert all(len(part) <= LONGEST for part in parts)
    assert all(re.search(r"\)$", part) for part in parts)


@pytest.mark.parametrize("text", ["print 'python 2'\n\nprint 'more'", "def f(:\n", "x = '\\d'\n", "(" * 5000, "a\0b"])
def test_what_is_no_python_falls_apart_by_paragraphs_without_a_warning(
    text: str, recwarn: pytest.WarningsRecorder
) -> None:
    assert re.sub(r"\s", "", "".join(found(text))) in (re.sub(r"\s", "", text), "")
    assert len(recwarn) == 0


def test_other_files_fall_apart_by_paragraphs() -> None:
    paragraphs = [("word " * 300).strip() for _ in range(3)]
    assert found("\n\n\n".join(paragraphs), "notes.md") == paragraphs


def test_a_line_without_end_stays_one_chunk_and_lines_of_a_long_paragraph_are_shared_out() -> None:
    assert [len(part) for part in found("x" * 9000, "a.txt")] == [9000]
    parts = found("some words\n" * 1000, "a.txt")
    assert all(len(part) <= LONGEST for part in parts)
    assert "\n".join(parts) == ("some words\n" * 1000).strip()


def test_form_feeds_do_not_shift_lines() -> None:
    text = "import a\n\x0c\n" + function("f", 50) + "\x0c\n" + function("g", 50)
    assert [re.findall(r"def (\w)", part) for part in found(text) if "def" in part] == [["f"], ["g"]]


@pytest.mark.parametrize("text", ["", "\n", "---\n\n###"])
def test_without_a_word_there_is_no_chunk(text: str) -> None:
    assert found(text) == []


@given(
    st.lists(
        st.sampled_from(["x = 1\n", "def f():\n    pass\n", "# c\n", "\n", "if x:\n  y = 2\n", ")\n"]), max_size=600
    ),
    st.sampled_from(["a.py", "a.sh"]),
)
def test_chunks_are_in_order_and_cover_every_word(lines: list[str], path: str) -> None:
    text = "".join(lines)
    spans = list(chunks(path, text))
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    covered = {place for start, end in spans for place in range(start, end)}
    assert {match.start() for match in re.finditer(r"[^\W_]", text)} <= covered
