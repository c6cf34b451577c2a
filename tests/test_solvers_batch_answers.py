"""Answers of other engines: what is fine is kept in its place, and everything else is told with the way out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ml_bench_metric.predictions import read_predictions
from ml_bench_solvers.batch import BatchError
from ml_bench_solvers.batch_answers import Answers, read_answers, unanswered
from tests.result_builders import task, task_set

TASKS = task_set(task("dgl/1"), task("dgl/2"), task("dgl/12"))

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def file(*lines: object, name: str = "answers.jsonl") -> Path:
        path = tmp_path / name
        encoded = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
        path.write_bytes(b"".join(line + b"\n" for line in encoded))
        return path

    return file


def choice(content: object, index: int | None = 0, finish: str = "stop", **message: object) -> dict[str, Any]:
    found = {"message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
    return found if index is None else {"index": index, **found}


def line(custom_id: str, *choices: object) -> dict[str, Any]:
    response = {"status_code": 200, "request_id": "r", "body": {"choices": list(choices)}}
    return {"id": "batch_req_1", "custom_id": custom_id, "response": response, "error": None}


def failed(custom_id: str, status: int = 429, message: str = "too many requests") -> dict[str, Any]:
    return {
        "id": "batch_req_2",
        "custom_id": custom_id,
        "response": {"status_code": status, "body": {"error": {"code": "rate_limit", "message": message}}},
        "error": None,
    }


def expired(custom_id: str) -> dict[str, Any]:
    error = {"code": "batch_expired", "message": "This request could not be executed in time."}
    return {"id": "batch_req_3", "custom_id": custom_id, "response": None, "error": error}


def read(*files: Path, **more: Any) -> Answers:
    return read_answers(files, TASKS, **more)


def outputs(found: Answers) -> dict[str, list[str]]:
    return dict(found.outputs(TASKS))


def problems(found: Answers) -> list[tuple[str, str]]:
    return [(problem.where, problem.kind) for problem in found.problems]


def test_lines_in_any_order_give_predictions_in_the_order_of_tasks_and_places(write: Write, tmp_path: Path) -> None:
    path = write(
        line("dgl_2f12__0", choice("e")),
        line("dgl_2f2__1", choice("d")),
        line("dgl_2f1__0x2", choice("b", 1), choice("a", 0)),
        line("dgl_2f2__0", choice("c", None)),
    )
    found = read(path)
    assert list(found.outputs(TASKS)) == [("dgl/1", ["a", "b"]), ("dgl/2", ["c", "d"]), ("dgl/12", ["e"])]
    assert found.problems == []
    out = tmp_path / "predictions.jsonl"
    out.write_text(found.predictions(TASKS))
    again = read_predictions(out, TASKS)
    assert again.problems == []
    assert {name: list(one.candidates) for name, one in again.items.items()} == outputs(found)


def test_errors_of_both_files_are_told_and_the_other_answers_stay(write: Write) -> None:
    output = write(line("dgl_2f1__0", choice("a")), line("dgl_2f1__2", choice("c")), name="output.jsonl")
    errors = write(failed("dgl_2f1__1"), expired("dgl_2f2__0"), name="error.jsonl")
    found = read(errors, output)
    assert outputs(found) == {"dgl/1": ["a", "c"]}
    assert problems(found) == [("error.jsonl:1", "errored"), ("error.jsonl:2", "errored")]
    assert found.problems[0].message == (
        "task dgl/1, answer 1: status 429: rate_limit: too many requests; send it again"
    )
    assert "batch_expired: This request could not" in found.problems[1].message
    assert found.missing(TASKS, 3) == {"dgl/1": 1, "dgl/2": 3, "dgl/12": 3}


def test_an_error_that_a_later_try_made_good_is_none(write: Write) -> None:
    first = write(failed("dgl_2f1__0"), name="error.jsonl")
    second = write(line("dgl_2f1__0", choice("a")), name="retry.jsonl")
    for files in ((first, second), (second, first)):
        found = read(*files)
        assert outputs(found) == {"dgl/1": ["a"]}
        assert found.problems == []


def test_a_response_with_fewer_choices_than_asked_for_keeps_those_that_are_there(write: Write) -> None:
    found = read(write(line("dgl_2f1__0x3", choice("a", 0), choice("c", 2))))
    assert outputs(found) == {"dgl/1": ["a", "c"]}
    assert [problem.message for problem in found.problems] == [
        "task dgl/1, answer 1: the response has 2 of 3; send it again"
    ]


def test_the_first_of_two_answers_for_a_place_counts(write: Write) -> None:
    found = read(
        write(line("dgl_2f1__0", choice("a")), line("dgl_2f1__0", choice("b")), line("dgl_2f1__0", choice("a")))
    )
    assert outputs(found) == {"dgl/1": ["a"]}
    assert problems(found) == [("answers.jsonl:2", "duplicate"), ("answers.jsonl:3", "duplicate")]
    assert "another answer 0 of task dgl/1, after that at answers.jsonl:1" in found.problems[0].message
    assert "the same answer 0" in found.problems[1].message


def test_what_a_model_did_not_say_keeps_its_place(write: Write) -> None:
    found = read(
        write(
            line("dgl_2f1__0x3", choice(None, 0, refusal="I will not."), choice("", 1), choice("pyth", 2, "length")),
        )
    )
    assert outputs(found) == {"dgl/1": ["", "", "pyth"]}
    assert found.counts() == {"empty": 2, "refused": 1, "cut": 1}
    assert found.missing(task_set(task("dgl/1"))) == {}


@pytest.mark.parametrize(
    ("entry", "kind", "said"),
    [
        (b"{", "broken_line", "is not JSON"),
        (b"\xff{}", "broken_line", "is not UTF-8 (byte 1)"),
        ([1], "broken_line", "where an object is expected"),
        (line("request-1", choice("x")), "unknown", "'request-1', which `ml-bench export-requests` writes for no task"),
        (line("bert_2f1__0", choice("x")), "unknown", "--tasks and --split"),
        ({"custom_id": "dgl_2f2__0"}, "missing_field", '"response" is not there'),
        (line("dgl_2f2__0") | {"response": {"status_code": 200, "body": {}}}, "missing_field", "response.body.choices"),
        (line("dgl_2f2__0", {"index": 0}), "missing_field", 'answer 0: its choice has no "message"'),
        (line("dgl_2f2__0", choice(["x"])), "missing_field", "\"content\" is ['x'], not a text"),
        (line("dgl_2f2__0", choice("x", 3)), "missing_field", '"index" of choice 0 is 3, where 1 were asked for'),
        ({"answer": "x"}, "missing_field", '"task_id" is not there'),
        ({"task_id": "dgl/2", "text": "x"}, "missing_field", "name the one that does with --answer-field"),
        ({"task_id": "dgl/2", "answers": [1]}, "missing_field", '"answers" is [1], not a text or a list of texts'),
        ({"task_id": "dgl/2", "answer": "x", "index": -1}, "missing_field", "positions count from 0"),
        ({"task_id": "bert/1", "answer": "x"}, "unknown", "bert/1 is no task of split"),
    ],
)
def test_a_bad_entry_is_told_with_its_place_and_costs_no_other(
    write: Write, entry: object, kind: str, said: str
) -> None:
    found = read(write(line("dgl_2f1__0", choice("a")), entry, line("dgl_2f12__0", choice("b"))))
    assert outputs(found) == {"dgl/1": ["a"], "dgl/12": ["b"]}
    first = found.problems[0]
    assert (first.where, first.kind) == ("answers.jsonl:2", kind)
    assert said in first.message


def test_plain_entries_take_the_places_in_the_order_of_reading_unless_they_name_one(write: Write) -> None:
    first = write(
        {"task_id": "dgl/1", "answer": "b"},
        {"task_id": "dgl/1", "answers": ["c", "d"]},
        {"task_id": "dgl/2", "output": ["x"], "index": 1},
        {"task_id": "dgl/2", "output": "w", "index": 0},
    )
    second = write({"task_id": "dgl/1", "index": 0, "answer": "a"}, name="more.jsonl")
    found = read(first, second)
    assert outputs(found) == {"dgl/1": ["a", "b", "c", "d"], "dgl/2": ["w", "x"]}
    assert found.problems == []


def test_an_answer_without_a_place_is_not_lost_behind_a_gap(write: Write) -> None:
    found = read(write({"task_id": "dgl/1", "index": 1, "answer": "b"}, {"task_id": "dgl/1", "answer": "c"}))
    assert outputs(found) == {"dgl/1": ["b", "c"]}


def test_parquet_is_read_and_its_field_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "answers.parquet"
    rows = [{"task_id": "dgl/2", "reply": ["a", "b"]}, {"task_id": "dgl/1", "reply": None}]
    pq.write_table(pa.Table.from_pylist(rows), path)
    found = read(path, answer_field="reply")
    assert outputs(found) == {"dgl/2": ["a", "b"]}
    assert problems(found) == [("answers.parquet, row 2", "missing_field")]


@pytest.mark.parametrize("name", ["answers.jsonl", "answers.parquet"])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(BatchError, match="cannot be read"):
        read(tmp_path / name)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(BatchError, match="cannot be read as parquet"):
        read(tmp_path / "broken.parquet")


def test_requests_without_all_their_answers_are_those_to_send_again(write: Write) -> None:
    sent: list[dict[str, Any]] = [
        {"custom_id": name, "body": {}} for name in ("dgl_2f1__0", "dgl_2f1__1", "dgl_2f2__0x2", "dgl_2f12__0x2")
    ]
    requests = write(*sent, name="requests.jsonl")
    found = read(
        write(
            line("dgl_2f1__0", choice("")),
            failed("dgl_2f1__1"),
            line("dgl_2f2__0x2", choice("a", 0)),
            line("dgl_2f12__0x2", choice("b", 0), choice("c", 1)),
        )
    )
    assert list(unanswered([requests], found, TASKS)) == sent[1:3]
    with pytest.raises(BatchError, match=r"other.jsonl:1: is no request"):
        list(unanswered([write({"custom_id": "x"}, name="other.jsonl")], found, TASKS))
