"""Prompts as data: every column is there, every message comes back as it was, and half a file never has the name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ml_bench_solvers.prompt import Message, Prompt
from ml_bench_solvers.prompt_error import PromptError
from ml_bench_solvers.prompt_table import COLUMNS, write_table


def prompts(count: int) -> list[Prompt]:
    system = Message(role="system", content="Be brief.")
    return [
        Prompt(
            f"r/{n}", "code", (system, Message(role="user", content=f"grüße \U0001f600 {n}\n")), "t/1-0", n, n % 2 == 0
        )
        for n in range(count)
    ]


def read(path: Path) -> list[dict[str, object]]:
    if path.suffix == ".parquet":
        rows: list[dict[str, object]] = pq.read_table(path).to_pylist()
        return rows
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
@pytest.mark.parametrize("count", [0, 3, 250])
def test_what_was_written_is_read(tmp_path: Path, suffix: str, count: int) -> None:
    path = tmp_path / "new" / f"prompts{suffix}"
    made = prompts(count)
    assert write_table(iter(made), path) == count
    rows = read(path)
    assert len(rows) == count
    for row, prompt in zip(rows, made, strict=True):
        assert tuple(row) == COLUMNS
        assert row["messages"] == [dict(message) for message in prompt.messages]
        assert row["digest"] == prompt.digest
        assert (row["task_id"], row["setting"], row["template"]) == (prompt.task_id, "code", "t/1-0")
        assert (row["cut"], row["context_characters"]) == (prompt.cut, prompt.context_characters)


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_where_making_fails_what_was_there_stays_and_nothing_else_is_left(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"prompts{suffix}"
    path.write_text("as it was")

    def failing() -> Iterator[Prompt]:
        yield from prompts(150)
        raise PromptError("no more")

    with pytest.raises(PromptError, match="no more"):
        write_table(failing(), path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(path.name, "as it was")]


def test_other_kinds_of_files_and_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"must end with \.parquet or \.jsonl"):
        write_table([], tmp_path / "prompts.csv")
    (tmp_path / "file").touch()
    with pytest.raises(PromptError, match="cannot be written"):
        write_table([], tmp_path / "file" / "prompts.jsonl")
