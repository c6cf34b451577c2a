"""The text of a repository says of each part which file it is, and survives the cache."""

from __future__ import annotations

import pytest

from ml_bench_solvers.repository_text import RepositoryText, unpacked
from ml_bench_solvers.text_files import TextFile

TEXT = RepositoryText((TextFile("README.md", "Read\nme"), TextFile("a/b.py", "x = 'ü\U0001f600'"), TextFile("c", "z")))


def test_each_file_stands_under_a_line_with_its_path() -> None:
    assert TEXT.text == (
        "===== README.md =====\nRead\nme\n\n===== a/b.py =====\nx = 'ü\U0001f600'\n\n===== c =====\nz\n\n"
    )


def test_sections_are_where_the_files_are() -> None:
    found = list(TEXT.sections())
    assert [(part.path, TEXT.text[part.start : part.end]) for part in found] == [
        (file.path, file.text) for file in TEXT.files
    ]
    assert [TEXT.text[part.header : part.header + 6] for part in found] == ["===== "] * 3
    for part in found:
        assert TEXT.path_at(part.header) == TEXT.path_at(part.start) == TEXT.path_at(part.end - 1) == part.path


def test_an_empty_repository_has_an_empty_text() -> None:
    empty = RepositoryText(())
    assert (empty.text, list(empty.sections()), empty.path_at(0)) == ("", [], "")


@pytest.mark.parametrize("text", [TEXT, RepositoryText(())])
def test_what_was_packed_is_unpacked_the_same(text: RepositoryText) -> None:
    assert unpacked(text.packed()) == text
    assert unpacked(text.packed()).digest == text.digest


def test_the_digest_tells_texts_apart() -> None:
    assert TEXT.digest != RepositoryText(TEXT.files[:2]).digest != RepositoryText(TEXT.files[1:]).digest
