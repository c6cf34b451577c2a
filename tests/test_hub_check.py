"""Every fault that keeps a data set from being loaded or shown gives a line that names it; a good folder gives none."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ml_bench_hub import viewer
from ml_bench_hub.build import build_dataset
from ml_bench_hub.check import check_folder
from ml_bench_hub.errors import HubError
from ml_bench_hub.folder import MANIFEST
from ml_bench_hub.front_matter import split_front_matter, with_front_matter
from tests.hf_caches import task_rows, write_source

L_FILE = "default/L-00000-of-00001.parquet"
Metadata = dict[str, Any]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    source = write_source(folder / "source", task_rows(4), task_rows(2))
    build_dataset(folder / "ml-bench", source=str(source), namespace="lab")
    return folder / "ml-bench"


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """A copy to be broken, without its manifest: what is broken is to be found, not that it was changed."""
    copy = Path(shutil.copytree(built, tmp_path / "ml-bench"))
    (copy / MANIFEST).unlink()
    return copy


def edit(folder: Path, change: Callable[[Metadata], None]) -> None:
    metadata, body = split_front_matter((folder / "README.md").read_text(), "README.md")
    change(metadata)
    (folder / "README.md").write_text(with_front_matter(metadata, body))


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table] = lambda table: table, **options: Any) -> None:
    table = change(pq.read_table(path))
    pq.write_table(table, path, **{"write_page_index": True, **options})


def only(problems: list[str]) -> str:
    (problem,) = problems
    assert "\n" not in problem
    return problem


def test_a_built_folder_is_fine(built: Path) -> None:
    notes: list[str] = []
    assert check_folder(built, note=notes.append) == []
    assert notes == []


def test_a_folder_of_somebody_else_is_checked_too(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "rows" / "a.parquet")
    metadata = {"configs": [{"config_name": "one", "data_files": "rows/*.parquet"}]}
    (tmp_path / "README.md").write_text(with_front_matter(metadata, "# Mine\n"))
    notes: list[str] = []
    assert check_folder(tmp_path, note=notes.append) == []
    assert only(notes).startswith("rows/a.parquet: row group 0 has no page index")


def test_what_was_changed_after_the_build_is_named(built: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(built, tmp_path / "ml-bench"))
    (copy / "LICENSE").write_text("none")
    (copy / "more.txt").write_text("")
    assert [line.split()[0] for line in check_folder(copy)] == ["more.txt", "LICENSE"]
    (copy / MANIFEST).write_text("{")
    assert f"{MANIFEST} is no manifest" in only(check_folder(copy))


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(HubError, match="is no folder"):
        check_folder(tmp_path / "nowhere")


def test_an_empty_folder_has_no_readme(tmp_path: Path) -> None:
    assert only(check_folder(tmp_path)).startswith("README.md: cannot be read: No such file")


@pytest.mark.parametrize("name", ["ml-bench.py", "ml_bench_dataset.py"])
def test_a_script_would_keep_load_dataset_from_loading(folder: Path, name: str) -> None:
    (folder / name).write_text("print('never')\n")
    assert only(check_folder(folder)).startswith(f"{name}: a script")


def test_broken_yaml_is_one_line_with_its_place(folder: Path) -> None:
    text = (folder / "README.md").read_text()
    (folder / "README.md").write_text(text.replace("language:", "language: [", 1))
    assert "README.md:" in only(check_folder(folder)) and "is not YAML" in only(check_folder(folder))


def _without_default(metadata: Metadata) -> None:
    del metadata["configs"][0]["default"]
    for part in ("configs", "dataset_info"):
        metadata[part][0]["config_name"] = "first"


def _two_defaults(metadata: Metadata) -> None:
    metadata["configs"][1]["default"] = True


def _dashed_split(metadata: Metadata) -> None:
    metadata["configs"][4]["data_files"][1]["split"] = "1-4"
    metadata["dataset_info"].pop()


def _slashed_configuration(metadata: Metadata) -> None:
    metadata["configs"][4]["config_name"] = metadata["dataset_info"][4]["config_name"] = "a/b"


def _same_configuration_twice(metadata: Metadata) -> None:
    metadata["configs"].append(metadata["configs"][4])


def _same_split_twice(metadata: Metadata) -> None:
    metadata["configs"][4]["data_files"].append(metadata["configs"][4]["data_files"][0])


def _no_such_files(metadata: Metadata) -> None:
    metadata["configs"][4]["data_files"][1]["path"] = "sample/B-*"
    metadata["dataset_info"].pop()


def _broken_pattern(metadata: Metadata) -> None:
    metadata["configs"][4]["data_files"][1]["path"] = "sample/**A-\0*"
    metadata["dataset_info"].pop()


def _files_outside(metadata: Metadata) -> None:
    metadata["configs"][4]["data_files"][1]["path"] = "../ml-bench/sample/A-*"
    metadata["dataset_info"].pop()


def _no_name(metadata: Metadata) -> None:
    del metadata["configs"][4]["config_name"]
    metadata["dataset_info"].pop()


def _no_files(metadata: Metadata) -> None:
    metadata["configs"][4]["data_files"] = []
    metadata["dataset_info"].pop()


def _too_many_splits(metadata: Metadata) -> None:
    entry = metadata["configs"][4]["data_files"][0]
    metadata["configs"][4]["data_files"] = [{**entry, "split": f"s{number}"} for number in range(31)]
    metadata["dataset_info"].pop()


def _wrong_count(metadata: Metadata) -> None:
    metadata["dataset_info"][0]["splits"][0]["num_examples"] = 9


def _split_without_a_count(metadata: Metadata) -> None:
    metadata["dataset_info"][0]["splits"].pop()


def _count_of_no_split(metadata: Metadata) -> None:
    metadata["dataset_info"][0]["splits"].append({"name": "B", "num_bytes": 1, "num_examples": 1})


def _wrong_type(metadata: Metadata) -> None:
    metadata["dataset_info"][0]["features"][0]["dtype"] = "string"


def _column_missing(metadata: Metadata) -> None:
    metadata["dataset_info"][3]["features"].pop()


def _info_of_nothing(metadata: Metadata) -> None:
    metadata["dataset_info"][4]["config_name"] = "old"


def _viewer_off(metadata: Metadata) -> None:
    metadata["viewer"] = False


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (_without_default, "README.md: configs: several and none has `default: true`"),
        (_two_defaults, "README.md: configs: default, ML-Bench-L all have `default: true`"),
        (_dashed_split, "sample/1-4: is no name of a split"),
        (_slashed_configuration, "README.md: configs: 'a/b' is no name of a configuration"),
        (_same_configuration_twice, "README.md: configs: 'sample' is there 2 times"),
        (_same_split_twice, "sample/L: the split is there twice"),
        (_no_such_files, "sample/A: no file matches 'sample/B-*'"),
        (_broken_pattern, "sample/A: no file matches 'sample/**A-\\x00*'"),
        (_files_outside, "sample/A: no file matches '../ml-bench/sample/A-*'"),
        (_no_name, "README.md: configs, entry 5: has no config_name"),
        (_no_files, "sample: `data_files` names no split"),
        (_too_many_splits, "sample: has 31 splits; the viewer shows 30"),
        (_wrong_count, "README.md: dataset_info of default: split 'L' has 4 rows, not 9"),
        (_split_without_a_count, "README.md: dataset_info of default: split 'A' is missing"),
        (_count_of_no_split, "README.md: dataset_info of default: split 'B' is none of the configuration"),
        (_wrong_type, "README.md: dataset_info of default: github_id (string) is github_id (int64) in split 'L'"),
        (_column_missing, "README.md: dataset_info of repositories: lists 12 columns, split 'test' has 13"),
        (_info_of_nothing, "README.md: dataset_info: 'old' is none of the configurations"),
        (_viewer_off, "README.md: `viewer: false` switches the viewer off"),
    ],
)
def test_faults_of_the_front_matter(folder: Path, change: Callable[[Metadata], None], line: str) -> None:
    edit(folder, change)
    problems = check_folder(folder)
    assert problems and problems[0].startswith(line), problems
    assert len(problems) == 1 or change is _wrong_type  # that one is wrong in both splits


@pytest.mark.parametrize(
    "info",
    [3, "text", [3], [{"config_name": []}], {"config_name": "default", "splits": 3, "features": 3}, [{"splits": [3]}]],
)
def test_dataset_info_that_is_none(folder: Path, info: object) -> None:
    edit(folder, lambda metadata: metadata.update(dataset_info=info))
    problems = check_folder(folder)
    assert problems and all(problem.startswith("README.md: dataset_info") for problem in problems)


@pytest.mark.parametrize("name", ["json", "harbor"])
def test_a_relative_folder_with_a_name_that_datasets_has_for_something_else(
    name: str, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(built, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert check_folder(Path(name)) == []


def test_a_snapshot_of_the_hubs_cache_is_made_of_links(built: Path, tmp_path: Path) -> None:
    for path in built.rglob("*"):
        if path.is_file():
            link = tmp_path / path.relative_to(built)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    assert check_folder(tmp_path) == []
    (tmp_path / "LICENSE").unlink()
    (tmp_path / "LICENSE").symlink_to("nowhere")
    assert only(check_folder(tmp_path)) == "LICENSE was changed after the build"


@pytest.mark.parametrize("configs", [None, [], "default", [3], [{"config_name": 3, "data_files": "x"}]])
def test_configurations_that_are_none(folder: Path, configs: object) -> None:
    def change(metadata: Metadata) -> None:
        metadata["configs"] = configs
        del metadata["dataset_info"]

    edit(folder, change)
    assert only(check_folder(folder)).startswith("README.md: ")


def test_a_file_that_is_no_parquet(folder: Path) -> None:
    (folder / L_FILE).write_bytes(b"PAR1 not really PAR1")
    assert only(check_folder(folder)).startswith(f"default/L: {L_FILE} is not a readable parquet file")


def test_a_file_of_another_format(folder: Path) -> None:
    (folder / "default" / "L-00000.jsonl").write_text('{"a": 1}\n')
    assert any("L-00000.jsonl is no parquet file" in line for line in check_folder(folder))


def test_shards_of_a_split_must_have_the_same_columns(folder: Path) -> None:
    shutil.copyfile(folder / L_FILE, folder / "default" / "L-00001-of-00002.parquet")
    edit(folder, lambda metadata: metadata.pop("dataset_info"))
    assert check_folder(folder) == []
    path = folder / "default" / "L-00001-of-00002.parquet"
    rewrite(path, lambda table: table.set_column(0, "github_id", table["github_id"].cast("string")))
    assert "github_id: string, github_id: int64" in only(check_folder(folder))
    rewrite(path, lambda table: table.drop_columns(["oracle"]))
    assert "oracle: string" in only([line for line in check_folder(folder) if "columns of" in line])


def test_a_split_without_rows(folder: Path) -> None:
    rewrite(folder / L_FILE, lambda table: table.slice(0, 0))
    assert check_folder(folder)[0] == f"{L_FILE}: has no rows"


def test_large_row_groups_need_a_page_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer, "MAX_SCAN_BYTES", 100)
    assert check_folder(folder) == []
    rewrite(folder / L_FILE, write_page_index=False)
    assert "and no page index: the viewer reads 100" in only(check_folder(folder))


def test_cells_that_no_page_can_show(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer, "MAX_CELL_BYTES", 30)
    assert f"{L_FILE}: column instruction has a cell of" in "\n".join(check_folder(folder))


def test_long_first_rows_are_worth_a_note_and_endless_ones_a_problem(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewer, "MAX_FIRST_ROWS_BYTES", 6000)
    notes: list[str] = []
    assert check_folder(folder, note=notes.append) == []
    assert any(note.startswith("sample/L: the first 10 rows have") for note in notes)
    monkeypatch.setattr(viewer, "MAX_FIRST_ROWS_BYTES", 500)
    assert any(line.startswith("default/L: the first rows exceed 500 bytes") for line in check_folder(folder))


def test_too_many_columns_and_too_long_names(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    columns = {**{f"c{number}": [1] for number in range(1000)}, "x" * 501: [1]}
    pq.write_table(pa.table(columns), tmp_path / "rows" / "a.parquet", write_page_index=True)
    metadata = {"configs": [{"config_name": "one", "data_files": [{"split": "test", "path": ["rows/a.parquet"]}]}]}
    (tmp_path / "README.md").write_text(with_front_matter(metadata, ""))
    first, second = check_folder(tmp_path)
    assert first == "rows/a.parquet: has 1001 columns; the viewer takes 1000"
    assert "has 501 characters" in second


def test_what_only_loading_finds_is_found_by_loading(folder: Path) -> None:
    edit(folder, lambda metadata: metadata["configs"][0].update(columns=["nothing"]))
    assert all("default/" in line and "load_dataset fails" in line for line in check_folder(folder))
    assert len(check_folder(folder)) == 2
