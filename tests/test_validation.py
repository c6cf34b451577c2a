"""Validation: what executing the references says, where it is kept, and that it counts for nothing else."""

from __future__ import annotations

import multiprocessing
import random
from pathlib import Path
from typing import Any

import pytest

from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.evaluation import Settings
from ml_bench_metric.extraction import extract
from ml_bench_metric.results import RULES, Result
from ml_bench_metric.sandbox.execution import Times
from ml_bench_metric.sandbox.limits import Limits
from ml_bench_metric.summary import ExecutedCeiling, Summary, summarise
from ml_bench_metric.tasks import Task, TaskSet
from ml_bench_metric.validation import (
    NO_OPS,
    STORE_VARIABLE,
    Findings,
    ImageValidation,
    Made,
    Part,
    TaskValidation,
    ValidationsError,
    ValidationStore,
    candidates_of,
    content_of,
    expected_seconds,
    findings,
    with_executed_ceiling,
)
from tests.fakes import DIGEST
from tests.result_builders import BAD, ERROR, FAILING, PASSING, execution, result, task, task_set

OTHER = "sha256:" + "1" * 64
STILL = execution("still_running", cpu_seconds=0.1)
"""Passes under the original rule alone."""


def made(**facts: Any) -> Made:
    given = {"settings": Settings(), "split": "L", "tasks_digest": "0" * 64, "harness": "0.1.0", "engine": "fake"}
    more = {"load": 0.25, "cpus_are_shared": False, "date": "2026-11-30T01:02:03+00:00"}
    return Made(**{**given, **more, **facts})


def found_of(task_id: str = "a/1", *, passed: int = 2, strict: int | None = None, **facts: Any) -> TaskValidation:
    """What was found of a task whose reference was executed twice."""
    given: dict[str, Any] = {
        "content": content_of(task(task_id)),
        "outcomes": ("exited 0", "exited 0"),
        "passed": {"original": passed, "strict": passed if strict is None else strict},
        "seconds": 1.0,
        "cpu_seconds": 0.5,
        "peak_memory_bytes": 1000,
        "empty_passes": (),
        "no_op_passes": (),
    }
    return TaskValidation(**{**given, **facts})


def part_of(tasks: dict[str, TaskValidation]) -> Part:
    return Part(made=made(), tasks=tasks)


def results_of(task_id: str, *references: Any, empty: Any = None, no_op: Any = FAILING) -> list[Result]:
    """The results of one task's validation; an execution None is an answer without a program."""
    executions = [empty, no_op, *references]
    return [result(task_id, i, ran, text=None if ran is None else "x") for i, ran in enumerate(executions)]


def findings_of(results: list[Result], tasks: TaskSet, repeat: int) -> Findings:
    return findings(results, candidates_of(tasks.tasks, repeat), tasks)


# ---------------------------------------------------------------- what is executed, and what it says


def test_a_task_has_an_empty_candidate_one_that_does_nothing_and_its_reference_repeated() -> None:
    tasks = [task("a/1"), task("a/2", "Python Code")]
    predictions = candidates_of(tasks, 3)
    assert predictions.items["a/1"].candidates == ("", ":", *["python train.py"] * 3)
    assert predictions.items["a/2"].candidates[:2] == ("", NO_OPS["python"])
    once = candidates_of(tasks, 1).items["a/1"].candidates
    assert predictions.items["a/1"].candidates[: len(once)] == once, "more repeats would not go on with fewer"


@pytest.mark.parametrize("mode", ["auto", "none"])
@pytest.mark.parametrize("language", ["bash", "python"])
def test_a_program_that_does_nothing_is_a_program(language: Any, mode: Any) -> None:
    assert extract(NO_OPS[language], language, mode).program == NO_OPS[language]


def test_times_are_medians_memory_is_the_highest_and_outcomes_are_kept() -> None:
    def ran(seconds: float, cpu: float | None, peak: int | None) -> Any:
        return execution(times=Times(run=seconds), cpu_seconds=cpu, peak_memory_bytes=peak)

    references = [ran(3.0, 2.0, 10), ran(1.0, None, 30), ran(2.0, 1.0, None)]
    results = results_of("a/1", *references)
    random.Random(0).shuffle(results)
    found = findings_of(results, task_set("a/1"), 3).tasks["a/1"]
    assert (found.seconds, found.cpu_seconds, found.peak_memory_bytes) == (2.0, 1.5, 30)
    assert found.outcomes == ("exited 0",) * 3
    assert found.content == content_of(task("a/1"))
    unknown = findings_of(results_of("a/1", PASSING), task_set("a/1"), 1).tasks["a/1"]
    assert (unknown.cpu_seconds, unknown.peak_memory_bytes) == (None, None)


def test_passing_failing_and_flaky_are_told_apart_under_each_rule() -> None:
    results = [
        *results_of("a/1", PASSING, PASSING),
        *results_of("a/2", PASSING, FAILING),
        *results_of("a/3", STILL, PASSING),
        *results_of("a/4", FAILING, FAILING),
        *results_of("a/5", None, None),
    ]
    found = findings_of(results, task_set(*(f"a/{i}" for i in range(1, 6))), 2).tasks
    assert {name: [(one.passes(rule), one.is_flaky(rule)) for rule in RULES] for name, one in found.items()} == {
        "a/1": [(True, False), (True, False)],
        "a/2": [(False, True), (False, True)],
        "a/3": [(True, False), (False, True)],
        "a/4": [(False, False), (False, False)],
        "a/5": [(False, False), (False, False)],
    }
    assert found["a/3"].outcomes == ("still_running", "exited 0")
    assert found["a/5"].outcomes == ("no_program", "no_program")


def test_the_static_checks_of_a_reference_count_in_its_verdict() -> None:
    results = results_of("a/1", PASSING)
    results[2] = result("a/1", 2, PASSING, original=BAD)
    found = findings_of(results, task_set("a/1"), 1).tasks["a/1"]
    assert found.passed == {"original": 0, "strict": 1}


def test_candidates_that_pass_without_doing_anything_are_named_by_rule() -> None:
    results = [*results_of("a/1", PASSING, empty=PASSING), *results_of("a/2", PASSING, no_op=STILL)]
    found = findings_of(results, task_set("a/1", "a/2"), 1).tasks
    assert [(one.empty_passes, one.no_op_passes) for one in found.values()] == [(RULES, ()), ((), ("original",))]


def test_what_the_sandbox_failed_says_nothing_about_a_reference() -> None:
    results = [
        *results_of("a/1", ERROR, PASSING),
        *results_of("a/2", ERROR, ERROR),
        *results_of("a/3", PASSING, PASSING, no_op=ERROR),
    ]
    found = findings_of(results, task_set("a/1", "a/2", "a/3"), 2)
    assert list(found.tasks) == ["a/1"]
    assert (found.tasks["a/1"].outcomes, found.tasks["a/1"].passes("original")) == (("exited 0",), True)
    assert found.failed == {"a/2": "no image for repo", "a/3": "no image for repo"}


def test_a_task_that_was_not_executed_to_its_end_is_pending() -> None:
    results = results_of("a/1", PASSING, PASSING)
    found = findings_of(results[:-1], task_set("a/1", "a/2"), 2)
    assert (found.tasks, found.failed, found.pending) == ({}, {}, ("a/1", "a/2"))


# ---------------------------------------------------------------- where it is kept


def images_of(**digests: str) -> dict[str, TaskImage]:
    return {name.replace("_", "/"): TaskImage(digest, "stand_in") for name, digest in digests.items()}


def test_an_image_has_a_file_that_grows_by_task(tmp_path: Path) -> None:
    store = ValidationStore(tmp_path / "deep" / "validations")
    assert store.read(DIGEST) is None
    store.add(Findings({"a/1": found_of(), "b/1": found_of("b/1")}), images_of(a_1=DIGEST, b_1=OTHER), made())
    store.add(Findings({"a/2": found_of("a/2")}), images_of(a_2=DIGEST), made(engine="another"))
    assert {path.name for path in store.folder.glob("*.json")} == {"0" * 64 + ".json", "1" * 64 + ".json"}
    known = store.read(DIGEST)
    assert known is not None
    assert (known.image, known.assets) == (DIGEST, "stand_in")
    assert [(list(part.tasks), part.made.engine) for part in known.parts] == [(["a/1"], "fake"), (["a/2"], "another")]
    assert list(store.of_images([DIGEST, "sha256:" + "2" * 64, DIGEST])) == [DIGEST]


def test_validating_again_replaces_a_task_and_leaves_the_others(tmp_path: Path) -> None:
    store = ValidationStore(tmp_path)
    both = Findings({"a/1": found_of(), "a/2": found_of("a/2")})
    store.add(both, images_of(a_1=DIGEST, a_2=DIGEST), made())
    store.add(Findings({"a/1": found_of(passed=0)}), images_of(a_1=DIGEST), made())
    known = store.read(DIGEST)
    assert known is not None
    assert [list(part.tasks) for part in known.parts] == [["a/2"], ["a/1"]]
    found = known.of(task("a/1"), Settings())
    assert found is not None and found.passed["original"] == 0
    store.add(both, images_of(a_1=DIGEST, a_2=DIGEST), made())
    assert [list(part.tasks) for part in _read(store).parts] == [["a/1", "a/2"]]


def _read(store: ValidationStore) -> ImageValidation:
    known = store.read(DIGEST)
    assert known is not None
    return known


def test_other_limits_have_a_validation_of_their_own(tmp_path: Path) -> None:
    store = ValidationStore(tmp_path)
    longer = Settings(seconds=60)
    store.add(Findings({"a/1": found_of()}), images_of(a_1=DIGEST), made())
    store.add(Findings({"a/1": found_of(passed=0)}), images_of(a_1=DIGEST), made(settings=longer))
    known = _read(store)
    assert [known.of(task("a/1"), one) for one in (Settings(), longer)] == [found_of(), found_of(passed=0)]
    assert known.of(task("a/1"), Settings(limits=Limits(cpus=2))) is None


def test_a_task_that_changed_has_no_validation() -> None:
    known = ImageValidation(image=DIGEST, assets="real", parts=()).with_part(part_of({"a/1": found_of()}))
    assert known.of(task("a/1"), Settings()) is not None
    assert known.of(task("a/1").model_copy(update={"output": "python train.py --more"}), Settings()) is None


def test_the_folder_is_the_users_own_or_the_one_that_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv(STORE_VARIABLE, raising=False)
    assert ValidationStore().folder == tmp_path / ".local" / "share" / "ml-bench" / "validations"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert ValidationStore().folder == tmp_path / "data" / "ml-bench" / "validations"
    monkeypatch.setenv(STORE_VARIABLE, str(tmp_path / "mine"))
    assert ValidationStore().folder == tmp_path / "mine"


@pytest.mark.parametrize("content", ["", "[]", '{"image": 1}', "{", '{"image": "x", "assets": "real", "parts": [{}]}'])
def test_a_damaged_file_is_named_with_the_way_out(tmp_path: Path, content: str) -> None:
    store = ValidationStore(tmp_path)
    store.path(DIGEST).write_text(content)
    for access in (
        lambda: store.read(DIGEST),
        lambda: store.of_images([DIGEST]),
        lambda: store.add(Findings({"a/1": found_of()}), images_of(a_1=DIGEST), made()),
    ):
        with pytest.raises(ValidationsError, match=r"0\.json is no validation of this version .*remove it") as error:
            access()
        assert "\n" not in str(error.value)
    assert store.path(DIGEST).read_text() == content


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValidationsError, match=f"cannot be written: .*{STORE_VARIABLE}"):
        ValidationStore(tmp_path / "file").add(Findings({"a/1": found_of()}), images_of(a_1=DIGEST), made())


def _add_one(folder: Path, number: int) -> None:
    name = f"a/{number}"
    ValidationStore(folder).add(Findings({name: found_of(name)}), {name: TaskImage(DIGEST)}, made())


def test_validations_that_end_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_add_one, args=(tmp_path, number)) for number in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert {task_id for part in _read(ValidationStore(tmp_path)).parts for task_id in part.tasks} == {
        f"a/{number}" for number in range(8)
    }


# ---------------------------------------------------------------- what evaluations know of it


def ceiling_of(
    known: dict[str, TaskValidation],
    tasks: TaskSet,
    digests: dict[str, str],
    settings: Settings | None = None,
) -> dict[Any, ExecutedCeiling] | None:
    """What a run over some tasks knows, where one image has a validation."""
    validation = ImageValidation(image=DIGEST, assets="real", parts=(part_of(known),))
    summary: Summary = summarise([], tasks, {}, ks=[1])
    return with_executed_ceiling(summary, tasks, digests, settings or Settings(), {DIGEST: validation}).executed_ceiling


def test_the_ceiling_counts_the_references_that_pass_whenever_they_are_executed() -> None:
    known = {"a/1": found_of(), "a/2": found_of("a/2", passed=1), "a/3": found_of("a/3", strict=0)}
    names = ["a/1", "a/2", "a/3", "a/4"]
    assert ceiling_of(known, task_set(*names), dict.fromkeys(names, DIGEST)) == {
        "original": ExecutedCeiling(passed=2, flaky=1, tasks=3, not_validated=1, share=2 / 3),
        "strict": ExecutedCeiling(passed=1, flaky=1, tasks=3, not_validated=1, share=1 / 3),
    }


def test_another_image_other_limits_or_another_task_have_no_ceiling() -> None:
    known, tasks = {"a/1": found_of()}, task_set("a/1")
    assert ceiling_of(known, tasks, {"a/1": DIGEST}) is not None
    assert ceiling_of(known, tasks, {"a/1": OTHER}) is None
    assert ceiling_of(known, tasks, {}) is None
    assert ceiling_of(known, tasks, {"a/1": DIGEST}, Settings(seconds=60)) is None
    assert ceiling_of(known, tasks, {"a/1": DIGEST}, Settings(extract="none")) is None
    changed: Task = task("a/1").model_copy(update={"arguments": "{'lr': 1}"})
    assert ceiling_of(known, task_set(changed), {"a/1": DIGEST}) is None


def test_a_validation_of_one_image_says_nothing_about_a_task_in_another() -> None:
    known = {"a/1": found_of(), "b/1": found_of("b/1")}
    found = ceiling_of(known, task_set("a/1", "b/1"), {"a/1": DIGEST, "b/1": OTHER})
    assert found is not None
    assert (found["original"].tasks, found["original"].not_validated) == (1, 1)


# ---------------------------------------------------------------- what it says of how long tasks take


def test_how_long_a_reference_ran_is_known_for_the_same_image_settings_and_text() -> None:
    tasks = task_set("a/1", "a/2", "b/1", "c/1")
    digests = {"a/1": DIGEST, "a/2": DIGEST, "b/1": OTHER}
    found = {
        "a/1": found_of("a/1", seconds=7.5),
        "a/2": found_of("a/2", seconds=3.0, content="0" * 64),
        "b/1": found_of("b/1", seconds=2.0),
    }
    validations = {DIGEST: ImageValidation(image=DIGEST, assets="real", parts=(part_of(found),))}
    assert expected_seconds(tasks, digests, Settings(), validations) == {"a/1": 7.5}
    assert expected_seconds(tasks, digests, Settings(seconds=60), validations) == {}
