"""Predictions are read in every shape, and what is wrong with them is told with its place."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ml_bench_metric.predictions import Predictions, PredictionsError, read_predictions, require_clean
from ml_bench_metric.tasks import TaskSet, load_tasks
from tests.result_builders import task, task_set

TASKS: TaskSet = task_set(
    task("dgl/1"), task("dgl/2"), task("bert/3").model_copy(update={"github_id": 2}), task("dgl/12")
)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def file(*lines: str | bytes | dict[str, Any], name: str = "predictions.jsonl", end: bytes = b"\n") -> Path:
        path = tmp_path / name
        encoded = [
            line if isinstance(line, bytes) else (line if isinstance(line, str) else json.dumps(line)).encode()
            for line in lines
        ]
        path.write_bytes(b"".join(line + end for line in encoded))
        return path

    return file


def read(source: object) -> Predictions:
    return read_predictions(source, TASKS)


def candidates(found: Predictions) -> dict[str, tuple[str, ...]]:
    return {task_id: prediction.candidates for task_id, prediction in found.items.items()}


def problems(found: Predictions) -> list[tuple[str, str]]:
    return [(problem.where, problem.kind) for problem in found.problems]


def test_both_shapes_and_any_number_of_candidates_are_read(write: Callable[..., Path]) -> None:
    path = write(
        {"github_id": 1, "id": 2, "output": ["a", "b", "c"], "model": "x"},
        {"task_id": "dgl/1", "output": "single"},
        {"task_id": "bert/3", "github_id": 2, "id": 3, "output": ["", "d"]},
    )
    found = read(path)
    assert candidates(found) == {"dgl/2": ("a", "b", "c"), "dgl/1": ("single",), "bert/3": ("", "d")}
    assert [prediction.where for prediction in found.items.values()] == [f"predictions.jsonl:{n}" for n in (1, 2, 3)]
    assert found.problems == []
    assert found.missing(TASKS) == ("dgl/12",)
    require_clean(found)
    assert read(str(path)) == found


def test_faulty_lines_are_reported_with_their_place_and_the_rest_goes_on(write: Callable[..., Path]) -> None:
    path = write(
        '{"task_id": "dgl/1", "output": ["a"]',
        b'{"task_id": "dgl/1", "output": ["\xff"]}',
        "",
        "[1]",
        "null",
        {"task_id": "dgl/9", "output": ["a"]},
        {"github_id": 7, "id": 1, "output": ["a"]},
        {"output": ["a"]},
        {"github_id": 1, "output": ["a"]},
        {"task_id": "dgl/1"},
        {"task_id": "dgl/1", "output": []},
        {"task_id": "dgl/1", "output": None},
        {"task_id": "dgl/1", "output": 5},
        {"task_id": "dgl/1", "output": {"a": "b"}},
        '{"task_id": "dgl/1", "output": ["a"], "score": NaN}',
        '{"task_id": "dgl/1", "task_id": "dgl/2", "output": ["a"]}',
        {"task_id": 5, "output": ["a"]},
        {"github_id": "one", "id": 1, "output": ["a"]},
        {"task_id": "dgl/1", "github_id": 1, "id": 2, "output": ["a"]},
        {"task_id": "dgl/9", "github_id": 1, "id": 2, "output": ["a"]},
        "[" * 100_000,
        {"task_id": "dgl/2", "output": ["good"]},
        {"task_id": "dgl/2", "output": ["late"]},
    )
    found = read(path)
    assert candidates(found) == {"dgl/2": ("good",)}
    kinds = {1: "broken_line", 2: "broken_line", 4: "broken_line", 5: "broken_line", 6: "unknown_task"}
    kinds |= {7: "unknown_task", 8: "missing_field", 9: "missing_field", 10: "missing_field", 11: "empty"}
    kinds |= {12: "not_text", 13: "not_text", 14: "not_text", 15: "broken_line", 16: "broken_line", 17: "bad_id"}
    kinds |= {18: "bad_id", 19: "contradiction", 20: "contradiction", 21: "broken_line", 23: "duplicate"}
    assert problems(found) == [(f"predictions.jsonl:{line}", kind) for line, kind in kinds.items()]
    assert found.unknown_tasks == ("dgl/9", "github_id 7, id 1")
    assert "predictions.jsonl:22" in found.problems[-1].message


def test_first_usable_line_of_a_task_counts(write: Callable[..., Path]) -> None:
    lines: list[dict[str, Any]] = [{"task_id": "dgl/1", "output": output} for output in ([], ["a"], ["b"])]
    found = read(write(*lines))
    assert candidates(found) == {"dgl/1": ("a",)}
    assert problems(found) == [("predictions.jsonl:1", "empty"), ("predictions.jsonl:3", "duplicate")]


def test_candidate_that_is_no_text_keeps_its_place_and_fails(write: Callable[..., Path]) -> None:
    found = read(write('{"task_id": "dgl/1", "output": [null, "a", 5, ["b"], "\\ud83d", "\\ud83d\\ude00"]}'))
    assert candidates(found) == {"dgl/1": ("", "a", "", "", "", "\U0001f600")}
    assert [problem.kind for problem in found.problems] == ["not_text"] * 4
    assert [problem.message.split(" ", 2)[1] for problem in found.problems] == ["0", "2", "3", "4"]


@pytest.mark.parametrize("ids", [(1, 12), ("1", "12"), (1.0, 12.0), (np.int64(1), np.float64(12))])
def test_ids_of_exact_value_are_accepted(ids: tuple[object, object]) -> None:
    assert list(read([{"github_id": ids[0], "id": ids[1], "output": "a"}]).items) == ["dgl/12"]


@pytest.mark.parametrize(
    "value", [12.5, "12.0", "012", " 12", "twelve", True, float("nan"), float("inf"), [12], "9" * 50]
)
def test_ids_of_other_value_are_reported(value: object) -> None:
    assert problems(read([{"github_id": 1, "id": value, "output": "a"}])) == [("predictions[0]", "bad_id")]


def test_byte_order_marks_windows_line_ends_and_blank_lines_are_harmless(write: Callable[..., Path]) -> None:
    line = b'{"task_id": "dgl/1", "output": ["a\\r\\nb"]}'
    other = b'{"task_id": "dgl/2", "output": ["\xe2\x80\xa8"]}'
    found = read(write(b"\xef\xbb\xbf", b"\xef\xbb\xbf" + line, b" ", b"", b"\xef\xbb\xbf" + other, end=b"\r\n"))
    assert candidates(found) == {"dgl/1": ("a\r\nb",), "dgl/2": ("\u2028",)}
    assert not found.problems
    assert found.items["dgl/1"].where == "predictions.jsonl:2"


def test_last_line_without_an_end_and_very_long_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    long = "x" * 20_000_000
    path.write_text(f'{{"task_id": "dgl/1", "output": ["{long}"]}}\n{{"task_id": "dgl/2", "output": ["a"]}}')
    assert candidates(read(path)) == {"dgl/1": (long,), "dgl/2": ("a",)}


def test_json_files_hold_a_list_or_one_object_or_lines(write: Callable[..., Path]) -> None:
    first, second = {"task_id": "dgl/1", "output": ["a"]}, {"github_id": 1, "id": 2, "output": ["b"]}
    expected = {"dgl/1": ("a",), "dgl/2": ("b",)}
    for text in (json.dumps([first, second]), json.dumps([first, second], indent=2)):
        found = read(write(text, name="p.json"))
        assert candidates(found) == expected
        assert found.items["dgl/2"].where == "p.json, item 2"
    assert candidates(read(write(json.dumps(first, indent=2), name="p.json"))) == {"dgl/1": ("a",)}
    assert candidates(read(write(first, second, name="p.json"))) == expected
    assert read(write(first, "oops", name="p.json")).problems[0].where == "p.json:2"
    assert problems(read(write(json.dumps([first, 5]), name="p.json"))) == [("p.json, item 2", "broken_line")]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("p.json", b"not json", "no file of predictions"),
        ("p.json", b"", "no file of predictions"),
        ("p.json", b"5", "int 5"),
        ("p.json", b"[1, 2", "not JSON"),
        ("p.jsonl", "{}".encode("utf-16"), "UTF-16"),
        ("folder", None, "is a folder"),
        ("missing.jsonl", None, "no such file"),
        ("missing/name.json", None, "no such file"),
    ],
)
def test_unreadable_sources_are_errors_that_name_them(
    tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    (tmp_path / "folder").mkdir()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(PredictionsError, match=words) as error:
        read(tmp_path / name)
    assert str(tmp_path / name) in str(error.value)


def test_file_without_permission_is_an_error_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.jsonl").write_text("{}")

    def refuse(self: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(PredictionsError, match=r"p\.jsonl cannot be read: Permission denied"):
        read(tmp_path / "p.jsonl")


def test_lists_of_dicts_are_read() -> None:
    found = read([{"task_id": "dgl/1", "output": ("a", "b")}, {"github_id": 1, "id": 2, "output": np.array(["c"])}, 5])
    assert candidates(found) == {"dgl/1": ("a", "b"), "dgl/2": ("c",)}
    assert problems(found) == [("predictions[2]", "broken_line")]
    assert all(type(text) is str for texts in candidates(found).values() for text in texts)
    assert candidates(read({"task_id": "dgl/1", "output": "a"})) == {"dgl/1": ("a",)}


def test_lists_of_candidates_are_aligned_with_the_tasks() -> None:
    found = read([["a"], "b", [], None])
    assert candidates(found) == {"dgl/1": ("a",), "dgl/2": ("b",)}
    assert problems(found) == [("predictions[2]", "empty"), ("predictions[3]", "not_text")]
    with pytest.raises(PredictionsError, match="3 lists of candidates for 4 tasks"):
        read([["a"], ["b"], ["c"]])


@pytest.mark.parametrize("source", [5, None, b"a.jsonl"])
def test_what_is_no_source_is_an_error(source: object) -> None:
    with pytest.raises(PredictionsError, match="predictions are a"):
        read(source)


def test_candidates_without_an_order_are_refused() -> None:
    assert problems(read([{"task_id": "dgl/1", "output": {"a", "b"}}])) == [("predictions[0]", "not_text")]


def test_data_sets_are_read() -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_list(
        [{"task_id": "dgl/1", "output": ["a", "b"]}, {"task_id": "no/1", "output": ["c"]}]
    )
    found = read(rows)
    assert candidates(found) == {"dgl/1": ("a", "b")}
    assert problems(found) == [("row 2", "unknown_task")]
    assert read(datasets.DatasetDict({"test": rows})) == found
    with pytest.raises(PredictionsError, match="has the splits a, b"):
        read(datasets.DatasetDict({"a": rows, "b": rows}))
    with pytest.raises(PredictionsError, match="has the columns question, answer"):
        read(datasets.Dataset.from_list([{"question": "a", "answer": "b"}]))


def test_hub_data_sets_are_loaded_by_their_id(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None]] = []
    rows = [{"task_id": "dgl/1", "output": ["a"]}]

    def load_dataset(name: str, split: str | None) -> object:
        asked.append((name, split))
        if name == "me/absent":
            raise FileNotFoundError("it is not there")
        return rows if split else {"test": rows}

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    assert candidates(read("me/answers")) == candidates(read("me/answers:test")) == {"dgl/1": ("a",)}
    assert asked == [("me/answers", None), ("me/answers", "test")]
    with pytest.raises(PredictionsError, match=r"me/absent is no file, and no data set .* it is not there"):
        read("me/absent")


@pytest.mark.parametrize("name", ["runs/nofile", "./nofile", "nofile", "a/b/c"])
def test_a_mistyped_path_does_not_wait_for_the_hub(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(name: str, split: str | None) -> object:
        pytest.fail(f"the Hub was asked for {name}")

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PredictionsError, match=f"{name}: no such file"):
        read(name)


def test_strict_input_stops_at_problems_and_lists_them() -> None:
    found = read([{"task_id": f"no/{number}", "output": "a"} for number in range(30)])
    with pytest.raises(PredictionsError, match="30 problems") as error:
        require_clean(found)
    assert "predictions[0]: no/0 is no task of split" in str(error.value)
    assert "and 10 more" in str(error.value)
    assert "no/20" not in str(error.value)


@pytest.mark.real_data
def test_real_answers_are_read_and_withdrawn_tasks_reported(real_data: Path) -> None:
    tasks = load_tasks(str(real_data / "upstream"), "full")
    found = read_predictions(real_data / "predictions" / "gpt4_agent_pass5.jsonl", tasks)
    assert len(found.items) == 53
    assert len(found.unknown_tasks) == 20
    assert {problem.kind for problem in found.problems} == {"unknown_task"}
    assert {len(prediction.candidates) for prediction in found.items.values()} == {5}
    assert len(found.missing(tasks)) == 207
