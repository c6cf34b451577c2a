"""The Croissant description that the Hub would make is valid, and gives every record."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ml_bench_hub.build import build_dataset
from ml_bench_hub.check import check_folder
from ml_bench_hub.errors import HubError
from ml_bench_hub.front_matter import with_front_matter
from tests.hf_caches import task_rows, write_source

needs_mlcroissant = pytest.mark.skipif(
    importlib.util.find_spec("mlcroissant") is None,
    reason="mlcroissant is not installed: the tests of Croissant did NOT run (pip install 'ml-bench[croissant]')",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    source = write_source(folder / "source", task_rows(4), task_rows(2))
    build_dataset(folder / "ml-bench", source=str(source), namespace="lab")
    return folder / "ml-bench"


def folder_of(tmp_path: Path, table: pa.Table) -> Path:
    (tmp_path / "rows").mkdir()
    for number in range(2):
        pq.write_table(table, tmp_path / "rows" / f"{number}.parquet", write_page_index=True)
    metadata = {"license": "mit", "configs": [{"config_name": "one", "data_files": "rows/*.parquet"}]}
    (tmp_path / "README.md").write_text(with_front_matter(metadata, "# Mine\n"))
    return tmp_path


@needs_mlcroissant
def test_a_built_folder_is_described_validly_and_gives_all_records(built: Path) -> None:
    assert check_folder(built, croissant=True) == []


@needs_mlcroissant
def test_several_files_of_a_split_are_record_sets_of_their_own(tmp_path: Path) -> None:
    assert check_folder(folder_of(tmp_path, pa.table({"text": ["a"], "number": [1.5]})), croissant=True) == []


@needs_mlcroissant
def test_a_column_that_croissant_cannot_describe_is_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, pa.table({"text": ["a"], "many": [["a"]]}))
    (problem,) = check_folder(folder, croissant=True)
    assert problem.startswith("croissant: one/train/0: column many")


@needs_mlcroissant
def test_what_mlcroissant_refuses_is_one_line_each(tmp_path: Path) -> None:
    problems = check_folder(folder_of(tmp_path, pa.table({"": ["a"]})), croissant=True)
    assert problems
    assert all(problem.startswith("croissant: ") and "\n" not in problem for problem in problems)


def test_without_the_package_the_way_out_is_named(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlcroissant", None)
    with pytest.raises(HubError, match=r"pip install 'ml-bench\[croissant\]'"):
        check_folder(built, croissant=True)
