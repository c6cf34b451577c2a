"""From requests to predictions on the command line, with a server that fails a part of a batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ml_bench_cli.main import app
from ml_bench_metric.predictions import read_predictions
from ml_bench_metric.tasks import load_tasks
from ml_bench_solvers.batch import BatchError
from ml_bench_solvers.prompt_error import RepositoryError

SAMPLE = ("--tasks", "sample")


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """What a server answers: the request's id, so that it can be told where each answer ends up."""
    choices = [
        {"index": index, "message": {"content": f"{request['custom_id']} {index}"}, "finish_reason": "stop"}
        for index in range(request["body"].get("n", 1))
    ]
    return {"custom_id": request["custom_id"], "response": {"status_code": 200, "body": {"choices": choices}}}


def test_a_batch_with_errors_is_completed_by_sending_the_rest_again(tmp_path: Path) -> None:
    sent, predictions, retry = tmp_path / "requests.jsonl", tmp_path / "predictions.jsonl", tmp_path / "retry.jsonl"
    status, _ = run("export-requests", *SAMPLE, "--model", "m", "-n", 2, "--out", sent)
    assert status == 0
    requests = rows(sent)
    tasks = load_tasks("sample", "L")
    assert len(requests) == 2 * len(tasks.tasks)

    output = tmp_path / "output.jsonl"
    kept = [request for number, request in enumerate(requests) if number % 10]
    output.write_text("".join(json.dumps(answer(request)) + "\n" for request in reversed(kept)))
    again = ("--requests", sent, "--retry", retry)
    status, text = run("import-answers", output, *SAMPLE, "-n", 2, "--out", predictions, *again)
    assert status == 1
    assert f"missing: {len(requests) - len(kept)} answers to" in text
    assert rows(retry) == [request for number, request in enumerate(requests) if number % 10 == 0]

    more = tmp_path / "more.jsonl"
    more.write_text("".join(json.dumps(answer(request)) + "\n" for request in rows(retry)))
    status, _ = run("import-answers", output, more, *SAMPLE, "-n", 2, "--out", predictions, "--replace")
    assert status == 0
    found = read_predictions(predictions, tasks)
    assert found.problems == []
    assert [text for one in found.items.values() for text in one.candidates] == [
        f"{request['custom_id']} 0" for request in requests
    ]
    assert list(found.items) == [task.task_id for task in tasks.tasks]


def test_a_table_of_prompts_comes_back_with_answers(tmp_path: Path) -> None:
    table, answers, predictions = tmp_path / "p.parquet", tmp_path / "a.jsonl", tmp_path / "predictions.jsonl"
    assert run("export-requests", *SAMPLE, "--setting", "instruction", "--out", table)[0] == 0
    prompts = pq.read_table(table).to_pylist()
    tasks = load_tasks("sample", "L")
    assert all(task.instruction in row["text"] for task, row in zip(tasks.tasks, prompts, strict=True))
    answers.write_text("".join(json.dumps({"task_id": row["task_id"], "reply": "x"}) + "\n" for row in prompts))
    command = ("import-answers", answers, *SAMPLE, "--answer-field", "reply", "--out", predictions)
    assert run(*command)[0] == 0
    assert len(read_predictions(predictions, tasks).items) == len(tasks.tasks)
    with pytest.raises(BatchError, match="--replace"):
        run(*command)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--out", "x.csv"), "end it in .jsonl"),
        (("--out", "x.jsonl"), "a request names its model"),
        (("--out", "x.jsonl", "--model", "m", "--body", "["), "--body is no JSON"),
        (("--out", "x.jsonl", "--model", "m", "--body", '{"top_k": NaN}'), "NaN is no JSON value"),
        (("--out", "x.jsonl", "--model", "m", "--body", "[]"), "--body is no JSON object"),
    ],
)
def test_what_cannot_be_exported_is_told(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, text = run("export-requests", *SAMPLE, *arguments)
    assert status == 2
    assert said in text
    assert list(tmp_path.iterdir()) == []


def test_a_repository_that_cannot_be_had_leaves_no_file(tmp_path: Path) -> None:
    rows = [{**task.model_dump(), "github": (tmp_path / "none").as_uri()} for task in load_tasks("sample", "L").tasks]
    source = tmp_path / "tasks.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(RepositoryError):
        run("export-requests", "--tasks", source, "--setting", "code", "--model", "m", "--out", tmp_path / "x.jsonl")
    assert list(tmp_path.iterdir()) == [source]
