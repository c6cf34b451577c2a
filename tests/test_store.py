"""What was computed is never lost, never mixed with another run, and never half-written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ml_bench_metric.store import RESULTS_FILE, RUN_FILE, RunError, RunFolder, read_results, read_run
from tests.result_builders import FAILING, result

IDENTITY: dict[str, Any] = {"harness": "1", "settings": {"seconds": 3.0}, "image of a": "sha256:1"}


def _open(path: Path, **identity: Any) -> RunFolder:
    return RunFolder(path, {**IDENTITY, **identity}, {"command": ["ml-bench"]})


def test_results_come_back_as_they_were(tmp_path: Path) -> None:
    stored = [
        result("repo/1"),
        result("repo/2", text="print('\ud800 \0 \U0001f40d\u2028')"),
        result("repo/3", text=None),
    ]
    with _open(tmp_path / "deep" / "run") as folder:
        for one in stored:
            folder.append(one)
        assert list(folder.results()) == stored
    assert read_run(tmp_path / "deep" / "run")["command"] == ["ml-bench"]


def test_a_line_torn_at_any_byte_costs_that_candidate_alone(tmp_path: Path) -> None:
    first, second = result("repo/1"), result("repo/2")
    with _open(tmp_path) as folder:
        folder.append(first)
        folder.append(second)
    path = tmp_path / RESULTS_FILE
    whole = path.read_bytes()
    begin = len(first.to_json()) + 1
    for size in range(begin, len(whole)):
        path.write_bytes(whole[:size])
        with _open(tmp_path) as folder:
            assert list(folder.results()) == [first]
            folder.append(second)
            assert list(folder.results()) == [first, second]
    assert path.read_bytes() == whole


def test_of_several_results_for_a_candidate_the_last_counts(tmp_path: Path) -> None:
    with _open(tmp_path) as folder:
        for one in (result("repo/1", execution=FAILING), result("repo/2"), result("repo/1")):
            folder.append(one)
        assert list(folder.results()) == [result("repo/2"), result("repo/1")]


def test_two_runs_on_one_folder_are_refused(tmp_path: Path) -> None:
    with _open(tmp_path), pytest.raises(RunError, match="in use by another evaluation"):
        _open(tmp_path)
    _open(tmp_path).close()


@pytest.mark.parametrize("change", [{"harness": "2"}, {"settings": {"seconds": 4.0}}, {"image of a": "sha256:2"}])
def test_results_of_other_settings_are_never_mixed_in(tmp_path: Path, change: dict[str, Any]) -> None:
    _open(tmp_path).close()
    with pytest.raises(RunError, match=next(iter(change))):
        _open(tmp_path, **change)


def test_an_image_that_was_missing_before_may_be_there_now(tmp_path: Path) -> None:
    _open(tmp_path).close()
    _open(tmp_path, **{"image of b": "sha256:9"}).close()
    assert read_run(tmp_path)["identity"]["image of b"] == "sha256:9"


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(RunError, match=r"thesis\.tex"):
        _open(tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) in (["thesis.tex"], [".lock", "thesis.tex"])


def test_a_path_that_cannot_be_a_folder_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="give another --out"):
        _open(tmp_path / "file" / "run")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"identity": 3}', "null"])
def test_a_damaged_run_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / RUN_FILE).write_text(text)
    with pytest.raises(RunError, match=r"run\.json"):
        _open(tmp_path)


def test_a_line_that_is_no_result_is_named(tmp_path: Path) -> None:
    with _open(tmp_path) as folder:
        folder.append(result("repo/1"))
    with (tmp_path / RESULTS_FILE).open("a") as file:
        file.write(json.dumps({"task_id": "repo/2"}) + "\n")
    with pytest.raises(RunError, match=r"results\.jsonl:2"):
        list(read_results(tmp_path))


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no run's folder"):
        read_run(tmp_path)
