"""One evaluation counts only what belongs to it: its candidates, its images, its selection of the tasks."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.evaluation import TMP_ASSETS, Settings
from ml_bench_metric.execution_cache import ExecutionCache
from ml_bench_metric.judge import Images, Judgement, about, find_images, identity
from ml_bench_metric.predictions import Prediction, Predictions
from ml_bench_metric.sandbox.execution import Assets, Execution
from ml_bench_metric.sandbox.protocol import Capacity, Job, SandboxError, Slot
from ml_bench_metric.store import RunFolder
from ml_bench_metric.summary import TotalTimes
from ml_bench_metric.workers import Workers
from tests.fakes import DIGEST, FakeSandbox, by_program
from tests.recipe_builders import FakeEngine, RecipeFolder, environment_record
from tests.result_builders import ERROR, execution, quick, result, task_set

NEW = "sha256:" + "1" * 64


def _predictions(*task_ids: str) -> Predictions:
    return Predictions(
        items={name: Prediction(task_id=name, candidates=("python train.py",), where="") for name in task_ids},
        problems=[],
    )


def test_stored_results_of_another_image_are_executed_again_and_not_counted(tmp_path: Path) -> None:
    names = ("a/1", "b/1", "c/1", "d/1")
    stored = [
        result("a/1", execution=execution(image=DIGEST)),
        result("b/1", execution=execution(image=NEW)),
        result("c/1", execution=execution(image=DIGEST)),
        result("d/1", execution=ERROR),
    ]
    with RunFolder(tmp_path, {}, {}) as folder:
        for one in stored:
            folder.append(one)
        digests = {"a/1": NEW, "b/1": NEW, "d/1": NEW}
        judgement = Judgement(_predictions(*names), task_set(*names), Settings(extract="none"), folder, digests=digests)
        assert [one.task_id for one in judgement.results()] == ["b/1", "c/1", "d/1"]
        todo = judgement.todo()
        assert [candidate.task.task_id for candidate in todo] == ["a/1"]
        images = Images(dict.fromkeys(names, TaskImage(DIGEST)), {})
        assert len(list(judgement.execute(todo, FakeSandbox(), images, Workers((Slot((0,)),), "")))) == 1
        assert judgement.todo(retry_errors=True)[-1].task.task_id == "d/1"


def test_a_candidate_whose_text_changed_is_executed_again(tmp_path: Path) -> None:
    with RunFolder(tmp_path, {}, {}) as folder:
        folder.append(result("a/1", text="another program"))
        judgement = Judgement(_predictions("a/1"), task_set("a/1"), Settings(extract="none"), folder)
        assert list(judgement.results()) == []
        assert len(judgement.todo()) == 1


def test_a_selection_of_repositories_is_part_of_a_runs_identity_and_facts() -> None:
    whole = task_set("a/1", "b/1")
    images = Images({"a/1": TaskImage(DIGEST)}, {"b/1": "none"})
    every = identity(Settings(), whole, images)
    assert every["selection"] == []
    assert identity(Settings(), replace(whole, selection=("b",)), images)["selection"] == ["b"]
    assert of_images(every) == {"image of a": DIGEST}
    capacity = Capacity(cpus=(0,), memory_bytes=1, description="fake")
    facts = about(
        ["ml-bench"], capacity, Workers((Slot((0,)),), ""), replace(whole, selection=("a",)), _predictions("a/1"), 1
    )
    assert facts["selection"] == ["a"]


def of_images(identity: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in identity.items() if key.startswith("image of")}


@pytest.mark.parametrize(
    ("assets", "said"), [("real", " (real)"), ("stand_in", " (stand_in)"), ("none", " (none)"), ("not_needed", "")]
)
def test_the_kind_of_assets_is_part_of_a_runs_identity(assets: Assets, said: str) -> None:
    images = Images({"a/1": TaskImage(DIGEST, assets)}, {})
    assert of_images(identity(Settings(), task_set("a/1"), images)) == {"image of a": DIGEST + said}


def test_all_images_of_a_repository_are_part_of_a_runs_identity_whatever_the_order() -> None:
    tasks = ("a/1", "a/2", "a/3", "b/1")
    by_task = {
        "a/1": TaskImage(NEW),
        "a/2": TaskImage(DIGEST, "stand_in"),
        "a/3": TaskImage(NEW),
        "b/1": TaskImage(NEW),
    }
    found = [of_images(identity(Settings(), task_set(*order), Images(by_task, {}))) for order in (tasks, tasks[::-1])]
    assert found[0] == found[1] == {"image of a": f"{DIGEST} (stand_in), {NEW}", "image of b": NEW}


# ---------------------------------------------------------------- finding images


def found(*records: dict[str, Any], tasks: tuple[str, ...] = ("r/1",), **wanted: Any) -> Images:
    sandbox: Any = SimpleNamespace(client=FakeEngine(*records))
    return find_images(sandbox, task_set(*tasks).tasks, **wanted)


def test_each_task_gets_the_image_that_serves_it_with_its_kind_of_assets() -> None:
    images = found(
        environment_record("whole", "a", repositories="r", assets="stand_in"),
        environment_record("part", "b", repositories="r", tasks="r/2"),
        tasks=("r/1", "r/2"),
    )
    assert images.by_task == {
        "r/1": TaskImage("sha256:" + "a" * 64, "stand_in"),
        "r/2": TaskImage("sha256:" + "b" * 64, "not_needed"),
    }
    assert images.missing == {}
    assert images.digests == {task_id: image.digest for task_id, image in images.by_task.items()}


@pytest.mark.parametrize(
    ("wanted", "options"),
    [
        ({}, ""),
        ({"assets": "stand_in"}, " --assets stand-in"),
        ({"assets": "real", "device": "gpu"}, " --assets real --device gpu"),
    ],
)
def test_a_missing_image_is_told_with_the_command_that_builds_what_is_wanted(
    recipe_folder: RecipeFolder, wanted: dict[str, str], options: str
) -> None:
    recipe_folder.repository("r")
    recipe_folder.recipe("part", tasks=["r/2"])
    recipe_folder.recipe("whole")
    images = found(environment_record("whole", repositories="x"), tasks=("r/1", "r/2"), **wanted)
    assert images.by_task == {}
    for task_id, recipe in (("r/1", "whole"), ("r/2", "part")):
        assert f"run `ml-bench images build {recipe}{options}`" in images.missing[task_id]
    with pytest.raises(SandboxError, match="nothing can be executed"):
        images.require_one()


def test_a_task_that_no_recipe_serves_concerns_no_other(recipe_folder: RecipeFolder) -> None:
    recipe_folder.repository("r")
    recipe_folder.recipe("whole")
    images = found(environment_record("whole", repositories="r"), tasks=("r/1", "nowhere/1"))
    images.require_one()
    assert set(images.by_task) == {"r/1"}
    assert "no environment for repository 'nowhere'" in images.missing["nowhere/1"]
    whole = task_set("r/1", "nowhere/1").tasks
    assert images.of(whole[0]) == images.by_task["r/1"]
    with pytest.raises(SandboxError, match="no environment for repository 'nowhere'"):
        images.of(whole[1])


def test_of_one_repositorys_tasks_only_those_of_a_changed_image_are_executed_again(tmp_path: Path) -> None:
    with RunFolder(tmp_path, {}, {}) as folder:
        for task_id in ("r/1", "r/2"):
            folder.append(result(task_id, execution=execution(image=DIGEST)))
        digests = {"r/1": DIGEST, "r/2": NEW}
        judgement = Judgement(_predictions("r/1", "r/2"), task_set("r/1", "r/2"), Settings(), folder, digests=digests)
        assert [one.task_id for one in judgement.results()] == ["r/1"]


# ---------------------------------------------------------------- the order of the tasks


class _Clockwork(FakeSandbox):
    """Candidates of a task take its seconds, as a program `sleep S` says; nothing else takes any time."""

    def __init__(self) -> None:
        super().__init__(behave=self._sleep)

    @staticmethod
    def _sleep(job: Job) -> Execution:
        time.sleep(float(job.program.split()[1]))
        return Execution(outcome="exited", status=0, image=DIGEST)


def _ended_after(seconds: dict[str, float], known: dict[str, float]) -> float:
    """Return how long two workers are busy with tasks that take so long, if so much is known of them."""
    predictions = Predictions(
        items={name: Prediction(task_id=name, candidates=(f"sleep {s}",), where="") for name, s in seconds.items()},
        problems=[],
    )
    judgement = Judgement(predictions, task_set(*seconds), Settings(extract="none"), seconds=known)
    images = Images(dict.fromkeys(seconds, TaskImage(DIGEST)), {})
    began = time.monotonic()
    workers = Workers((Slot((0,)), Slot((1,))), "")
    assert len(list(judgement.execute(judgement.todo(), _Clockwork(), images, workers))) == len(seconds)
    return time.monotonic() - began


def test_the_tail_of_a_run_is_short_where_long_tasks_are_known() -> None:
    seconds = {**{f"a/{number}": 0.1 for number in range(6)}, "b/1": 0.6}
    # Two workers have 1.2 s of work, and need 0.9 s for it where the long task comes last.
    assert _ended_after(seconds, seconds) < _ended_after(seconds, {}) - 0.1


# ---------------------------------------------------------------- nothing that happens on the way decides on a score

Fault = Literal["none", "refused once", "failed once", "refused", "failed"]
"""What the sandbox does to a text: nothing; a fault that the next try does not meet; or one that lasts until the run is
gone on with. It makes no sandbox, or fails while the candidate runs."""

_TEXTS = ("exit 0 # train.py", "exit 3 # train.py", "exit 0", "hang # train.py", "python train.py", "")
_TASKS = ("a/1", "a/2", "b/1")


class _Faulty(FakeSandbox):
    """A sandbox with a fault for some texts."""

    def __init__(self, faults: Mapping[tuple[str, str], Fault]) -> None:
        super().__init__(behave=self._behave)
        self._faults = dict(faults)
        self._guard = threading.Lock()
        self.refuse = lambda job: self._meets(job, "refused")

    def mend(self) -> None:
        self._faults.clear()

    def _meets(self, job: Job, kind: str) -> bool:
        key = (job.tmp_folder.removeprefix(f"{TMP_ASSETS}/"), job.program)
        with self._guard:
            fault = self._faults.get(key, "none")
            if fault == f"{kind} once":
                self._faults[key] = "none"
            return fault.startswith(kind)

    def _behave(self, job: Job) -> Execution:
        if self._meets(job, "failed"):
            return Execution(outcome="environment_error", reason="hiccup")
        return by_program(job)


@dataclass(frozen=True)
class _Circumstances:
    """All that may differ between two runs of the same candidates."""

    seconds: dict[str, float] = field(default_factory=dict)
    workers: int = 1
    shared: bool = False
    cache: Literal["off", "cold", "warm"] = "off"
    known: tuple[str, ...] = ()
    """Texts whose executions a warm cache has."""
    faults: dict[tuple[str, str], Fault] = field(default_factory=dict)


def _scores(answers: dict[str, list[str]], repeats: int, how: _Circumstances) -> bytes:
    """Return the summary of a run, but for its times, after what failed was tried again as with `--retry-errors`."""
    plain, tasks = Settings(extract="none"), task_set(*_TASKS)
    images = Images(dict.fromkeys(_TASKS, TaskImage(DIGEST)), {})
    slots = tuple(Slot() if how.shared else Slot((number,)) for number in range(how.workers))

    def predictions(chosen: Callable[[str], bool]) -> Predictions:
        found = {name: tuple(filter(chosen, texts)) for name, texts in answers.items()}
        items = {name: Prediction(task_id=name, candidates=texts, where="") for name, texts in found.items() if texts}
        return Predictions(items=items, problems=[])

    with tempfile.TemporaryDirectory() as place:
        cache = None if how.cache == "off" else ExecutionCache(Path(place) / "cache")
        if how.cache == "warm":
            before = Judgement(predictions(lambda text: text in how.known), tasks, plain, repeats=repeats, cache=cache)
            list(before.execute(before.todo(), FakeSandbox(), images, Workers((Slot((0,)),), "")))
        with RunFolder(Path(place) / "run", {}, {}) as folder:
            sandbox = _Faulty(how.faults)
            judgement = Judgement(
                predictions(lambda text: True), tasks, plain, folder, repeats, cache=cache, seconds=how.seconds
            )
            list(judgement.execute(judgement.todo(), sandbox, images, Workers(slots, "")))
            # What passes by itself has cost no verdict, and needs nobody to come back.
            left = {how.faults[c.task.task_id, c.text] for c in judgement.todo(retry_errors=True)}
            assert left <= {"refused", "failed"}
            sandbox.mend()
            list(judgement.execute(judgement.todo(retry_errors=True), sandbox, images, Workers(slots, "")))
            assert judgement.todo(retry_errors=True) == [] and sandbox.open == 0
            summary = judgement.summary(ks=[1, 2, 3], rule="original", estimator="unbiased")
    times = dict.fromkeys(TotalTimes.model_fields, 0)
    return summary.model_copy(update={"times": TotalTimes.model_validate(times)}).to_json().encode()


_ANSWERS = st.fixed_dictionaries({name: st.lists(st.sampled_from(_TEXTS), max_size=5) for name in _TASKS})
_CIRCUMSTANCES = st.builds(
    _Circumstances,
    seconds=st.dictionaries(st.sampled_from(_TASKS), st.floats(0.1, 60)),
    workers=st.integers(1, 5),
    shared=st.booleans(),
    cache=st.sampled_from(["off", "cold", "warm"]),
    known=st.lists(st.sampled_from(_TEXTS), unique=True).map(tuple),
    faults=st.dictionaries(
        st.tuples(st.sampled_from(_TASKS), st.sampled_from(_TEXTS)), st.sampled_from(get_args(Fault))
    ),
)


@quick
@given(_ANSWERS, st.integers(1, 2), _CIRCUMSTANCES)
def test_scores_are_the_same_bytes_whatever_order_workers_cache_and_passing_faults(
    answers: dict[str, list[str]], repeats: int, how: _Circumstances
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ml_bench_metric.evaluation._RETRY_SECONDS", 0.0)
        assert _scores(answers, repeats, how) == _scores(answers, repeats, _Circumstances())


@quick
@given(_ANSWERS, st.integers(1, 5))
def test_with_a_cache_identical_candidates_execute_once_on_any_number_of_workers(
    answers: dict[str, list[str]], workers: int
) -> None:
    sandbox = FakeSandbox()
    predictions = Predictions(
        items={name: Prediction(task_id=name, candidates=tuple(texts), where="") for name, texts in answers.items()},
        problems=[],
    )
    images = Images(dict.fromkeys(_TASKS, TaskImage(DIGEST)), {})
    slots = tuple(Slot((number,)) for number in range(workers))
    with tempfile.TemporaryDirectory() as place:
        cache = ExecutionCache(Path(place))
        judgement = Judgement(predictions, task_set(*_TASKS), Settings(extract="none"), cache=cache)
        results = list(judgement.execute(judgement.todo(), sandbox, images, Workers(slots, "")))
    assert len(results) == sum(map(len, answers.values()))
    assert len(sandbox.run) == sum(len(set(texts)) for texts in answers.values())
