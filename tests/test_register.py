"""`ml-bench register`: the bare names in the caches, what else is in the caches, and what goes wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import evaluate
import pytest
import typer
from typer.testing import CliRunner

from ml_bench_cli.register import register as register_command
from ml_bench_dataset import COLUMNS, CONFIGURATIONS, UPSTREAM, DataError, MLBench
from ml_bench_hub import register_datasets
from ml_bench_hub.errors import HubError
from ml_bench_hub.register import Step, register, unregister
from tests.fakehub import FakeHub
from tests.hf_caches import Process, at_the_same_time, empty_caches, parquet, task_rows, tree, write_source

FROM_SOURCE = ("default", "ML-Bench-L", "ML-Bench-A")
METRIC = 'evaluate.load("ml_bench")'


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with empty_caches(tmp_path / "home") as home:
        yield home


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "source", task_rows(5), task_rows(2))


def actions(steps: list[Step]) -> dict[str, str]:
    return {step.subject: step.action for step in steps}


def counts(*arguments: Any, **options: Any) -> dict[str, int]:
    return {name: split.num_rows for name, split in datasets.load_dataset("ml-bench", *arguments, **options).items()}


def test_the_bare_name_gives_splits_l_and_a_and_every_other_configuration_by_its_name(home: Path, source: Path) -> None:
    assert actions(register(str(source))) == {**dict.fromkeys(CONFIGURATIONS, "registered"), METRIC: "registered"}
    assert counts() == {"L": 5, "A": 2}
    assert counts("default") == {"L": 5, "A": 2}
    assert counts("ML-Bench-L") == {"full": 5, "quarter": 2}
    assert counts("ML-Bench-A") == {"quarter": 2}
    assert counts("repositories") == {"test": 18}
    assert counts("sample") == {"L": 37, "A": 10}


def test_what_is_loaded_is_what_the_builder_makes(home: Path, source: Path, tmp_path: Path) -> None:
    register(str(source))
    for configuration in CONFIGURATIONS:
        given = str(source) if configuration in FROM_SOURCE else None
        builder: Any = MLBench(config_name=configuration, source=given, cache_dir=str(tmp_path / "own"))
        builder.download_and_prepare()
        made, loaded = builder.as_dataset(), datasets.load_dataset("ml-bench", configuration)
        assert loaded.keys() == made.keys()
        for split in made:
            assert loaded[split].features == made[split].features
            assert loaded[split].to_list() == made[split].to_list()
    assert list(datasets.load_dataset("ml-bench", split="L").features) == list(COLUMNS)


def test_slices_streaming_and_processes_work_with_the_bare_name(home: Path, source: Path) -> None:
    register(str(source))
    assert datasets.load_dataset("ml-bench", split="L[1:3]")["id"][:] == [2, 3]
    assert datasets.load_dataset("ml-bench", split="L[:40%]+A").num_rows == 4
    assert [row["id"] for row in datasets.load_dataset("ml-bench", split="L", streaming=True)] == [1, 2, 3, 4, 5]
    assert counts(num_proc=2) == {"L": 5, "A": 2}


def test_an_unknown_configuration_or_split_is_refused_with_the_names_that_exist(home: Path, source: Path) -> None:
    register(str(source))
    with pytest.raises(ValueError, match=r"'ML-Bench-A', 'ML-Bench-L', 'default', 'repositories', 'sample'"):
        datasets.load_dataset("ml-bench", "ML-Bench-X")
    with pytest.raises(ValueError, match=r"'L', 'A'"):
        datasets.load_dataset("ml-bench", split="full")


def test_training_splits_are_registered_where_the_source_has_them(home: Path, source: Path) -> None:
    (source / "data/id_train-00000-of-00001.parquet").write_bytes(parquet(task_rows(3)))
    register(str(source))
    assert counts("ML-Bench-L") == {"full": 5, "quarter": 2, "id_train": 3}


def test_a_second_run_changes_nothing_and_says_so(home: Path, source: Path) -> None:
    register(str(source))
    before = tree(home)
    assert set(actions(register(str(source))).values()) == {"unchanged"}
    assert tree(home) == before


def test_other_entries_of_the_caches_are_never_touched(home: Path, source: Path) -> None:
    others = [
        "datasets/ml-bench/default/0.0.0/0123/dataset_info.json",
        "datasets/ml-bench/mine/1.0.0/0123/dataset_info.json",
        "datasets/squad/default/0.0.0/0123/squad-train.arrow",
        "modules/evaluate_modules/__init__.py",
        "modules/evaluate_modules/metrics/__init__.py",
        "modules/evaluate_modules/metrics/evaluate-metric--accuracy/0123/accuracy.py",
        "modules/evaluate_modules/metrics/evaluate-metric--ml_bench/__init__.py",
        "modules/evaluate_modules/metrics/evaluate-metric--ml_bench/0123/ml_bench.py",
        "modules/__init__.py",
    ]
    for name in others:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text('{"config_name": "x"}' if name.endswith("json") else "")
    before = tree(home)
    register(str(source))
    during = tree(home)
    assert during.keys() > before.keys()
    assert {name: during[name] for name in before} == before
    unregister()
    assert tree(home) == before


def test_remove_takes_away_what_was_registered_and_a_second_one_has_nothing_to_do(home: Path, source: Path) -> None:
    register(str(source))
    datasets.load_dataset("ml-bench", split="L").map(lambda row: {"n": len(row["output"])})
    evaluate.load("ml_bench")
    assert actions(unregister()) == {**dict.fromkeys(CONFIGURATIONS, "removed"), METRIC: "removed"}
    assert not [name for name in tree(home) if "ml-bench" in name or ("ml_bench" in name and "modules" in name)]
    assert not list(home.rglob("ml-bench*.lock"))
    assert unregister() == []
    with pytest.raises((ConnectionError, FileNotFoundError)):
        datasets.load_dataset("ml-bench")
    with pytest.raises(FileNotFoundError):
        evaluate.load("ml_bench")


def test_remove_on_a_machine_without_caches_makes_none(home: Path) -> None:
    assert unregister() == []
    assert not (home / "datasets").exists()


def test_without_source_and_network_the_sample_and_the_repositories_are_registered(home: Path) -> None:
    steps = register()
    assert actions(steps) == {
        **dict.fromkeys(FROM_SOURCE, "left out"),
        **dict.fromkeys(("repositories", "sample", METRIC), "registered"),
    }
    assert counts("sample") == {"L": 37, "A": 10}
    reason = next(step.detail for step in steps if step.subject == "default")
    assert "super-dainiu/ml-bench" in reason and "--source" in reason and "\n" not in reason


def test_the_bare_name_is_refused_rather_than_another_configuration_given(home: Path) -> None:
    register()
    with pytest.raises(ValueError, match="multiple 'ml-bench' configurations"):
        datasets.load_dataset("ml-bench")


def test_a_result_cached_by_map_in_another_configuration_does_not_change_the_bare_name(
    home: Path, source: Path
) -> None:
    register(str(source))
    datasets.load_dataset("ml-bench", "ML-Bench-A", split="quarter").map(lambda row: {"n": 1})
    assert counts() == {"L": 5, "A": 2}


def test_after_map_in_two_configurations_the_bare_name_is_right_or_refused_and_register_mends_it(
    home: Path, source: Path
) -> None:
    register(str(source))
    datasets.load_dataset("ml-bench", split="L").map(lambda row: {"n": 1})
    assert counts() == {"L": 5, "A": 2}
    datasets.load_dataset("ml-bench", "ML-Bench-A", split="quarter").map(lambda row: {"n": 1})
    with pytest.raises(ValueError, match="multiple 'ml-bench' configurations"):
        datasets.load_dataset("ml-bench")
    assert counts("default") == {"L": 5, "A": 2}
    assert set(actions(register(str(source))).values()) == {"unchanged"}
    assert counts() == {"L": 5, "A": 2}


def test_a_local_folder_of_the_same_name_that_was_loaded_later_does_not_change_the_bare_name(
    home: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(str(source))
    write_source(tmp_path / "elsewhere" / "ml-bench", task_rows(9), None)
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path / "elsewhere")
        assert sum(counts().values()) == 9
    assert counts() == {"L": 5, "A": 2}


def test_changed_rows_replace_those_registered_before(home: Path, source: Path) -> None:
    register(str(source))
    write_source(source, task_rows(5, "coins"), task_rows(2))
    assert actions(register(str(source)))["default"] == "registered"
    assert all("coins" in row["output"] for row in datasets.load_dataset("ml-bench", split="L"))
    assert all("coins" in row["output"] for row in datasets.load_dataset("ml-bench", "ML-Bench-L", split="full"))
    assert len(list((home / "datasets/ml-bench").glob("*/*/*/dataset_info.json"))) == len(CONFIGURATIONS)


def test_two_sources_are_never_mixed(home: Path, source: Path, tmp_path: Path) -> None:
    register(str(source))
    other = write_source(tmp_path / "other", None, task_rows(3))
    steps = register(str(other))
    assert {name: actions(steps)[name] for name in FROM_SOURCE} == {
        "default": "left out",
        "ML-Bench-L": "left out",
        "ML-Bench-A": "registered",
    }
    assert counts("ML-Bench-A") == {"quarter": 3}
    with pytest.raises(ValueError, match="Couldn't find cache"):
        datasets.load_dataset("ml-bench", "ML-Bench-L")


def test_a_run_without_network_keeps_what_was_registered(home: Path, source: Path) -> None:
    register(str(source))
    steps = register()
    assert {actions(steps)[name] for name in FROM_SOURCE} == {"kept"}
    assert str(source) in next(step.detail for step in steps if step.subject == "default")
    assert counts() == {"L": 5, "A": 2}


def test_the_environment_variable_names_the_source_too(
    home: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ML_BENCH_SOURCE", str(source))
    register()
    assert counts() == {"L": 5, "A": 2}


@pytest.mark.parametrize("damage", ["lost file", "cut file", "broken mark", "mark of another version"])
def test_a_damaged_entry_is_made_anew(home: Path, source: Path, damage: str) -> None:
    register(str(source))
    (rows,) = (home / "datasets/ml-bench/default").glob("*/*/ml-bench-L.arrow")
    mark = rows.with_name(register_datasets.MARK)
    if damage == "lost file":
        rows.unlink()
    elif damage == "cut file":
        rows.write_bytes(rows.read_bytes()[:100])
    elif damage == "broken mark":
        mark.write_text("{")
    else:
        mark.write_text(json.dumps({**json.loads(mark.read_text()), "new_field": 1}))
    assert actions(register(str(source)))["default"] == "registered"
    assert counts() == {"L": 5, "A": 2}


def test_faulty_rows_are_named_and_nothing_is_changed(home: Path, source: Path, tmp_path: Path) -> None:
    register(str(source))
    before = tree(home)
    rows = task_rows(3)
    rows[1]["arguments"] = "epochs=3"
    faulty = write_source(tmp_path / "faulty", rows, None)
    with pytest.raises(DataError, match=r"row 1 .*column arguments: 'epochs=3' is not a Python dict literal"):
        register(str(faulty))
    assert tree(home) == before


def test_one_faulty_split_costs_the_configurations_that_need_it_only(home: Path, tmp_path: Path) -> None:
    rows = task_rows(3)
    rows[1]["type"] = "Poem"
    steps = register(str(write_source(tmp_path / "faulty", rows, task_rows(2))))
    assert {name: actions(steps)[name] for name in FROM_SOURCE} == {
        "default": "left out",
        "ML-Bench-L": "left out",
        "ML-Bench-A": "registered",
    }
    assert "'Poem'" in str(steps[0]) and "\n" not in str(steps[0])


@pytest.mark.parametrize("named", ["no/such/folder/here", "nobody/nothing", "/", "empty text"])
def test_a_named_source_that_gives_nothing_is_an_error_and_nothing_is_changed(home: Path, named: str) -> None:
    with pytest.raises(DataError, match=named):
        register("" if named == "empty text" else named)
    assert not list((home / "datasets").glob("ml-bench/*")) and not (home / "modules").exists()


def test_a_single_file_is_refused_since_it_holds_one_split_only(home: Path, source: Path) -> None:
    with pytest.raises(HubError, match="one file, which holds one split; put it into a folder"):
        register(str(source / "data/full-00000-of-00001.parquet"))


def test_a_cache_that_cannot_be_written_is_named(home: Path) -> None:
    (home / "datasets").write_text("a file in the way")
    with pytest.raises(HubError, match=r"home/datasets cannot be read or written: .*HF_HOME"):
        register("sample")


def test_a_module_cache_that_cannot_be_written_is_named(home: Path) -> None:
    (home / "modules").write_text("a file in the way")
    with pytest.raises(HubError, match=r"home/modules.* cannot be read or written: .*HF_HOME"):
        register("sample")


def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(
    home: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr("datasets.arrow_writer.ArrowWriter.finalize", full)
    with pytest.raises(HubError, match="somewhere cannot be read or written: No space left on device"):
        register(str(source))
    assert not [name for name in tree(home) if "ml-bench" in name]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_a_run_that_is_stopped_leaves_nothing_half_written(
    home: Path, source: Path, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]
) -> None:
    original = register_datasets.prepare

    def stopped(configuration: str, *rest: Any) -> Any:
        if configuration == "repositories":
            raise stop
        return original(configuration, *rest)

    monkeypatch.setattr(register_datasets, "prepare", stopped)
    with pytest.raises(stop):
        register(str(source))
    assert not [name for name in tree(home) if "ml-bench" in name]


def test_what_a_killed_run_left_is_swept(home: Path, source: Path) -> None:
    left = home / "datasets/.ml-bench-register-killed/ml-bench/default/1.0.0/0123"
    left.mkdir(parents=True)
    register(str(source))
    assert not list((home / "datasets").glob(".ml-bench-register-*"))


def _register(source: str) -> list[Step]:
    return register(source)


def test_two_runs_at_once_do_not_disturb_each_other(tmp_path: Path, source: Path) -> None:
    both = at_the_same_time(tmp_path / "hf", _register, [str(source)] * 2)
    assert sorted({step.action for step in steps} == {"registered"} for steps in both) == [False, True]
    assert sorted({step.action for step in steps} == {"unchanged"} for steps in both) == [False, True]
    entries = list((tmp_path / "hf/datasets/ml-bench").glob(f"*/*/*/{register_datasets.MARK}"))
    assert sorted(entry.parts[-4] for entry in entries) == sorted(CONFIGURATIONS)


class TestWithTheHub:
    """Upstream's data set on a Hub on loopback."""

    @pytest.fixture
    def upstream(self, tmp_path: Path, source: Path) -> Iterator[tuple[FakeHub, Process]]:
        files = {f"data/{path.name}": path.read_bytes() for path in (source / "data").iterdir()}
        with FakeHub() as hub:
            hub.create("datasets", UPSTREAM, files)
            with Process(hub.environment(tmp_path, token=None)) as process:
                yield hub, process

    def test_all_configurations_come_from_one_commit_which_is_named(self, upstream: tuple[FakeHub, Process]) -> None:
        hub, process = upstream
        commit = hub.repos["datasets", UPSTREAM].refs["main"]
        steps = {step.subject: step for step in process.run(register)}
        assert all(steps[name].detail.endswith(f"from {UPSTREAM}@{commit}") for name in FROM_SOURCE)
        assert process.run(counts) == {"L": 5, "A": 2}
        assert set(actions(process.run(register)).values()) == {"unchanged"}

    def test_a_new_commit_is_taken_and_an_old_one_can_be_named(self, upstream: tuple[FakeHub, Process]) -> None:
        hub, process = upstream
        repo = hub.repos["datasets", UPSTREAM]
        first = repo.refs["main"]
        process.run(register)
        repo.commit({**repo.files, "data/full-00000-of-00001.parquet": parquet(task_rows(7))}, "more rows")
        assert process.run(counts) == {"L": 5, "A": 2}
        assert actions(process.run(register))["default"] == "registered"
        assert process.run(counts) == {"L": 7, "A": 2}
        process.run(register, revision=first)
        assert process.run(counts) == {"L": 5, "A": 2}
        with pytest.raises(DataError, match="has no revision 'nope'"):
            process.run(register, revision="nope")
        assert process.run(counts) == {"L": 5, "A": 2}


def test_the_metric_is_loaded_from_any_folder_and_is_the_one_of_the_installed_package(home: Path) -> None:
    import ml_bench_metric.ml_bench

    register("sample")
    metric = evaluate.load("ml_bench")
    assert type(metric) is ml_bench_metric.ml_bench.MLBench
    assert metric.name == "ml_bench" and metric.module_type == "metric"


def test_the_registered_metric_says_how_to_install_a_package_that_is_missing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register("sample")
    for name in [name for name in sys.modules if name.partition(".")[0] == "ml_bench_metric"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ml_bench_metric", None)
    with pytest.raises(ImportError, match="pip install ml-bench"):
        evaluate.load("ml_bench")


def test_a_module_of_an_older_version_is_replaced(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("ml_bench_hub.register_evaluate._MODULE", "raise RuntimeError('old')\n")
        register("sample")
    assert actions(register("sample"))[METRIC] == "registered"
    assert evaluate.load("ml_bench").name == "ml_bench"
    assert len(list(home.rglob("evaluate-metric--ml_bench/*/ml_bench.py"))) == 1


def test_the_command_prints_a_line_for_each_thing(home: Path, source: Path) -> None:
    app = typer.Typer()
    app.command()(register_command)
    result = CliRunner().invoke(app, ["--source", str(source)])
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"registered: default (L 5, A 2, from {source})",
        f"registered: ML-Bench-L (full 5, quarter 2, from {source})",
        f"registered: ML-Bench-A (quarter 2, from {source})",
        "registered: repositories (test 18, from this package)",
        "registered: sample (L 37, A 10, from this package)",
        'registered: evaluate.load("ml_bench")',
    ]
    assert CliRunner().invoke(app, ["--remove"]).stdout.splitlines() == [
        'removed: ML-Bench-A, ML-Bench-L, default, repositories, sample, evaluate.load("ml_bench")'
    ]
    assert CliRunner().invoke(app, ["--remove"]).stdout == "nothing is registered\n"


def test_what_is_left_out_for_one_reason_is_one_line(home: Path) -> None:
    app = typer.Typer()
    app.command()(register_command)
    lines = CliRunner().invoke(app, []).stdout.splitlines()
    assert lines[0].startswith("left out: default, ML-Bench-L, ML-Bench-A (source 'super-dainiu/ml-bench'")
    assert len(lines) == 4
