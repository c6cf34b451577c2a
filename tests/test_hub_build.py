"""The built folder is the complete data set, byte for byte the same for the same rows, and tells nobody's secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import datasets
import pyarrow.parquet as pq
import pytest
import yaml

from ml_bench_dataset import CONFIGURATIONS, REPOSITORIES, DataError, read_split
from ml_bench_hub.build import EXAMPLE_FILE, build_dataset
from ml_bench_hub.errors import HubError
from ml_bench_hub.folder import MANIFEST, read_manifest
from ml_bench_hub.front_matter import split_front_matter
from ml_bench_hub.leaderboard import LEADERBOARDS
from tests.hf_caches import ROOT, task_rows, write_source

TASKS = {"L": 1200, "A": 3}
SPLITS = {
    "default": {"L": 1200, "A": 3},
    "ML-Bench-L": {"full": 1200, "quarter": 3},
    "ML-Bench-A": {"quarter": 3},
    "repositories": {"test": len(REPOSITORIES)},
    "sample": {"L": 37, "A": 10},
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_source(tmp_path_factory.mktemp("source"), task_rows(TASKS["L"]), task_rows(TASKS["A"]))


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return []


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, source: Path, lines: list[str]) -> Path:
    out = tmp_path_factory.mktemp("built") / "ml-bench"
    build_dataset(out, source=str(source), namespace="lab", progress=lines.append)
    return out


def test_every_split_has_one_parquet_file_of_the_rows(built: Path, source: Path) -> None:
    files = {path.relative_to(built).as_posix() for path in built.rglob("*.parquet")}
    assert files == {f"{name}/{split}-00000-of-00001.parquet" for name, splits in SPLITS.items() for split in splits}
    for name, split in (("default", "L"), ("ML-Bench-L", "full")):
        table = pq.read_table(built / name / f"{split}-00000-of-00001.parquet")
        assert table.to_pylist() == read_split(str(source), "full").rows


def test_nothing_else_is_in_it(built: Path) -> None:
    files = {path.relative_to(built).as_posix() for path in built.rglob("*") if path.is_file()}
    others = {name for name in files if not name.endswith(".parquet")}
    assert others == {"README.md", "LICENSE", "eval.yaml", EXAMPLE_FILE, MANIFEST}


def test_the_viewer_finds_small_row_groups_with_a_page_index(built: Path) -> None:
    for path in built.rglob("*.parquet"):
        metadata = pq.read_metadata(path)
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            assert group.num_rows <= 1000
            assert all(group.column(column).has_offset_index for column in range(group.num_columns))
    assert pq.read_metadata(built / "default/L-00000-of-00001.parquet").num_row_groups == 2


def test_load_dataset_reads_every_configuration_and_split(built: Path, tmp_path: Path) -> None:
    for name, splits in SPLITS.items():
        loaded = datasets.load_dataset(str(built), name, cache_dir=str(tmp_path))
        assert {split: rows.num_rows for split, rows in loaded.items()} == splits
    assert list(datasets.load_dataset(str(built), cache_dir=str(tmp_path))) == ["L", "A"]


def test_the_front_matter_has_all_configurations_in_order_with_their_counts(built: Path) -> None:
    metadata, body = split_front_matter((built / "README.md").read_text(), "README.md")
    assert [config["config_name"] for config in metadata["configs"]] == list(CONFIGURATIONS)
    assert [config.get("default", False) for config in metadata["configs"]] == [True, False, False, False, False]
    counts = {
        info["config_name"]: {split["name"]: split["num_examples"] for split in info["splits"]}
        for info in metadata["dataset_info"]
    }
    assert counts == SPLITS
    assert metadata["size_categories"] == ["1K<n<10K"]
    sizes = [path.stat().st_size for path in (built / "default").iterdir()]
    assert metadata["dataset_info"][0]["download_size"] == sum(sizes)
    card = split_front_matter((ROOT / "dataset_card.md").read_text(), "the card")
    assert body == card[1].replace("<namespace>", "lab")
    assert {**metadata, "size_categories": card[0]["size_categories"]}.items() >= card[0].items()


def test_the_namespace_is_named_everywhere_or_nowhere(built: Path, source: Path, tmp_path: Path) -> None:
    build_dataset(tmp_path / "out", source=str(source))
    for name in ("README.md", EXAMPLE_FILE):
        assert "<namespace>" not in (built / name).read_text() and "lab/ml-bench" in (built / name).read_text()
        assert "<namespace>/ml-bench" in (tmp_path / "out" / name).read_text()
    assert read_manifest(tmp_path / "out").namespace is None


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "<ns>", "é", "a\n"])
def test_a_namespace_that_cannot_be_one_is_refused(name: str, source: Path, tmp_path: Path) -> None:
    with pytest.raises(HubError, match="no name of a user"):
        build_dataset(tmp_path / "out", source=str(source), namespace=name)
    assert not (tmp_path / "out").exists()


def test_equal_rows_give_equal_bytes_in_another_process_and_place(built: Path, source: Path, tmp_path: Path) -> None:
    moved = write_source(tmp_path / "elsewhere", task_rows(TASKS["L"]), task_rows(TASKS["A"]))
    program = (
        "import sys; from pathlib import Path; from ml_bench_hub.build import build_dataset; "
        "build_dataset(Path(sys.argv[1]), source=sys.argv[2], namespace='lab')"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    command = [sys.executable, "-c", program, str(tmp_path / "out"), str(moved)]
    subprocess.run(command, env=environment, cwd=tmp_path, check=True)
    assert (tmp_path / "out" / MANIFEST).read_bytes() == (built / MANIFEST).read_bytes()
    for name in read_manifest(built).files:
        assert (tmp_path / "out" / name).read_bytes() == (built / name).read_bytes(), name


def test_other_rows_give_other_bytes_where_they_are(built: Path, tmp_path: Path) -> None:
    other = write_source(tmp_path / "other", task_rows(TASKS["L"]), task_rows(TASKS["A"], "other"))
    build_dataset(tmp_path / "out", source=str(other), namespace="lab")
    before, after = read_manifest(built).files, read_manifest(tmp_path / "out").files
    changed = {name for name in before if before[name] != after[name]}
    splits = ("default/A", "ML-Bench-L/quarter", "ML-Bench-A/quarter")
    assert changed == {"README.md", *(f"{split}-00000-of-00001.parquet" for split in splits)}


def test_other_rows_of_the_same_size_are_not_taken_for_those_in_the_cache(tmp_path: Path) -> None:
    for word in ("karate", "coins!"):
        source = write_source(tmp_path / word / "source", task_rows(2, word), task_rows(1, word))
        build_dataset(tmp_path / word / "ml-bench", source=str(source))
        loaded = datasets.load_dataset(str(tmp_path / word / "ml-bench"), split="L", cache_dir=str(tmp_path / "cache"))
        assert word in loaded[0]["output"]


def test_the_manifest_tells_what_the_rows_are_but_not_where_they_lay(built: Path, source: Path) -> None:
    manifest = read_manifest(built)
    assert manifest.source == "a local folder"
    assert manifest.digests["L"] == read_split(str(source), "full").digest
    assert all(str(source).encode() not in path.read_bytes() for path in built.rglob("*") if path.is_file())


def test_eval_yaml_defines_the_leaderboards(built: Path, source: Path, tmp_path: Path) -> None:
    definition = yaml.safe_load((built / "eval.yaml").read_text())
    assert set(definition) == {"name", "description", "evaluation_framework", "tasks"}
    assert [task["id"] for task in definition["tasks"]] == [board.task_id for board in LEADERBOARDS]
    assert len({task["id"] for task in definition["tasks"]}) == 6
    assert {(task["config"], task["split"]) for task in definition["tasks"]} == {("default", "L")}
    build_dataset(tmp_path / "out", source=str(source), eval_yaml=False)
    assert not (tmp_path / "out" / "eval.yaml").exists()


def test_the_example_of_results_is_one_that_huggingface_hub_reads(built: Path) -> None:
    from huggingface_hub import parse_eval_result_entries

    (entry,) = parse_eval_result_entries(yaml.safe_load((built / EXAMPLE_FILE).read_text()))
    assert entry.dataset_id == "lab/ml-bench"
    assert entry.task_id in {board.task_id for board in LEADERBOARDS}


def test_the_licence_names_whose_the_rows_are(built: Path) -> None:
    text = (built / "LICENSE").read_text()
    assert text.endswith((ROOT / "LICENSE").read_text())
    assert "super-dainiu/ml-bench" in text.partition("MIT License")[0]


def test_what_the_source_lacks_or_changes_is_said_once(lines: list[str], built: Path) -> None:
    for word in ("id_train is left out", "ood_train is left out", "split full: not as published"):
        assert sum(word in line for line in lines) == 1, word
    assert sum(".parquet: " in line for line in lines) == 8


def test_the_sample_alone_makes_a_folder_without_the_splits_that_it_lacks(tmp_path: Path) -> None:
    lines: list[str] = []
    manifest = build_dataset(tmp_path / "out", source="sample", progress=lines.append)
    assert "default/L-00000-of-00001.parquet" in manifest.files
    assert not any(name.startswith("ML-Bench") for name in manifest.files)
    assert any(line.startswith("left out: ML-Bench-L, ML-Bench-A") for line in lines)


def test_training_splits_are_there_where_the_source_has_them(tmp_path: Path) -> None:
    folder = write_source(tmp_path / "source", task_rows(2), task_rows(1))
    (folder / "data" / "id_train.jsonl").write_text(json.dumps(task_rows(1)[0]) + "\n")
    manifest = build_dataset(tmp_path / "out", source=str(folder))
    splits = {name.partition("-0")[0] for name in manifest.files if name.startswith("ML-Bench-L")}
    assert splits == {"ML-Bench-L/full", "ML-Bench-L/quarter", "ML-Bench-L/id_train"}


def test_one_file_is_not_the_whole_data_set(source: Path, tmp_path: Path) -> None:
    with pytest.raises(HubError, match="is one file, which holds one split"):
        build_dataset(tmp_path / "out", source=str(source / "data" / "full-00000-of-00001.parquet"))


@pytest.mark.parametrize("quarter", [None, [{**task_rows(1)[0], "arguments": "no dict"}]])
def test_a_source_that_lacks_a_split_or_has_faulty_rows_leaves_nothing(
    quarter: list[dict[str, object]] | None, tmp_path: Path
) -> None:
    broken = write_source(tmp_path / "source", task_rows(2), quarter)
    with pytest.raises(DataError, match="quarter"):
        build_dataset(tmp_path / "out", source=str(broken))
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


@pytest.mark.real_data
def test_the_published_rows_are_built_as_they_are(real_data: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    manifest = build_dataset(tmp_path / "out", source=str(real_data / "upstream"), progress=lines.append)
    assert [line for line in lines if "not as published" in line] == []
    rows = pq.read_table(tmp_path / "out/default/L-00000-of-00001.parquet").to_pylist()
    assert (len(rows), manifest.digests["L"]) == (260, read_split(str(real_data / "upstream"), "full").digest)
    published = pq.read_table(real_data / "upstream/data/full-00000-of-00001.parquet").to_pylist()
    assert [{name: row[name] for name in published[0]} for row in rows] == published


def test_importing_the_package_loads_no_heavy_library() -> None:
    modules = sorted(path.stem for path in (ROOT / "ml_bench_hub").glob("[!_]*.py"))
    assert {"build", "harbor", "push", "register", "viewer"} <= set(modules)
    imports = "; ".join(f"import ml_bench_hub.{name}" for name in modules)
    heavy = ("datasets", "evaluate", "docker", "huggingface_hub", "pyarrow", "mlcroissant", "typer")
    program = f"import sys; {imports}; print([name for name in {heavy!r} if name in sys.modules])"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert ran.stdout.strip() == "[]"
