"""A file that cannot be written whole stays as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_bench_metric.whole_files import write_whole


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "old, and longer")
    write_whole(path, "new\nä\n")
    assert path.read_bytes() == "new\nä\n".encode()
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "new \ud800")
    assert path.read_text(encoding="utf-8") == "old"
