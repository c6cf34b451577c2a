"""Requests hold what was asked for, in files that are whole and no larger than engines take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ml_bench_metric.tasks import Task
from ml_bench_solvers.batch import BatchError, Sampling, Written, requests, write_prompts, write_requests
from ml_bench_solvers.prompt import Prompt
from tests.result_builders import task


def prompt(task_id: str, text: str = "do it") -> tuple[Task, Prompt]:
    return task(task_id), Prompt(
        task_id=task_id,
        setting="oracle",
        messages=({"role": "system", "content": "be brief"}, {"role": "user", "content": text}),
        template="ml-bench/1-0123456789ab",
        context_characters=0,
        cut=False,
    )


def made(*prompts: tuple[Task, Prompt], answers: int = 1, **more: Any) -> list[dict[str, Any]]:
    sampling = more.pop("sampling", Sampling())
    return list(requests(prompts or [prompt("dgl/1"), prompt("dgl/2")], "m", answers, sampling, **more))


def lines(written: Written) -> list[list[dict[str, Any]]]:
    return [[json.loads(line) for line in path.read_text("ascii").splitlines()] for path in written.files]


def test_a_request_is_one_of_the_batch_api_and_says_nothing_that_was_not_asked_for() -> None:
    assert made(prompt("dgl/1")) == [
        {
            "custom_id": "dgl_2f1__0",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {
                "model": "m",
                "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "do it"}],
            },
        }
    ]


def test_each_answer_is_a_request_with_a_seed_of_its_own() -> None:
    sampling = Sampling(temperature=0.0, top_p=0.9, max_tokens=10, seed=7, stop=("END",))
    found = made(prompt("dgl/1"), answers=3, sampling=sampling)
    assert [request["custom_id"] for request in found] == ["dgl_2f1__0", "dgl_2f1__1", "dgl_2f1__2"]
    assert [request["body"].pop("seed") for request in found] == [7, 8, 9]
    del found[0]["body"]["messages"]
    assert found[0]["body"] == {"model": "m", "temperature": 0.0, "top_p": 0.9, "max_tokens": 10, "stop": ["END"]}


def test_one_request_asks_for_all_answers_where_that_is_wanted() -> None:
    (found,) = made(prompt("dgl/1"), answers=5, together=True, sampling=Sampling(seed=7))
    assert (found["custom_id"], found["body"]["n"], found["body"]["seed"]) == ("dgl_2f1__0x5", 5, 7)


def test_further_fields_are_added_and_others_renamed() -> None:
    extra = {"max_tokens": None, "max_completion_tokens": 9}
    (found,) = made(prompt("dgl/1"), sampling=Sampling(max_tokens=9), extra=extra)
    assert found["body"]["max_completion_tokens"] == 9
    assert "max_tokens" not in found["body"]


def test_two_prompts_for_a_task_are_refused() -> None:
    with pytest.raises(BatchError, match="two prompts for task dgl/1"):
        made(prompt("dgl/1"), prompt("dgl/1", "other"))


def test_files_are_split_by_number_and_by_size_and_lose_nothing(tmp_path: Path) -> None:
    found = made(answers=5)
    by_number = write_requests(found, tmp_path / "a.jsonl", most_requests=4)
    assert [path.name for path in by_number.files] == ["a.jsonl", "a-2.jsonl", "a-3.jsonl"]
    assert [len(part) for part in lines(by_number)] == [4, 4, 2]
    assert [request for part in lines(by_number) for request in part] == found
    longest = max(len(json.dumps(request)) + 1 for request in found)
    by_size = write_requests(found, tmp_path / "b.jsonl", most_bytes=2 * longest)
    assert by_size.requests == 10
    assert [len(part) for part in lines(by_size)] == [2] * 5
    assert all(path.stat().st_size <= 2 * longest for path in by_size.files)


def test_odd_characters_of_a_prompt_end_no_line(tmp_path: Path) -> None:
    text = "a\u2028b\x85c\ud800d\x00e\U0001f600"
    written = write_requests(made(prompt("dgl/1", text)), tmp_path / "a.jsonl")
    assert lines(written)[0][0]["body"]["messages"][1]["content"] == text


def test_a_request_larger_than_a_file_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(BatchError, match=r"dgl_2f2__0 has .* bytes, and a file 500 at the most"):
        write_requests(made(prompt("dgl/1"), prompt("dgl/2", "x" * 500)), tmp_path / "a.jsonl", most_bytes=500)
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_export_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    write_requests(made(answers=5), out, most_requests=2)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(before) == 5
    with pytest.raises(BatchError, match="is there already; give another --out, or --replace"):
        write_requests(made(), out)

    def broken() -> Iterator[dict[str, Any]]:
        yield made()[0]
        raise RuntimeError("no prompt")

    with pytest.raises(RuntimeError):
        write_requests(broken(), out, replace=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    write_requests(made(), out, replace=True)
    # A part of the old export beside the new one would be sent too.
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BatchError, match="cannot be written"):
        write_requests(made(), tmp_path / "file" / "a.jsonl")


def test_a_table_of_prompts_has_a_row_for_each(tmp_path: Path) -> None:
    written = write_prompts([prompt("dgl/1"), prompt("dgl/2", "\ud800")], tmp_path / "a.parquet")
    rows = pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert written.requests == len(rows) == 2
    assert rows[0] == {
        "task_id": "dgl/1",
        "repository": "dgl",
        "type": "Bash Script",
        "setting": "oracle",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "do it"}],
        "text": "be brief\n\ndo it",
        "template": "ml-bench/1-0123456789ab",
        "digest": prompt("dgl/1")[1].digest,
    }
    assert rows[1]["messages"][1]["content"] == "?"
    with pytest.raises(BatchError, match="is there already"):
        write_prompts([], tmp_path / "a.parquet")
