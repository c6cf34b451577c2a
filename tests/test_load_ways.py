"""Every way to load the data set with `load_dataset`, on the installed version of `datasets`."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import pytest
import yaml

from ml_bench_dataset import COLUMNS, CONFIGURATIONS, TRAINING_SPLITS, MLBench
from ml_bench_hub.build import build_dataset
from ml_bench_hub.register import register, unregister
from ml_bench_hub.register_clones import FOLDER, INFOS
from ml_bench_hub.register_datasets import MARK
from tests.fakehub import WRITER, FakeHub
from tests.hf_caches import ROOT, Process, empty_caches, jsonl, task_rows, write_source

SAMPLE = {
    split: jsonl(ROOT / "ml_bench_sample" / name) for split, name in (("L", "tasks_l.jsonl"), ("A", "tasks_a.jsonl"))
}
SPLITS = {"default": {"L": 5, "A": 2}, "ML-Bench-L": {"full": 5, "quarter": 2}, "ML-Bench-A": {"quarter": 2}}
SPLITS |= {"repositories": {"test": 18}, "sample": {"L": 37, "A": 10}}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with empty_caches(tmp_path / "home") as home:
        yield home


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_source(tmp_path_factory.mktemp("source"), task_rows(5), task_rows(2))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    """A data set repository as `ml-bench hub build` makes it."""
    folder = tmp_path_factory.mktemp("built") / "ml-bench"
    build_dataset(folder, source=str(source))
    return folder


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a git clone of the project holds, tests and all, in a folder called ml-bench."""
    files = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    folder = tmp_path_factory.mktemp("clone") / "ml-bench"
    for name in filter(None, files.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


@pytest.fixture
def clone(home: Path, pristine: Path) -> Path:
    """A clone called ml-bench in the current folder."""
    return Path(shutil.copytree(pristine, home / "work/ml-bench"))


def sizes(*arguments: Any, **options: Any) -> dict[str, int]:
    return {name: split.num_rows for name, split in datasets.load_dataset(*arguments, **options).items()}


class TestBesideABuiltFolder:
    @pytest.fixture(autouse=True)
    def beside(self, home: Path, built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(built.parent)

    def test_the_bare_name_is_configuration_default_with_splits_l_and_a(self) -> None:
        assert sizes("ml-bench") == SPLITS["default"]

    @pytest.mark.parametrize("configuration", CONFIGURATIONS)
    def test_every_configuration_has_the_rows_that_the_builder_makes(
        self, configuration: str, source: Path, tmp_path: Path
    ) -> None:
        given = None if configuration in ("repositories", "sample") else str(source)
        builder: Any = MLBench(config_name=configuration, source=given, cache_dir=str(tmp_path))
        builder.download_and_prepare()
        made, loaded = builder.as_dataset(), datasets.load_dataset("ml-bench", configuration)
        assert {name: split.num_rows for name, split in loaded.items()} == SPLITS[configuration]
        for split in made:
            assert loaded[split].features == made[split].features
            assert loaded[split].to_list() == made[split].to_list()

    def test_the_path_of_the_folder_works_as_well(self, built: Path) -> None:
        assert sizes("./ml-bench", "ML-Bench-A") == sizes(str(built), "ML-Bench-A") == {"quarter": 2}

    def test_slices(self) -> None:
        assert datasets.load_dataset("ml-bench", split="L[:2]")["id"][:] == [1, 2]
        assert datasets.load_dataset("ml-bench", split="L[-20%:]")["id"][:] == [5]
        parts = datasets.load_dataset("ml-bench", split=["L[:1]", "A"])
        assert [part.num_rows for part in parts] == [1, 2]

    def test_streaming(self) -> None:
        streams = datasets.load_dataset("ml-bench", streaming=True)
        assert [row["id"] for row in streams["L"]] == [1, 2, 3, 4, 5]
        assert next(iter(datasets.load_dataset("ml-bench", "sample", split="A", streaming=True))) == SAMPLE["A"][0]

    def test_several_processes(self) -> None:
        assert sizes("ml-bench", "ML-Bench-L", num_proc=2) == SPLITS["ML-Bench-L"]

    def test_an_unknown_configuration_is_refused_with_the_names_that_exist(self) -> None:
        with pytest.raises(ValueError, match="'nope' not found") as refused:
            datasets.load_dataset("ml-bench", "nope")
        assert all(f"'{name}'" in str(refused.value) for name in CONFIGURATIONS)

    def test_an_unknown_split_is_refused_with_the_names_that_exist(self) -> None:
        with pytest.raises(ValueError, match=r"Unknown split .test.*'L', 'A'"):
            datasets.load_dataset("ml-bench", split="test")

    def test_changed_rows_of_the_same_size_are_noticed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for word in ("karate", "coins!"):
            source = write_source(tmp_path / word / "source", task_rows(5, word), task_rows(2, word))
            build_dataset(tmp_path / word / "ml-bench", source=str(source))
            monkeypatch.chdir(tmp_path / word)
            assert word in datasets.load_dataset("ml-bench", split="L")[0]["output"]

    def test_names_of_configurations_and_splits_can_be_asked_for(self) -> None:
        assert set(datasets.get_dataset_config_names("ml-bench")) == set(CONFIGURATIONS)
        assert datasets.get_dataset_default_config_name("ml-bench") == "default"
        assert datasets.get_dataset_split_names("ml-bench", "ML-Bench-L") == ["full", "quarter"]


class TestBesideAGitClone:
    def test_the_sample_is_there_with_all_columns_and_exact_values(self, clone: Path) -> None:
        loaded = datasets.load_dataset("ml-bench", "sample")
        assert {name: split.to_list() for name, split in loaded.items()} == SAMPLE
        assert list(datasets.load_dataset("ml-bench", "sample", split="L", streaming=True)) == SAMPLE["L"]

    @pytest.mark.parametrize("arguments", [(), *((name,) for name in CONFIGURATIONS if name != "sample")])
    @pytest.mark.parametrize("streaming", [False, True])
    def test_what_a_clone_does_not_ship_is_an_error_that_says_what_makes_it(
        self, clone: Path, arguments: tuple[str, ...], streaming: bool
    ) -> None:
        with pytest.raises(FileNotFoundError, match="made-by-ml-bench-register"):
            datasets.load_dataset("ml-bench", *arguments, streaming=streaming)

    def test_a_registration_fills_the_clone_that_would_hide_it(self, clone: Path, source: Path) -> None:
        steps = register(str(source))
        assert str(steps[-1]) == f"registered: {clone} (the rows in {FOLDER})"
        assert sizes("ml-bench") == SPLITS["default"]
        assert {name: sizes("ml-bench", name) for name in CONFIGURATIONS} == SPLITS

    def test_beside_the_clone_and_elsewhere_the_same_rows_are_loaded(
        self, clone: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        register(str(source))
        beside = {name: datasets.load_dataset("ml-bench", name) for name in CONFIGURATIONS}
        # What was loaded from the clone is in the cache under the same name now, and newer.
        shutil.rmtree(clone)
        monkeypatch.chdir(tmp_path)
        assert sizes("ml-bench") == SPLITS["default"]
        for name, loaded in beside.items():
            (mark,) = (Path(datasets.config.HF_DATASETS_CACHE) / "ml-bench" / name).glob(f"*/*/{MARK}")
            entry = mark.parent
            for split in loaded:
                registered = datasets.Dataset.from_file(str(entry / f"ml-bench-{split}.arrow"))
                assert loaded[split].features == registered.features
                assert loaded[split].to_list() == registered.to_list()

    def test_without_rows_of_the_benchmark_the_bare_name_stays_an_error(self, clone: Path) -> None:
        register()
        assert sizes("ml-bench", "repositories") == {"test": 18}
        with pytest.raises(FileNotFoundError, match="made-by-ml-bench-register"):
            datasets.load_dataset("ml-bench")

    def test_filling_again_changes_nothing_and_new_rows_are_noticed(
        self, clone: Path, source: Path, tmp_path: Path
    ) -> None:
        register(str(source))
        assert register(str(source))[-1].action == "unchanged"
        (clone / FOLDER / "default/A.jsonl").unlink()
        assert register(str(source))[-1].action == "registered"
        assert "karate" in datasets.load_dataset("ml-bench", split="L")[0]["output"]
        register(str(write_source(tmp_path / "other", task_rows(5, "coins!"), task_rows(2))))
        assert "coins!" in datasets.load_dataset("ml-bench", split="L")[0]["output"]

    def test_remove_empties_the_clone(self, clone: Path, source: Path) -> None:
        register(str(source))
        assert f"removed: {clone} (the rows in {FOLDER})" in map(str, unregister())
        assert not (clone / "build").exists() and not (clone / INFOS).exists()

    def test_the_current_folder_counts_if_it_is_the_clone(
        self, clone: Path, source: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(clone)
        assert register(str(source))[-1].subject == str(clone)

    def test_a_clone_that_cannot_be_written_is_told_and_the_rest_is_registered(self, clone: Path, source: Path) -> None:
        (clone / "build").write_text("in the way")
        assert register(str(source))[-1].action == "left out"

    def test_a_folder_that_is_no_clone_is_left_alone(self, home: Path, source: Path) -> None:
        (home / "work/ml-bench").mkdir()
        assert str(home) not in str(register(str(source))[-1])

    def test_the_yaml_says_what_the_builder_does(self) -> None:
        stated = yaml.safe_load((ROOT / ".huggingface.yaml").read_text(encoding="utf-8"))
        (info,) = stated["dataset_info"]
        assert {column["name"]: column["dtype"] for column in info["features"]} == COLUMNS
        splits = {item["config_name"]: {file["split"] for file in item["data_files"]} for item in stated["configs"]}
        assert splits == {name: set(CONFIGURATIONS[name]) - set(TRAINING_SPLITS) for name in CONFIGURATIONS}

    def test_a_change_of_the_sample_is_a_change_of_the_yaml_since_datasets_would_not_notice_it(self) -> None:
        sample = yaml.safe_load((ROOT / ".huggingface.yaml").read_text(encoding="utf-8"))["configs"][0]
        content = b"".join((ROOT / file["path"]).read_bytes() for file in sample["data_files"])
        assert sample["description"] == hashlib.sha256(content).hexdigest()


NAME = "tester/ml-bench"


def _publish(folders: list[Path]) -> list[str]:
    """Upload folders one after the other, and return their commits."""
    from huggingface_hub import HfApi

    api = HfApi(token=WRITER)
    api.create_repo(NAME, repo_type="dataset")
    return [str(api.upload_folder(repo_id=NAME, repo_type="dataset", folder_path=folder).oid) for folder in folders]


def _sizes_of_all(path: str) -> dict[str, dict[str, int]]:
    return {name: sizes(path, name) for name in datasets.get_dataset_config_names(path)}


def _streamed(path: str, **options: Any) -> dict[str, list[str]]:
    streams = datasets.load_dataset(path, streaming=True, **options)
    return {split: [row["task_id"] for row in rows] for split, rows in streams.items()}


def _refusal(*arguments: Any, **options: Any) -> str:
    try:
        datasets.load_dataset(*arguments, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was refused"


@pytest.fixture(scope="module")
def commits() -> list[str]:
    """The two commits of the repository, the older one with fewer rows."""
    return []


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, built: Path, commits: list[str]) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("hub")
    older = folder / "older"
    build_dataset(older, source=str(write_source(folder / "source", task_rows(4), task_rows(1))))
    with FakeHub() as hub, Process(hub.environment(folder, token=None)) as process:
        commits += process.run(_publish, [older, built])
        yield process


class TestFromTheHub:
    def test_every_configuration(self, client: Process) -> None:
        assert client.run(sizes, NAME) == SPLITS["default"]
        assert client.run(_sizes_of_all, NAME) == SPLITS

    def test_streaming(self, client: Process) -> None:
        assert client.run(_streamed, NAME)["L"] == [f"toy-repo/{number}" for number in range(1, 6)]

    def test_by_revision_also_streaming(self, client: Process, commits: list[str]) -> None:
        assert client.run(sizes, NAME, revision=commits[0]) == {"L": 4, "A": 1}
        assert client.run(sizes, NAME, revision=commits[1]) == {"L": 5, "A": 2}
        assert len(client.run(_streamed, NAME, revision=commits[0])["L"]) == 4

    def test_what_does_not_exist_is_named(self, client: Process) -> None:
        assert "no-such-revision" in client.run(_refusal, NAME, revision="no-such-revision")
        assert all(f"'{name}'" in client.run(_refusal, NAME, "nope") for name in CONFIGURATIONS)
        assert "['L', 'A']" in client.run(_refusal, NAME, split="nope")
        assert "tester/nothing" in client.run(_refusal, "tester/nothing")

    def test_a_snapshot_is_loaded_offline(self, client: Process, home: Path) -> None:
        from huggingface_hub import constants, snapshot_download

        cache = home / "hub"
        downloaded = client.run(snapshot_download, NAME, repo_type="dataset", cache_dir=cache)
        assert constants.HF_HUB_OFFLINE, "this process was to be offline"
        folder = snapshot_download(NAME, repo_type="dataset", cache_dir=cache)
        assert folder == downloaded
        assert sizes(folder) == SPLITS["default"]
        assert _sizes_of_all(folder) == SPLITS
        assert len(_streamed(folder)["L"]) == 5

    def test_the_bare_name_is_the_registered_data_though_the_hub_says_that_it_has_none(
        self, client: Process, source: Path
    ) -> None:
        client.run(register, str(source))
        assert client.run(sizes, "ml-bench") == SPLITS["default"]
