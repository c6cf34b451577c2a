"""What was computed is never lost, never mixed with another run, and never half-written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ml_bench_metric.store import (
    RESULTS_FILE,
    RUN_FILE,
    SUMMARY_FILE,
    OtherRunError,
    RunError,
    RunFolder,
    put_aside,
    read_results,
    read_run,
)
from ml_bench_metric.summary import summarise
from tests.result_builders import FAILING, result, task_set

IDENTITY: dict[str, Any] = {"harness": "1", "settings": {"seconds": 3.0}, "image of a": "sha256:1"}


def _open(path: Path, **identity: Any) -> RunFolder:
    return RunFolder(path, {**IDENTITY, **identity}, {"command": ["ml-bench"]})


FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full to stand for a full disk")


def _fill_disk(folder: RunFolder) -> None:
    folder._results.close()
    folder._results = FULL.open("a", encoding="utf-8")


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
    begin = whole.index(b"\n") + 1
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


def test_an_image_is_remembered_through_a_part_of_the_run_that_lacks_it(tmp_path: Path) -> None:
    _open(tmp_path).close()
    without = {key: value for key, value in IDENTITY.items() if key != "image of a"}
    RunFolder(tmp_path, without, {}).close()
    assert read_run(tmp_path)["identity"] == IDENTITY
    with pytest.raises(OtherRunError, match="image of a: 'sha256:1' -> 'sha256:2'"):
        _open(tmp_path, **{"image of a": "sha256:2"})
    assert read_run(tmp_path)["identity"] == IDENTITY


def test_a_mismatch_shows_what_differs_and_nothing_else(tmp_path: Path) -> None:
    limits = {"cpus": 1, "memory": 8}
    _open(tmp_path, settings={"extract": "auto", "seconds": 5.0, "limits": limits}).close()
    with pytest.raises(OtherRunError) as caught:
        _open(tmp_path, settings={"extract": "auto", "seconds": 3.0, "limits": {**limits, "cpus": 2}})
    assert "(settings.limits.cpus: 1 -> 2, settings.seconds: 5.0 -> 3.0)" in str(caught.value)
    assert "auto" not in str(caught.value) and "memory" not in str(caught.value)


def test_a_mismatch_in_everything_stays_readable(tmp_path: Path) -> None:
    _open(tmp_path, **{f"image of r{number}": "sha256:1" for number in range(9)}).close()
    with pytest.raises(OtherRunError, match=r"image of r4: \S+ -> \S+ and 4 more\)"):
        _open(tmp_path, **{f"image of r{number}": "sha256:2" for number in range(9)})


def test_every_part_of_a_run_is_told_oldest_first(tmp_path: Path) -> None:
    parts = [{"command": ["ml-bench", str(number)], "started": f"day {number}", "workers": number} for number in (1, 2)]
    for part in parts:
        RunFolder(tmp_path, IDENTITY, {**part, "split": "full"}).close()
    stored = read_run(tmp_path)
    assert stored["parts"] == parts
    assert (stored["command"], stored["split"]) == (parts[1]["command"], "full")


def test_a_start_that_was_cut_short_leaves_a_folder_that_can_be_used(tmp_path: Path) -> None:
    (tmp_path / (RUN_FILE + ".new")).write_text("{")
    _open(tmp_path).close()
    assert read_run(tmp_path)["identity"] == IDENTITY


@pytest.mark.parametrize("name", [RESULTS_FILE, RUN_FILE, RUN_FILE + ".new"])
def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "kept").write_text("")
    if name == RESULTS_FILE:
        (tmp_path / RUN_FILE).write_text('{"identity": {}}')
    for _ in range(2):
        with pytest.raises(RunError, match=rf"{name.removesuffix('.new')}.*give another --out"):
            _open(tmp_path)


def test_results_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / RESULTS_FILE).mkdir()
    with pytest.raises(RunError, match=r"results\.jsonl cannot be read"):
        list(read_results(tmp_path))


@needs_full
def test_a_full_disk_is_one_clear_error_and_costs_nothing_stored(tmp_path: Path) -> None:
    with _open(tmp_path) as folder:
        folder.append(result("repo/1"))
    real = tmp_path / RESULTS_FILE
    full = r"results\.jsonl cannot be written: No space left.*goes on"
    with pytest.raises(RunError, match=full) as caught, _open(tmp_path) as folder:
        _fill_disk(folder)
        folder.append(result("repo/2"))
    assert isinstance(caught.value.__cause__, OSError)
    assert len(real.read_text().splitlines()) == 1
    with _open(tmp_path) as folder:
        folder.append(result("repo/2"))
        assert len(list(folder.results())) == 2


@needs_full
def test_closing_tells_what_was_not_written_but_hides_no_earlier_error(tmp_path: Path) -> None:
    def fill(folder: RunFolder) -> None:
        _fill_disk(folder)
        folder._results.write("buffered")

    with pytest.raises(RunError, match="cannot be written"), _open(tmp_path) as folder:
        fill(folder)
    with pytest.raises(ZeroDivisionError), _open(tmp_path) as folder:
        fill(folder)
        raise ZeroDivisionError
    _open(tmp_path).close()


def test_a_summary_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with _open(tmp_path) as folder:
        (tmp_path / SUMMARY_FILE).mkdir()
        with pytest.raises(RunError, match=r"summary\.json cannot be written"):
            folder.write_summary(summarise([], task_set("repo/1"), {}))


def test_the_folder_that_one_is_in_can_be_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    _open(run).close()
    (tmp_path / "run.1").mkdir()
    monkeypatch.chdir(run)
    assert put_aside(Path()) == tmp_path / "run.2"
    assert read_run(tmp_path / "run.2")["identity"] == IDENTITY


def test_a_folder_that_cannot_be_renamed_says_so() -> None:
    with pytest.raises(RunError, match=r"/proc/self/fd cannot be put aside|/proc/\d+/fd cannot be put aside"):
        put_aside(Path("/proc/self/fd"))


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(RunError, match=r"thesis\.tex"):
        _open(tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) in (["thesis.tex"], [".lock", "thesis.tex"])


def test_a_path_that_cannot_be_a_folder_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="give another --out"):
        _open(tmp_path / "file" / "run")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"identity": 3}', '{"identity": {}, "parts": 3}', "null"])
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
