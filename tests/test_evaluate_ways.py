"""Every way to load the metric with `evaluate`, and every form of input that people give it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import evaluate
import numpy as np
import pytest

import ml_bench_metric
import ml_bench_metric.compute
from ml_bench_hub.register import register
from ml_bench_metric.tasks import Task
from tests.fakehub import FakeHub
from tests.hf_caches import ROOT, Process, at_the_same_time, empty_caches, jsonl

ROWS = jsonl(ROOT / "ml_bench_sample/tasks_l.jsonl")[:3]
IDS = [row["task_id"] for row in ROWS]
TEXTS = [["python a.py", "python b.py"], ["exit 1"], []]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with empty_caches(tmp_path / "home") as home:
        yield home


@pytest.fixture
def metric(home: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The metric, with a judge that returns what it is given."""

    def echo(predictions: Any, references: Any, **options: Any) -> dict[str, Any]:
        return {"predictions": predictions, "references": references, "options": options}

    monkeypatch.setattr(ml_bench_metric.compute, "compute", echo)
    return evaluate.load(ml_bench_metric.path())


def given(metric: Any, predictions: Any, references: Any) -> list[tuple[list[str], str]]:
    """Return the rows that the judge gets."""
    result = metric.compute(predictions=predictions, references=references)
    return list(zip(result["predictions"], result["references"], strict=True))


ROWS_GIVEN = list(zip(TEXTS, IDS, strict=True))


def _load_space_without_the_package() -> tuple[str, str]:
    """Return the module that the Space's metric is of, and what its use says where only `evaluate` is installed."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "ml_bench_metric"]:
        del sys.modules[name]
    sys.modules["ml_bench_metric"] = None  # type: ignore[assignment]
    metric = evaluate.load("tester/ml_bench")
    try:
        metric.compute(predictions=TEXTS, references=IDS)
    except ImportError as error:
        return type(metric).__module__, str(error)
    return type(metric).__module__, "nothing was refused"


def _one_of_two(number: int) -> Any:
    """Be one of two processes that evaluate together, with a judge that returns what it is given."""
    ml_bench_metric.compute.compute = lambda predictions, references, **options: dict(
        zip(references, predictions, strict=True)
    )
    metric = evaluate.load(ml_bench_metric.path(), num_process=2, process_id=number, experiment_id="two")
    metric.add_batch(predictions=[[f"a{number}"]], references=[f"task/{number}"])
    return metric.compute()


class TestLoading:
    def test_by_the_path_of_the_file(self, home: Path) -> None:
        assert evaluate.load(ml_bench_metric.path()).name == "ml_bench"

    @pytest.mark.parametrize(
        "path", ["ml_bench", "./ml_bench", "./ml_bench/", "ml_bench/ml_bench.py", str(ROOT / "ml_bench")]
    )
    def test_by_the_folder_in_a_checkout(self, home: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
        monkeypatch.chdir(ROOT)
        metric = evaluate.load(path)
        assert (metric.name, metric.module_type) == ("ml_bench", "metric")
        assert metric.description and metric.citation and "predictions" in metric.inputs_description

    def test_by_the_bare_name_after_a_registration_with_module_type_and_config_name(self, home: Path) -> None:
        register("sample")
        assert evaluate.load("ml_bench", module_type="metric", config_name="mine").config_name == "mine"

    def test_from_a_space_on_the_hub(self, tmp_path: Path) -> None:
        with FakeHub() as hub, Process(hub.environment(tmp_path, token=None)) as process:
            hub.create("spaces", "tester/ml_bench", {"ml_bench.py": Path(ml_bench_metric.path()).read_bytes()})
            module, advice = process.run(_load_space_without_the_package)
        assert "tester--ml_bench" in module
        assert "pip install ml-bench" in advice

    def test_where_only_evaluate_is_installed_it_loads_and_says_what_to_install(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = ml_bench_metric.path()
        for name in [name for name in sys.modules if name.partition(".")[0] in ("ml_bench_metric", "ml_bench_dataset")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "ml_bench_metric", None)
        metric = evaluate.load(path)
        with pytest.raises(ImportError, match="pip install ml-bench"):
            metric.compute(predictions=TEXTS, references=IDS)


class TestInput:
    def test_lists(self, metric: Any) -> None:
        assert given(metric, TEXTS, IDS) == ROWS_GIVEN

    def test_tuples(self, metric: Any) -> None:
        assert given(metric, tuple(map(tuple, TEXTS)), tuple(IDS)) == ROWS_GIVEN

    def test_numpy_arrays(self, metric: Any) -> None:
        predictions = np.array([["python a.py", "exit 1"], ["ls", ""]])
        assert given(metric, predictions, np.array(IDS[:2])) == [
            (["python a.py", "exit 1"], IDS[0]),
            (["ls", ""], IDS[1]),
        ]
        ragged = np.empty(3, dtype=object)
        ragged[:] = TEXTS
        assert given(metric, ragged, np.array(IDS, dtype=object)) == ROWS_GIVEN

    def test_columns_of_datasets(self, metric: Any) -> None:
        data = datasets.Dataset.from_dict({"answers": TEXTS, "task_id": IDS})
        assert given(metric, data["answers"], data["task_id"]) == ROWS_GIVEN
        assert given(metric, data[:]["answers"], data[:]["task_id"]) == ROWS_GIVEN

    def test_rows_as_references(self, metric: Any) -> None:
        data = datasets.Dataset.from_list(ROWS)
        for references in (ROWS, data, tuple(ROWS), data.with_format("numpy")):
            rows = given(metric, TEXTS, references)
            assert [texts for texts, _ in rows] == TEXTS
            assert [Task.from_row(json.loads(row)) for _, row in rows] == [Task.from_row(row) for row in ROWS]

    def test_add_and_add_batch_in_any_mixture(self, metric: Any) -> None:
        metric.add(prediction=TEXTS[0], reference=IDS[0])
        metric.add_batch(predictions=TEXTS[1:], references=ROWS[1:])
        result = metric.compute(k=[1], rule="strict")
        assert result["predictions"] == TEXTS
        assert result["references"][0] == IDS[0] and IDS[2] in result["references"][2]
        assert result["options"]["k"] == [1] and result["options"]["rule"] == "strict"
        assert given(metric, [["x"]], IDS[:1]) == [(["x"], IDS[0])]

    def test_texts_arrive_as_they_are(self, metric: Any) -> None:
        texts = ["", " a\r\nb\0c ", "🛑“”", "{'a': 1}", "x" * 100_000]
        assert given(metric, [texts], IDS[:1]) == [(texts, IDS[0])]

    def test_a_wrong_row_is_named_wherever_it_is(self, metric: Any) -> None:
        with pytest.raises(ValueError, match=r"predictions\[1\]"):
            metric.compute(predictions=[["a"], "b"], references=IDS[:2])
        with pytest.raises(ValueError, match=r"predictions\[1\]\[0\]"):
            metric.compute(predictions=[["a"], [3]], references=IDS[:2])
        with pytest.raises(ValueError, match=r"references\[1\]"):
            metric.compute(predictions=[["a"], ["b"]], references=[IDS[0], None])
        assert given(metric, TEXTS, IDS) == ROWS_GIVEN, "a refused call must leave nothing behind"

    def test_a_misspelt_option_is_refused(self, metric: Any) -> None:
        with pytest.raises(TypeError, match="num_worker"):
            metric.compute(predictions=TEXTS, references=IDS, num_worker=3)

    def test_combined_with_another_metric(self, metric: Any, home: Path) -> None:
        other = home / "other/counter/counter.py"
        other.parent.mkdir(parents=True)
        other.write_text(
            "import datasets\nimport evaluate\n\n\n"
            "class Counter(evaluate.Metric):\n"
            "    def _info(self):\n"
            "        features = {'predictions': datasets.Sequence(datasets.Value('string')),"
            " 'references': datasets.Value('string')}\n"
            "        return evaluate.MetricInfo('', '', datasets.Features(features))\n\n"
            "    def _compute(self, predictions, references):\n"
            "        return {'rows': len(references)}\n"
        )
        both = evaluate.combine([metric, evaluate.load(str(other))])
        result = both.compute(predictions=TEXTS, references=IDS)
        assert result["rows"] == 3 and result["predictions"] == TEXTS

    def test_two_processes_give_one_result(self, tmp_path: Path) -> None:
        assert at_the_same_time(tmp_path, _one_of_two, (0, 1)) == [{"task/0": ["a0"], "task/1": ["a1"]}, None]


@pytest.mark.docker
def test_candidates_are_executed_and_scored_through_evaluate(home: Path, sample_image: str) -> None:
    metric = evaluate.load(ml_bench_metric.path())
    good = ROWS[0]["output"]
    result = metric.compute(predictions=[[good, "exit 1"]], references=ROWS[:1], k=[1, 2], timeout=20)
    assert (result["pass@1"], result["pass@2"]) == (0.5, 1.0)
    assert type(result["pass@1"]) is float
    assert [detail["passed"] for detail in result["details"][IDS[0]]] == [True, False]
